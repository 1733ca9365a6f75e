package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/renameio/v2"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/rescue"
	"edge.internal/gateway/internal/waf/domain"
	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/seclang"
)

const (
	// configChannel is where the database announces changed configurations of domains.
	configChannel = "waf_configs"
	// reloadEvery is how often the database is read without an announcement.
	reloadEvery = 30 * time.Second
	// joinEvery is how often to try a database that is away or has no tables yet, and joinWithin how long the first attempt may delay the
	// start.
	joinEvery  = time.Second
	joinWithin = 5 * time.Second
)

// Sources of a configuration.
const (
	FromDatabase = "database"
	FromFile     = "file"
	FromNowhere  = "none"
)

// row is the stored configuration of a domain, as the database encodes its columns in JSON. The file has the same form.
type row struct {
	ID        string    `json:"domain_id"`
	UpdatedAt time.Time `json:"updated_at"`
	domain.Settings
	TrustedProxies []string `json:"trusted_proxies"`
}

// stored is an unparsed row.
type stored struct {
	updated time.Time
	text    json.RawMessage
}

// Fingerprint is a query for a text that changes whenever a domain's configuration does. The gateway compares the fingerprint of the
// stored rows with that of the rows in use by the agent.
const Fingerprint = "SELECT coalesce(sum(hashtextextended(domain_id::text || extract(epoch FROM updated_at), 0)), 0)::text FROM waf_configs WHERE enabled"

// config is one state of all domains. It never changes.
type config struct {
	rows    map[string]stored
	domains map[string]*Domain
	// unusable has the domains whose row cannot be used, and which are therefore inspected with something else or not at all.
	unusable map[string]bool
	// fingerprint is the fingerprint of the rows in the database; empty while engines are being built for them.
	fingerprint string
	from        string
	at          time.Time
	// next is closed when the next state is ready; nil unless engines are being built for one.
	next chan struct{}
}

// Source holds the domains' configuration: the database's, reread on announcements and every half minute, or the last one seen while the
// database is away.
type Source struct {
	db   *db.DB
	set  *engine.Set
	file string
	log  *slog.Logger

	current atomic.Pointer[config]
	ready   chan struct{}
	// customs holds the engines with custom rules, by their text. Only Run touches them.
	customs map[string]*engine.Custom
	saved   map[string]stored
	// built means that the engine shared by all domains exists.
	built bool
	// away means that the log already says that the database cannot be read.
	away bool
}

// NewSource returns a source that saves the last configuration in a file.
func NewSource(d *db.DB, set *engine.Set, file string, log *slog.Logger) *Source {
	s := &Source{db: d, set: set, file: file, log: log, ready: make(chan struct{}), customs: map[string]*engine.Custom{}}
	s.current.Store(&config{from: FromNowhere})
	return s
}

// Domain finds a domain by its name in HAProxy; nil if there is none.
func (s *Source) Domain(name []byte) *Domain { return s.current.Load().domains[string(name)] }

// Soon is Domain for callers that can wait: while engines are being built, the result is only known afterwards.
func (s *Source) Soon(ctx context.Context, name []byte) *Domain {
	for {
		c := s.current.Load()
		if d := c.domains[string(name)]; d != nil || c.next == nil {
			return d
		}
		select {
		case <-c.next:
		case <-ctx.Done():
			return nil
		}
	}
}

// Ready is closed as soon as there is a configuration, even an empty one.
func (s *Source) Ready() <-chan struct{} { return s.ready }

// Run keeps the configuration up to date until the context ends, and then closes its engines.
func (s *Source) Run(ctx context.Context) {
	defer s.close()
	announced := make(chan struct{}, 1)
	s.begin(ctx)
	close(s.ready)
	listening, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.db.Wake(listening, configChannel, announced, func() <-chan time.Time { return s.joining(listening) })
	}()
	defer func() { stop(); <-ended }()
	for {
		every := reloadEvery
		if s.away {
			every = joinEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-announced:
		case <-time.After(every):
		}
		s.reload(ctx)
	}
}

// begin loads the first configuration: the database's, or else the last one saved.
func (s *Source) begin(ctx context.Context) {
	joining, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	if err := s.db.Join(joining); err != nil {
		s.complain(err)
	} else if s.reload(ctx) {
		return
	}
	rows, err := s.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.log.Warn("there is no configuration yet: no domain is inspected until the database gives one")
	case err != nil:
		s.log.Error("the last configuration cannot be read: no domain is inspected until the database gives one", "file", s.file, "err", err)
	default:
		s.apply(ctx, rows, "", FromFile)
		s.log.Warn("continuing with the last configuration", "file", s.file, "domains", len(rows))
	}
}

// joining tries a database that is away before listening to it again. Whether it was joined before is not known here, but joining twice
// does no harm.
func (s *Source) joining(ctx context.Context) <-chan time.Time {
	if !s.db.Attached() {
		_ = s.db.Join(ctx)
	}
	return time.After(joinEvery)
}

// reload applies what is in the database, and reports whether it could be read.
func (s *Source) reload(ctx context.Context) (ok bool) {
	var err error
	defer func() {
		if err != nil {
			s.complain(err)
		}
	}()
	defer rescue.Into(&err, s.log, "waf")
	rows, fingerprint, err := s.query(ctx)
	if err != nil {
		return false
	}
	if s.away {
		s.away = false
		s.log.Info("the configuration is read from the database again")
	}
	s.apply(ctx, rows, fingerprint, FromDatabase)
	s.save(rows)
	return true
}

// complain logs once that the database cannot be read.
func (s *Source) complain(err error) {
	if !s.away {
		s.away = true
		s.log.Warn("the configuration cannot be read from the database", "err", err)
	}
}

// query reads the rows of all domains to be inspected, without the content of unchanged ones.
func (s *Source) query(ctx context.Context) (rows map[string]stored, fingerprint string, err error) {
	known := s.current.Load().rows
	rows = map[string]stored{}
	err = s.db.Snapshot(ctx, func(tx *db.Tx) error {
		if err := tx.QueryRow(ctx, Fingerprint).Scan(&fingerprint); err != nil {
			return err
		}
		var changed []string
		found, err := tx.Query(ctx, "SELECT domain_id::text, updated_at FROM waf_configs WHERE enabled")
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var id string
			var updated time.Time
			if err := found.Scan(&id, &updated); err != nil {
				return err
			}
			if have, ok := known[id]; ok && have.updated.Equal(updated) {
				rows[id] = have
			} else {
				changed = append(changed, id)
			}
		}
		if err := found.Err(); err != nil || len(changed) == 0 {
			return err
		}
		found, err = tx.Query(ctx, "SELECT domain_id::text, updated_at, to_jsonb(c)::text FROM waf_configs c WHERE enabled AND domain_id = ANY($1::text[]::uuid[])", changed)
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var id, text string
			var one stored
			if err := found.Scan(&id, &one.updated, &text); err != nil {
				return err
			}
			one.text = json.RawMessage(text)
			rows[id] = one
		}
		return found.Err()
	})
	return rows, fingerprint, err
}

// apply builds domains from rows and swaps them in: first those that are ready at once, then those that need a new engine, one by one. A
// row that cannot be used leaves its domain unchanged, and does not affect others.
func (s *Source) apply(ctx context.Context, rows map[string]stored, fingerprint, from string) {
	if err := s.build(len(rows)); err != nil {
		s.log.Error("the rule set cannot be used; nothing was changed", "err", err)
		return
	}
	before := s.current.Load()
	next := config{rows: rows, domains: make(map[string]*Domain, len(rows)), unusable: map[string]bool{}, from: from, at: time.Now()}
	var pending []*row
	for id, one := range rows {
		last := before.domains[id]
		if have, ok := before.rows[id]; ok && have.updated.Equal(one.updated) {
			if last != nil {
				next.domains[id] = last
			}
			if before.unusable[id] {
				next.unusable[id] = true
			}
			continue
		}
		if last != nil {
			next.domains[id] = last
		}
		r, err := parse(id, one.text)
		if err != nil {
			s.log.Error("the stored configuration of a domain cannot be used; the domain is unchanged", "domain", id, "in_use", last != nil, "err", err)
			next.unusable[id] = true
			continue
		}
		if r.CustomRules != "" && s.customs[r.CustomRules] == nil {
			pending = append(pending, r)
			continue
		}
		next.domains[id] = s.domain(r, s.customs[r.CustomRules])
	}
	if len(pending) == 0 {
		next.fingerprint = fingerprint
	}
	s.publish(next, len(pending) > 0)
	for i, r := range pending {
		if ctx.Err() != nil {
			break
		}
		custom, err := s.custom(r.CustomRules)
		last := next.domains[r.ID]
		if err != nil {
			s.log.Error("the custom rules of a domain cannot be used; the previous ones stay", "domain", r.ID, "in_use", last != nil, "err", err)
			next.unusable = maps.Clone(next.unusable)
			next.unusable[r.ID] = true
		}
		// Without its rules a domain is not what was requested: there is no verdict, and fail_open decides.
		if err == nil || last != nil {
			if err != nil {
				custom = last.Settings.Custom
			}
			next.domains = maps.Clone(next.domains)
			next.domains[r.ID] = s.domain(r, custom)
		}
		more := i < len(pending)-1
		if !more {
			next.fingerprint = fingerprint
		}
		s.publish(next, more)
	}
	s.release()
}

// build makes sure that the shared engine exists, once there is a domain.
func (s *Source) build(domains int) error {
	if s.built || domains == 0 {
		return nil
	}
	now := *s.current.Load()
	s.publish(now, true)
	if err := s.set.Build(); err != nil {
		s.publish(now, false)
		return err
	}
	s.built = true
	if err := s.set.Slow(); err != nil {
		s.log.Warn("every rule is evaluated for every request, which takes longer", "err", err)
	}
	return nil
}

// publish swaps a state in, and tells those who wait whether more is to come.
func (s *Source) publish(c config, more bool) {
	c.next = nil
	if more {
		c.next = make(chan struct{})
	}
	if last := s.current.Swap(&c); last.next != nil {
		close(last.next)
	}
}

// release closes the engines that no domain uses any more. Inspections running on them are not affected.
func (s *Source) release() {
	used := map[*engine.Custom]bool{}
	for _, d := range s.current.Load().domains {
		used[d.Settings.Custom] = true
	}
	maps.DeleteFunc(s.customs, func(_ string, c *engine.Custom) bool {
		if used[c] {
			return false
		}
		if err := c.Close(); err != nil {
			s.log.Error("an engine cannot be closed", "err", err)
		}
		return true
	})
}

func (s *Source) close() {
	s.publish(config{from: FromNowhere}, false)
	s.release()
}

// custom returns the engine with these rules, and builds it if there is none.
func (s *Source) custom(text string) (c *engine.Custom, err error) {
	defer rescue.Into(&err, s.log, "waf")
	if c := s.customs[text]; c != nil {
		return c, nil
	}
	rules, err := seclang.Compile(text)
	if err != nil {
		return nil, err
	}
	if c, err = s.set.Custom(rules); err != nil {
		return nil, err
	}
	s.customs[text] = c
	return c, nil
}

// parse reads a row, and refuses impossible values.
func parse(id string, text json.RawMessage) (*row, error) {
	r := &row{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	switch {
	case r.ID != id:
		return nil, fmt.Errorf("it is that of domain %q", r.ID)
	case r.Mode != domain.Blocking && r.Mode != domain.Detection:
		return nil, fmt.Errorf("there is no mode %q", r.Mode)
	case r.ParanoiaLevel < 1 || r.ParanoiaLevel > 4:
		return nil, fmt.Errorf("there is no paranoia level %d", r.ParanoiaLevel)
	}
	return r, nil
}

// domain converts a row for the agent. An invalid exclusion or trusted proxy is left out: without it more is inspected and less is
// believed.
func (s *Source) domain(r *row, custom *engine.Custom) *Domain {
	d := &Domain{ID: r.ID, Settings: r.Settings.Engine(func(err error) { s.log.Warn("an exclusion is left out", "domain", r.ID, "err", err) })}
	d.Settings.Custom = custom
	for _, text := range r.TrustedProxies {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			s.log.Warn("a trusted proxy is left out", "domain", r.ID, "err", err)
			continue
		}
		d.Trusted = append(d.Trusted, p.Masked())
	}
	return d
}

// save stores the rows for a start without the database.
func (s *Source) save(rows map[string]stored) {
	same := func(a, b stored) bool { return a.updated.Equal(b.updated) }
	if s.saved != nil && maps.EqualFunc(s.saved, rows, same) {
		return
	}
	list := make([]json.RawMessage, 0, len(rows))
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		list = append(list, rows[id].text)
	}
	content, err := json.Marshal(list)
	if err == nil {
		err = renameio.WriteFile(s.file, content, 0o600)
	}
	if err != nil {
		s.log.Error("the configuration cannot be saved for a start without the database", "file", s.file, "err", err)
		return
	}
	s.saved = rows
}

func (s *Source) read() (map[string]stored, error) {
	content, err := os.ReadFile(s.file)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, err
	}
	rows := make(map[string]stored, len(list))
	for _, text := range list {
		var head struct {
			Domain    string    `json:"domain_id"`
			UpdatedAt time.Time `json:"updated_at"`
		}
		if err := json.Unmarshal(text, &head); err != nil {
			s.log.Error("the saved configuration of a domain cannot be read", "file", s.file, "err", err)
			continue
		}
		rows[head.Domain] = stored{head.UpdatedAt, text}
	}
	return rows, nil
}
