package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
)

// HAProxy's names for its files.
const (
	certificateList    = "certificates.list"
	defaultCertificate = "certificates/default.pem"
	backendPrefix      = "gateway_backend_"
	// nobody is the name that the default certificate is listed for; no one requests it.
	nobody = "default.invalid"
)

var mapNames = map[host.Place]string{
	haproxy.Hosts: "maps/hosts.map", haproxy.Wildcards: "maps/wildcards.map", haproxy.Routes: "maps/routes.map",
	haproxy.Headers: "maps/headers.map", haproxy.Switches: "maps/switches.map",
}

func mapName(place host.Place) string { return mapNames[place] }

func ask(words ...string) haproxy.Question { return haproxy.Question{Words: words} }

// command is a runtime command with its expected answer.
type command struct {
	haproxy.Question
	// done is a part of the answer; empty if HAProxy answers nothing.
	done string
	// until, if set, judges the answer instead: the question is repeated until the answer is right.
	until func(answer string) bool
}

func newCommand(done string, words ...string) command {
	return command{Question: ask(words...), done: done}
}

const (
	// moveWithin is how long HAProxy may take to stop using a server's old address before a reload is the safer way.
	moveWithin = 500 * time.Millisecond
	// lookAgain is the pause between two checks.
	lookAgain = 5 * time.Millisecond
)

// run sends runtime commands to HAProxy. They only count if they reached the worker that was last verified, and if that worker still
// serves: one whose master is gone still answers, but is about to end.
func (r *Room) run(ctx context.Context, commands []command) error {
	if len(commands) == 0 {
		return nil
	}
	r.mu.Lock()
	worker := r.worker
	r.mu.Unlock()
	for _, c := range commands {
		if err := r.tellOne(ctx, c); err != nil {
			return err
		}
	}
	process, err := r.Host.ProxyProcess(ctx)
	if err != nil {
		return err
	}
	if process.PID != worker {
		return fmt.Errorf("haproxy was replaced: its worker is %d instead of %d", process.PID, worker)
	}
	r.changes.Add(1)
	return nil
}

func (r *Room) tellOne(ctx context.Context, c command) error {
	within, cancel := context.WithTimeout(ctx, moveWithin)
	defer cancel()
	for {
		answers, err := r.Host.ProxyAsk(ctx, c.Question)
		switch {
		case err != nil:
			return err
		case c.until == nil && c.done == "" && answers[0] != "", !strings.Contains(answers[0], c.done):
			return fmt.Errorf("haproxy does not %s: %s", strings.Join(c.Words[:2], " "), answers[0])
		case c.until == nil, c.until(answers[0]):
			return nil
		}
		select {
		case <-within.Done():
			return fmt.Errorf("haproxy has not finished after %s: %s", moveWithin, answers[0])
		case <-time.After(lookAgain):
		}
	}
}

// can reports whether HAProxy can switch between the configurations at runtime. A header that is no longer used keeps its slot until the
// next reload, so until then the fields are numbered differently from what a new rendering would have.
func (r *Room) can(was, now *Config) bool {
	r.mu.Lock()
	x := r.shape
	r.mu.Unlock()
	if x == nil || !slices.Equal(x.slots, was.model().slots) {
		return false
	}
	_, ok := difference(was, now)
	return ok
}

// change switches HAProxy from one configuration to another at runtime.
func (r *Room) change(ctx context.Context, was, now *Config) error {
	commands, ok := difference(was, now)
	if !ok {
		return fmt.Errorf("haproxy has to be reloaded for this")
	}
	if err := r.run(ctx, commands); err != nil {
		return err
	}
	r.keepSpares(now)
	return nil
}

// manyCommands is the number of commands from which a reload is faster.
const manyCommands = 2000

// difference returns the runtime commands between two configurations, if possible. What a site needs is added before the site, and
// removed after it.
func difference(was, now *Config) ([]command, bool) {
	a, b := was.model(), now.model()
	x, err1 := a.main()
	y, err2 := b.main()
	if err1 != nil || err2 != nil || !slices.Equal(x.mark, y.mark) {
		return nil, false
	}
	commands, ok := poolCommands(a.backends, b.backends)
	if !ok {
		return nil, false
	}
	if a.sites != b.sites {
		before, after, ok := certificateCommands(a.certificates, b.certificates)
		if !ok || !sameServed(a.management, b.management) {
			return nil, false
		}
		commands = slices.Concat(before, commands, mapCommands(a.files(), b.files()), after)
	}
	return commands, len(commands) < manyCommands
}

// sameServed reports whether two lists have the same certificates, whatever their content.
func sameServed(a, b []served) bool {
	return slices.EqualFunc(a, b, func(x, y served) bool { return x.ID == y.ID })
}

// mapOrder lists the maps; those that other maps refer to come first.
var mapOrder = []host.Place{haproxy.Headers, haproxy.Routes, haproxy.Hosts, haproxy.Wildcards, haproxy.Switches}

// mapCommands returns the commands between two sets of maps. What an entry refers to is added before it, and removed after it.
func mapCommands(was, now map[host.Place]entries) (list []command) {
	var gone []command
	for _, place := range mapOrder {
		for _, key := range slices.Sorted(maps.Keys(now[place])) {
			e := now[place][key]
			if old, there := was[place][key]; !there || old.value(separator(place)) != e.value(separator(place)) {
				list = append(list, putEntry(place, e, there))
			}
		}
		var deletes []command
		for _, key := range slices.Sorted(maps.Keys(was[place])) {
			if _, stays := now[place][key]; !stays {
				deletes = append(deletes, newCommand("", "del", "map", mapName(place), key))
			}
		}
		gone = append(deletes, gone...)
	}
	return append(list, gone...)
}

// putEntry adds an entry to a map, or changes it in place, so that no request finds it missing.
func putEntry(place host.Place, e entry, there bool) command {
	verb := "add"
	if there {
		verb = "set"
	}
	return newCommand("", verb, "map", mapName(place), e.key.String(), e.value(separator(place)))
}

// certificateCommands returns the commands between two lists of certificates: those before anything refers to them, and those afterwards.
func certificateCommands(was, now []served) (before, after []command, ok bool) {
	had := map[uuid.UUID]served{}
	for _, x := range was {
		had[x.ID] = x
	}
	for _, x := range now {
		old, there := had[x.ID]
		delete(had, x.ID)
		switch {
		case !there:
			before = append(before, newCommand("New empty certificate store", "new", "ssl", "cert", certificateFile(x.Certificate).String()))
			before = append(before, replaceCertificate(x.Certificate)...)
			before = append(before, command{Question: haproxy.Question{Words: []string{"add", "ssl", "crt-list", certificateList},
				Payload: certificateFile(x.Certificate).String() + " " + x.nameList()}, done: "Success!"})
		case old.nameList() != x.nameList():
			return nil, nil, false // in between, neither would be served
		case string(old.PEM) != string(x.PEM):
			before = append(before, replaceCertificate(x.Certificate)...)
		}
	}
	for _, x := range had {
		file := certificateFile(x.Certificate).String()
		after = append(after, newCommand("deleted", "del", "ssl", "crt-list", certificateList, file), newCommand("deleted", "del", "ssl", "cert", file))
	}
	return before, after, true
}

// replaceCertificate replaces the content of a certificate's file in HAProxy.
func replaceCertificate(x Certificate) []command {
	file := certificateFile(x).String()
	return []command{
		{Question: haproxy.Question{Words: []string{"set", "ssl", "cert", file}, Payload: pemPayload(x.PEM)}, done: "Transaction"},
		newCommand("Success!", "commit", "ssl", "cert", file),
	}
}

// pemPayload returns PEM without empty lines, which would end a payload.
func pemPayload(pem []byte) string {
	lines := slices.DeleteFunc(strings.Split(string(pem), "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	return strings.Join(lines, "\n")
}

func (x *served) nameList() string {
	names := make([]string, len(x.names))
	for i, n := range x.names {
		names[i] = n.String()
	}
	return strings.Join(names, " ")
}

// serverKey returns HAProxy's name of a server.
func serverKey(backend uuid.UUID, s *Server) string {
	return backendName(backend).String() + "/" + s.Name.Word().String()
}

// poolCommands returns the commands between two lists of the same backends.
func poolCommands(was, now []*pool) (list []command, ok bool) {
	for i := range now {
		if was[i] == now[i] {
			continue
		}
		commands, ok := serverCommands(now[i], was[i].servers, now[i].servers)
		if !ok {
			return nil, false
		}
		list = append(list, commands...)
	}
	return list, true
}

// serverCommands returns the commands between two lists of a backend's servers.
func serverCommands(p *pool, was, now []Server) (list []command, ok bool) {
	had := map[uuid.UUID]*Server{}
	for i := range was {
		had[was[i].ID] = &was[i]
	}
	var added []command
	for i := range now {
		s := &now[i]
		old := had[s.ID]
		delete(had, s.ID)
		switch {
		case old == nil:
			if _, address := s.ip(); !address {
				return nil, false // HAProxy only accepts names at its start
			}
			added = append(added, p.addServer(s)...)
		default:
			commands, ok := p.changeServer(old, s)
			if !ok {
				return nil, false
			}
			list = append(list, commands...)
		}
	}
	list = append(list, added...)
	for _, s := range was {
		if had[s.ID] != nil {
			key := serverKey(p.ID, &s)
			list = append(list, newCommand("", "set", "server", key, "state", "maint"), newCommand("Server deleted.", "del", "server", key))
		}
	}
	return list, true
}

// addServer returns the commands for a new server that takes requests at once.
func (p *pool) addServer(s *Server) []command {
	key := serverKey(p.ID, s)
	words := []string{"add", "server", key, s.endpoint().String(), "weight", strconv.Itoa(s.Weight)}
	options := p.common(*s)
	if s.Backup {
		options = append(options, conf.Word("backup"))
	}
	for _, a := range options {
		words = append(words, strings.Fields(a.String())...)
	}
	list := []command{newCommand("New server registered.", words...)}
	if p.HealthCheckEnabled {
		list = append(list, newCommand("", "enable", "health", key))
	}
	if s.Active {
		list = append(list, newCommand("", "enable", "server", key))
	}
	return list
}

func (p *pool) changeServer(was, now *Server) (list []command, ok bool) {
	key := serverKey(p.ID, now)
	_, wasAddress := was.ip()
	_, isAddress := now.ip()
	moved := was.Address != now.Address || was.Port != now.Port
	if was.Name.Word() != now.Name.Word() || was.Backup != now.Backup || moved && !(wasAddress && isAddress) {
		return nil, false
	}
	if moved {
		list = append(list, newCommand("changed", "set", "server", key, "addr", now.Address.String(), "port", strconv.Itoa(now.Port)), p.moved(now))
	}
	if was.Weight != now.Weight {
		list = append(list, newCommand("", "set", "server", key, "weight", strconv.Itoa(now.Weight)))
	}
	if was.Active != now.Active {
		state := "maint"
		if now.Active {
			state = "ready"
		}
		list = append(list, newCommand("", "set", "server", key, "state", state))
	}
	return list, true
}

// Columns of "show servers conn".
const (
	connServer  = 0
	connAddress = 2
	connPort    = 3
	connUsed    = 6
	connIdle    = 12
	connColumns = 13
)

// moved returns a question that is repeated until a server is at its new address and no connection to the old one is left. HAProxy (from
// 2.9 on) answers before it has moved the server, and a connection in use at that moment is reused for later requests.
func (p *pool) moved(s *Server) command {
	key := serverKey(p.ID, s)
	return command{Question: ask("show", "servers", "conn", backendName(p.ID).String()), until: func(answer string) bool {
		for line := range strings.Lines(answer) {
			if f := strings.Fields(line); len(f) >= connColumns && f[connServer] == key {
				return s.at(f[connAddress], f[connPort]) == nil && f[connUsed] == "0" && f[connIdle] == "0"
			}
		}
		return false
	}}
}

// is compares a server with a line of "show servers state".
func (s *Server) is(f []string) error {
	admin, err := strconv.Atoi(f[stateAdmin])
	switch {
	case err != nil:
		return fmt.Errorf("its state is %q", f[stateAdmin])
	case f[stateWeight] != strconv.Itoa(s.Weight):
		return fmt.Errorf("it has the weight %s instead of %d", f[stateWeight], s.Weight)
	case (admin&maintenanceBit != 0) == s.Active:
		return fmt.Errorf("it should be in maintenance: %v", !s.Active)
	}
	return s.at(f[stateAddress], f[statePort])
}

// at compares a server's address and port with HAProxy's.
func (s *Server) at(address, port string) error {
	if port != strconv.Itoa(s.Port) {
		return fmt.Errorf("it has the port %s instead of %d", port, s.Port)
	}
	// Compare as addresses, because some have several spellings.
	if a, ok := s.ip(); ok {
		if has, err := netip.ParseAddr(address); err != nil || has != a {
			return fmt.Errorf("it has the address %s instead of %s", address, a)
		}
	}
	return nil
}

// plan returns the step for a change of one row, or for a new site. It is only valid for the shape that it was planned on: a reload changes the numbers of
// the header fields, the tables of the rate limits and the lengths of prefixes.
func (r *Room) plan(ctx context.Context, tx *db.Tx, rows []apply.Row) (apply.Step, error) {
	r.mu.Lock()
	x := r.shape
	r.mu.Unlock()
	if x == nil || len(rows) != 1 && !r.isNewSite(rows) {
		return nil, nil
	}
	var take apply.Step
	var commands []command
	for _, row := range rows {
		if row.Kind == r.backends.Name {
			if take = r.planBackend(row); take == nil {
				return nil, nil
			}
			continue
		}
		list, ok, err := r.planRow(ctx, tx, x, row)
		if err != nil || !ok {
			return nil, err
		}
		commands = append(commands, list...)
	}
	return func(ctx context.Context) error {
		if take != nil {
			if err := take(ctx); err != nil || len(commands) == 0 {
				return err
			}
		}
		r.mu.Lock()
		now := r.shape
		r.mu.Unlock()
		if now == nil || !now.equal(x) {
			return errors.New("haproxy was reloaded with another shape since this was planned")
		}
		return r.run(ctx, commands)
	}, nil
}

// isNewSite reports whether the rows are what the console creates at once: a backend, its server and a domain, or two of them. None
// of them affects what HAProxy needs for the others.
func (r *Room) isNewSite(rows []apply.Row) bool {
	kinds := []string{r.backends.Name, r.servers.Name, r.domains.Name}
	for _, row := range rows {
		i := slices.Index(kinds, row.Kind)
		if i < 0 || row.Was != nil {
			return false
		}
		kinds = slices.Delete(kinds, i, i+1)
	}
	return true
}

func (r *Room) planRow(ctx context.Context, tx *db.Tx, x *shape, row apply.Row) ([]command, bool, error) {
	switch row.Kind {
	case r.servers.Name:
		return r.planServer(ctx, tx, row)
	case r.domains.Name:
		return r.planDomain(ctx, tx, x, row)
	case r.headers.Name:
		was, _ := row.Was.(*Header)
		now, _ := row.Now.(*Header)
		return r.planHeader(ctx, tx, x, was, now)
	case r.rules.Name:
		was, _ := row.Was.(*Rule)
		now, _ := row.Now.(*Rule)
		return r.planRule(ctx, tx, x, was, now)
	}
	if was, now, ok := r.deps.Changed(row); ok {
		return r.planCertificate(ctx, tx, was, now)
	}
	if domain, was, now, ok := r.deps.InspectionChanged(row); ok {
		return r.planInspection(ctx, tx, x, domain, was, now)
	}
	return nil, false, nil
}

// planCertificate: another certificate may become the best one for a name. Most changes are renewals, for which those with the same names
// suffice; a self-signed certificate also gives way to a wildcard.
func (r *Room) planCertificate(ctx context.Context, tx *db.Tx, was, now *Certificate) ([]command, bool, error) {
	if was == nil || now == nil || !was.Trusted || !now.Trusted || !slices.Equal(was.Names, now.Names) {
		return r.planServed(ctx, tx, was, now, r.everyone)
	}
	if string(was.PEM) == string(now.PEM) {
		return nil, true, nil
	}
	return r.planServed(ctx, tx, was, now, r.rivals)
}

// planServed determines the certificate for each name before and after, among those that around returns.
func (r *Room) planServed(ctx context.Context, tx *db.Tx, was, now *Certificate, around func(context.Context, *db.Tx, *Certificate) ([]Domain, []Certificate, error)) ([]command, bool, error) {
	fqdn, err := r.fqdn()
	if err != nil {
		return nil, false, err
	}
	domains, certificates, err := around(ctx, tx, now)
	if err != nil {
		return nil, false, err
	}
	list := func(certificates []Certificate) (all, management []served) {
		return assign(&Config{FQDN: fqdn, Domains: domains, Certificates: certificates})
	}
	a, managementWas := list(instead(certificates, was, now, func(x *Certificate) uuid.UUID { return x.ID }))
	b, management := list(certificates)
	before, after, ok := certificateCommands(a, b)
	return slices.Concat(before, after), ok && sameServed(managementWas, management), nil
}

// everyone returns all domains and certificates.
func (r *Room) everyone(ctx context.Context, tx *db.Tx, _ *Certificate) ([]Domain, []Certificate, error) {
	domains, err := r.domains.All(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
	certificates, err := r.deps.Certificates(ctx, tx)
	return domains, certificates, err
}

// rivals returns a certificate with those that have one of its names, the domains that choose one of these or have one of its names, and the
// certificates that they choose. What all others are served for does not depend on it, as long as its names and the trust in it stay the
// same.
func (r *Room) rivals(ctx context.Context, tx *db.Tx, of *Certificate) ([]Domain, []Certificate, error) {
	var names, answer []string
	for _, n := range of.Names {
		names, answer = append(names, n.String()), append(answer, answering(n.String())...)
	}
	list, err := r.deps.Rivals(ctx, tx, names, []uuid.UUID{of.ID})
	if err != nil {
		return nil, nil, err
	}
	ids := make([]uuid.UUID, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	domains, err := r.domains.Where(ctx, tx, "certificate_id IS NOT NULL AND (certificate_id = ANY ($1) OR name = ANY ($2))", ids, answer)
	if err != nil {
		return nil, nil, err
	}
	var chosen []uuid.UUID
	for i := range domains {
		if id := *domains[i].CertificateID; !slices.Contains(ids, id) {
			chosen = append(chosen, id)
		}
	}
	if len(chosen) == 0 {
		return domains, list, nil
	}
	more, err := r.deps.Rivals(ctx, tx, nil, chosen)
	return domains, append(list, more...), err
}

// planServer: nothing but the backend depends on a server.
func (r *Room) planServer(ctx context.Context, tx *db.Tx, row apply.Row) ([]command, bool, error) {
	var was, now []Server
	var backend uuid.UUID
	for _, side := range []struct {
		row  any
		list *[]Server
	}{{row.Was, &was}, {row.Now, &now}} {
		s, ok := side.row.(*Server)
		if !ok {
			continue
		}
		if _, address := s.ip(); !address || backend != uuid.Nil && backend != s.BackendID {
			return nil, false, nil
		}
		backend = s.BackendID
		*side.list = []Server{*s}
	}
	b, err := r.backends.Get(ctx, tx, backend)
	if err != nil || !b.Active {
		return nil, err == nil, err
	}
	commands, ok := serverCommands(&pool{Backend: *b}, was, now)
	return commands, ok, nil
}

// planDomain: a certificate that a domain is configured to use is listed for its names, which takes more commands.
func (r *Room) planDomain(ctx context.Context, tx *db.Tx, x *shape, row apply.Row) ([]command, bool, error) {
	none := &Domain{}
	was, now := none, none
	if d, ok := row.Was.(*Domain); ok {
		was = d
	}
	if d, ok := row.Now.(*Domain); ok {
		now = d
	}
	if was.CertificateID != nil || now.CertificateID != nil {
		return nil, false, nil
	}
	if was == none {
		commands, ok := siteCommands(x, siteOf(none, hanging{}), siteOf(now, hanging{}))
		return commands, ok, nil
	}
	if now == none {
		return nil, false, nil // what belongs to it is deleted with it
	}
	with, err := r.hangingOn(ctx, tx, now.ID)
	if err != nil {
		return nil, false, err
	}
	commands, ok := siteCommands(x, siteOf(was, with), siteOf(now, with))
	return commands, ok, nil
}

// hangingOn returns the rows that belong to a domain.
func (r *Room) hangingOn(ctx context.Context, tx *db.Tx, domain uuid.UUID) (h hanging, err error) {
	if h.headers, err = r.headers.Where(ctx, tx, "domain_id = $1", domain); err != nil {
		return h, err
	}
	if h.rules, err = r.rules.Where(ctx, tx, "domain_id = $1", domain); err != nil {
		return h, err
	}
	h.inspection, err = r.deps.InspectionOf(ctx, tx, domain)
	return h, err
}

func (r *Room) planHeader(ctx context.Context, tx *db.Tx, x *shape, was, now *Header) ([]command, bool, error) {
	domain, ok := sameParent(was, now, func(h *Header) uuid.UUID { return h.DomainID })
	if !ok {
		return nil, false, nil
	}
	return r.planHanging(ctx, tx, x, domain, func(h *hanging) {
		h.headers = instead(h.headers, was, now, func(h *Header) uuid.UUID { return h.ID })
		slices.SortStableFunc(h.headers, func(a, b Header) int { return a.CreatedAt.Compare(b.CreatedAt) })
	})
}

func (r *Room) planRule(ctx context.Context, tx *db.Tx, x *shape, was, now *Rule) ([]command, bool, error) {
	domain, ok := sameParent(was, now, func(r *Rule) uuid.UUID { return r.DomainID })
	if !ok {
		return nil, false, nil
	}
	return r.planHanging(ctx, tx, x, domain, func(h *hanging) { h.rules = instead(h.rules, was, now, func(r *Rule) uuid.UUID { return r.ID }) })
}

// planInspection: most settings of a domain's inspection do not concern HAProxy; then there are no commands.
func (r *Room) planInspection(ctx context.Context, tx *db.Tx, x *shape, domain uuid.UUID, was, now *Inspection) ([]command, bool, error) {
	if was == now || was != nil && now != nil && *was == *now {
		return nil, true, nil
	}
	return r.planHanging(ctx, tx, x, domain, func(h *hanging) { h.inspection = was })
}

// planHanging handles a changed row that belongs to an unchanged domain. before restores the earlier state.
func (r *Room) planHanging(ctx context.Context, tx *db.Tx, x *shape, domain uuid.UUID, before func(*hanging)) ([]command, bool, error) {
	d, err := r.domains.Get(ctx, tx, domain)
	if err != nil {
		return nil, false, err
	}
	now, err := r.hangingOn(ctx, tx, domain)
	if err != nil {
		return nil, false, err
	}
	was := now
	before(&was)
	commands, ok := siteCommands(x, siteOf(d, was), siteOf(d, now))
	return commands, ok, nil
}

// sameParent returns the parent of a row, unless the change moves it to another parent.
func sameParent[T any](was, now *T, parent func(*T) uuid.UUID) (uuid.UUID, bool) {
	switch {
	case was == nil:
		return parent(now), true
	case now == nil:
		return parent(was), true
	}
	return parent(now), parent(was) == parent(now)
}

// instead returns a list as it was before one of its rows changed.
func instead[T any](list []T, was, now *T, id func(*T) uuid.UUID) []T {
	var before []T
	for i := range list {
		if now == nil || id(&list[i]) != id(now) {
			before = append(before, list[i])
		}
	}
	if was != nil {
		before = append(before, *was)
	}
	return before
}

// siteCommands returns the commands between two states of a domain in the maps.
func siteCommands(x *shape, was, now site) ([]command, bool) {
	if !now.fits(x) || !was.fits(x) {
		return nil, false
	}
	one := func(s site) map[host.Place]entries {
		m := &sites{shape: *x, hosts: entries{}, wildcards: entries{}, routes: entries{}, headers: entries{}}
		m.add(s)
		return m.files()
	}
	return mapCommands(one(was), one(now)), true
}
