// Package proxy owns the reverse proxy: domains with their headers, backends with their servers, routing rules, and the
// HAProxy that carries the traffic.
package proxy

import (
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/resource"
)

var feeds = []apply.ID{apply.ReverseProxy}

// Deps is what the room needs of others.
type Deps struct {
	// FQDN is the gateway's own name; it is empty before the setup.
	FQDN func() string
}

// Room is the reverse proxy.
type Room struct {
	*kit.Kit
	deps     Deps
	domains  resource.Kind[Domain]
	headers  resource.Child[Header]
	backends resource.Kind[Backend]
	servers  resource.Child[Server]
	rules    resource.Kind[Rule]
}

// New builds the room.
func New(k *kit.Kit, deps Deps) *Room {
	r := &Room{Kit: k, deps: deps, headers: headerKind(), servers: serverKind(), rules: ruleKind()}
	r.domains, r.backends = r.domainKind(), r.backendKind()
	return r
}

// Mount adds the room's routes.
func (r *Room) Mount() {
	r.domains.Mount(r.Resources)
	r.headers.Mount(r.Resources)
	r.backends.Mount(r.Resources)
	r.servers.Mount(r.Resources)
	r.rules.Mount(r.Resources)
	r.mountStats()
	r.mountReload()
}
