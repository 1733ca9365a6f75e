package network

import (
	"context"
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strconv"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Destination is a network, or the word default until its family is known.
type Destination struct{ value.Text[destinationGrammar] }

type destinationGrammar struct{}

const wordDefault = "default"

func (destinationGrammar) Example() string { return "192.0.2.0/24" }

func (destinationGrammar) Parse(s string) (string, error) {
	if s == wordDefault {
		return s, nil
	}
	p, err := value.Parse[value.Prefix](s)
	if err != nil {
		return "", errors.New("must be a network, for example 192.0.2.0/24 or 2001:db8::/32, a single address, or default")
	}
	return p.String(), nil
}

// Netip returns the network; it is invalid for the word default.
func (d Destination) Netip() netip.Prefix {
	p, _ := netip.ParsePrefix(d.String())
	return p
}

// Table is a routing table: its number, or its name on this system.
type Table struct{ value.Text[tableGrammar] }

type tableGrammar struct{}

var tableWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,30}$`)

// localTable is the kernel's own table.
const localTable = 255

func (tableGrammar) Example() string { return "main" }

func (tableGrammar) Parse(s string) (string, error) {
	if n, err := strconv.ParseUint(s, 10, 32); err == nil && n > 0 && n != localTable {
		return strconv.FormatUint(n, 10), nil
	}
	if !tableWord.MatchString(s) || s == "local" {
		return "", errors.New("must be a number between 1 and 4294967295 or the name of a routing table, except local (255)")
	}
	return s, nil
}

// number returns the table's number; ok is false for an unknown name.
func (t Table) number(tables map[string]uint32) (n uint32, ok bool) {
	if n, err := strconv.ParseUint(t.String(), 10, 32); err == nil {
		return uint32(n), true
	}
	n, ok = tables[t.String()]
	return n, ok && n != localTable && n != 0
}

type Route struct {
	resource.Meta
	Destination Destination  `json:"destination" required:"true" doc:"Destination network, or default, which is stored as 0.0.0.0/0 or ::/0."`
	Gateway     value.Addr   `json:"gateway" doc:"Address of the next hop; empty if the destination is directly connected."`
	Dev         value.IfName `json:"dev" doc:"Outgoing interface; by default the one that reaches the next hop."`
	Metric      int64        `json:"metric" minimum:"0" maximum:"4294967295" doc:"Among routes to the same network, the lowest wins. For IPv6, 0 means 1024."`
	TableName   Table        `json:"table_name" doc:"Number or name of the routing table; main by default."`
	Active      bool         `json:"active" doc:"Whether it is in the kernel."`
	Comment     string       `json:"comment" maxLength:"500" doc:"What it is for."`
}

func (r *Route) Validate() error {
	var c check.List
	dst, gateway := r.Destination.Netip(), r.Gateway.Netip()
	c.That(!r.Gateway.IsZero() || !r.Dev.IsZero(), "gateway", "is required unless dev is set")
	if gateway.IsValid() {
		c.That(!gateway.IsUnspecified() && !gateway.IsLoopback() && !gateway.IsMulticast(), "gateway", "must be the address of a router")
		c.That(!gateway.IsLinkLocalUnicast() || gateway.Is4() || !r.Dev.IsZero(), "dev", "is required for a link-local gateway address")
		c.That(!dst.IsValid() || dst.Addr().Is4() == gateway.Is4(), "gateway", "must be of the same family as the destination, %s", dst)
		c.That(!dst.IsValid() || !dst.IsSingleIP() || dst.Addr() != gateway, "gateway", "must not be the destination itself")
	}
	c.That(r.Dev.String() != "lo", "dev", "must not be lo, the loopback interface")
	return c.Err()
}

func (r *Route) Label() string {
	label := r.Destination.String()
	if !r.Gateway.IsZero() {
		label += " via " + r.Gateway.String()
	}
	if !r.Dev.IsZero() {
		label += " dev " + r.Dev.String()
	}
	return label
}

func (r *Room) routeKind() resource.Kind[Route] {
	return resource.Kind[Route]{
		Name: "network.route", Title: "static route", Path: "/routes", Table: "network_routes", Order: "destination::inet, metric", Local: true, Natural: []string{"destination", "metric", "table_name"},
		Feeds: []apply.ID{apply.Network}, Refers: map[string]string{"dev": interfaceTable},
		New:   func() Route { return Route{TableName: value.Must[Table]("main"), Active: true} },
		Check: r.checkRoute,
	}
}

// checkRoute checks a route against the others, and replaces the word default by a network.
func (r *Room) checkRoute(ctx context.Context, tx *db.Tx, was, now *Route) error {
	if now == nil {
		return nil
	}
	if now.Destination.String() == wordDefault {
		now.Destination = value.Must[Destination]("0.0.0.0/0")
		if gateway := now.Gateway.Netip(); gateway.Is6() {
			now.Destination = value.Must[Destination]("::/0")
		}
	}
	if now.TableName.IsZero() {
		now.TableName = value.Must[Table]("main")
	}
	tables := r.Host.RouteTables()
	number, known := now.TableName.number(tables)
	var c check.List
	c.That(known, "table_name", "is not a table of this system. Use a number, or name it in /etc/iproute2/rt_tables")
	addresses, err := r.addresses.All(ctx, tx)
	if err != nil {
		return err
	}
	own := slices.ContainsFunc(addresses, func(a Address) bool { return a.Address == now.Gateway })
	c.That(!own, "gateway", "is an address of the gateway itself")
	if err := c.Err(); err != nil {
		return err
	}
	others, err := r.routes.All(ctx, tx)
	if err != nil {
		return err
	}
	for _, o := range others {
		theirs, _ := o.TableName.number(tables)
		if (was == nil || o.ID != was.ID) && o.Active && now.Active && o.Destination == now.Destination && o.metric() == now.metric() && theirs == number {
			return fault.Taken(map[string]string{
				"destination": "already has a route with the same metric in this table, " + o.Label(),
			})
		}
	}
	return nil
}

// metric returns the effective metric in the kernel: IPv6 has no 0.
func (r *Route) metric() uint32 {
	if r.Metric == 0 && r.Destination.Netip().Addr().Is6() {
		return 1024
	}
	return uint32(r.Metric)
}
