package firewall

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
)

const (
	// sampleEvery is how often the totals are stored.
	sampleEvery = 30 * time.Second
	// lookWithin limits the time to read the kernel's counters.
	lookWithin = time.Second
	// swapPause is the shortest pause between two reads while a table is replaced.
	swapPause = 5 * time.Millisecond
	// countersFor is how long an answer about the counters is shared.
	countersFor = 250 * time.Millisecond
)

// hits adds up the kernel's counts for each rule and NAT rule, across replaced tables.
type hits struct {
	room *Room
	// storing is held while totals are written.
	storing sync.Mutex

	// turn admits one reader of the counters, and guards the fields below.
	turn chan struct{}
	// totals has the rules that the kernel has or that are stored; nil until the stored ones were read.
	totals map[uuid.UUID]*total
	// table is the table that was read last.
	table string
	// looks counts the reads.
	looks int
}

// total is what was counted for a rule since it was created or reset.
type total struct {
	packets, bytes int64
	at             *time.Time // of the last hit
	// seen is the part of it that the kernel's table had counted at the last read.
	seen
	// look is the last read that had the rule.
	look    int
	unsaved bool
}

type seen struct {
	table          string
	packets, bytes int64
}

func newHits(r *Room) *hits { return &hits{room: r, turn: make(chan struct{}, 1)} }

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

// take waits for the turn; call end to give it up.
func (h *hits) take(ctx context.Context) (end func(), err error) {
	select {
	case h.turn <- struct{}{}:
		return func() { <-h.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// collect reads the kernel's counters, and adds what they counted since the last read.
func (h *hits) collect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	end, err := h.take(ctx)
	if err != nil {
		return err
	}
	defer end()
	if h.totals == nil {
		if h.totals, err = h.stored(ctx); err != nil {
			return err
		}
	}
	counters, err := h.room.Host.FilterCounters(ctx)
	if err != nil {
		return err
	}
	h.table = counters.Table
	h.looks++
	for _, c := range counters.List {
		id, err := uuid.Parse(c.Tag)
		if err != nil {
			continue
		}
		t := h.totals[id]
		if t == nil {
			t = &total{unsaved: true} // its counting begins
			h.totals[id] = t
		}
		now, was := seen{counters.Table, int64(c.Packets), int64(c.Bytes)}, t.seen
		if was.table != now.table || now.packets < was.packets || now.bytes < was.bytes {
			was = seen{} // another table, which began at zero, or counters that someone has reset
		}
		if now.packets > was.packets {
			at := h.room.Clock.Now()
			t.packets, t.bytes, t.at, t.unsaved = t.packets+now.packets-was.packets, t.bytes+now.bytes-was.bytes, &at, true
		}
		t.seen, t.look = now, h.looks
	}
	for _, t := range h.totals {
		// If the rule returns to the table, its kernel counter starts at zero.
		if t.look != h.looks && t.table == h.table {
			t.seen, t.unsaved = seen{}, true
		}
	}
	return nil
}

// stored reads the totals that an earlier process has stored, and how far it had read.
func (h *hits) stored(ctx context.Context) (map[uuid.UUID]*total, error) {
	rows, err := h.room.DB.Query(ctx, `SELECT rule_id, packets, bytes, last_hit_at, seen_table, seen_packets, seen_bytes FROM firewall_rule_hits`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	totals := map[uuid.UUID]*total{}
	for rows.Next() {
		var id uuid.UUID
		var t total
		if err := rows.Scan(&id, &t.packets, &t.bytes, &t.at, &t.table, &t.seen.packets, &t.seen.bytes); err != nil {
			return nil, err
		}
		totals[id] = &t
	}
	return totals, rows.Err()
}

// across replaces the table. Because the old counters vanish with it, they are read until the end, at a fraction of the time that nft
// takes. Nothing is stored here: the transaction that waits for the table may hold the rows.
func (h *hits) across(ctx context.Context, replace func() error) error {
	look := func() (took time.Duration) {
		began := time.Now()
		if err := h.collect(ctx); err != nil {
			h.room.Log.Debug("the last hits of the old table are not known", "component", "packet-filter", "err", err)
		}
		return time.Since(began)
	}
	took := look()
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(max(swapPause, 5*took)):
				took = look()
			}
		}
	})
	err := replace()
	close(done)
	looking.Wait()
	if err == nil {
		end, err := h.take(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		h.table = "" // the new one was not read yet
		end()
	}
	return err
}

// without changes a table, and adds what removed rules had counted. The others keep counting.
func (h *hits) without(ctx context.Context, change func() ([]host.FilterCounter, error)) error {
	end, err := h.take(ctx) // or a reader would see some counters before and some after the change
	if err != nil {
		return err
	}
	defer end()
	removed, err := change()
	if err != nil || h.totals == nil {
		return err
	}
	for _, c := range removed {
		id, err := uuid.Parse(c.Tag)
		if err != nil {
			continue
		}
		t := h.totals[id]
		if t == nil {
			t = &total{unsaved: true}
			h.totals[id] = t
		}
		h.removed(t, int64(c.Packets), int64(c.Bytes))
	}
	return nil
}

// removed adds the final counts of removed rules. If a rule has two kernel rules and one of them stays, less was seen of what remains:
// the next read counts the rest.
func (h *hits) removed(t *total, packets, bytes int64) {
	var was seen
	if t.table == h.table {
		was = t.seen
	}
	if packets > was.packets {
		at := h.room.Clock.Now()
		t.packets, t.bytes, t.at, t.unsaved = t.packets+packets-was.packets, t.bytes+bytes-was.bytes, &at, true
		packets, bytes = was.packets, was.bytes
	}
	if t.table == h.table {
		t.seen.packets, t.seen.bytes = was.packets-packets, was.bytes-bytes
	}
}

// store writes the totals that have changed, and drops those of deleted rules.
func (h *hits) store(ctx context.Context) error {
	h.storing.Lock()
	defer h.storing.Unlock()
	end, err := h.take(ctx)
	if err != nil {
		return err
	}
	unsaved := map[uuid.UUID]total{}
	for id, t := range h.totals {
		if t.unsaved {
			unsaved[id], t.unsaved = *t, false
		}
	}
	end() // a transaction that this one waits for may itself wait for the counters
	kept, gone, failed := h.write(ctx, unsaved)
	end, err = h.take(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer end()
	for _, id := range kept {
		delete(unsaved, id)
	}
	for id := range unsaved {
		// The rule may not be committed yet: the kernel gets a table before its transaction ends.
		h.totals[id].unsaved = true
		if failed == nil {
			gone = append(gone, id)
		}
	}
	for _, id := range gone {
		if t := h.totals[id]; t != nil && t.table != h.table {
			delete(h.totals, id)
		}
	}
	return failed
}

// write stores the totals of rules that exist, and deletes those of rules that do not.
func (h *hits) write(ctx context.Context, totals map[uuid.UUID]total) (kept, gone []uuid.UUID, err error) {
	var ids []uuid.UUID
	var packets, bytes, seenPackets, seenBytes []int64
	var at []*time.Time
	var tables []string
	for id, t := range totals {
		ids, packets, bytes, at = append(ids, id), append(packets, t.packets), append(bytes, t.bytes), append(at, t.at)
		tables, seenPackets, seenBytes = append(tables, t.table), append(seenPackets, t.seen.packets), append(seenBytes, t.seen.bytes)
	}
	err = h.room.DB.Write(ctx, func(tx *db.Tx) (err error) {
		kept, err = readIDs(tx.Query(ctx, `
			INSERT INTO firewall_rule_hits (rule_id, since, packets, bytes, last_hit_at, seen_table, seen_packets, seen_bytes)
			SELECT n.id, $8, n.packets, n.bytes, n.at, n.seen_table, n.seen_packets, n.seen_bytes
			FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::text[], $6::bigint[], $7::bigint[])
				AS n (id, packets, bytes, at, seen_table, seen_packets, seen_bytes) JOIN (`+counted+`) r USING (id)
			ON CONFLICT (rule_id) DO UPDATE SET packets = EXCLUDED.packets, bytes = EXCLUDED.bytes, last_hit_at = EXCLUDED.last_hit_at,
				seen_table = EXCLUDED.seen_table, seen_packets = EXCLUDED.seen_packets, seen_bytes = EXCLUDED.seen_bytes
			RETURNING rule_id`, ids, packets, bytes, at, tables, seenPackets, seenBytes, h.room.Clock.Now()))
		if err != nil {
			return err
		}
		gone, err = readIDs(tx.Query(ctx, `DELETE FROM firewall_rule_hits h WHERE NOT EXISTS (SELECT FROM (`+counted+`) r WHERE r.id = h.rule_id) RETURNING rule_id`))
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("storing hits: %w", err)
	}
	return kept, gone, nil
}

// counted selects the rules that have counters, in their order.
const counted = `
	SELECT id, 1 AS part, priority, created_at FROM firewall_rules
	UNION ALL SELECT id, 2, priority, created_at FROM firewall_nat_rules`

func readIDs(rows pgx.Rows, err error) (list []uuid.UUID, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		list = append(list, id)
	}
	return list, rows.Err()
}

// Count is what the kernel counted for a rule.
type Count struct {
	RuleID       uuid.UUID `json:"rule_id" doc:"Which rule or NAT rule."`
	Packets      int64     `json:"packets" doc:"Packets that matched since the rule itself was last applied. Changes of other rules do not matter, unless all rules are loaded again."`
	Bytes        int64     `json:"bytes" doc:"Their bytes."`
	TotalPackets int64     `json:"total_packets" doc:"Packets that matched since the rule was created or its totals were reset."`
	TotalBytes   int64     `json:"total_bytes" doc:"Their bytes."`
	Error        string    `json:"error" doc:"Why the kernel's counters are missing; empty otherwise."`
}

// counters caches the counts. Requests within a moment share one answer, and only one of them reads the kernel: a page with many viewers
// costs one read.
type counters struct {
	mu   sync.Mutex
	at   time.Time
	list []Count
}

func (r *Room) counts(ctx context.Context) ([]Count, error) {
	c := &r.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	// Use the monotonic clock: an answer from the future would stay forever.
	if c.list != nil && time.Since(c.at) < countersFor {
		return c.list, nil
	}
	list, err := r.hits.list(ctx)
	if err != nil {
		return nil, err
	}
	c.list, c.at = list, time.Now()
	return list, nil
}

// list returns every rule with its counts.
func (h *hits) list(ctx context.Context) ([]Count, error) {
	rules, err := readIDs(h.room.DB.Query(ctx, `SELECT id FROM (`+counted+`) r ORDER BY part, priority, created_at`))
	if err != nil {
		return nil, err
	}
	failure := ""
	if err := h.collect(ctx); err != nil {
		h.room.Log.Debug("reading counters", "component", "packet-filter", "err", err)
		failure = "The firewall's counters cannot be read."
	}
	end, err := h.take(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	list := make([]Count, len(rules))
	for i, id := range rules {
		list[i] = Count{RuleID: id, Error: failure}
		t := h.totals[id]
		if t == nil {
			continue
		}
		list[i].TotalPackets, list[i].TotalBytes = t.packets, t.bytes
		if failure == "" && t.table == h.table {
			list[i].Packets, list[i].Bytes = t.seen.packets, t.seen.bytes
		}
	}
	return list, nil
}

// CounterReset says whose totals to reset.
type CounterReset struct {
	RuleID *uuid.UUID `json:"rule_id" doc:"Which rule or NAT rule; without one, all."`
}

func (r *Room) mountCounters() {
	httpd.Handle(r.Router, http.MethodGet, "/firewall/counters", httpd.Read, tag.Doc("firewall.counters", "Hit counters of each rule, since it was last applied and in total"),
		func(c *httpd.Call, _ struct{}) ([]Count, error) { return r.counts(c) })
	reset := tag.Doc("firewall.counters.reset", "Reset the hit counters")
	reset.Audit = "firewall.counters.reset"
	httpd.Handle(r.Router, http.MethodPost, "/firewall/counters/reset", httpd.Write.Here(), reset,
		func(c *httpd.Call, in struct{ Body *CounterReset }) (CounterReset, error) {
			if in.Body == nil {
				in.Body = &CounterReset{}
			}
			return *in.Body, r.resetCounters(c, in.Body.RuleID)
		})
}

func (r *Room) resetCounters(ctx context.Context, rule *uuid.UUID) error {
	h := r.hits
	if err := h.collect(ctx); err != nil {
		return fault.Wrap(fault.Unavailable, err, "The firewall's counters cannot be read. Try again in a moment.")
	}
	h.storing.Lock()
	defer h.storing.Unlock()
	err := r.DB.Write(ctx, func(tx *db.Tx) error {
		subject := "all rules"
		if rule != nil {
			err := tx.QueryRow(ctx, `
				SELECT coalesce((SELECT name FROM firewall_rules WHERE id = $1), (SELECT name FROM firewall_nat_rules WHERE id = $1), '')`, rule).Scan(&subject)
			if err == nil && subject == "" {
				err = fault.New(fault.NotFound, "This rule does not exist.")
			}
			if err != nil {
				return err
			}
		}
		tx.Queue(`UPDATE firewall_rule_hits SET packets = 0, bytes = 0 WHERE $1::uuid IS NULL OR rule_id = $1`, rule)
		return r.Audit.Write(ctx, tx, "firewall.counters.reset", subject, CounterReset{rule})
	})
	if err != nil {
		return err
	}
	r.counters.mu.Lock() // before the turn, in the same order as readers of the counters
	defer r.counters.mu.Unlock()
	r.counters.list = nil
	end, err := h.take(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer end()
	for id, t := range h.totals {
		if rule == nil || id == *rule {
			t.packets, t.bytes, t.unsaved = 0, 0, true
		}
	}
	return nil
}
