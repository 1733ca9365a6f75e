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

// mountImpact has previews tell which sites a change closes, or has others answer for.
func (r *Room) mountImpact() {
	resource.Assess(r.Resources, resource.Assessor[*Config]{
		Area: resource.Sites, Feeds: []apply.ID{apply.ReverseProxy}, Load: r.load, Compare: r.compareSites,
	})
}

// compareSites asks for every site as it is and as it would be.
func (r *Room) compareSites(ctx context.Context, was, now *Config) (int, []resource.Affected, error) {
	stats, err := r.stats(ctx)
	if err != nil {
		return 0, nil, fault.Wrap(fault.Unavailable, err, "HAProxy could not be asked which servers are up.")
	}
	before, after := newFront(was, stats), newFront(now, stats)
	var reached []resource.Affected
	checked := 0
	for _, name := range before.names {
		a := before.visit(name)
		if a.closed != "" {
			continue // no one is there
		}
		checked++
		b := after.visit(name)
		x := resource.Affected{What: name, Effect: a.effect(&b), Before: a.words(), After: b.words()}
		if x.Effect == "" {
			continue
		}
		reached = append(reached, x)
	}
	return checked, reached, nil
}

// front is a configuration as visitors see it.
type front struct {
	*Config
	names    []string // of all sites, sorted
	domains  map[string]*Domain
	rules    map[uuid.UUID][]Rule
	backends map[uuid.UUID]*pool
	down     map[string]bool  // servers that HAProxy found dead, by their backend and name
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
		f.backends[b.ID] = &pool{b, servers[b.ID]}
	}
	for _, b := range live.Backends {
		if b.Server == "BACKEND" {
			f.sessions[b.BackendID] = b.Sessions
		}
		f.down[b.BackendID+" "+b.Server] = b.Status == "DOWN"
	}
	return f
}

// visited is what becomes of the requests for a site.
type visited struct {
	closed string // why there is no site
	// ways are who answers for its paths: first for all without a routing rule.
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

// effect is what happens to visitors when this becomes another; empty if nothing does.
func (v *visited) effect(now *visited) resource.Effect {
	if now.closed != "" {
		return resource.Cut
	}
	for _, was := range v.ways {
		n := slices.IndexFunc(now.ways, func(w answered) bool { return w.path == was.path })
		if was.ok && !now.ways[max(n, 0)].ok { // who has no rule any more is answered like all others
			return resource.Cut
		}
	}
	if !slices.Equal(v.ways, now.ways) {
		return resource.Rerouted
	}
	return ""
}

// visit asks for a site. A name without a domain of its own may be that of a wildcard.
func (f *front) visit(name string) visited {
	d := f.domains[name]
	if d == nil {
		_, parent, _ := strings.Cut(name, ".")
		d = f.domains["*."+parent]
	}
	switch {
	case d == nil:
		return visited{closed: "no domain answers to this name"}
	case f.Maintenance || d.Maintenance:
		return visited{closed: "the maintenance page"}
	}
	v := visited{}
	add := func(path string, id uuid.UUID) {
		who, ok := f.answers(id)
		v.ways = append(v.ways, answered{path, who, ok})
		v.sessions += f.sessions[id.String()]
	}
	add("", d.BackendID)
	for _, r := range byPriority(f.rules[d.ID]) {
		path := r.PathPrefix.String()
		if r.Active && !slices.ContainsFunc(v.ways[1:], func(w answered) bool { return strings.HasPrefix(path, w.path) }) {
			add(path, r.BackendID)
		}
	}
	if !slices.ContainsFunc(v.ways, func(w answered) bool { return w.ok }) {
		v.closed = "error 503: " + v.words()
	}
	return v
}

// answers names a backend, and tells whether one of its servers can answer.
func (f *front) answers(id uuid.UUID) (who string, ok bool) {
	p := f.backends[id]
	switch {
	case p == nil:
		return "no backend", false
	case !p.Active:
		return fmt.Sprintf("backend %s, which is off", p.Name), false
	}
	ok = slices.ContainsFunc(p.servers, func(s Server) bool {
		return s.Active && s.Weight > 0 && !f.down[id.String()+" "+s.Name.Word().String()]
	})
	if !ok {
		return fmt.Sprintf("backend %s, which has no server that is up", p.Name), false
	}
	return fmt.Sprintf("backend %s", p.Name), true
}
