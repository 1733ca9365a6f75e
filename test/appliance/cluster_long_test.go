//go:build long

package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab/labtest"
	"edge.internal/gateway/test/node"
	people "edge.internal/gateway/test/traffic"
)

// TestCluster joins two machines to a cluster, and updates them one after the other. What a rolling update does in its phases
// is tested in internal/cluster, too.
func TestCluster(t *testing.T) {
	one := newAppliance(t)
	beside, err := one.BootBeside(t.Context(), release())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := beside.Close(); err != nil {
			t.Error(err)
		}
	})
	two := &appliance{beside, &gateway{beside, labtest.NewBrowser(t, "https://"+node.SecondAddress+":3443", beside.Dial), 1, node.SecondAddress}, one.dist}
	for _, stage := range []struct {
		name string
		do   func(t *testing.T, one, two *appliance)
	}{
		{"Join", joinMachines}, {"VirtualAddress", virtualAddress}, {"Repair", repairStandby}, {"RestoreThePrimary", restoreThePrimary}, {"StandbyThatStays", standbyThatStays}, {"RollingUpdate", rollingUpdate}, {"Leave", leaveCluster},
	} {
		if !t.Run(stage.name, func(t *testing.T) { stage.do(t, one, two) }) {
			for _, g := range []*appliance{one, two} {
				out, _ := g.Run(context.WithoutCancel(t.Context()), "journalctl", "--no-pager", "-n", "60", "-u", "gateway-api", "-u", "gateway-upgrade", "-u", "gateway-database", "-u", "keepalived")
				t.Logf("%s:\n%s", g.wan, out)
			}
			t.Fatalf("what follows %s needs it", stage.name)
		}
	}
}

// offerBoth offers a version to both nodes.
func offerBoth(t *testing.T, one, two *appliance, version string) {
	t.Helper()
	one.publish(t, version)
	if err := two.Offer(t.Context(), two.dist); err != nil {
		t.Fatal(err)
	}
}

// joinMachines installs the gateway on both, sets the first one up, and has the second one join it with the command that the console shows.
func joinMachines(t *testing.T, one, two *appliance) {
	for _, g := range []*appliance{one, two} {
		if err := g.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	offerBoth(t, one, two, "1.0.0")
	var both errgroup.Group
	for _, g := range []*appliance{one, two} {
		both.Go(func() error { return g.Install(t.Context(), "gateway") })
	}
	if err := both.Wait(); err != nil {
		t.Fatal(err)
	}
	two.sh(t, "echo '"+node.Address+" gateway.example.net' >>/etc/hosts")
	for _, g := range []*appliance{one, two} {
		g.waitUp(t)
	}
	one.Must(t, http.MethodPost, "/setup/complete", fields{
		"admin_email": labtest.AdminEmail, "admin_password": labtest.AdminPassword, "fqdn": "gateway.example.net", "acme_email": labtest.AdminEmail,
		"acme_enabled": false, "ipv6_enabled": true, "setup_token": one.sh(t, "gateway-ctl setup-token"),
	}, 200, nil)
	one.Login(t)
	var token struct{ Command string }
	one.Must(t, http.MethodPost, "/cluster/join-tokens", fields{"node_fqdn": "two.example.net"}, 201, &token)
	two.sh(t, token.Command)
	two.Login(t) // with the cluster's account
	one.well(t)
	one.Must(t, http.MethodPost, "/ntp/pools", fields{"kind": "server", "address": "192.0.2.123"}, 201, nil)
	waittest.UntilNil(t, "a change of the primary is on the standby", func() error {
		return two.tells(t, "192.0.2.123", "cat", "/etc/chrony/conf.d/gateway.conf")
	})
}

// well waits until the cluster is well, as this node sees it.
func (g *appliance) well(t *testing.T) {
	t.Helper()
	waittest.Within(t, 4*time.Minute, "the cluster is well", func() error {
		var is struct{ Health, Mode string }
		a, err := g.Do(t.Context(), http.MethodGet, "/cluster/status", nil)
		if err == nil && (a.Status != 200 || json.Unmarshal(a.Data, &is) != nil || is.Health != "OK" || is.Mode != "cluster") {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return err
	})
}

// virtualAddress has keepalived run with the gateway's file, by systemd, on both nodes. One of them has the address.
func virtualAddress(t *testing.T, one, two *appliance) {
	for _, g := range []*appliance{one, two} {
		g.Must(t, http.MethodPut, "/cluster/vip-settings", fields{"vip_address": vip, "vip_interface": "eth0", "vrrp_router_id": 77}, 200, nil)
	}
	for _, g := range []*appliance{one, two} {
		g.WaitState(t, "vrrp", "live", time.Minute)
		if run := g.sh(t, "cat /proc/$(systemctl show --property=MainPID --value keepalived)/cmdline | tr '\\0' ' '"); !strings.Contains(run, "/etc/keepalived/gateway.conf") {
			t.Errorf("keepalived runs as %s", run)
		}
		g.areConfined(t, clusterDaemons)
	}
	waittest.Until(t, "one node has the virtual address", func() bool { return one.hasVIP(t) != two.hasVIP(t) })
	// After a kill it restarts, and only one node has the address.
	holder := one
	if two.hasVIP(t) {
		holder = two
	}
	before := holder.pid(t, "keepalived")
	holder.sh(t, "systemctl kill --signal=KILL keepalived")
	holder.another(t, "keepalived", before)
	waittest.Until(t, "one node has the virtual address", func() bool { return one.hasVIP(t) != two.hasVIP(t) })
	for _, g := range []*appliance{one, two} {
		g.WaitState(t, "vrrp", "live", time.Minute)
	}
	one.well(t)
}

// repairStandby has the standby repaired by its unit. The API is killed as soon as it runs, and shows how it went.
func repairStandby(t *testing.T, _, two *appliance) {
	var before, now struct {
		State, Error string
		StartedAt    time.Time `json:"started_at"`
	}
	two.Must(t, http.MethodGet, "/cluster/repair-replication", nil, 200, &before)
	two.Must(t, http.MethodPost, "/cluster/repair-replication", fields{}, 200, nil)
	two.sh(t, "systemctl kill --signal=KILL gateway-api")
	waittest.UntilNil(t, "the repair has ended", func() error {
		a, err := two.Do(t.Context(), http.MethodGet, "/cluster/repair-replication", nil)
		if err == nil && (a.Status != 200 || json.Unmarshal(a.Data, &now) != nil || now.State == "running" || now.StartedAt.Equal(before.StartedAt)) {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return err
	})
	if now.State != "succeeded" {
		t.Errorf("%+v", now)
	}
	waittest.UntilNil(t, "nothing is left of the wish", func() error {
		if out, err := two.Run(t.Context(), "test", "-e", "/var/lib/gateway-repair/wish.json"); err == nil {
			return fmt.Errorf("it is there %s", out)
		}
		return nil
	})
	if ran := two.sh(t, "systemctl show --property=Result,ExecMainStatus,User gateway-repair"); !strings.Contains(ran, "Result=success") || !strings.Contains(ran, "User=gateway") {
		t.Errorf("gateway-repair: %s", ran)
	}
	two.waitUp(t)
	two.nothingFailed(t)
}

// restoreThePrimary restores a backup on the primary while the standby follows it. The gateway's role there may not disconnect the standby. Afterwards the standby
// has what the backup has, follows the primary again, and the primary keeps nothing for the time before.
func restoreThePrimary(t *testing.T, one, two *appliance) {
	backup := one.backUp(t)
	one.Must(t, http.MethodPost, "/ntp/pools", fields{"kind": "server", "address": "192.0.2.126"}, 201, nil)
	waittest.UntilNil(t, "a change that is not in the backup is on the standby", func() error {
		return two.tells(t, "192.0.2.126", "cat", "/etc/chrony/conf.d/gateway.conf")
	})
	one.Must(t, http.MethodPost, "/backups/"+backup+"/restore", nil, 200, nil)
	if r := one.restored(t, backup); r.State != "done" {
		t.Fatalf("%+v", r)
	}
	one.waitUp(t)
	one.Login(t)
	one.leftNothing(t)
	one.well(t)
	one.Must(t, http.MethodPost, "/ntp/pools", fields{"kind": "server", "address": "192.0.2.127"}, 201, nil)
	waittest.UntilNil(t, "a change of the restored primary is on the standby", func() error {
		return two.tells(t, "192.0.2.127", "cat", "/etc/chrony/conf.d/gateway.conf")
	})
	if file := two.sh(t, "cat /etc/chrony/conf.d/gateway.conf"); strings.Contains(file, "192.0.2.126") {
		t.Errorf("the standby has what was not in the backup:\n%s", file)
	}
	if slots := one.sh(t, `runuser -u postgres -- psql -XAtc "SELECT count(*) FROM pg_replication_slots"`); slots != "1" {
		t.Errorf("the primary keeps %s slots", slots)
	}
}

// rolling is the state that the primary keeps.
type rolling struct{ Phase, Node, From, To, Error string }

func (g *appliance) rolling(t *testing.T) (u rolling) {
	t.Helper()
	out, err := g.Run(t.Context(), "cat", "/var/lib/gateway/rolling-update.json")
	if err == nil {
		_ = json.Unmarshal([]byte(out), &u) // which is written whole, or not at all
	}
	return u
}

func (g *appliance) version(t *testing.T) string {
	t.Helper()
	var health struct{ Version string }
	if a, err := g.Do(t.Context(), http.MethodGet, "/system/health", nil); err != nil || json.Unmarshal(a.Data, &health) != nil {
		return ""
	}
	return health.Version
}

// standbyThatStays never gets its new version: the update stops after its limit, and the primary is untouched.
func standbyThatStays(t *testing.T, one, two *appliance) {
	offerBoth(t, one, two, "1.1.0")
	one.Must(t, http.MethodPost, "/system/upgrade", nil, 409, nil)
	two.write(t, "/etc/systemd/system/gateway-upgrade.service.d/zz-test.conf", []byte("[Service]\nExecStart=\nExecStart=/bin/sleep infinity\n"))
	one.write(t, "/etc/systemd/system/gateway-api.service.d/zz-test.conf", []byte("[Service]\nExecStart=\nExecStart=/usr/lib/gateway/gateway-api --update-within=20s\n"))
	two.sh(t, "systemctl daemon-reload")
	one.sh(t, "systemctl daemon-reload; systemctl restart gateway-api")
	one.waitUp(t)
	one.well(t)
	t.Log(one.sh(t, "gateway-ctl rolling-update begin"))
	var u rolling
	waittest.Within(t, 8*time.Minute, "the update stops", func() error {
		if u = one.rolling(t); u.Phase != "error" {
			return fmt.Errorf("%+v", u)
		}
		return nil
	})
	t.Logf("%+v", u)
	if u.Node != "two.example.net" || !strings.Contains(u.Error, "runs version 1.0.0") || one.version(t) != "1.0.0" {
		t.Errorf("%+v", u)
	}
	if out, err := one.Run(t.Context(), "ls", "/var/lib/gateway-upgrade/upgrade.json", "/var/lib/gateway-upgrade/wish.json"); err == nil || strings.Count(out, "No such file") != 2 {
		t.Errorf("the primary was upgraded: %s", out)
	}
	two.sh(t, `rm /etc/systemd/system/gateway-upgrade.service.d/zz-test.conf; systemctl daemon-reload
		systemctl stop gateway-upgrade; rm /var/lib/gateway-upgrade/wish.json`)
	one.sh(t, "rm /etc/systemd/system/gateway-api.service.d/zz-test.conf; systemctl daemon-reload; systemctl restart gateway-api")
	one.waitUp(t)
	one.well(t)
}

// publishSite publishes a site on both, and returns how to request it at the virtual address.
func publishSite(t *testing.T, one, two *appliance) people.Site {
	t.Helper()
	one.listenOutside(t, "198.51.100.1:8080", origin)
	backend := one.live(t, http.MethodPost, "/backends", fields{"name": "origin", "health_check_enabled": false})
	one.live(t, http.MethodPost, "/backends/"+backend+"/servers", fields{"name": "one", "address": "198.51.100.1", "port": 8080})
	one.live(t, http.MethodPost, "/domains", fields{"name": "www.example.net", "backend_id": backend, "http_to_https": false})
	waittest.UntilNil(t, "the site is on the standby", func() error {
		return two.tells(t, "www.example.net", "grep", "-r", "www.example.net", "/etc/haproxy/gateway")
	})
	two.WaitState(t, "reverse-proxy", "live", time.Minute)
	site := people.Site{Address: vip + ":80", Name: "www.example.net", Says: origin, Within: 5 * time.Second, Enter: one.OnOutside}
	waittest.UntilNil(t, "the site answers at the virtual address", func() error { return site.Enter(site.Ask) })
	return site
}

// rollingUpdate updates both, the standby first, during requests to a site at the virtual address. The API of the primary is killed at each step, and continues.
func rollingUpdate(t *testing.T, one, two *appliance) {
	site := publishSite(t, one, two)
	const points = "/var/lib/gateway/failpoints"
	one.write(t, "/etc/systemd/system/gateway-api.service.d/zz-test.conf", []byte("[Service]\nEnvironment=GATEWAY_FAILPOINTS="+points+"\n"))
	one.sh(t, "systemctl daemon-reload; systemctl restart gateway-api")
	one.waitUp(t)
	one.well(t)
	one.sh(t, "install -d -o gateway -g gateway "+points+"; cd "+points+"; for point in "+strings.Join(failpoint.Rolling(), " ")+"; do echo -n kill >$point; done")
	users := people.Offer(site, 50)
	_, _ = one.Do(t.Context(), http.MethodPost, "/cluster/rolling-update", nil) // it may be killed before it answers
	waittest.Within(t, 20*time.Minute, "the file is gone", func() error {
		u := one.rolling(t)
		if u.Phase == "error" {
			t.Fatalf("%+v", u)
		}
		if u.Phase != "" || one.version(t) != "1.1.0" {
			return fmt.Errorf("%+v", u)
		}
		return nil
	})
	saw := users.End()
	t.Logf("people who used the site: %s", saw)
	// The address leaves each of them once, with the connections that are open.
	if saw.Failed > saw.Cut() || saw.Cut() > 2*people.Callers {
		t.Error("more requests failed than were under way when the address moved")
	}
	if left := one.sh(t, "ls "+points+"; rm -r "+points+" /etc/systemd/system/gateway-api.service.d/zz-test.conf; systemctl daemon-reload"); left != "" {
		t.Errorf("the primary's API was not killed at %q", left)
	}
	for _, g := range []*appliance{one, two} {
		g.waitUp(t)
		if g.version(t) != "1.1.0" {
			t.Errorf("%s runs %s", g.wan, g.version(t))
		}
		g.WaitState(t, "vrrp", "live", time.Minute)
	}
	var first, then struct {
		State   string
		EndedAt time.Time `json:"ended_at"`
		BeganAt time.Time `json:"began_at"`
	}
	for g, u := range map[*appliance]any{two: &first, one: &then} {
		if err := json.Unmarshal([]byte(g.sh(t, "cat /var/lib/gateway-upgrade/upgrade.json")), u); err != nil {
			t.Fatal(err)
		}
	}
	if first.State != "done" || then.State != "done" || !first.EndedAt.Before(then.BeganAt) {
		t.Errorf("the standby: %+v, the primary: %+v", first, then)
	}
	one.well(t)
	waittest.Until(t, "one node has the virtual address", func() bool { return one.hasVIP(t) != two.hasVIP(t) })
	one.Must(t, http.MethodPost, "/ntp/pools", fields{"kind": "server", "address": "192.0.2.124"}, 201, nil)
	waittest.UntilNil(t, "a change of the primary is on the standby", func() error {
		return two.tells(t, "192.0.2.124", "cat", "/etc/chrony/conf.d/gateway.conf")
	})
}

// leaveCluster makes the second machine leave: it becomes a single gateway, and the first one keeps nothing of it.
func leaveCluster(t *testing.T, one, two *appliance) {
	var nodes []struct{ ID, FQDN string }
	one.Must(t, http.MethodGet, "/cluster/nodes", nil, 200, &nodes)
	for _, n := range nodes {
		if n.FQDN == "two.example.net" {
			one.Must(t, http.MethodPost, "/cluster/nodes/"+n.ID+"/leave", nil, 200, nil)
		}
	}
	sql := func(g *appliance, query string) string {
		// PostgreSQL may be restarting.
		out, _ := g.Run(t.Context(), "setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "psql", "-XAtq", "-d", "gateway", "-c", query)
		return strings.TrimSpace(out)
	}
	if slots := sql(one, "SELECT count(*) FROM pg_replication_slots"); slots != "0" {
		t.Errorf("the primary keeps %s slots", slots)
	}
	waittest.Until(t, "the machine that left is in no cluster", func() bool { return sql(two, "SELECT role FROM ha_state") == "single" })
	waittest.Until(t, "its PostgreSQL listens to no other node", func() bool { return sql(two, "SHOW listen_addresses") == "localhost" })
	two.waitUp(t)
	two.Login(t)
	two.Must(t, http.MethodPost, "/ntp/pools", fields{"kind": "server", "address": "192.0.2.125"}, 201, nil)
}
