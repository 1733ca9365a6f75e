package replica_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/schema"
)

// passing are the tables that hold no configuration.
var passing = []string{"audit_entries", "apply_revisions", "certificate_challenges"}

// TestMain runs a sync if a test starts this program to kill it.
func TestMain(m *testing.M) {
	here, primary := os.Getenv("SYNC_HERE"), os.Getenv("SYNC_PRIMARY")
	if here == "" {
		os.Exit(m.Run())
	}
	d, err := db.Open(here)
	if err == nil {
		err = d.Attach(context.Background(), schema.Migrations)
	}
	if err == nil {
		_, err = newSync(d, primary, os.Getenv("SYNC_NODE"), os.Getenv("SYNC_FOLDER")).Run(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// newSync returns a sync without hooks.
func newSync(here *db.DB, primary, node, folder string) *replica.Sync {
	return &replica.Sync{
		Here: here, Primary: primary, Node: node, Folder: folder, MostMayGo: true,
		Judge: func(context.Context, db.Querier) error { return nil },
		Begin: func(context.Context, pgx.Tx) error { return nil },
		End:   func(context.Context, pgx.Tx, replica.Result) error { return nil },
	}
}

// pair is a primary and a database that follows it.
type pair struct {
	primary, standby *db.DB
	*replica.Sync
}

func newPair(t *testing.T) pair {
	t.Helper()
	primary, standby := dbtest.Pair(t, dbtest.Server(t))
	return pair{primary, standby, newSync(standby, dbtest.Address(primary), uuid.NewString(), filepath.Join(t.TempDir(), "cluster"))}
}

func (p pair) sync(t *testing.T) replica.Result {
	t.Helper()
	r, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pool stores a time source, and returns its id.
func pool(t *testing.T, d *db.DB, name string) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	dbtest.Exec(t, d, `INSERT INTO ntp_pools (id, created_at, updated_at, kind, address, iburst, prefer, minpoll, maxpoll) VALUES ($1, now(), now(), 'pool', $2, true, false, 6, 10)`, id, name)
	return id
}

func has(ctx context.Context, d *db.DB, name string) (is bool, err error) {
	err = d.QueryRow(ctx, "SELECT EXISTS (SELECT FROM ntp_pools WHERE address = $1)", name).Scan(&is)
	return is, err
}

// arrives waits until a pool has been replicated.
func arrives(t *testing.T, d *db.DB, name string) {
	t.Helper()
	waittest.UntilNil(t, name+" arrives", func() error {
		is, err := has(t.Context(), d, name)
		if err == nil && !is {
			err = errors.New("it is not there")
		}
		return err
	})
}

// follows changes the primary and waits until the standby has the change.
func (p pair) follows(t *testing.T) {
	t.Helper()
	name := "follows-" + uuid.NewString()
	pool(t, p.primary, name)
	arrives(t, p.standby, name)
}

// looks returns an error that describes the standby's replication, unless it satisfies so.
func (p pair) looks(t *testing.T, so func(replica.Subscription) bool) error {
	s, err := replica.Look(t.Context(), p.standby)
	if err == nil && !so(s) {
		err = fmt.Errorf("%+v", s)
	}
	return err
}

// same fails unless both have the same rows.
func (p pair) same(t *testing.T) {
	t.Helper()
	differ, err := replica.Drift(t.Context(), p.standby, p.primary, nil)
	if err != nil || len(differ) > 0 {
		t.Fatalf("they differ in %q: %v", differ, err)
	}
}

// slots lists those that the primary keeps.
func (p pair) slots(t *testing.T) []string {
	t.Helper()
	list, err := replica.Slots(t.Context(), p.primary)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}

// A node copies the primary's state, and follows it from then on. Rows that only it had are saved in a file that only root and
// the gateway can read; local data stays.
func TestSync(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	user := uuid.Must(uuid.NewV7())
	const insert = `INSERT INTO account_users (id, created_at, updated_at, email, name, role, active, password, totp_enabled, oidc_subject, last_login_at)
		VALUES ($1, now(), now(), $2, '', 'admin', true, '', false, '', '2026-01-02T03:04:05Z')`
	dbtest.Exec(t, p.primary, insert, user, "ann@example.net")
	pool(t, p.primary, "primary.example.net")
	dbtest.Exec(t, p.standby, insert, user, "ann@old.example.net")
	dbtest.Exec(t, p.standby, "UPDATE account_users SET last_login_at = '2026-05-05T05:05:05Z'")
	dbtest.Exec(t, p.standby, `INSERT INTO account_sessions (id, user_id, created_at, expires_at, address, user_agent, method) VALUES (gen_random_uuid(), $1, now(), now(), '', '', '')`, user)
	pool(t, p.standby, "standby.example.net")

	r := p.sync(t)
	if d := r.Tables["ntp_pools"]; d.Added != 1 || d.Removed != 1 {
		t.Errorf("%+v", d)
	}
	if d := r.Tables["account_users"]; d != (replica.Difference{Changed: 1}) {
		t.Errorf("%+v", d)
	}
	info, err := os.Stat(r.File)
	if err != nil || info.Mode().Perm() != 0o600 || filepath.Dir(r.File) != p.Folder {
		t.Fatalf("%s: %v, %v", r.File, info, err)
	}
	var lines []string
	f, err := os.Open(r.File)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var line struct {
			Table         string
			Here, Primary map[string]any
		}
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprint(line.Table, line.Here["email"], line.Here["address"], line.Primary["email"]))
		if _, has := line.Here["last_login_at"]; has {
			t.Error("what is the node's own is in the file")
		}
	}
	for _, want := range []string{"account_users" + "ann@old.example.net" + "<nil>" + "ann@example.net", "ntp_pools<nil> standby.example.net<nil>"} {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.ReplaceAll(l, " ", "") == strings.ReplaceAll(want, " ", "") }) {
			t.Errorf("%q is not in %q", want, lines)
		}
	}
	var email, login string
	var sessions int
	if err := p.standby.QueryRow(t.Context(), `SELECT email, last_login_at::date::text, (SELECT count(*) FROM account_sessions WHERE user_id = u.id) FROM account_users u WHERE id = $1`, user).Scan(&email, &login, &sessions); err != nil ||
		email != "ann@example.net" || login != "2026-05-05" || sessions != 1 {
		t.Errorf("%s %s, %d sessions, %v", email, login, sessions, err)
	}
	p.follows(t)
	p.same(t)

	// The local data of a user is deleted when the user is deleted on another node.
	dbtest.Exec(t, p.primary, "DELETE FROM account_users")
	waittest.UntilNil(t, "the sessions of a user who is gone go", func() error {
		var n int
		err := p.standby.QueryRow(t.Context(), "SELECT count(*) FROM account_sessions").Scan(&n)
		if err == nil && n != 0 {
			err = fmt.Errorf("%d are there", n)
		}
		return err
	})
}

// Interfaces are local to a node, but zones are shared: interfaces get a zone's new name, whether it is replicated or copied by a
// sync.
func TestZonesAreRenamed(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	zone := uuid.Must(uuid.NewV7())
	dbtest.Exec(t, p.primary, `INSERT INTO firewall_zones VALUES ($1, now(), now(), 'guests', '', false)`, zone)
	p.sync(t)
	for _, d := range []*db.DB{p.primary, p.standby} {
		dbtest.Exec(t, d, `INSERT INTO network_interfaces (id, created_at, updated_at, name, type, role, parent, members, description, active) VALUES (gen_random_uuid(), now(), now(), 'eth7', 'ethernet', 'guests', '', '{}', '', true)`)
	}
	is := func(d *db.DB, role string) func() error {
		return func() error {
			var now string
			err := d.QueryRow(t.Context(), "SELECT role FROM network_interfaces").Scan(&now)
			if err == nil && now != role {
				err = fmt.Errorf("it is %s", now)
			}
			return err
		}
	}
	dbtest.Exec(t, p.primary, "UPDATE firewall_zones SET name = 'visitors' WHERE id = $1", zone)
	waittest.UntilNil(t, "the interface of the primary follows", is(p.primary, "visitors"))
	waittest.UntilNil(t, "the interface of the standby follows", is(p.standby, "visitors"))
	dbtest.Exec(t, p.standby, "SELECT gateway_cluster.unsubscribe()")
	dbtest.Exec(t, p.primary, "UPDATE firewall_zones SET name = 'strangers' WHERE id = $1", zone)
	p.sync(t)
	waittest.UntilNil(t, "the interface of the standby follows a sync", is(p.standby, "strangers"))
}

// A sync that finds nothing writes nothing, so that caches based on row versions stay valid.
func TestSyncThatFindsNothing(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	pool(t, p.primary, "a.example.net")
	first := p.sync(t)
	versions := func() (list string) {
		t.Helper()
		if err := p.standby.QueryRow(t.Context(), "SELECT string_agg(id || ' ' || xmin || ' ' || ctid, ',' ORDER BY id) FROM ntp_pools").Scan(&list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	before := versions()
	second := p.sync(t)
	if after := versions(); len(second.Tables) > 0 || second.File != "" || before != after {
		t.Errorf("%+v: %s became %s", second, before, after)
	}
	if slots := p.slots(t); first.Slot == second.Slot || !slices.Equal(slots, []string{second.Slot}) {
		t.Errorf("%q, %q: %q", first.Slot, second.Slot, slots)
	}
	p.follows(t)
}

// A primary with next to no data is probably the wrong one.
func TestSyncThatWouldLoseMost(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.sync(t)
	dbtest.Exec(t, p.standby, `INSERT INTO ntp_pools (id, created_at, updated_at, kind, address, iburst, prefer, minpoll, maxpoll) SELECT gen_random_uuid(), now(), now(), 'pool', n || '.example.net', true, false, 6, 10 FROM generate_series(1, 500) n`)
	p.MostMayGo = false
	if r, err := p.Run(t.Context()); !errors.Is(err, replica.ErrTooMuch) {
		t.Fatalf("%+v, %v", r, err)
	}
	if files, _ := filepath.Glob(p.Folder + "/*"); len(files) > 1 {
		t.Errorf("%q", files)
	}
	p.follows(t)
	p.MostMayGo = true
	p.sync(t)
	p.same(t)
}

// Syncs run while the primary changes and the standby reads: nothing is lost, and no reader sees a state that never existed.
func TestSyncsUnderLoad(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	dbtest.Exec(t, p.primary, `INSERT INTO ntp_pools (id, created_at, updated_at, kind, address, iburst, prefer, minpoll, maxpoll) SELECT gen_random_uuid(), now(), now(), 'pool', n || '.example.net', true, false, 6, 10 FROM generate_series(1, 2000) n`)
	dbtest.Exec(t, p.primary, `INSERT INTO dns_zones (id, created_at, updated_at, name, forward_to, description, active) VALUES (gen_random_uuid(), now(), now(), 'corp.example.net', '{}', '0', true)`)
	dbtest.Exec(t, p.primary, `UPDATE ntp_pools SET minpoll = 0 WHERE address = '1.example.net'`)
	p.sync(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	var reads atomic.Int64
	all.Go(func() {
		for ctx.Err() == nil {
			err := p.standby.Snapshot(t.Context(), func(tx *db.Tx) error {
				var pools int
				var one, other string
				if err := tx.QueryRow(t.Context(), `SELECT (SELECT description FROM dns_zones), (SELECT minpoll::text FROM ntp_pools WHERE address = '1.example.net'), (SELECT count(*) FROM ntp_pools)`).Scan(&one, &other, &pools); err != nil {
					return err
				}
				if pools < 2000 || one != other {
					return fmt.Errorf("%d pools, %s and %s", pools, one, other)
				}
				return nil
			})
			if err != nil {
				t.Errorf("a reader of the standby: %v", err)
				return
			}
			reads.Add(1)
		}
	})
	// As many as the syncs leave time for, but at least enough.
	const transactions, enough = 800, 4
	var last string
	var syncs atomic.Int64
	written := make(chan struct{})
	all.Go(func() {
		defer close(written)
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
		for n := 1; n <= transactions || syncs.Load() < enough; n++ {
			last = fmt.Sprint(n)
			err := p.primary.Write(t.Context(), func(tx *db.Tx) error {
				tx.Queue(`UPDATE dns_zones SET description = $1`, last)
				tx.Queue(`UPDATE ntp_pools SET minpoll = $1 WHERE address = '1.example.net'`, n)
				switch random.IntN(3) {
				case 0:
					tx.Queue(`INSERT INTO ntp_pools (id, created_at, updated_at, kind, address, iburst, prefer, minpoll, maxpoll) VALUES (gen_random_uuid(), now(), now(), 'pool', $1, true, false, 6, 10)`, fmt.Sprintf("more-%d", n))
				case 1:
					tx.Queue(`DELETE FROM ntp_pools WHERE id IN (SELECT id FROM ntp_pools WHERE address LIKE 'more-%' LIMIT 1)`)
				default:
					tx.Queue(`UPDATE ntp_pools SET maxpoll = $1 WHERE address = $2`, n, fmt.Sprintf("%d.example.net", 2+random.IntN(1900)))
				}
				return nil
			})
			if err != nil {
				t.Errorf("transaction %d: %v", n, err)
				return
			}
		}
	})
	for done := false; !done; syncs.Add(1) {
		p.sync(t)
		select {
		case <-written:
			done = true
		default:
		}
	}
	p.same(t)
	stop()
	all.Wait()
	var has string
	if err := p.standby.QueryRow(t.Context(), "SELECT description FROM dns_zones").Scan(&has); err != nil || has != last || reads.Load() == 0 {
		t.Errorf("%s instead of %s, %v, %d reads", has, last, err, reads.Load())
	}
	t.Logf("%s transactions, %d syncs, %d reads", last, syncs.Load(), reads.Load())
}

// A sync that is killed or fails, at whatever point, leaves a standby that follows, and the next one cleans up after it.
func TestSyncThatDies(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"kill", "error"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			p.sync(t)
			for _, point := range failpoint.Sync() {
				pool(t, p.standby, "alone-"+point)
				points := t.TempDir()
				if err := os.WriteFile(filepath.Join(points, point), []byte(how), 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), os.Args[0])
				cmd.Env = append(os.Environ(), "GATEWAY_FAILPOINTS="+points, "SYNC_HERE="+dbtest.Address(p.standby), "SYNC_PRIMARY="+dbtest.Address(p.primary), "SYNC_NODE="+p.Node, "SYNC_FOLDER="+p.Folder)
				out, err := cmd.CombinedOutput()
				if err == nil || how == "error" && !strings.Contains(string(out), "failpoint "+point) {
					t.Fatalf("%s: it did not die: %v %s", point, err, out)
				}
				// The connections of a killed process end a moment later.
				waittest.UntilNil(t, "replication goes on after "+point, func() error {
					if _, err := replica.Heal(t.Context(), p.standby); err != nil {
						return err
					}
					return p.looks(t, func(s replica.Subscription) bool { return s.Enabled && s.Worker })
				})
				p.follows(t)
				if alone, err := has(t.Context(), p.standby, "alone-"+point); err != nil || alone == (point == "sync.committed") {
					t.Errorf("%s: %v, %v", point, alone, err)
				}
			}
			last := p.sync(t)
			p.same(t)
			if slots := p.slots(t); !slices.Equal(slots, []string{last.Slot}) {
				t.Errorf("%q are left at the primary", slots)
			}
		})
	}
}

// Only one sync runs at a time.
func TestTwoSyncs(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	other := *p.Sync
	p.Begin = func(context.Context, pgx.Tx) error {
		if _, err := other.Run(t.Context()); !errors.Is(err, replica.ErrRuns) {
			t.Errorf("a second sync: %v", err)
		}
		if healed, err := replica.Heal(t.Context(), p.standby); healed || err != nil {
			t.Errorf("a sync is disturbed: %v, %v", healed, err)
		}
		return nil
	}
	p.sync(t)
}

// Replication that is stuck because the same row exists here already continues after a sync.
func TestReplicationThatIsStuck(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.sync(t)
	pool(t, p.standby, "twice.example.net")
	pool(t, p.primary, "twice.example.net")
	pool(t, p.primary, "behind.example.net")
	waittest.UntilNil(t, "replication fails", func() error { return p.looks(t, func(s replica.Subscription) bool { return s.Errors > 0 }) })
	if behind, err := has(t.Context(), p.standby, "behind.example.net"); behind || err != nil {
		t.Fatalf("it is not stuck: %v", err)
	}
	r := p.sync(t)
	if d := r.Tables["ntp_pools"]; d.Removed != 1 || d.Added != 2 {
		t.Errorf("%+v", d)
	}
	p.follows(t)
	p.same(t)
}

// Drift is detected and named by table; a sync ends it.
func TestDrift(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.sync(t)
	p.same(t)
	dbtest.Exec(t, p.standby, "UPDATE ntp_pools SET prefer = NOT prefer")
	dbtest.Exec(t, p.standby, "UPDATE firewall_zones SET description = 'another' WHERE name = 'dmz'")
	dbtest.Exec(t, p.standby, `INSERT INTO certificate_challenges VALUES ('t', now(), 'k')`)
	differ, err := replica.Drift(t.Context(), p.standby, p.primary, passing)
	if err != nil || !slices.Equal(differ, []string{"firewall_zones", "ntp_pools"}) {
		t.Fatalf("%q %v", differ, err)
	}
	// A standby that is behind has not drifted.
	dbtest.Exec(t, p.standby, "SELECT gateway_cluster.pause()")
	waittest.UntilNil(t, "replication rests", func() error { return p.looks(t, func(s replica.Subscription) bool { return !s.Worker }) })
	pool(t, p.primary, "later.example.net")
	if differ, err = replica.Drift(t.Context(), p.standby, p.primary, passing); !errors.Is(err, replica.ErrBehind) {
		t.Errorf("%q %v", differ, err)
	}
	p.sync(t)
	p.same(t)
}

// A standby that was away for longer than its changes are kept is detected, and synchronised.
func TestSlotThatIsLost(t *testing.T) {
	t.Parallel()
	_, server := dbtest.Own(t)
	primary, standby := dbtest.Pair(t, server)
	p := pair{primary, standby, newSync(standby, dbtest.Address(primary), "node", t.TempDir())}
	first := p.sync(t)
	for _, sql := range []string{"ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()"} {
		dbtest.Exec(t, p.primary, sql)
	}
	dbtest.Exec(t, p.standby, "SELECT gateway_cluster.pause()")
	waittest.UntilNil(t, "the slot is lost", func() error {
		for _, sql := range []string{"INSERT INTO certificate_challenges SELECT gen_random_uuid(), now(), repeat('x', 1000) FROM generate_series(1, 5000)", "SELECT pg_switch_wal()", "CHECKPOINT"} {
			dbtest.Exec(t, p.primary, sql)
		}
		list, err := replica.Slots(t.Context(), p.primary)
		if err == nil && (len(list) != 1 || list[0].Name != first.Slot || !list[0].Lost) {
			err = fmt.Errorf("%+v", list)
		}
		return err
	})
	second := p.sync(t)
	if slots := p.slots(t); !slices.Equal(slots, []string{second.Slot}) {
		t.Errorf("%q", slots)
	}
	p.follows(t)
	p.same(t)
}

// Replication runs everything as the gateway's own role, which has no privileges; and that role can do all of it.
func TestReplicationHasNoPrivileges(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	role := "plain_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	var name string
	if err := p.standby.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	dbtest.Exec(t, p.standby, `CREATE ROLE `+role+` LOGIN; GRANT gateway_cluster TO `+role+`; ALTER DATABASE `+name+` OWNER TO `+role+`;
		DO $$ DECLARE t text; BEGIN FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP EXECUTE format('ALTER TABLE public.%I OWNER TO `+role+`', t); END LOOP; END $$;
		CREATE TABLE ran_as (who text, superuser text); ALTER TABLE ran_as OWNER TO `+role+`;
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.ran_as VALUES (current_user, current_setting('is_superuser')); RETURN NULL; END $$;
		CREATE TRIGGER note AFTER INSERT ON ntp_pools FOR EACH ROW EXECUTE FUNCTION note(); ALTER TABLE ntp_pools ENABLE REPLICA TRIGGER note`)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), dbtest.Address(p.standby))
		if err == nil {
			defer conn.Close(context.Background())
			_, err = conn.Exec(context.Background(), `SELECT gateway_cluster.unsubscribe(); REASSIGN OWNED BY `+role+` TO gateway; DROP OWNED BY `+role+`; DROP ROLE `+role)
		}
		if err != nil {
			t.Error(err)
		}
	})
	plain, err := db.Open(strings.Replace(dbtest.Address(p.standby), "gateway@", role+"@", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plain.Close)
	if err := plain.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	p.Here = plain
	// It can only make PostgreSQL connect to a node of a cluster, which the primary of this test is not.
	if _, err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "subscribes only to another node") {
		t.Fatal(err)
	}
	dbtest.Exec(t, p.standby, `CREATE OR REPLACE FUNCTION gateway_cluster.reaches(conninfo text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true'`)
	p.sync(t)
	p.sync(t)
	for _, change := range []string{`CONNECTION 'host=/nowhere'`, "DISABLE", "SET (synchronous_commit = off)"} {
		conn, err := plain.Server().Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "SET session_replication_role = replica"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "ALTER SUBSCRIPTION gateway "+change); err == nil {
			t.Errorf("the subscription is changed: %s", change)
		}
		conn.Close(t.Context())
	}
	name = "follows.example.net"
	pool(t, p.primary, name)
	arrives(t, plain, name)
	var who string
	if err := plain.QueryRow(t.Context(), "SELECT string_agg(DISTINCT who || ' ' || superuser, ',') FROM ran_as").Scan(&who); err != nil || who != role+" off" {
		t.Errorf("triggers ran as %s, %v", who, err)
	}
	var super bool
	if err := plain.QueryRow(t.Context(), "SELECT rolsuper FROM pg_roles WHERE rolname = $1", role).Scan(&super); err != nil || super {
		t.Errorf("the role is a superuser: %v, %v", super, err)
	}
}

// A database that another node follows can be exchanged, although the other node's session belongs to a role that the owner is no
// member of. Its slots are dropped, so that the node must sync again.
func TestExchangeOfADatabaseThatIsFollowed(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	role := "owner_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	address := dbtest.Address(p.primary)
	var name string
	if err := p.primary.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	dbtest.Exec(t, p.primary, `CREATE ROLE `+role+` LOGIN CREATEDB; GRANT gateway_cluster TO `+role+`; ALTER DATABASE `+name+` OWNER TO `+role)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), address)
		if err == nil {
			defer conn.Close(context.Background())
			_, err = conn.Exec(context.Background(), `REASSIGN OWNED BY `+role+` TO gateway; DROP OWNED BY `+role+`; DROP ROLE `+role)
		}
		if err != nil {
			t.Error(err)
		}
	})
	p.sync(t)
	p.follows(t)
	primary := p.primary
	primary.Close() // a gateway has no sessions of a superuser there
	owner, err := db.Open(strings.Replace(address, "gateway@", role+"@", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Close)
	s := owner.Server()
	next, former := name+"_next", name+"_former"
	if err := s.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if err := s.Exchange(t.Context(), next, former); err != nil {
		t.Fatal(err)
	}
	// The current database has no functions for replication, and no followers.
	if err := s.Exchange(t.Context(), former, next); err != nil {
		t.Fatal(err)
	}
	if err := s.Drop(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if p.primary, err = db.Open(address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.primary.Close)
	if err := p.primary.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	if slots := p.slots(t); len(slots) > 0 {
		t.Errorf("it keeps changes for %q", slots)
	}
	p.sync(t)
	pool(t, primary, "again.example.net")
	arrives(t, p.standby, "again.example.net")
}

// A role that is changed at the primary takes effect at the standby, whether the change is replicated or copied by a sync.
func TestActorsAreForgottenAtTheStandby(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	dbtest.Exec(t, p.primary, `INSERT INTO account_users (id, created_at, updated_at, email, name, role, active, password, totp_enabled, oidc_subject)
		VALUES (gen_random_uuid(), now(), now(), 'a@example.net', '', 'admin', true, '', false, '')`)
	p.sync(t)
	roles := db.NewCache[string, string](p.standby, "actors")
	role := func(read func() (string, error)) string {
		is, err := roles.Get("a", read)
		if err != nil {
			return ""
		}
		return is
	}
	stored := func() (is string, err error) {
		err = p.standby.QueryRow(t.Context(), "SELECT role FROM account_users").Scan(&is)
		return is, err
	}
	kept := func() (string, error) { return "", errors.New("not kept") }
	change := func(to string) {
		t.Helper()
		was := role(stored)
		waittest.Until(t, "the role is kept", func() bool { role(stored); return role(kept) == was })
		dbtest.Exec(t, p.primary, "UPDATE account_users SET role = $1", to)
	}
	change("viewer")
	waittest.Until(t, "the role arrives", func() bool { return role(stored) == "viewer" })
	dbtest.Exec(t, p.standby, "SELECT gateway_cluster.unsubscribe()")
	change("admin")
	p.sync(t)
	waittest.Until(t, "the role comes with the sync", func() bool { return role(stored) == "admin" })
}
