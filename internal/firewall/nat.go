package firewall

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

const (
	natDestination = "dnat"
	natSource      = "snat"
	natMasquerade  = "masquerade"
)

// NATRule rewrites the addresses of traffic. The first matching rule by priority decides.
type NATRule struct {
	resource.Meta
	Name          value.Line   `json:"name" required:"true" maxLength:"120" doc:"Name of the rule."`
	Kind          string       `json:"kind" required:"true" enum:"dnat,snat,masquerade" doc:"Whether it rewrites the destination, the source, or the source to the address of the interface that the traffic leaves by."`
	InZone        value.Zone   `json:"in_zone" required:"true" doc:"Zone that the traffic comes from, or any."`
	OutZone       value.Zone   `json:"out_zone" required:"true" doc:"Zone that the traffic leaves by, or any. Must be any for dnat, because the outgoing interface is not known yet."`
	Protocol      string       `json:"protocol" required:"true" enum:"tcp,udp,tcp+udp,any" doc:"The protocol; ports need tcp or udp."`
	SrcCIDR       value.Prefix `json:"src_cidr" doc:"Source network; empty means any source."`
	DstCIDR       value.Prefix `json:"dst_cidr" doc:"Destination network. Empty means any destination; for dnat, the addresses of the gateway."`
	DstPort       *int         `json:"dst_port" minimum:"1" maximum:"65535" doc:"Destination port, or the first of a range."`
	DstPortEnd    *int         `json:"dst_port_end" minimum:"1" maximum:"65535" doc:"The last port of the range."`
	TargetAddress value.Addr   `json:"target_address" doc:"Target address, for dnat and snat."`
	TargetPort    *int         `json:"target_port" minimum:"1" maximum:"65535" doc:"Target port, or the first of a range; null keeps the port."`
	TargetPortEnd *int         `json:"target_port_end" minimum:"1" maximum:"65535" doc:"The last port of the range. For dnat, a range as long as that of the destination maps port by port."`
	// The anti-lockout rules keep these ports open, which is useless if their traffic is redirected.
	TakesManagementPorts bool         `json:"takes_management_ports" doc:"Whether a dnat rule may redirect management ports of the gateway: tcp 22, tcp 443 and udp 443 of its own addresses. Port 3443 is never redirected."`
	Enabled              bool         `json:"enabled" doc:"When off, the rule is kept but not applied."`
	Priority             int64        `json:"priority" doc:"Lower comes first. By default a new rule goes last."`
	Note                 string       `json:"note" maxLength:"4000" doc:"Note for other administrators."`
	Labels               []value.Line `json:"labels" doc:"Labels to find it by."`
	Comment              string       `json:"comment" maxLength:"500" doc:"What the rule is for."`
}

func (n *NATRule) Label() string { return n.Name.String() }

// Validate checks a rule on its own. It accepts addresses of mixed families: such a rule is stored, skipped and reported.
func (n *NATRule) Validate() error {
	var c check.List
	c.That(n.InZone.String() != zoneSelf, "in_zone", "must be a zone, or any")
	c.That(n.OutZone.String() != zoneSelf, "out_zone", "must be a zone, or any")
	switch n.Kind {
	case natDestination:
		c.That(!n.TargetAddress.IsZero(), "target_address", "is required")
		c.That(n.OutZone == anywhere, "out_zone", "must be any for a port forward, because the outgoing interface is not known yet")
	case natSource:
		c.That(!n.TargetAddress.IsZero(), "target_address", "is required")
	case natMasquerade:
		c.That(n.TargetAddress.IsZero(), "target_address", "must be empty, because masquerading uses the address of the interface")
		c.That(n.TargetPort == nil, "target_port", "must be empty, because masquerading chooses the port")
	}
	c.That(!n.TargetAddress.Netip().IsUnspecified(), "target_address", "must be the address of a host")
	c.That(n.Protocol != "any" || n.DstPort == nil, "dst_port", "needs the protocol tcp, udp or tcp+udp")
	c.That(n.Protocol != "any" || n.TargetPort == nil, "target_port", "needs the protocol tcp, udp or tcp+udp")
	ports(&c, "dst_port", n.DstPort, "dst_port_end", n.DstPortEnd)
	ports(&c, "target_port", n.TargetPort, "target_port_end", n.TargetPortEnd)
	labels(&c, n.Labels)
	return c.Err()
}

func (r *Room) natKind() resource.Kind[NATRule] {
	return resource.Kind[NATRule]{
		Name: "firewall.nat-rule", Title: "NAT rule", Path: "/nat-rules", Table: "firewall_nat_rules", Order: "priority, created_at", Feeds: feeds,
		Notes: []string{"note", "labels"}, Refers: map[string]string{"in_zone": zoneTable, "out_zone": zoneTable},
		New: func() NATRule { return NATRule{InZone: anywhere, OutZone: anywhere, Protocol: "any", Enabled: true} },
		Check: func(ctx context.Context, tx *db.Tx, was, now *NATRule) error {
			if now == nil {
				return nil
			}
			if err := zonesExist(ctx, tx, map[string]value.Zone{"in_zone": now.InZone, "out_zone": now.OutZone}); err != nil {
				return err
			}
			return r.refuseLockout(ctx, tx, was, now)
		},
	}
}

// redirectable lists the management ports that a rule may take with permission: all but 3443, which no rule can take.
var redirectable = Services{Ports: slices.DeleteFunc(slices.Clone(lockout.Ports), func(p nft.Ports) bool { return p == management.Ports[0] })}

// refuseLockout refuses a rule that takes more management ports than before, unless it is permitted to.
func (r *Room) refuseLockout(ctx context.Context, tx *db.Tx, was, now *NATRule) error {
	takes := now.takes()
	if was != nil && !was.TakesManagementPorts {
		before := was.takes()
		takes = slices.DeleteFunc(takes, func(port string) bool { return slices.Contains(before, port) && was.DstCIDR == now.DstCIDR })
	}
	if now.TakesManagementPorts || len(takes) == 0 {
		return nil
	}
	if !now.DstCIDR.IsZero() {
		own, err := r.own(ctx, tx)
		if err != nil || !slices.ContainsFunc(own, now.DstCIDR.Netip().Contains) {
			return err
		}
	}
	return &fault.Error{
		Kind: fault.Conflict,
		Message: fmt.Sprintf("This rule redirects %s of the gateway itself, which you may need to manage it. Narrow its destination or its ports, or set takes_management_ports.",
			strings.Join(takes, ", ")),
		Details: map[string]any{"locks_out": takes},
	}
}

// takes lists the management ports that the rule matches, such as tcp/22.
func (n *NATRule) takes() (list []string) {
	t, why := translate(n)
	if !n.Enabled || n.Kind != natDestination || why != "" {
		return nil
	}
	for _, p := range redirectable.Ports {
		if t.Services.contains(p.Proto, p.First, nft.V4) {
			list = append(list, fmt.Sprintf("%s/%d", protoName(p.Proto), p.First))
		}
	}
	return list
}

// own returns the addresses of the gateway: the stored ones, and the kernel's, some of which may be leased.
func (r *Room) own(ctx context.Context, q db.Querier) ([]netip.Addr, error) {
	own, err := r.deps.Addresses(ctx, q)
	if err != nil {
		return nil, err
	}
	links, err := r.Host.Links(ctx)
	for _, l := range links {
		for _, a := range l.Addrs {
			own = append(own, a.Prefix().Addr())
		}
	}
	return own, err
}
