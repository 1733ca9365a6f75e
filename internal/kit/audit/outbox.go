package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
)

// outbox is a folder with a file for each entry that the database does not have yet.
type outbox struct {
	folder string
	mu     sync.Mutex
	open   map[uuid.UUID]bool // entries of actions in progress
}

func (o *outbox) path(id uuid.UUID) string { return filepath.Join(o.folder, id.String()+".json") }

func (o *outbox) keep(e Entry) error {
	b, err := wire.Encode(e)
	if err != nil {
		return err
	}
	if err := secret.Save(o.path(e.ID), b); err != nil {
		return fmt.Errorf("keeping an audit entry: %w", err)
	}
	return nil
}

// setOpen marks the entry's action as in progress: until it ends, the entry is incomplete, and may not be true.
func (o *outbox) setOpen(id uuid.UUID, open bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if open {
		o.open[id] = true
	} else {
		delete(o.open, id)
	}
}

// kept reads the entries of finished actions, oldest first.
func (o *outbox) kept() ([]Entry, error) {
	files, err := os.ReadDir(o.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []Entry
	for _, f := range files {
		id, err := uuid.Parse(f.Name()[:len(f.Name())-len(filepath.Ext(f.Name()))])
		if err != nil || o.open[id] {
			continue // a temporary file of a process that was killed, or in progress
		}
		b, err := os.ReadFile(o.path(id))
		if errors.Is(err, fs.ErrNotExist) {
			continue // delivered in the meantime
		}
		var e Entry
		if err == nil {
			err = json.Unmarshal(b, &e)
		}
		if err != nil {
			return nil, fmt.Errorf("reading a kept audit entry: %w", err)
		}
		list = append(list, e)
	}
	return list, nil
}

// Do performs an action outside of the database, and writes an entry about it. The entry is on disk before the action begins; if
// that fails, the action does not happen. A failed action leaves no entry. While the database is unavailable, the entry waits for
// it. The action cannot be reverted, so it cannot wait to be confirmed.
func (l *Log) Do(ctx context.Context, action, subject string, do func() (details any, err error)) error {
	if changes.From(ctx).Within > 0 {
		return fault.New(fault.Invalid, "This cannot be reverted, so it cannot wait to be confirmed. Send it without Gateway-Confirm-Within.")
	}
	e, err := l.entry(ctx, actor.From(ctx).Name, action, subject, nil)
	if err != nil {
		return err
	}
	l.outbox.setOpen(e.ID, true)
	defer l.outbox.setOpen(e.ID, false)
	if err := l.outbox.keep(e); err != nil {
		return err
	}
	details, err := do()
	if err != nil {
		return errors.Join(err, os.Remove(l.outbox.path(e.ID)))
	}
	if err := e.detail(ctx, details); err != nil {
		return err
	}
	if err := l.store(ctx, e); err != nil {
		return l.outbox.keep(e)
	}
	_ = os.Remove(l.outbox.path(e.ID)) // if it stays, it is delivered again, which changes nothing
	return nil
}

// store inserts entries into the database. Existing ones are left as they are.
func (l *Log) store(ctx context.Context, entries ...Entry) error {
	return l.db.Write(ctx, func(tx *db.Tx) error {
		for _, e := range entries {
			insert(tx, e)
		}
		return nil
	})
}

// deliverEvery is how often kept entries are offered to the database.
const deliverEvery = 2 * time.Second

// Run delivers kept entries to the database until ctx ends.
func (l *Log) Run(ctx context.Context, log *slog.Logger) {
	for {
		if n, err := l.Deliver(ctx); err != nil && !db.Away(err) {
			log.Error("delivering kept audit entries failed", "err", err)
		} else if n > 0 {
			log.Info("kept audit entries were delivered", "entries", n)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(deliverEvery):
		}
	}
}

// Deliver delivers kept entries to the database, and returns how many.
func (l *Log) Deliver(ctx context.Context) (int, error) {
	entries, err := l.outbox.kept()
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	if err := l.store(ctx, entries...); err != nil {
		return 0, err
	}
	for _, e := range entries {
		if err := os.Remove(l.outbox.path(e.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	return len(entries), nil
}
