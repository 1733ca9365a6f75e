// Package audit owns the audit log: one entry for each mutation, written in the mutation's own transaction, and the
// live stream of what was committed.
package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/bus"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/wire"
)

// Entry is one thing that somebody did.
type Entry struct {
	ID        uuid.UUID `json:"id" doc:"Id of the entry; later entries have greater ids."`
	CreatedAt time.Time `json:"created_at" doc:"When it was done."`
	Actor     string    `json:"actor" doc:"Who did it: an e-mail address or the name of a program."`
	Action    string    `json:"action" doc:"What was done, such as ntp.pool.delete."`
	Subject   string    `json:"subject" doc:"What it was done to."`
	NodeID    string    `json:"node_id" doc:"Machine id of the node that did it."`
	Details   wire.Raw  `json:"details,omitzero" doc:"What changed, without secrets."`
}

// Log writes and reads the audit log.
type Log struct {
	db     *db.DB
	clock  clock.Clock
	nodeID string
	live   bus.Topic[Entry]
}

// New makes the log of the node with the machine id.
func New(d *db.DB, c clock.Clock, nodeID string) *Log { return &Log{db: d, clock: c, nodeID: nodeID} }

// Write adds an entry by the context's actor to the transaction. It reaches the live stream after the commit.
func (l *Log) Write(ctx context.Context, tx *db.Tx, action, subject string, details any) error {
	return l.WriteAs(tx, actor.From(ctx).Name, action, subject, details)
}

// WriteAs is Write for somebody who is not (yet) the context's actor, as at a login.
func (l *Log) WriteAs(tx *db.Tx, who, action, subject string, details any) error {
	e := Entry{CreatedAt: l.clock.Now(), Actor: who, Action: action, Subject: subject, NodeID: l.nodeID}
	var err error
	if e.ID, err = uuid.NewV7(); err != nil {
		return err
	}
	if details != nil {
		if e.Details, err = wire.Encode(details); err != nil {
			return fmt.Errorf("encoding audit details: %w", err)
		}
	}
	tx.Queue(`INSERT INTO audit_entries (id, created_at, actor, action, subject, node_id, details) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		e.ID, e.CreatedAt, e.Actor, e.Action, e.Subject, e.NodeID, []byte(e.Details))
	tx.AfterCommit(func() { l.live.Publish(e) })
	return nil
}

// Record writes an entry in a transaction of its own, for an action that changes no row.
func (l *Log) Record(ctx context.Context, action, subject string, details any) error {
	return l.db.Write(ctx, func(tx *db.Tx) error { return l.Write(ctx, tx, action, subject, details) })
}

// Filter says which entries to search for. Texts match anywhere and ignore case.
type Filter struct {
	Actor, Action, Subject string
	From, To               time.Time
	Before                 uuid.UUID
	Limit                  int
}

// selectEntries reads whole entries, in the order of their fields.
const selectEntries = `SELECT id, created_at, actor, action, subject, node_id, details FROM audit_entries`

// MaxLimit is how many entries one search returns at the most.
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
		return nil, db.Fault(err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Entry])
	return entries, db.Fault(err)
}

// Get returns one entry.
func (l *Log) Get(ctx context.Context, id uuid.UUID) (Entry, error) {
	rows, err := l.db.Query(ctx, selectEntries+` WHERE id = $1`, id)
	if err != nil {
		return Entry{}, db.Fault(err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Entry])
	if errors.Is(err, pgx.ErrNoRows) {
		return Entry{}, fault.New(fault.NotFound, "there is no such audit entry")
	}
	return e, db.Fault(err)
}

func absent[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Prune deletes the entries before a moment and tells how many.
func (l *Log) Prune(ctx context.Context, before time.Time) (n int64, err error) {
	err = l.db.Write(ctx, func(tx *db.Tx) error {
		tx.Queue("SET LOCAL statement_timeout = 0") // years of entries take their time
		tag, err := tx.Exec(ctx, `DELETE FROM audit_entries WHERE created_at < $1`, before)
		n = tag.RowsAffected()
		if err != nil || n == 0 {
			return err
		}
		return l.Write(ctx, tx, "audit.prune", fmt.Sprintf("%d entries", n), map[string]any{"before": before})
	})
	return n, err
}

// Follow calls send with the newest n entries, oldest first, and then with each new one, until the context ends or send
// fails. The subscription starts before the snapshot is read and what both have is sent once: no gap, no duplicate.
func (l *Log) Follow(ctx context.Context, n int, send func(Entry) error) error {
	reader := l.live.Subscribe()
	defer func() { reader.Close() }()
	snapshot, err := l.Search(ctx, Filter{Limit: n})
	// Whatever was lost while the snapshot was read is not a slow client's fault: begin again.
	for err == nil && reader.Dropped() > 0 {
		reader.Close()
		reader = l.live.Subscribe()
		snapshot, err = l.Search(ctx, Filter{Limit: n})
	}
	if err != nil {
		return err
	}
	sent := make(map[uuid.UUID]bool, len(snapshot))
	for i := len(snapshot) - 1; i >= 0; i-- {
		sent[snapshot[i].ID] = true
		if err := send(snapshot[i]); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-reader.C:
			if sent[e.ID] {
				delete(sent, e.ID)
				continue
			}
			if err := send(e); err != nil {
				return err
			}
		}
	}
}
