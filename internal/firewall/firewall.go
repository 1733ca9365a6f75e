// Package firewall owns the packet filter: zones, address objects, services, rules and NAT rules, the kernel's table that
// they become, what it counts and logs, and the explanation of what it decides.
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

// Room is the packet filter.
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
	// drawn is the newest table that was rendered; under drawing.
	drawing  sync.Mutex
	drawn    *drawing
	insights insights
}

// Deps is what other rooms lend. What the table depends on is of rows that feed the packet filter.
type Deps struct {
	// Interfaces are those of each zone.
	Interfaces func(ctx context.Context, q db.Querier) (map[value.Zone][]value.IfName, error)
	// ZoneUsers are the interfaces in a zone, as rows.
	ZoneUsers func(ctx context.Context, q db.Querier, zone value.Zone) ([]resource.User, error)
	// Openings are what the services of the gateway ask for.
	Openings []policy.Source
	// Standing are openings for what they run with, as far as that is not what is stored.
	Standing func() []policy.Opening
	// Tunnels are the active tunnels that serve peers.
	Tunnels func(ctx context.Context, q db.Querier) ([]policy.Tunnel, error)
	// Defaults are tunnels that take everything, whatever it came in by.
	Defaults func(ctx context.Context, q db.Querier) ([]value.IfName, error)
	// Peers are the addresses of the other nodes of the cluster.
	Peers func(ctx context.Context, q db.Querier) ([]netip.Addr, error)
	// Resolve asks the DNS for the addresses of a name.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Way asks the kernel where a packet goes that comes in by an interface; without one, that the gateway sends itself.
	Way func(ctx context.Context, source, destination netip.Addr, in string) (Way, error)
	// Network reads the stored links, addresses, routes and tunnels.
	Network func(ctx context.Context, q db.Querier) (Network, error)
	// Addresses are the stored addresses of the gateway.
	Addresses func(ctx context.Context, q db.Querier) ([]netip.Addr, error)
	// Carrier is who has an address at the other end of a tunnel.
	Carrier func(ctx context.Context, q db.Querier, a netip.Addr) (policy.Carrier, error)
}

// Way is where a packet goes.
type Way struct {
	// Local says that it is for the gateway itself.
	Local bool
	// Interface is the one that it leaves by; empty when there is no way, and when it is local.
	Interface string
	// Via is the router that it is given to; absent if there is none.
	Via netip.Addr
	// Reason is a sentence about the route, or about why there is none.
	Reason string
	// Source is the address that the gateway has towards the destination: what masquerading takes. It may be absent.
	Source netip.Addr
}

// Network is what decides where packets go.
type Network interface {
	// Since works out how packets would go another way than they do with the network as it was.
	Since(ctx context.Context, was Network) (Detour, error)
}

// Detour says where packets would go that go a way now; nil if all keep to theirs.
type Detour func(destination netip.Addr, is Way) (Way, error)

// New builds the room.
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
	for _, job := range []func(context.Context){r.guard.run, r.guard.listen, r.guard.tell, r.resolver.run, r.hits.run, r.log.Run} {
		jobs.Go(func() { rescue.Loop(ctx, r.Clock, r.Log, "packet-filter", job) })
	}
	jobs.Wait()
}

// linkNames are the names of the interfaces by index.
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
