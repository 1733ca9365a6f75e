// Package diag provides the operators' network tools: ping, traceroute, dig, curl and a TCP probe, packet captures, the table of
// connections, and the explanation why one machine cannot reach another.
package diag

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

// Deps holds what other rooms provide.
type Deps struct {
	// Explain returns the packet filter's decision about the first packet of a connection that does not come from the gateway.
	Explain func(c *httpd.Call, p Packet) (Verdict, error)
	// Zones returns the interfaces of each zone.
	Zones func(ctx context.Context) (map[value.Zone][]value.IfName, error)
	// Resolve asks the machine's own resolver for the addresses of a name.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
}

// Packet is the first packet of a connection.
type Packet struct {
	InInterface         value.IfName
	Source, Destination netip.Addr
	Protocol            string // tcp, udp, icmp, icmpv6
	Port                int    // zero for icmp
}

// Verdict is the decision about a packet.
type Verdict struct {
	Accepted bool
	// Path is input for the gateway itself, forward for forwarded packets, and unroutable without a route.
	Path string
	// Text says who decided it and why; Rule is set if it was one of the operator's.
	Text   string
	Rule   string
	RuleID *uuid.UUID
	// OutInterface and OutZone are where it leaves; empty unless it is forwarded.
	OutInterface, OutZone string
	// Destination and Port are those after NAT.
	Destination netip.Addr
	Port        int
	NAT         []Rewrite
}

// Rewrite is the effect of NAT.
type Rewrite struct {
	Destination bool // or the source
	Rule        string
	RuleID      *uuid.UUID
	From, To    string
}

// Room runs diagnostics.
type Room struct {
	*kit.Kit
	deps     Deps
	runs     runs
	captures turn
	table    *host.Question[host.ConnectionPage]
}

func New(k *kit.Kit, d Deps) *Room {
	return &Room{Kit: k, deps: d, runs: runs{meetings: map[uuid.UUID]*meeting{}}, table: host.NewQuestion[host.ConnectionPage]()}
}

const tag httpd.Tag = "diagnostics"

func (r *Room) Mount() {
	r.mountTools()
	r.mountCapture()
	r.mountConnections()
	httpd.Handle(r.Router, http.MethodPost, "/diagnostics/path", httpd.Write.Here(), tag.Audited("diagnostics.path", "Find out where a connection from a source to a destination fails, and why"),
		func(c *httpd.Call, in struct{ Body Question }) (Path, error) { return r.path(c, in.Body) })
	httpd.Stream(r.Router, "/diagnostics/live", httpd.AdminRead, tag.Doc("diagnostics.live", "Follow your own run of a tool. Closing the stream stops the tool"), r.follow)
}
