package system_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/system"
)

func bench(t *testing.T) *kittest.Bench {
	t.Helper()
	return benchWith(t, func() error { return nil })
}

// benchWith returns a bench whose setup store may fail.
func benchWith(t *testing.T, keep func() error) *kittest.Bench {
	t.Helper()
	b := kittest.New(t)
	idle := func(*httpd.Call, resource.Alias, bool) (string, error) { return "", nil }
	flags := system.Flags{Retention: system.Retention{AuditDays: 90, BackupKeep: 14, HistoryDays: 365, HistorySets: 10000}}
	system.New(b.Kit, system.Deps{
		Role:  func() string { return "" },
		Flags: func() system.Flags { return flags },
		SetFlags: func(change func(*system.Flags)) error {
			if err := keep(); err != nil {
				return err
			}
			change(&flags)
			return nil
		},
		Switches: map[string]system.Switch{
			"ids-agent": idle, "ids-firewall-bouncer": idle,
			"waf": func(c *httpd.Call, _ resource.Alias, on bool) (string, error) {
				if on {
					return "", b.Machine.Start(c, host.WAF)
				}
				return "", b.Machine.Stop(c, host.WAF)
			},
		},
	}).Mount()
	apply.Register(b.Engine, apply.Component[string]{
		ID: apply.NTP, Unit: chrony.Unit,
		Load: func(context.Context, db.Querier) (string, error) { return "a\n", nil },
		Render: func(s string) ([]host.File, error) {
			return []host.File{{Place: chrony.DropIn, Content: []byte(s)}}, nil
		},
		Check:  func(context.Context, []host.File) error { return nil },
		Apply:  func(ctx context.Context, _ string, _ []host.File) error { return b.Machine.Restart(ctx, chrony.Unit) },
		Verify: func(context.Context, string, []host.File) error { return nil },
	})
	b.Start(t)
	return b
}

func has(t *testing.T, a *kittest.Answer, fields ...string) {
	t.Helper()
	for _, f := range fields {
		if !strings.Contains(string(a.Data), `"`+f+`":`) {
			t.Errorf("no %s in %s", f, a.Data)
		}
	}
}

// A systemd that does not answer blocks nobody, and the states are unknown: no daemon has failed.
func TestServicesThatHang(t *testing.T) {
	b := bench(t)
	b.Machine.Hang(true)
	defer b.Machine.Hang(false)
	var list system.Services
	b.Get(t, "/system/services").Want(t, 200).Into(t, &list)
	for _, s := range list.Services {
		if s.Active != "unknown" || !strings.HasSuffix(s.Detail, " did not answer in time.") {
			t.Errorf("%+v", s)
		}
	}
	if len(list.Services) != len(host.UnitSpecs())+1 {
		t.Errorf("%d services", len(list.Services))
	}
}

// TestLiveStateSaysWhatIsMissing checks that a machine that does not answer is reported within the answer.
func TestLiveStateSaysWhatIsMissing(t *testing.T) {
	b := bench(t)
	b.Machine.FailNetwork(errors.New("netlink is away"))
	b.Machine.FailResources(errors.New("no /proc"))
	var resources struct{ Error string }
	b.Do(t, "viewer", http.MethodGet, "/system/resources", nil).Want(t, 200).Into(t, &resources)
	var links []struct{ Error string }
	b.Do(t, "viewer", http.MethodGet, "/system/interfaces", nil).Want(t, 200).Into(t, &links)
	if resources.Error != "The machine's load cannot be read." || len(links) != 1 || links[0].Error != "The kernel's interfaces cannot be read." {
		t.Errorf("%+v %+v", resources, links)
	}
}

func TestSY06Fields(t *testing.T) {
	b := bench(t)
	b.Machine.SetLinks(host.Link{Index: 2, Name: "wan0", Flags: []string{"UP"}, Addrs: []host.LinkAddr{{Family: "inet", Local: "198.51.100.1", PrefixLen: 24}}})
	has(t, b.Do(t, "", http.MethodGet, "/system/health", nil).Want(t, 200), "version", "hostname", "os", "kernel", "database", "role")
	has(t, b.Get(t, "/system/resources").Want(t, 200), "load1", "load5", "load15", "num_cpus", "memory_total_bytes", "disk_total_bytes", "conntrack_count", "conntrack_max", "uptime_seconds")
	has(t, b.Get(t, "/system/services").Want(t, 200), "services", "name", "active", "since")
	has(t, b.Get(t, "/system/interfaces").Want(t, 200), "ifindex", "ifname", "flags", "mtu", "link_type", "address", "addr_info",
		"rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_drop", "tx_drop")
	has(t, b.Get(t, "/system/components").Want(t, 200), "name", "state", "revision", "applied_revision", "last_error", "last_applied_at", "duration_ms")
}

func TestSY01Restart(t *testing.T) {
	b := bench(t)
	for _, kind := range []string{"reverse-proxy", "forward-proxy", "dns", "ntp", "scheduler"} {
		b.Do(t, "admin", http.MethodPost, "/system/service-restart", map[string]string{"kind": kind}).Want(t, 200)
	}
	if b.Audited(t, "system.service-restart") != 5 {
		t.Error("restarts are not audited")
	}
	for _, kind := range []string{"sshd", "haproxy;id", "../x", "", "NTP", "gateway-api"} {
		b.Do(t, "admin", http.MethodPost, "/system/service-restart", map[string]string{"kind": kind}).WantField(t, "kind")
	}
	b.Machine.Uninstall(crowdsec.Unit)
	b.Machine.Uninstall(crowdsec.Bouncer)
	for service, want := range map[string][2]string{"ids-agent": {"not_installed", "not_installed"}, "ids-firewall-bouncer": {"not_installed", "not_installed"}, "waf": {"active", "inactive"}} {
		for i, on := range []bool{true, false} {
			a := b.Do(t, "admin", http.MethodPost, "/system/service-toggle", map[string]any{"service": service, "enabled": on}).Want(t, 200)
			if !strings.Contains(string(a.Data), `"active":"`+want[i]+`"`) {
				t.Errorf("%s: %s", service, a.Data)
			}
		}
	}
	b.Do(t, "admin", http.MethodPost, "/system/service-toggle", map[string]any{"service": "sshd", "enabled": true}).WantField(t, "service")
}

func TestRestartThatFails(t *testing.T) {
	b := bench(t)
	b.Machine.Refuse(chrony.Unit, errors.New("could not bind"))
	a := b.Do(t, "admin", http.MethodPost, "/system/service-restart", `{"kind":"ntp"}`).Want(t, 200)
	if !strings.Contains(string(a.Data), `"failed"`) || !strings.Contains(string(a.Data), "could not bind") {
		t.Fatalf("%s", a.Data)
	}
	b.Machine.Uninstall(chrony.Unit)
	a = b.Do(t, "admin", http.MethodPost, "/system/service-restart", `{"kind":"ntp"}`).Want(t, 200)
	if !strings.Contains(string(a.Data), `"not_installed"`) {
		t.Fatalf("%s", a.Data)
	}
}

func TestFlagsAndLG07(t *testing.T) {
	b := bench(t)
	for _, name := range []string{"ipv6", "maintenance", "auto-update"} {
		b.Do(t, "admin", http.MethodPost, "/system/"+name, `{"enabled":true}`).Want(t, 200)
		if a := b.Get(t, "/system/"+name).Want(t, 200); string(a.Data) != `{"enabled":true}` {
			t.Errorf("%s: %s", name, a.Data)
		}
		if b.Audited(t, "system."+name) != 1 {
			t.Errorf("%s is not audited", name)
		}
		b.Do(t, "admin", http.MethodPost, "/system/"+name, `{"enabled":"yes"}`).WantField(t, "enabled")
	}
	b.Do(t, "admin", http.MethodPut, "/system/retention", `{"audit_days":30,"backup_keep":7}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, "/system/retention", `{"audit_days":-1,"backup_keep":0}`).WantField(t, "audit_days").WantField(t, "backup_keep")
	if a := b.Get(t, "/system/retention"); string(a.Data) != `{"audit_days":30,"backup_keep":7,"history_days":365,"history_sets":10000}` {
		t.Errorf("%s", a.Data)
	}
}

// A flag and its audit entry belong together: neither exists without the other.
func TestFlagAndEntryBelongTogether(t *testing.T) {
	var refused error
	b := benchWith(t, func() error { return refused })
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatal(failed)
	}
	restarts := b.Machine.Restarts(chrony.Unit)
	refused = errors.New("the disk is full")
	b.Do(t, "admin", http.MethodPost, "/system/maintenance", `{"enabled":true}`).Want(t, 500)
	if b.Audited(t, "system.maintenance") != 0 {
		t.Error("a flag that was not set has an entry")
	}
	refused = nil
	if err := os.MkdirAll(filepath.Dir(b.Paths.State("audit")), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(b.Paths.State("audit")), os.WriteFile(b.Paths.State("audit"), nil, 0o600)); err != nil { // no entry can be stored
		t.Fatal(err)
	}
	b.Do(t, "admin", http.MethodPost, "/system/maintenance", `{"enabled":true}`).Want(t, 500)
	b.Do(t, "admin", http.MethodPost, "/system/service-restart", `{"kind":"ntp"}`).Want(t, 500)
	if a := b.Get(t, "/system/maintenance").Want(t, 200); string(a.Data) != `{"enabled":false}` || b.Machine.Restarts(chrony.Unit) != restarts {
		t.Errorf("something was done without an entry: %s", a.Data)
	}
}

func TestSwitchNeedsItsValue(t *testing.T) {
	b := bench(t)
	b.Do(t, "admin", http.MethodPost, "/system/ipv6", `{"enabled":true}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPost, "/system/ipv6", `{}`).WantField(t, "enabled")
	b.Do(t, "admin", http.MethodPost, "/system/service-toggle", `{"service":"waf"}`).WantField(t, "enabled")
	if a := b.Get(t, "/system/ipv6"); string(a.Data) != `{"enabled":true}` {
		t.Errorf("%s", a.Data)
	}
}

func TestFlagsDependOnWhatWasRead(t *testing.T) {
	b := bench(t)
	for path, change := range map[string][2]string{
		"/system/ipv6": {"POST", `{"enabled":true}`}, "/system/maintenance": {"POST", `{"enabled":true}`}, "/system/auto-update": {"POST", `{"enabled":true}`}, "/system/retention": {"PUT", `{"audit_days":7}`},
	} {
		tag := b.Get(t, path).Want(t, 200).Header.Get("ETag")
		b.Do(t, "admin", change[0], path, change[1], "If-Match", tag).Want(t, 200)
		b.Do(t, "admin", change[0], path, change[1], "If-Match", tag).Want(t, 412)
	}
}

// The audit log does not expose what a viewer may not read.
func TestDetailsForAdmins(t *testing.T) {
	b := bench(t)
	b.Audit.AdminOnly("secret-kind")
	ctx := actor.With(t.Context(), actor.System("test"))
	for _, action := range []string{"secret-kind.update", "secret-kindness.update"} {
		if err := b.Audit.Record(ctx, action, "x", map[string]string{"issuer": "canary"}); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(b.Handler())
	defer server.Close()
	for role, want := range map[string]int{"admin": 2, "viewer": 1} {
		var list []audit.Entry
		a := b.Do(t, role, http.MethodGet, "/audit", nil).Want(t, 200)
		a.Into(t, &list)
		counts := map[string]int{"list": strings.Count(string(a.Body), "canary")}
		for _, e := range list {
			counts["one"] += strings.Count(string(b.Do(t, role, http.MethodGet, "/audit/"+e.ID.String(), nil).Want(t, 200).Body), "canary")
		}
		counts["recent"] = strings.Count(string(b.Do(t, role, http.MethodGet, "/audit/recent", nil).Want(t, 200).Body), "canary")
		conn, _, err := websocket.Dial(t.Context(), server.URL+"/api/v1/audit/live", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + role}}})
		if err != nil {
			t.Fatal(err)
		}
		for range list {
			_, frame, err := conn.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			counts["live"] += strings.Count(string(frame), "canary")
		}
		conn.CloseNow()
		for where, n := range counts {
			if n != want {
				t.Errorf("%s, %s: %d entries with details instead of %d", role, where, n, want)
			}
		}
	}
}

func TestRetentionKeepsWhatIsAbsent(t *testing.T) {
	b := bench(t)
	b.Do(t, "admin", http.MethodPut, "/system/retention", `{"audit_days":30}`).Want(t, 200)
	if a := b.Get(t, "/system/retention"); string(a.Data) != `{"audit_days":30,"backup_keep":14,"history_days":365,"history_sets":10000}` {
		t.Errorf("%s", a.Data)
	}
}

func TestRenderConfigs(t *testing.T) {
	b := bench(t)
	a := b.Do(t, "admin", http.MethodPost, "/system/render-configs", nil).Want(t, 200)
	if string(a.Data) != `{"ok":true,"rendered":["ntp"],"errors":{}}` || b.Audited(t, "system.render-configs") != 1 {
		t.Fatalf("%s", a.Data)
	}
	b.Machine.Refuse(chrony.Unit, errors.New("could not bind"))
	a = b.Do(t, "admin", http.MethodPost, "/system/render-configs", nil).Want(t, 200)
	if !strings.Contains(string(a.Data), `"ok":false`) || !strings.Contains(string(a.Data), "could not bind") {
		t.Fatalf("%s", a.Data)
	}
}

func TestConfigPreview(t *testing.T) {
	b := bench(t)
	b.Engine.ApplyAll(t.Context())
	if a := b.Get(t, "/system/config-preview?generator=ntp").Want(t, 200); !strings.Contains(string(a.Data), `"content":"a\n"`) || !strings.Contains(string(a.Data), `"diff":""`) {
		t.Fatalf("%s", a.Data)
	}
	installs := b.Machine.Installs(chrony.DropIn)
	b.Machine.SetFile(chrony.DropIn, "by hand\n")
	if a := b.Get(t, "/system/config-preview?generator=ntp").Want(t, 200); !strings.Contains(string(a.Data), `-by hand\n+a\n`) {
		t.Fatalf("%s", a.Data)
	}
	if b.Machine.Installs(chrony.DropIn) != installs {
		t.Fatal("a preview wrote something")
	}
	for _, generator := range []string{"", "x", "../etc/passwd"} {
		b.Get(t, "/system/config-preview?generator="+generator).WantField(t, "generator")
	}
}

func TestLG03AuditLimits(t *testing.T) {
	b := bench(t)
	for _, path := range []string{"/audit/recent", "/audit"} {
		b.Get(t, path).Want(t, 200)
		b.Get(t, path+"?limit=1000").Want(t, 200)
		for _, limit := range []string{"1001", "-1", "x"} {
			b.Get(t, path+"?limit="+limit).WantField(t, "limit")
		}
	}
	b.Get(t, "/audit?from=yesterday&before=x").WantField(t, "from").WantField(t, "before")
}

func TestAuditLive(t *testing.T) {
	b := bench(t)
	for range 60 {
		if err := b.Audit.Record(t.Context(), "old", "", nil); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(b.Handler())
	defer server.Close()
	conn, _, err := websocket.Dial(t.Context(), server.URL+"/api/v1/audit/live", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer viewer"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := func() string {
		t.Helper()
		_, frame, err := conn.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return string(frame)
	}
	for i := range 50 {
		if f := next(); !strings.Contains(f, `"action":"old"`) {
			t.Fatalf("frame %d: %s", i, f)
		}
	}
	b.Do(t, "admin", http.MethodPost, "/system/maintenance", `{"enabled":true}`).Want(t, 200)
	if f := next(); !strings.Contains(f, `"action":"system.maintenance"`) || !strings.Contains(f, `"actor":"admin@example.net"`) {
		t.Fatalf("%s", f)
	}
}

// A restart of the reverse proxy really restarts it: the reload that keeps its connections has its own route.
func TestRestartOfTheReverseProxy(t *testing.T) {
	b := bench(t)
	restart := func() string {
		t.Helper()
		return string(b.Do(t, "admin", http.MethodPost, "/system/service-restart", `{"kind":"reverse-proxy"}`).Want(t, 200).Data)
	}
	const done = `{"name":"reverse-proxy","active":"active","error":"","note":""}`
	if answer := restart(); answer != done || b.Machine.Restarts(haproxy.Unit) != 1 || b.Machine.ProxyReloads() != 0 {
		t.Errorf("one that does not run: %s", answer)
	}
	// A running one may carry the answer, which is sent first.
	answer, before := restart(), b.Machine.Restarts(haproxy.Unit)
	if before != 1 || !strings.Contains(answer, `"active":"activating","error":"","note":"The restart begins now`) {
		t.Errorf("one that runs: %s after %d restarts", answer, before)
	}
	waittest.Until(t, "it is restarted", func() bool { return b.Machine.Restarts(haproxy.Unit) == 2 && b.Machine.ProxyReloads() == 0 })
	if err := b.Machine.Stop(t.Context(), haproxy.Unit); err != nil {
		t.Fatal(err)
	}
	b.Machine.Refuse(haproxy.Unit, errors.New("no"))
	if answer := restart(); !strings.Contains(answer, `"active":"failed","error":"haproxy did not restart`) {
		t.Errorf("one that does not start: %s", answer)
	}
	b.Machine.Refuse(haproxy.Unit, nil)
	b.Machine.Uninstall(haproxy.Unit)
	if answer := restart(); answer != `{"name":"reverse-proxy","active":"not_installed","error":"not installed","note":""}` {
		t.Errorf("one that is not there: %s", answer)
	}
	if b.Audited(t, "system.service-restart") != 4 {
		t.Error("not every restart is audited")
	}
}

// The output of daemons is for administrators: a viewer only gets the sentence, and the audit log has no more.
func TestWordsOfDaemonsAreForAdministrators(t *testing.T) {
	b := bench(t)
	b.Machine.Refuse(chrony.Unit, errors.New("exit status 1: Fatal error : Could not open /etc/chrony/gateway.conf"))
	b.Do(t, "admin", http.MethodPost, "/system/render-configs", nil).Want(t, 200)
	for role, words := range map[string]bool{"admin": true, "viewer": false} {
		a := b.Do(t, role, http.MethodGet, "/system/components", nil).Want(t, 200)
		if !strings.Contains(string(a.Data), `"daemon":"down","last_error":"`) || strings.Contains(string(a.Data), "/etc/chrony") != words {
			t.Errorf("%s: %s", role, a.Data)
		}
	}
	if a := b.Do(t, "viewer", http.MethodGet, "/audit", nil); strings.Contains(string(a.Body), "/etc/chrony") {
		t.Errorf("%s", a.Body)
	}
}
