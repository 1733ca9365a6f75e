package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/outbound"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/kit/watch/watchtest"
)

type house struct {
	*kittest.Bench
	room *Room
}

// Some kinds, as rooms declare them.
var (
	backendDown = &alarm.Kind{Name: "backend.down", Severity: alarm.Error, Meaning: "No server of a backend answers.", Mutable: true}
	diskFull    = &alarm.Kind{Name: "system.disk", Severity: alarm.Warning, Meaning: "The disk is nearly full.", Mutable: true}
	memoryFull  = &alarm.Kind{Name: "system.memory", Severity: alarm.Warning, Meaning: "The memory is nearly full.", Mutable: true}
)

func newHouse(t testing.TB) *house {
	t.Helper()
	return newHouseOn(t, kittest.New(t))
}

func newHouseOn(t testing.TB, b *kittest.Bench) *house {
	t.Helper()
	h := &house{Bench: b, room: New(b.Kit, Deps{FQDN: func() string { return "gateway.example.net" }, Kinds: append(Alarms, backendDown, diskFull, memoryFull)})}
	h.room.Mount()
	b.Resources.MountChangeSets()
	b.Start(t)
	return h
}

// audited is all that the audit log says.
func (h *house) audited(t testing.TB) (text string) {
	t.Helper()
	if err := h.DB.QueryRow(t.Context(), `SELECT coalesce(string_agg(subject || ' ' || details::text, E'\n'), '') FROM audit_entries`).Scan(&text); err != nil || text == "" {
		t.Fatal("no audit entries", err)
	}
	return text
}

// hurried has everything done fast, but for how long a receiver may take.
func (h *house) hurried() {
	h.room.timing = timing{within: 2 * time.Second, gather: 10 * time.Millisecond, pauses: []time.Duration{20 * time.Millisecond, 40 * time.Millisecond}, digestEvery: 300 * time.Millisecond}
}

// deliver delivers until the test ends or stop is called.
func (h *house) deliver(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { h.room.Deliver(ctx); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func (h *house) channel(t testing.TB, body map[string]any) Channel {
	t.Helper()
	var c Channel
	h.Do(t, "admin", http.MethodPost, "/alerts", body).Want(t, http.StatusCreated).Into(t, &c)
	return c
}

func (h *house) webhook(t testing.TB, url string) Channel {
	t.Helper()
	return h.channel(t, map[string]any{"kind": "webhook", "target": url, "allow_internal": true})
}

func (h *house) test(t testing.TB) Tested {
	t.Helper()
	var out Tested
	h.Do(t, "admin", http.MethodPost, "/alerts/test", nil).Want(t, http.StatusOK).Into(t, &out)
	return out
}

func (h *house) events(t testing.TB, query string) (list []Event) {
	t.Helper()
	h.Get(t, "/alerts/events"+query).Want(t, http.StatusOK).Into(t, &list)
	return list
}

func (h *house) raise(t testing.TB, a alarm.Alarm) {
	t.Helper()
	if err := h.Alarms.Raise(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

// receiver is a real HTTP receiver. It answers as the test says, and 200 otherwise.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []map[string]any
	header []http.Header
	answer func(w http.ResponseWriter, r *http.Request)
}

func newReceiver(t testing.TB, answer func(w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	x := &receiver{answer: answer}
	x.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("%s: %v", r.Method, err)
		}
		x.mu.Lock()
		x.got, x.header = append(x.got, body), append(x.header, r.Header)
		x.mu.Unlock()
		if x.answer != nil {
			x.answer(w, r)
		}
	}))
	t.Cleanup(x.Close)
	return x
}

func (x *receiver) messages() []map[string]any {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]map[string]any{}, x.got...)
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// AL-01: a test hits all active channels and no other, and tells how each took it.
func TestAL01TestHitsAllActiveChannelsByHTTPAndByExim(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	mta := startExim(t, true, true)
	h.Outbound = outbound.New(h.Host).Trusting(mta.roots)
	good, idle, bad := newReceiver(t, nil), newReceiver(t, nil), newReceiver(t, status(500))
	h.channel(t, map[string]any{"name": "ops", "kind": "webhook", "target": good.URL + "/hook", "allow_internal": true, "settings": map[string]any{"headers": map[string]any{"authorization": "Bearer t0ken"}}})
	h.channel(t, map[string]any{"kind": "webhook", "target": idle.URL, "allow_internal": true, "active": false})
	h.channel(t, map[string]any{"kind": "webhook", "target": bad.URL, "allow_internal": true})
	mailSettings := map[string]any{"smtp_host": "localhost", "smtp_port": mta.plain, "username": mailUser, "password": mailPassword, "from": "gateway@example.net", "use_tls": true}
	h.channel(t, map[string]any{"name": "mail", "kind": "email", "target": "ann@example.net, bob@example.net", "allow_internal": true, "settings": mailSettings})
	h.Do(t, "viewer", http.MethodPost, "/alerts/test", nil).Want(t, http.StatusForbidden)
	out := h.test(t)
	if len(out.Results) != 3 {
		t.Fatalf("%+v", out)
	}
	for i, want := range []TestResult{{Channel: strings.TrimPrefix(bad.URL, "http://"), Error: "It answered 500."}, {Channel: "mail", OK: true}, {Channel: "ops", OK: true}} {
		got := out.Results[i]
		if got.Channel != want.Channel || got.OK != want.OK || got.Error != want.Error {
			t.Errorf("%+v", got)
		}
	}
	if len(idle.messages()) != 0 || len(good.messages()) != 1 || len(bad.messages()) != 1 {
		t.Errorf("%d, %d, %d messages", len(idle.messages()), len(good.messages()), len(bad.messages()))
	}
	m := good.messages()[0]
	for _, name := range []string{"kind", "severity", "subject", "message", "content", "text", "fired_at"} {
		if text, ok := m[name].(string); !ok || text == "" {
			t.Errorf("%s is %v", name, m[name])
		}
	}
	if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(m["fired_at"])); len(m) != 7 || m["content"] != m["text"] || m["kind"] != "alert.test" || m["severity"] != "info" || err != nil {
		t.Errorf("%v", m)
	}
	if text := fmt.Sprint(m["text"]); !strings.Contains(text, "This is a test") || !strings.Contains(text, "gateway.example.net") {
		t.Error(text)
	}
	if got := good.header[0]; got.Get("Authorization") != "Bearer t0ken" || got.Get("Content-Type") != "application/json" {
		t.Errorf("%v", got)
	}
	mail := mta.mail(t, "This is a test")
	for _, want := range []string{"From: <gateway@example.net>", "ann@example.net", "bob@example.net", "Subject: =?", "Auto-Submitted: auto-generated", "TLS1"} {
		if !strings.Contains(mail, want) {
			t.Errorf("no %q in %s", want, mail)
		}
	}
	e := h.events(t, "")[0]
	if e.ID != out.EventID || e.Kind != testKind.Name || len(e.SentTo) != 3 || e.SentTo[1].Result != "error" || e.SentTo[1].Error != "It answered 500." {
		t.Errorf("%+v", e)
	}
	if h.Audited(t, "alert.test") != 1 {
		t.Error("no audit entry")
	}
}

// E-mail goes by STARTTLS, by TLS from the first byte, and without; what does not work says why.
func TestMailByExim(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	secured, open := startExim(t, true, true), startExim(t, false, false)
	trusting := outbound.New(h.Host).Trusting(secured.roots)
	send := func(door *outbound.Door, port int, settings map[string]any) string {
		t.Helper()
		h.Outbound = door
		all := map[string]any{"smtp_host": "localhost", "smtp_port": port, "from": "gateway@example.net"}
		for k, v := range settings {
			all[k] = v
		}
		c := h.channel(t, map[string]any{"kind": "email", "target": "ann@example.net", "allow_internal": true, "settings": all})
		var out Tested
		h.Do(t, "admin", http.MethodPost, "/alerts/"+c.ID.String()+"/test", nil).Want(t, http.StatusOK).Into(t, &out)
		if len(out.Results) != 1 || out.Results[0].OK != (out.Results[0].Error == "") {
			t.Fatalf("%+v", out)
		}
		return out.Results[0].Error
	}
	login := map[string]any{"username": mailUser, "password": mailPassword, "use_tls": true}
	with := func(more map[string]any) map[string]any {
		all := map[string]any{}
		for _, m := range []map[string]any{login, more} {
			for k, v := range m {
				all[k] = v
			}
		}
		return all
	}
	for _, c := range []struct {
		name     string
		door     *outbound.Door
		port     int
		settings map[string]any
		says     string
	}{
		{"STARTTLS", trusting, secured.plain, login, ""},
		{"implicit TLS", trusting, secured.implicit, with(map[string]any{"implicit_tls": true}), ""},
		{"no TLS", trusting, open.plain, nil, ""},
		{"STARTTLS at an IPv6 address", trusting, secured.plain, with(map[string]any{"smtp_host": "::1"}), ""},
		{"implicit TLS at an IPv6 address", trusting, secured.implicit, with(map[string]any{"smtp_host": "::1", "implicit_tls": true}), ""},
		{"no TLS at an IPv6 address", trusting, open.plain, map[string]any{"smtp_host": "::1"}, ""},
		{"no TLS offered", trusting, open.plain, map[string]any{"use_tls": true}, "The mail server does not offer STARTTLS."},
		{"the password is not sent in the clear", trusting, secured.plain, with(map[string]any{"use_tls": false}), "The mail server offers no login method, or none that is safe without TLS."},
		{"wrong password", trusting, secured.plain, with(map[string]any{"password": "wrong"}), "The mail server refused the user and password (535)."},
		{"no login", trusting, secured.plain, map[string]any{"use_tls": true}, "The mail server refused the message (550)."},
		{"unknown authority", outbound.New(h.Host), secured.plain, login, "Its certificate is from an authority that this gateway does not trust."},
		{"unknown authority, implicit", outbound.New(h.Host), secured.implicit, with(map[string]any{"implicit_tls": true}), "Its certificate is from an authority that this gateway does not trust."},
		{"another protocol", trusting, secured.plain, with(map[string]any{"implicit_tls": true}), "It does not speak TLS."},
		{"no listener", trusting, freePort(t), nil, "It refuses the connection: nothing listens there, or a firewall is in between."},
	} {
		if said := send(c.door, c.port, c.settings); said != c.says {
			t.Errorf("%s: %q", c.name, said)
		}
	}
}

// AL-03: whatever a receiver does, an attempt ends soon, nothing of what it says is shown, and requests are answered meanwhile.
func TestAL03HostileReceivers(t *testing.T) {
	h := newHouse(t)
	const canary = "c4nary-of-the-receiver"
	over := make(chan struct{})
	wait := func(r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}
	hangs := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) { wait(r) })
	drips := newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for {
			if _, err := io.WriteString(conn, "H"); err != nil {
				return
			}
			select {
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	streams := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := strings.Repeat(canary, 50_000)
		for range 1000 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	})
	says := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, canary, 418) })
	var loops *receiver
	toFile := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "file:///etc/passwd")
		w.WriteHeader(302)
	})
	loops = newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, loops.URL, http.StatusTemporaryRedirect)
	})
	mail := mailTrap(t, canary, over)
	endless := mailTrap(t, "", over)
	// They are tested in the order of their names.
	for i, url := range []string{hangs.URL, drips.URL, streams.URL, says.URL, toFile.URL, loops.URL} {
		h.channel(t, map[string]any{"name": fmt.Sprint("a", i), "kind": "webhook", "target": url, "allow_internal": true})
	}
	for i, port := range []int{mail, endless} {
		h.channel(t, map[string]any{"name": fmt.Sprint("b", i), "kind": "email", "target": "ann@example.net", "allow_internal": true, "settings": map[string]any{"smtp_host": "localhost", "smtp_port": port, "from": "gateway@example.net"}})
	}
	// The cleanup of the receivers waits for their handlers.
	defer close(over)

	tested := make(chan Tested, 1)
	began := time.Now()
	go func() { tested <- h.test(t) }()
	answered := 0
	var out Tested
	for done := false; !done; {
		select {
		case out = <-tested:
			done = true
		default:
			h.Get(t, "/alerts/kinds").Want(t, http.StatusOK)
			answered++
		}
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %s", took)
	}
	if answered < 10 {
		t.Errorf("%d requests were answered meanwhile", answered)
	}
	for i, want := range []string{"It did not answer within 10s.", "It did not answer within 10s.", "", "It answered 418.",
		"It answered 302, a redirect. Enter the address that it redirects to.", "It answered 307, a redirect. Enter the address that it redirects to.",
		"The mail server answered 554.", "Its answer is too long."} {
		if got := out.Results[i].Error; got != want {
			t.Errorf("%d: %q instead of %q", i, got, want)
		}
	}
	if len(loops.messages()) != 1 {
		t.Errorf("a redirect was followed: %d requests", len(loops.messages()))
	}
	if all := string(h.Get(t, "/alerts/events").Body) + h.audited(t) + h.Logs.String() + fmt.Sprint(out); strings.Contains(all, canary) {
		t.Error("what the receiver said came out")
	}
}

// mailTrap is something that listens where a mail server should: it refuses with a text, or greets without an end.
func mailTrap(t *testing.T, refuses string, over <-chan struct{}) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if refuses != "" {
					_, _ = io.WriteString(conn, "554 "+refuses+"\r\n")
					<-over
					return
				}
				for {
					if _, err := io.WriteString(conn, "220-"+strings.Repeat("x", 500)+"\r\n"); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// A target that an operator typed does not lead to the gateway itself, unless that is allowed.
func TestTargetsInsideAreRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	r := newReceiver(t, nil)
	h.channel(t, map[string]any{"kind": "webhook", "target": r.URL})
	h.channel(t, map[string]any{"kind": "webhook", "target": strings.Replace(r.URL, "127.0.0.1", "localhost", 1)})
	h.channel(t, map[string]any{"kind": "webhook", "target": "http://169.254.169.254/latest"})
	h.channel(t, map[string]any{"kind": "email", "target": "ann@example.net", "settings": map[string]any{"smtp_host": "localhost", "smtp_port": 25, "from": "gateway@example.net"}})
	for _, x := range h.test(t).Results {
		if !strings.HasPrefix(x.Error, "This target is not allowed: ") {
			t.Errorf("%+v", x)
		}
	}
	if len(r.messages()) != 0 {
		t.Error("it was reached")
	}
}

// AL-05: the history shows at most 200, newest first; a severity is one of four; the password is never read back.
func TestAL05EventsAndSecrets(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for i := range 230 {
		kind, severity := backendDown, alarm.Severities[i%4]
		h.raise(t, alarm.Alarm{Kind: kind, Key: fmt.Sprint(i), Severity: severity, Subject: fmt.Sprintf("Backend %03d", i)})
	}
	list := h.events(t, "")
	if len(list) != 200 || list[0].Subject != "Backend 229" || list[199].Subject != "Backend 030" {
		t.Fatalf("%d events, %+v", len(list), list[0])
	}
	if rest := h.events(t, "?before="+list[199].ID.String()); len(rest) != 30 {
		t.Errorf("%d more", len(rest))
	}
	if some := h.events(t, "?severity=critical&limit=5&kind=backend.down&text=BACKEND"); len(some) != 5 || some[0].Severity != alarm.Critical {
		t.Errorf("%+v", some)
	}
	h.Get(t, "/alerts/events?severity=fatal").WantField(t, "severity")
	h.Get(t, "/alerts/events?limit=201").WantField(t, "limit")

	const canary = "p4ssword-canary"
	settings := map[string]any{"smtp_host": "mail.example.net", "smtp_port": 587, "username": "gateway", "password": canary, "from": "gateway@example.net", "use_tls": true}
	c := h.channel(t, map[string]any{"kind": "email", "target": "ann@example.net", "settings": settings})
	path := "/alerts/" + c.ID.String()
	stored := func() string {
		t.Helper()
		row, err := h.room.channels.Get(t.Context(), h.DB, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := row.Settings.Password.Open(h.Secrets, channelTable, settingsColumn, c.ID.String())
		if err != nil {
			t.Fatal(err)
		}
		return plain
	}
	// What was read can be sent back.
	var all map[string]any
	shown := h.Get(t, path).Want(t, http.StatusOK)
	shown.Into(t, &all)
	if !strings.Contains(string(shown.Body), secret.Mask) {
		t.Errorf("it does not say that there is a password: %s", shown.Body)
	}
	h.Do(t, "admin", http.MethodPut, path, all).Want(t, http.StatusOK)
	h.Do(t, "admin", http.MethodPut, path, `{"settings":{"username":"other"}}`).Want(t, http.StatusOK)
	if stored() != canary {
		t.Errorf("the password is %q", stored())
	}
	// It does not go to another server than it was meant for.
	h.Do(t, "admin", http.MethodPut, path, `{"settings":{"smtp_host":"evil.example"}}`).WantField(t, "settings.password")
	h.Do(t, "admin", http.MethodPut, path, `{"settings":{"smtp_port":2525}}`).WantField(t, "settings.password")
	var hook struct{ ID string }
	h.Do(t, "admin", http.MethodPost, "/alerts", `{"kind":"webhook","target":"https://hooks.example/ours","settings":{"headers":{"Authorization":"`+canary+`"}}}`).Want(t, http.StatusCreated).Into(t, &hook)
	for _, target := range []string{"https://evil.example/ours", "http://hooks.example/ours", "https://hooks.example:8443/ours", "https://hooks.example/theirs"} {
		h.Do(t, "admin", http.MethodPut, "/alerts/"+hook.ID, `{"target":"`+target+`"}`).WantField(t, "settings.headers")
		h.Do(t, "admin", http.MethodPut, "/alerts/"+hook.ID, `{"target":"`+target+`","settings":{"headers":{"Authorization":"***SET***"}}}`).WantField(t, "settings.headers")
	}
	h.Do(t, "admin", http.MethodPut, "/alerts/"+hook.ID, `{"name":"ours"}`).Want(t, http.StatusOK)
	h.Do(t, "admin", http.MethodPut, "/alerts/"+hook.ID, `{"target":"https://hooks.example/theirs","settings":{"headers":{"Authorization":"`+canary+`"}}}`).Want(t, http.StatusOK)
	h.Do(t, "admin", http.MethodPut, path, `{"settings":{"smtp_host":"other.example","password":"new-`+canary+`"}}`).Want(t, http.StatusOK)
	if stored() != "new-"+canary {
		t.Errorf("the password is %q", stored())
	}
	var sealed string
	if err := h.DB.QueryRow(t.Context(), `SELECT settings::text FROM alert_channels WHERE id = $1`, c.ID).Scan(&sealed); err != nil {
		t.Fatal(err)
	}
	seen := sealed + h.Logs.String() + h.audited(t)
	for _, a := range []string{"/alerts", path, "/alerts/events"} {
		seen += string(h.Get(t, a).Body)
	}
	preview := `{"preview":true,"operations":[{"kind":"alert.channel","verb":"update","id":"` + c.ID.String() + `","body":{"settings":{"password":"` + canary + `"}}}]}`
	seen += string(h.Do(t, "admin", http.MethodPost, "/change-sets", preview).Want(t, http.StatusOK).Body)
	if strings.Contains(seen, canary) {
		t.Error("the password came out")
	}
	h.Do(t, "viewer", http.MethodPost, "/change-sets", preview).Want(t, http.StatusForbidden)
}

func TestChannelsAreChecked(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	mail := func(more string) string {
		return `{"kind":"email","target":"ann@example.net","settings":{"smtp_host":"mail.example.net","smtp_port":25,"from":"gateway@example.net"` + more + `}}`
	}
	for body, field := range map[string]string{
		`{"target":"https://x.example"}`:                                                           "kind",
		`{"kind":"sms","target":"1"}`:                                                              "kind",
		`{"kind":"webhook"}`:                                                                       "target",
		`{"kind":"webhook","target":"file:///etc/passwd"}`:                                         "target",
		`{"kind":"webhook","target":"gopher://x.example"}`:                                         "target",
		`{"kind":"webhook","target":"https://user:pass@x.example"}`:                                "target",
		`{"kind":"webhook","target":"x.example"}`:                                                  "target",
		`{"kind":"webhook","target":"https://x.example","min_severity":"bad"}`:                     "min_severity",
		`{"kind":"webhook","target":"https://x.example","settings":{"smtp_host":"a.example"}}`:     "settings",
		`{"kind":"webhook","target":"https://x.example","settings":{"headers":{"a b":"c"}}}`:       "settings.headers",
		`{"kind":"webhook","target":"https://x.example","settings":{"headers":{"A":"b\r\nC: d"}}}`: "settings.headers",
		`{"kind":"webhook","target":"https://x.example","settings":{"headers":{"host":"c"}}}`:      "settings.headers",
		`{"kind":"webhook","target":"https://x.example","settings":{"headers":{"A":"***SET***"}}}`: "settings.headers",
		`{"kind":"webhook","target":"https://x.example","settings":{"headers":["A"]}}`:             "settings",
		`{"kind":"webhook","target":"https://x.example","settings":{"color":"red"}}`:               "settings",
		`{"kind":"email","target":"ann@example.net"}`:                                              "settings.smtp_host",
		`{"kind":"email","target":"ann"}`:                                                          "target",
		`{"kind":"email","target":"ann@example.net,"}`:                                             "target",
		`{"kind":"email","target":"ann@example.net\r\nBcc: x@example.net"}`:                        "target",
		mail(`,"smtp_port":70000`):                                                                 "",
		mail(`,"username":"u"`):                                                                    "settings.password",
		mail(`,"password":"p"`):                                                                    "settings.username",
		mail(`,"username":"u\u0000","password":"p"`):                                               "settings.username",
		mail(`,"implicit_tls":true`):                                                               "settings.implicit_tls",
		mail(`,"headers":{"A":"b"}`):                                                               "settings.headers",
	} {
		a := h.Do(t, "admin", http.MethodPost, "/alerts", body)
		if field != "" {
			a.WantField(t, field)
		} else {
			a.Want(t, http.StatusBadRequest)
		}
	}
	if h.Rows(t, "alert_channels") != 0 {
		t.Error("something was stored")
	}
}

// A receiver that fails is tried three times, and the history says how that went.
func TestThreeAttempts(t *testing.T) {
	t.Parallel()
	if usual.gather != time.Second || usual.gather+usual.pauses[0] != 5*time.Second || usual.gather+usual.pauses[0]+usual.pauses[1] != 25*time.Second || usual.within > 15*time.Second {
		t.Errorf("%+v", usual)
	}
	h := newHouse(t)
	h.hurried()
	failures := 2
	recovers := newReceiver(t, nil)
	recovers.answer = func(w http.ResponseWriter, _ *http.Request) {
		if recovers.mu.Lock(); failures > 0 {
			failures--
			w.WriteHeader(503)
		}
		recovers.mu.Unlock()
	}
	never := newReceiver(t, status(503))
	h.webhook(t, recovers.URL)
	h.webhook(t, never.URL)
	h.deliver(t)
	h.raise(t, alarm.Alarm{Kind: diskFull, Subject: "Disk", Message: "91 %"})
	var e Event
	waittest.Until(t, "both have an end", func() bool {
		e = h.events(t, "")[0]
		return len(e.SentTo) == 2 && e.SentTo[0].Result != "waiting" && e.SentTo[1].Result != "waiting"
	})
	if x := e.SentTo[0]; x.Result != "ok" || x.Attempts != 3 || x.Error != "" {
		t.Errorf("%+v", x)
	}
	if x := e.SentTo[1]; x.Result != "error" || x.Attempts != 3 || x.Error != "It answered 503." {
		t.Errorf("%+v", x)
	}
	// Who was told of the beginning is told of the end, and no one else.
	if err := h.Alarms.Clear(t.Context(), diskFull, ""); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the end is told", func() bool {
		e = h.events(t, "")[0]
		return e.Resolved && len(e.SentTo) == 1 && e.SentTo[0].Result == "ok"
	})
	if got := recovers.messages(); len(got) != 4 || got[3]["severity"] != "info" || !strings.HasPrefix(fmt.Sprint(got[3]["text"]), "[RESOLVED] Disk") {
		t.Errorf("%v", got)
	}
	if n := len(never.messages()); n != 3 {
		t.Errorf("%d messages", n)
	}
}

// The next attempt is counted from the end of the one before: a receiver that takes its time is not asked again at once.
func TestAttemptsAreCountedFromTheEnd(t *testing.T) {
	t.Parallel()
	b := kittest.New(t)
	now := clock.NewFake(b.Clock.Now())
	b.Clock = now
	h := newHouseOn(t, b)
	h.webhook(t, newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		now.Move(7 * time.Second)
		w.WriteHeader(503)
	}).URL)
	h.raise(t, alarm.Alarm{Kind: diskFull, Subject: "Disk", Message: "91 %"})
	for attempt, pause := range usual.pauses {
		now.Move(time.Hour)
		due, _, err := h.room.turn(t.Context())
		if err != nil || len(due) != 1 {
			t.Fatal(due, err)
		}
		h.room.serve(t.Context(), due[0])
		var next time.Time
		if err := h.DB.QueryRow(t.Context(), `SELECT next_at FROM alert_deliveries WHERE attempts = $1`, attempt+1).Scan(&next); err != nil {
			t.Fatal(err)
		}
		if want := now.Now().Add(pause); !next.Equal(want) {
			t.Errorf("attempt %d is followed by another at %s, not at %s", attempt+1, next, want)
		}
	}
}

// What is in the outbox when the program ends is delivered by the next one, also what it was about to send.
func TestNothingIsLostByARestart(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.hurried()
	r := newReceiver(t, nil)
	h.webhook(t, r.URL)
	stop := h.deliver(t)
	stop()
	h.raise(t, alarm.Alarm{Kind: diskFull, Subject: "one"})
	h.raise(t, alarm.Alarm{Kind: memoryFull, Subject: "two"})
	if _, err := h.room.fanOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	// As if a program had died while it sent: its claim ends.
	if err := h.DB.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE alert_deliveries SET next_at = now() + interval '300 ms'`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	h.deliver(t)
	waittest.Until(t, "both arrive", func() bool { return len(r.messages()) == 2 })
}

// What a backup had still to tell, whether it had its channels already or not, is not told after its restore. What happens then is.
func TestNothingOldIsToldAfterARestore(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.hurried()
	x := newReceiver(t, nil)
	h.webhook(t, x.URL)
	old := func(key string) {
		h.raise(t, alarm.Alarm{Kind: diskFull, Key: key, Subject: "old " + key, Message: "m"})
	}
	old("a")
	if n, err := h.room.fanOut(t.Context()); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	old("b")
	if err := h.DB.Write(t.Context(), func(tx *db.Tx) error { return h.room.Forget(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
	h.raise(t, alarm.Alarm{Kind: diskFull, Key: "c", Subject: "new", Message: "m"})
	h.deliver(t)
	waittest.Until(t, "what is new is told", func() bool { return len(x.messages()) > 0 })
	waittest.Until(t, "nothing waits", func() (done bool) {
		if err := h.DB.QueryRow(t.Context(), `SELECT NOT EXISTS (SELECT FROM alarm_outbox) AND NOT EXISTS (SELECT FROM alert_deliveries WHERE state = 'waiting')`).Scan(&done); err != nil {
			t.Fatal(err)
		}
		return done
	})
	for _, m := range x.messages() {
		if m["subject"] != "new" {
			t.Errorf("told: %v", m)
		}
	}
	if list := h.events(t, ""); len(list) != 3 {
		t.Errorf("the history has %+v", list)
	}
}

func TestMute(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.hurried()
	r := newReceiver(t, nil)
	h.webhook(t, r.URL)
	h.Do(t, "admin", http.MethodPost, "/alert-mutes", map[string]any{"kind": "no.such", "until": time.Now().Add(time.Hour)}).WantField(t, "kind")
	h.Do(t, "admin", http.MethodPost, "/alert-mutes", map[string]any{"kind": "alert.test", "until": time.Now().Add(time.Hour)}).WantField(t, "kind")
	h.Do(t, "admin", http.MethodPost, "/alert-mutes", map[string]any{"kind": "system.disk"}).WantField(t, "until")
	h.Do(t, "admin", http.MethodPost, "/alert-mutes", map[string]any{"kind": "system.disk", "until": time.Now().Add(-time.Hour)}).WantField(t, "until")
	h.Do(t, "admin", http.MethodPost, "/alert-mutes", map[string]any{"kind": "system.disk", "until": time.Now().AddDate(2, 0, 0)}).WantField(t, "until")
	var m Mute
	h.Do(t, "admin", http.MethodPost, "/alert-mutes", map[string]any{"kind": "system.disk", "until": time.Now().Add(time.Hour), "reason": "a new disk comes"}).Want(t, http.StatusCreated).Into(t, &m)
	h.Do(t, "admin", http.MethodPost, "/alert-mutes", map[string]any{"kind": "system.disk", "until": time.Now().Add(time.Hour)}).WantTaken(t, "kind")
	h.deliver(t)
	h.raise(t, alarm.Alarm{Kind: diskFull, Subject: "Disk"})
	h.raise(t, alarm.Alarm{Kind: memoryFull, Subject: "Memory"})
	waittest.Until(t, "what is not muted arrives", func() bool { return len(r.messages()) == 1 })
	if got := r.messages()[0]; got["kind"] != "system.memory" {
		t.Errorf("%v", got)
	}
	if list := h.events(t, "?kind=system.disk"); len(list) != 1 || !list[0].Muted || len(list[0].SentTo) != 0 {
		t.Errorf("%+v", list)
	}
	h.Do(t, "admin", http.MethodDelete, "/alert-mutes/"+m.ID.String(), nil).Want(t, http.StatusOK)
	h.raise(t, alarm.Alarm{Kind: diskFull, Key: "other", Subject: "Disk"})
	waittest.Until(t, "it is not muted any more", func() bool { return len(r.messages()) == 2 })
}

func TestChannelsAreToldOfWhatIsSevereEnough(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.hurried()
	r := newReceiver(t, nil)
	h.channel(t, map[string]any{"kind": "webhook", "target": r.URL, "allow_internal": true, "min_severity": "error"})
	h.deliver(t)
	h.raise(t, alarm.Alarm{Kind: diskFull, Severity: alarm.Warning, Subject: "Disk"})
	h.raise(t, alarm.Alarm{Kind: backendDown, Severity: alarm.Error, Subject: "Backend"})
	waittest.Until(t, "the error arrives", func() bool { return len(r.messages()) == 1 })
	if got := r.messages()[0]; got["kind"] != "backend.down" {
		t.Errorf("%v", got)
	}
}

func TestADeletedChannelKeepsItsPlaceInTheHistory(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.hurried()
	c := h.webhook(t, newReceiver(t, nil).URL)
	h.raise(t, alarm.Alarm{Kind: diskFull, Subject: "Disk"})
	if _, err := h.room.fanOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Do(t, "admin", http.MethodDelete, "/alerts/"+c.ID.String(), nil).Want(t, http.StatusOK)
	x := h.events(t, "")[0].SentTo
	if len(x) != 1 || x[0].Result != "error" || x[0].Channel != c.Label() || x[0].Error == "" {
		t.Errorf("%+v", x)
	}
}

// What waits for a channel that is switched off is not sent, not even when it is on again. What happens then is.
func TestAChannelThatIsOffIsNotTold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.hurried()
	h.room.timing.pauses = []time.Duration{time.Millisecond, time.Millisecond}
	var answer atomic.Int64
	answer.Store(http.StatusInternalServerError)
	x := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(answer.Load())) })
	c := h.webhook(t, x.URL)
	h.raise(t, alarm.Alarm{Kind: diskFull, Key: "a", Subject: "first"})
	if _, err := h.room.fanOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := h.Clock.Now()
	dbtest.Exec(t, h.DB, `UPDATE alert_deliveries SET next_at = $1`, now.Add(-time.Minute))
	list, err := h.room.claim(t.Context(), c.ID)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	h.Do(t, "admin", http.MethodPut, "/alerts/"+c.ID.String(), map[string]any{"active": false}).Want(t, http.StatusOK)
	// It was claimed already.
	if told, err := h.room.tell(t.Context(), &c, list[0]); !told || err != nil || len(x.messages()) > 0 {
		t.Errorf("%t, %v, %d messages", told, err, len(x.messages()))
	}
	sent := h.events(t, "")[0].SentTo
	if len(sent) != 1 || sent[0].Result != "skipped" || !strings.Contains(sent[0].Error, "switched off") || sent[0].EndedAt == nil {
		t.Errorf("%+v", sent)
	}
	// An attempt that was under way then does not bring it back.
	if err := h.room.record(t.Context(), &c, list, false, errors.New("refused")); err != nil {
		t.Fatal(err)
	}
	if sent := h.events(t, "")[0].SentTo; sent[0].Result != "skipped" {
		t.Errorf("%+v", sent)
	}
	// Whatever waits, nothing is due for a channel that is off.
	dbtest.Exec(t, h.DB, `UPDATE alert_deliveries SET state = 'waiting', ended_at = NULL, next_at = $1`, now.Add(-time.Minute))
	if due, _, err := h.room.turn(t.Context()); err != nil || len(due) > 0 {
		t.Errorf("%+v, %v", due, err)
	}
	dbtest.Exec(t, h.DB, `UPDATE alert_deliveries SET state = 'skipped', ended_at = $1`, now)
	answer.Store(http.StatusOK)
	h.Do(t, "admin", http.MethodPut, "/alerts/"+c.ID.String(), map[string]any{"active": true}).Want(t, http.StatusOK)
	h.raise(t, alarm.Alarm{Kind: diskFull, Key: "b", Subject: "second"})
	h.deliver(t)
	waittest.Until(t, "what is new is told", func() bool { return len(x.messages()) > 0 })
	for _, m := range x.messages() {
		if m["subject"] != "second" {
			t.Errorf("told: %v", m)
		}
	}
}

// A flood of alerts to three channels, of which one hangs and one answers 500. Nothing is lost from the history, and a digest is sent.
func TestFlood(t *testing.T) {
	h := newHouse(t)
	h.hurried()
	h.room.timing.within = 500 * time.Millisecond
	over := make(chan struct{})
	good, bad := newReceiver(t, nil), newReceiver(t, status(500))
	hangs := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	})
	defer close(over)
	for _, r := range []*receiver{good, bad, hangs} {
		h.webhook(t, r.URL)
	}
	h.deliver(t)
	alerts, at := 2_000, 8
	if longtest.On {
		alerts = 10_000
	}
	var all sync.WaitGroup
	for w := range at {
		all.Go(func() {
			for i := w; i < alerts; i += at {
				if err := h.Alarms.Raise(context.Background(), alarm.Alarm{Kind: backendDown, Key: fmt.Sprint(i), Subject: fmt.Sprintf("Backend %d", i), Message: "All its servers are down."}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	count := func(sql string) (n int) {
		t.Helper()
		if err := h.DB.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(`SELECT count(*) FROM alarm_events`); n != alerts {
		t.Fatalf("%d of %d events are in the history", n, alerts)
	}
	waittest.Until(t, "each event has its end at each channel", func() bool {
		return count(`SELECT count(*) FROM alert_deliveries WHERE state <> 'waiting'`) == 3*alerts
	})
	if n := count(`SELECT count(*) FROM alert_deliveries WHERE state = 'ok'`); n != alerts {
		t.Errorf("%d were told", n)
	}
	if n := count(`SELECT count(*) FROM alert_deliveries WHERE state = 'error' AND attempts = 3`); n != 2*alerts {
		t.Errorf("%d were tried three times", n)
	}
	told, digests := 0, 0
	for _, m := range good.messages() {
		if m["kind"] != "alert.digest" {
			told++
			continue
		}
		digests++
		var n int
		if _, err := fmt.Sscanf(fmt.Sprint(m["subject"]), "%d alerts", &n); err != nil {
			t.Errorf("%v", m)
		}
		told += n
		if m["severity"] != "error" || len(fmt.Sprint(m["text"])) > 2000 || !strings.Contains(fmt.Sprint(m["message"]), "backend.down (error): Backend ") {
			t.Errorf("%v", m)
		}
	}
	if told != alerts || digests == 0 || len(good.messages()) > alerts/20 {
		t.Errorf("%d alerts were told by %d messages, of which %d are digests", told, len(good.messages()), digests)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var s Settings
	h.Get(t, "/alerts/settings").Want(t, http.StatusOK).Into(t, &s)
	s.Meta.ID, s.CreatedAt, s.UpdatedAt = uuid.Nil, time.Time{}, time.Time{}
	if s != (Settings{Limits: watchtest.Limits, DigestOver: 10, HistoryDays: 90}) {
		t.Errorf("%+v", s)
	}
	h.Do(t, "admin", http.MethodPut, "/alerts/settings", `{"memory_warning_percent":96}`).WantField(t, "memory_error_percent")
	h.Do(t, "admin", http.MethodPut, "/alerts/settings", `{"cert_error_days":14}`).WantField(t, "cert_error_days")
	h.Do(t, "admin", http.MethodPut, "/alerts/settings", `{"disk_warning_percent":0}`).WantField(t, "disk_warning_percent")
	h.Do(t, "viewer", http.MethodPut, "/alerts/settings", `{}`).Want(t, http.StatusForbidden)
	h.Do(t, "admin", http.MethodPut, "/alerts/settings", `{"disk_warning_percent":70}`).Want(t, http.StatusOK)
}

func TestPrune(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.webhook(t, newReceiver(t, nil).URL)
	h.raise(t, alarm.Alarm{Kind: diskFull, Subject: "Disk"})
	if _, err := h.room.fanOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := h.room.Prune(t.Context()); err != nil || n != 0 {
		t.Fatal(n, err)
	}
	if err := h.DB.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE alarm_events SET created_at = created_at - interval '91 days'`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if n, err := h.room.Prune(t.Context()); err != nil || n != 1 || h.Rows(t, "alert_deliveries") != 0 {
		t.Fatal(n, err)
	}
}

// A destination comes back with the secrets that were entered for it, and never with those of another one.
func TestChangedDestinationIsTakenBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var hook struct{ ID string }
	h.Do(t, "admin", http.MethodPost, "/alerts", `{"kind":"webhook","target":"https://hooks.example/ours","settings":{"headers":{"Authorization":"first-canary"}}}`).Want(t, http.StatusCreated).Into(t, &hook)
	path := "/alerts/" + hook.ID
	id := h.Do(t, "admin", http.MethodPut, path, `{"target":"https://hooks.example/theirs","settings":{"headers":{"Authorization":"second-canary"}}}`).Want(t, http.StatusOK).Header.Get(httpd.ChangeSetHeader)
	target := func() string {
		var now struct{ Target string }
		h.Get(t, path).Want(t, http.StatusOK).Into(t, &now)
		return now.Target
	}
	back := "/change-sets/" + id + "/revert"
	third := h.Do(t, "admin", http.MethodPut, path, `{"settings":{"headers":{"Authorization":"third-canary"}}}`).Want(t, http.StatusOK).Header.Get(httpd.ChangeSetHeader)
	h.Do(t, "admin", http.MethodPost, back, `{"take":"now"}`).Want(t, http.StatusConflict)
	if target() != "https://hooks.example/theirs" {
		t.Error(target())
	}
	h.Do(t, "admin", http.MethodPost, "/change-sets/"+third+"/revert", nil).Want(t, http.StatusOK)
	h.Do(t, "admin", http.MethodPost, back, nil).Want(t, http.StatusOK)
	if target() != "https://hooks.example/ours" {
		t.Error(target())
	}
}
