package alert

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/outbound"
)

// AL-01: a test reaches all channels that are on and no other, and reports each result.
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

// An earlier destination is restored with the secrets entered for it, never with those of another one.
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
