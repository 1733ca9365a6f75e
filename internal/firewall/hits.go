package firewall

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
)

const (
	// sampleEvery is how often the kernel's counters are added to what is stored.
	sampleEvery = 30 * time.Second
	// lastLook is how long the counters of a table may take to read that is about to be replaced; that is done at most so
	// often, because somebody waits for the new table.
	lastLook      = time.Second
	lastLookEvery = 5 * time.Second
	// countersFor is how long everybody gets the same answer about the counters.
	countersFor = 250 * time.Millisecond
)

// hits keeps what the kernel counted for each rule, across the tables that come and go.
type hits struct {
	room *Room
	mu   sync.Mutex
	// last are the kernel's counters at the last look; nil before the first, whose counts are an earlier process's, who has
	// stored them.
	last map[string]host.FilterCounter
	// pending is what was counted and is not stored yet. A rule of which nothing was ever stored is in it with zeros, so
	// that its counting begins.
	pending map[uuid.UUID]tally
	looked  time.Time
	// stored are the rules that have a row.
	stored map[uuid.UUID]bool
}

type tally struct {
	packets, bytes int64
	at             time.Time // of the last hit
}

func newHits(r *Room) *hits {
	return &hits{room: r, pending: map[uuid.UUID]tally{}, stored: map[uuid.UUID]bool{}}
}

// run samples until the context ends.
func (h *hits) run(ctx context.Context) {
	for {
		err := h.collect(ctx)
		if err == nil {
			err = h.store(ctx)
		}
		if err != nil && ctx.Err() == nil && !db.Away(err) {
			h.room.Log.Debug("counting the hits of rules", "component", "packet-filter", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-h.room.Clock.After(sampleEvery):
		}
	}
}

// collect reads the kernel's counters and keeps what was counted since the last look.
func (h *hits) collect(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	counters, err := h.room.Host.FilterCounters(ctx)
	if err != nil {
		return err
	}
	now := h.room.Clock.Now()
	h.looked = now
	seen := make(map[string]host.FilterCounter, len(counters.List))
	for _, c := range counters.List {
		seen[c.Tag] = c
		id, err := uuid.Parse(c.Tag)
		if err != nil {
			continue
		}
		was := h.last[c.Tag]
		switch {
		case h.last == nil:
			was = c
		case c.Packets < was.Packets || c.Bytes < was.Bytes:
			was = host.FilterCounter{} // another table, which began at zero
		}
		t, waiting := h.pending[id]
		if c.Packets > was.Packets {
			t.packets, t.bytes, t.at = t.packets+int64(c.Packets-was.Packets), t.bytes+int64(c.Bytes-was.Bytes), now
		} else if h.stored[id] || waiting {
			continue
		}
		h.pending[id] = t
	}
	h.last = seen
	return nil
}

// replacing is called right before another table is loaded, and what it returns right after: what the old one counted is
// kept, and the new one begins at zero. Nothing is stored here: the transaction that waits for the table may hold the
// rows.
func (h *hits) replacing(ctx context.Context) (replaced func()) {
	h.mu.Lock()
	recent := h.room.Clock.Now().Sub(h.looked) < lastLookEvery
	h.mu.Unlock()
	if !recent {
		looking, cancel := context.WithTimeout(ctx, lastLook)
		defer cancel()
		if err := h.collect(looking); err != nil {
			h.room.Log.Debug("the last hits of the old table are not known", "component", "packet-filter", "err", err)
		}
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.last = map[string]host.FilterCounter{}
	}
}

// store adds what is pending to the rows, in one statement.
func (h *hits) store(ctx context.Context) error {
	h.mu.Lock()
	taken := h.pending
	h.pending = map[uuid.UUID]tally{}
	h.mu.Unlock()
	if len(taken) == 0 {
		return nil
	}
	// The lock is free meanwhile: a transaction that this one waits for may itself wait for a look at the counters.
	done, err := h.add(ctx, taken)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range done {
		h.stored[id] = true
		delete(taken, id)
	}
	for id, t := range taken {
		p := h.pending[id]
		h.pending[id] = tally{p.packets + t.packets, p.bytes + t.bytes, later(p.at, t.at)}
	}
	return err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// add tells which rules are done: those of which no row can be kept (NAT rules, and rules that are gone) and those whose
// row was free. Rules that somebody is changing are for the next time: nobody is made to wait for a count.
func (h *hits) add(ctx context.Context, counted map[uuid.UUID]tally) (done []uuid.UUID, err error) {
	var ids []uuid.UUID
	var packets, bytes []int64
	var at []*time.Time
	for id, t := range counted {
		ids, packets, bytes = append(ids, id), append(packets, t.packets), append(bytes, t.bytes)
		hit := &t.at
		if t.packets == 0 {
			hit = nil
		}
		at = append(at, hit)
	}
	err = h.room.DB.Write(ctx, func(tx *db.Tx) error {
		rows, err := tx.Query(ctx, `
			WITH counted AS (
				SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::timestamptz[]) AS n (id, packets, bytes, at)
			), free AS (
				SELECT r.id FROM firewall_rules r JOIN counted USING (id) FOR KEY SHARE OF r SKIP LOCKED
			), kept AS (
				INSERT INTO firewall_rule_hits AS h (rule_id, since, packets, bytes, last_hit_at)
				SELECT id, $5, packets, bytes, at FROM counted JOIN free USING (id)
				ON CONFLICT (rule_id) DO UPDATE SET packets = h.packets + EXCLUDED.packets, bytes = h.bytes + EXCLUDED.bytes, last_hit_at = EXCLUDED.last_hit_at
				WHERE EXCLUDED.packets > 0
			)
			SELECT id FROM free UNION ALL SELECT id FROM counted c WHERE NOT EXISTS (SELECT FROM firewall_rules r WHERE r.id = c.id)`,
			ids, packets, bytes, at, h.room.Clock.Now())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id uuid.UUID
			if err := rows.Scan(&id); err != nil {
				return err
			}
			done = append(done, id)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("storing hits: %w", err)
	}
	return done, nil
}

// counters answers what the kernel counted. All who ask within a moment get the same answer, and one of them waits for
// the kernel: a page that many people look at costs one read.
type counters struct {
	mu   sync.Mutex
	at   time.Time
	list []Count
}

func (r *Room) counts(ctx context.Context) ([]Count, error) {
	c := &r.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	// The monotonic clock of the machine: an answer of the future would stay for ever.
	if c.list != nil && time.Since(c.at) < countersFor {
		return c.list, nil
	}
	read, err := r.Host.FilterCounters(ctx)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the packet filter's counters cannot be read: %s", err)
	}
	list := make([]Count, 0, len(read.List))
	for _, x := range read.List {
		if id, err := uuid.Parse(x.Tag); err == nil {
			list = append(list, Count{id, x.Packets, x.Bytes})
		}
	}
	c.list, c.at = list, time.Now()
	return list, nil
}
