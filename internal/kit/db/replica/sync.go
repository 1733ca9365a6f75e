// Package replica makes a database follow that of another node: it compares all shared rows, copies those that differ, subscribes
// to later changes, and checks that both are the same. The following itself is PostgreSQL's logical replication.
package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/fault"
)

// Sync makes a database equal to that of the primary, and subscribes it. Readers see either the state before or the one after,
// and a sync that ends early leaves the state before: see Heal.
type Sync struct {
	Here *db.DB
	// Primary is the connection string of its database.
	Primary string
	// Node is the id of this node. The names of its slots at the primary are derived from it.
	Node string
	// Folder receives the rows that only this node had.
	Folder string
	// MostMayGo allows more than half of the rows to be removed, as when a node joins.
	MostMayGo bool
	// Judge checks the primary before anything is done.
	Judge func(ctx context.Context, primary db.Querier) error
	// Begin and End run in the transaction: before anything is compared, and when everything is done.
	Begin func(ctx context.Context, tx pgx.Tx) error
	End   func(ctx context.Context, tx pgx.Tx, r Result) error
}

// Result is what a sync has done.
type Result struct {
	// Slot is where the primary keeps changes for this node.
	Slot string `json:"slot"`
	// File holds the rows that were removed or changed; empty if there were none.
	File string `json:"file,omitempty"`
	// Tables are those that differed.
	Tables map[string]Difference `json:"tables"`
}

// Difference counts the rows of a table that differed from those of the primary.
type Difference struct {
	Added   int64 `json:"added" doc:"Rows that only the primary had."`
	Changed int64 `json:"changed" doc:"Rows that were other ones."`
	Removed int64 `json:"removed" doc:"Rows that only this node had."`
}

// ErrTooMuch refuses a sync that would remove more than half of the rows.
var ErrTooMuch = fault.New(fault.Conflict, "More than half of this node's data is missing on the primary. Check that it is the right primary, then repeat with force.")

// ErrRuns refuses a second sync.
var ErrRuns = fault.New(fault.Conflict, "This node is already being synchronised.")

const (
	// pausedWithin is how long replication may take to stop, and slotFree how long a slot may stay in use by someone who is about
	// to end.
	pausedWithin = 30 * time.Second
	slotFree     = 10 * time.Second
	again        = 50 * time.Millisecond

	publication = "gateway"
	// syncing takes the lock for syncs, which is held as long as the connection lasts.
	syncing = "SELECT pg_try_advisory_lock(22, 1)"
)

// hangUp closes a connection, and releases its locks before the server notices that it is closed.
func hangUp(ctx context.Context, conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = conn.Exec(ctx, "SELECT pg_advisory_unlock_all()")
	_ = conn.Close(ctx)
}

// run is a sync in progress.
type run struct {
	*Sync
	here, primary, stream *pgx.Conn
	tables                []table
	result                Result
}

func (s *Sync) Run(ctx context.Context) (_ Result, err error) {
	r := &run{Sync: s, result: Result{Tables: map[string]Difference{}}}
	defer r.hangUp(ctx)
	if err := r.connect(ctx); err != nil {
		return Result{}, err
	}
	if err := r.pause(ctx); err != nil {
		return Result{}, errors.Join(err, r.undo(ctx))
	}
	if err := r.follow(ctx); err != nil {
		return Result{}, errors.Join(err, r.undo(ctx))
	}
	if err := failpoint.Hit("sync.committed"); err != nil {
		return r.result, err
	}
	return r.result, r.dropSlots(ctx, r.result.Slot)
}

func (r *run) connect(ctx context.Context) (err error) {
	if err := r.reach(ctx, turnWithin); err != nil {
		return err
	}
	if err := r.Judge(ctx, r.primary); err != nil {
		return err
	}
	r.stream, err = r.Here.Server().ConnectTo(ctx, r.Primary, true)
	return err
}

// turnWithin is how long a sync waits for others that hold the lock briefly: a check for slots, or an earlier run of this program
// that was killed.
const turnWithin = 5 * time.Second

// reach connects to both databases, and takes the lock that keeps others from syncing this one.
func (r *run) reach(ctx context.Context, within time.Duration) (err error) {
	server := r.Here.Server()
	if r.here, err = server.Connect(ctx); err != nil {
		return err
	}
	for end := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		var mine bool
		if err := r.here.QueryRow(ctx, syncing).Scan(&mine); err != nil {
			return err
		}
		if mine {
			break
		}
		if time.Now().After(end) {
			return ErrRuns
		}
	}
	r.primary, err = server.ConnectTo(ctx, r.Primary, false)
	return err
}

// Tidy drops a node's slots at the primary that were left behind by killed syncs: the primary keeps changes for them.
func Tidy(ctx context.Context, here *db.DB, primary, node string) error {
	r := &run{Sync: &Sync{Here: here, Primary: primary, Node: node}}
	defer r.hangUp(ctx)
	if err := r.reach(ctx, 0); err != nil {
		return err
	}
	s, err := Look(ctx, r.here)
	if err != nil || s.Slot == "" {
		return err
	}
	return r.dropSlots(ctx, s.Slot)
}

func (r *run) hangUp(ctx context.Context) {
	for _, conn := range []*pgx.Conn{r.stream, r.primary, r.here} {
		hangUp(ctx, conn)
	}
}

// pause stops replication: otherwise it would continue while the primary's state is read, and the sync would set this database
// back in time.
func (r *run) pause(ctx context.Context) error {
	if _, err := r.here.Exec(ctx, "SELECT gateway_cluster.pause()"); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, pausedWithin)
	defer cancel()
	for {
		var running bool
		if err := r.here.QueryRow(waiting, workerRuns).Scan(&running); err != nil {
			return fmt.Errorf("waiting for replication to stand still: %w", err)
		}
		if !running {
			return failpoint.Hit("sync.paused")
		}
		time.Sleep(again)
	}
}

// workerRuns asks whether replication into this database is running.
const workerRuns = `SELECT EXISTS (SELECT FROM pg_stat_subscription a JOIN pg_subscription s ON s.oid = a.subid JOIN pg_database d ON d.oid = s.subdbid
	WHERE s.subname = 'gateway' AND d.datname = current_database() AND a.pid IS NOT NULL)`

// undo resumes the existing subscription: the former one, unless the connection was lost at the moment of the commit.
func (r *run) undo(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	_, err := r.here.Exec(ctx, "SELECT gateway_cluster.resume()")
	if err != nil {
		return fmt.Errorf("letting replication go on: %w", err) // it is also unknown which slot that needs
	}
	s, err := Look(ctx, r.here)
	if err != nil {
		return err
	}
	return r.dropSlots(ctx, s.Slot)
}

// follow copies the primary's state, and subscribes to what comes after it.
func (r *run) follow(ctx context.Context) error {
	snapshot, err := r.makeSlot(ctx)
	if err != nil {
		return err
	}
	if err := failpoint.Hit("sync.slot"); err != nil {
		return err
	}
	for _, sql := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "SET TRANSACTION SNAPSHOT '" + snapshot + "'"} {
		if _, err := r.primary.Exec(ctx, sql); err != nil {
			return err
		}
	}
	tx, err := r.here.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	for _, step := range []func(context.Context, pgx.Tx) error{r.Begin, r.copyAll, r.save, r.replace, r.subscribe} {
		if err := step(ctx, tx); err != nil {
			return errors.Join(err, r.forget())
		}
	}
	if err := tx.Commit(ctx); err != nil {
		err = fmt.Errorf("storing the primary's state: %w", err)
		if _, refused := errors.AsType[*pgconn.PgError](err); refused {
			err = errors.Join(err, r.forget())
		}
		return err // without an answer it may be stored, and the file is all that is left of the removed rows
	}
	return nil
}

// forget removes the file of rows that only this node has, because it still has them.
func (r *run) forget() error {
	if r.result.File == "" {
		return nil
	}
	return os.Remove(r.result.File)
}

var slotForm = regexp.MustCompile(`[^a-z0-9]+`)

// SlotsOf returns the prefix of the names of a node's slots.
func SlotsOf(node string) string {
	return "gateway_" + slotForm.ReplaceAllString(strings.ToLower(node), "") + "_"
}

// makeSlot makes the primary keep all changes after a snapshot, whose name it returns. It waits for running transactions there.
func (r *run) makeSlot(ctx context.Context) (snapshot string, err error) {
	r.result.Slot = fmt.Sprintf("%s%x", SlotsOf(r.Node), time.Now().UnixMicro())
	var name, point, plugin string
	err = r.stream.QueryRow(ctx, fmt.Sprintf(`CREATE_REPLICATION_SLOT "%s" LOGICAL pgoutput (SNAPSHOT 'export')`, r.result.Slot)).Scan(&name, &point, &snapshot, &plugin)
	if err != nil {
		return "", fmt.Errorf("making a slot at the primary: %w", err)
	}
	if !regexp.MustCompile(`^[0-9A-F]+(?:-[0-9A-F]+)*$`).MatchString(snapshot) {
		return "", fmt.Errorf("the primary returned the invalid snapshot name %.40q", snapshot)
	}
	return snapshot, nil
}

// dropSlots drops the slots of this node at the primary except the one in use, including those of syncs that ended early.
func (r *run) dropSlots(ctx context.Context, but string) error {
	// The connection that created a slot holds its snapshot.
	if r.stream != nil {
		_ = r.stream.Close(ctx)
		r.stream = nil
	}
	if r.primary == nil || r.primary.IsClosed() {
		return nil // the next sync does it
	}
	if r.primary.PgConn().TxStatus() != 'I' {
		if _, err := r.primary.Exec(ctx, "ROLLBACK"); err != nil {
			return err
		}
	}
	waiting, cancel := context.WithTimeout(ctx, slotFree)
	defer cancel()
	for {
		var left int
		// A slot that is still in use is about to be released.
		if _, err := r.primary.Exec(waiting, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
			WHERE NOT active AND database = current_database() AND starts_with(slot_name, $1) AND slot_name <> $2`, SlotsOf(r.Node), but); err != nil {
			return fmt.Errorf("dropping slots at the primary: %w", err)
		}
		if err := r.primary.QueryRow(waiting, `SELECT count(*) FROM pg_replication_slots
			WHERE database = current_database() AND starts_with(slot_name, $1) AND slot_name <> $2`, SlotsOf(r.Node), but).Scan(&left); err != nil {
			return fmt.Errorf("dropping slots at the primary: %w", err)
		}
		if left == 0 {
			return nil
		}
		time.Sleep(again)
	}
}

// table is a table that the primary shares.
type table struct {
	name    string
	columns []string // shared
	key     []string
	local   []string // other columns of this node
}

func list(names []string, prefix string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = prefix + pgx.Identifier{name}.Sanitize()
	}
	return strings.Join(quoted, ", ")
}

func (t table) live() string  { return pgx.Identifier{"public", t.name}.Sanitize() }
func (t table) fresh() string { return pgx.Identifier{"pg_temp", "new_" + t.name}.Sanitize() }
func (t table) stale() string { return pgx.Identifier{"pg_temp", "old_" + t.name}.Sanitize() }

// same returns the condition that two rows have the same key.
func (t table) same(a, b string) string {
	terms := make([]string, len(t.key))
	for i, name := range t.key {
		column := pgx.Identifier{name}.Sanitize()
		terms[i] = a + "." + column + " = " + b + "." + column
	}
	return strings.Join(terms, " AND ")
}

// shared reads what a database publishes.
func shared(ctx context.Context, q db.Querier) ([]table, error) {
	rows, err := q.Query(ctx, `
		SELECT p.tablename::text, p.attnames::text[],
			(SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
			 WHERE i.indrelid = format('public.%I', p.tablename)::regclass AND i.indisprimary)
		FROM pg_publication_tables p WHERE p.pubname = 'gateway' AND p.schemaname = 'public' ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (t table, err error) {
		err = row.Scan(&t.name, &t.columns, &t.key)
		return t, err
	})
}

// copyAll copies the primary's rows into temporary tables.
func (r *run) copyAll(ctx context.Context, tx pgx.Tx) (err error) {
	// Act as replication: neither the guard nor foreign keys apply, and triggers for replicated changes fire.
	if _, err := tx.Exec(ctx, "SET LOCAL session_replication_role = replica"); err != nil {
		return err
	}
	if r.tables, err = shared(ctx, r.primary); err != nil {
		return err
	}
	for i := range r.tables {
		if err := r.copy(ctx, tx, &r.tables[i]); err != nil {
			return fmt.Errorf("copying %s: %w", r.tables[i].name, err)
		}
	}
	return failpoint.Hit("sync.copied")
}

func (r *run) copy(ctx context.Context, tx pgx.Tx, t *table) error {
	var has []string
	if err := tx.QueryRow(ctx, `SELECT coalesce(array_agg(attname::text ORDER BY attnum), '{}') FROM pg_attribute
		WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`, t.live()).Scan(&has); err != nil {
		return err
	}
	for _, name := range t.columns {
		if !slices.Contains(has, name) {
			return fault.New(fault.Conflict, "The primary runs a newer version of the gateway and has %s.%s. Upgrade this node first.", t.name, name)
		}
	}
	for _, name := range has {
		if !slices.Contains(t.columns, name) {
			t.local = append(t.local, name)
		}
	}
	columns := list(t.columns, "")
	if _, err := tx.Exec(ctx, "CREATE TEMP TABLE "+pgx.Identifier{"new_" + t.name}.Sanitize()+" ON COMMIT DROP AS SELECT "+columns+" FROM "+t.live()+" WHERE false"); err != nil {
		return err
	}
	out, in := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		_, err := r.primary.PgConn().CopyTo(ctx, in, "COPY "+t.live()+" ("+columns+") TO STDOUT")
		in.CloseWithError(err)
		sent <- err
	}()
	_, err := tx.Conn().PgConn().CopyFrom(ctx, out, "COPY "+t.fresh()+" ("+columns+") FROM STDIN")
	out.CloseWithError(errors.New("not taken"))
	if err := errors.Join(<-sent, err); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "ANALYZE "+t.fresh()); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "CREATE TEMP TABLE "+pgx.Identifier{"old_" + t.name}.Sanitize()+" ON COMMIT DROP AS SELECT t.* FROM "+t.live()+" t WHERE NOT EXISTS (SELECT FROM "+t.fresh()+" n WHERE "+
		t.same("n", "t")+" AND ROW("+list(t.columns, "n.")+") IS NOT DISTINCT FROM ROW("+list(t.columns, "t.")+"))")
	return err
}

// save counts the differences, and saves the rows that only this node had.
func (r *run) save(ctx context.Context, tx pgx.Tx) error {
	var rows, gone int64
	for _, t := range r.tables {
		var d Difference
		var all int64
		there := list(t.key[:1], "n.")
		if err := tx.QueryRow(ctx, "SELECT (SELECT count(*) FROM "+t.live()+"), (SELECT count(*) FROM "+t.fresh()+" n WHERE NOT EXISTS (SELECT FROM "+t.live()+" t WHERE "+t.same("t", "n")+")), "+
			"count("+there+"), count(*) - count("+there+") FROM "+t.stale()+" o LEFT JOIN "+t.fresh()+" n ON "+t.same("n", "o")).Scan(&all, &d.Added, &d.Changed, &d.Removed); err != nil {
			return fmt.Errorf("comparing %s: %w", t.name, err)
		}
		rows, gone = rows+all, gone+d.Removed
		if d != (Difference{}) {
			r.result.Tables[t.name] = d
		}
	}
	if 2*gone > rows && !r.MostMayGo {
		return ErrTooMuch
	}
	if err := r.write(ctx, tx); err != nil {
		return fmt.Errorf("keeping what this node alone has: %w", err)
	}
	return failpoint.Hit("sync.saved")
}

// write saves the rows that are removed or changed, one per line.
func (r *run) write(ctx context.Context, tx pgx.Tx) (err error) {
	lost := slices.DeleteFunc(slices.Clone(r.tables), func(t table) bool { d := r.result.Tables[t.name]; return d.Changed+d.Removed == 0 })
	if len(lost) == 0 {
		return nil
	}
	if err := os.MkdirAll(r.Folder, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(r.Folder, "differences-"+time.Now().UTC().Format("20060102T150405.000000Z")+".jsonl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	r.result.File = f.Name()
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, t := range lost {
		// Shared columns only: the local ones are kept.
		had := "(SELECT to_jsonb(x) FROM (SELECT " + list(t.columns, "o.") + ") x)"
		rows, err := tx.Query(ctx, "SELECT jsonb_build_object('table', $1::text, 'here', "+had+", 'primary', CASE WHEN "+list(t.key[:1], "n.")+" IS NOT NULL THEN to_jsonb(n) END)::text FROM "+
			t.stale()+" o LEFT JOIN "+t.fresh()+" n ON "+t.same("n", "o")+" ORDER BY "+list(t.key, "o."), t.name)
		if err != nil {
			return err
		}
		var line string
		if _, err := pgx.ForEachRow(rows, []any{&line}, func() error { _, err := io.WriteString(f, line+"\n"); return err }); err != nil {
			return err
		}
	}
	return f.Sync()
}

// replace makes the rows equal to those of the primary. If nothing differs, nothing is written. Local columns keep their values.
func (r *run) replace(ctx context.Context, tx pgx.Tx) error {
	for _, t := range r.tables {
		d := r.result.Tables[t.name]
		columns := list(t.columns, "")
		var statements []string
		if d.Changed+d.Removed > 0 {
			statements = append(statements, "DELETE FROM "+t.live()+" t USING "+t.stale()+" o WHERE "+t.same("t", "o"))
		}
		if d.Changed > 0 && len(t.local) > 0 {
			statements = append(statements, "INSERT INTO "+t.live()+" ("+columns+", "+list(t.local, "")+") SELECT "+list(t.columns, "n.")+", "+list(t.local, "o.")+
				" FROM "+t.fresh()+" n JOIN "+t.stale()+" o ON "+t.same("n", "o")+" ORDER BY "+list(t.key, "n."))
		}
		if d.Added+d.Changed > 0 {
			statements = append(statements, "INSERT INTO "+t.live()+" ("+columns+") SELECT "+columns+" FROM "+t.fresh()+" n WHERE NOT EXISTS (SELECT FROM "+t.live()+" t WHERE "+
				t.same("t", "n")+") ORDER BY "+list(t.key, "n."))
		}
		for _, sql := range statements {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("replacing rows of %s: %w", t.name, err)
			}
		}
	}
	return failpoint.Hit("sync.replaced")
}

// subscribe starts replication at the snapshot that was read.
func (r *run) subscribe(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "SELECT gateway_cluster.unsubscribe()"); err != nil {
		return fmt.Errorf("ending the subscription: %w", err)
	}
	if _, err := tx.Exec(ctx, "SELECT gateway_cluster.subscribe($1, $2)", r.Primary, r.result.Slot); err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	if err := r.End(ctx, tx, r.result); err != nil {
		return err
	}
	return failpoint.Hit("sync.subscribed")
}
