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

// foresight is what is stored about where packets go.
type foresight struct {
	house   *House
	network network.Config
	ends    tunnel.Ends
}

// foresight reads what is stored about where packets go.
func (h *House) foresight(ctx context.Context, q db.Querier) (firewall.Network, error) {
	f := foresight{house: h}
	var err error
	if f.network, err = h.Network.Stored(ctx, q); err != nil {
		return nil, err
	}
	f.ends, err = h.Tunnel.Ends(ctx, q)
	return f, err
}

// Since works out how packets would go another way than they do now.
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
		return seen(way), nil
	}, nil
}

// seen is a way as the packet filter knows it.
func seen(way host.Way) firewall.Way {
	return firewall.Way{Local: way.Local, Interface: way.Interface, Via: way.Via, Source: way.Source, Reason: way.Unreachable}
}
