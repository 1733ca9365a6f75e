package fwdproxy

import (
	"context"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/value"
)

// Config is everything that squid's files depend on.
type Config struct {
	Settings Settings `json:"settings"`
	// ACLs lists the active entries in their order.
	ACLs []ACL `json:"acls"`
	// Own lists the machine's present addresses. Through the proxy, clients only reach its sites there.
	Own []value.Addr `json:"own"`
}

func (r *Room) load(ctx context.Context, q db.Querier) (Config, error) {
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return Config{}, err
	}
	entries, err := r.acls.All(ctx, q)
	if err != nil {
		return Config{}, err
	}
	c := Config{Settings: *s, ACLs: make([]ACL, 0, len(entries))}
	for _, a := range entries {
		if a.Active {
			c.ACLs = append(c.ACLs, a)
		}
	}
	return r.adapt(ctx, c)
}

// adapt sets the machine's present addresses.
func (r *Room) adapt(ctx context.Context, c Config) (_ Config, err error) {
	c.Own, err = r.own(ctx)
	return c, err
}

// own returns the machine's addresses, except those that every machine has.
func (r *Room) own(ctx context.Context) ([]value.Addr, error) {
	links, err := r.Host.Links(ctx)
	if err != nil {
		return nil, err
	}
	var list []netip.Addr
	for _, l := range links {
		for _, a := range l.Addrs {
			if ip := a.Prefix().Addr(); !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
				list = append(list, ip)
			}
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	own := []value.Addr{}
	for _, ip := range slices.Compact(list) {
		a, err := value.Parse[value.Addr](ip.String())
		if err != nil {
			return nil, err
		}
		own = append(own, a)
	}
	return own, nil
}
