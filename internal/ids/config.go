package ids

import (
	"context"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/value"
)

// Config is everything that CrowdSec's files depend on.
type Config struct {
	Settings Settings `json:"settings"`
	// Journal means that daemons log to systemd's journal, not to files.
	Journal bool `json:"journal"`
	// Always lists the networks that are never banned, whatever the settings say. Own is the machine itself with its present addresses.
	Always []value.Prefix `json:"always"`
	Own    []value.Prefix `json:"own,omitempty"`
}

// BouncerConfig is everything that the bouncer's file depends on. Its key is in plain text.
type BouncerConfig struct {
	Settings Settings `json:"settings"`
	// Key is the bouncer's API key; empty while it has none.
	Key Key `json:"key"`
}

// on reports whether the bouncer should run. Without a key it would exit at once.
func (c BouncerConfig) on() bool {
	return c.Settings.Enabled && c.Settings.Blocking && !c.Key.IsZero()
}

// The address of CrowdSec's API, and the logs that it reads if there is no journal.
const (
	authFile  = crowdsec.AuthLog
	proxyFile = crowdsec.ProxyLog
	wafFile   = crowdsec.WAFLog
	dropFile  = crowdsec.DropLog
)

var proxyService = haproxy.Unit.Service()

var localAPI = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), crowdsec.Port).String()

// loopback is always allowed: CrowdSec and the gateway communicate there.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func (r *Room) load(ctx context.Context, q db.Querier) (Config, error) {
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return Config{}, err
	}
	stored, err := r.stored(ctx, q)
	if err != nil {
		return Config{}, err
	}
	return r.adapt(ctx, Config{Settings: *s, Journal: r.Host.Facts().Journal, Always: prefixes(stored)})
}

// adapt adds the machine's present addresses, so that it is never banned.
func (r *Room) adapt(ctx context.Context, c Config) (Config, error) {
	own, err := r.own(ctx)
	c.Own = prefixes(own)
	return c, err
}

func prefixes(list []netip.Prefix) (out []value.Prefix) {
	for _, n := range list {
		out = append(out, value.Must[value.Prefix](n.String()))
	}
	return out
}

func (r *Room) loadBouncer(ctx context.Context, q db.Querier) (BouncerConfig, error) {
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return BouncerConfig{}, err
	}
	known, err := r.accounts.read()
	return BouncerConfig{Settings: *s, Key: known.Firewall}, err
}

// own returns the machine's addresses.
func (r *Room) own(ctx context.Context) ([]netip.Prefix, error) {
	links, err := r.Host.Links(ctx)
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	for _, l := range links {
		for _, a := range l.Addrs {
			addresses = append(addresses, a.Prefix().Addr())
		}
	}
	return sorted(append(alone(addresses), loopback...)), nil
}

// stored returns the other networks that are never banned: declared addresses, the other nodes of the cluster, and trusted proxies.
func (r *Room) stored(ctx context.Context, q db.Querier) ([]netip.Prefix, error) {
	var addresses []netip.Addr
	for _, more := range []func(context.Context, db.Querier) ([]netip.Addr, error){r.deps.Addresses, r.deps.Peers} {
		list, err := more(ctx, q)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, list...)
	}
	proxies, err := r.deps.Proxies(ctx, q)
	return sorted(append(alone(addresses), proxies...)), err
}

// alone returns the networks of single addresses. Link-local ones are never banned anyway.
func alone(addresses []netip.Addr) (list []netip.Prefix) {
	for _, a := range addresses {
		a = a.Unmap().WithZone("")
		if a.IsValid() && !a.IsLinkLocalUnicast() && !a.IsLoopback() && !a.IsUnspecified() {
			list = append(list, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return list
}

func sorted(list []netip.Prefix) []netip.Prefix {
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list)
}

// allowed returns all networks that are never banned, including the operator's.
func (r *Room) allowed(ctx context.Context) ([]netip.Prefix, error) {
	s, err := r.settings.Load(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	own, err := r.own(ctx)
	if err != nil {
		return nil, err
	}
	list, err := r.stored(ctx, r.DB)
	list = append(list, own...)
	for _, a := range s.AllowList {
		list = append(list, a.CIDR.Netip())
	}
	return list, err
}
