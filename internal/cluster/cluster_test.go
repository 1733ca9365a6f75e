package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
)

// patience is how long these tests wait for something that must happen.
const patience = time.Minute

// node is a gateway without other rooms.
type node struct {
	*kittest.Bench
	room *cluster.Room
	me   cluster.Node
}

func newNode(t *testing.T, d *db.DB, name string) *node {
	t.Helper()
	b := kittest.NewOn(t, d)
	n := &node{Bench: b, me: cluster.Node{ID: uuid.NewString(), Name: name + ".example.net"}}
	var err error
	if n.room, err = cluster.New(b.Kit, cluster.Deps{Node: func() cluster.Node { return n.me }}); err != nil {
		t.Fatal(err)
	}
	n.room.Mount()
	b.Start(t)
	return n
}

// two returns two gateways without a cluster.
func two(t *testing.T) (one, other *node) {
	t.Helper()
	a, b := dbtest.Pair(t, dbtest.Server(t))
	return newNode(t, a, "one"), newNode(t, b, "two")
}

// pair returns a primary and a standby.
func pair(t *testing.T) (primary, standby *node) {
	t.Helper()
	primary, standby = two(t)
	if err := primary.room.Found(t.Context()); err != nil {
		t.Fatal(err)
	}
	standby.follow(t, primary)
	return primary, standby
}

func (n *node) follow(t *testing.T, primary *node) replica.Result {
	t.Helper()
	r, err := n.room.Follow(t.Context(), primary.me, dbtest.Address(primary.DB), true)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (n *node) state(t *testing.T) cluster.State {
	t.Helper()
	s, err := cluster.Load(t.Context(), n.DB)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// takes reports whether a node accepts a change of shared data.
func (n *node) takes(t *testing.T, name string) bool {
	t.Helper()
	err := store(t.Context(), n, name)
	if err != nil && !db.Elsewhere(err) {
		t.Fatal(err)
	}
	return err == nil
}

func (n *node) has(t *testing.T, name string) bool {
	t.Helper()
	var is bool
	if err := n.DB.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM ntp_pools WHERE address = $1)", name).Scan(&is); err != nil {
		t.Fatal(err)
	}
	return is
}

// On a standby every shared table is guarded, and no other table is.
func TestGuard(t *testing.T) {
	t.Parallel()
	_, standby := pair(t)
	rows, err := standby.DB.Query(t.Context(), `SELECT c.relname::text, EXISTS (SELECT FROM pg_publication_tables p WHERE p.pubname = 'gateway' AND p.tablename = c.relname)
		FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'`)
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]bool{}
	for rows.Next() {
		var name string
		var shared bool
		if err := rows.Scan(&name, &shared); err != nil {
			t.Fatal(err)
		}
		tables[name] = shared
	}
	if err := rows.Err(); err != nil || len(tables) < 60 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for name, shared := range tables {
		for _, sql := range []string{"DELETE FROM " + name + " WHERE false", "INSERT INTO " + name + " SELECT * FROM " + name + " WHERE false"} {
			err := standby.DB.Write(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec(t.Context(), sql); return err })
			if shared != db.Elsewhere(err) || !shared && err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
	}
	for _, sql := range []string{
		"UPDATE account_users SET last_login_at = now()", "UPDATE account_api_tokens SET last_used_at = now()", "UPDATE account_passkeys SET last_used_at = now()",
		"UPDATE firewall_address_objects SET resolved = '{}'", "UPDATE ha_nodes SET status = 'online', version = '1', config_hash = '2'",
	} {
		if err := standby.DB.Write(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec(t.Context(), sql); return err }); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// Only a node that is not a primary follows another, and only a primary with an epoch that is not older is followed.
func TestWhoFollowsWhom(t *testing.T) {
	t.Parallel()
	one, other := two(t)
	if _, err := other.room.Follow(t.Context(), one.me, dbtest.Address(one.DB), true); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a node without a cluster is followed: %v", err)
	}
	if err := one.room.Found(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := one.room.Found(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("a cluster is founded twice: %v", err)
	}
	other.follow(t, one)
	if _, err := one.room.Follow(t.Context(), other.me, dbtest.Address(other.DB), true); !fault.Is(err, fault.Conflict) {
		t.Errorf("the primary follows: %v", err)
	}
	if _, err := other.room.Promote(t.Context(), cluster.Promotion{Forced: true}); err != nil {
		t.Fatal(err)
	}
	if fenced, err := one.room.Fence(t.Context(), 2, other.me); !fenced || err != nil {
		t.Fatalf("%v, %v", fenced, err)
	}
	if _, err := other.room.Follow(t.Context(), one.me, dbtest.Address(one.DB), true); !fault.Is(err, fault.Conflict) {
		t.Errorf("the new primary follows the old one: %v", err)
	}
	// What only the old primary had is kept.
	dbtest.Exec(t, one.DB, `SET session_replication_role = replica; INSERT INTO ntp_pools (id, created_at, updated_at, kind, address, iburst, prefer, minpoll, maxpoll) VALUES (gen_random_uuid(), now(), now(), 'pool', 'alone.example.net', true, false, 6, 10)`)
	if r := one.follow(t, other); r.Tables["ntp_pools"].Removed != 1 || r.File == "" {
		t.Errorf("%+v", r)
	}
	if s := one.state(t); s.Role != cluster.Standby || s.Epoch != 2 || s.PrimaryName != "two.example.net" {
		t.Errorf("%+v", s)
	}
	if !other.takes(t, "after.example.net") {
		t.Error("it takes no change")
	}
	waittest.Until(t, "the old primary follows the new one", func() bool { return one.has(t, "after.example.net") })
}

// A planned promotion loses nothing that the primary has acknowledged, and adopts the standby's own audit entries.
func TestPromote(t *testing.T) {
	t.Parallel()
	primary, standby := pair(t)
	if err := standby.Audit.Record(t.Context(), "test.local", "x", nil); err != nil {
		t.Fatal(err)
	}
	var acknowledged sync.Map
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for n := 0; ; n++ {
				name := fmt.Sprintf("w%d-%d.example.net", w, n)
				err := store(t.Context(), primary, name)
				if db.Elsewhere(err) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				acknowledged.Store(name, true)
			}
		})
	}
	waittest.Until(t, "there is something to lose", func() bool { n := 0; acknowledged.Range(func(any, any) bool { n++; return n < 20 }); return n >= 20 })
	last, err := primary.room.StepDown(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all.Wait()
	epoch, err := standby.room.Promote(t.Context(), cluster.Promotion{Last: last, Newest: primary.state(t).Epoch})
	if err != nil || epoch != 2 {
		t.Fatalf("%d, %v", epoch, err)
	}
	acknowledged.Range(func(name, _ any) bool {
		if !standby.has(t, name.(string)) {
			t.Errorf("%s is lost", name)
		}
		return true
	})
	if list, err := standby.Audit.Search(t.Context(), audit.Filter{Action: "test.local", Limit: 10}); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	var waiting int
	if err := standby.DB.QueryRow(t.Context(), "SELECT count(*) FROM audit_outbox").Scan(&waiting); err != nil || waiting != 0 {
		t.Errorf("%d entries wait, %v", waiting, err)
	}
	if !standby.takes(t, "new.example.net") {
		t.Error("it takes no change")
	}
	if primary.takes(t, "old.example.net") {
		t.Error("it takes a change")
	}
	if _, err := standby.room.Promote(t.Context(), cluster.Promotion{Forced: true}); !fault.Is(err, fault.Conflict) {
		t.Errorf("the primary is promoted: %v", err)
	}
}

// A primary that steps down for nobody becomes the primary again, and a promotion whose last entry never arrives does nothing.
func TestResume(t *testing.T) {
	t.Parallel()
	primary, standby := pair(t)
	if err := primary.room.Resume(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
	dbtest.Exec(t, standby.DB, "SELECT gateway_cluster.pause()")
	waittest.Until(t, "replication stands still", func() bool { s, err := replica.Look(t.Context(), standby.DB); return err == nil && !s.Worker })
	last, err := primary.room.StepDown(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if primary.takes(t, "refused.example.net") {
		t.Error("it takes a change")
	}
	if _, err := standby.room.Promote(t.Context(), cluster.Promotion{Last: last}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	if s := standby.state(t); s.Role != cluster.Standby || s.Epoch != 1 {
		t.Errorf("%+v", s)
	}
	if err := primary.room.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !primary.takes(t, "taken.example.net") {
		t.Error("it takes no change")
	}
	if healed, err := replica.Heal(t.Context(), standby.DB); !healed || err != nil {
		t.Errorf("%v, %v", healed, err)
	}
	waittest.Until(t, "the standby follows again", func() bool { return standby.has(t, "taken.example.net") })
}

// store writes a row of a shared table.
func store(ctx context.Context, n *node, name string) error {
	return n.DB.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO ntp_pools (id, created_at, updated_at, kind, address, iburst, prefer, minpoll, maxpoll)
			VALUES ($1, now(), now(), 'pool', $2, true, false, 6, 10)`, uuid.Must(uuid.NewV7()), name)
		return err
	})
}

// Whatever roles are requested in whatever order, no two nodes accept shared changes in the same epoch, and in the end they are equal.
func TestNeverTwoOfOneEpoch(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rounds := 1
	if longtest.On {
		rounds = 3
	}
	for range rounds {
		primary, standby := pair(t)
		nodes := []*node{primary, standby}
		for _, n := range nodes {
			dbtest.Exec(t, n.DB, `CREATE TABLE accepted (epoch bigint);
				CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.accepted SELECT epoch FROM public.ha_state; RETURN NULL; END $$;
				CREATE TRIGGER zz_note AFTER INSERT ON ntp_pools FOR EACH STATEMENT EXECUTE FUNCTION note()`)
		}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var accepted atomic.Int64
		for i, n := range nodes {
			all.Go(func() {
				for k := 0; ctx.Err() == nil; k++ {
					switch err := store(t.Context(), n, fmt.Sprintf("n%d-%d.example.net", i, k)); {
					case err == nil:
						accepted.Add(1)
					case !db.Elsewhere(err):
						t.Error(err)
						return
					}
				}
			})
		}
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		seed++
		var steps []string
		for range 25 {
			one, other := nodes[random.IntN(2)], nodes[0]
			if one == nodes[0] {
				other = nodes[1]
			}
			var err error
			step := random.IntN(6)
			switch step {
			case 0:
				_, err = one.room.StepDown(t.Context())
			case 1:
				err = one.room.Resume(t.Context())
			case 2:
				s := other.state(t)
				_, err = one.room.Fence(t.Context(), s.Epoch, other.me)
			case 3:
				_, err = one.room.Promote(t.Context(), cluster.Promotion{Forced: true, Newest: other.state(t).Epoch})
			case 4:
				_, err = one.room.Promote(t.Context(), cluster.Promotion{Forced: true}) // which knows of no other epoch
			case 5:
				_, err = one.room.Follow(t.Context(), other.me, dbtest.Address(other.DB), true)
			}
			steps = append(steps, fmt.Sprintf("%s %d: %v", one.me.Name, step, err))
			if err != nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Unavailable) {
				t.Errorf("%v", err)
			}
		}
		// In the end both nodes follow the newest primary, as they would when they learn of it.
		newest, former := nodes[0], nodes[1]
		if former.state(t).Epoch > newest.state(t).Epoch || former.state(t).Epoch == newest.state(t).Epoch && former.state(t).Role != cluster.Standby && newest.state(t).Role == cluster.Standby {
			newest, former = former, newest
		}
		switch newest.state(t).Role {
		case cluster.SteppingDown:
			if err := newest.room.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
		case cluster.Fenced, cluster.Standby:
			if _, err := newest.room.Promote(t.Context(), cluster.Promotion{Forced: true, Newest: former.state(t).Epoch}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := former.room.Fence(t.Context(), newest.state(t).Epoch, newest.me); err != nil {
			t.Fatal(err)
		}
		former.follow(t, newest)
		stop()
		all.Wait()
		epochs := map[int64]string{}
		for _, n := range nodes {
			rows, err := n.DB.Query(t.Context(), "SELECT DISTINCT epoch FROM accepted")
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				var epoch int64
				if err := rows.Scan(&epoch); err != nil {
					t.Fatal(err)
				}
				if by := epochs[epoch]; by != "" {
					t.Errorf("%s and %s have accepted changes of the epoch %d: %q", by, n.me.Name, epoch, steps)
				}
				epochs[epoch] = n.me.Name
			}
		}
		if differ, err := former.room.Drift(t.Context(), dbtest.Address(newest.DB)); err != nil || len(differ) > 0 || accepted.Load() == 0 || len(epochs) == 0 {
			t.Errorf("%q %v, %d accepted in %v: %q", differ, err, accepted.Load(), epochs, steps)
		}
	}
}

// A backup does not contain the node's place in the cluster: a restored node stays what it was, and a primary begins a new epoch.
func TestRestored(t *testing.T) {
	t.Parallel()
	primary, standby := pair(t)
	if err := primary.room.MayRestore(t.Context()); err != nil {
		t.Error(err)
	}
	if err := standby.room.MayRestore(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("the data of a standby are replaced: %v", err)
	}
	for what, x := range map[string]struct {
		archived string
		live     *db.DB
		want     cluster.State
	}{
		"a backup of before the cluster":         {"single", primary.DB, cluster.State{Role: cluster.Primary, Epoch: 2, PrimaryID: primary.me.ID, PrimaryName: primary.me.Name}},
		"a backup of a standby, on the primary":  {"standby", primary.DB, cluster.State{Role: cluster.Primary, Epoch: 2, PrimaryID: primary.me.ID, PrimaryName: primary.me.Name}},
		"a backup of a primary, on a single one": {"primary", dbtest.New(t), cluster.State{Role: cluster.Single}},
		"a backup of a primary, on a standby":    {"primary", standby.DB, cluster.State{Role: cluster.Fenced, Epoch: 1, PrimaryID: primary.me.ID, PrimaryName: primary.me.Name}},
	} {
		next := newNode(t, dbtest.New(t), "next")
		dbtest.Exec(t, next.DB, "UPDATE ha_state SET role = $1, epoch = 7, slot = 'x'", x.archived)
		if err := next.room.Restored(t.Context(), x.live); err != nil {
			t.Fatal(err)
		}
		got := next.state(t)
		if got.ChangedAt = (time.Time{}); got != x.want {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// A primary that steps down waits for running changes; later ones wait for it, and are refused.
func TestStepDownWaitsForChanges(t *testing.T) {
	t.Parallel()
	primary, standby := pair(t)
	written, proceed, stored := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		stored <- primary.DB.Write(t.Context(), func(tx *db.Tx) error {
			tx.Queue(`INSERT INTO certificate_challenges VALUES ('t', now(), 'k')`)
			if err := tx.Flush(t.Context()); err != nil {
				return err
			}
			close(written)
			<-proceed
			return nil
		})
	}()
	<-written
	var last uuid.UUID
	down := make(chan error, 1)
	go func() {
		var err error
		last, err = primary.room.StepDown(t.Context())
		down <- err
	}()
	waiting := func(locks int) func() bool {
		return func() bool {
			var n int
			err := primary.DB.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
				WHERE d.datname = current_database() AND locktype = 'advisory' AND classid = 22 AND objid = 0 AND NOT granted`).Scan(&n)
			return err == nil && n == locks
		}
	}
	waittest.Until(t, "stepping down waits", waiting(1))
	late := make(chan error, 1)
	go func() { late <- store(t.Context(), primary, "late.example.net") }()
	waittest.Until(t, "a later change waits", waiting(2))
	select {
	case err := <-down:
		t.Fatalf("the primary has stepped down while a change was under way: %v", err)
	default:
	}
	close(proceed)
	if err := errors.Join(<-stored, <-down); err != nil {
		t.Fatal(err)
	}
	if err := <-late; !db.Elsewhere(err) {
		t.Errorf("a later change: %v", err)
	}
	if _, err := standby.room.Promote(t.Context(), cluster.Promotion{Last: last}); err != nil {
		t.Fatal(err)
	}
	var has bool
	if err := standby.DB.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM certificate_challenges)").Scan(&has); err != nil || !has {
		t.Errorf("what was under way is lost: %v", err)
	}
}
