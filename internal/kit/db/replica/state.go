package replica

import (
	"context"
	"crypto/md5" //nolint:gosec // tells states apart, and protects nothing
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
)

// Heal resumes replication that a sync stopped before it died. It reports whether that was necessary.
func Heal(ctx context.Context, here *db.DB) (healed bool, err error) {
	conn, err := here.Server().Connect(ctx)
	if err != nil {
		return false, err
	}
	defer hangUp(ctx, conn)
	var mine bool
	if err := conn.QueryRow(ctx, syncing).Scan(&mine); err != nil || !mine {
		return false, err
	}
	s, err := Look(ctx, conn)
	if err != nil || s.Slot == "" || s.Enabled {
		return false, err
	}
	_, err = conn.Exec(ctx, "SELECT gateway_cluster.resume()")
	return err == nil, err
}

// Subscription is the state of a database's replication from the primary.
type Subscription struct {
	// Slot is empty if there is no subscription.
	Slot    string
	Enabled bool
	// Worker reports whether replication is running. If it fails, it is restarted again and again.
	Worker bool
	// Errors counts its failures.
	Errors int64
	// Heard is when the primary last sent something.
	Heard *time.Time
	// Whole reports whether the subscription has all tables that this database shares. Those that a newer schema has added are
	// missing.
	Whole bool
}

// Look reads the state of a database's replication.
func Look(ctx context.Context, here db.Querier) (s Subscription, err error) {
	err = here.QueryRow(ctx, `
		SELECT coalesce(s.subslotname::text, ''), s.subenabled, a.pid IS NOT NULL, coalesce(e.apply_error_count, 0), a.last_msg_receipt_time,
			NOT EXISTS (SELECT FROM pg_publication_tables p WHERE p.pubname = $1 AND NOT EXISTS (SELECT FROM pg_subscription_rel t WHERE t.srsubid = s.oid AND t.srrelid = format('%I.%I', p.schemaname, p.tablename)::regclass))
		FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid
		LEFT JOIN pg_stat_subscription a ON a.subid = s.oid AND a.relid IS NULL LEFT JOIN pg_stat_subscription_stats e ON e.subid = s.oid
		WHERE s.subname = $1 AND d.datname = current_database()`, publication).Scan(&s.Slot, &s.Enabled, &s.Worker, &s.Errors, &s.Heard, &s.Whole)
	if errors.Is(err, pgx.ErrNoRows) {
		return Subscription{}, nil
	}
	return s, err
}

// Slot is what the primary keeps for a node.
type Slot struct {
	Name   string `json:"name"`
	Active bool   `json:"active"`
	// Lost says that the node was away for longer than its changes are kept: it needs a sync.
	Lost bool `json:"lost"`
	// Behind is the number of bytes that the node has not confirmed, and Position that of all bytes.
	Behind   int64 `json:"behind"`
	Position int64 `json:"position"`
	// Late is how many seconds ago the node last had everything. It is set by those who poll.
	Late float64 `json:"late_seconds" db:"-"`
}

func (s Slot) Of(node string) bool { return strings.HasPrefix(s.Name, SlotsOf(node)) }

// Slots reads what the primary keeps for the nodes.
func Slots(ctx context.Context, primary db.Querier) ([]Slot, error) {
	rows, err := primary.Query(ctx, `SELECT slot_name::text, active, wal_status IN ('lost', 'unreserved'), coalesce(pg_wal_lsn_diff(l, confirmed_flush_lsn), 0)::bigint, (l - '0/0')::bigint
		FROM pg_current_wal_lsn() l, pg_replication_slots WHERE database = current_database() AND starts_with(slot_name, 'gateway_') ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Slot])
}

// Hash holds the hashes of all shared rows, by table.
type Hash map[string]string

func (h Hash) String() string {
	sum := md5.New() //nolint:gosec // see above
	for _, name := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(sum, "%s %s\n", name, h[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Differ returns the tables that are not the same.
func (h Hash) Differ(other Hash) []string {
	var names []string
	for name := range h {
		if h[name] != other[name] {
			names = append(names, name)
		}
	}
	for name := range other {
		if _, known := h[name]; !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// HashOf hashes what a database shares, except the passing tables. Both databases must have the same version of PostgreSQL, and
// of the schema, which is part of the hash.
func HashOf(ctx context.Context, q db.Querier, passing []string) (Hash, error) {
	tables, err := shared(ctx, q)
	if err != nil {
		return nil, err
	}
	// One statement for all tables: most of them have few rows, and a query for each would take longer than hashing it.
	var parts []string
	for _, t := range tables {
		if !slices.Contains(passing, t.name) {
			slices.Sort(t.columns)
			parts = append(parts, fmt.Sprintf("SELECT '%s', count(*), coalesce(bit_xor(hash_record_extended(ROW(%s), 0)), 0) FROM %s t", t.name, list(t.columns, "t."), t.live()))
		}
	}
	rows, err := q.Query(ctx, strings.Join(parts, " UNION ALL "))
	if err != nil {
		return nil, err
	}
	h := Hash{}
	var name string
	var count, sum int64
	if _, err := pgx.ForEachRow(rows, []any{&name, &count, &sum}, func() error { h[name] = fmt.Sprintf("%d %x", count, uint64(sum)); return nil }); err != nil {
		return nil, fmt.Errorf("hashing what is shared: %w", err)
	}
	var version int64
	if err := q.QueryRow(ctx, "SELECT max(version_id) FROM goose_db_version WHERE is_applied").Scan(&version); err != nil {
		return nil, err
	}
	h[""] = fmt.Sprint(version)
	return h, nil
}

const (
	// quiet is how often a comparison is tried while the primary changes, and caughtUp how long a standby may take to get what
	// the primary had.
	quiet    = 5
	caughtUp = 10 * time.Second
)

// ErrBusy says that the primary changes too fast to be compared. That is no drift.
var ErrBusy = errors.New("the primary changes too fast to be compared")

// ErrBehind says that the standby did not get what the primary has in time.
var ErrBehind = errors.New("the standby is behind")

// Drift compares a standby with its primary, and returns the tables that differ although the standby has received everything. A
// difference counts only if the primary is the same before and after.
func Drift(ctx context.Context, here, primary db.Querier, passing []string) ([]string, error) {
	before, err := HashOf(ctx, primary, passing)
	if err != nil {
		return nil, err
	}
	for range quiet {
		if err := await(ctx, here, primary); err != nil {
			return nil, err
		}
		mine, err := HashOf(ctx, here, passing)
		if err != nil {
			return nil, err
		}
		after, err := HashOf(ctx, primary, passing)
		if err != nil {
			return nil, err
		}
		if differ := mine.Differ(after); len(differ) == 0 || before.String() == after.String() {
			return differ, nil
		}
		before = after
	}
	return nil, ErrBusy
}

// await waits until a standby has what the primary has now.
func await(ctx context.Context, here, primary db.Querier) error {
	s, err := Look(ctx, here)
	if err != nil {
		return err
	}
	var now string // the insert position: the write position may be behind what readers already see
	if err := primary.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&now); err != nil {
		return err
	}
	for end := time.Now().Add(caughtUp); ; time.Sleep(again) {
		var has bool
		err := primary.QueryRow(ctx, "SELECT coalesce((SELECT confirmed_flush_lsn >= $2::pg_lsn FROM pg_replication_slots WHERE slot_name = $1), false)", s.Slot, now).Scan(&has)
		switch {
		case err != nil:
			return err
		case has:
			return nil
		case time.Now().After(end):
			return ErrBehind
		}
	}
}

// Spread waits until all active standbys have what the primary has now.
func Spread(ctx context.Context, primary db.Querier, within time.Duration) error {
	var now string
	if err := primary.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&now); err != nil {
		return err
	}
	for end := time.Now().Add(within); ; time.Sleep(again) {
		var behind bool
		err := primary.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_replication_slots WHERE database = current_database() AND starts_with(slot_name, 'gateway_') AND active AND confirmed_flush_lsn < $1::pg_lsn)`, now).Scan(&behind)
		switch {
		case err != nil || !behind:
			return err
		case time.Now().After(end):
			return ErrBehind
		}
	}
}
