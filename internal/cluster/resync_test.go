package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/waittest"
)

// later moves the clocks of both ahead.
func later(by time.Duration, gates ...*gate) {
	for _, g := range gates {
		g.ahead.by.Add(int64(by))
	}
}

// ask queries the database of a gateway.
func ask[T any](t *testing.T, g *gate, sql string, args ...any) (is T) {
	t.Helper()
	if err := g.DB.QueryRow(t.Context(), sql, args...).Scan(&is); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return is
}

// byHand changes rows in a way that no one should.
func byHand(t *testing.T, g *gate, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dbtest.Address(g.DB))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range []string{"SET session_replication_role = replica", sql} {
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
		args = args[len(args):]
	}
}

const insertPool = `INSERT INTO ntp_pools (id, created_at, updated_at, kind, address, iburst, prefer, minpoll, maxpoll) `

// A standby that does not follow correctly is synchronised with its primary again, whatever the reason, but at most every ten minutes.
func TestResync(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		// spoil causes the problem, and wait lasts until it is visible.
		spoil func(t *testing.T, primary, standby *gate)
		lasts time.Duration
	}{
		"replication is not under way": {func(t *testing.T, _, standby *gate) {
			dbtest.Exec(t, standby.DB, "SELECT gateway_cluster.pause()")
			waittest.Until(t, "replication stands still", func() bool { s, err := replica.Look(t.Context(), standby.DB); return err == nil && !s.Worker })
		}, time.Minute},
		"the slot is gone": {func(t *testing.T, primary, standby *gate) {
			dbtest.Exec(t, standby.DB, "SELECT gateway_cluster.pause()")
			waittest.Until(t, "the slot is dropped", func() bool {
				return ask[int](t, primary, "SELECT count(*) FROM (SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND NOT active) x", standby.state(t).Slot) == 1
			})
			dbtest.Exec(t, standby.DB, "SELECT gateway_cluster.resume()")
		}, time.Minute},
		"replication fails": {func(t *testing.T, primary, standby *gate) {
			byHand(t, standby, insertPool+`VALUES ('00000000-0000-7000-8000-000000000001', now(), now(), 'pool', 'theirs.example.net', true, false, 6, 10)`)
			dbtest.Exec(t, primary.DB, insertPool+`VALUES ('00000000-0000-7000-8000-000000000001', now(), now(), 'pool', 'ours.example.net', true, false, 6, 10)`)
			fails(t, standby)
		}, 30 * time.Second},
		"it has drifted": {func(t *testing.T, _, standby *gate) {
			byHand(t, standby, insertPool+`VALUES (gen_random_uuid(), now(), now(), 'pool', 'drift.example.net', true, false, 6, 10)`)
		}, 0},
		"there are more tables": {func(t *testing.T, primary, standby *gate) {
			for _, g := range []*gate{standby, primary} {
				dbtest.Exec(t, g.DB, "CREATE TABLE more (id int PRIMARY KEY); SELECT ha_share('more')")
			}
			dbtest.Exec(t, primary.DB, "INSERT INTO more VALUES (1)")
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, standby := joined(t)
			standby.beat(t)
			x.spoil(t, primary, standby)
			synced := *standby.state(t).SyncedAt
			rests := func(g *gate) bool { return g.state(t).SyncedAt.Equal(synced) && g.Audited(t, "cluster.sync") == 1 }
			standby.beat(t) // it was compared a moment ago
			later(x.lasts, primary, standby)
			if strings.HasSuffix(name, "fails") {
				fails(t, standby)
			}
			standby.beat(t)
			if !rests(standby) {
				t.Error("it is compared again within ten minutes")
			}
			later(10*time.Minute, primary, standby)
			if strings.HasSuffix(name, "fails") {
				fails(t, standby)
			}
			waittest.Until(t, "it is compared again", func() bool { standby.beat(t); return !rests(standby) })
			if !primary.takes(t, "after.example.net") {
				t.Error("the primary takes no change")
			}
			waittest.Until(t, "it follows", func() bool { return standby.has(t, "after.example.net") })
			well(t, primary, standby)
			if strings.HasSuffix(name, "tables") && ask[int](t, standby, "SELECT count(*) FROM more") != 1 {
				t.Error("the rows of the new table are not there")
			}
		})
	}
}

// fails waits until replication has failed once more.
func fails(t *testing.T, standby *gate) {
	t.Helper()
	errors := func() int64 {
		s, err := replica.Look(t.Context(), standby.DB)
		if err != nil {
			t.Fatal(err)
		}
		return s.Errors
	}
	was := errors()
	waittest.Until(t, "replication fails", func() bool { return errors() > was })
}

// A node that was away for longer than its changes were kept is synchronised as soon as it returns.
func TestResyncAfterALostSlot(t *testing.T) {
	t.Parallel()
	_, server := dbtest.Own(t)
	primary, standby := gatesOn(t, server)
	if err := standby.join(t, primary, primary.token(t, standby.me.Name).Token); err != nil {
		t.Fatal(err)
	}
	dbtest.Exec(t, standby.DB, "SELECT gateway_cluster.pause()")
	waittest.Until(t, "replication stands still", func() bool { return !ask[bool](t, primary, "SELECT bool_or(active) FROM pg_replication_slots") })
	dbtest.Exec(t, primary.DB, "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
	dbtest.Exec(t, primary.DB, "SELECT pg_reload_conf()")
	waittest.Until(t, "the slot is lost", func() bool {
		for _, sql := range []string{"CREATE TABLE IF NOT EXISTS fill AS SELECT 1", "SELECT pg_switch_wal()", "DROP TABLE fill", "CHECKPOINT"} {
			dbtest.Exec(t, primary.DB, sql)
		}
		return ask[bool](t, primary, "SELECT bool_or(wal_status = 'lost') FROM pg_replication_slots")
	})
	if s := primary.status(t); s.Health != "degraded" || !strings.Contains(strings.Join(s.Problems, " "), "longer than the primary keeps changes") {
		t.Errorf("%+v", s)
	}
	later(10*time.Minute, primary, standby)
	if !primary.takes(t, "away.example.net") {
		t.Fatal("the primary takes no change")
	}
	standby.beat(t)
	waittest.Until(t, "it has what it missed", func() bool { return standby.has(t, "away.example.net") })
	well(t, primary)
}

// More than half of a standby's rows are never deleted without a person's decision. The status reports it.
func TestResyncRefused(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	byHand(t, standby, insertPool+`SELECT gen_random_uuid(), now(), now(), 'pool', 'n' || n || '.example.net', true, false, 6, 10 FROM generate_series(1, 20000) n`)
	later(10*time.Minute, primary, standby)
	refused := func(g *gate) bool {
		s := g.status(t)
		return s.Health == "degraded" && slices.ContainsFunc(s.Problems, func(p string) bool {
			return strings.HasPrefix(p, standby.me.Name) && strings.Contains(p, "more than half")
		})
	}
	waittest.Until(t, "it is refused", func() bool { standby.beat(t); return refused(standby) && refused(primary) })
	for range 3 { // and not retried
		later(time.Hour, primary, standby)
		standby.beat(t)
	}
	if n := ask[int](t, standby, "SELECT count(*) FROM ntp_pools"); n < 20000 {
		t.Errorf("%d rows are left", n)
	}
	standby.Do(t, "admin", http.MethodPost, "/cluster/repair-replication", `{"force":true}`).Want(t, 200)
	well(t, primary, standby)
}

// The slot of a killed sync is dropped, and a late slot makes the cluster degraded.
func TestSlots(t *testing.T) {
	t.Parallel()
	primary, standby := joined(t)
	stale := replica.SlotsOf(standby.me.ID) + "stale"
	dbtest.Exec(t, primary.DB, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", stale)
	waittest.Until(t, "the slot goes", func() bool {
		standby.beat(t)
		return !ask[bool](t, primary, "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1)", stale)
	})
	if !primary.takes(t, "before.example.net") {
		t.Fatal("the primary takes no change")
	}
	waittest.Until(t, "it follows still", func() bool { return standby.has(t, "before.example.net") })

	proceed := hold(t, standby)
	if !primary.takes(t, "late.example.net") {
		t.Fatal("the primary takes no change")
	}
	late := func() bool {
		return slices.Contains(primary.status(t).Problems, standby.me.Name+" is far behind the primary.") &&
			slices.Contains(standby.status(t).Problems, "This node is far behind the primary.")
	}
	if late() {
		t.Error("it is late at once")
	}
	later(31*time.Second, primary, standby)
	waittest.Until(t, "it is late", late)
	proceed()
	waittest.Until(t, "it is not late any more", func() bool {
		return primary.status(t).Health == "OK" && standby.status(t).Health == "OK"
	})
}

// hold stops a standby from applying changes of the time servers until it may continue.
func hold(t *testing.T, g *gate) (proceed func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dbtest.Address(g.DB))
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"BEGIN", "LOCK TABLE ntp_pools IN SHARE MODE"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return func() { conn.Close(context.Background()) }
}

// While the primary is away, the standby with most of its changes is the one to promote.
func TestForcedPromotionOfTheOneAhead(t *testing.T) {
	t.Parallel()
	primary, ahead := joined(t)
	d, _ := dbtest.Pair(t, dbtest.Server(t))
	behind := newGate(t, d, "three", primary.to)
	if err := behind.join(t, primary, primary.token(t, behind.me.Name).Token); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "all know each other", func() bool { return len(ahead.members(t)) == 3 && len(behind.members(t)) == 3 })
	proceed := hold(t, behind)
	primary.Do(t, "admin", http.MethodPost, "/cluster/join-tokens", map[string]any{"node_fqdn": "four.example.net"}).Want(t, 201) // which is audited
	if !primary.takes(t, "more.example.net") {
		t.Fatal("the primary takes no change")
	}
	primary.Do(t, "admin", http.MethodPost, "/cluster/join-tokens", map[string]any{"node_fqdn": "five.example.net"}).Want(t, 201)
	waittest.Until(t, "one has it", func() bool {
		return ask[bool](t, ahead, "SELECT EXISTS (SELECT FROM ha_nodes WHERE fqdn = 'five.example.net')")
	})
	for _, g := range []*gate{ahead, behind} { // the primary is lost
		byHand(t, g, fmt.Sprintf("UPDATE ha_nodes SET api_url = 'https://127.0.0.1:1' WHERE id = '%s'", primary.me.ID))
	}
	a := behind.Do(t, "admin", http.MethodPost, "/cluster/promote", `{"force":true}`).Want(t, 409)
	if !strings.Contains(a.Error.Message, ahead.me.Name) || behind.state(t).Role != cluster.Standby {
		t.Errorf("%s", a.Body)
	}
	ahead.Do(t, "admin", http.MethodPost, "/cluster/promote", `{"force":true}`).Want(t, 200)
	proceed()
	behind.beat(t)
	waittest.Until(t, "the other one follows", func() bool {
		s := behind.state(t)
		return s.PrimaryID == ahead.me.ID && behind.has(t, "more.example.net")
	})
}
