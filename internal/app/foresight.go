package app

import (
	"context"
	"net/netip"

	"edge.internal/gateway/internal/firewall"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/network"
	"edge.internal/gateway/internal/tunnel"
)

// foresight holds the stored configuration that determines where packets go.
type foresight struct {
	house   *House
	network network.Config
	ends    tunnel.Ends
}

// foresight reads the stored configuration that determines where packets go.
func (h *House) foresight(ctx context.Context, q db.Querier) (firewall.Network, error) {
	f := foresight{house: h}
	var err error
	if f.network, err = h.Network.Stored(ctx, q); err != nil {
		return nil, err
	}
	f.ends, err = h.Tunnel.Ends(ctx, q)
	return f, err
}

// Since works out which packets would be routed differently than now.
func (f foresight) Since(ctx context.Context, was firewall.Network) (firewall.Detour, error) {
	forecast, err := f.house.Network.Forecast(ctx, f.network)
	if err != nil {
		return nil, err
	}
	before := was.(foresight).ends
	if forecast.Still() && before.Equal(f.ends) {
		return nil, nil
	}
	return func(to netip.Addr, is firewall.Way) (firewall.Way, error) {
		way, err := forecast.Way(to, host.Way{Local: is.Local, Interface: is.Interface, Via: is.Via, Source: is.Source, Unreachable: is.Reason})
		if err != nil {
			return is, err
		}
		if way, err = tunnel.Detour(before, f.ends, to, way, forecast.Route(to)); err != nil {
			return is, err
		}
		return firewallWay(way), nil
	}, nil
}

// firewallWay converts a way to the packet filter's form.
func firewallWay(way host.Way) firewall.Way {
	return firewall.Way{Local: way.Local, Interface: way.Interface, Via: way.Via, Source: way.Source, Reason: way.Unreachable}
}
