package firewall

import (
	"context"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/value"
)

// Block is a rule that drops everything from one address.
type Block struct {
	Rule     uuid.UUID
	RuleName string
	// Zone is the source zone of the rule; zero for any.
	Zone value.Zone
	// Object is the address object of the address, and Group the group through which the rule refers to it; nil if the rule names the
	// object itself.
	Object uuid.UUID
	Group  *uuid.UUID
}

// Blocks returns the enabled rules that refuse everything from single addresses, by address. Rules about a network, a range or a name are
// not included, because they concern more than one machine.
func (r *Room) Blocks(ctx context.Context, q db.Querier) (map[netip.Addr][]Block, error) {
	rules, err := r.rules.Where(ctx, q, "enabled AND action <> 'accept' AND dst_zone = $1 AND dst_kind = $2 AND src_kind = ANY ($3) AND service_object_id IS NULL AND service_group_id IS NULL",
		zoneAny, selectAny, []string{selectObject, selectGroup})
	if err != nil || len(rules) == 0 {
		return nil, err
	}
	hosts, err := r.addresses.Where(ctx, q, "kind = $1", kindHost)
	if err != nil {
		return nil, err
	}
	groups, err := r.addressGroups.All(ctx, q)
	if err != nil {
		return nil, err
	}
	blocks := map[netip.Addr][]Block{}
	for i := range rules {
		rule := &rules[i]
		var zone value.Zone
		if rule.SrcZone != anywhere {
			zone = rule.SrcZone
		}
		var members []uuid.UUID
		if n := slices.IndexFunc(groups, func(g AddressGroup) bool { return rule.SrcGroupID != nil && g.ID == *rule.SrcGroupID }); n >= 0 {
			members = groups[n].Members
		}
		for _, h := range hosts {
			named := rule.SrcObjectID != nil && *rule.SrcObjectID == h.ID
			address, err := netip.ParseAddr(h.Value)
			if err == nil && (named || slices.Contains(members, h.ID)) {
				blocks[address] = append(blocks[address], Block{Rule: rule.ID, RuleName: rule.Name.String(), Zone: zone, Object: h.ID, Group: rule.SrcGroupID})
			}
		}
	}
	return blocks, nil
}
