package firewall

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Question describes a packet: the first of a new connection.
type Question struct {
	InInterface     value.IfName         `json:"in_interface" doc:"Incoming interface. Give this or in_zone; neither is needed with mine."`
	InZone          value.Zone           `json:"in_zone" doc:"Zone that the packet comes from; its first interface is used."`
	Source          value.Addr           `json:"source" doc:"Source address."`
	Destination     value.Addr           `json:"destination" doc:"Destination address, as the sender wrote it: before NAT."`
	Protocol        *string              `json:"protocol" enum:"tcp,udp,icmp,icmpv6" doc:"The protocol."`
	SourcePort      *int                 `json:"source_port" minimum:"1" maximum:"65535" doc:"Source port, for tcp and udp. Rules do not match on it; NAT may keep it."`
	DestinationPort *int                 `json:"destination_port" minimum:"1" maximum:"65535" doc:"Destination port; tcp and udp need one."`
	ICMPType        *int                 `json:"icmp_type" minimum:"0" maximum:"255" doc:"Type of the ICMP or ICMPv6 message; without one, an echo request."`
	OutInterface    value.IfName         `json:"out_interface" doc:"Interface that the packet leaves by, instead of asking the kernel's routes. Addresses of the gateway stay the gateway's."`
	Mine            bool                 `json:"mine" doc:"Explain the connection of this request: its addresses, port and protocol are used and must not be given."`
	Operations      []resource.Operation `json:"operations" doc:"Operations of a change set. The answer is what would happen if they were saved; nothing is saved."`
	Draft           bool                 `json:"draft" doc:"The answer is what would happen if your own draft were applied. Operations must be empty then."`
}

func (q *Question) Validate() error {
	var c check.List
	if q.Mine {
		for field, given := range map[string]bool{
			"source": !q.Source.IsZero(), "destination": !q.Destination.IsZero(), "protocol": q.Protocol != nil, "source_port": q.SourcePort != nil,
			"destination_port": q.DestinationPort != nil, "icmp_type": q.ICMPType != nil, "out_interface": !q.OutInterface.IsZero(),
		} {
			c.That(!given, field, "must be empty when mine is set, because the connection of this request is used")
		}
	} else {
		q.complete(&c)
	}
	c.That(q.InInterface.IsZero() || q.InZone.IsZero(), "in_zone", "must not be set together with in_zone")
	c.That(q.InZone != anywhere && q.InZone != self, "in_zone", "must be one zone")
	c.That(!q.Draft || len(q.Operations) == 0, "operations", "must be empty when draft is set")
	if len(q.Operations) > 0 {
		set := resource.ChangeSet{Operations: q.Operations}
		if err := c.Merge(set.Validate()); err != nil {
			return err
		}
	}
	return c.Err()
}

// complete checks that a described packet is complete and has nothing superfluous.
func (q *Question) complete(c *check.List) {
	c.That(!q.InInterface.IsZero() || !q.InZone.IsZero(), "in_interface", "is required unless in_zone is set")
	c.That(!q.Source.IsZero(), "source", "is required")
	c.That(!q.Destination.IsZero(), "destination", "is required")
	c.That(q.Protocol != nil, "protocol", "is required")
	from, to := q.Source.Netip(), q.Destination.Netip()
	c.That(!from.IsValid() || !to.IsValid() || from.Is4() == to.Is4(), "destination", "must be of the same family as the source")
	if q.Protocol == nil {
		return
	}
	switch p := *q.Protocol; p {
	case "tcp", "udp":
		c.That(q.DestinationPort != nil, "destination_port", "is required for %s", p)
		c.That(q.ICMPType == nil, "icmp_type", "must be empty for %s", p)
	case "icmp", "icmpv6":
		c.That(q.SourcePort == nil, "source_port", "must be empty, because %s has no ports", p)
		c.That(q.DestinationPort == nil, "destination_port", "must be empty, because %s has no ports", p)
		c.That(!to.IsValid() || to.Is4() == (p == "icmp"), "protocol", "%s does not fit the family of the addresses.", p)
	}
}

// Explanation is what happens to a packet, and why.
type Explanation struct {
	Verdict      string      `json:"verdict" enum:"accept,drop,reject" doc:"What happens to the packet."`
	DecidedBy    DecidedBy   `json:"decided_by" doc:"What decided it."`
	Path         string      `json:"path" enum:"input,forward,unroutable" doc:"Whether the packet is for the gateway, is forwarded, or has no route."`
	InInterface  string      `json:"in_interface" doc:"Incoming interface; empty if the zone has none."`
	InZone       string      `json:"in_zone" doc:"Zone of that interface; empty when it has none."`
	OutInterface string      `json:"out_interface" doc:"Outgoing interface; empty unless it is forwarded."`
	OutZone      string      `json:"out_zone" doc:"Zone of that interface; empty when it has none."`
	Packet       PacketView  `json:"packet" doc:"The packet after NAT, as its receiver sees it."`
	NAT          []Rewritten `json:"nat" doc:"What was rewritten, and by which rule."`
	Steps        []Step      `json:"steps" doc:"What was checked, in order. Rules of other zones that did not match are not listed."`
}

// DecidedBy identifies the rule that decided.
type DecidedBy struct {
	Kind   string     `json:"kind" enum:"rule,automatic,default" doc:"A rule of yours, a rule that the gateway adds automatically, or no rule."`
	RuleID *uuid.UUID `json:"rule_id,omitzero" doc:"Which rule; absent unless the kind is rule."`
	Name   string     `json:"name" doc:"Name of the rule."`
	Text   string     `json:"text" doc:"A sentence that says what it did and why."`
}

type PacketView struct {
	Protocol        string `json:"protocol" enum:"tcp,udp,icmp,icmpv6" doc:"The protocol."`
	Source          string `json:"source" doc:"Source address; empty if it becomes an unknown address of the gateway."`
	SourcePort      *int   `json:"source_port" doc:"Source port; null when there is none, when it was not given, or when the kernel chooses it."`
	Destination     string `json:"destination" doc:"Destination address."`
	DestinationPort *int   `json:"destination_port" doc:"Destination port; null when there is none."`
	ICMPType        *int   `json:"icmp_type" doc:"Type of the ICMP or ICMPv6 message; null for other protocols."`
}

// Rewritten is the effect of NAT on a packet.
type Rewritten struct {
	Kind   string     `json:"kind" enum:"dnat,snat,masquerade" doc:"Whether the destination or the source was rewritten, or the source to the address of the interface."`
	RuleID *uuid.UUID `json:"rule_id,omitzero" doc:"NAT rule; absent for a rule that the gateway adds automatically."`
	Name   string     `json:"name" doc:"Name of the rule."`
	From   string     `json:"from" doc:"Address and port before."`
	To     string     `json:"to" doc:"Address and port after."`
}

// Step is one check of a packet, or one event on its way.
type Step struct {
	Stage   string     `json:"stage" enum:"prerouting,routing,input,forward,postrouting" doc:"Position on the packet's path."`
	Title   string     `json:"title" doc:"Name of the rule, or what happens here."`
	RuleID  *uuid.UUID `json:"rule_id,omitzero" doc:"Rule or NAT rule; absent if it is none of yours."`
	Outcome string     `json:"outcome" enum:"matched,not_matched,skipped_disabled,info" doc:"Whether it matched; skipped_disabled is a rule that would match if it were on."`
	Reason  string     `json:"reason" doc:"A sentence that says why."`
	Verdict *string    `json:"verdict,omitzero" enum:"accept,drop,reject" doc:"What a step that matched decided; absent when it decided nothing."`
}

func (r *Room) mountExplain() {
	d := tag.Doc("firewall.explain", "Explain what happens to a packet, now or after a change set")
	d.OnPrimary = r.Resources.OnPrimary
	httpd.Handle(r.Router, http.MethodPost, "/firewall/explain", httpd.Own, d,
		func(c *httpd.Call, in struct{ Body Question }) (Explanation, error) { return r.Explain(c, in.Body) })
}

func (r *Room) Explain(c *httpd.Call, q Question) (Explanation, error) {
	s, err := r.suppose(c, q)
	if err != nil {
		return Explanation{}, err
	}
	return r.explain(c, q, s)
}

// supposed is the state that a question is about.
type supposed struct {
	config Config
	// had and has are the gateway's addresses as stored, and after the change set.
	had, has []netip.Addr
	// carried and carries say who has the address of the request itself at the other end of a tunnel, before and after.
	carried, carries policy.Carrier
	// detour returns the new route of packets; nil if no route changes, or if this is not asked for or cannot be foreseen.
	detour Detour
}

// suppose reads the stored state, or the state after the question's change set.
func (r *Room) suppose(c *httpd.Call, q Question) (s supposed, err error) {
	if s.had, err = r.deps.Addresses(c, r.DB); err != nil {
		return s, err
	}
	client, _, known := c.Connection()
	known = known && q.Mine
	if known {
		if s.carried, err = r.deps.Carrier(c, r.DB, client.Addr()); err != nil {
			return s, err
		}
	}
	look := func(from *db.Tx) (err error) {
		if known {
			if s.carries, err = r.deps.Carrier(c, from, client.Addr()); err != nil {
				return err
			}
		}
		if s.config, err = r.load(c, from); err != nil {
			return err
		}
		if s.has, err = r.deps.Addresses(c, from); err != nil || q.InZone.IsZero() {
			return err
		}
		zones, err := r.zones.All(c, from)
		if err == nil && !slices.ContainsFunc(zones, func(z Zone) bool { return z.Name == q.InZone }) {
			err = fault.Field("in_zone", "Zone %q does not exist.", q.InZone)
		}
		return err
	}
	set := resource.Set{Operations: q.Operations, Listed: true}
	switch {
	case q.Draft:
		set, err = r.Resources.Drafted(c)
	case len(q.Operations) == 0:
		return s, r.DB.Snapshot(c, look)
	default:
		err = r.Resources.MaySuppose(c.Actor, set)
	}
	if err != nil {
		return s, err
	}
	var was, now Network
	if known {
		if was, err = r.deps.Network(c, r.DB); err != nil {
			return s, err
		}
	}
	err = r.Resources.Suppose(c, set, func(tx *db.Tx) (err error) {
		if err = look(tx); err == nil && known {
			now, err = r.deps.Network(c, tx)
		}
		return err
	})
	if err != nil || !known {
		return s, err
	}
	// If the detour cannot be foreseen, nothing is claimed about it.
	s.detour, _ = now.Since(c, was)
	return s, nil
}

// explain follows the packet of a question, and describes each step.
func (r *Room) explain(c *httpd.Call, q Question, s supposed) (Explanation, error) {
	p, err := q.packet(c)
	if err != nil {
		return Explanation{}, err
	}
	rs := compileAll(s.config)
	n := newNarrator(s.config, &rs)
	switch {
	case !q.InZone.IsZero():
		p.InZone = q.InZone
		if links := rs.links(q.InZone); len(links) > 0 {
			// Of several interfaces, use the one that leads to the source.
			if p.In, err = r.cameBy(c, p); err != nil || !slices.Contains(links, p.In) {
				p.In = links[0]
			}
		}
	case !q.InInterface.IsZero():
		p.In, p.InZone = q.InInterface, rs.zoneOf(q.InInterface)
	default:
		if p.In, err = r.cameBy(c, p); err != nil {
			return Explanation{}, err
		}
		p.InZone = rs.zoneOf(p.In)
	}
	var failed error
	d := rs.evaluate(p, func(destination netip.Addr) Way {
		way, err := r.wayOf(c, q, s, p, destination)
		if err != nil {
			failed = err
		}
		return way
	}, n.see)
	if failed != nil {
		return Explanation{}, noWay(failed)
	}
	return n.story(p, d), nil
}

// packet returns the packet of the question, without its incoming interface.
func (q *Question) packet(c *httpd.Call) (Packet, error) {
	if q.Mine {
		client, server, ok := c.Connection()
		if !ok {
			return Packet{}, fault.Field("mine", "cannot be used, because this request did not come over the network to the node that answers it")
		}
		return Packet{Source: client.Addr(), Destination: server.Addr(), Proto: nft.TCP, SourcePort: client.Port(), DestinationPort: server.Port()}, nil
	}
	p := Packet{Source: q.Source.Netip(), Destination: q.Destination.Netip(), Proto: protocols[*q.Protocol][0]}
	for _, x := range []struct {
		given *int
		into  *uint16
	}{{q.SourcePort, &p.SourcePort}, {q.DestinationPort, &p.DestinationPort}} {
		if x.given != nil {
			*x.into = uint16(*x.given)
		}
	}
	switch {
	case q.ICMPType != nil:
		p.ICMPType = uint8(*q.ICMPType)
	case p.Proto == nft.ICMP:
		p.ICMPType = echoRequest
	case p.Proto == nft.ICMPv6:
		p.ICMPType = echoRequest6
	}
	return p, nil
}

// cameBy returns the interface that a packet to the gateway came in by: the outgoing interface of the answer.
func (r *Room) cameBy(ctx context.Context, p Packet) (value.IfName, error) {
	if p.Source.IsLoopback() || p.Source == p.Destination {
		return loopback, nil
	}
	back, err := r.deps.Way(ctx, p.Destination, p.Source, "")
	switch {
	case err != nil:
		return value.IfName{}, noWay(err)
	case back.Local:
		return loopback, nil
	}
	in, err := value.Parse[value.IfName](back.Interface)
	if err != nil {
		return in, noWay(fmt.Errorf("no interface has a route to %s", p.Source))
	}
	return in, nil
}

func noWay(err error) error {
	return fault.Wrap(fault.Unavailable, err, "The kernel's routes cannot be read: %s.", err)
}

// astray says where answers to the request's own packet would go, if not back the way it came.
func (r *Room) astray(ctx context.Context, s supposed, p Packet) (where string, err error) {
	if s.detour == nil || p.In == loopback {
		return "", nil
	}
	back, err := r.deps.Way(ctx, p.Destination, p.Source, "")
	if err != nil {
		return "", err
	}
	switch then, err := s.detour(p.Source, back); {
	case err != nil || then.Interface == back.Interface && then.Via == back.Via && !then.Local:
		return "", nil
	case then.Local:
		return fmt.Sprintf("answers would stay here: %s becomes the gateway's address", p.Source), nil
	case then.Interface == "":
		return "answers would not get back: " + then.Reason, nil
	case then.Interface != back.Interface:
		return fmt.Sprintf("answers to %s would leave through %s instead of %s", p.Source, then.Interface, back.Interface), nil
	default:
		return fmt.Sprintf("answers to %s would go %s instead of %s", p.Source, hop(then.Via), hop(back.Via)), nil
	}
}

// hop describes the next hop of a packet: a router, or the destination itself.
func hop(via netip.Addr) string {
	if !via.IsValid() {
		return "there directly"
	}
	return "to the router " + via.String()
}

// wayOf returns the route of a packet. What the change set does to the gateway's own addresses overrides the kernel's answer, which knows
// nothing of it.
func (r *Room) wayOf(ctx context.Context, q Question, s supposed, p Packet, destination netip.Addr) (Way, error) {
	had, has := slices.Contains(s.had, destination), slices.Contains(s.has, destination)
	lost := had && !has
	switch {
	case q.Mine && s.carried.Interface == p.In && s.carried != s.carries:
		return Way{Reason: fmt.Sprintf("it comes through %s of the tunnel %s, which could no longer connect", s.carried.Name, p.In)}, nil
	case has && !had:
		return Way{Local: true, Reason: fmt.Sprintf("%s becomes an address of the gateway", destination)}, nil
	case q.Mine && destination == p.Destination && !lost:
		astray, err := r.astray(ctx, s, p)
		return Way{Local: astray == "", Reason: astray}, err
	case !q.OutInterface.IsZero() && has:
		return Way{Local: true}, nil
	case !q.OutInterface.IsZero():
		return Way{Interface: q.OutInterface.String(), Reason: fmt.Sprintf("it leaves through %s, as given", q.OutInterface)}, nil
	}
	way, err := r.deps.Way(ctx, p.Source, destination, p.In.String())
	if err == nil && way.Local && lost {
		return Way{Reason: fmt.Sprintf("%s is no longer an address of the gateway", destination)}, nil
	}
	return way, err
}
