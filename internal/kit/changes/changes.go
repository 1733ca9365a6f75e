// Package changes keeps the history: which rows a change set has changed, by whom, when and why, and how the components applied
// it.
package changes

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/wire"
)

// Intent is what is known about a change besides the change itself.
type Intent struct {
	// Set is the change set that the change belongs to.
	Set    uuid.UUID
	Reason string
	// Reverts is the change set that this one reverts; the nil UUID if there is none.
	Reverts uuid.UUID
	// Within is the time in which the change must be confirmed before it is reverted; zero if it need not be.
	Within time.Duration
	// TakesBack says that it reverts a set that was not confirmed.
	TakesBack bool
}

type key struct{}

// With assigns the changes that are made with the context to one change set.
func With(ctx context.Context, i Intent) context.Context { return context.WithValue(ctx, key{}, i) }

// From returns the intent of changes. Without one, each change is a set of its own.
func From(ctx context.Context) Intent {
	i, _ := ctx.Value(key{}).(Intent)
	return i
}

// Begun makes sure that the changes made with the context have a set.
func Begun(ctx context.Context) (context.Context, Intent, error) {
	i := From(ctx)
	if i.Set != uuid.Nil {
		return ctx, i, nil
	}
	var err error
	if i.Set, err = uuid.NewV7(); err != nil {
		return nil, i, err
	}
	return With(ctx, i), i, nil
}

// Log writes and reads the history.
type Log struct {
	db    *db.DB
	clock clock.Clock
	node  string
}

// New returns the log of the node with the machine id.
func New(d *db.DB, c clock.Clock, node string) *Log { return &Log{d, c, node} }

// Begin assigns the rows that the transaction changes from here on to a set.
func (l *Log) Begin(tx *db.Tx, set uuid.UUID) {
	tx.Queue(`SELECT set_config('gateway.change', $1, true)`, set.String())
}

// End stores the set if it has changed any rows. revisions are those of the components, and by is the deadline for its
// confirmation; zero if it need not be confirmed.
func (l *Log) End(ctx context.Context, tx *db.Tx, i Intent, revisions map[string]int64, by time.Time) error {
	b, err := json.Marshal(revisions, json.Deterministic(true))
	if err != nil {
		return err
	}
	var reverts *uuid.UUID
	if i.Reverts != uuid.Nil {
		reverts = &i.Reverts
	}
	tx.Queue(`SELECT change_end($1, $2, $3, $4, $5, $6, $7, $8, $9)`, i.Set, l.clock.Now(), actor.From(ctx).Name, l.node, actor.Request(ctx), i.Reason, reverts, b, absent(by))
	if i.TakesBack {
		l.Settle(tx, i.Reverts, TakenBack)
	}
	return nil
}

// States of a set that must be confirmed.
const (
	Waiting   = "waiting"
	Confirmed = "confirmed"
	TakenBack = "taken_back"
)

func (l *Log) Settle(tx *db.Tx, id uuid.UUID, state string) {
	tx.Queue(`SELECT change_settle($1, $2)`, id, state)
}

// Set is a stored change set.
type Set struct {
	ID        uuid.UUID
	CreatedAt time.Time
	Actor     string
	NodeID    string
	RequestID string
	Reason    string
	Reverts   *uuid.UUID
	Revisions map[string]int64
	State     string
	ConfirmBy *time.Time
	Local     bool
	// RevertedBy is the newest set that reverts this one.
	RevertedBy *uuid.UUID
	// Tables count the rows that it has created, updated and deleted.
	Tables []Count
}

// Count is what a set did to the rows of a table.
type Count struct {
	Table   string `json:"table"`
	Created int    `json:"created"`
	Updated int    `json:"updated"`
	Deleted int    `json:"deleted"`
}

// Row is a change of one row, with its images in the database.
type Row struct {
	At       time.Time
	Set      uuid.UUID
	Table    string
	ID       uuid.UUID
	Was, Now []byte
}

// Filter selects sets. Texts match anywhere and ignore case.
type Filter struct {
	Actor, Reason string
	From, To      time.Time
	// Tables, if not empty, are those whose rows the sets have changed; Row is one of their rows.
	Tables []string
	Row    uuid.UUID
	// Component is one that the sets have fed.
	Component string
	State     string
	// Before limits the result to sets older than this one.
	Before uuid.UUID
	Limit  int
}

// MaxLimit is the maximum number of sets that one search returns.
const MaxLimit = 500

const selectSets = `SELECT s.id, s.created_at, s.actor, s.node_id, s.request_id, s.reason, s.reverts, s.revisions, s.state, s.confirm_by, s.local,
	(SELECT b.id FROM change_all_sets b WHERE b.reverts = s.id ORDER BY b.created_at DESC LIMIT 1),
	(SELECT coalesce(jsonb_agg(jsonb_build_object('table', t.table_name, 'created', t.created, 'updated', t.updated, 'deleted', t.deleted) ORDER BY t.table_name), '[]') FROM (
		SELECT r.table_name, count(*) FILTER (WHERE was IS NULL) AS created, count(*) FILTER (WHERE was IS NOT NULL AND now IS NOT NULL) AS updated, count(*) FILTER (WHERE now IS NULL) AS deleted
		FROM change_all_rows r WHERE r.set_id = s.id GROUP BY r.table_name) t)
	FROM change_all_sets s`

// Search returns matching sets, newest first.
func (l *Log) Search(ctx context.Context, q db.Querier, f Filter) ([]Set, error) {
	rows, err := q.Query(ctx, selectSets+`
		WHERE ($1 = '' OR position(lower($1) IN lower(s.actor)) > 0)
		  AND ($2 = '' OR position(lower($2) IN lower(s.reason)) > 0)
		  AND ($3::timestamptz IS NULL OR s.created_at >= $3)
		  AND ($4::timestamptz IS NULL OR s.created_at <= $4)
		  AND ($5::text[] IS NULL OR EXISTS (SELECT FROM change_all_rows r WHERE r.set_id = s.id AND r.table_name = ANY ($5) AND ($6::uuid IS NULL OR r.row_id = $6)))
		  AND ($7 = '' OR s.revisions ? $7)
		  AND ($10 = '' OR s.state = $10)
		  AND ($8::uuid IS NULL OR (s.created_at, s.id) < (SELECT b.created_at, b.id FROM change_all_sets b WHERE b.id = $8))
		ORDER BY s.created_at DESC, s.id DESC LIMIT $9`,
		f.Actor, f.Reason, absent(f.From), absent(f.To), f.Tables, absent(f.Row), f.Component, absent(f.Before), min(f.Limit, MaxLimit), f.State)
	if err != nil {
		return nil, err
	}
	sets, err := pgx.CollectRows(rows, scan)
	return sets, err
}

func scan(row pgx.CollectableRow) (s Set, err error) {
	var revisions, tables []byte
	if err := row.Scan(&s.ID, &s.CreatedAt, &s.Actor, &s.NodeID, &s.RequestID, &s.Reason, &s.Reverts, &revisions, &s.State, &s.ConfirmBy, &s.Local, &s.RevertedBy, &tables); err != nil {
		return s, err
	}
	return s, errors.Join(json.Unmarshal(revisions, &s.Revisions), json.Unmarshal(tables, &s.Tables))
}

func (l *Log) Get(ctx context.Context, q db.Querier, id uuid.UUID) (Set, error) {
	rows, err := q.Query(ctx, selectSets+` WHERE s.id = $1`, id)
	if err != nil {
		return Set{}, err
	}
	s, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, fault.New(fault.NotFound, "This change set does not exist, or is no longer kept.")
	}
	return s, err
}

// Newest returns the newest set; nil if there is none.
func (l *Log) Newest(ctx context.Context, q db.Querier) (*uuid.UUID, error) {
	var id *uuid.UUID
	err := q.QueryRow(ctx, `SELECT (SELECT id FROM change_all_sets ORDER BY created_at DESC, id DESC LIMIT 1)`).Scan(&id)
	return id, err
}

// Unsettled returns the sets that wait for their confirmation, wherever they were made.
func (l *Log) Unsettled(ctx context.Context, q db.Querier) ([]Set, error) {
	rows, err := q.Query(ctx, `SELECT id, actor, node_id, confirm_by, local FROM change_all_sets WHERE state = 'waiting'`)
	if err != nil {
		return nil, err
	}
	sets, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Set, err error) {
		return s, row.Scan(&s.ID, &s.Actor, &s.NodeID, &s.ConfirmBy, &s.Local)
	})
	return sets, err
}

func (l *Log) Node() string { return l.node }

// Moment returns a time that is later than all changes so far.
func (l *Log) Moment(ctx context.Context, q db.Querier) (at time.Time, err error) {
	err = q.QueryRow(ctx, `SELECT greatest(clock_timestamp(), (SELECT max(at) FROM change_all_rows))`).Scan(&at)
	return at, err
}

// Here reports whether this node has made a set.
func (l *Log) Here(s Set) bool { return s.NodeID == l.node }

// Maker says who made a change set.
type Maker struct {
	Set           uuid.UUID
	CreatedAt     time.Time
	Actor, Reason string
}

// Who returns the makers of the changes of rows, by change set.
func (l *Log) Who(ctx context.Context, q db.Querier, list []Row) (map[uuid.UUID]Maker, error) {
	ids := make([]uuid.UUID, len(list))
	for i, r := range list {
		ids[i] = r.Set
	}
	rows, err := q.Query(ctx, `SELECT id, created_at, actor, reason FROM change_all_sets WHERE id = ANY ($1)`, ids)
	if err != nil {
		return nil, err
	}
	makers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Maker])
	found := make(map[uuid.UUID]Maker, len(makers))
	for _, m := range makers {
		found[m.Set] = m
	}
	return found, err
}

func (l *Log) Rows(ctx context.Context, q db.Querier, set uuid.UUID) ([]Row, error) {
	return collect(q.Query(ctx, selectRows+`WHERE set_id = $1 ORDER BY at, row_id`, set))
}

// Of returns the history of one row, newest first.
func (l *Log) Of(ctx context.Context, q db.Querier, table string, id uuid.UUID, limit int) ([]Row, error) {
	return collect(q.Query(ctx, selectRows+`WHERE table_name = $1 AND row_id = $2 ORDER BY at DESC LIMIT $3`, table, id, limit))
}

// Since returns, for each row of the table that was changed after a moment, the first such change: its old image is the row at
// that moment. With ids, it is limited to these rows.
func (l *Log) Since(ctx context.Context, q db.Querier, table string, at time.Time, ids []uuid.UUID) ([]Row, error) {
	return collect(q.Query(ctx, `SELECT DISTINCT ON (row_id) at, set_id, table_name, row_id, was, now FROM change_all_rows
		WHERE table_name = $1 AND at > $2 AND ($3::uuid[] IS NULL OR row_id = ANY ($3)) ORDER BY row_id, at`, table, at, ids))
}

// Later returns the newest change of each of the given rows after a moment.
func (l *Log) Later(ctx context.Context, q db.Querier, table string, at time.Time, ids []uuid.UUID) (map[uuid.UUID]Row, error) {
	rows, err := collect(q.Query(ctx, `SELECT DISTINCT ON (row_id) at, set_id, table_name, row_id, was, now FROM change_all_rows
		WHERE table_name = $1 AND at > $2 AND row_id = ANY ($3) ORDER BY row_id, at DESC`, table, at, ids))
	found := map[uuid.UUID]Row{}
	for _, r := range rows {
		found[r.ID] = r
	}
	return found, err
}

const selectRows = `SELECT at, set_id, table_name, row_id, was, now FROM change_all_rows `

func collect(rows pgx.Rows, err error) ([]Row, error) {
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Row])
	return list, err
}

// Floor returns the time since which the history is complete.
func (l *Log) Floor(ctx context.Context, q db.Querier) (since time.Time, err error) {
	err = q.QueryRow(ctx, `SELECT greatest((SELECT since FROM change_floor), (SELECT since FROM change_local_floor))`).Scan(&since)
	return since, err
}

// Reaches rejects a moment before the beginning of the history, or in the future.
func (l *Log) Reaches(ctx context.Context, q db.Querier, field string, at time.Time) error {
	since, err := l.Floor(ctx, q)
	switch {
	case err != nil:
		return err
	case at.Before(since):
		return fault.Field(field, "must not be before %s, when the history begins", since.UTC().Format(time.RFC3339))
	case at.After(l.clock.Now().Add(time.Minute)):
		return fault.Field(field, "must not be in the future")
	}
	return nil
}

// Apply says how a component applied revisions.
type Apply struct {
	Component string `json:"component" doc:"Name of the component."`
	// First is the first of the revisions; 0 if the log should determine it.
	First    int64     `json:"-"`
	Revision int64     `json:"-"`
	EndedAt  time.Time `json:"ended_at" doc:"When it was done."`
	// DurationMS is the longest of several steps.
	DurationMS int64  `json:"duration_ms" doc:"How long it took."`
	Way        string `json:"way" enum:"runtime,reload,none" doc:"How it was done: while the daemon was running, with a reload, or without either."`
	State      string `json:"state" enum:"live,pending,degraded,not_installed" doc:"State of the component afterwards."`
	Error      string `json:"error" doc:"Why it is not live; empty when it is."`
	Files      []File `json:"files" doc:"What happened to the daemon's files."`
}

// File is what happened to a file.
type File struct {
	Path string `json:"path" doc:"Where the file is."`
	Diff string `json:"diff" doc:"Unified diff."`
}

// Ways to apply a change.
const (
	Runtime = "runtime"
	Reload  = "reload"
	None    = "none"
)

// Applied stores how components applied revisions.
func (l *Log) Applied(ctx context.Context, list []Apply) error {
	return l.db.Write(ctx, func(tx *db.Tx) error {
		for _, a := range list {
			files, err := wire.Encode(slices.Concat([]File{}, a.Files))
			if err != nil {
				return err
			}
			id, err := uuid.NewV7()
			if err != nil {
				return err
			}
			tx.Queue(`INSERT INTO change_applies (id, component, first_revision, last_revision, ended_at, duration_ms, way, state, error, files)
				SELECT $1, $2, CASE WHEN $3 > 0 THEN $3 ELSE coalesce((SELECT CASE WHEN last_revision >= $4 THEN first_revision ELSE last_revision + 1 END FROM change_applies WHERE component = $2 ORDER BY id DESC LIMIT 1), 1) END,
					$4, $5, $6, $7, $8, $9, $10`, id, a.Component, a.First, a.Revision, a.EndedAt, a.DurationMS, a.Way, a.State, a.Error, files)
		}
		return nil
	})
}

// Report returns how the components of this node applied a set, in chronological order.
func (l *Log) Report(ctx context.Context, q db.Querier, s Set) ([]Apply, error) {
	list := []Apply{}
	if !l.Here(s) {
		return list, nil
	}
	revisions, err := json.Marshal(s.Revisions)
	if err != nil {
		return nil, err
	}
	rows, err := q.Query(ctx, `SELECT a.component, a.first_revision, a.last_revision, a.ended_at, a.duration_ms, a.way, a.state, a.error, a.files
		FROM change_applies a JOIN jsonb_each_text($1) r ON r.key = a.component AND r.value::bigint BETWEEN a.first_revision AND a.last_revision
		WHERE a.ended_at >= $2 ORDER BY a.id`, revisions, s.CreatedAt)
	if err != nil {
		return nil, err
	}
	list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Apply, err error) {
		var files []byte
		if err := row.Scan(&a.Component, &a.First, &a.Revision, &a.EndedAt, &a.DurationMS, &a.Way, &a.State, &a.Error, &files); err != nil {
			return a, err
		}
		return a, json.Unmarshal(files, &a.Files)
	})
	return list, err
}

// Prune deletes the sets before a moment, and all but the newest keep ones, and returns how many. Sets that wait to be confirmed
// are kept, because they may have to be reverted. Only the primary prunes shared sets. Of each component, at most keep applies
// remain.
func (l *Log) Prune(ctx context.Context, before time.Time, keep int) (n int64, err error) {
	err = l.db.Write(ctx, func(tx *db.Tx) error {
		tx.Queue("SET LOCAL statement_timeout = 0")
		var mine bool
		if err := tx.QueryRow(ctx, "SELECT ha_writable()").Scan(&mine); err != nil {
			return err
		}
		if mine {
			if err := prune(ctx, tx, "change", before, keep, &n); err != nil {
				return err
			}
		}
		if err := prune(ctx, tx, "change_local", before, keep, &n); err != nil {
			return err
		}
		tx.Queue(`DELETE FROM change_applies WHERE ended_at < coalesce((SELECT min(created_at) FROM change_all_sets), 'infinity')
			OR id IN (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY component ORDER BY id DESC) AS place FROM change_applies) a WHERE place > $1)`, keep)
		return nil
	})
	return n, err
}

// prune deletes sets of one place, and advances the time since which its history is complete.
func prune(ctx context.Context, tx *db.Tx, place string, before time.Time, keep int, n *int64) error {
	var since *time.Time
	if err := tx.QueryRow(ctx, `
		WITH old AS (
			DELETE FROM `+place+`_sets WHERE state <> 'waiting'
				AND (created_at < $1 OR (created_at, id) <= (SELECT created_at, id FROM `+place+`_sets ORDER BY created_at DESC, id DESC OFFSET $2 LIMIT 1)) RETURNING id),
		rows AS (DELETE FROM `+place+`_rows WHERE set_id IN (SELECT id FROM old) RETURNING at)
		SELECT (SELECT max(at) FROM rows), (SELECT count(*) FROM old) + $3`, before, keep, *n).Scan(&since, n); err != nil || since == nil {
		return err
	}
	tx.Queue(`UPDATE `+place+`_floor SET since = greatest(since, $1)`, *since)
	return nil
}

func absent[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
