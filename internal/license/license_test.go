package license

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/license/document"
)

var start = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// house is the room on a kit, with an issuer of licenses.
type house struct {
	*kittest.Bench
	room    *Room
	clock   *clock.Fake
	private ed25519.PrivateKey
	usage   Usage
	broken  error // the error of the count
}

func newHouse(t *testing.T) *house {
	t.Helper()
	return on(t, kittest.New(t))
}

func on(t *testing.T, b *kittest.Bench) *house {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{Bench: b, clock: clock.NewFake(start), private: private, usage: Usage{Nodes: 1, Domains: 2, TunnelPeers: 3}}
	h.Kit.Clock = h.clock
	h.restart(t)
	return h
}

func (h *house) public() ed25519.PublicKey { return h.private.Public().(ed25519.PublicKey) }

// restart restarts the service with the issuer's key.
func (h *house) restart(t *testing.T) { t.Helper(); h.startWith(t, h.public()) }

func (h *house) startWith(t *testing.T, public ed25519.PublicKey) {
	t.Helper()
	h.Router = httpd.NewRouter(h.Log)
	h.Router.SetupDone = func() bool { return true }
	h.Router.Sessions = kittest.Roles{}
	h.room = New(h.Kit, Deps{PublicKey: public, Usage: func(ctx context.Context, q db.Querier) (Usage, error) {
		if h.broken != nil {
			return Usage{}, h.broken
		}
		return h.usage, q.QueryRow(ctx, "SELECT 1").Scan(new(int))
	}})
	h.room.Mount()
	h.Start(t)
}

func number(n int) *int { return &n }

// license returns a license that is valid for a year from the start, with changes.
func license(change func(*document.License)) document.License {
	l := document.License{
		ID: "L-1", Subject: "Example Ltd", Plan: "Standard", Limits: document.Limits{Nodes: number(1), Domains: number(10)}, Features: []string{"cluster", "waf"},
		NotBefore: start.Add(-day), NotAfter: start.Add(365 * day),
	}
	if change != nil {
		change(&l)
	}
	return l
}

func sign(t *testing.T, l document.License, key ed25519.PrivateKey) string {
	t.Helper()
	s, err := document.Sign(l, key)
	if err != nil {
		t.Fatal(err)
	}
	return s.Text()
}

func (h *house) put(t *testing.T, text string) *kittest.Answer {
	t.Helper()
	return h.Do(t, "admin", http.MethodPut, "/license/key", map[string]string{"key": text})
}

func (h *house) read(t *testing.T) (r Record) {
	t.Helper()
	h.Do(t, "viewer", http.MethodGet, "/license", nil).Want(t, 200).Into(t, &r)
	return r
}

func (h *house) want(t *testing.T, status Status, why string) Record {
	t.Helper()
	r := h.read(t)
	if r.Status != status || !strings.Contains(r.Reason, why) || !strings.HasSuffix(r.Reason, ".") {
		t.Fatalf("%s instead of %s: %s", r.Status, status, r.Reason)
	}
	return r
}

// write sets a state file to what it might be after a crash, a restored backup or an accident.
func (h *house) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(h.Paths.State(""), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Paths.State(name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (h *house) content(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(h.Paths.State(name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

func TestLifeOfALicense(t *testing.T) {
	h := newHouse(t)
	r := h.want(t, Trial, "No license is installed")
	if r.Installed || !r.Accepts || r.Over || r.CheckedAt != nil || r.NotAfter != nil || r.DaysLeft != nil || len(r.Features) != 0 || r.Limits.Domains.Limit != nil || *r.Limits.Domains.Used != 2 {
		t.Errorf("%+v", r)
	}
	h.Do(t, "admin", http.MethodDelete, "/license/key", nil).Want(t, 404)

	text := sign(t, license(nil), h.private)
	h.put(t, text).Want(t, 200).Into(t, &r)
	if r.Status != Active || !r.Installed || r.ID != "L-1" || r.Subject != "Example Ltd" || r.Plan != "Standard" || *r.DaysLeft != 365 || !slices.Equal(r.Features, []string{"cluster", "waf"}) || !r.CheckedAt.Equal(start) {
		t.Errorf("%+v", r)
	}
	if *r.Limits.Nodes.Limit != 1 || *r.Limits.Nodes.Used != 1 || *r.Limits.Domains.Limit != 10 || r.Limits.TunnelPeers.Limit != nil || *r.Limits.TunnelPeers.Used != 3 || r.Over {
		t.Errorf("%+v", r.Limits)
	}
	for _, name := range []string{"license.key", "license-cache.json"} {
		if info, err := os.Stat(h.Paths.State(name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}

	// It survives a restart, with the time of its verification.
	h.clock.Move(day)
	h.restart(t)
	if r = h.want(t, Active, "valid until 1 June 2027"); !r.CheckedAt.Equal(start) || *r.DaysLeft != 364 {
		t.Errorf("%+v", r)
	}
	h.Do(t, "admin", http.MethodPost, "/license/verify", nil).Want(t, 200).Into(t, &r)
	if r.Status != Active || !r.CheckedAt.Equal(start.Add(day)) {
		t.Errorf("%+v", r)
	}
	if h.restart(t); !h.read(t).CheckedAt.Equal(start.Add(day)) {
		t.Error("the verification is forgotten")
	}

	h.Do(t, "admin", http.MethodDelete, "/license/key", nil).Want(t, 200).Into(t, &r)
	if r.Status != Trial || r.Installed {
		t.Errorf("%+v", r)
	}
	if h.content(t, "license.key") != "" || h.content(t, "license-cache.json") != "" {
		t.Error("files are left behind")
	}
	h.restart(t)
	h.want(t, Trial, "")

	entries, err := h.Audit.Search(t.Context(), audit.Filter{Action: "license.", Limit: 10})
	if err != nil || len(entries) != 3 {
		t.Fatal(entries, err)
	}
	slices.Reverse(entries)
	for i, action := range []string{"license.set", "license.verify", "license.clear"} {
		if e := entries[i]; e.Action != action || e.Subject != "Example Ltd" || e.Actor != "admin@example.net" {
			t.Errorf("%+v", e)
		}
	}
}

// The status follows the clock while the service runs.
func TestClock(t *testing.T) {
	h := newHouse(t)
	h.put(t, sign(t, license(func(l *document.License) { l.NotAfter = start.Add(10 * day) }), h.private)).Want(t, 200)
	h.clock.Move(10 * day)
	if r := h.want(t, Active, ""); *r.DaysLeft != 0 {
		t.Errorf("%d days left", *r.DaysLeft)
	}
	h.clock.Move(time.Second)
	r := h.want(t, Expired, "expired on 11 June 2026, 12:00 UTC. Everything keeps working")
	if r.Subject != "Example Ltd" || *r.DaysLeft != 0 || *r.Limits.Domains.Limit != 10 {
		t.Errorf("%+v", r)
	}
	h.restart(t)
	h.want(t, Expired, "")
	if !strings.Contains(h.Logs.String(), "status=expired") {
		t.Error("the log does not say so")
	}
	// A clock that was set back makes it a future license.
	h.clock.Move(-30 * day)
	r = h.want(t, Invalid, "valid from 31 May 2026, 12:00 UTC. The clock of the gateway says 12 May 2026")
	if r.Subject != "Example Ltd" {
		t.Errorf("%+v", r)
	}
	h.clock.Move(20 * day)
	h.want(t, Active, "")
}

// An invalid license is refused, and the stored one stays.
func TestRefused(t *testing.T) {
	h := newHouse(t)
	good := sign(t, license(nil), h.private)
	h.put(t, good).Want(t, 200)
	stored, cache := h.content(t, "license.key"), h.content(t, "license-cache.json")
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(good, "\n")
	lines[3], lines[4] = lines[4], lines[3]
	for name, x := range map[string]struct{ text, why string }{
		"no license":       {"no license", "begin with"},
		"tampered":         {strings.Join(lines, "\n"), "signature"},
		"another issuer":   {sign(t, license(nil), other), "signature"},
		"trailing garbage": {good + "-- \nKind regards", "end with"},
		"huge":             {good + strings.Repeat(" ", 500_000), "more than 16384 bytes"},
		"not yet":          {sign(t, license(func(l *document.License) { l.NotBefore = start.Add(time.Second) }), h.private), "valid from 1 June 2026, 12:00 UTC: install it then"},
		"expired":          {sign(t, license(func(l *document.License) { l.NotAfter = start.Add(-time.Second) }), h.private), "expired on 1 June 2026"},
	} {
		a := h.put(t, x.text).WantField(t, "key")
		if !strings.Contains(a.Error.Fields["key"], x.why) {
			t.Errorf("%s: %s", name, a.Body)
		}
	}
	for _, body := range []any{`{}`, `{"key":""}`, `{"key":null}`, `{"key":7}`, `{"key":"***SET***"}`} {
		h.Do(t, "admin", http.MethodPut, "/license/key", body).WantField(t, "key")
	}
	h.put(t, strings.Repeat("x", httpd.MaxBody)).Want(t, 413)
	h.Do(t, "admin", http.MethodPut, "/license/key", map[string]string{"key": good, "plan": "Other"}).WantField(t, "plan")
	if h.content(t, "license.key") != stored || h.content(t, "license-cache.json") != cache {
		t.Error("something was stored")
	}
	if n := h.Audited(t, "license.set"); n != 1 {
		t.Errorf("%d entries", n)
	}
	h.want(t, Active, "")
}

func TestWhoMay(t *testing.T) {
	h := newHouse(t)
	body := map[string]string{"key": sign(t, license(nil), h.private)}
	for role, status := range map[string]int{"": 401, "viewer": 403} {
		h.Do(t, role, http.MethodPut, "/license/key", body).Want(t, status)
		h.Do(t, role, http.MethodDelete, "/license/key", nil).Want(t, status)
		h.Do(t, role, http.MethodPost, "/license/verify", nil).Want(t, status)
	}
	h.Do(t, "", http.MethodGet, "/license", nil).Want(t, 401)
	h.want(t, Trial, "")
}

// Whatever the files contain, the gateway starts and reports what is wrong.
func TestDamagedFiles(t *testing.T) {
	h := newHouse(t)
	good := sign(t, license(nil), h.private)
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct{ text, why string }{
		"empty":      {"", "begin with"},
		"cut":        {good[:100], "end with"},
		"foreign":    {sign(t, license(nil), other), "signature"},
		"huge":       {strings.Repeat(good, 1000), "more than"},
		"binary":     {"\x00\xff\xfe", "begin with"},
		"changed":    {strings.Replace(good, good[120:124], "AAAA", 1), "signature"},
		"two spaces": {"  ", "begin with"},
	} {
		h.write(t, "license.key", x.text)
		r := h.want(t, Invalid, x.why) // while it runs
		if !r.Installed || r.Subject != "" || r.ID != "" || len(r.Features) != 0 || r.NotAfter != nil {
			t.Errorf("%s: what was not verified is shown: %+v", name, r)
		}
		h.restart(t)
		h.want(t, Invalid, x.why)
		h.Do(t, "admin", http.MethodPost, "/license/verify", nil).Want(t, 200)
		h.want(t, Invalid, x.why)
	}
	// It can be removed, and replaced.
	h.Do(t, "admin", http.MethodDelete, "/license/key", nil).Want(t, 200)
	h.write(t, "license.key", "x")
	h.put(t, good).Want(t, 200)
	h.want(t, Active, "")
	// A folder in its place cannot be read.
	h.Do(t, "admin", http.MethodDelete, "/license/key", nil).Want(t, 200)
	if err := os.Mkdir(h.Paths.State("license.key"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.restart(t)
	h.want(t, Invalid, "cannot be read")
	if err := os.Remove(h.Paths.State("license.key")); err != nil {
		t.Fatal(err)
	}
	h.want(t, Trial, "")
}

// The key decides, whatever cache a crash between the two files, or a restored backup, leaves.
func TestCrashBetweenKeyAndCache(t *testing.T) {
	h := newHouse(t)
	first := sign(t, license(func(l *document.License) { l.ID, l.Subject = "L-1", "First" }), h.private)
	second := sign(t, license(func(l *document.License) { l.ID, l.Subject = "L-2", "Second" }), h.private)
	files := map[string][2]string{}
	for name, text := range map[string]string{"first": first, "second": second} {
		h.put(t, text).Want(t, 200)
		files[name] = [2]string{h.content(t, "license.key"), h.content(t, "license-cache.json")}
	}
	forged := strings.Replace(files["second"][1], "Second", "Forged", 1)
	h.clock.Move(time.Hour)
	for name, x := range map[string]struct {
		key, cache, subject string
		checked             time.Time
	}{
		"set, before the key":      {files["first"][0], files["second"][1], "First", start.Add(time.Hour)},
		"set, whole":               {files["second"][0], files["second"][1], "Second", start},
		"only the key":             {files["second"][0], "", "Second", start.Add(time.Hour)},
		"a cache that is cut":      {files["second"][0], files["second"][1][:20], "Second", start.Add(time.Hour)},
		"a cache that was changed": {files["second"][0], forged, "Second", start},
		"cleared, before the rest": {"", files["second"][1], "", time.Time{}},
	} {
		for file, content := range map[string]string{"license.key": x.key, "license-cache.json": x.cache} {
			if h.write(t, file, content); content == "" {
				if err := os.Remove(h.Paths.State(file)); err != nil {
					t.Fatal(err)
				}
			}
		}
		h.restart(t)
		r := h.read(t)
		if r.Subject != x.subject || (r.Status == Active) != (x.key != "") || (r.CheckedAt == nil) != x.checked.IsZero() || r.CheckedAt != nil && !r.CheckedAt.Equal(x.checked) {
			t.Errorf("%s: %+v", name, r)
		}
		// From here on, the cache matches the key.
		var cache finding
		if err := json.Unmarshal([]byte(h.content(t, "license-cache.json")), &cache); (err == nil) != (x.key != "") {
			t.Errorf("%s: the cache is %q", name, h.content(t, "license-cache.json"))
		}
	}
}

func TestBuildWithoutAPublicKey(t *testing.T) {
	h := newHouse(t)
	h.startWith(t, nil)
	if r := h.want(t, Trial, "accepts none"); r.Accepts {
		t.Errorf("%+v", r)
	}
	text := sign(t, license(nil), h.private)
	if a := h.put(t, text).Want(t, 501); !strings.Contains(a.Error.Message, "no public key") {
		t.Errorf("%s", a.Body)
	}
	// A license that an earlier build has stored is not lost.
	h.write(t, "license.key", text)
	h.want(t, Invalid, "has no public key")
	h.Do(t, "admin", http.MethodPost, "/license/verify", nil).Want(t, 200)
	h.restart(t)
	h.want(t, Active, "")
}

// Builds have the public key of the development pair unless another one is given, so everyone with the source can try licenses.
func TestDevelopmentPair(t *testing.T) {
	private, err := os.ReadFile("../../packaging/license/development.pem")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(private)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	half, err := os.ReadFile("../../packaging/license/development.pub")
	if err != nil {
		t.Fatal(err)
	}
	public, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(half)))
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t)
	h.startWith(t, public)
	h.put(t, sign(t, license(nil), parsed.(ed25519.PrivateKey))).Want(t, 200)
	h.want(t, Active, "")
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "\nLICENSE_PUBLIC_KEY ?= $(shell cat packaging/license/development.pub)\n") {
		t.Error("builds do not have this key")
	}
}

func TestOverLimits(t *testing.T) {
	h := newHouse(t)
	h.usage = Usage{Nodes: 1, Domains: 11, TunnelPeers: 1}
	var r Record
	h.put(t, sign(t, license(func(l *document.License) {
		l.Limits = document.Limits{Nodes: number(1), Domains: number(10), TunnelPeers: number(0)}
	}), h.private)).Want(t, 200).Into(t, &r)
	if r.Status != Active || !r.Over || r.Limits.Nodes.Over || !r.Limits.Domains.Over || !r.Limits.TunnelPeers.Over {
		t.Errorf("%+v", r)
	}
	h.usage = Usage{Nodes: 1, Domains: 10}
	if r = h.read(t); r.Over {
		t.Errorf("%+v", r)
	}
	h.broken = errors.New("a count that fails")
	if r = h.want(t, Active, ""); r.Limits.Domains.Used != nil || r.Over || !strings.Contains(h.Logs.String(), "cannot be counted") {
		t.Errorf("%+v", r)
	}
}

func TestWithoutTheDatabase(t *testing.T) {
	d, err := db.Open("postgres:///none?host=" + t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	h := on(t, kittest.NewOn(t, d))
	h.put(t, sign(t, license(nil), h.private)).Want(t, 200)
	if r := h.want(t, Active, ""); r.Limits.Domains.Used != nil || r.Limits.Nodes.Used != nil || *r.Limits.Domains.Limit != 10 || r.Over {
		t.Errorf("%+v", r)
	}
	h.Do(t, "admin", http.MethodPost, "/license/verify", nil).Want(t, 200)
	h.restart(t)
	h.want(t, Active, "")
	h.Do(t, "admin", http.MethodDelete, "/license/key", nil).Want(t, 200)
	h.want(t, Trial, "")
	if files, err := os.ReadDir(h.Paths.State("audit")); err != nil || len(files) != 3 {
		t.Errorf("%d audit entries wait for the database, %v", len(files), err)
	}
}

// Concurrent callers who install, verify, remove and read always get a complete license, and the files match.
func TestAtOnce(t *testing.T) {
	h := newHouse(t)
	subjects := []string{"First", "Second", "Third"}
	var texts []string
	for _, s := range subjects {
		texts = append(texts, sign(t, license(func(l *document.License) { l.Subject, l.Plan = s, s }), h.private))
	}
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			switch i % 5 {
			case 0, 1:
				h.put(t, texts[i%3]).Want(t, 200)
			case 2:
				h.Do(t, "admin", http.MethodPost, "/license/verify", nil).Want(t, 200)
			case 3:
				if a := h.Do(t, "admin", http.MethodDelete, "/license/key", nil); a.Status != 200 && a.Status != 404 {
					t.Errorf("%s", a.Body)
				}
			default:
				r := h.read(t)
				if r.Subject != r.Plan || r.Status != Active && r.Status != Trial || (r.Status == Active) != slices.Contains(subjects, r.Subject) {
					t.Errorf("%+v", r)
				}
			}
		})
	}
	all.Wait()
	h.put(t, texts[1]).Want(t, 200)
	h.clock.Move(time.Hour)
	h.restart(t)
	if r := h.want(t, Active, ""); r.Subject != "Second" || !r.CheckedAt.Equal(start) {
		t.Errorf("%+v", r)
	}
}

// A failing disk leaves what there was, and no audit entry that says otherwise.
func TestFailedWriteChangesNothing(t *testing.T) {
	h := newHouse(t)
	h.put(t, sign(t, license(nil), h.private)).Want(t, 200)
	second := sign(t, license(func(l *document.License) { l.Subject = "Second" }), h.private)
	for _, name := range []string{"license-cache.json", "license.key"} {
		kept := h.content(t, name)
		if err := os.Remove(h.Paths.State(name)); err != nil {
			t.Fatal(err)
		}
		// A file cannot be renamed onto a folder.
		if err := os.Mkdir(h.Paths.State(name), 0o700); err != nil {
			t.Fatal(err)
		}
		h.put(t, second).Want(t, 500)
		if err := os.Remove(h.Paths.State(name)); err != nil {
			t.Fatal(err)
		}
		h.write(t, name, kept)
		if r := h.want(t, Active, ""); r.Subject != "Example Ltd" {
			t.Errorf("%s: %+v", name, r)
		}
		h.restart(t)
		h.want(t, Active, "")
	}
	if n := h.Audited(t, "license.set"); n != 1 {
		t.Errorf("%d entries", n)
	}
}

// The key is never exposed: it is not in an answer, a log or the audit log.
func TestKeyIsNotTold(t *testing.T) {
	h := newHouse(t)
	text := sign(t, license(nil), h.private)
	var output strings.Builder
	output.Write(h.put(t, text).Body)
	output.Write(h.put(t, text+"x").Body)
	output.Write(h.Get(t, "/license").Body)
	output.Write(h.Do(t, "admin", http.MethodPost, "/license/verify", nil).Body)
	output.Write(h.Do(t, "admin", http.MethodDelete, "/license/key", nil).Body)
	output.WriteString(h.Logs.String())
	entries, err := h.Audit.Search(t.Context(), audit.Filter{Limit: 100})
	if err != nil || len(entries) != 3 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		output.WriteString(e.Subject + string(e.Details))
	}
	for _, line := range strings.Split(text, "\n")[1:4] {
		if strings.Contains(output.String(), line) {
			t.Errorf("the key is exposed: %s", output.String())
		}
	}
}

// Other programs get the same standing, and reading it changes nothing.
func TestStandingForOtherPrograms(t *testing.T) {
	h := newHouse(t)
	other := NewStore(h.Paths, h.public(), h.clock)
	if at := other.View(); at.Status != Trial {
		t.Errorf("%+v", at)
	}
	h.put(t, sign(t, license(nil), h.private)).Want(t, 200)
	if at := other.View(); at.Status != Active || at.License.Subject != "Example Ltd" {
		t.Errorf("%+v", at)
	}
	h.write(t, "license.key", "x")
	cache := h.content(t, "license-cache.json")
	if at := other.View(); at.Status != Invalid || at.Reason == "" || h.content(t, "license-cache.json") != cache {
		t.Errorf("%+v", at)
	}
}
