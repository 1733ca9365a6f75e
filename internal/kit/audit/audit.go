// Package audit is the audit log: one entry for each mutation, written in the mutation's own transaction or, for actions outside
// of the database, kept on disk until the database has it; and a live stream of committed entries.
package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/live"
	"edge.internal/gateway/internal/kit/wire"
)

// Entry is one action of one actor.
type Entry struct {
	ID        uuid.UUID `json:"id" doc:"Id of the entry; later entries have greater ids."`
	CreatedAt time.Time `json:"created_at" doc:"When it was done."`
	Actor     string    `json:"actor" doc:"Who did it: an e-mail address or the name of a program."`
	Action    string    `json:"action" doc:"Action, for example ntp.pool.delete."`
	Subject   string    `json:"subject" doc:"What it was done to."`
	NodeID    string    `json:"node_id" doc:"Machine id of the node that did it."`
	Details   wire.Raw  `json:"details,omitzero" doc:"What changed, without secrets, and remote_ip: where the request came from. Only admins see the details of what only admins may read."`
	RequestID string    `json:"request_id" doc:"Id of the request, as in its answer and in the log; empty for actions of the gateway itself."`
}

// Log writes and reads the audit log.
type Log struct {
	db        *db.DB
	clock     clock.Clock
	nodeID    string
	outbox    outbox
	adminOnly []string
	live      live.Feed[Entry]
}

// New returns the log of the node with the machine id. It keeps entries in folder until the database has them.
func New(d *db.DB, c clock.Clock, nodeID, folder string) *Log {
	l := &Log{db: d, clock: c, nodeID: nodeID, outbox: outbox{folder: folder, open: map[uuid.UUID]bool{}}}
	l.live = live.Feed[Entry]{
		DB: d, Channel: channel, Announced: l.announced,
		Newest: func(ctx context.Context, n int) ([]Entry, error) { return l.Search(ctx, Filter{Limit: n}) },
		ID:     func(e Entry) uuid.UUID { return e.ID },
	}
	return l
}

// AdminOnly hides the details of a kind's entries from viewers. Rooms call it when they are mounted.
func (l *Log) AdminOnly(kind string) { l.adminOnly = append(l.adminOnly, kind) }

// VisibleTo returns an entry without the details that its reader must not see.
func (l *Log) VisibleTo(reader actor.Actor, e Entry) Entry {
	hidden := func(kind string) bool { return strings.HasPrefix(e.Action, kind+".") }
	if reader.Role != actor.Admin && slices.ContainsFunc(l.adminOnly, hidden) {
		e.Details = nil
	}
	return e
}

// Write adds an entry by the context's actor to the transaction. It is sent to the live stream after the commit.
func (l *Log) Write(ctx context.Context, tx *db.Tx, action, subject string, details any) error {
	return l.WriteAs(ctx, tx, actor.From(ctx).Name, action, subject, details)
}

// WriteAs is Write for someone who is not (yet) the context's actor, as at a login.
func (l *Log) WriteAs(ctx context.Context, tx *db.Tx, who, action, subject string, details any) error {
	return l.WriteAt(ctx, tx, l.clock.Now(), who, action, subject, details)
}

// WriteAt is WriteAs for something that happened earlier, while the database was unavailable.
func (l *Log) WriteAt(ctx context.Context, tx *db.Tx, at time.Time, who, action, subject string, details any) error {
	e, err := l.entry(ctx, who, action, subject, details)
	if err != nil {
		return err
	}
	e.CreatedAt = at
	insert(tx, e)
	return nil
}

// WriteMark is Write, and returns the id of the entry: a node that has received it has everything that was committed before.
func (l *Log) WriteMark(ctx context.Context, tx *db.Tx, action, subject string, details any) (uuid.UUID, error) {
	e, err := l.entry(ctx, actor.From(ctx).Name, action, subject, details)
	if err != nil {
		return uuid.Nil, err
	}
	insert(tx, e)
	return e.ID, nil
}

func (l *Log) entry(ctx context.Context, who, action, subject string, details any) (Entry, error) {
	e := Entry{CreatedAt: l.clock.Now(), Actor: who, Action: action, Subject: subject, NodeID: l.nodeID, RequestID: actor.Request(ctx)}
	var err error
	if e.ID, err = uuid.NewV7(); err != nil {
		return e, err
	}
	if last, ok := ctx.Value(notedKey{}).(*atomic.Value); ok {
		last.Store(e.ID)
	}
	return e, e.detail(ctx, details)
}

type notedKey struct{}

// Noting records the ids of entries that are written with the context; last returns the newest one.
func Noting(ctx context.Context) (noting context.Context, last func() uuid.UUID) {
	noted := new(atomic.Value)
	return context.WithValue(ctx, notedKey{}, noted), func() uuid.UUID {
		id, _ := noted.Load().(uuid.UUID)
		return id
	}
}

// remoteIP is the detail that says where a request came from.
const remoteIP = "remote_ip"

// detail sets what was done, and where the request came from. Details that have the latter already are left alone: their request
// may be over.
func (e *Entry) detail(ctx context.Context, details any) (err error) {
	if details != nil {
		if e.Details, err = wire.Encode(details); err != nil {
			return fmt.Errorf("encoding audit details: %w", err)
		}
	}
	from := actor.Address(ctx)
	if !from.IsValid() || len(e.Details) > 0 && e.Details[0] != '{' {
		return nil
	}
	all := map[string]jsontext.Value{}
	if len(e.Details) > 0 {
		if err := json.Unmarshal(e.Details, &all); err != nil {
			return fmt.Errorf("reading audit details: %w", err)
		}
	}
	if _, told := all[remoteIP]; told {
		return nil
	}
	if all[remoteIP], err = json.Marshal(from); err != nil {
		return err
	}
	e.Details, err = wire.Encode(all)
	return err
}

// insert adds an entry unless it exists. On a standby it waits for the primary.
func insert(tx *db.Tx, e Entry) {
	tx.Queue(`SELECT audit_store($1, $2, $3, $4, $5, $6, $7, $8)`,
		e.ID, e.CreatedAt, e.Actor, e.Action, e.Subject, e.NodeID, []byte(e.Details), e.RequestID)
}

// Record writes an entry in a transaction of its own, for an action that changes no row. While the database is unavailable, the
// entry is kept on disk.
func (l *Log) Record(ctx context.Context, action, subject string, details any) error {
	return l.RecordAs(ctx, actor.From(ctx).Name, action, subject, details)
}

// RecordAs is Record for someone who is not logged in.
func (l *Log) RecordAs(ctx context.Context, who, action, subject string, details any) error {
	e, err := l.entry(ctx, who, action, subject, details)
	if err != nil {
		return err
	}
	if err := l.store(ctx, e); err != nil {
		return l.outbox.keep(e)
	}
	return nil
}

// Filter selects entries. Texts match anywhere and ignore case.
type Filter struct {
	Actor, Action, Subject string
	From, To               time.Time
	Before                 uuid.UUID
	Limit                  int
}

// selectEntries reads entries in the order of their fields.
const selectEntries = `SELECT id, created_at, actor, action, subject, node_id, details, request_id FROM audit_log`

// MaxLimit is the maximum number of entries that one search returns.
const MaxLimit = 1000

// Search returns matching entries, newest first.
func (l *Log) Search(ctx context.Context, f Filter) ([]Entry, error) {
	rows, err := l.db.Query(ctx, selectEntries+`
		WHERE ($1 = '' OR position(lower($1) IN lower(actor)) > 0)
		  AND ($2 = '' OR position(lower($2) IN lower(action)) > 0)
		  AND ($3 = '' OR position(lower($3) IN lower(subject)) > 0)
		  AND ($4::timestamptz IS NULL OR created_at >= $4)
		  AND ($5::timestamptz IS NULL OR created_at <= $5)
		  AND ($6::uuid IS NULL OR id < $6)
		ORDER BY id DESC LIMIT $7`,
		f.Actor, f.Action, f.Subject, absent(f.From), absent(f.To), absent(f.Before), min(f.Limit, MaxLimit))
	if err != nil {
		return nil, err
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Entry])
	return entries, err
}

// Tally counts the entries of one action since a moment, in total and by the value of one detail. Entries without it count as "".
func (l *Log) Tally(ctx context.Context, action, detail string, since time.Time) (total int, by map[string]int, err error) {
	rows, err := l.db.Query(ctx, `SELECT coalesce(details ->> $2, ''), count(*) FROM audit_log WHERE action = $1 AND created_at > $3 GROUP BY 1`, action, detail, since)
	if err != nil {
		return 0, nil, err
	}
	by = map[string]int{}
	var text string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&text, &n}, func() error {
		by[text] = n
		total += n
		return nil
	})
	return total, by, err
}

// Backward returns entries by the time of the action, newest first: those after since that come before (before, id). Zero times
// do not limit.
func (l *Log) Backward(ctx context.Context, since, before time.Time, id uuid.UUID, limit int) ([]Entry, error) {
	rows, err := l.db.Query(ctx, selectEntries+`
		WHERE ($1::timestamptz IS NULL OR created_at >= $1)
		  AND ($2::timestamptz IS NULL OR (created_at, id) < ($2, $3))
		ORDER BY created_at DESC, id DESC LIMIT $4`, absent(since), absent(before), id, min(limit, MaxLimit))
	if err != nil {
		return nil, err
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Entry])
	return entries, err
}

func (l *Log) Get(ctx context.Context, id uuid.UUID) (Entry, error) {
	rows, err := l.db.Query(ctx, selectEntries+` WHERE id = $1`, id)
	if err != nil {
		return Entry{}, err
	}
	e, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Entry])
	if errors.Is(err, pgx.ErrNoRows) {
		return Entry{}, fault.New(fault.NotFound, "This audit entry does not exist.")
	}
	return e, err
}

func absent[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Newest returns the id of the newest shared entry.
func (l *Log) Newest(ctx context.Context) (id uuid.UUID, err error) {
	err = l.db.QueryRow(ctx, `SELECT coalesce((SELECT id FROM audit_entries ORDER BY id DESC LIMIT 1), $1)`, uuid.Nil).Scan(&id)
	return id, err
}

// TakeOver turns the entries that wait for the primary into those of this node, which is becoming the primary.
func (l *Log) TakeOver(tx *db.Tx) {
	tx.Queue(`INSERT INTO audit_entries SELECT * FROM audit_outbox ON CONFLICT DO NOTHING`)
	tx.Queue(`DELETE FROM audit_outbox`)
}

// Waiting returns the oldest entries that wait for the primary.
func (l *Log) Waiting(ctx context.Context, n int) ([]Entry, error) {
	rows, err := l.db.Query(ctx, `SELECT id, created_at, actor, action, subject, node_id, details, request_id FROM audit_outbox ORDER BY id LIMIT $1`, n)
	if err != nil {
		return nil, err
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Entry])
	return entries, err
}

// Returned deletes entries that waited for the primary and have been replicated from it, and returns how many.
func (l *Log) Returned(ctx context.Context) (n int64, err error) {
	err = l.db.Write(ctx, func(tx *db.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM audit_outbox o WHERE EXISTS (SELECT FROM audit_entries e WHERE e.id = o.id)`)
		n = tag.RowsAffected()
		return err
	})
	return n, err
}

// Adopt stores entries of another node; only the primary does. Existing ones are left as they are.
func (l *Log) Adopt(ctx context.Context, node string, entries []Entry) error {
	return l.db.Write(ctx, func(tx *db.Tx) error {
		for _, e := range entries {
			tx.Queue(`INSERT INTO audit_entries (id, created_at, actor, action, subject, node_id, details, request_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
				e.ID, e.CreatedAt, e.Actor, e.Action, e.Subject, node, []byte(e.Details), e.RequestID)
		}
		return nil
	})
}

// Prune deletes the entries before a moment and returns how many.
func (l *Log) Prune(ctx context.Context, before time.Time) (n int64, err error) {
	err = l.db.Write(ctx, func(tx *db.Tx) error {
		tx.Queue("SET LOCAL statement_timeout = 0") // deleting years of entries takes time
		tag, err := tx.Exec(ctx, `DELETE FROM audit_entries WHERE created_at < $1`, before)
		n = tag.RowsAffected()
		if err != nil || n == 0 {
			return err
		}
		return l.Write(ctx, tx, "audit.prune", fmt.Sprintf("%d entries", n), map[string]any{"before": before})
	})
	return n, err
}
