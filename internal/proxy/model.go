package proxy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/value"
)

// model is a configuration in HAProxy's terms. Everything that belongs to one domain is an entry of a map, so that neither requests nor
// changes get slower with many domains; what HAProxy must know at its start is the shape.
type model struct {
	*sites
	backends []*pool
	// main renders haproxy.cfg once.
	main func() (mainFile, error)
}

// sites is the part of a model that does not depend on its backends.
type sites struct {
	shape
	hosts, wildcards, routes, headers, switches entries
	certificates                                []served
	// management lists the certificates of the management port.
	management []served
	// head renders what haproxy.cfg has before the backends once, and others the other files.
	head   func() section
	others func() ([]host.File, error)
}

// entry is one line of a map.
type entry struct {
	key    conf.Arg
	fields []conf.Arg
}

// entries are the lines of a map, by key.
type entries map[string]entry

func (m entries) put(e entry) { m[e.key.String()] = e }

// value returns the entry's value in HAProxy.
func (e entry) value(separator string) string {
	texts := make([]string, len(e.fields))
	for i, f := range e.fields {
		texts[i] = f.String()
	}
	return strings.Join(texts, separator)
}

// shape is what entries of maps refer to, and what HAProxy must know at its start.
type shape struct {
	// slots lists the header operations that any domain uses; each has its field in a domain's entry.
	slots []slot
	// periods of the rate limits have a table each.
	periods []int
	// strips lists the lengths of prefixes to strip.
	strips []int
	// inspects means that some domain's requests are inspected, and logs that successful requests of some domain are logged.
	inspects, logs bool
}

func (s *shape) equal(x *shape) bool {
	return slices.Equal(s.slots, x.slots) && slices.Equal(s.periods, x.periods) && slices.Equal(s.strips, x.strips) && s.inspects == x.inspects && s.logs == x.logs
}

// slot is one header operation. A domain may have several that add to the same name.
type slot struct {
	operation string
	name      string // in lower case
	nth       int
	written   HeaderName
}

type pool struct {
	Backend
	servers []Server
	// section is its part of haproxy.cfg, which is rendered when a configuration is compiled.
	section section
}

// served is a certificate with the names that it is served for.
type served struct {
	Certificate
	names []value.SiteName
}

const (
	fieldSeparator  = "|"
	headerSeparator = "\x1f"
)

func compile(c *Config) *model { return assemble(c, sitesOf(c), poolsOf(c, nil)) }

// assemble makes a model of its halves.
func assemble(c *Config, s *sites, pools []*pool) *model {
	slices.SortFunc(pools, func(a, b *pool) int { return slices.Compare(a.ID[:], b.ID[:]) })
	m := &model{sites: s, backends: pools}
	m.main = sync.OnceValues(func() (mainFile, error) { return renderMain(c, m) })
	return m
}

func sitesOf(c *Config) *sites {
	m := &sites{hosts: make(entries, len(c.Domains)+1), wildcards: entries{}, routes: make(entries, len(c.Rules)), headers: make(entries, len(c.Headers)), switches: entries{}}
	headers := grouped(c.Headers, func(h *Header) uuid.UUID { return h.DomainID })
	rules := grouped(c.Rules, func(r *Rule) uuid.UUID { return r.DomainID })
	inspections := make(map[uuid.UUID]*Inspection, len(c.Inspections))
	for i := range c.Inspections {
		inspections[c.Inspections[i].DomainID] = &c.Inspections[i]
	}
	m.shape = shapeOf(c, headers)
	for i := range c.Domains {
		d := &c.Domains[i]
		m.inspects = m.inspects || d.Active && inspections[d.ID] != nil
		m.logs = m.logs || d.Active && d.AccessLog
		m.add(siteOf(d, hanging{headers[d.ID], rules[d.ID], inspections[d.ID]}))
	}
	if !c.FQDN.IsZero() {
		m.hosts.put(entry{conf.Value(c.FQDN), fields{flags: conf.Word("g"), id: conf.Word("gateway"), backend: conf.Word(apiBackend)}.list()})
	}
	if c.Maintenance {
		m.switches.put(maintenanceOn)
	}
	m.certificates, m.management = assign(c)
	m.head = sync.OnceValue(func() section { return renderHead(c, m) })
	m.others = sync.OnceValues(func() ([]host.File, error) { return renderOthers(c, m) })
	return m
}

// poolsOf returns the backends that HAProxy has: the active and the spare ones. If only is not nil, it returns those of these ids.
func poolsOf(c *Config, only map[uuid.UUID]bool) (list []*pool) {
	wanted := func(id uuid.UUID) bool { return only == nil || only[id] }
	var named []Server
	for i := range c.Servers {
		if s := &c.Servers[i]; wanted(s.BackendID) && !s.Name.Word().IsZero() {
			named = append(named, *s)
		}
	}
	servers := grouped(named, func(s *Server) uuid.UUID { return s.BackendID })
	stored := map[uuid.UUID]bool{}
	for i := range c.Backends {
		b := &c.Backends[i]
		if !wanted(b.ID) {
			continue
		}
		stored[b.ID] = true
		if b.Active {
			list = append(list, &pool{Backend: *b, servers: servers[b.ID]})
		}
	}
	for _, id := range c.Spares {
		if wanted(id) && !stored[id] { // someone may have chosen this id for a row
			list = append(list, &pool{Backend: spareBackend(id)})
		}
	}
	for _, p := range list {
		w := conf.Bare(conf.HAProxy)
		renderBackend(w, p)
		p.section = sectionOf(w)
	}
	return list
}

// with returns the model of a configuration that differs from the model's only in these backends and their servers.
func (m *model) with(c *Config, changed map[uuid.UUID]bool) *model {
	kept := slices.DeleteFunc(slices.Clone(m.backends), func(p *pool) bool { return changed[p.ID] })
	return assemble(c, m.sites, append(kept, poolsOf(c, changed)...))
}

// grouped groups rows by their parent, keeping their order.
func grouped[T any](list []T, of func(*T) uuid.UUID) map[uuid.UUID][]T {
	groups := make(map[uuid.UUID][]T, len(list))
	for i := range list {
		groups[of(&list[i])] = append(groups[of(&list[i])], list[i])
	}
	return groups
}

// maintenanceOn is the entry that puts every site into maintenance.
var maintenanceOn = entry{conf.Word("maintenance"), []conf.Arg{conf.Word("on")}}

func shapeOf(c *Config, headers map[uuid.UUID][]Header) shape {
	var s shape
	slots, periods, strips := map[slot]HeaderName{}, map[int]bool{}, map[int]bool{}
	domains := map[uuid.UUID]bool{}
	for i := range c.Domains {
		d := &c.Domains[i]
		if !d.Active {
			continue
		}
		domains[d.ID] = true
		if d.RateLimitEnabled {
			periods[d.RateLimitPeriodSeconds] = true
		}
		for _, p := range slotted(headers[d.ID]) {
			if written, ok := slots[p.slot]; !ok || p.header.Name.String() < written.String() {
				slots[p.slot] = p.header.Name
			}
		}
	}
	for i := range c.Rules {
		if r := &c.Rules[i]; r.Active && r.StripPrefix && domains[r.DomainID] {
			strips[len(r.PathPrefix.String())] = true
		}
	}
	for key, written := range slots {
		key.written = written
		s.slots = append(s.slots, key)
	}
	// Removing comes before setting, and setting before adding.
	order := map[string]int{headerRemove: 0, headerSet: 1, headerAdd: 2}
	slices.SortFunc(s.slots, func(a, b slot) int {
		return cmp.Or(cmp.Compare(order[a.operation], order[b.operation]), cmp.Compare(a.name, b.name), cmp.Compare(a.nth, b.nth))
	})
	s.periods, s.strips = slices.Sorted(maps.Keys(periods)), slices.Sorted(maps.Keys(strips))
	return s
}

// placed is a header in its slot.
type placed struct {
	slot
	header *Header
}

// slotted assigns each header of a domain to its slot.
func slotted(headers []Header) []placed {
	if len(headers) == 0 {
		return nil
	}
	list := make([]placed, 0, len(headers))
	for i := range headers {
		h := &headers[i]
		key := slot{operation: h.Operation, name: strings.ToLower(h.Name.String())}
		for slices.ContainsFunc(list, func(p placed) bool { return p.slot == key }) {
			key.nth++
		}
		list = append(list, placed{key, h})
	}
	return list
}

// site is what a domain adds to the maps.
type site struct {
	hosts, wildcards, routes []entry
	// needs is what the shape must have.
	needs shape
	// slotted holds its headers by slot. Their entry is made once the slots are numbered.
	slotted []placed
	id      uuid.UUID
}

// hanging holds the rows that belong to a domain.
type hanging struct {
	headers    []Header
	rules      []Rule
	inspection *Inspection // or nil
}

// siteOf returns the entries of a domain. One that is off has none.
func siteOf(d *Domain, with hanging) site {
	s := site{id: d.ID}
	if !d.Active {
		return s
	}
	s.slotted = slotted(with.headers)
	s.routes = routesOf(d, with.rules)
	s.needs.inspects, s.needs.logs = with.inspection != nil, d.AccessLog
	if d.RateLimitEnabled {
		s.needs.periods = []int{d.RateLimitPeriodSeconds}
	}
	for _, r := range with.rules {
		if r.Active && r.StripPrefix {
			s.needs.strips = append(s.needs.strips, len(r.PathPrefix.String()))
		}
	}
	whole := fieldsOf(d, len(with.headers) > 0, len(s.routes) > 0, with.inspection).list()
	if parent, wildcard := d.Name.Wildcard(); wildcard {
		s.wildcards = []entry{{conf.Value(parent), whole}}
		return s
	}
	canonical, other := d.canonical()
	s.hosts = []entry{{conf.Value(canonical), whole}}
	if !other.IsZero() {
		s.hosts = append(s.hosts, entry{conf.Value(other), fields{
			flags: flags(conf.Word("w"), d.plainFlag(), d.noH3Flag(), d.hstsFlag(), d.logFlag()), id: conf.ID(d.ID), redirect: conf.Value(canonical), hsts: d.hsts(),
		}.list()})
	}
	return s
}

// fits reports whether a running HAProxy of a shape can serve the site.
func (s *site) fits(x *shape) bool {
	missing := func(have []int) func(int) bool {
		return func(n int) bool { return !slices.Contains(have, n) }
	}
	for _, p := range s.slotted {
		if x.slot(p.slot) < 0 {
			return false
		}
	}
	return (x.inspects || !s.needs.inspects) && (x.logs || !s.needs.logs) && !slices.ContainsFunc(s.needs.periods, missing(x.periods)) && !slices.ContainsFunc(s.needs.strips, missing(x.strips))
}

// slot returns the number of a header operation, or -1.
func (s *shape) slot(key slot) int {
	return slices.IndexFunc(s.slots, func(x slot) bool { return x.operation == key.operation && x.name == key.name && x.nth == key.nth })
}

// headerEntry returns the entry of the site's headers in a shape that has its slots.
func (s *site) headerEntry(x *shape) (entry, bool) {
	if len(s.slotted) == 0 {
		return entry{}, false
	}
	fields := make([]conf.Arg, len(x.slots))
	last := 0
	for _, p := range s.slotted {
		n := x.slot(p.slot)
		fields[n], last = conf.Value(p.header.Value), max(last, n)
		if p.operation == headerRemove {
			fields[n] = conf.Word("1")
		}
	}
	return entry{conf.ID(s.id), fields[:last+1]}, true
}

func (m *sites) add(s site) {
	for _, e := range s.hosts {
		m.hosts.put(e)
	}
	for _, e := range s.wildcards {
		m.wildcards.put(e)
	}
	for _, e := range s.routes {
		m.routes.put(e)
	}
	if e, ok := s.headerEntry(&m.shape); ok {
		m.headers.put(e)
	}
}

// fields are what HAProxy knows about a site; see render.go for their use.
type fields struct {
	flags, requests, period, body, inspect, hsts, id, backend, redirect conf.Arg
}

// list returns the fields in the order of the constants in render.go.
func (f fields) list() []conf.Arg {
	return []conf.Arg{f.flags, f.requests, f.period, f.body, f.inspect, f.hsts, f.id, f.backend, f.redirect}
}

func fieldsOf(d *Domain, headers, routes bool, inspection *Inspection) fields {
	f := fields{
		flags: flags(d.plainFlag(),
			d.noH3Flag(), when(d.Maintenance, conf.Word("m")), when(routes, conf.Word("r")), when(headers, conf.Word("h")),
			d.hstsFlag(), when(d.RateLimitEnabled, conf.Word("l")), when(d.MaxBodySizeBytes > 0, conf.Word("b")), d.logFlag(), inspection.flags()),
		hsts: d.hsts(), id: conf.ID(d.ID), backend: backendName(d.BackendID),
	}
	if d.RateLimitEnabled {
		f.requests, f.period = conf.Int(d.RateLimitRequests), conf.Int(d.RateLimitPeriodSeconds)
	}
	if d.MaxBodySizeBytes > 0 {
		f.body = conf.Int64(d.MaxBodySizeBytes)
	}
	if inspection != nil {
		f.inspect = conf.Int(inspection.MaxBody)
	}
	return f
}

// flags say whether requests are inspected, and what happens to those that could not be.
func (x *Inspection) flags() conf.Arg {
	if x == nil {
		return conf.Word("")
	}
	return conf.Joined(conf.Word("f"), when(x.Detects, conf.Word("d")), when(x.Open, conf.Word("o")), when(x.Partial, conf.Word("i")), when(x.Answers, conf.Word("a")))
}

func when(on bool, word conf.Arg) conf.Arg {
	if on {
		return word
	}
	return conf.Word("")
}

// flags joins letters into one word, which is never empty.
func flags(letters ...conf.Arg) conf.Arg {
	if all := conf.Joined(letters...); all.String() != "" {
		return all
	}
	return conf.Word("-")
}

// plainFlag means that the site is also served without TLS.
func (d *Domain) plainFlag() conf.Arg { return when(!d.HTTPToHTTPS, conf.Word("p")) }

// noH3Flag means that no response of the site offers HTTP/3.
func (d *Domain) noH3Flag() conf.Arg { return when(d.DisableH3, conf.Word("n")) }

// logFlag means that all requests are logged.
func (d *Domain) logFlag() conf.Arg { return when(d.AccessLog, conf.Word("t")) }

func (d *Domain) hstsFlag() conf.Arg { return when(d.HSTSEnabled, conf.Word("s")) }

// hsts returns the value of Strict-Transport-Security. The preload lists of browsers also require it on redirects.
func (d *Domain) hsts() conf.Arg {
	if !d.HSTSEnabled {
		return conf.Word("")
	}
	return conf.Joined(conf.Word("max-age="), conf.Int64(d.HSTSMaxAge), when(d.HSTSIncludeSubdomains, conf.Word("; includeSubDomains")), when(d.HSTSPreload, conf.Word("; preload")))
}

func backendName(id uuid.UUID) conf.Arg {
	return conf.Joined(conf.Word(backendPrefix), conf.ID(id))
}

// routesOf returns the entries of a domain's rules. HAProxy takes the longest prefix. A rule after one with a shorter matching prefix
// could never match and is left out, so that the longest remaining prefix is also the first.
func routesOf(d *Domain, rules []Rule) (list []entry) {
	var taken []string
	for _, r := range byPriority(rules) {
		prefix := r.PathPrefix.String()
		if !r.Active || slices.ContainsFunc(taken, func(t string) bool { return strings.HasPrefix(prefix, t) }) {
			continue
		}
		taken = append(taken, prefix)
		strip := conf.Word("")
		if r.StripPrefix {
			strip = conf.Int(len(prefix))
		}
		list = append(list, entry{conf.Joined(conf.ID(d.ID), conf.Value(r.PathPrefix)), []conf.Arg{strip, backendName(r.BackendID)}})
	}
	return list
}

// byPriority sorts rules in the order in which they are checked.
func byPriority(rules []Rule) []Rule {
	if len(rules) < 2 {
		return rules
	}
	return slices.SortedStableFunc(slices.Values(rules), func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.CreatedAt.Compare(b.CreatedAt), slices.Compare(a.ID[:], b.ID[:]))
	})
}

// assign decides which certificate is served for which name.
func assign(c *Config) (all, management []served) {
	better := func(a, b *Certificate) bool {
		if a.Trusted != b.Trusted {
			return a.Trusted
		}
		return cmp.Or(a.NotAfter.Compare(b.NotAfter), slices.Compare(b.ID[:], a.ID[:])) > 0
	}
	best := map[string]*Certificate{}
	byID := map[uuid.UUID]*Certificate{}
	var joins []served
	for i := range c.Certificates {
		x := &c.Certificates[i]
		if x.Management {
			joins = append(joins, served{*x, x.Names})
			continue
		}
		byID[x.ID] = x
		for _, name := range x.Names {
			if was := best[name.String()]; was == nil || better(x, was) {
				best[name.String()] = x
			}
		}
	}
	// An exact name takes precedence over a wildcard, unless its certificate is self-signed.
	for name, x := range best {
		if wide := best[wildcardOf(name)]; !x.Trusted && wide != nil && wide.Trusted {
			delete(best, name)
		}
	}
	for i := range c.Domains {
		d := &c.Domains[i]
		if d.CertificateID == nil || !d.Active {
			continue
		}
		if x := byID[*d.CertificateID]; x != nil {
			for _, name := range d.names() {
				best[name] = x
			}
		}
	}
	names := map[uuid.UUID][]value.SiteName{}
	for name, x := range best {
		if site, err := value.Parse[value.SiteName](name); err == nil {
			names[x.ID] = append(names[x.ID], site)
		}
	}
	for i := range c.Certificates {
		x := &c.Certificates[i]
		if len(names[x.ID]) == 0 {
			continue
		}
		slices.SortFunc(names[x.ID], func(a, b value.SiteName) int { return cmp.Compare(a.String(), b.String()) })
		all = append(all, served{*x, names[x.ID]})
	}
	slices.SortFunc(all, func(a, b served) int { return slices.Compare(a.ID[:], b.ID[:]) })
	gateway, err := value.Parse[value.SiteName](c.FQDN.String())
	if own := cmp.Or(best[gateway.String()], best[wildcardOf(gateway.String())]); own != nil && err == nil {
		management = []served{{*own, []value.SiteName{gateway}}}
	}
	return all, append(management, joins...)
}

// wildcardOf returns the wildcard that covers a name.
func wildcardOf(name string) string {
	_, parent, _ := strings.Cut(name, ".")
	return "*." + parent
}

func (m *sites) files() map[host.Place]entries {
	return map[host.Place]entries{
		haproxy.Hosts: m.hosts, haproxy.Wildcards: m.wildcards, haproxy.Routes: m.routes, haproxy.Headers: m.headers, haproxy.Switches: m.switches,
	}
}
