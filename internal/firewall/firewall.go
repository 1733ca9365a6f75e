// Package firewall manages the packet filter: zones, address objects, services, rules and NAT rules, the kernel table compiled from them,
// its counters and its log, and the explanation of its decisions.
package firewall

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/rescue"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Room manages the packet filter.
type Room struct {
	*kit.Kit
	deps          Deps
	zones         resource.Kind[Zone]
	addresses     resource.Kind[Address]
	addressGroups resource.Kind[AddressGroup]
	services      resource.Kind[Service]
	serviceGroups resource.Kind[ServiceGroup]
	rules         resource.Kind[Rule]
	nat           resource.Kind[NATRule]
	kernel        kernel
	guard         *guard
	log           *Log
	resolver      *resolver
	hits          *hits
	counters      counters
	// drawn is the last rendered table, guarded by drawing.
	drawing  sync.Mutex
	drawn    *drawing
	insights insights
}

// Deps holds what other rooms provide. Rows on which the table depends must feed the packet filter.
type Deps struct {
	// Interfaces returns the interfaces of each zone.
	Interfaces func(ctx context.Context, q db.Querier) (map[value.Zone][]value.IfName, error)
	// ZoneUsers returns the interfaces in a zone, as rows.
	ZoneUsers func(ctx context.Context, q db.Querier, zone value.Zone) ([]resource.User, error)
	// Openings are the ports that the gateway's services need.
	Openings []policy.Source
	// Standing returns the openings of daemons that do not run with the stored state.
	Standing func() []policy.Opening
	// Tunnels returns the active tunnels that serve peers.
	Tunnels func(ctx context.Context, q db.Querier) ([]policy.Tunnel, error)
	// Defaults returns tunnels that take all traffic, whichever interface it came in by.
	Defaults func(ctx context.Context, q db.Querier) ([]value.IfName, error)
	// Peers returns the addresses of the other nodes of the cluster.
	Peers func(ctx context.Context, q db.Querier) ([]netip.Addr, error)
	// Resolve looks up the addresses of a name.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Way asks the kernel for the route of a packet that comes in by an interface, or, if in is empty, of one from the gateway itself.
	Way func(ctx context.Context, source, destination netip.Addr, in string) (Way, error)
	// Network reads the stored links, addresses, routes and tunnels.
	Network func(ctx context.Context, q db.Querier) (Network, error)
	// Addresses returns the stored addresses of the gateway.
	Addresses func(ctx context.Context, q db.Querier) ([]netip.Addr, error)
	// Carrier returns who has an address at the other end of a tunnel.
	Carrier func(ctx context.Context, q db.Querier, a netip.Addr) (policy.Carrier, error)
}

// Way is the route of a packet.
type Way struct {
	// Local means that the packet is for the gateway itself.
	Local bool
	// Interface is the outgoing interface; empty if there is no route or the packet is local.
	Interface string
	// Via is the next router, if any.
	Via netip.Addr
	// Reason is a sentence about the route, or about why there is none.
	Reason string
	// Source is the gateway's address towards the destination, which masquerading uses. It may be absent.
	Source netip.Addr
}

// Network decides where packets go.
type Network interface {
	// Since determines which packets are routed differently than with the earlier network.
	Since(ctx context.Context, was Network) (Detour, error)
}

// Detour returns the new route of packets with the given present route; nil if no route changes.
type Detour func(destination netip.Addr, is Way) (Way, error)

func New(k *kit.Kit, d Deps) *Room {
	r := &Room{Kit: k, deps: d}
	r.guard, r.resolver, r.hits = newGuard(r), newResolver(r), newHits(r)
	r.log = NewLog(k.Host, r.linkNames, LogTable{Action: r.kernel.action, Named: r.kernel.named, Members: r.kernel.members}, k.Clock, k.Log)
	r.zones, r.addresses, r.addressGroups = r.zoneKind(), r.addressKind(), r.addressGroupKind()
	r.services, r.serviceGroups, r.rules, r.nat = r.serviceKind(), r.serviceGroupKind(), r.ruleKind(), r.natKind()
	apply.Register(k.Engine, apply.Component[Config]{
		ID: apply.PacketFilter, Load: r.load, Amend: r.amend, Render: r.render, Check: r.check, Apply: r.replace, Verify: r.verify, Atomic: true,
	})
	return r
}

func (r *Room) Mount() {
	r.Resources.Declare("firewall_rule_hits", resource.Local)
	r.zones.Mount(r.Resources)
	r.addresses.Mount(r.Resources)
	r.addressGroups.Mount(r.Resources)
	r.services.Mount(r.Resources)
	r.serviceGroups.Mount(r.Resources)
	r.rules.Mount(r.Resources)
	r.nat.Mount(r.Resources)
	r.mountUsage()
	r.mountBuiltIn()
	r.log.Mount(r.Router)
	r.mountExplain()
	r.mountImpact()
	r.mountInsights()
	r.mountCounters()
}

// Run guards the table, resolves names, counts hits and reads the packet log until the context ends.
func (r *Room) Run(ctx context.Context) {
	var jobs sync.WaitGroup
	for _, job := range []func(context.Context){r.guard.run, r.guard.listen, r.guard.notifyLanes, r.resolver.run, r.hits.run, r.log.Run} {
		jobs.Go(func() { rescue.Loop(ctx, r.Clock, r.Log, "packet-filter", job) })
	}
	jobs.Wait()
}

// linkNames returns the names of the interfaces by index.
func (r *Room) linkNames() map[uint32]string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	links, err := r.Host.Links(ctx)
	if err != nil {
		r.Log.Warn("the packet log does not know the interfaces", "component", "packet-filter", "err", err)
	}
	names := map[uint32]string{}
	for _, l := range links {
		names[uint32(l.Index)] = l.Name
	}
	return names
}

const tag httpd.Tag = "firewall"
