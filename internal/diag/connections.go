package diag

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Connection is a connection through or to the gateway.
type Connection struct {
	ID              string `json:"id" doc:"Id, to end it by."`
	Protocol        string `json:"protocol" doc:"tcp, udp, icmp, icmpv6, or the number of another protocol."`
	State           string `json:"state" doc:"State of a TCP connection, for example established; for other protocols replied or unreplied."`
	Source          string `json:"source" doc:"Address that started it."`
	SourcePort      *int   `json:"source_port" doc:"Source port; null for protocols without ports."`
	Destination     string `json:"destination" doc:"Destination address before NAT."`
	DestinationPort *int   `json:"destination_port" doc:"Destination port; null for protocols without ports."`
	NAT             string `json:"nat" enum:",source,destination,both" doc:"What NAT rewrites: the source, the destination, both, or nothing when it is empty."`
	// NAT is visible in the addresses of the answers.
	SeenSource          string `json:"seen_source" doc:"Address that the destination sees it come from: after NAT."`
	SeenSourcePort      *int   `json:"seen_source_port" doc:"Port that the destination sees it come from."`
	SeenDestination     string `json:"seen_destination" doc:"Destination address after NAT."`
	SeenDestinationPort *int   `json:"seen_destination_port" doc:"Destination port after NAT."`
	Seconds             uint32 `json:"seconds" doc:"When the gateway forgets it, unless there are packets."`
	Assured             bool   `json:"assured" doc:"Whether it is kept if the table is full."`
	SentBytes           uint64 `json:"sent_bytes" doc:"Bytes from the source to the destination; 0 where the kernel does not count."`
	SentPackets         uint64 `json:"sent_packets" doc:"Packets from the source to the destination."`
	ReceivedBytes       uint64 `json:"received_bytes" doc:"Bytes of the answers."`
	ReceivedPackets     uint64 `json:"received_packets" doc:"Packets of the answers."`
}

// Connections is a page of the table.
type Connections struct {
	Connections []Connection `json:"connections" doc:"By source, destination and port."`
	Matching    int          `json:"matching" doc:"How many the filters match, on all pages."`
	Total       int          `json:"total" doc:"Number of tracked connections."`
	Next        string       `json:"next" doc:"Value of after for the next page; empty on the last."`
	Error       string       `json:"error" doc:"Why the table could not be read; empty when it could."`
}

const (
	connectionsShown = 100
	connectionsMost  = 1000
)

type connectionQuery struct {
	Source      value.Prefix `query:"source" doc:"Address or network that started it."`
	Destination value.Prefix `query:"destination" doc:"Destination address or network, before or after NAT."`
	Port        *int         `query:"port" doc:"Port of either end, before or after NAT."`
	Protocol    string       `query:"protocol" doc:"tcp, udp, icmp, icmpv6, or the number of another protocol."`
	State       string       `query:"state" doc:"State of TCP connections, for example established, or unreplied for all that had no answer."`
	Limit       *int         `query:"limit" doc:"How many, at most 1000; 100 by default."`
	After       string       `query:"after" doc:"The next of the page before."`
}

var protocolNumbers = map[string]uint8{"tcp": 6, "udp": 17, "icmp": 1, "icmpv6": 58}

func protocolName(n uint8) string {
	for name, number := range protocolNumbers {
		if number == n {
			return name
		}
	}
	return strconv.Itoa(int(n))
}

// states maps names to the states of TCP connections.
var states = func() map[string]host.ConnectionState {
	words := map[string]host.ConnectionState{}
	for s := host.ConnectionState(1); s.String() != ""; s++ {
		words[s.String()] = s
	}
	return words
}()

func (q *connectionQuery) Validate() error {
	var c check.List
	_, err := q.query()
	if err := c.Merge(err); err != nil {
		return err
	}
	c.That(q.Port == nil || *q.Port >= 1 && *q.Port <= 65535, "port", "must be between 1 and 65535")
	c.That(q.Limit == nil || *q.Limit >= 1 && *q.Limit <= connectionsMost, "limit", "must be between 1 and %d", connectionsMost)
	if !q.Source.IsZero() && !q.Destination.IsZero() {
		family(&c, "destination", q.Source.Netip().Addr(), q.Destination.Netip().Addr())
	}
	return c.Err()
}

// query converts the query for the machine.
func (q *connectionQuery) query() (host.ConnectionQuery, error) {
	var c check.List
	asked := host.ConnectionQuery{Source: q.Source.Netip(), Destination: q.Destination.Netip(), Port: uint16(or(q.Port, 0)), Limit: or(q.Limit, connectionsShown)}
	if q.Protocol != "" {
		number, known := protocolNumbers[strings.ToLower(q.Protocol)]
		n, err := strconv.ParseUint(q.Protocol, 10, 8)
		c.That(known || err == nil && n > 0, "protocol", "must be tcp, udp, icmp, icmpv6 or a number up to 255")
		if asked.Protocol = number; !known {
			asked.Protocol = uint8(n)
		}
	}
	switch state, known := states[q.State]; {
	case q.State == "unreplied":
		asked.Unreplied = true
	case known:
		asked.States = []host.ConnectionState{state}
	case q.State != "":
		words := make([]string, 0, len(states))
		for word := range states {
			words = append(words, word)
		}
		slices.Sort(words)
		c.Add("state", "must be unreplied or one of %s", strings.Join(words, ", "))
	}
	if q.After != "" {
		key, err := parseConnectionID(q.After)
		c.That(err == nil, "after", "must be the value of next in an earlier answer")
		asked.After = &key
	}
	return asked, c.Err()
}

func (r *Room) mountConnections() {
	httpd.Handle(r.Router, http.MethodGet, "/diagnostics/connections", httpd.Read, tag.Doc("diagnostics.connection.list", "List the tracked connections"),
		func(c *httpd.Call, in connectionQuery) (Connections, error) {
			q, err := in.query()
			if err != nil {
				return Connections{}, err
			}
			return r.connections(c, c.Request.URL.RawQuery, q), nil
		})
	httpd.Handle(r.Router, http.MethodDelete, "/diagnostics/connections/{id}", httpd.Write.Here(), tag.Audited("diagnostics.connection.delete", "Remove a connection from the table. Its next packets are checked against the current rules"),
		func(c *httpd.Call, in struct {
			ID string `path:"id" doc:"Id of the connection."`
		}) (resource.Deleted, error) {
			return resource.Deleted{ID: in.ID}, r.endConnection(c, in.ID)
		})
}

// connections reads the table; requests with the same key share an answer.
func (r *Room) connections(c *httpd.Call, same string, q host.ConnectionQuery) Connections {
	page, err := r.table.Ask(c, same, func(ctx context.Context) (host.ConnectionPage, error) { return r.Host.Connections(ctx, q) })
	if err != nil {
		r.Log.Warn("the table of connections was not read", "err", err)
		return Connections{Connections: []Connection{}, Error: "The kernel's connection table cannot be read."}
	}
	out := Connections{Connections: make([]Connection, 0, len(page.List)), Matching: page.Matching, Total: page.Total}
	for i := range page.List {
		out.Connections = append(out.Connections, view(&page.List[i]))
	}
	if page.More {
		out.Next = out.Connections[len(out.Connections)-1].ID
	}
	return out
}

// view converts a connection for the API.
func view(c *host.Connection) Connection {
	out := Connection{
		ID: connectionID(c.ConnectionKey), Protocol: protocolName(c.Protocol), State: c.State.String(), Source: c.Source.String(), Destination: c.Destination.String(),
		SeenSource: c.Reply.Destination.String(), SeenDestination: c.Reply.Source.String(), Seconds: c.Seconds, Assured: c.Assured,
		SentBytes: c.SentBytes, SentPackets: c.SentPackets, ReceivedBytes: c.ReceivedBytes, ReceivedPackets: c.ReceivedPackets,
	}
	if out.State == "" {
		out.State = "unreplied"
		if c.Replied {
			out.State = "replied"
		}
	}
	switch {
	case c.SourceNAT && c.DestinationNAT:
		out.NAT = "both"
	case c.SourceNAT:
		out.NAT = "source"
	case c.DestinationNAT:
		out.NAT = "destination"
	}
	if c.Protocol != protocolNumbers["icmp"] && c.Protocol != protocolNumbers["icmpv6"] && (c.SourcePort != 0 || c.DestinationPort != 0) {
		number := func(n uint16) *int { return new(int(n)) }
		out.SourcePort, out.DestinationPort = number(c.SourcePort), number(c.DestinationPort)
		out.SeenSourcePort, out.SeenDestinationPort = number(c.Reply.DestinationPort), number(c.Reply.SourcePort)
	}
	return out
}

func (r *Room) endConnection(c *httpd.Call, id string) error {
	gone := fault.New(fault.NotFound, "This connection no longer exists.")
	key, err := parseConnectionID(id)
	if err != nil {
		return gone
	}
	side := func(a netip.Addr, port uint16) string {
		if port == 0 {
			return a.String()
		}
		return netip.AddrPortFrom(a, port).String()
	}
	subject := fmt.Sprintf("%s %s to %s", protocolName(key.Protocol), side(key.Source, key.SourcePort), side(key.Destination, key.DestinationPort))
	err = r.Audit.Do(c, "diagnostics.connection.delete", subject, func() (any, error) { return nil, r.Host.EndConnection(c, key) })
	r.table.Forget()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return gone
	case errors.Is(err, host.ErrNotInstalled):
		return fault.Wrap(fault.Unavailable, err, "Connection tracking is not available.")
	}
	return err
}

// connectionKey is a key encoded in an id.
type connectionKey struct {
	_                           struct{} `cbor:",toarray"`
	Source, Destination         []byte
	SourcePort, DestinationPort uint16
	Protocol, ICMPType, Code    uint8
	Zone                        uint16
	ID                          uint32
}

// connectionID encodes the key as a text: the kernel needs all of it to find a connection.
func connectionID(k host.ConnectionKey) string {
	b, err := cbor.Marshal(connectionKey{
		Source: k.Source.AsSlice(), Destination: k.Destination.AsSlice(), SourcePort: k.SourcePort, DestinationPort: k.DestinationPort,
		Protocol: k.Protocol, ICMPType: k.ICMPType, Code: k.ICMPCode, Zone: k.Zone, ID: k.ID,
	})
	if err != nil {
		panic(err) // numbers and bytes can be encoded
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseConnectionID(id string) (k host.ConnectionKey, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil {
		return k, err
	}
	var c connectionKey
	if err := cbor.Unmarshal(b, &c); err != nil {
		return k, err
	}
	source, ok := netip.AddrFromSlice(c.Source)
	destination, also := netip.AddrFromSlice(c.Destination)
	if !ok || !also || source.Is4() != destination.Is4() {
		return k, errors.New("no addresses")
	}
	return host.ConnectionKey{
		Flow:     host.Flow{Source: source, Destination: destination, SourcePort: c.SourcePort, DestinationPort: c.DestinationPort},
		Protocol: c.Protocol, ICMPType: c.ICMPType, ICMPCode: c.Code, Zone: c.Zone, ID: c.ID,
	}, nil
}
