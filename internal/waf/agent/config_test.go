package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/schema"
	"edge.internal/gateway/internal/waf/engine"
)

// world is a database with the agent's tables, and the agent's own connection with only its own rights. The server belongs to the test,
// which may stop it.
type world struct {
	t      *testing.T
	owner  *db.DB
	server *private.Server
	url    string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	d, server := dbtest.Own(t)
	w := &world{t: t, owner: d, server: server}
	dbtest.Exec(t, d, `CREATE ROLE "gateway-waf" LOGIN;`+schema.Grants)
	var name string
	if err := d.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(server.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.User("gateway-waf")
	w.url = at.String()
	return w
}

// open returns the agent's connection.
func (w *world) open() *db.DB {
	w.t.Helper()
	d, err := db.Open(w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(d.Close)
	return d
}

// put stores columns of a domain's configuration, and announces it as the API does.
func (w *world) put(domain string, columns map[string]string) {
	w.t.Helper()
	all := map[string]string{"enabled": "true", "created_at": "now()", "updated_at": "clock_timestamp()"}
	for name, value := range columns {
		all[name] = value
	}
	var names, values, sets []string
	for name, value := range all {
		names, values, sets = append(names, name), append(values, value), append(sets, name+" = "+value)
	}
	// The domain does not exist in the proxy, so the foreign key is not checked.
	dbtest.Exec(w.t, w.owner, fmt.Sprintf(`SET session_replication_role = replica;
		INSERT INTO waf_configs (domain_id, %s) VALUES ('%s', %s) ON CONFLICT (domain_id) DO UPDATE SET %s; SELECT pg_notify('waf_configs', '%[2]s')`,
		strings.Join(names, ", "), domain, strings.Join(values, ", "), strings.Join(sets, ", ")))
}

// fingerprint returns the fingerprint of the stored configuration.
func (w *world) fingerprint() (text string) {
	w.t.Helper()
	if err := w.owner.QueryRow(w.t.Context(), Fingerprint).Scan(&text); err != nil {
		w.t.Fatal(err)
	}
	return text
}

// plainSet is the set of engines for tests that do not count them.
var plainSet = sync.OnceValues(engine.New)

func engines(t *testing.T) *engine.Set {
	t.Helper()
	s, err := plainSet()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// notes is a log that a test reads.
type notes struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (n *notes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(b)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.String()
}

func (n *notes) log() *slog.Logger { return slog.New(slog.NewTextHandler(n, nil)) }

// run runs a source until the test, or the returned function, ends it.
func run(t *testing.T, s *Source) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	<-s.Ready()
	return stop
}

func source(t *testing.T, w *world, file string, log *slog.Logger) *Source {
	t.Helper()
	return NewSource(w.open(), engines(t), file, log)
}

func id() string { return uuid.NewString() }

// WF-02: a change is in force as soon as the database has notified the agent.
func TestTheDatabaseConfiguresTheAgent(t *testing.T) {
	w, logged, file := newWorld(t), &notes{}, filepath.Join(t.TempDir(), "config.json")
	shop, blog, off := id(), id(), id()
	w.put(shop, map[string]string{
		"mode": "'blocking'", "paranoia_level": "3", "max_body_bytes": "65536", "rule_exclusions": "'{942100,920350,949110}'",
		"exclusions":      `'[{"rule_id": 942430, "path": "/api", "variable": "ARGS", "parameter": "q", "note": "search"}]'`,
		"trusted_proxies": "'{10.1.2.3/8,nonsense,2001:db8::/32}'",
	})
	w.put(blog, nil)
	w.put(off, map[string]string{"enabled": "false"})
	s := source(t, w, file, logged.log())
	run(t, s)

	d := s.Domain([]byte(shop))
	if d == nil || s.Domain([]byte(off)) != nil || s.Domain([]byte("other")) != nil || s.Domain(nil) != nil {
		t.Fatalf("%+v", d)
	}
	if d.ID != shop || !d.Settings.Blocking || d.Settings.Paranoia != 3 || d.Settings.MaxBody != 65536 || d.Settings.Custom != nil || len(d.Settings.Exclusions) != 3 {
		t.Errorf("%+v", d.Settings)
	}
	if want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}; fmt.Sprint(d.Trusted) != fmt.Sprint(want) {
		t.Errorf("trusted: %v", d.Trusted)
	}
	if !strings.Contains(logged.String(), "949110 cannot be left out") || !strings.Contains(logged.String(), "nonsense") {
		t.Errorf("logged: %s", logged)
	}
	if d := s.Domain([]byte(blog)); d == nil || d.Settings.Blocking || d.Settings.Paranoia != 1 {
		t.Errorf("%+v", d)
	}

	// A change arrives; the others are identical to before, not just equal.
	w.put(blog, map[string]string{"paranoia_level": "2"})
	waittest.Until(t, "a change", func() bool { return s.Domain([]byte(blog)).Settings.Paranoia == 2 })
	if s.Domain([]byte(shop)) != d {
		t.Error("a domain that did not change was made once more")
	}
	w.put(off, nil)
	waittest.Until(t, "one more domain", func() bool { return s.Domain([]byte(off)) != nil })
	w.put(blog, map[string]string{"enabled": "false"})
	waittest.Until(t, "one less", func() bool { return s.Domain([]byte(blog)) == nil })

	waittest.Until(t, "the file", func() bool {
		var rows []row
		content, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(content, &rows) == nil && len(rows) == 2
	})
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

const (
	refusesFoo = `SecRule ARGS "@contains foo" "id:1,phase:2,deny,status:403,msg:'no foo'"`
	refusesBar = `SecRule ARGS "@contains bar" "id:1,phase:2,deny,status:403,msg:'no bar'"`
)

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// denies reports whether a domain's settings deny a request for a URI.
func denies(t *testing.T, s *Source, domain, uri string) bool {
	t.Helper()
	d := s.Domain([]byte(domain))
	if d == nil {
		t.Fatal("there is no such domain")
	}
	r := &engine.Request{
		ID: "1", Source: netip.MustParseAddrPort("192.0.2.1:1"), Destination: netip.MustParseAddrPort("192.0.2.2:443"), Method: "GET", URI: uri, Version: "1.1",
		Header: []engine.Field{{Name: "host", Value: "www.example.com"}, {Name: "user-agent", Value: "Mozilla/5.0"}, {Name: "accept", Value: "*/*"}}, Complete: true,
	}
	v, err := s.set.Inspect(t.Context(), r, d.Settings)
	if err != nil {
		t.Fatal(err)
	}
	return v.Deny
}

// As long as no domain needs it, there is no engine.
func TestTheFirstDomainBringsTheEngine(t *testing.T) {
	set := engine.Later()
	defer set.Close()
	w, logged := newWorld(t), &notes{}
	s := NewSource(w.open(), set, filepath.Join(t.TempDir(), "config.json"), logged.log())
	run(t, s)
	if now := s.current.Load(); set.Builds() != 0 || set.Engines() != 0 || now.fingerprint != w.fingerprint() {
		t.Errorf("%d builds, %d engines, %q", set.Builds(), set.Engines(), now.fingerprint)
	}
	first := id()
	w.put(first, map[string]string{"mode": "'blocking'"})
	// A request that arrives before the engine waits for it; one of an unannounced domain does not.
	waittest.Until(t, "the engine is being built, or is there", func() bool { c := s.current.Load(); return c.next != nil || c.domains[first] != nil })
	if s.Soon(t.Context(), []byte(first)) == nil || s.Soon(t.Context(), []byte(id())) != nil {
		t.Error("a request has not waited for the engine")
	}
	waittest.Until(t, "the first domain", func() bool { return s.current.Load().fingerprint == w.fingerprint() })
	if !denies(t, s, first, "/?id=1%27+or+%271%27%3D%271") || set.Engines() != 1 {
		t.Errorf("%d engines: %s", set.Engines(), logged)
	}
}

// WF-04: an unusable configuration only affects its own domain, and engines are only built for new texts.
func TestEnginesAreBuiltForNewTextsAlone(t *testing.T) {
	set := engine.Later()
	defer set.Close()
	w, logged := newWorld(t), &notes{}
	a, b, c := id(), id(), id()
	w.put(a, map[string]string{"mode": "'blocking'", "custom_rules": quoted(refusesFoo)})
	w.put(b, map[string]string{"mode": "'blocking'", "custom_rules": quoted(refusesFoo)})
	w.put(c, map[string]string{"mode": "'blocking'", "custom_rules": "'SecRuleEngine Off'"})
	s := NewSource(w.open(), set, filepath.Join(t.TempDir(), "config.json"), logged.log())
	stop := run(t, s)

	if set.Engines() != 2 || set.Builds() == 0 {
		t.Errorf("%d engines, %d builds", set.Engines(), set.Builds())
	}
	// A domain stays marked as unusable until its configuration changes.
	now := s.current.Load()
	if len(now.unusable) != 1 || !now.unusable[c] || now.fingerprint != w.fingerprint() {
		t.Errorf("%v cannot be used of %s; stored is %s", now.unusable, now.fingerprint, w.fingerprint())
	}
	if !denies(t, s, a, "/?x=foo") || denies(t, s, a, "/?x=bar") || !denies(t, s, b, "/?x=foo") {
		t.Error("the custom rules do not decide")
	}
	if s.Domain([]byte(c)) != nil || !strings.Contains(logged.String(), c) {
		t.Errorf("rules that cannot be used: %s", logged)
	}
	// Settings without a new text need no engine.
	base := set.Builds()
	w.put(a, map[string]string{"paranoia_level": "4"})
	w.put(c, map[string]string{"custom_rules": "''"})
	waittest.Until(t, "settings", func() bool { return s.Domain([]byte(a)).Settings.Paranoia == 4 && s.Domain([]byte(c)) != nil })
	if set.Builds() != base {
		t.Errorf("%d builds", set.Builds()-base)
	}
	waittest.Until(t, "all of it", func() bool {
		now := s.current.Load()
		return len(now.unusable) == 0 && now.fingerprint == w.fingerprint()
	})
	// With a text that does not compile, the previous rules stay, with the new settings. Other domains are not affected.
	w.put(a, map[string]string{"paranoia_level": "1", "custom_rules": `'SecRule ARGS "@rx (" "id:2,phase:2,deny"'`})
	w.put(c, map[string]string{"mode": "'blocking'", "custom_rules": quoted(refusesBar)})
	waittest.Until(t, "another text", func() bool {
		c := s.Domain([]byte(c))
		return c.Settings.Custom != nil && s.Domain([]byte(a)).Settings.Paranoia == 1
	})
	if !denies(t, s, a, "/?x=foo") || !denies(t, s, b, "/?x=foo") || !denies(t, s, c, "/?x=bar") || denies(t, s, c, "/?x=foo") {
		t.Error("the rules are not those of the domains")
	}
	if set.Engines() != 3 {
		t.Errorf("%d engines", set.Engines())
	}
	// Unused engines are closed.
	w.put(a, map[string]string{"enabled": "false"})
	w.put(b, map[string]string{"custom_rules": quoted(refusesBar)})
	waittest.Until(t, "closing", func() bool { return set.Engines() == 2 })
	stop()
	if set.Engines() != 1 {
		t.Errorf("%d engines at the end", set.Engines())
	}
}

// While an engine is built for other rules, requests are answered: those of its own domain with the previous rules, and those of others
// as usual.
func TestRequestsAreAnsweredWhileAnEngineIsBuilt(t *testing.T) {
	w, logged := newWorld(t), &notes{}
	changes, other := id(), id()
	w.put(changes, map[string]string{"mode": "'blocking'", "custom_rules": quoted(refusesFoo)})
	w.put(other, map[string]string{"mode": "'blocking'"})
	s := source(t, w, filepath.Join(t.TempDir(), "config.json"), logged.log())
	run(t, s)
	w.put(changes, map[string]string{"custom_rules": quoted(refusesBar)})
	building := func() *config {
		if c := s.current.Load(); c.next != nil {
			return c
		}
		return nil
	}
	var during *config
	waittest.Until(t, "the engine is being built", func() bool { during = building(); return during != nil })
	answered := 0
	for s.current.Load() == during {
		former, as := denies(t, s, changes, "/?x=foo"), denies(t, s, other, "/?id=1%27+or+%271%27%3D%271")
		if s.current.Load() != during {
			break
		}
		if !former || !as {
			t.Fatalf("while the engine is built: %v by the rules before, %v for another domain", former, as)
		}
		answered++
	}
	if answered == 0 {
		t.Error("no request was answered while the engine was built")
	}
	if !denies(t, s, changes, "/?x=bar") || denies(t, s, changes, "/?x=foo") {
		t.Error("the new rules do not decide")
	}
}

func TestARowThatMakesNoSenseConcernsItsDomainAlone(t *testing.T) {
	w, logged := newWorld(t), &notes{}
	dbtest.Exec(t, w.owner, `DO $$ DECLARE c text; BEGIN
		FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = 'waf_configs'::regclass AND contype = 'c' LOOP
			EXECUTE format('ALTER TABLE waf_configs DROP CONSTRAINT %I', c);
		END LOOP; END $$`)
	good, bad, changed := id(), id(), id()
	for domain, columns := range map[string]map[string]string{
		good: nil, changed: {"paranoia_level": "2"}, bad: {"paranoia_level": "7"},
		id(): {"mode": "'sometimes'"}, id(): {"exclusions": `'"none"'`}, id(): {"exclusions": `'[{"rule_id": "all"}]'`}, id(): {"trusted_proxies": "'{NULL}'"},
	} {
		w.put(domain, columns)
	}
	s := source(t, w, filepath.Join(t.TempDir(), "config.json"), logged.log())
	run(t, s)
	if s.Domain([]byte(good)) == nil || s.Domain([]byte(bad)) != nil {
		t.Error("the domains are not those that make sense")
	}
	// What is in use stays in use.
	w.put(changed, map[string]string{"paranoia_level": "0"})
	w.put(bad, map[string]string{"paranoia_level": "1"})
	waittest.Until(t, "a repaired row", func() bool { return s.Domain([]byte(bad)) != nil })
	if d := s.Domain([]byte(changed)); d == nil || d.Settings.Paranoia != 2 {
		t.Errorf("%+v", d)
	}
}

func TestWithoutTheDatabaseTheLastConfigurationServes(t *testing.T) {
	w, logged, file := newWorld(t), &notes{}, filepath.Join(t.TempDir(), "config.json")
	shop := id()
	w.put(shop, map[string]string{"mode": "'blocking'", "custom_rules": quoted(refusesFoo)})
	s := source(t, w, file, logged.log())
	stop := run(t, s)
	if from := s.current.Load().from; from != FromDatabase {
		t.Errorf("from %s", from)
	}
	thaw := dbtest.Freeze(t, w.server)
	if !denies(t, s, shop, "/?x=foo") {
		t.Error("the rules have gone with the database")
	}
	thaw()
	stop()
	w.url = "postgres:///gateway?user=gateway-waf&host=" + t.TempDir()
	s = source(t, w, file, logged.log())
	stop = run(t, s)
	if from := s.current.Load().from; from != FromFile || !denies(t, s, shop, "/?x=foo") {
		t.Errorf("from %s", from)
	}
	stop()
	// Without a file, or with a broken one, it starts empty and reports it.
	for content, want := range map[string]string{"": "there is no configuration yet", "[{": "cannot be read"} {
		logged, file := &notes{}, filepath.Join(t.TempDir(), "config.json")
		if content != "" {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := source(t, w, file, logged.log())
		stop := run(t, s)
		if s.Domain([]byte(shop)) != nil || s.current.Load().from != FromNowhere || !strings.Contains(logged.String(), want) {
			t.Errorf("%q: %s", content, logged)
		}
		stop()
	}
}

func TestADatabaseThatComesLaterIsTakenUp(t *testing.T) {
	w, file := newWorld(t), filepath.Join(t.TempDir(), "config.json")
	shop, blog := id(), id()
	w.put(shop, nil)
	w.put(blog, nil)
	thaw := dbtest.Freeze(t, w.server)
	s := source(t, w, file, slog.New(slog.DiscardHandler))
	run(t, s)
	if s.Domain([]byte(shop)) != nil {
		t.Fatal("a database that does not answer has answered")
	}
	thaw()
	waittest.Until(t, "the configuration", func() bool { return s.Domain([]byte(shop)) != nil })
	w.put(blog, map[string]string{"paranoia_level": "4"})
	waittest.Until(t, "a change", func() bool { return s.Domain([]byte(blog)).Settings.Paranoia == 4 })
}

// On a new machine the agent may start before the API has created the tables, and nothing announces them.
func TestTablesThatComeLaterAreRead(t *testing.T) {
	w := newWorld(t)
	shop := id()
	w.put(shop, nil)
	dbtest.Exec(t, w.owner, "ALTER TABLE waf_configs RENAME TO later")
	s := source(t, w, filepath.Join(t.TempDir(), "config.json"), slog.New(slog.DiscardHandler))
	run(t, s)
	dbtest.Exec(t, w.owner, "ALTER TABLE later RENAME TO waf_configs")
	waittest.Until(t, "the configuration", func() bool { return s.Domain([]byte(shop)) != nil })
}
