package tunnel

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Serve adds a tunnel to these networks to a draft, with its first device, and returns the name of its interface.
func (r *Room) Serve(ctx context.Context, q db.Querier, d *resource.Bundle, peer value.Line, endpoint value.Host, reach []netip.Prefix) (value.IfName, error) {
	all, err := r.interfaces.All(ctx, q)
	if err != nil {
		return value.IfName{}, err
	}
	name := freeName(all)
	own, ok := freeNetwork(all, reach)
	if !ok {
		return value.IfName{}, fault.New(fault.Conflict, "There is no free network from 10.8.0.0/24 to 10.8.255.0/24 for the tunnel.")
	}
	routes := make([]string, len(reach))
	for i, n := range reach {
		routes[i] = n.String()
	}
	tunnel := d.Create(r.interfaces.Name, map[string]any{
		"name": name, "address_cidr": own, "endpoint_host": endpoint, "client_routes": strings.Join(routes, ","),
	})
	d.Create(r.peers.Name, map[string]any{"interface_id": tunnel, "name": peer})
	return name, nil
}

// freeName returns the first unused name.
func freeName(all []Interface) value.IfName {
	for n := 0; ; n++ {
		name := value.Must[value.IfName](fmt.Sprintf("wg%d", n))
		if !slices.ContainsFunc(all, func(i Interface) bool { return i.Name == name }) {
			return name
		}
	}
}

// freeNetwork returns the gateway's address in the first network used neither by a tunnel nor behind the gateway.
func freeNetwork(all []Interface, taken []netip.Prefix) (own netip.Prefix, ok bool) {
	for _, i := range all {
		for _, n := range i.AddressCIDR.Networks() {
			taken = append(taken, n.Netip())
		}
	}
	for third := range 256 {
		own = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 8, byte(third), 1}), 24)
		if !slices.ContainsFunc(taken, own.Overlaps) {
			return own, true
		}
	}
	return netip.Prefix{}, false
}
