package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/spoe"
	"edge.internal/gateway/internal/waf/spoe/spoetest"
)

// recording runs a recorder until the test, or the returned function, ends it.
func recording(t *testing.T, d *db.DB, c clock.Clock, log *slog.Logger) (r *Recorder, file string, stop func()) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "alerts.json")
	r = NewRecorder(d, c, NewLines(file, log), log)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return r, file, stop
}

// joined returns the agent's connection to a world's database, once it is available.
func (w *world) joined() *db.DB {
	w.t.Helper()
	d := w.open()
	if err := d.Join(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return d
}

// count returns the number that a query yields. A stopped database is considered away for a moment longer.
func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	waittest.Until(w.t, "the database", func() bool {
		err := w.owner.QueryRow(w.t.Context(), sql, args...).Scan(&n)
		if err != nil && !fault.Is(err, fault.Unavailable) {
			w.t.Fatal(err)
		}
		return err == nil
	})
	return n
}

func suspicious(id, domain string) *engine.Request {
	return &engine.Request{
		ID: id, Domain: domain, Source: netip.MustParseAddrPort("198.51.100.7:40000"), Method: "POST", URI: "/login?token=abc&id=1", Version: "HTTP/1.1", Complete: true,
		Header: []engine.Field{{Name: "host", Value: "www.example.com"}, {Name: "cookie", Value: "sid=abc"}, {Name: "content-type", Value: "application/json"}},
		Body:   []byte(`{"password":"hunter2","q":"1' or '1'='1"}`),
	}
}

func matched(rules ...int) []engine.Match {
	var all []engine.Match
	for _, rule := range rules {
		all = append(all, engine.Match{
			Rule: rule, Message: "SQL injection", Severity: "critical", Paranoia: 1, Tags: []string{"attack-sqli"}, Deciding: rule == rules[0],
			Data: []engine.Datum{{Variable: "ARGS", Key: "q", Value: "1' or '1'='1"}},
		})
	}
	return all
}

func TestRecords(t *testing.T) {
	w, shop := newWorld(t), id()
	d := w.joined()
	heard, listening := make(chan string, 16), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.owner.Listen(ctx, "waf_alerts", func() { close(listening) }, func(payload string) error { heard <- payload; return nil })
	}()
	defer func() { cancel(); <-ended }()
	<-listening

	now := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
	r, file, stop := recording(t, d, now, slog.New(slog.DiscardHandler))
	r.Record(suspicious("req-1", shop), &engine.Verdict{Deny: true, Rule: 949110, Score: 10, Partial: true, Matches: matched(942100, 941100)})
	payload := <-heard
	r.Record(suspicious("req-2", shop), &engine.Verdict{Rule: 949110, Score: 5, Matches: matched(942100)})
	<-heard
	stop()

	if n := strings.Count(payload, ","); n != 1 || w.count("SELECT count(*) FROM waf_alerts WHERE id::text = ANY(string_to_array($1, ','))", payload) != 2 {
		t.Errorf("announced %q", payload)
	}
	var row string
	if err := w.owner.QueryRow(t.Context(), `SELECT concat_ws('|', to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), request_id, domain_id, domain, rule_id, severity, action, message, method, uri,
		client_ip, score, paranoia, tags, data, partial, deciding) FROM waf_alerts WHERE request_id = 'req-1' AND deciding`).Scan(&row); err != nil {
		t.Fatal(err)
	}
	want := "2026-01-02 03:04:05.000006|req-1|" + shop + `|www.example.com|942100|critical|blocked|SQL injection|POST|/login?token=[masked]&id=1|198.51.100.7|10|1|{attack-sqli}|` +
		`[{"key": "q", "value": "1' or '1'='1", "masked": false, "variable": "ARGS"}]|t|t`
	if row != want {
		t.Errorf("%s\nnot\n%s", row, want)
	}
	if n := w.count("SELECT count(*) FROM waf_alerts WHERE request_id = 'req-2' AND action = 'detected' AND NOT partial"); n != 1 {
		t.Errorf("%d records of what was detected", n)
	}
	if err := w.owner.QueryRow(t.Context(), `SELECT concat_ws('|', request_id, domain_id, method, uri, version, headers, convert_from(body, 'UTF8'), body_truncated, masked) FROM waf_requests WHERE request_id = 'req-1'`).Scan(&row); err != nil {
		t.Fatal(err)
	}
	want = "req-1|" + shop + `|POST|/login?token=[masked]&id=1|HTTP/1.1|[{"name": "host", "value": "www.example.com"}, {"name": "cookie", "value": "sid=[masked]"}, {"name": "content-type", "value": "application/json"}]|` +
		`{"password":"[masked]","q":"1' or '1'='1"}|f|t`
	if row != want {
		t.Errorf("%s\nnot\n%s", row, want)
	}
	// Programs that ban clients read what was blocked, once per request.
	content, err := os.ReadFile(file)
	if want := `{"time":"2026-01-02T03:04:05.000006Z","client":"198.51.100.7","action":"blocked","id":"req-1","domain":"www.example.com","rule":949110}` + "\n"; err != nil || string(content) != want {
		t.Errorf("%s, %v", content, err)
	}
	if r.Dropped() != 0 {
		t.Errorf("%d dropped", r.Dropped())
	}
}

// Whatever a client sends, it can be written.
func TestHostileRequestsAreRecorded(t *testing.T) {
	w, shop := newWorld(t), id()
	r, _, stop := recording(t, w.joined(), clock.Real, slog.New(slog.DiscardHandler))
	garbage := "\x00\xff\xfe\u202e\\u0000\xed\xa0\xbd \"'"
	request := suspicious("req"+garbage, shop)
	request.Method, request.URI, request.Version = garbage, "/"+garbage+"?"+garbage, garbage
	request.Header = []engine.Field{{Name: "host", Value: garbage}, {Name: garbage, Value: garbage}, {Name: "content-type", Value: garbage}}
	request.Body, request.Source = []byte(garbage), netip.AddrPortFrom(netip.MustParseAddr("2001:db8::1"), 1)
	r.Record(request, &engine.Verdict{Deny: true, Rule: 1, Matches: []engine.Match{{Rule: 1}}})
	many := suspicious("many", "not a domain's id")
	r.Record(many, &engine.Verdict{Deny: true, Rule: 1, Matches: slices.Repeat(matched(942100), 100)})
	stop()
	if n := w.count("SELECT count(*) FROM waf_alerts"); n != 101 || r.Dropped() != 0 {
		t.Errorf("%d records, %d dropped", n, r.Dropped())
	}
	if n := w.count("SELECT count(*) FROM waf_requests"); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// While the database is away, what fits is kept, and nothing waits for it.
func TestRecordsWaitForTheDatabase(t *testing.T) {
	w, shop, logged := newWorld(t), id(), &notes{}
	d := w.joined()
	thaw := dbtest.Freeze(t, w.server)
	r, _, stop := recording(t, d, clock.Real, logged.log())
	for i := range maxRecords/2 + 10 {
		r.Record(suspicious(fmt.Sprint("req-", i), shop), &engine.Verdict{Rule: 949110, Matches: matched(942100, 941100)})
	}
	if r.Dropped() != 20 {
		t.Errorf("%d dropped", r.Dropped())
	}
	waittest.Until(t, "a word about it", func() bool { return strings.Contains(logged.String(), "cannot be written") })
	thaw()
	waittest.Until(t, "all records", func() bool { return w.count("SELECT count(*) FROM waf_alerts") == maxRecords })
	waittest.Until(t, "an empty buffer", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.records == 0 && r.waiting == 0 && len(r.queue) == 0
	})
	if n := w.count("SELECT count(DISTINCT (request_id, rule_id)) FROM waf_alerts"); n != maxRecords || r.Dropped() != 20 {
		t.Errorf("%d of them are different, %d dropped", n, r.Dropped())
	}
	// Twenty for each of the two rules, so that a scan does not fill the table. More if a minute ended in the meantime.
	if n := w.count("SELECT count(*) FROM waf_requests"); n < 2*keptPerMinute || n > 4*keptPerMinute {
		t.Errorf("%d requests are kept", n)
	}
	stop()
}

// A record that the database does not accept is given up eventually, and nothing else with it.
func TestARecordThatCannotBeWritten(t *testing.T) {
	w, shop, logged := newWorld(t), id(), &notes{}
	dbtest.Exec(t, w.owner, `ALTER TABLE waf_alerts ADD CONSTRAINT no_bad CHECK (request_id <> 'bad')`)
	r, _, stop := recording(t, w.joined(), clock.Real, logged.log())
	for _, name := range []string{"good-1", "bad", "good-2"} {
		r.Record(suspicious(name, shop), &engine.Verdict{Rule: 949110, Matches: matched(942100)})
	}
	waittest.Until(t, "the good ones", func() bool { return w.count("SELECT count(*) FROM waf_alerts") == 2 })
	waittest.Until(t, "the end of the bad one", func() bool { return r.Dropped() == 1 })
	r.Record(suspicious("good-3", shop), &engine.Verdict{Rule: 949110, Matches: matched(942100)})
	waittest.Until(t, "the next one", func() bool { return w.count("SELECT count(*) FROM waf_alerts") == 3 })
	stop()
	if !strings.Contains(logged.String(), "are dropped") {
		t.Errorf("logged: %s", logged)
	}
}

// Waiting records hold little of their requests, and all of that is counted.
func TestWaitingRecordsHoldLittle(t *testing.T) {
	r := NewRecorder(nil, clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), NewLines("", nil), nil)
	const many, large = 512, 64 << 10
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range many {
		block := "www.example.net" + strings.Repeat("x", large)
		r.Record(&engine.Request{
			ID: "1", Domain: "a", Method: "GET", URI: "/" + strings.Repeat("y", large), Body: make([]byte, large),
			Header: []engine.Field{{Name: "host", Value: block[:15]}, {Name: "x", Value: block[15:]}},
		}, &engine.Verdict{Matches: matched(942100)})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	waiting, kept := 0, 0
	for _, e := range r.queue {
		if waiting += len(e.request.URI); e.kept {
			kept++
		}
	}
	if len(r.queue) != many || kept == 0 || kept > keptPerMinute || r.waiting < waiting || r.waiting > maxWaiting {
		t.Errorf("%d of %d wait, %d are kept, %d bytes are counted of %d", len(r.queue), many, kept, r.waiting, waiting)
	}
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > many*large/2 {
		t.Errorf("%d bytes are held", held)
	}
	runtime.KeepAlive(r)
}

func TestKeptRequestsAreFewPerRule(t *testing.T) {
	now := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	r := NewRecorder(nil, now, NewLines("", nil), nil)
	keeps := func(domain string, rules ...int) (kept int) {
		for range 100 {
			if r.wanted(now.Now(), domain, matched(rules...)) {
				kept++
			}
		}
		return kept
	}
	if n := keeps("a", 920350); n != 20 {
		t.Errorf("%d", n)
	}
	if n := keeps("b", 920350); n != 20 {
		t.Errorf("another domain: %d", n)
	}
	// What comes with each request does not displace what is rare.
	if n := keeps("a", 920350, 942100); n != 20 {
		t.Errorf("another rule: %d", n)
	}
	if n := keeps("a", 920350, 942100); n != 0 {
		t.Errorf("the same once more: %d", n)
	}
	now.Move(time.Minute)
	if n := keeps("a", 920350); n != 20 {
		t.Errorf("the next minute: %d", n)
	}
}

func TestLinesAreRotated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "alerts.json")
	l := NewLines(file, slog.New(slog.DiscardHandler))
	l.limit = 1000
	one := Line{Time: time.Now(), Client: netip.MustParseAddr("2001:db8::1"), Action: Blocked, Domain: "a\"\n\x00", Rule: 1}
	for i := range 100 {
		one.ID = fmt.Sprint(i)
		l.write(one)
	}
	if entries, _ := os.ReadDir(filepath.Dir(file)); len(entries) != 2 || l.dropped.Load() != 0 {
		t.Errorf("%v, %d dropped", entries, l.dropped.Load())
	}
	var ids []string
	for _, name := range []string{file + ".1", file} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if info, _ := f.Stat(); info.Size() > 1000 || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %d bytes, %v", name, info.Size(), info.Mode())
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var got Line
			if err := json.Unmarshal(lines.Bytes(), &got); err != nil || got.Domain != one.Domain {
				t.Errorf("%s: %v", lines.Text(), err)
			}
			ids = append(ids, got.ID)
		}
		f.Close()
	}
	if n := len(ids); n < 2 || ids[n-1] != "99" || !slices.IsSortedFunc(ids, func(a, b string) int { return len(a) - len(b) }) {
		t.Errorf("lines %v", ids)
	}
	// After a restart the program continues where the last one ended.
	l = NewLines(file, slog.New(slog.DiscardHandler))
	l.limit = 1 << 20
	l.write(one)
	if content, err := os.ReadFile(file); err != nil || strings.Count(string(content), "\n") < 2 {
		t.Errorf("%q, %v", content, err)
	}
	// Without a folder, lines are counted as lost, and nothing else happens.
	l = NewLines(filepath.Join(t.TempDir(), "none", "alerts.json"), slog.New(slog.DiscardHandler))
	l.write(one)
	if l.dropped.Load() != 1 {
		t.Errorf("%d dropped", l.dropped.Load())
	}
}

// Through the protocol: findings are handed over with their requests, and the rest is counted.
func TestTheAgentHandsOverWhatItFound(t *testing.T) {
	type handed struct {
		r engine.Request
		v engine.Verdict
	}
	got := make(chan handed, 10)
	a := New(engines(t), func(name []byte) *Domain { return domains[string(name)] })
	a.Record = func(r *engine.Request, v *engine.Verdict) { got <- handed{clone(r), *v} }
	a.within = patience
	address := serve(t, &spoe.Server{Handler: a.Handle, Log: slog.New(slog.DiscardHandler)})
	c := spoetest.Dial(t, address)
	header := spoetest.Arg{Name: "hdrs", Value: spoetest.Block("host", "shop.example.net", "user-agent", "Mozilla/5.0", "accept", "*/*")}
	for range 2 {
		ask(t, c, notification(header, spoetest.Arg{Name: "url", Value: "/clean"}))
	}
	ask(t, c, notification(header, spoetest.Arg{Name: "domain", Value: "nowhere"}))
	set := ask(t, c, notification(header, spoetest.Arg{Name: "url", Value: "/?id=1%27+or+%271%27%3D%271"}))
	if set["verdict"] != Deny {
		t.Fatalf("%v", set)
	}
	one := <-got
	if one.r.ID != "4711" || one.r.Domain != "shop" || !one.v.Deny || one.v.Rule != 949110 || len(one.v.Matches) == 0 || !one.v.Matches[0].Deciding || len(got) != 0 {
		t.Errorf("%+v", one)
	}
	inspected, denied, failed := a.Counts()
	if inspected != 3 || denied != 1 || failed[UnknownDomain] != 1 || failed[Panicked] != 0 {
		t.Errorf("%d, %d, %v", inspected, denied, failed)
	}
}
