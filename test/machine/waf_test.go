package machine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// as runs shell code in the gateway as a user, and returns its output and whether it succeeded.
func as(t *testing.T, l *labtest.Lab, user, words string) (string, bool) {
	t.Helper()
	cmd, err := l.Command(t.Context(), lab.Gateway, "runuser", "-u", user, "--", "bash", "-c", words)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// The agent of the web application firewall runs apart from the rest: it reaches nothing of the gateway's, and only HAProxy reaches it.
func wafRunsApart(t *testing.T, l *labtest.Lab) {
	const ask = "curl -sf --unix-socket " + host.WAFSocket + " http://waf/status"
	var status struct{ Version, Source string }
	waittest.Until(t, "the agent tells how it stands", func() bool {
		out, ok := as(t, l, host.User, ask)
		return ok && json.Unmarshal([]byte(out), &status) == nil && status.Version != ""
	})
	if out, ok := as(t, l, "nobody", "ls "+host.WAFSocket); ok || !strings.Contains(out, "Permission denied") {
		t.Errorf("a stranger finds %s", out)
	}
	for _, words := range []string{
		"cat /etc/gateway/master.key", "ls /var/lib/gateway", "ls " + host.HelperSocket,
		`psql -XAt "postgres:///gateway?host=/run/postgresql&user=gateway-waf" -c "SELECT * FROM account_users"`,
	} {
		if out, ok := as(t, l, host.WAFUser, words); ok || !strings.Contains(strings.ToLower(out), "permission denied") {
			t.Errorf("%s: %v, %s", words, ok, out)
		}
	}
	if out, ok := as(t, l, host.WAFUser, `psql -XAt "postgres:///gateway?host=/run/postgresql&user=gateway-waf" -c "SELECT current_user"`); !ok || strings.TrimSpace(out) != host.WAFUser {
		t.Errorf("the agent's way to the database: %s", out)
	}

	// Connections of other users are closed; for HAProxy the agent waits for its hello.
	knock := "exec 3<>/dev/tcp/127.0.0.1/9000; timeout 2 cat <&3; echo $?"
	waittest.Until(t, "the agent listens", func() bool {
		_, ok := as(t, l, "haproxy", "exec 3<>/dev/tcp/127.0.0.1/9000")
		return ok
	})
	if out, _ := as(t, l, "nobody", knock); strings.TrimSpace(out) != "0" {
		t.Errorf("a stranger: %s", out)
	}
	if out, _ := as(t, l, "haproxy", knock); strings.TrimSpace(out) != "124" {
		t.Errorf("HAProxy: %s", out)
	}

	for _, on := range []bool{false, true} {
		want := map[bool]string{false: "inactive", true: "active"}[on]
		var outcome struct{ Active, Error string }
		l.Must(t, http.MethodPost, "/system/service-toggle", map[string]any{"service": "waf", "enabled": on}, 200, &outcome)
		if outcome.Active != want || outcome.Error != "" {
			t.Errorf("%v: %+v", on, outcome)
		}
		if state, err := l.Units().State(t.Context(), host.WAF); err != nil || state.Active != want {
			t.Errorf("%+v, %v", state, err)
		}
	}

	// It is a component: if it is killed, that is noticed at once, and it is restarted.
	before, err := l.Units().State(t.Context(), host.WAF)
	if err != nil {
		t.Fatal(err)
	}
	l.WaitState(t, "waf", "live", 20*time.Second)
	l.Run(t, lab.Gateway, "kill", "-KILL", strconv.Itoa(before.PID))
	another(t, l.Units(), host.WAF, before.PID)
	l.WaitState(t, "waf", "live", 60*time.Second)

	// WF-05: an agent that hangs answers no requests, and an alert is sent before it is replaced.
	var backend, domain struct{ ID string }
	l.Must(t, http.MethodPost, "/backends", fields{"name": "inspected", "scheme": "http"}, 201, &backend)
	l.Must(t, http.MethodPost, "/domains", fields{"name": "inspected.example.net", "backend_id": backend.ID}, 201, &domain)
	l.Must(t, http.MethodPut, "/waf/configs/"+domain.ID, fields{"enabled": true, "mode": "blocking"}, 200, nil)
	stalled, err := l.Units().State(t.Context(), host.WAF)
	if err != nil {
		t.Fatal(err)
	}
	l.Run(t, lab.Gateway, "kill", "-STOP", strconv.Itoa(stalled.PID))
	waittest.Within(t, 4*time.Minute, "an event says that requests are not inspected", func() error {
		type event struct{ Kind, Severity string }
		var events []event
		if l.Must(t, http.MethodGet, "/alerts/events", nil, 200, &events); !slices.Contains(events, event{"waf.agent.down", "critical"}) {
			return fmt.Errorf("%+v", events)
		}
		return nil
	})
	another(t, l.Units(), host.WAF, stalled.PID)
	l.Must(t, http.MethodDelete, "/domains/"+domain.ID, nil, 200, nil)
	l.Must(t, http.MethodDelete, "/backends/"+backend.ID, nil, 200, nil)
	l.WaitState(t, "waf", "live", 60*time.Second)
}
