// Package machine tests the whole gateway in a lab: real daemons, packets between namespaces.
package machine

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == filepath.Base(stubbed) {
		stub()
	}
	labtest.Main(m)
}

// One lab serves all.
func TestMachine(t *testing.T) {
	t.Parallel()
	l := labtest.UpAsAdmin(t, lab.Options{Volatile: true, Env: []string{"GATEWAY_FAILPOINTS=" + failpoints}})
	l.WaitState(t, "ntp", "live", 10*time.Second)
	for _, x := range []struct {
		name string
		test func(*testing.T, *labtest.Lab)
	}{
		{"TimeIsSynchronised", timeIsSynchronised},
		{"NT01ServesTimeOnlyWhenTold", servesTimeOnlyWhenTold},
		{"LinksAreDeclared", linksAreDeclared},
		{"LanReachesTheWan", lanReachesTheWan},
		{"ControlTool", controlTool},
		{"PR01PasswordReset", passwordReset},
		{"SchedulerPrunes", schedulerPrunes},
		{"Metrics", metrics},
		{"WAFRunsApart", wafRunsApart},
		{"Packets", packets},
	} {
		t.Run(x.name, func(t *testing.T) { x.test(t, l) })
	}
}

type status struct {
	Synchronised bool
	Stratum      int
	Source       string
	Error        string
}

func timeIsSynchronised(t *testing.T, l *labtest.Lab) {
	a := l.Must(t, http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": "198.51.100.2", "minpoll": 0, "maxpoll": 4}, 201, nil)
	if a.Header.Get("Gateway-Apply") != "ntp=live" {
		t.Fatal(a.Header.Get("Gateway-Apply"))
	}
	if sources := l.Run(t, lab.Gateway, "chronyc", "-c", "-n", "sources"); !strings.Contains(sources, ",198.51.100.2,") {
		t.Fatalf("chronyd has %s", sources)
	}
	var s status
	waittest.UntilNil(t, "the time is synchronised", func() error {
		if l.Must(t, http.MethodGet, "/ntp/status", nil, 200, &s); !s.Synchronised {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if s.Stratum != 9 || s.Source != "198.51.100.2" || s.Error != "" {
		t.Fatalf("%+v", s)
	}
}

// asks reports whether a machine on the LAN gets the time from an address within some seconds.
func asks(t *testing.T, l *labtest.Lab, address, seconds string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// -Q measures once and sets nothing; the folder keeps it apart from the gateway's own daemon.
	cmd, err := l.Command(ctx, lab.Lan, "chronyd", "-Q", "-t", seconds, "server "+address+" iburst maxsamples 1", "pidfile /run/lan-chronyd.pid", "cmdport 0", "bindcmdaddress /")
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	return err == nil && strings.Contains(string(out), "System clock wrong by")
}

func servesTimeOnlyWhenTold(t *testing.T, l *labtest.Lab) {
	if asks(t, l, "10.10.0.1", "1") {
		t.Fatal("a client-only daemon serves time")
	}
	if ports := l.Run(t, lab.Gateway, "ss", "-Hlun", "sport", "=", ":123"); ports != "" {
		t.Fatalf("something listens on 123: %s", ports)
	}
	l.Must(t, http.MethodPut, "/ntp/settings", map[string]any{"serve_clients": true, "listen_addresses": []string{"10.10.0.1", "fd00:10::1"}, "allow_acl": []string{"10.10.0.0/24", "fd00:10::/64"}}, 200, nil)
	for _, address := range []string{"10.10.0.1", "fd00:10::1"} {
		ok := false
		for range 20 { // until the gateway itself is synchronised again
			if ok = asks(t, l, address, "3"); ok {
				break
			}
		}
		if !ok {
			t.Fatalf("no time from %s", address)
		}
	}
	l.Must(t, http.MethodPut, "/ntp/settings", map[string]any{"serve_clients": false}, 200, nil)
	if asks(t, l, "10.10.0.1", "1") {
		t.Fatal("still serves time")
	}
}

func controlTool(t *testing.T, l *labtest.Lab) {
	const all = "network live\nntp live\ndns live\nforward-proxy live\ndhcp live\nradius live\ntunnel live\npacket-filter live\nreverse-proxy live\nwaf live\nids live\nids-firewall-bouncer live\nvrrp live\n"
	if out := l.Run(t, lab.Gateway, "gateway-ctl", "render-config"); out != all {
		t.Fatalf("through gateway-api: %q", out)
	}
	if err := l.Units().Stop(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	if out := l.Run(t, lab.Gateway, "gateway-ctl", "render-config", "--units", "lab"); out != all {
		t.Fatalf("by itself: %q", out)
	}
	if err := l.Units().Start(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	l.WaitDatabase(t)
	var entries []struct{ Actor, Action string }
	l.Must(t, http.MethodGet, "/audit?action=render-configs", nil, 200, &entries)
	if len(entries) != 2 || entries[0].Actor != "gateway-ctl" {
		t.Fatalf("%+v", entries)
	}
}

func passwordReset(t *testing.T, l *labtest.Lab) {
	token := strings.TrimSpace(l.Run(t, lab.Gateway, "sh", "-c", "gateway-ctl reset-password 2>/dev/null"))
	if len(token) != 32 {
		t.Fatalf("token %q", token)
	}
	const fresh = "another horse battery"
	l.Must(t, http.MethodPost, "/auth/reset-password", map[string]string{"token": token, "new_password": fresh}, 200, nil)
	l.Must(t, http.MethodPost, "/auth/reset-password", map[string]string{"token": token, "new_password": fresh}, 401, nil)
	l.Must(t, http.MethodGet, "/auth/me", nil, 401, nil) // every session died with the old password
	old := map[string]string{"email": labtest.AdminEmail, "password": labtest.AdminPassword}
	l.Must(t, http.MethodPost, "/auth/login", old, 401, nil)
	if err := l.Units().Restart(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	l.WaitDatabase(t)
	l.Must(t, http.MethodPost, "/auth/login", old, 401, nil)
	l.Must(t, http.MethodPost, "/auth/login", map[string]string{"email": labtest.AdminEmail, "password": fresh}, 200, nil)
}

func schedulerPrunes(t *testing.T, l *labtest.Lab) {
	l.Must(t, http.MethodPut, "/system/retention", map[string]any{"audit_days": 1}, 200, nil)
	l.Run(t, lab.Gateway, "psql", "-h", "/run/postgresql", "-U", "gateway", "-d", "gateway", "-c",
		"INSERT INTO audit_entries VALUES (gen_random_uuid(), now() - interval '2 days', 'ancient', 'x', '', '', null)")
	l.Must(t, http.MethodPost, "/system/service-restart", map[string]any{"kind": "scheduler"}, 200, nil) // a job's first run is at start
	var ancient []struct{ Actor string }
	waittest.Until(t, "an entry older than the retention is gone", func() bool {
		l.Must(t, http.MethodGet, "/audit?actor=ancient", nil, 200, &ancient)
		return len(ancient) == 0
	})
}

func metrics(t *testing.T, l *labtest.Lab) {
	out := l.Run(t, lab.Gateway, "curl", "-s", "http://127.0.0.1:9464/metrics")
	for _, name := range []string{`gateway_component_live{component="ntp",state="live"} 1`, "gateway_http_request_seconds_count", "go_goroutines"} {
		if !strings.Contains(out, name) {
			t.Errorf("no %s", name)
		}
	}
	if _, err := os.Stat(l.Path("/run/gateway/control.sock")); err != nil {
		t.Error(err)
	}
}
