package firewall

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

const (
	// connectionsChecked is the maximum number of live connections to check.
	connectionsChecked = 20_000
	// connectionPage is how many of them are read at a time.
	connectionPage = 1000
)

// passage is the configuration that decides which connections pass.
type passage struct {
	config  Config
	network Network
}

// mountImpact lets previews list the live connections that a change cuts or reroutes.
func (r *Room) mountImpact() {
	resource.Assess(r.Resources, resource.Assessor[passage]{
		Area: resource.Connections, Feeds: []apply.ID{apply.PacketFilter, apply.Network, apply.Tunnel},
		Load: func(ctx context.Context, q db.Querier) (p passage, err error) {
			if p.config, err = r.load(ctx, q); err == nil {
				p.network, err = r.deps.Network(ctx, q)
			}
			return p, err
		},
		Compare: r.compareConnections,
	})
}

// compareConnections evaluates every live connection before and after a change.
func (r *Room) compareConnections(ctx context.Context, was, now passage) (int, []resource.Affected, error) {
	list, err := r.liveConnections(ctx)
	if err != nil {
		return 0, nil, err
	}
	changed, err := now.network.Since(ctx, was.network)
	if err != nil {
		return 0, nil, err
	}
	a := &assay{
		ctx: ctx, ask: r.deps.Way, changed: changed, was: compile(was.config), now: compile(now.config),
		known: map[wayKey]Way{}, entries: map[netip.Addr]value.IfName{}, outcomes: map[Packet]outcome{},
	}
	var reached []resource.Affected
	for i := range list {
		if err := context.Cause(ctx); err != nil {
			return 0, nil, err
		}
		if x, ok := a.connection(&list[i]); ok {
			reached = append(reached, x)
		}
		if a.failed != nil {
			return 0, nil, a.failed
		}
	}
	return len(list), reached, nil
}

// liveConnections returns the connections that have not ended.
func (r *Room) liveConnections(ctx context.Context) (list []host.Connection, err error) {
	q := host.ConnectionQuery{Limit: connectionPage}
	for {
		page, err := r.Host.Connections(ctx, q)
		switch {
		case err != nil:
			return nil, fault.Wrap(fault.Unavailable, err, "The kernel's connection table cannot be read.")
		case page.Total > connectionsChecked:
			return nil, fault.New(fault.Unavailable, "The gateway has %d connections. It can check %d at most.", page.Total, connectionsChecked)
		}
		for _, c := range page.List {
			if !over(c.State) {
				list = append(list, c)
			}
		}
		if !page.More {
			return list, nil
		}
		q.After = &page.List[len(page.List)-1].ConnectionKey
	}
}

// over reports whether a TCP connection has ended and is only remembered.
func over(s host.ConnectionState) bool {
	return slices.Contains([]string{"last_ack", "time_wait", "close"}, s.String())
}

// assay compares the fate of connections before and after a change.
type assay struct {
	ctx      context.Context
	ask      func(ctx context.Context, source, destination netip.Addr, in string) (Way, error)
	changed  Detour
	was, now Ruleset
	// Caches.
	known    map[wayKey]Way
	entries  map[netip.Addr]value.IfName // the interface that packets from an address come in by
	outcomes map[Packet]outcome          // of the first packet of a connection
	failed   error
}

type wayKey struct {
	source, destination netip.Addr
	in                  value.IfName
}

// outcome is the fate of a first packet before and after, and whether the next hop is the same.
type outcome struct {
	was, now Decision
	sameHop  bool
}

// way returns the present route.
func (a *assay) way(source, destination netip.Addr, in value.IfName) Way {
	key := wayKey{source, destination, in}
	if way, known := a.known[key]; known {
		return way
	}
	way, err := a.ask(a.ctx, source, destination, in.String())
	if err != nil {
		a.failed = noWay(err)
	}
	a.known[key] = way
	return way
}

// newWay returns the route after the change.
func (a *assay) newWay(source, destination netip.Addr, in value.IfName) Way {
	way := a.way(source, destination, in)
	if a.changed == nil {
		return way
	}
	moved, err := a.changed(destination, way)
	if err != nil {
		a.failed = err
	}
	return moved
}

// entry returns the interface that packets come in by: the outgoing one of their answers. For the gateway's own packets it is the
// loopback.
func (a *assay) entry(source, destination netip.Addr) value.IfName {
	in, known := a.entries[source]
	if known {
		return in
	}
	in = loopback
	if back := a.way(destination, source, value.IfName{}); !back.Local && !source.IsLoopback() {
		in, _ = value.Parse[value.IfName](back.Interface)
	}
	a.entries[source] = in
	return in
}

// connection returns how the change affects one connection, if it does.
func (a *assay) connection(c *host.Connection) (resource.Affected, bool) {
	x := resource.Affected{What: called(c)}
	p := Packet{Source: c.Source, Destination: c.Destination, Proto: c.Protocol}
	if c.Protocol == nft.ICMP || c.Protocol == nft.ICMPv6 {
		p.ICMPType = c.ICMPType
	} else {
		p.DestinationPort = c.DestinationPort
	}
	p.In = a.entry(c.Source, c.Destination)
	var d outcome
	if p.In != loopback { // the gateway's own packets are not filtered
		d = a.outcome(p)
	}
	if a.lasts(c, p, d, &x) {
		return x, true
	}
	if p.In == loopback {
		return x, false
	}
	x.Before, x.After = verdict(&d.was), verdict(&d.now)
	switch {
	case d.was.Verdict != "accept" || a.failed != nil:
		return x, false // nothing to lose
	case d.now.Verdict != "accept":
		x.Effect = resource.Blocked
	case d.was.Path != d.now.Path || d.was.Out != d.now.Out || d.was.Packet.Destination != d.now.Packet.Destination ||
		d.was.Packet.DestinationPort != d.now.Packet.DestinationPort || d.was.Packet.Source != d.now.Packet.Source || !d.sameHop:
		x.Effect = resource.Redirected
	default:
		return x, false
	}
	return x, true
}

// outcome returns the fate of the first packet of a connection. The source port does not matter.
func (a *assay) outcome(p Packet) outcome {
	d, known := a.outcomes[p]
	if !known {
		d.was, d.now = a.evaluate(&a.was, a.way, p), a.evaluate(&a.now, a.newWay, p)
		to := d.was.Packet.Destination
		d.sameHop = a.way(p.Source, to, p.In).Via == a.newWay(p.Source, to, p.In).Via
		a.outcomes[p] = d
	}
	return d
}

func (a *assay) evaluate(rs *Ruleset, way func(source, destination netip.Addr, in value.IfName) Way, p Packet) Decision {
	p.InZone = rs.zoneOf(p.In)
	return rs.evaluate(p, func(destination netip.Addr) Way { return way(p.Source, destination, p.In) }, nil)
}

// lasts reports whether the connection itself is cut or rerouted, even if it is not opened again. Its addresses were rewritten when it
// began, and stay so. Once it was answered, the table accepts its packets without consulting a rule; until then each packet is checked.
func (a *assay) lasts(c *host.Connection, p Packet, d outcome, x *resource.Affected) bool {
	p.Destination = c.Reply.Source
	if c.Protocol != nft.ICMP && c.Protocol != nft.ICMPv6 {
		p.DestinationPort = c.Reply.SourcePort
	}
	was, now := a.continued(&a.was, a.way, c, p), a.continued(&a.now, a.newWay, c, p)
	x.Before, x.After = verdict(&was), verdict(&now)
	// Answers return to where the packets came from, or to the address that the gateway gave them.
	back, newBack := a.way(c.Reply.Source, c.Reply.Destination, was.Out), a.newWay(c.Reply.Source, c.Reply.Destination, was.Out)
	in := begun(p.In)
	forth, newForth := a.way(p.Source, p.Destination, in), a.newWay(p.Source, p.Destination, in)
	switch {
	case was.Verdict != "accept":
		return false
	case now.Verdict != "accept":
		x.Effect = resource.Cut
	case back.Local != newBack.Local || back.Interface != "" && newBack.Interface == "":
		x.Effect, x.After = resource.Cut, unanswered(newBack, c.Reply.Destination)
	case was.Out != now.Out && masqueraded(&d.was, c) && (d.now.Verdict != "accept" || c.Protocol == nft.TCP):
		x.Effect, x.After = resource.Cut, "it loses the address that it had on "+was.Out.String()
	case was.Out != now.Out:
		x.Effect = resource.Rerouted
	case back.Interface != newBack.Interface:
		x.Effect, x.After = resource.Rerouted, "its answers leave through "+newBack.Interface
	case forth.Via != newForth.Via:
		x.Effect, x.After = resource.Rerouted, "it goes "+hop(newForth.Via)
	case back.Via != newBack.Via:
		x.Effect, x.After = resource.Rerouted, "its answers go "+hop(newBack.Via)
	default:
		return false
	}
	return true
}

// masqueraded reports whether a connection got its address by masquerading. The kernel forgets such a connection when it leaves by
// another interface: the next packet begins a new one with another address, which only matters to TCP.
func masqueraded(d *Decision, c *host.Connection) bool {
	return c.SourceNAT && slices.ContainsFunc(d.Rewrites, func(r Rewrite) bool { return r.Kind == natMasquerade && r.After.Addr() == c.Reply.Destination })
}

// begun returns the incoming interface as the kernel wants it: none, if the packet begins here.
func begun(in value.IfName) value.IfName {
	if in == loopback {
		return value.IfName{}
	}
	return in
}

func unanswered(way Way, to netip.Addr) string {
	if way.Reason != "" {
		return way.Reason
	}
	return fmt.Sprintf("its answers no longer reach %s", to)
}

// continued returns the fate of a later packet of a connection.
func (a *assay) continued(rs *Ruleset, way func(source, destination netip.Addr, in value.IfName) Way, c *host.Connection, p Packet) Decision {
	p.InZone = rs.zoneOf(p.In)
	w := &walk{rs: rs, see: func(event) {}, p: p, d: Decision{Packet: p}, answered: c.Replied}
	switch route := way(p.Source, p.Destination, begun(p.In)); {
	case route.Local:
		w.d.Path = stageInput
		w.input()
	case route.Interface == "":
		w.d.Path = pathUnroutable
		w.decide("drop", Decider{Auto: &automatic{title: "Routing", text: route.Reason}})
	default:
		w.d.Path = stageForward
		if out, err := value.Parse[value.IfName](route.Interface); err == nil {
			w.d.Out, w.d.OutZone = out, rs.zoneOf(out)
		}
		if p.In == loopback {
			w.decide("accept", Decider{Auto: &autoLoopback})
			break
		}
		w.forward(c.DestinationNAT)
	}
	return w.d
}

// called describes a connection for people.
func called(c *host.Connection) string {
	from, to := netip.AddrPortFrom(c.Source, c.SourcePort), netip.AddrPortFrom(c.Destination, c.DestinationPort)
	switch name := protoName(c.Protocol); {
	case name == "":
		return fmt.Sprintf("protocol %d %s to %s", c.Protocol, side(from), side(to))
	case ported(c.Protocol):
		return fmt.Sprintf("%s %s to %s", name, side(from), side(to))
	default:
		return fmt.Sprintf("%s %s to %s, id %d", name, c.Source, c.Destination, c.SourcePort)
	}
}

// verdict describes a decision and its cause.
func verdict(d *Decision) string {
	var parts []string
	switch by := d.By; {
	case by.Rule != nil:
		parts = append(parts, fmt.Sprintf("%s by rule %s", map[string]string{"accept": "accepted", "drop": "dropped", "reject": "rejected"}[d.Verdict], by.Rule.Name))
	case d.Path == pathUnroutable && by.Auto.text != autoNoWay.text:
		parts = append(parts, "no route: "+by.Auto.text)
	case d.Path == pathUnroutable:
		parts = append(parts, "no route")
	case d.Verdict == "accept":
		parts = append(parts, "accepted: "+by.Auto.text)
	default:
		parts = append(parts, "dropped: no rule accepts it")
	}
	if d.Verdict == "accept" {
		if d.Path == stageForward {
			parts = append(parts, "leaves through "+d.Out.String())
		}
		for _, x := range d.Rewrites {
			if x.After.Addr().IsValid() {
				parts = append(parts, fmt.Sprintf("%s becomes %s", side(x.Before), side(x.After)))
			}
		}
	}
	return strings.Join(parts, "; ")
}
