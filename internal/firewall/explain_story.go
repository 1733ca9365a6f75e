package firewall

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/value"
)

// maxMisses is the maximum number of rules that are listed as not matching.
const maxMisses = 200

// narrator turns checks of a packet into sentences with the operator's names.
type narrator struct {
	book  *book
	rs    *Ruleset
	rules map[uuid.UUID]*Rule
	nat   map[uuid.UUID]*NATRule
	steps []Step
	// misses counts the rules that did not match; leftOut counts those summed up in one sentence.
	misses, leftOut int
	stage           string
	route           Way
}

func newNarrator(c Config, rs *Ruleset) *narrator {
	n := &narrator{book: newBook(c), rs: rs, rules: map[uuid.UUID]*Rule{}, nat: map[uuid.UUID]*NATRule{}}
	for i := range c.Rules {
		n.rules[c.Rules[i].ID] = c.Rules[i]
	}
	for i := range c.NAT {
		n.nat[c.NAT[i].ID] = &c.NAT[i]
	}
	return n
}

// see turns one check into a step.
func (n *narrator) see(e event) {
	s := Step{Stage: e.stage, Outcome: "not_matched"}
	switch {
	case e.way != nil:
		n.route = *e.way
		s.Title, s.Outcome, s.Reason = "Routing", "info", n.routing(&e.packet)
	case e.auto != nil:
		s.Title, s.Reason = e.auto.title, n.automatic(&e)
	case e.rule != nil:
		s.Title, s.RuleID, s.Reason = e.rule.Name, &e.rule.ID, n.rule(&e)
	case e.nat != nil:
		s.Title, s.RuleID, s.Reason = e.nat.Name, &e.nat.ID, n.translation(&e)
	}
	operators := s.RuleID != nil
	switch {
	case e.way != nil:
	case e.miss == fits && e.off:
		s.Outcome, s.Reason = "skipped_disabled", "it is off; it would match: "+s.Reason
	case e.miss == fits:
		s.Outcome = "matched"
		if e.verdict != "" {
			s.Verdict = &e.verdict
		}
		if e.rewrite != nil {
			s.Reason += fmt.Sprintf("; %s becomes %s", side(e.rewrite.Before), n.after(e.rewrite))
		}
	case e.off:
		return // a rule that would do nothing if it were enabled
	case operators && n.misses == maxMisses:
		n.leftOut++
		return
	case operators:
		n.misses++
	}
	n.add(s)
}

func (n *narrator) add(s Step) {
	if n.leftOut > 0 {
		n.steps = append(n.steps, Step{Stage: n.stage, Title: "More rules", Outcome: "info", Reason: fmt.Sprintf("%d more rules of these zones did not match and are left out", n.leftOut)})
		n.leftOut = 0
	}
	n.stage = s.Stage
	n.steps = append(n.steps, s)
}

// story returns the whole explanation.
func (n *narrator) story(p Packet, d Decision) Explanation {
	x := Explanation{
		Verdict: d.Verdict, Path: d.Path, InInterface: p.In.String(), InZone: p.InZone.String(), OutInterface: d.Out.String(), OutZone: d.OutZone.String(),
		Packet: view(&d.Packet), NAT: []Rewritten{},
	}
	for i := range d.Rewrites {
		r := &d.Rewrites[i]
		done := Rewritten{Kind: r.Kind, Name: "Tunnel " + d.Out.String(), From: side(r.Before), To: n.after(r)}
		if r.Rule != nil {
			done.RuleID, done.Name = &r.Rule.ID, r.Rule.Name
		}
		x.NAT = append(x.NAT, done)
	}
	switch by := d.By; {
	case by.Rule != nil:
		x.DecidedBy = DecidedBy{Kind: "rule", RuleID: &by.Rule.ID, Name: by.Rule.Name,
			Text: fmt.Sprintf("the rule %s %s it: %s", by.Rule.Name, map[string]string{"accept": "accepts", "drop": "drops", "reject": "rejects"}[d.Verdict], n.rule(&event{rule: by.Rule, packet: filtered(p, d)}))}
	case d.Path == pathUnroutable:
		x.DecidedBy = DecidedBy{Kind: "default", Name: by.Auto.title, Text: n.routing(&d.Packet)}
	case d.Verdict == "accept":
		x.DecidedBy = DecidedBy{Kind: "automatic", Name: by.Auto.title, Text: by.Auto.text}
	default:
		x.DecidedBy = DecidedBy{Kind: "default", Name: by.Auto.title, Text: "no rule accepts it, and " + by.Auto.text}
		drop := d.Verdict
		n.add(Step{Stage: d.Path, Title: by.Auto.title, Outcome: "matched", Reason: x.DecidedBy.Text, Verdict: &drop})
	}
	x.Steps = n.steps
	return x
}

// filtered returns the packet as the rules saw it: with its new destination and its old source.
func filtered(p Packet, d Decision) Packet {
	p.Destination, p.DestinationPort = d.Packet.Destination, d.Packet.DestinationPort
	return p
}

func view(p *Packet) PacketView {
	v := PacketView{Protocol: protoName(p.Proto), Destination: p.Destination.String()}
	if p.Source.IsValid() {
		v.Source = p.Source.String()
	}
	number := func(n int) *int { return &n }
	if ported(p.Proto) {
		v.DestinationPort = number(int(p.DestinationPort))
		if p.SourcePort != 0 {
			v.SourcePort = number(int(p.SourcePort))
		}
	} else {
		v.ICMPType = number(int(p.ICMPType))
	}
	return v
}

func ported(proto uint8) bool { return proto == nft.TCP || proto == nft.UDP }

func protoName(proto uint8) string {
	return map[uint8]string{nft.TCP: "tcp", nft.UDP: "udp", nft.ICMP: "icmp", nft.ICMPv6: "icmpv6"}[proto]
}

// side formats an address with its port, if it has one.
func side(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}

// after describes the new address, as far as it is known.
func (n *narrator) after(r *Rewrite) string {
	text := "the address of " + n.route.Interface
	if r.After.Addr().IsValid() {
		text = side(r.After)
	}
	if r.First != 0 {
		text += fmt.Sprintf(" with a port of %d-%d", r.First, r.Last)
	}
	return text
}

func (n *narrator) routing(p *Packet) string {
	switch {
	case n.route.Reason != "":
		return n.route.Reason
	case n.route.Local:
		return fmt.Sprintf("%s is an address of the gateway", p.Destination)
	case n.route.Interface == "":
		return fmt.Sprintf("there is no route to %s", p.Destination)
	}
	return fmt.Sprintf("%s is reached through %s", p.Destination, n.route.Interface)
}

// what describes the protocol and port of a packet.
func what(p *Packet) string {
	if ported(p.Proto) {
		return fmt.Sprintf("%s port %d", protoName(p.Proto), p.DestinationPort)
	}
	return fmt.Sprintf("%s type %d", protoName(p.Proto), p.ICMPType)
}

func is(miss bool) string {
	if miss {
		return "is not"
	}
	return "is"
}

// rule says why an operator's rule matches or does not.
func (n *narrator) rule(e *event) string {
	r, p := n.rules[e.rule.ID], &e.packet
	from := func() string {
		return n.selector("source", p.Source, e.miss == otherSource, r.SrcKind, r.SrcObjectID, r.SrcGroupID, r.SrcCIDR)
	}
	to := func() string {
		return n.selector("destination", p.Destination, e.miss == otherDestination, r.DstKind, r.DstObjectID, r.DstGroupID, r.DstCIDR)
	}
	switch e.miss {
	case otherSource:
		return from()
	case otherDestination:
		return to()
	case otherService:
		return n.service(p, true, r.ServiceObjectID, r.ServiceGroupID)
	}
	var parts []string
	for _, text := range []string{from(), to(), n.service(p, false, r.ServiceObjectID, r.ServiceGroupID)} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("it matches everything from %s to %s", place(r.SrcZone), place(r.DstZone))
	}
	return strings.Join(parts, ", ")
}

func place(z value.Zone) string {
	switch z {
	case anywhere:
		return "anywhere"
	case self:
		return "the gateway"
	}
	return "zone " + z.String()
}

// selector says how an address relates to a rule's selector; empty if it selects every address.
func (n *narrator) selector(name string, ip netip.Addr, miss bool, kind string, object, group *uuid.UUID, cidr value.Prefix) string {
	subject := fmt.Sprintf("%s %s %s in ", name, ip, is(miss))
	switch {
	case kind == selectAny:
		return ""
	case kind == selectCIDR:
		return subject + cidr.String()
	case kind == selectObject && n.book.objects[*object] != nil:
		o := n.book.objects[*object]
		text := fmt.Sprintf("%sobject %s (%s)", subject, o.Name, o.Value)
		if o.Kind == kindFQDN && len(o.Resolved) == 0 {
			text += ", a name that resolves to nothing now"
		}
		return text
	case kind == selectGroup && n.book.groups[*group] != nil:
		g := n.book.groups[*group]
		text := fmt.Sprintf("%sgroup %s", subject, g.Name)
		if len(g.Members) == 0 {
			text += ", which has no members"
		}
		return text
	}
	return subject + "what the rule selects"
}

func (n *narrator) service(p *Packet, miss bool, service, group *uuid.UUID) string {
	switch {
	case service != nil && n.book.services[*service] != nil:
		return fmt.Sprintf("%s %s service %s", what(p), is(miss), n.book.services[*service].Name)
	case group != nil && n.book.bundles[*group] != nil:
		g := n.book.bundles[*group]
		text := fmt.Sprintf("%s %s in service group %s", what(p), is(miss), g.Name)
		if len(g.Members) == 0 {
			text += ", which has no members"
		}
		return text
	}
	return ""
}

// translation says why a NAT rule matches or does not.
func (n *narrator) translation(e *event) string {
	r, p := n.nat[e.nat.ID], &e.packet
	ports := r.Protocol + portText(r.DstPort, r.DstPortEnd)
	switch e.miss {
	case otherFamily:
		return fmt.Sprintf("the rule is about %s, and the packet is not", e.nat.Family)
	case otherSource:
		return fmt.Sprintf("source %s is not in %s", p.Source, r.SrcCIDR)
	case otherDestination:
		return fmt.Sprintf("destination %s is not in %s", p.Destination, r.DstCIDR)
	case notLocal:
		return fmt.Sprintf("destination %s is not an address of the gateway", p.Destination)
	case otherService:
		return fmt.Sprintf("%s is not %s", what(p), ports)
	}
	var parts []string
	if !r.SrcCIDR.IsZero() {
		parts = append(parts, fmt.Sprintf("source %s is in %s", p.Source, r.SrcCIDR))
	}
	switch {
	case !r.DstCIDR.IsZero():
		parts = append(parts, fmt.Sprintf("destination %s is in %s", p.Destination, r.DstCIDR))
	case r.Kind == natDestination:
		parts = append(parts, fmt.Sprintf("destination %s is an address of the gateway", p.Destination))
	}
	if r.Protocol != "any" {
		parts = append(parts, fmt.Sprintf("%s is %s", what(p), ports))
	}
	if len(parts) == 0 {
		return fmt.Sprintf("it matches everything from %s to %s", place(r.InZone), place(r.OutZone))
	}
	return strings.Join(parts, ", ")
}

func portText(start, end *int) string {
	switch {
	case start == nil:
		return ""
	case end == nil || *end == *start:
		return fmt.Sprintf(" port %d", *start)
	}
	return fmt.Sprintf(" port %d-%d", *start, *end)
}

// automatic says why an automatic rule matches or does not.
func (n *narrator) automatic(e *event) string {
	p := &e.packet
	if e.miss == fits {
		return e.auto.text
	}
	switch {
	case e.opening != nil:
		o := e.opening
		switch e.miss {
		case otherInterface:
			return fmt.Sprintf("the service is not open on %s", cmp.Or(p.In.String(), "an interface without a name"))
		case otherDestination:
			return fmt.Sprintf("the service does not listen on %s", p.Destination)
		}
		return fmt.Sprintf("%s is not %s port %d", what(p), o.Proto, o.Port)
	case e.stage == stagePostrouting:
		return fmt.Sprintf("source %s is not in a network of the tunnel", p.Source)
	}
	switch e.auto.tag {
	case autoEstablished.tag:
		return "this is the first packet of a new connection"
	case autoLoopback.tag:
		return "it does not come from the gateway itself"
	case autoNeighbours.tag:
		return what(p) + " is none of these messages"
	case autoDNAT.tag:
		return "no NAT rule redirected it"
	case autoCluster.tag:
		if e.miss == otherSource {
			return fmt.Sprintf("source %s is not a node of the cluster", p.Source)
		}
		return fmt.Sprintf("%s is none of %s", what(p), list(peering))
	case autoLockout.tag:
		return fmt.Sprintf("%s is none of %s", what(p), list(lockout))
	}
	return "it does not come in through the tunnel"
}

func list(s Services) string {
	var parts []string
	for _, p := range s.Ports {
		parts = append(parts, fmt.Sprintf("%s %d", protoName(p.Proto), p.First))
	}
	return strings.Join(parts, ", ")
}
