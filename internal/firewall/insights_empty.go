package firewall

import (
	"cmp"
	"fmt"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/value"
)

// reasons explains why a rule cannot match anything.
type reasons struct {
	book *book
	rs   *Ruleset
}

func newReasons(c Config, rs *Ruleset) reasons { return reasons{newBook(c), rs} }

// rule returns why a rule cannot match anything now; empty if it can.
func (x reasons) rule(r *Rule, p *Policy) string {
	text := cmp.Or(x.zone(r.SrcZone), x.zone(r.DstZone))
	if text == "" && (p.matches(nft.V4) || p.matches(nft.V6)) {
		return ""
	}
	if text == "" {
		text = x.selector("source", &p.From, r.SrcKind, r.SrcObjectID, r.SrcGroupID)
	}
	if text == "" {
		text = x.selector("destination", &p.To, r.DstKind, r.DstObjectID, r.DstGroupID)
	}
	if text == "" && !p.Services.Any && len(p.Services.Ports) == 0 && r.ServiceGroupID != nil && x.book.bundles[*r.ServiceGroupID] != nil {
		text = fmt.Sprintf("the service group %s has no members", x.book.bundles[*r.ServiceGroupID].Name)
	}
	return cmp.Or(text, "its source, its destination and its service have no family of addresses in common")
}

func (x reasons) zone(z value.Zone) string {
	if z == anywhere || z == self || len(x.rs.links(z)) > 0 {
		return ""
	}
	return fmt.Sprintf("no interface is in zone %s", z)
}

// selector returns why a selector matches no address at all.
func (x reasons) selector(side string, a *Addresses, kind string, object, group *uuid.UUID) string {
	if a.Any || len(a.Spans[nft.V4])+len(a.Spans[nft.V6]) > 0 {
		return ""
	}
	if kind == selectObject && x.book.objects[*object] != nil {
		o := x.book.objects[*object]
		return fmt.Sprintf("its %s is the object %s, whose name %s resolves to nothing now", side, o.Name, o.Value)
	}
	if kind == selectGroup && x.book.groups[*group] != nil {
		g := x.book.groups[*group]
		if len(g.Members) == 0 {
			return fmt.Sprintf("its %s is the group %s, which has no members", side, g.Name)
		}
		return fmt.Sprintf("its %s is the group %s, whose names resolve to nothing now", side, g.Name)
	}
	return fmt.Sprintf("its %s contains no address", side)
}
