package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/kittest"
)

var site = uuid.MustParse("01980000-0000-7000-8000-000000000001")

type world struct {
	*kittest.Bench
	room *Room
}

func newWorld(t *testing.T) world {
	t.Helper()
	b := kittest.New(t)
	r := New(b.Kit, Deps{Domains: func(context.Context, db.Querier) (map[uuid.UUID]string, error) {
		return map[uuid.UUID]string{site: "www.example.net"}, nil
	}})
	r.Mount()
	b.Start(t)
	return world{b, r}
}

// begin is the time of the first entry; one follows every second.
var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (w world) say(second int, unit, text string) {
	w.Machine.AddLine(host.JournalLine{At: begin.Add(time.Duration(second) * time.Second), Of: [3]string{unit}, Priority: 6, Plain: true, Text: []byte(text)})
}

// did adds an entry to the audit log.
func (w world) did(t *testing.T, second int, action, subject string) {
	t.Helper()
	err := w.DB.Write(t.Context(), func(tx *db.Tx) error {
		return w.Audit.WriteAt(t.Context(), tx, begin.Add(time.Duration(second)*time.Second), "ann@example.net", action, subject, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (w world) page(t *testing.T, query string) Page {
	t.Helper()
	a := w.Get(t, "/logs?"+query)
	if a.Status != http.StatusOK {
		t.Fatalf("%s: %d %s", query, a.Status, a.Body)
	}
	var p Page
	a.Into(t, &p)
	return p
}

func texts(p Page) (list []string) {
	for _, e := range p.Entries {
		list = append(list, e.Text)
	}
	return list
}

// Sources that may hold secrets are only for admins: viewers neither find nor follow them, and are refused if they name one.
func TestViewersReadWhatHoldsNoSecrets(t *testing.T) {
	w := newWorld(t)
	var list []Source
	w.Do(t, "viewer", http.MethodGet, "/logs/sources", nil).Want(t, 200).Into(t, &list)
	for _, name := range []string{"api", "scheduler", "helper", "waf", "radius"} {
		if slices.ContainsFunc(list, func(s Source) bool { return s.Name == name }) {
			t.Errorf("viewers are offered %s", name)
		}
		w.Do(t, "viewer", http.MethodGet, "/logs?sources=dns,"+name, nil).Want(t, 403)
	}
	for i, unit := range []string{"gateway-api.service", "gateway-scheduler.service", "gateway-helper.service", "gateway-waf.service", "freeradius.service", "unbound.service"} {
		w.say(i, unit, "the secret is hunter2")
	}
	var page Page
	w.Do(t, "viewer", http.MethodGet, "/logs", nil).Want(t, 200).Into(t, &page)
	for _, e := range page.Entries {
		if e.Source != "dns" && e.Source != "audit" {
			t.Errorf("a viewer reads %+v", e)
		}
	}
	if !slices.ContainsFunc(page.Entries, func(e Entry) bool { return e.Source == "dns" }) {
		t.Errorf("a viewer does not read what the resolver said: %+v", page.Entries)
	}
}

func TestSources(t *testing.T) {
	w := newWorld(t)
	var list []Source
	a := w.Do(t, "admin", http.MethodGet, "/logs/sources", nil)
	a.Into(t, &list)
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
		if s.Title == "" || s.Description == "" {
			t.Errorf("%+v", s)
		}
	}
	want := []string{"api", "scheduler", "helper", "waf", "reverse-proxy", "reverse-proxy-access", "forward-proxy", "forward-proxy-access",
		"dns", "ntp", "dhcp", "radius", "tunnels", "ids", "vrrp", "journal", "audit"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

// The log of each service in the package is in one of the sources.
func TestEveryServiceOfThePackageIsRead(t *testing.T) {
	files, err := filepath.Glob("../../packaging/deb/systemd/*.service")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		service := filepath.Base(file)
		template, _, is := strings.Cut(service, "@")
		if !slices.ContainsFunc(sources, func(s Source) bool {
			return slices.ContainsFunc(s.logs, func(v host.LogSource) bool {
				spec, err := v.Spec()
				return err == nil && (slices.Contains(spec.Services, service) || is && spec.Slice == "system-"+strings.ReplaceAll(template, "-", `\x2d`)+".slice")
			})
		}) {
			t.Errorf("%s is in no source", service)
		}
	}
}

// The journal, files and the audit log are one list.
func TestEntriesAreMergedByTime(t *testing.T) {
	w := newWorld(t)
	w.say(1, "unbound.service", "one")
	w.did(t, 2, "ntp.pool.create", "two")
	w.say(4, "haproxy.service", "[WARNING] (1) : four")
	w.Machine.SetLog(squid.AccessLog, fmt.Sprintf("%d.500     12 192.0.2.7 TCP_MISS/200 1234 GET http://example.net/a?token=x - HIER_DIRECT/192.0.2.1 text/html\n", begin.Unix()+2))
	w.Machine.SetLog(freeradius.Logins, fmt.Sprintf("%d|office|Access-Reject|unknown|%x|\n", begin.Unix()+3, "bob"))
	p := w.page(t, "")
	want := []string{
		"[WARNING] (1) : four", "Access-Reject for bob, asked by office",
		"12 192.0.2.7 TCP_MISS/200 1234 GET http://example.net/a?… - HIER_DIRECT/192.0.2.1 text/html",
		"ann@example.net ntp.pool.create two", "one",
	}
	if diff := cmp.Diff(want, texts(p)); diff != "" || p.Cursor != "" || p.Partial || len(p.Errors) != 0 {
		t.Errorf("%s %+v", diff, p)
	}
	for i, source := range []string{"reverse-proxy", "radius", "forward-proxy-access", "audit", "dns"} {
		if p.Entries[i].Source != source {
			t.Errorf("%d: %s", i, p.Entries[i].Source)
		}
	}
	for query, want := range map[string][]string{
		"sources=dns,audit":                      {"ann@example.net ntp.pool.create two", "one"},
		"level=warn":                             {"[WARNING] (1) : four", "Access-Reject for bob, asked by office"},
		"text=FOUR":                              {"[WARNING] (1) : four"},
		"text=" + url.QueryEscape("pool.create"): {"ann@example.net ntp.pool.create two"},
		"text=" + url.QueryEscape("p..l"):        nil,
		"text=token":                             nil,
		"since=2026-03-01T12:00:04Z":             {"[WARNING] (1) : four"},
		"until=2026-03-01T12:00:01Z":             {"one"},
		"since=2026-03-01T12:00:02Z&until=2026-03-01T12:00:02.2Z&sources=audit": {"ann@example.net ntp.pool.create two"},
	} {
		if diff := cmp.Diff(want, texts(w.page(t, query))); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
}

// Every entry comes once, wherever the pages are cut.
func TestPagesHaveEverythingOnce(t *testing.T) {
	w := newWorld(t)
	var want []string
	var lines strings.Builder
	for i := range 60 {
		text := fmt.Sprintf("entry %02d", i)
		switch i % 3 {
		case 0:
			w.say(i, "unbound.service", text)
		case 1:
			w.did(t, i, "x", text)
			text = "ann@example.net x " + text
		case 2:
			fmt.Fprintf(&lines, "%d.000 %s\n", begin.Unix()+int64(i), text)
		}
		want = append(want, text)
	}
	w.Machine.SetLog(squid.AccessLog, lines.String())
	slices.Reverse(want)
	for _, limit := range []int{1, 7, 20, 60, 100} {
		var got []string
		for cursor, pages := "", 0; ; pages++ {
			p := w.page(t, fmt.Sprintf("limit=%d&cursor=%s", limit, cursor))
			got = append(got, texts(p)...)
			if cursor = p.Cursor; cursor == "" {
				break
			}
			if len(p.Entries) != limit && pages < 60/limit || p.Partial || pages > 61 {
				t.Fatalf("limit %d: page %d has %d entries: %+v", limit, pages, len(p.Entries), p)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
}

// A slow search returns what it has, says so, and can be continued. Nothing is returned out of order.
func TestASearchThatTakesTooLongGoesOn(t *testing.T) {
	w := newWorld(t)
	w.room.within = 300 * time.Millisecond
	for i := range 40 {
		text := "dull"
		if i%10 == 5 {
			text = fmt.Sprintf("found %d", i)
		}
		w.say(i, "unbound.service", text)
	}
	w.did(t, 2, "found", "early")
	w.Machine.SlowJournal(8)
	var got []string
	partial := 0
	last := begin.Add(time.Hour)
	for cursor, pages := "", 0; ; pages++ {
		p := w.page(t, "text=found&cursor="+cursor)
		got = append(got, texts(p)...)
		if p.Partial {
			partial++
			if p.SearchedTo == nil || !p.SearchedTo.Before(last) {
				t.Errorf("searched to %v after %v", p.SearchedTo, last)
			} else {
				last = *p.SearchedTo
			}
		}
		if cursor = p.Cursor; cursor == "" {
			break
		}
		if pages > 20 {
			t.Fatal("it does not get on")
		}
	}
	if diff := cmp.Diff([]string{"found 35", "found 25", "found 15", "found 5", "ann@example.net found early"}, got); diff != "" || partial < 3 {
		t.Errorf("%d partial pages: %s", partial, diff)
	}
}

func TestLG03LimitIsAtMostAThousand(t *testing.T) {
	w := newWorld(t)
	for i := range 1100 {
		w.say(i, "unbound.service", "x")
	}
	for _, limit := range []string{"1001", "0", "-1", "x", "99999999999999999999"} {
		a := w.Get(t, "/logs?limit="+limit)
		if a.Status != http.StatusBadRequest || a.Error.Fields["limit"] == "" {
			t.Errorf("limit %s: %d %s", limit, a.Status, a.Body)
		}
	}
	if p := w.page(t, "limit=1000"); len(p.Entries) != 1000 || p.Cursor == "" {
		t.Errorf("%d entries", len(p.Entries))
	}
	if p := w.page(t, ""); len(p.Entries) != pageLimit {
		t.Errorf("%d entries", len(p.Entries))
	}
}

func TestBadFilters(t *testing.T) {
	w := newWorld(t)
	w.say(1, "unbound.service", "x")
	w.say(2, "unbound.service", "y")
	cursor := w.page(t, "limit=1&text=").Cursor
	for query, field := range map[string]string{
		"sources=ssh":                      "sources",
		"sources=dns,":                     "sources",
		"level=loud":                       "level",
		"text=a%0ab":                       "text",
		"text=" + strings.Repeat("x", 300): "text",
		"since=yesterday":                  "since",
		"since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z": "until",
		"sources=dns&domain=" + site.String():                   "domain",
		"domain=www":                                            "domain",
		"cursor=x":                                              "cursor",
		"cursor=" + cursor + "&text=y":                          "cursor",
	} {
		a := w.Get(t, "/logs?"+query)
		if a.Status != http.StatusBadRequest || a.Error.Fields[field] == "" {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
}

// Sources that cannot be read are named, and the rest is returned.
func TestWhatCannotBeReadIsNamed(t *testing.T) {
	w := newWorld(t)
	w.did(t, 1, "x", "y")
	w.Machine.FailJournal(errors.New("the disk is gone"))
	p := w.page(t, "")
	if diff := cmp.Diff([]Failure{{"journal", "This source could not be asked. It said: the disk is gone"}}, p.Errors); diff != "" || len(p.Entries) != 1 {
		t.Errorf("%s, %d entries", diff, len(p.Entries))
	}
}

// The logs are available when they are needed most.
func TestWithoutTheDatabase(t *testing.T) {
	d, err := db.Open(dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	b := kittest.NewOn(t, d)
	r := New(b.Kit, Deps{Domains: func(ctx context.Context, q db.Querier) (map[uuid.UUID]string, error) { return nil, errors.New("away") }})
	r.Mount()
	b.Start(t)
	world{b, r}.say(1, "unbound.service", "still here")
	p := world{b, r}.page(t, "")
	if len(p.Entries) != 1 || len(p.Errors) != 1 || p.Errors[0].Source != "audit" {
		t.Errorf("%+v", p)
	}
}

// Hostile content is plain text, and what a terminal or a browser would obey is removed.
func TestLG06HostileContentIsText(t *testing.T) {
	w := newWorld(t)
	hostile := "<img src=x onerror=alert(1)>\x1b[2J\x00\u202e" + string([]byte{0xff})
	w.say(1, "unbound.service", hostile)
	w.did(t, 2, "dns.record.create", "<img src=x onerror=alert(1)>")
	a := w.Get(t, "/logs")
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") || a.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v", a.Header)
	}
	var p Page
	a.Into(t, &p)
	want := []string{"ann@example.net dns.record.create <img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>\ufffd[2J\ufffd\ufffd\ufffd"}
	if diff := cmp.Diff(want, texts(p)); diff != "" {
		t.Error(diff)
	}
}

func TestRequestsOfADomain(t *testing.T) {
	w := newWorld(t)
	line := func(id, path string, status int) string {
		return fmt.Sprintf(`192.0.2.7:4711 [01/Mar/2026:12:00:01.000] gateway_https~ web/one 0/0/1/2/3 %d 512 - - ---- 1/1/0/0/0 0/0 "GET %s HTTP/1.1" - %s - -`, status, path, id)
	}
	w.say(1, "haproxy.service", line(site.String(), "/a?session=secret", 200))
	w.say(2, "haproxy.service", line(uuid.NewString(), "/b", 503))
	w.say(3, "haproxy.service", "[NOTICE] (1) : New worker")
	p := w.page(t, "domain="+site.String())
	if len(p.Entries) != 1 || strings.Contains(p.Entries[0].Text, "secret") {
		t.Fatalf("%+v", p)
	}
	want := map[string]string{
		"client": "192.0.2.7", "frontend": "gateway_https", "backend": "web", "server": "one", "duration_ms": "3", "status": "200", "bytes": "512",
		"method": "GET", "path": "/a?…", "version": "HTTP/1.1", "domain_id": site.String(), "domain": "www.example.net",
	}
	if diff := cmp.Diff(want, p.Entries[0].Fields); diff != "" {
		t.Error(diff)
	}
	if p := w.page(t, "sources=reverse-proxy-access&level=error"); len(p.Entries) != 1 || p.Entries[0].Fields["path"] != "/b" {
		t.Errorf("%+v", p)
	}
	if p := w.page(t, "sources=reverse-proxy"); len(p.Entries) != 1 || p.Entries[0].Text != "[NOTICE] (1) : New worker" {
		t.Errorf("%+v", p)
	}
}

// Texts of megabytes do not make pages of megabytes.
func TestPagesAreBounded(t *testing.T) {
	w := newWorld(t)
	for i := range 900 {
		w.Machine.AddLine(host.JournalLine{At: begin.Add(time.Duration(i) * time.Second), Of: [3]string{"unbound.service"}, Text: []byte(strings.Repeat("x", host.LongestText)), Cut: true})
	}
	p := w.page(t, "limit=1000")
	if n := len(p.Entries); n == 0 || n*host.LongestText > pageBytes+host.LongestText || p.Cursor == "" || p.Partial {
		t.Errorf("%d entries, partial %t", n, p.Partial)
	}
	if rest := w.page(t, "limit=1000&cursor="+p.Cursor); len(rest.Entries)+len(p.Entries) != 900 && rest.Cursor == "" {
		t.Errorf("%d and %d entries", len(p.Entries), len(rest.Entries))
	}
}

// A stream begins with the newest entries and continues with new ones, each once.
func TestLive(t *testing.T) {
	w := newWorld(t)
	now := time.Now().UTC()
	speak := func(text string) {
		w.Machine.AddLine(host.JournalLine{At: time.Now().UTC(), Of: [3]string{"unbound.service"}, Priority: 6, Text: []byte(text)})
	}
	w.Machine.AddLine(host.JournalLine{At: now.Add(-time.Hour), Of: [3]string{"unbound.service"}, Text: []byte("long ago")})
	speak("just now")
	got := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	f, err := LiveInput{Sources: "dns,audit,radius"}.filter()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		ended <- w.room.follow(ctx, f, actor.Actor{Role: actor.Admin}, func(e Entry) error { got <- e.Text; return nil })
	}()
	next := func(want string) {
		t.Helper()
		select {
		case text := <-got:
			if text != want {
				t.Fatalf("%q instead of %q", text, want)
			}
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Minute):
			t.Fatalf("no %q", want)
		}
	}
	next("long ago")
	next("just now")
	speak("live")
	next("live")
	if err := w.Audit.Record(actor.With(t.Context(), actor.Actor{Name: "ann@example.net"}), "x", "audited", nil); err != nil {
		t.Fatal(err)
	}
	next("ann@example.net x audited")
	w.Machine.SetLog(freeradius.Logins, fmt.Sprintf("%d|office|Access-Accept||%x|\n", time.Now().Unix()+1, "bob"))
	next("Access-Accept for bob, asked by office")
	cancel()
	<-ended
	if len(got) != 0 {
		t.Errorf("%d more", len(got))
	}
}

// The number of streams is limited; searches wait for a turn. One user cannot lock out the others.
func TestBusy(t *testing.T) {
	w := newWorld(t)
	w.room.within = 200 * time.Millisecond
	follow := func(user uuid.UUID) error {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		return w.room.follow(ended, filter{}, actor.Actor{UserID: user}, func(Entry) error { return nil })
	}
	for _, x := range []struct {
		turns     *turns
		all, each int
		busy      func(user uuid.UUID) bool
	}{
		{w.room.searching, searches, searchesEach, func(user uuid.UUID) bool {
			_, err := w.room.search(t.Context(), filter{}, actor.Actor{UserID: user})
			return errors.Is(err, tooBusy)
		}},
		{w.room.following, follows, followsEach, func(user uuid.UUID) bool { return errors.Is(follow(user), followedEnough) }},
	} {
		var leave []func()
		enter := func(user uuid.UUID) bool {
			left, ok := x.turns.try(user)
			if ok {
				leave = append(leave, left)
			}
			return ok
		}
		greedy := uuid.New()
		for enter(greedy) {
		}
		if len(leave) != x.each || x.each >= x.all || !x.busy(greedy) || x.busy(uuid.New()) {
			t.Errorf("one user has %d places of %d", len(leave), x.all)
		}
		for enter(uuid.New()) {
		}
		if len(leave) != x.all || !x.busy(uuid.New()) {
			t.Errorf("there are %d places", len(leave))
		}
		for _, left := range leave {
			left()
		}
		if len(x.turns.own) != 0 || x.busy(greedy) {
			t.Errorf("places are lost: %v", x.turns.own)
		}
	}
	for range searches {
		if _, ok := w.room.searching.try(uuid.New()); !ok {
			t.Fatal("there is no place")
		}
	}
	if a := w.Get(t, "/logs"); a.Status != http.StatusServiceUnavailable || a.Error.Code != "unavailable" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// The logs contain nothing that viewers may not see, because they omit the details of audit entries.
func TestAuditDetailsAreNotInLogs(t *testing.T) {
	e, _ := done(audit.Entry{Actor: "a", Action: "b", Subject: "c", Details: []byte(`{"x":"hidden"}`)})
	b, err := json.Marshal(e)
	if err != nil || strings.Contains(string(b), "hidden") {
		t.Errorf("%s, %v", b, err)
	}
}
