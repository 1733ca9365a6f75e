package db

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// changedChannel is where the database tells of topics that have changed, whoever has changed them: each topic once a transaction.
	changedChannel = "gateway_changed"
	// changedCode is that of the notice by which it tells the same to the connection that makes the change, before the commit.
	changedCode = "GW001"
)

// topics are what caches keep something of, and how often each has changed as far as is known.
type topics struct {
	// hearing says that no change by another program can be missed, and begun how often everything was to be read anew.
	hearing atomic.Bool
	begun   atomic.Uint64
	mu      sync.Mutex
	changed map[string]*atomic.Uint64
}

// add makes a topic, and answers how often it has changed.
func (t *topics) add(name string) *atomic.Uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed == nil {
		t.changed = map[string]*atomic.Uint64{}
	}
	if t.changed[name] == nil {
		t.changed[name] = new(atomic.Uint64)
	}
	return t.changed[name]
}

// change says that a topic has changed.
func (t *topics) change(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.changed[name]; n != nil {
		n.Add(1)
	}
}

// wanted tells whether anybody keeps anything.
func (t *topics) wanted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.changed) > 0
}

// listen has the connection hear of changes, if it does not yet. What was kept before may have changed in between.
func (t *topics) listen(ctx context.Context, conn *pgx.Conn) error {
	if t.hearing.Load() || !t.wanted() {
		return nil
	}
	if _, err := conn.Exec(ctx, "LISTEN "+changedChannel); err != nil {
		return err
	}
	t.begun.Add(1)
	t.hearing.Store(true)
	return nil
}

// hear takes what a connection hears until the context ends. Any other end means that something may be missed from then on.
func (t *topics) hear(ctx context.Context, conn *pgx.Conn) {
	for {
		n, err := conn.WaitForNotification(ctx)
		switch {
		case err == nil:
			t.change(n.Payload)
		case ctx.Err() == nil || conn.IsClosed():
			t.hearing.Store(false)
			return
		default:
			return
		}
	}
}

// touchedKey is where a connection has the topics that its transaction has changed.
const touchedKey = "touched"

// noticed notes what the transaction of a connection has changed.
func noticed(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.Code != changedCode {
		return
	}
	all, _ := conn.CustomData()[touchedKey].(map[string]bool)
	if all == nil {
		all = map[string]bool{}
		conn.CustomData()[touchedKey] = all
	}
	all[n.Message] = true
}

// ended is called when a transaction has ended, and before anybody is told so. What it may have changed is forgotten: that the same will be heard does not
// do, because it may be heard after the answer.
func (t *topics) ended(conn *pgconn.PgConn) {
	all, _ := conn.CustomData()[touchedKey].(map[string]bool)
	for name := range all {
		t.change(name)
	}
	clear(all)
}

// Forget has everything read anew. It is for one who knows of changes that the database may not have told of yet, and is about to say so.
func (d *DB) Forget() { d.topics.begun.Add(1) }

// maxCached is how many answers a cache keeps before it begins anew.
const maxCached = 4096

// Cache keeps answers of the database about one topic, until the topic changes. A change by this process counts from its commit on, before the
// caller of Write is told of it; that of any other when the database has told of it. While that cannot be heard, nothing is kept.
type Cache[K comparable, V any] struct {
	db      *DB
	changed *atomic.Uint64
	mu      sync.Mutex
	state   uint64 // of which everything kept is
	kept    map[K]V
}

// NewCache makes a cache of a topic. Triggers tell when it changes, see cache_forget in the schema.
func NewCache[K comparable, V any](d *DB, topic string) *Cache[K, V] {
	return &Cache[K, V]{db: d, changed: d.topics.add(topic), kept: map[K]V{}}
}

// now is the state of the topic, which never comes again after another; not ok while changes may be missed.
func (c *Cache[K, V]) now() (state uint64, ok bool) {
	// In this order: hearing that began anew is then seen together with its number.
	if !c.db.topics.hearing.Load() || !c.db.Attached() {
		return 0, false
	}
	return c.db.topics.begun.Load() + c.changed.Load(), true
}

// Get answers what is kept, or what is read now. What was read is kept unless the topic has changed since the reading began; an error is not.
func (c *Cache[K, V]) Get(key K, read func() (V, error)) (V, error) {
	state, ok := c.now()
	if !ok {
		return read()
	}
	c.mu.Lock()
	if state > c.state {
		clear(c.kept)
		c.state = state
	}
	v, kept := c.kept[key]
	kept = kept && state == c.state
	c.mu.Unlock()
	if kept {
		return v, nil
	}
	v, err := read()
	if err != nil {
		return v, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A change after the reading began has another state, by which the next caller finds nothing kept.
	if state == c.state {
		if len(c.kept) >= maxCached {
			clear(c.kept)
		}
		c.kept[key] = v
	}
	return v, nil
}
