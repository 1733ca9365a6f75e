package firewall

import (
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/value"
)

// Packet is the first packet of a new connection.
type Packet struct {
	// In is the incoming interface; zero if its zone has none.
	In     value.IfName
	InZone value.Zone
	// Source is invalid after masquerading if the address of the interface is unknown.
	Source, Destination netip.Addr
	Proto               uint8
	// Ports of TCP and UDP. A source port of zero was not given, or is chosen by the kernel.
	SourcePort, DestinationPort uint16
	ICMPType                    uint8
}

func (p *Packet) family() nft.Family { return nft.FamilyOf(p.Destination) }

// tracked reports whether the packet can begin a connection. The kernel does not track other ICMP messages, and does not translate their
// addresses.
func (p *Packet) tracked() bool {
	switch p.Proto {
	case nft.ICMP:
		return p.ICMPType == echoRequest || p.ICMPType == 13 || p.ICMPType == 15 || p.ICMPType == 17
	case nft.ICMPv6:
		return p.ICMPType == echoRequest6
	}
	return true
}

// ICMP types of echo requests.
const (
	echoRequest  = 8
	echoRequest6 = 128
)

// Stages of a packet's way. input and forward are also its paths.
const (
	stagePrerouting  = "prerouting"
	stageRouting     = "routing"
	stageInput       = "input"
	stageForward     = "forward"
	stagePostrouting = "postrouting"
	pathUnroutable   = "unroutable"
)

// Decision is what happens to a packet.
type Decision struct {
	Path    string
	Verdict string
	By      Decider
	// Out is the outgoing interface of a forwarded packet.
	Out     value.IfName
	OutZone value.Zone
	// Packet is the packet as its receiver sees it.
	Packet   Packet
	Rewrites []Rewrite
}

// Decider is what decided: an operator's rule, an automatic one, or neither.
type Decider struct {
	Rule *Policy
	Auto *automatic
}

// Rewrite is the effect of one NAT rule.
type Rewrite struct {
	Rule *Translation // nil for a tunnel's
	Kind string
	// Before and After are the rewritten side. The address of After is invalid if it is unknown.
	Before, After netip.AddrPort
	// First and Last bound the ports that the kernel chooses from.
	First, Last uint16
}

// automatic is a rule that the gateway adds itself.
type automatic struct {
	tag   string // its comment in the table
	title string
	// text says why it exists.
	text string
}

var (
	autoEstablished = automatic{"auto:established", "Established connections", "packets of accepted connections pass"}
	autoLoopback    = automatic{"auto:loopback", "Loopback", "the gateway may always talk to itself"}
	autoNeighbours  = automatic{"auto:icmpv6", "ICMPv6 that IPv6 needs", "IPv6 cannot work without these messages"}
	autoLockout     = automatic{"auto:anti-lockout", "Anti-lockout", "SSH and the console can always be reached, whatever the rules say"}
	autoCluster     = automatic{"auto:cluster", "Cluster peers", "the nodes of a cluster reach each other's agent, database and cache"}
	autoManagement  = automatic{"auto:management", "Management port", "no NAT rule redirects the management port of the gateway"}
	autoDNAT        = automatic{"auto:dnat", "Redirected connections", "what a NAT rule redirects is let through"}
	autoDrop        = automatic{"", "Default", "what no rule accepts is dropped"}
	autoNoWay       = automatic{"", "Routing", "the packet has no route"}
)

func autoOpening(o policy.Opening) automatic {
	return automatic{"auto:opening-" + o.Service, "Service " + o.Service, "the service " + o.Service + " of the gateway is open"}
}

func autoTunnel(t policy.Tunnel) automatic {
	return automatic{"auto:tunnel", "Tunnel " + t.Interface.String(), "what comes from a tunnel that serves peers is forwarded"}
}

// obstacle is the first reason why a rule does not match a packet.
type obstacle int

const (
	fits obstacle = iota
	otherInterface
	otherFamily
	otherSource
	otherDestination
	notLocal // the destination is not an address of the gateway
	otherService
	notRedirected
	newConnection
)

// event is one check of a packet, with the packet as it was then.
type event struct {
	stage  string
	packet Packet
	// Exactly one of these is set.
	rule    *Policy
	nat     *Translation
	auto    *automatic
	opening *policy.Opening
	off     bool // not enabled: it decides nothing
	miss    obstacle
	way     *Way     // the routing decision
	rewrite *Rewrite // the effect of NAT
	verdict string
}

// walk follows one packet.
type walk struct {
	rs  *Ruleset
	way func(destination netip.Addr) Way
	see func(event)
	p   Packet
	d   Decision
	// answered means that the packet is not the first of its connection, and that the connection was answered.
	answered bool
}

// evaluate returns what happens to a packet. It makes the same checks as the table, in the same order. way returns the route of packets
// from this source; see, if not nil, gets each check.
func (rs *Ruleset) evaluate(p Packet, way func(destination netip.Addr) Way, see func(event)) Decision {
	if see == nil {
		see = func(event) {}
	}
	w := &walk{rs: rs, way: way, see: see, p: p}
	redirected := w.prerouting()
	route := way(w.p.Destination)
	w.report(event{stage: stageRouting, way: &route})
	switch {
	case route.Local:
		w.d.Path = stageInput
		w.input()
	case route.Interface == "":
		w.d.Path = pathUnroutable
		w.decide("drop", Decider{Auto: &autoNoWay})
	default:
		w.d.Path = stageForward
		if out, err := value.Parse[value.IfName](route.Interface); err == nil {
			w.d.Out, w.d.OutZone = out, rs.zoneOf(out)
		}
		w.forward(redirected)
		if w.d.Verdict == "accept" {
			w.postrouting(route)
		}
	}
	w.d.Packet = w.p
	return w.d
}

// report passes on an event; for NAT with the packet as it was before.
func (w *walk) report(e event) {
	if !e.packet.Destination.IsValid() {
		e.packet = w.p
	}
	w.see(e)
}

func (w *walk) decide(verdict string, by Decider) { w.d.Verdict, w.d.By = verdict, by }

// off reports whether a rule only exists for the explanation.
func (w *walk) off(id uuid.UUID) bool { return w.rs.Off[id] }

// auto checks an automatic rule, and reports whether it accepted.
func (w *walk) auto(a automatic, opening *policy.Opening, miss obstacle) bool {
	e := event{stage: w.d.Path, auto: &a, opening: opening, miss: miss}
	if miss == fits {
		e.verdict = "accept"
		w.decide("accept", Decider{Auto: &a})
	}
	w.report(e)
	return miss == fits
}

// loopback is the interface for the gateway's traffic to itself.
var loopback = value.Must[value.IfName]("lo")

// prerouting rewrites the destination, and reports whether it has changed. Packets from the gateway to itself already have their final
// addresses.
func (w *walk) prerouting() bool {
	if !w.p.tracked() || w.p.In == loopback {
		return false
	}
	if len(w.rs.Destination) > 0 && management.contains(w.p.Proto, w.p.DestinationPort, w.p.family()) && w.way(w.p.Destination).Local {
		w.report(event{stage: stagePrerouting, auto: &autoManagement})
		return false
	}
	for i := range w.rs.Destination {
		t := &w.rs.Destination[i]
		if !w.rs.between(t, w.p.In, value.IfName{}) {
			continue
		}
		e := event{stage: stagePrerouting, packet: w.p, nat: t, off: w.off(t.ID), miss: w.missed(t)}
		if e.miss == fits && !e.off {
			before := w.p.Destination
			port := w.p.DestinationPort
			e.rewrite = w.redirect(t)
			w.report(e)
			return before != w.p.Destination || port != w.p.DestinationPort
		}
		w.report(e)
	}
	return false
}

func (w *walk) redirect(t *Translation) *Rewrite {
	r := Rewrite{Rule: t, Kind: natDestination, Before: netip.AddrPortFrom(w.p.Destination, w.p.DestinationPort)}
	w.p.Destination = t.Target.Addr
	// A range of ports that is not mapped one to one keeps a port inside the range, and uses its first port otherwise.
	if port, ok := t.port(w.p.DestinationPort, w.p.DestinationPort); ok {
		w.p.DestinationPort = port
	} else {
		w.p.DestinationPort = t.Target.First
	}
	r.After = netip.AddrPortFrom(w.p.Destination, w.p.DestinationPort)
	w.d.Rewrites = append(w.d.Rewrites, r)
	return &r
}

// port returns the translated port; ok is false if the kernel chooses one.
func (t *Translation) port(is, destination uint16) (port uint16, ok bool) {
	switch {
	case t.Target.First == 0:
		return is, true
	case t.Target.Shift != 0:
		return t.Target.First + (destination - t.Target.Shift), true
	case t.Target.First == t.Target.Last:
		return t.Target.First, true
	}
	return is, t.Target.First <= is && is <= t.Target.Last
}

func (w *walk) input() {
	p := &w.p
	switch {
	case w.auto(autoEstablished, nil, unless(w.answered, newConnection)):
	case w.auto(autoLoopback, nil, unless(p.In == loopback, otherInterface)):
	case w.auto(autoNeighbours, nil, unless(p.neighbourly(), otherService)):
	case w.auto(autoLockout, nil, unless(lockout.contains(p.Proto, p.DestinationPort, p.family()), otherService)):
	case w.auto(autoCluster, nil, w.fromPeer()):
	case w.rules(self):
	case w.openings():
	default:
		w.decide("drop", Decider{Auto: &autoDrop})
	}
}

func unless(matches bool, miss obstacle) obstacle {
	if matches {
		return fits
	}
	return miss
}

// neighbourly reports whether the packet is one of the messages that IPv6 depends on.
func (p *Packet) neighbourly() bool {
	return p.Proto == nft.ICMPv6 && (p.ICMPType == 2 || 133 <= p.ICMPType && p.ICMPType <= 136)
}

func (w *walk) fromPeer() obstacle {
	within := func(s nft.Span) bool { return s.First.Compare(w.p.Source) <= 0 && w.p.Source.Compare(s.Last) <= 0 }
	if !slices.ContainsFunc(w.rs.Peers, within) {
		return otherSource
	}
	return unless(peering.contains(w.p.Proto, w.p.DestinationPort, w.p.family()), otherService)
}

func (w *walk) openings() bool {
	for i := range w.rs.Openings {
		o := &w.rs.Openings[i]
		to, services := openingAddresses(*o), openingService(*o)
		miss := fits
		switch {
		case len(o.Interfaces) > 0 && !slices.Contains(o.Interfaces, w.p.In):
			miss = otherInterface
		case !to.contains(w.p.Destination):
			miss = otherDestination
		case !services.contains(w.p.Proto, w.p.DestinationPort, w.p.family()):
			miss = otherService
		}
		if w.auto(autoOpening(*o), o, miss) {
			return true
		}
	}
	return false
}

func (w *walk) forward(redirected bool) {
	switch {
	case w.auto(autoEstablished, nil, unless(w.answered, newConnection)):
	case w.auto(autoNeighbours, nil, unless(w.p.neighbourly(), otherService)):
	case w.auto(autoDNAT, nil, unless(redirected, notRedirected)):
	case w.rules(w.d.OutZone):
	case w.tunnels():
	default:
		w.decide("drop", Decider{Auto: &autoDrop})
	}
}

func (w *walk) tunnels() bool {
	for _, t := range w.rs.Tunnels {
		if w.auto(autoTunnel(t), nil, unless(t.Interface == w.p.In, otherInterface)) {
			return true
		}
	}
	return false
}

// rules checks the operator's rules for the packet's zones, and reports whether one decided.
func (w *walk) rules(to value.Zone) bool {
	for i := range w.rs.Rules {
		r := w.rs.Rules[i]
		if !(scope{r.Src, r.Dst}).covers(w.p.InZone, to) {
			continue
		}
		e := event{stage: w.d.Path, rule: r, off: w.off(r.ID), miss: r.missed(&w.p)}
		if e.miss == fits && !e.off {
			e.verdict = r.Action
			w.decide(r.Action, Decider{Rule: r})
			w.report(e)
			return true
		}
		w.report(e)
	}
	return false
}

// missed returns why the rule does not match, apart from the zones.
func (r *Policy) missed(p *Packet) obstacle {
	switch {
	case !r.From.contains(p.Source):
		return otherSource
	case !r.To.contains(p.Destination):
		return otherDestination
	}
	return unless(r.Services.contains(p.Proto, p.DestinationPort, p.family()), otherService)
}

// postrouting rewrites the source.
func (w *walk) postrouting(route Way) {
	if !w.p.tracked() {
		return
	}
	for i := range w.rs.Source {
		t := &w.rs.Source[i]
		if !w.rs.between(t, w.p.In, w.d.Out) {
			continue
		}
		e := event{stage: stagePostrouting, packet: w.p, nat: t, off: w.off(t.ID), miss: w.missed(t)}
		if e.miss == fits && !e.off {
			e.rewrite = w.disguise(t, route)
			w.report(e)
			return
		}
		w.report(e)
	}
	for _, t := range w.rs.Tunnels {
		if t.Interface != w.d.Out {
			continue
		}
		for _, n := range t.Networks {
			a := autoTunnel(t)
			a.text = "what the networks of a tunnel send out through it carries the gateway's own address"
			e := event{stage: stagePostrouting, packet: w.p, auto: &a, miss: unless(n.Netip().Contains(w.p.Source), otherSource)}
			if e.miss == fits {
				e.rewrite = w.disguise(nil, route)
				w.report(e)
				return
			}
			w.report(e)
		}
	}
}

// disguise sets the packet's source; without a rule, to the address of the outgoing interface.
func (w *walk) disguise(t *Translation, route Way) *Rewrite {
	r := Rewrite{Rule: t, Kind: natMasquerade, Before: netip.AddrPortFrom(w.p.Source, w.p.SourcePort)}
	w.p.Source = route.Source
	if t != nil && t.Kind == natSource {
		r.Kind, w.p.Source = natSource, t.Target.Addr
		port, ok := t.port(w.p.SourcePort, w.p.DestinationPort)
		if !ok {
			r.First, r.Last, port = t.Target.First, t.Target.Last, 0
		}
		w.p.SourcePort = port
	}
	r.After = netip.AddrPortFrom(w.p.Source, w.p.SourcePort)
	w.d.Rewrites = append(w.d.Rewrites, r)
	return &r
}

// between reports whether a NAT rule applies to traffic between two interfaces. A zone without interfaces has no traffic.
func (rs *Ruleset) between(t *Translation, in, out value.IfName) bool {
	return (t.In == anywhere || slices.Contains(rs.links(t.In), in)) && (t.Out == anywhere || slices.Contains(rs.links(t.Out), out))
}

// missed returns why a NAT rule does not match, apart from the zones.
func (w *walk) missed(t *Translation) obstacle {
	p := &w.p
	outside := func(list []nft.Span, ip netip.Addr) bool {
		return len(list) > 0 && (ip.Compare(list[0].First) < 0 || list[0].Last.Compare(ip) < 0)
	}
	switch {
	case t.Family != nil && *t.Family != p.family():
		return otherFamily
	case outside(t.Src, p.Source):
		return otherSource
	case outside(t.Dst, p.Destination):
		return otherDestination
	case t.Kind == natDestination && len(t.Dst) == 0 && !w.way(p.Destination).Local:
		return notLocal
	}
	return unless(t.Services.contains(p.Proto, p.DestinationPort, p.family()), otherService)
}
