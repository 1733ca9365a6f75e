package dhcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/value"
)

// Kea's file format. The mark comes first, so that it is found without reading the rest.
type (
	keaFile struct {
		Dhcp4 keaServer `json:"Dhcp4"`
	}
	keaServer struct {
		// Mark is a tag that Kea does not use here, but reports on request: it tells which file Kea has read.
		Mark          string        `json:"server-tag"`
		Interfaces    keaInterfaces `json:"interfaces-config"`
		Control       keaSocket     `json:"control-socket"`
		Leases        keaLeases     `json:"lease-database"`
		Hooks         []keaHook     `json:"hooks-libraries"`
		Checks        keaChecks     `json:"sanity-checks"`
		Authoritative bool          `json:"authoritative"`
		ByClientID    bool          `json:"match-client-id"`
		DefaultLife   int           `json:"valid-lifetime"`
		ShortestLife  int           `json:"min-valid-lifetime"`
		LongestLife   int           `json:"max-valid-lifetime"`
		Timers        bool          `json:"calculate-tee-times"`
		Identifiers   []string      `json:"host-reservation-identifiers"`
		Global        bool          `json:"reservations-global"`
		InSubnet      bool          `json:"reservations-in-subnet"`
		OutOfPool     bool          `json:"reservations-out-of-pool"`
		Expired       keaExpired    `json:"expired-leases-processing"`
		Loggers       []keaLogger   `json:"loggers"`
		Subnets       []keaSubnet   `json:"subnet4"`
	}
	keaInterfaces struct {
		Names   []string `json:"interfaces"`
		Socket  string   `json:"dhcp-socket-type"`
		Retries uint32   `json:"service-sockets-max-retries"`
		Wait    int      `json:"service-sockets-retry-wait-time"`
		Context keaLinks `json:"user-context"`
	}
	keaLinks struct {
		Links []Link `json:"links"`
	}
	keaSocket struct {
		Type string `json:"socket-type"`
		Name string `json:"socket-name"`
	}
	keaLeases struct {
		Type    string `json:"type"`
		Persist bool   `json:"persist"`
		Name    string `json:"name"`
		Cleanup int    `json:"lfc-interval"`
	}
	keaHook struct {
		Library string `json:"library"`
	}
	keaChecks struct {
		Leases string `json:"lease-checks"`
	}
	keaExpired struct {
		Hold int `json:"hold-reclaimed-time"`
	}
	keaLogger struct {
		Name     string      `json:"name"`
		Severity string      `json:"severity"`
		Outputs  []keaOutput `json:"output_options"`
	}
	keaOutput struct {
		Output  string `json:"output"`
		Pattern string `json:"pattern"`
	}
	keaSubnet struct {
		ID           uint32          `json:"id"`
		Network      netip.Prefix    `json:"subnet"`
		Interface    string          `json:"interface"`
		Life         int             `json:"valid-lifetime,omitzero"`
		Pools        []keaPool       `json:"pools"`
		Options      []keaOption     `json:"option-data"`
		Reservations keaReservations `json:"reservations"`
	}
	keaPool struct {
		Pool string `json:"pool"`
	}
	keaOption struct {
		Name string `json:"name"`
		Data string `json:"data"`
	}
	keaReservations []*Reservation
)

// MarshalJSONTo writes the reservations. There may be thousands, written for every change; token by token this takes half the time.
func (list keaReservations) MarshalJSONTo(e *jsontext.Encoder) error {
	if err := e.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	for _, x := range list {
		if err := x.write(e); err != nil {
			return err
		}
	}
	return e.WriteToken(jsontext.EndArray)
}

func (r *Reservation) write(e *jsontext.Encoder) error {
	tokens := [...]jsontext.Token{
		jsontext.BeginObject, hwAddress, jsontext.String(r.MAC.String()), ipAddress, jsontext.String(r.IP.String()), hostname, jsontext.String(r.Hostname.String()),
	}
	written := tokens[:]
	if r.Hostname.IsZero() {
		written = tokens[:5]
	}
	for _, token := range written {
		if err := e.WriteToken(token); err != nil {
			return err
		}
	}
	return e.WriteToken(jsontext.EndObject)
}

var hwAddress, ipAddress, hostname = jsontext.String("hw-address"), jsontext.String("ip-address"), jsontext.String("hostname")

const (
	// shortestLease is the shortest lease that a client may request.
	shortestLease = 60
	// socketRetry is how often Kea retries to listen on a link that was down, in milliseconds.
	socketRetry = 2000
	// forever is the number of these retries.
	forever = 1<<32 - 1
	// cleanup is how often Kea rewrites its lease file, in seconds.
	cleanup = 3600
	// remembered is how long an expired lease is kept, in seconds, so that a returning client gets the same address.
	remembered = 86400
)

// Render renders the configuration into Kea's file.
func Render(c Config) ([]host.File, error) {
	content, err := json.Marshal(keaFile{c.server()}, jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	content = append(content, '\n')
	sum := sha256.Sum256(content)
	content = bytes.Replace(content, []byte(noMark), hex.AppendEncode([]byte(markPrefix), sum[:markBytes]), 1)
	return []host.File{{Place: kea.Config, Content: content}}, nil
}

// A mark is a hash of the file without the mark. A text of the same length takes its place for hashing; it is the first text in the file,
// so no other can be mistaken for it.
const (
	markPrefix = "gateway-"
	markBytes  = 16
	noMark     = markPrefix + "00000000000000000000000000000000"
)

func markOf(files []host.File) (string, error) {
	d := jsontext.NewDecoder(bytes.NewReader(files[0].Content))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return "", err
		}
		if token.Kind() == '"' && token.String() == "server-tag" {
			token, err = d.ReadToken()
			return token.String(), err
		}
	}
}

// chatty lists the loggers that log every query of a client (eight lines for one lease in 2.6) and every one of ours. Only their errors
// are logged.
var chatty = []string{"commands", "dhcp4", "leases", "packets"}

// server returns the file with a placeholder for its mark.
func (c Config) server() keaServer {
	stdout := []keaOutput{{Output: "stdout", Pattern: "%-5p %m\n"}} // the journal adds the time
	s := keaServer{
		Mark:       noMark,
		Interfaces: keaInterfaces{Names: []string{}, Socket: "raw", Retries: forever, Wait: socketRetry, Context: keaLinks{Links: c.Links}},
		Control:    keaSocket{Type: "unix", Name: c.Paths.Control},
		Leases:     keaLeases{Type: "memfile", Persist: true, Name: c.Paths.Leases, Cleanup: cleanup},
		Hooks:      []keaHook{{Library: c.Paths.LeaseCommands}},
		// A lease belongs to the subnet that contains its address, whatever the subnet's number was when the lease was given.
		Checks:        keaChecks{Leases: "fix"},
		Authoritative: true,
		// A machine is identified by its hardware address, as in a reservation, even if it boots another system with another client id.
		ByClientID:  false,
		DefaultLife: c.Settings.DefaultLeaseSeconds, ShortestLife: shortestLease, LongestLife: c.Settings.MaxLeaseSeconds, Timers: true,
		Identifiers: []string{"hw-address"}, InSubnet: true,
		Expired: keaExpired{Hold: remembered},
		Loggers: []keaLogger{{Name: "kea-dhcp4", Severity: "INFO", Outputs: stdout}},
		Subnets: []keaSubnet{},
	}
	for _, part := range chatty {
		s.Loggers = append(s.Loggers, keaLogger{Name: "kea-dhcp4." + part, Severity: "WARN", Outputs: stdout})
	}
	reserved := map[uuid.UUID]keaReservations{}
	for i := range c.Reservations {
		x := &c.Reservations[i]
		reserved[x.SubnetID] = append(reserved[x.SubnetID], x)
	}
	for _, x := range c.Subnets {
		s.Interfaces.Names = append(s.Interfaces.Names, x.Interface.String())
		s.Subnets = append(s.Subnets, x.kea(reserved[x.ID]))
	}
	return s
}

func (s Subnet) kea(reserved keaReservations) keaSubnet {
	k := keaSubnet{
		ID: s.number(), Network: s.CIDR.Netip(), Interface: s.Interface.String(),
		Pools:   []keaPool{{Pool: s.RangeStart.String() + " - " + s.RangeEnd.String()}},
		Options: []keaOption{}, Reservations: reserved,
	}
	if s.LeaseSeconds != nil {
		k.Life = *s.LeaseSeconds
	}
	option := func(name, data string) {
		if data != "" {
			k.Options = append(k.Options, keaOption{name, data})
		}
	}
	option("routers", s.Gateway.String())
	option("domain-name-servers", joined(s.DNSServers))
	option("ntp-servers", joined(s.NTPServers))
	option("domain-name", s.DomainName.String())
	return k
}

// number returns Kea's id of the subnet: the network address, which no other subnet has.
func (s Subnet) number() uint32 {
	first := s.CIDR.Netip().Addr().As4()
	return binary.BigEndian.Uint32(first[:])
}

func joined(list []value.Addr) string {
	words := make([]string, len(list))
	for i, a := range list {
		words[i] = a.String()
	}
	return strings.Join(words, ", ")
}
