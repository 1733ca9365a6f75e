package alert

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/kit/watch/watchtest"
)

// AL-05: the history returns at most 200 events, newest first; a severity is one of four; the password is never returned.
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
	// What was read can be sent back unchanged.
	var all map[string]any
	read := h.Get(t, path).Want(t, http.StatusOK)
	read.Into(t, &all)
	if !strings.Contains(string(read.Body), secret.Mask) {
		t.Errorf("it does not say that there is a password: %s", read.Body)
	}
	h.Do(t, "admin", http.MethodPut, path, all).Want(t, http.StatusOK)
	h.Do(t, "admin", http.MethodPut, path, `{"settings":{"username":"other"}}`).Want(t, http.StatusOK)
	if stored() != canary {
		t.Errorf("the password is %q", stored())
	}
	// The password is never sent to another server than the one it was entered for.
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
