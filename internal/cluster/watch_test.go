package cluster_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/waittest"
)

// The decision of a node, for each of its roles and each role of another one.
func TestJudge(t *testing.T) {
	t.Parallel()
	mine := func(role cluster.Role, epoch int64) cluster.State {
		s := cluster.State{Role: role, Epoch: epoch, PrimaryID: "b"}
		if role == cluster.Primary || role == cluster.SteppingDown {
			s.PrimaryID = "me"
		}
		return s
	}
	torn := cluster.State{Role: cluster.Fenced, Epoch: 5}
	is := func(id string, role cluster.Role, epoch int64) cluster.Identity {
		return cluster.Identity{ID: id, Role: role, Epoch: epoch}
	}
	split := cluster.Identity{ID: "b", Role: cluster.Fenced, Epoch: 5, Split: true}
	for name, x := range map[string]struct {
		mine     cluster.State
		reports  []cluster.Identity
		do, node string
	}{
		"a primary hears no one":                                 {mine(cluster.Primary, 5), nil, "", ""},
		"a primary hears its standby":                            {mine(cluster.Primary, 5), []cluster.Identity{is("b", cluster.Standby, 5)}, "", ""},
		"a primary hears an older primary":                       {mine(cluster.Primary, 5), []cluster.Identity{is("b", cluster.Primary, 4)}, "", ""},
		"a primary hears a newer primary":                        {mine(cluster.Primary, 5), []cluster.Identity{is("b", cluster.Primary, 6)}, "fence", "b"},
		"a primary hears the standby of a newer primary":         {mine(cluster.Primary, 5), []cluster.Identity{is("c", cluster.Standby, 6)}, "fence", "c"},
		"a primary hears a newer primary and its standby":        {mine(cluster.Primary, 5), []cluster.Identity{is("c", cluster.Standby, 6), is("b", cluster.Primary, 6)}, "fence", "b"},
		"a primary hears one that was fenced by a newer primary": {mine(cluster.Primary, 5), []cluster.Identity{is("c", cluster.Fenced, 6)}, "fence", "c"},
		"a primary hears another of its epoch":                   {mine(cluster.Primary, 5), []cluster.Identity{is("b", cluster.Primary, 5)}, "split", "b"},
		"a primary hears one that has found two of its epoch":    {mine(cluster.Primary, 5), []cluster.Identity{split}, "split", "b"},
		"a primary hears one that was fenced in its epoch":       {mine(cluster.Primary, 5), []cluster.Identity{is("b", cluster.Fenced, 5)}, "", ""},
		"a newer one counts for more than one of the same epoch": {mine(cluster.Primary, 5), []cluster.Identity{is("b", cluster.Primary, 5), is("c", cluster.Primary, 6)}, "fence", "c"},
		"a primary hears itself":                                 {mine(cluster.Primary, 5), []cluster.Identity{is("me", cluster.Primary, 9)}, "", ""},
		"one that steps down hears a newer primary":              {mine(cluster.SteppingDown, 5), []cluster.Identity{is("b", cluster.Primary, 6)}, "fence", "b"},
		"one that steps down hears its standby":                  {mine(cluster.SteppingDown, 5), []cluster.Identity{is("b", cluster.Standby, 5)}, "", ""},
		"a standby hears its primary":                            {mine(cluster.Standby, 5), []cluster.Identity{is("b", cluster.Primary, 5)}, "", ""},
		"a standby hears a newer primary":                        {mine(cluster.Standby, 5), []cluster.Identity{is("b", cluster.Standby, 6), is("c", cluster.Primary, 6)}, "follow", "c"},
		"a standby hears an older primary":                       {mine(cluster.Standby, 5), []cluster.Identity{is("c", cluster.Primary, 4)}, "", ""},
		"a standby hears two newer primaries":                    {mine(cluster.Standby, 5), []cluster.Identity{is("b", cluster.Primary, 6), is("c", cluster.Primary, 6)}, "", ""},
		"a standby hears two newer primaries, one newer":         {mine(cluster.Standby, 5), []cluster.Identity{is("b", cluster.Primary, 7), is("c", cluster.Primary, 6)}, "follow", "b"},
		"the same, in the other order":                           {mine(cluster.Standby, 5), []cluster.Identity{is("c", cluster.Primary, 6), is("b", cluster.Primary, 7)}, "follow", "b"},
		"a fenced one hears the primary that fenced it":          {mine(cluster.Fenced, 6), []cluster.Identity{is("b", cluster.Primary, 6)}, "follow", "b"},
		"a fenced one hears an older primary":                    {mine(cluster.Fenced, 6), []cluster.Identity{is("c", cluster.Primary, 5)}, "", ""},
		"one of two hears the other, which does not know yet":    {torn, []cluster.Identity{is("b", cluster.Primary, 5)}, "", ""},
		"one of two hears the other, which knows":                {torn, []cluster.Identity{split}, "", ""},
		"one of two hears that the other was promoted":           {torn, []cluster.Identity{is("b", cluster.Primary, 6)}, "follow", "b"},
		"a node without a cluster hears a primary":               {mine(cluster.Single, 0), []cluster.Identity{is("b", cluster.Primary, 6)}, "", ""},
	} {
		if do, node := cluster.Judge(x.mine, "me", x.reports); do != x.do || node != x.node {
			t.Errorf("%s: %q %s", name, do, node)
		}
	}
}

func (g *gate) beat(t *testing.T) {
	t.Helper()
	if err := g.room.Beat(actor.With(t.Context(), actor.System("test"))); err != nil {
		t.Fatal(err)
	}
}

// CL-07: a silent node is offline after three heartbeats, the cluster is degraded, and a status takes little more than two seconds. A
// node that answers again is online.
func TestOffline(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	primary.beat(t)
	// A listener that accepts connections and stays silent is worse than none.
	silent := silence(t)
	var was string
	if err := primary.DB.QueryRow(t.Context(), "SELECT api_url FROM ha_nodes WHERE id = $1", standby.me.ID).Scan(&was); err != nil {
		t.Fatal(err)
	}
	dbtest.Exec(t, primary.DB, "UPDATE ha_nodes SET api_url = $2 WHERE id = $1", standby.me.ID, "https://"+silent)
	began := time.Now()
	s := primary.status(t)
	if took := time.Since(began); took > 2500*time.Millisecond+busy {
		t.Errorf("it took %s", took)
	}
	if s.Health != "degraded" || len(s.Peers) != 1 || s.Peers[0].Status != cluster.Online || s.Peers[0].Error == "" || len(s.Problems) == 0 {
		t.Errorf("%+v", s)
	}
	for range 2 {
		primary.beat(t)
		primary.status(t) // which does not count
	}
	if m := primary.members(t)[standby.me.ID]; m.Status != cluster.Online {
		t.Errorf("%s after two", m.Status)
	}
	primary.beat(t)
	if m := primary.members(t)[standby.me.ID]; m.Status != cluster.Offline || m.Version != "1.0.0" {
		t.Errorf("%+v after three", m)
	}
	// The primary's view of it is its own.
	if m := standby.members(t)[standby.me.ID]; m.Status == cluster.Offline {
		t.Errorf("%+v", m)
	}
	dbtest.Exec(t, primary.DB, "UPDATE ha_nodes SET api_url = $2 WHERE id = $1", standby.me.ID, was)
	primary.beat(t)
	if m := primary.members(t)[standby.me.ID]; m.Status != cluster.Online {
		t.Errorf("%+v", m)
	}
	well(t, primary)
}

// silence returns the address of a server that accepts connections and stays silent.
func silence(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// busy is the extra time on a machine that is busy with other tests.
const busy = 5 * time.Second

// A change of the primary that does not arrive because a row was changed by hand is drift, and the table is named; a repair heals it, and
// never runs on the primary.
func TestDriftAndRepair(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	if err := store(t.Context(), primary.node, "one.example.net"); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the row arrives", func() bool { return standby.has(t, "one.example.net") })
	dbtest.Exec(t, standby.DB, "SET session_replication_role = replica; UPDATE ntp_pools SET minpoll = 7 WHERE address = 'one.example.net'")
	for _, g := range []*gate{primary, standby} {
		// A busy machine may take longer for two checks than a status may.
		waittest.Until(t, "the drift is found, with its table", func() bool {
			s := g.status(t)
			return s.DriftFound && s.Health == "degraded" && strings.Join(s.Peers[0].Drift, " ") == "ntp_pools"
		})
	}
	a := primary.Do(t, "admin", http.MethodPost, "/cluster/repair-replication", map[string]any{"node_id": primary.me.ID}).Want(t, 409)
	if a.Error.Code != "conflict" {
		t.Errorf("%s", a.Body)
	}
	primary.Do(t, "admin", http.MethodPost, "/cluster/repair-replication", `{"node_id":"x"}`).WantField(t, "node_id")
	var begun cluster.Repairing
	primary.Do(t, "admin", http.MethodPost, "/cluster/repair-replication", nil).Want(t, 200).Into(t, &begun)
	if begun.State != "delegated" || strings.Join(begun.Nodes, " ") != standby.me.Name {
		t.Errorf("%+v", begun)
	}
	var now cluster.Repairing
	waittest.Until(t, "the repair ends", func() bool {
		standby.Get(t, "/cluster/repair-replication").Want(t, 200).Into(t, &now)
		return now.State == "succeeded"
	})
	if now.Tables["ntp_pools"].Changed != 1 || now.EndedAt == nil {
		t.Errorf("%+v", now)
	}
	waittest.Until(t, "there is no drift", func() bool { s := primary.status(t); return s.Health == "OK" && !s.DriftFound })
	if s := primary.state(t); s.Role != cluster.Primary {
		t.Errorf("%+v", s)
	}
}

// CL-09: both nodes claim to be the primary. Neither accepts changes until one is promoted, which the other one then follows.
func TestSplitBrain(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	if _, err := standby.room.Promote(t.Context(), cluster.Promotion{Forced: true}); err != nil {
		t.Fatal(err)
	}
	dbtest.Exec(t, primary.DB, "UPDATE ha_state SET epoch = 2") // as if it had been promoted, too
	if s := primary.status(t); s.Health != "split-brain" || s.PrimaryID != "" {
		t.Errorf("%+v", s)
	}
	for _, g := range []*gate{primary, standby} {
		// On a slow machine, the other one may not answer in time at first.
		waittest.Until(t, "a node that sees another primary is fenced", func() bool { g.beat(t); return g.state(t).Role == cluster.Fenced })
		if g.takes(t, "refused.example.net") {
			t.Error("one of two takes changes")
		}
	}
	for _, g := range []*gate{primary, standby} {
		g.beat(t) // and it stays so
		if s := g.status(t); s.Health != "split-brain" || g.state(t).Role != cluster.Fenced {
			t.Errorf("%+v %+v", s, g.state(t))
		}
	}
	primary.Do(t, "admin", http.MethodPost, "/cluster/promote", nil).Want(t, 200)
	if s := primary.state(t); s.Role != cluster.Primary || s.Epoch != 3 || !primary.takes(t, "taken.example.net") {
		t.Errorf("%+v", s)
	}
	standby.beat(t)
	waittest.Until(t, "the other one follows", func() bool { return standby.state(t).Role == cluster.Standby && standby.has(t, "taken.example.net") })
	well(t, primary, standby)
}

// hangs accepts connections and never answers; asked returns how many there were.
func hangs(t *testing.T) (where string, asked func() int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var count atomic.Int64
	var taken []net.Conn
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			taken = append(taken, conn)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
		for _, conn := range taken {
			_ = conn.Close()
		}
	})
	return listener.Addr().String(), count.Load
}

// A planned promotion through the API: the primary steps down and follows, and nothing is lost. A forced one: the former primary is
// fenced when it learns of it, and what only it had is kept.
func TestPromoteByTheAPI(t *testing.T) {
	t.Parallel()
	one, other := joined(t)
	one.Do(t, "admin", http.MethodPost, "/cluster/promote", nil).Want(t, 409)
	if !one.takes(t, "before.example.net") {
		t.Fatal("the primary takes no change")
	}
	other.Do(t, "viewer", http.MethodPost, "/cluster/promote", nil).Want(t, 403)
	other.Do(t, "admin", http.MethodPost, "/cluster/promote", nil).Want(t, 200)
	if s := other.state(t); s.Role != cluster.Primary || s.Epoch != 2 || !other.has(t, "before.example.net") || one.takes(t, "refused.example.net") {
		t.Errorf("%+v", s)
	}
	one.beat(t)
	waittest.Until(t, "the former primary follows", func() bool { return one.state(t).Role == cluster.Standby })
	if !other.takes(t, "after.example.net") {
		t.Error("the new primary takes no change")
	}
	waittest.Until(t, "the change arrives", func() bool { return one.has(t, "after.example.net") })
	// A node that joins now gets its certificate from the new primary, which has the cluster's authority.
	if token := other.token(t, "three.example.net"); token.CAFingerprint == "" {
		t.Error("no token")
	}

	// The primary is cut off: its listener is listed at an address where no one answers. Promoting waits for it once.
	where, questions := hangs(t)
	dbtest.Exec(t, one.DB, "SET session_replication_role = replica; UPDATE ha_nodes SET api_url = 'https://"+where+"' WHERE id = '"+other.me.ID+"'")
	hurries := func() bool { return one.room.Patience(other.me.ID, true) < one.room.Patience(other.me.ID, false) }
	if hurries() {
		t.Error("a primary that has just answered is given less time than usual, and may be there")
	}
	one.Do(t, "admin", http.MethodPost, "/cluster/promote", nil).Want(t, 503)
	if !hurries() {
		t.Error("a primary that has not answered is waited for as if it had")
	}
	asked := questions()
	one.Do(t, "admin", http.MethodPost, "/cluster/promote", `{"force":true}`).Want(t, 200)
	if n := questions() - asked; n != 1 {
		t.Errorf("the primary that does not answer was asked %d times", n)
	}
	if !other.takes(t, "alone.example.net") {
		t.Error("the primary that was cut off takes no change")
	}
	other.beat(t)
	waittest.Until(t, "the former primary is fenced and follows", func() bool { return other.state(t).Role == cluster.Standby && other.state(t).Epoch == 3 })
	if other.has(t, "alone.example.net") || other.takes(t, "refused.example.net") {
		t.Error("it has what the primary has not")
	}
	files, err := os.ReadDir(other.Paths.State(cluster.Folder))
	if err != nil {
		t.Fatal(err)
	}
	kept := false
	for _, f := range files {
		if strings.HasPrefix(f.Name(), "differences-") {
			b, err := os.ReadFile(other.Paths.State(cluster.Folder + "/" + f.Name()))
			kept = kept || err == nil && strings.Contains(string(b), "alone.example.net")
		}
	}
	if !kept {
		t.Error("what it alone had is lost")
	}
}

// A primary that stepped down for no one becomes the primary again.
func TestResumesByItself(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	if _, err := primary.room.StepDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	primary.beat(t)
	if primary.takes(t, "refused.example.net") {
		t.Error("it takes a change at once")
	}
	dbtest.Exec(t, primary.DB, "UPDATE ha_state SET changed_at = now() + interval '1 day'") // the clock of the machine was set back
	primary.ahead.by.Add(int64(20 * time.Second))
	primary.beat(t)
	if !primary.takes(t, "taken.example.net") {
		t.Error("it takes no change")
	}
	waittest.Until(t, "it arrives", func() bool { return standby.has(t, "taken.example.net") })
}

// A node that leaves is out of the list and out of the cluster; the primary cannot leave.
func TestLeave(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	leave := func(g *gate, id string, status int) {
		t.Helper()
		g.Do(t, "admin", http.MethodPost, "/cluster/nodes/"+id+"/leave", nil).Want(t, status)
	}
	leave(primary, primary.me.ID, 409)
	leave(primary, "nonsense", 404)
	leave(standby, standby.me.ID, 503)
	primary.token(t, "three.example.net")
	leave(primary, "prenode-three.example.net", 200)
	leave(primary, standby.me.ID, 200)
	if all := primary.members(t); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	if s := standby.state(t); s.Role != cluster.Single || s.PrimaryID != "" || !standby.takes(t, "own.example.net") || len(standby.members(t)) != 0 || standby.Rows(t, "ha_ca") != 0 {
		t.Errorf("%+v", s)
	}
	if s := standby.status(t); s.Mode != "single-node" || s.Health != "OK" {
		t.Errorf("%+v", s)
	}
	if s := primary.status(t); s.Mode != "single-node" || s.Health != "OK" || len(s.Peers) != 0 {
		t.Errorf("%+v", s)
	}
	standby.beat(t) // which does nothing
	if _, err := os.Stat(standby.Paths.State(cluster.Folder + "/node.pem")); err == nil {
		t.Error("it has its certificate still")
	}
	if n := standby.Rows(t, "audit_outbox"); n != 0 || standby.Audited(t, "cluster.left") != 1 {
		t.Errorf("%d entries wait for a primary", n)
	}
	// It joins again.
	if err := standby.join(t, primary, primary.token(t, standby.me.Name).Token); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the cluster is well", func() bool { s := primary.status(t); return s.Health == "OK" && s.Mode == "cluster" })
	if standby.has(t, "own.example.net") {
		t.Error("what it changed alone is in the cluster")
	}
	// It is removed while it does not answer, and later leaves by itself.
	standby.shut()
	leave(primary, standby.me.ID, 200)
	standby = standby.again(t, "1.0.0")
	leave(standby, standby.me.ID, 200)
	if s := standby.state(t); s.Role != cluster.Single {
		t.Errorf("%+v", s)
	}
}

// Each node's own settings that should be equal are compared, and the field is named.
func TestSettingsDiffer(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	for g, id := range map[**gate]string{&primary: "51", &standby: "52"} {
		(*g).deps.Settings = func(context.Context) (map[string]string, error) {
			return map[string]string{"vip_address": "192.0.2.9", "vrrp_router_id": id}, nil
		}
		*g = (*g).again(t, "1.0.0")
	}
	for _, g := range []*gate{primary, standby} {
		s := g.status(t)
		if s.Health != "degraded" || strings.Join(s.Peers[0].Differ, " ") != "vrrp_router_id" || !strings.Contains(strings.Join(s.Problems, " "), "Settings differ on "+s.Peers[0].FQDN+": vrrp_router_id.") {
			t.Errorf("%+v", s)
		}
	}
}

// A requested repair outlives gateway-api: it is reported as running until gateway-repair, which may be interrupted, has finished it. In
// the meantime no other one begins, and a finished one is not repeated.
func TestRepairGoesOn(t *testing.T) {
	t.Parallel()
	_, standby := joined(t)
	repair := func(g *gate) (now cluster.Repairing) {
		g.Get(t, "/cluster/repair-replication").Want(t, 200).Into(t, &now)
		return now
	}
	grant := func() {
		t.Helper()
		if err := standby.room.GrantRepair(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	grant() // there is nothing to do
	joining := repair(standby)
	byHand(t, standby, "DELETE FROM ntp_pools")

	standby.Machine.LendJob(job.Repair, nil) // gateway-repair is killed before its first step
	var begun cluster.Repairing
	standby.Do(t, "admin", http.MethodPost, "/cluster/repair-replication", `{"force":true}`).Want(t, 200).Into(t, &begun)
	if begun.State != "running" || begun.StartedAt == nil || !begun.Force {
		t.Errorf("%+v", begun)
	}
	standby.Do(t, "admin", http.MethodPost, "/cluster/repair-replication", `{"force":true}`).Want(t, 409)
	later(10*time.Minute, standby)
	standby.beat(t) // would synchronise it with the primary at once
	if now := repair(standby); now.State != "running" || !now.StartedAt.Equal(*begun.StartedAt) {
		t.Errorf("%+v", now)
	}
	wish, err := cluster.Job.Wish(standby.Machine)
	if err != nil {
		t.Fatal(err)
	}
	// Killed again, half-way, together with gateway-api.
	file := standby.Paths.State(cluster.Folder + "/repair.json")
	if err := os.WriteFile(file, []byte(`{"state":"running","wish":"`+wish.ID+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	standby = standby.again(t, "1.0.0")
	standby.beat(t)
	if now := repair(standby); now.State != "running" {
		t.Errorf("%+v", now)
	}
	grant()
	done := repair(standby)
	if done.State != "succeeded" || !done.Force || done.EndedAt == nil || done.StartedAt.Equal(*joining.StartedAt) {
		t.Errorf("%+v", done)
	}
	if wish, err := cluster.Job.Wish(standby.Machine); err == nil {
		t.Errorf("the wish is left: %+v", wish)
	}
	// Killed between its end and the removal of the request.
	standby.Machine.LendJob(job.Repair, nil)
	standby.Do(t, "admin", http.MethodPost, "/cluster/repair-replication", nil).Want(t, 200)
	if wish, err = cluster.Job.Wish(standby.Machine); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`{"state":"failed","error":"For a reason.","wish":"`+wish.ID+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	grant()
	if now := repair(standby); now.State != "failed" || now.Error != "For a reason." {
		t.Errorf("%+v", now)
	}
}

// A synchronisation that a node began itself is not reported as running forever after its program was killed.
func TestInterruptedSyncIsOver(t *testing.T) {
	t.Parallel()
	_, standby := joined(t)
	if err := os.WriteFile(standby.Paths.State(cluster.Folder+"/repair.json"), []byte(`{"state":"running"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	standby = standby.again(t, "1.0.0")
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { standby.room.Run(ctx); close(done) }()
	defer func() { stop(); <-done }()
	waittest.Until(t, "it is over", func() bool {
		var now cluster.Repairing
		standby.Get(t, "/cluster/repair-replication").Want(t, 200).Into(t, &now)
		return now.State == "failed" && now.Error == "It was interrupted."
	})
}

// Certificates are renewed before they expire: the primary's own, and the standby's.
func TestRenewal(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	before := map[*gate]string{}
	for _, g := range []*gate{primary, standby} {
		g.ahead.by.Store(int64(cluster.CertificateLasts - cluster.RenewBefore - time.Hour))
	}
	for _, g := range []*gate{primary, standby} {
		_, before[g] = g.room.Expires()
		g.beat(t)
		if _, serial := g.room.Expires(); serial != before[g] {
			t.Error("renewed too early")
		}
	}
	for _, g := range []*gate{primary, standby} {
		g.ahead.by.Store(int64(cluster.CertificateLasts - cluster.RenewBefore + time.Hour))
	}
	for _, g := range []*gate{primary, standby} {
		g.beat(t)
		if id, serial := g.room.Expires(); serial == before[g] || id != g.me.ID {
			t.Errorf("%s is not renewed", g.me.Name)
		}
	}
	if n := primary.Audited(t, "cluster.certificate.renew"); n != 1 {
		t.Errorf("%d renewals", n)
	}
	for _, g := range []*gate{primary, standby} {
		g.ahead.by.Store(int64(cluster.CertificateLasts + time.Hour)) // after the first ones have expired
		if s := g.status(t); s.Peers[0].Error != "" {
			t.Errorf("%+v", s)
		}
	}
}

// A node that has lost its own database cannot judge the others, and says so.
func TestNodeWithoutItsDatabase(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	well(t, primary, standby)
	name := ask[string](t, standby, "SELECT current_database()")
	connections := func(allowed string) {
		t.Helper()
		dbtest.Exec(t, primary.DB, "ALTER DATABASE "+name+" WITH ALLOW_CONNECTIONS "+allowed)
	}
	connections("false")
	back := sync.OnceFunc(func() { connections("true") })
	defer back()
	dbtest.Exec(t, primary.DB, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
	var s cluster.ClusterStatus
	waittest.UntilNil(t, "the standby cannot tell", func() error {
		a := standby.Get(t, "/cluster/status")
		if a.Status == 200 {
			a.Into(t, &s)
		}
		if a.Status != 200 || s.LocalNode.Status != cluster.Unknown {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	if s.Mode != "cluster" || s.Health != "degraded" || len(s.Problems) != 1 || s.LocalID != standby.me.ID || s.PrimaryID != "" {
		t.Errorf("%+v", s)
	}
	if len(s.Peers) != 1 || s.Peers[0].FQDN != primary.me.Name || s.Peers[0].Status != cluster.Unknown || s.Peers[0].SeenAt == nil {
		t.Errorf("%+v", s.Peers)
	}
	var list []cluster.NodeStatus
	if standby.Get(t, "/cluster/nodes").Want(t, 200).Into(t, &list); len(list) != 2 || list[0].Status != cluster.Unknown || list[1].Status != cluster.Unknown {
		t.Errorf("%+v", list)
	}
	back()
	well(t, primary, standby)
}
