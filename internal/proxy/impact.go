package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
)

// mountImpact lets previews list the sites that a change closes or moves to other servers.
func (r *Room) mountImpact() {
	resource.Assess(r.Resources, resource.Assessor[*Config]{
		Area: resource.Sites, Feeds: []apply.ID{apply.ReverseProxy}, Load: r.load, Compare: r.compareSites,
	})
}

// compareSites evaluates every site before and after a change.
func (r *Room) compareSites(ctx context.Context, was, now *Config) (int, []resource.Affected, error) {
	stats, err := r.stats(ctx)
	if err != nil {
		return 0, nil, fault.Wrap(fault.Unavailable, err, "HAProxy could not be asked which servers are up.")
	}
	if was.IPv6 && !now.IPv6 {
		return 0, nil, fault.New(fault.NotSupported, "Who visits a site over IPv6 is not known.")
	}
	before, after := newFront(was, stats), newFront(now, stats)
	after.since = before
	var reached []resource.Affected
	checked := 0
	for _, name := range before.names {
		a := before.visit(name)
		if a.closed != "" {
			continue // no one is there
		}
		checked++
		b := after.visit(name)
		if b.closed == "" && tighter(before.domain(name), after.domain(name)) {
			return 0, nil, fault.New(fault.NotSupported, "How many requests for %s would be over its new limits is not known.", name)
		}
		x := resource.Affected{What: name, Effect: a.effect(&b), Before: a.words(), After: b.words()}
		if x.Effect == "" {
			continue
		}
		reached = append(reached, x)
	}
	return checked, reached, nil
}

// tighter reports whether a domain accepts fewer or smaller requests than before.
func tighter(was, now *Domain) bool {
	return now.MaxBodySizeBytes > 0 && (was.MaxBodySizeBytes == 0 || now.MaxBodySizeBytes < was.MaxBodySizeBytes) ||
		now.RateLimitEnabled && (!was.RateLimitEnabled || now.RateLimitRequests < was.RateLimitRequests || now.RateLimitPeriodSeconds > was.RateLimitPeriodSeconds)
}

// front is a configuration as visitors see it.
type front struct {
	*Config
	since    *front   // the present one, if this is a planned one
	names    []string // of all sites, sorted
	domains  map[string]*Domain
	rules    map[uuid.UUID][]Rule
	backends map[uuid.UUID]*pool
	down     map[string]bool  // servers that HAProxy found down, by backend and name
	sessions map[string]int64 // by backend
}

func newFront(c *Config, live Stats) *front {
	f := &front{
		Config: c, domains: map[string]*Domain{}, rules: grouped(c.Rules, func(r *Rule) uuid.UUID { return r.DomainID }),
		backends: map[uuid.UUID]*pool{}, down: map[string]bool{}, sessions: map[string]int64{},
	}
	for i := range c.Domains {
		if d := &c.Domains[i]; d.Active {
			for _, name := range d.names() {
				f.domains[name] = d
				f.names = append(f.names, name)
			}
		}
	}
	slices.Sort(f.names)
	servers := grouped(c.Servers, func(s *Server) uuid.UUID { return s.BackendID })
	for _, b := range c.Backends {
		f.backends[b.ID] = &pool{Backend: b, servers: servers[b.ID]}
	}
	for _, b := range live.Backends {
		if b.Server == "BACKEND" {
			f.sessions[b.BackendID] = b.Sessions
		}
		f.down[b.BackendID+" "+b.Server] = b.Status == "DOWN"
	}
	return f
}

// visited is what happens to the requests for a site.
type visited struct {
	closed string // why the site is closed
	// ways lists who answers for which path: first for all paths without a routing rule.
	ways     []answered
	sessions int64
}

// answered is who answers for a path.
type answered struct {
	path, who string
	ok        bool // and is able to
}

func (v *visited) words() string {
	if v.closed != "" {
		return v.closed
	}
	var parts []string
	for _, w := range v.ways {
		if w.path != "" {
			w.who = w.path + " by " + w.who
		}
		parts = append(parts, w.who)
	}
	if v.sessions > 0 {
		parts = append(parts, fmt.Sprintf("%d sessions now", v.sessions))
	}
	return strings.Join(parts, ", ")
}

// effect returns what happens to visitors when v becomes now; empty if nothing does.
func (v *visited) effect(now *visited) resource.Effect {
	if now.closed != "" {
		return resource.Cut
	}
	var found resource.Effect
	for _, w := range slices.Concat(v.ways, now.ways) {
		switch was, is := v.at(w.path), now.at(w.path); {
		case was.ok && !is.ok:
			return resource.Cut
		case was.who != is.who && is.ok:
			found = resource.Rerouted
		}
	}
	return found
}

// at returns who answers for a path: by the first matching rule, or by default.
func (v *visited) at(path string) answered {
	for _, w := range v.ways[1:] {
		if strings.HasPrefix(path, w.path) {
			return w
		}
	}
	return v.ways[0]
}

// domain returns the domain that answers to a name, directly or by wildcard.
func (f *front) domain(name string) *Domain {
	if d := f.domains[name]; d != nil {
		return d
	}
	_, parent, _ := strings.Cut(name, ".")
	return f.domains["*."+parent]
}

// visit evaluates a site.
func (f *front) visit(name string) visited {
	d := f.domain(name)
	switch {
	case d == nil:
		return visited{closed: "no domain answers to this name"}
	case f.Maintenance || d.Maintenance:
		return visited{closed: "the maintenance page"}
	}
	v := visited{}
	add := func(path string, id uuid.UUID, stripped bool) {
		who, ok := f.answers(id)
		if stripped {
			who += ", which does not see the prefix"
		}
		v.ways = append(v.ways, answered{path, who, ok})
		v.sessions += f.sessions[id.String()]
	}
	add("", d.BackendID, false)
	for _, r := range byPriority(f.rules[d.ID]) {
		path := r.PathPrefix.String()
		if r.Active && !slices.ContainsFunc(v.ways[1:], func(w answered) bool { return strings.HasPrefix(path, w.path) }) {
			add(path, r.BackendID, r.StripPrefix)
		}
	}
	if !slices.ContainsFunc(v.ways, func(w answered) bool { return w.ok }) {
		v.closed = "error 503: " + v.words()
	}
	return v
}

// answers names a backend, and reports whether one of its servers can answer.
func (f *front) answers(id uuid.UUID) (who string, ok bool) {
	p := f.backends[id]
	switch {
	case p == nil:
		return "no backend", false
	case !p.Active:
		return fmt.Sprintf("backend %s, which is off", p.Name), false
	}
	unasked := false
	for _, s := range p.servers {
		switch {
		case !s.Active || s.Weight == 0:
		case f.since != nil && !f.since.asks(&p.Backend, &s):
			unasked = true
		case !f.down[id.String()+" "+s.Name.Word().String()]:
			return fmt.Sprintf("backend %s", p.Name), true
		}
	}
	if unasked {
		return fmt.Sprintf("backend %s, if one of its new servers answers", p.Name), true
	}
	return fmt.Sprintf("backend %s, which has no server that is up", p.Name), false
}

// asks reports whether HAProxy already checks the server in the same way: then it knows whether the server is up.
func (f *front) asks(b *Backend, s *Server) bool {
	p := f.backends[b.ID]
	return p != nil && p.Active && p.Scheme == b.Scheme && p.VerifyTLS == b.VerifyTLS && p.ForceHTTP1 == b.ForceHTTP1 && p.sameCheck(b) &&
		slices.ContainsFunc(p.servers, func(x Server) bool {
			return x.Active && x.Name == s.Name && x.Address == s.Address && x.Port == s.Port
		})
}

// sameCheck reports whether two backends use the same health check. Without checks, all servers are up.
func (b *Backend) sameCheck(x *Backend) bool {
	return !x.HealthCheckEnabled || b.HealthCheckEnabled && b.HealthCheckPath == x.HealthCheckPath && b.HealthCheckMethod == x.HealthCheckMethod &&
		b.HealthCheckHost == x.HealthCheckHost && b.HealthCheckExpect == x.HealthCheckExpect
}
