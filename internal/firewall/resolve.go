package firewall

import (
	"slices"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf/nft"
)

// resolved holds rules with their references resolved. The next configuration reuses what has not changed.
type resolved struct {
	config   *Config
	book     *book
	policies []*Policy // by index of the rule; nil if it is off
}

// resolve resolves rules. It reuses policies whose rules have not changed, or whose result is the same.
func resolve(c *Config, was *resolved) *resolved {
	now := &resolved{config: c, policies: make([]*Policy, len(c.Rules))}
	if was == nil {
		was = &resolved{config: &Config{}}
	}
	known := was.book != nil && sameObjects(c, was.config)
	if now.book = was.book; !known {
		now.book = newBook(*c)
	}
	first, last, n := 0, len(c.Rules), len(was.policies)
	for first < min(last, n) && c.Rules[first] == was.config.Rules[first] {
		first++
	}
	for ; last > first && n > first && c.Rules[last-1] == was.config.Rules[n-1]; n-- {
		last--
	}
	between := map[uuid.UUID]*Policy{}
	for _, p := range was.policies[first:n] {
		if p != nil {
			between[p.ID] = p
		}
	}
	copy(now.policies, was.policies[:first])
	copy(now.policies[last:], was.policies[n:])
	for i := first; i < last; i++ {
		now.policies[i] = between[c.Rules[i].ID]
	}
	if known {
		now.look(first, last)
	} else {
		now.look(0, len(c.Rules))
	}
	return now
}

// look resolves a range of rules, comparing them with their earlier policies.
func (x *resolved) look(from, to int) {
	for i := from; i < to; i++ {
		r, old := x.config.Rules[i], x.policies[i]
		switch p := x.book.policy(r); {
		case !r.Enabled:
			x.policies[i] = nil
		case old == nil || !p.equal(old):
			x.policies[i] = p
		}
	}
}

// sameObjects reports whether two configurations share the same lists of objects, without comparing their contents.
func sameObjects(a, b *Config) bool {
	return sameList(a.Addresses, b.Addresses) && sameList(a.AddressGroups, b.AddressGroups) &&
		sameList(a.Services, b.Services) && sameList(a.ServiceGroups, b.ServiceGroups)
}

func sameList[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

func (b *book) policy(r *Rule) *Policy {
	p := &Policy{
		ID: r.ID, Name: r.Name.String(), Src: r.SrcZone, Dst: r.DstZone, Action: r.Action, Log: r.Log,
		From:     b.addresses(r.SrcKind, r.SrcObjectID, r.SrcGroupID, r.SrcCIDR),
		To:       b.addresses(r.DstKind, r.DstObjectID, r.DstGroupID, r.DstCIDR),
		Services: b.servicesOf(r.ServiceObjectID, r.ServiceGroupID),
	}
	p.named = p.From.named() || p.To.named()
	return p
}

func (a *Addresses) named() bool { return !a.Set[nft.V4].IsZero() }

func (p *Policy) equal(o *Policy) bool {
	return p.ID == o.ID && p.Name == o.Name && p.Src == o.Src && p.Dst == o.Dst && p.Action == o.Action && p.Log == o.Log &&
		p.From.equal(&o.From) && p.To.equal(&o.To) && p.Services.Any == o.Services.Any && slices.Equal(p.Services.Ports, o.Services.Ports)
}

func (a *Addresses) equal(o *Addresses) bool {
	return a.Any == o.Any && a.Set == o.Set && slices.Equal(a.Spans[0], o.Spans[0]) && slices.Equal(a.Spans[1], o.Spans[1])
}
