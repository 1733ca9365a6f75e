// Package system manages the gateway as a whole: its health, services and resources, the components and their rendering, the global
// flags, and the views of the audit log.
package system

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/history"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

// Room manages the gateway as a whole.
type Room struct {
	*kit.Kit
	deps     Deps
	history  history.History[host.Resources, Load]
	settings resource.Singleton[Settings]
	taking   sync.Mutex // see takeIPv6
}

// Deps holds what other rooms provide.
type Deps struct {
	// Flags reads the global flags.
	Flags func() Flags
	// SetFlags changes and stores them.
	SetFlags func(change func(*Flags)) error
	// Role returns the gateway's role in its cluster, if known.
	Role func() string
	// Switches switches the daemons that follow settings, by their names in the API.
	Switches map[string]Switch
}

// Switch changes the settings that a daemon follows. note says what else is needed, if anything.
type Switch func(c *httpd.Call, as resource.Alias, on bool) (note string, err error)

// Flags are the global settings in the setup store, where they are available without a database.
type Flags struct {
	IPv6 bool
	// IPv6Kept means that the database decides about IPv6, not the setup.
	IPv6Kept    bool
	Maintenance bool
	AutoUpdate  bool
	Retention   Retention
}

func New(k *kit.Kit, d Deps) *Room {
	return &Room{Kit: k, deps: d, settings: settings, history: history.History[host.Resources, Load]{Point: load}}
}

func (r *Room) Mount() {
	r.mountHealth()
	r.mountLoad()
	r.mountServices()
	r.mountComponents()
	r.mountFlags()
	r.mountAudit()
}

const tag httpd.Tag = "system"

// Health identifies the gateway.
type Health struct {
	Version  string `json:"version" doc:"Version of the running program."`
	Hostname string `json:"hostname" doc:"Name of the machine."`
	OS       string `json:"os" doc:"Operating system."`
	Kernel   string `json:"kernel" doc:"Release of the kernel."`
	Database string `json:"database" enum:"up,away,newer" doc:"Whether the database is connected. A database that a newer version of the gateway has migrated is not used."`
	Role     string `json:"role" enum:"single,primary,stepping-down,standby,fenced,unknown" doc:"What this gateway is in its cluster. Only single and primary accept changes to what all nodes share. unknown: the database is not connected."`
}

// Resources is the load of the machine.
type Resources struct {
	Load1           float64 `json:"load1" doc:"Load average over a minute."`
	Load5           float64 `json:"load5" doc:"Load average over five minutes."`
	Load15          float64 `json:"load15" doc:"Load average over a quarter of an hour."`
	NumCPUs         int     `json:"num_cpus" doc:"Number of processors."`
	MemoryTotal     uint64  `json:"memory_total_bytes" doc:"Memory of the machine."`
	MemoryAvailable uint64  `json:"memory_available_bytes" doc:"Memory available to programs."`
	DiskTotal       uint64  `json:"disk_total_bytes" doc:"Size of the root file system, without reserved space."`
	DiskFree        uint64  `json:"disk_free_bytes" doc:"Free space of the root file system."`
	ConntrackCount  uint64  `json:"conntrack_count" doc:"Tracked connections."`
	ConntrackMax    uint64  `json:"conntrack_max" doc:"How many connections can be tracked; 0 where the kernel tracks none."`
	UptimeSeconds   int64   `json:"uptime_seconds" doc:"Seconds since the machine started."`
	Error           string  `json:"error" doc:"Why the numbers are missing; empty otherwise."`
}

// Interface is a network interface of the kernel.
type Interface struct {
	Index     int       `json:"ifindex" doc:"Number of the interface."`
	Name      string    `json:"ifname" doc:"Name of the interface."`
	Flags     []string  `json:"flags" doc:"Flags, for example UP and BROADCAST."`
	MTU       int       `json:"mtu" doc:"Largest packet in bytes."`
	LinkType  string    `json:"link_type" doc:"Kind of interface, for example ether."`
	Address   string    `json:"address" doc:"MAC address."`
	AddrInfo  []Address `json:"addr_info" doc:"IP addresses."`
	RxBytes   uint64    `json:"rx_bytes" doc:"Bytes received."`
	TxBytes   uint64    `json:"tx_bytes" doc:"Bytes sent."`
	RxPackets uint64    `json:"rx_packets" doc:"Packets received."`
	TxPackets uint64    `json:"tx_packets" doc:"Packets sent."`
	RxDrop    uint64    `json:"rx_drop" doc:"Packets dropped on receipt."`
	TxDrop    uint64    `json:"tx_drop" doc:"Packets dropped on sending."`
	Tunnel    bool      `json:"tunnel,omitzero" doc:"Whether it is a tunnel of the gateway; its addresses are then set on the tunnel."`
	Error     string    `json:"error,omitzero" doc:"Why the interfaces cannot be read from the kernel. This is then the only entry, and its other fields are meaningless."`
}

// Address is one IP address of an interface.
type Address struct {
	Family    string `json:"family" enum:"inet,inet6" doc:"Address family."`
	Local     string `json:"local" doc:"The address."`
	PrefixLen int    `json:"prefixlen" doc:"Prefix length."`
	Scope     string `json:"scope" doc:"Scope: global, link or host."`
}

func (r *Room) mountHealth() {
	httpd.Handle(r.Router, http.MethodGet, "/system/health", httpd.Public.BeforeSetup(), tag.Doc("system.health", "Identity and health of the gateway"),
		func(*httpd.Call, struct{}) (Health, error) {
			f := r.Host.Facts()
			h := Health{Version: r.Version, Hostname: f.Hostname, OS: f.OS, Kernel: f.Kernel, Database: "away", Role: "unknown"}
			switch {
			case r.DB.Attached():
				h.Database = "up"
				h.Role = cmp.Or(r.deps.Role(), h.Role)
			case r.DB.Newer():
				h.Database = "newer"
			}
			return h, nil
		})
	httpd.Handle(r.Router, http.MethodGet, "/system/resources", httpd.Read.Offline(), tag.Doc("system.resources", "Load, memory, disk and connection tracking"),
		func(c *httpd.Call, _ struct{}) (Resources, error) {
			x, err := host.Ask(c, func(context.Context) (host.Resources, error) { return r.Host.Resources() })
			if err != nil {
				r.Log.Warn("reading resources", "err", err)
				return Resources{Error: "The machine's load cannot be read."}, nil
			}
			return Resources{
				Load1: x.Load1, Load5: x.Load5, Load15: x.Load15, NumCPUs: x.NumCPUs,
				MemoryTotal: x.MemoryTotal, MemoryAvailable: x.MemoryAvailable, DiskTotal: x.DiskTotal, DiskFree: x.DiskFree,
				ConntrackCount: x.ConntrackCount, ConntrackMax: x.ConntrackMax, UptimeSeconds: int64(x.Uptime.Seconds()),
			}, nil
		})
	httpd.Handle(r.Router, http.MethodGet, "/system/interfaces", httpd.Read.Offline(), tag.Doc("system.interfaces", "Network interfaces of the kernel"),
		func(c *httpd.Call, _ struct{}) ([]Interface, error) {
			links, err := host.Ask(c, r.Host.Links)
			if err != nil {
				r.Log.Warn("reading interfaces", "err", err)
				return []Interface{{Error: "The kernel's interfaces cannot be read."}}, nil
			}
			list := make([]Interface, len(links))
			for i, l := range links {
				list[i] = Interface{
					Index: l.Index, Name: l.Name, Flags: l.Flags, MTU: l.MTU, LinkType: l.Type, Address: l.Address,
					RxBytes: l.RxBytes, TxBytes: l.TxBytes, RxPackets: l.RxPackets, TxPackets: l.TxPackets, RxDrop: l.RxDrop, TxDrop: l.TxDrop,
					Tunnel: strings.HasPrefix(l.Alias, host.OwnTunnel),
				}
				for _, a := range l.Addrs {
					list[i].AddrInfo = append(list[i].AddrInfo, Address{Family: a.Family, Local: a.Local, PrefixLen: a.PrefixLen, Scope: a.Scope})
				}
			}
			return list, nil
		})
}
