package db

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// changedChannel is the channel on which the database announces changed topics, whoever has changed them, once per topic and
	// transaction.
	changedChannel = "gateway_changed"
	// changedCode is the code of the notice that announces the same to the connection that makes the change, before the commit.
	changedCode = "GW001"
)

// topics counts the known changes of each cached topic.
type topics struct {
	// listening says that no change by another program can be missed; begun counts how often all caches were invalidated.
	listening atomic.Bool
	begun     atomic.Uint64
	mu        sync.Mutex
	changed   map[string]*atomic.Uint64
}

// add adds a topic, and returns its count of changes.
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

// change records that a topic has changed.
func (t *topics) change(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.changed[name]; n != nil {
		n.Add(1)
	}
}

// used reports whether there are any caches.
func (t *topics) used() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.changed) > 0
}

// listen makes the connection receive changes. What was cached before may have changed in the meantime.
func (t *topics) listen(ctx context.Context, conn *pgx.Conn) error {
	if t.listening.Load() || !t.used() {
		return nil
	}
	if _, err := conn.Exec(ctx, "LISTEN "+changedChannel); err != nil {
		return err
	}
	t.begun.Add(1)
	t.listening.Store(true)
	return nil
}

// receive processes notifications until ctx ends. After any other end, notifications may be missed.
func (t *topics) receive(ctx context.Context, conn *pgx.Conn) {
	for {
		n, err := conn.WaitForNotification(ctx)
		switch {
		case err == nil:
			t.change(n.Payload)
		case ctx.Err() == nil || conn.IsClosed():
			t.listening.Store(false)
			return
		default:
			return
		}
	}
}

// touchedKey is the key under which a connection keeps the topics that its transaction has changed.
const touchedKey = "touched"

// onNotice records what the transaction of a connection has changed.
func onNotice(conn *pgconn.PgConn, n *pgconn.Notice) {
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

// ended invalidates what a transaction may have changed, before its caller learns that it has ended. The notification would not
// do, because it may arrive after the answer.
func (t *topics) ended(conn *pgconn.PgConn) {
	all, _ := conn.CustomData()[touchedKey].(map[string]bool)
	for name := range all {
		t.change(name)
	}
	clear(all)
}

// Forget invalidates all caches. It is for those who know of changes that the database may not have announced yet, and are about
// to act on them.
func (d *DB) Forget() { d.topics.begun.Add(1) }

// maxCached limits the answers in a cache; when it is reached, the cache is cleared.
const maxCached = 4096

// Cache caches answers of the database about one topic until the topic changes. A change by this process takes effect with its
// commit, before Write returns; one by another process when the database announces it. While announcements cannot be received,
// nothing is cached.
type Cache[K comparable, V any] struct {
	db      *DB
	changed *atomic.Uint64
	mu      sync.Mutex
	state   uint64 // the state that all cached answers are of
	kept    map[K]V
}

// NewCache returns a cache of a topic. Triggers announce its changes, see cache_forget in the schema.
func NewCache[K comparable, V any](d *DB, topic string) *Cache[K, V] {
	return &Cache[K, V]{db: d, changed: d.topics.add(topic), kept: map[K]V{}}
}

// now returns the state of the topic, which never recurs; ok is false while changes may be missed.
func (c *Cache[K, V]) now() (state uint64, ok bool) {
	// In this order: once listening is seen, so is the count that it has increased.
	if !c.db.topics.listening.Load() || !c.db.Attached() {
		return 0, false
	}
	return c.db.topics.begun.Load() + c.changed.Load(), true
}

// Get returns the cached answer, or that of read. It is cached unless read fails or the topic has changed since Get was called.
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
	// A change since then makes another state, so that the next caller finds nothing cached.
	if state == c.state {
		if len(c.kept) >= maxCached {
			clear(c.kept)
		}
		c.kept[key] = v
	}
	return v, nil
}
