package alert

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/rescue"
)

const (
	// lookEvery is how often the outbox is polled when nothing is announced.
	lookEvery = 5 * time.Second
	// lease is how long a claimed event belongs to the process that sends it. If that process dies, another one may claim it after this
	// time.
	lease = 2 * time.Minute
	// perTurn is how many events are assigned to channels in one transaction.
	perTurn = 1000
	// rest is how long a worker pauses after a database error.
	rest = time.Second
	// skipped is why the end of an alarm is not sent to a channel.
	skipped = "Its start was not sent."
)

type timing struct {
	// within limits one attempt, whatever the receiver does.
	within time.Duration
	// gather is how long an event waits for others before the first attempt, so that a flood becomes one message.
	gather time.Duration
	// pauses are the times between attempts.
	pauses []time.Duration
	// digestEvery is the minimum time between two digests of a channel, and the window in which its messages are counted.
	digestEvery time.Duration
}

// usual makes attempts after 1, 5 and 25 seconds.
var usual = timing{within: 10 * time.Second, gather: time.Second, pauses: []time.Duration{4 * time.Second, 20 * time.Second}, digestEvery: time.Minute}

// Deliver sends events to the channels until the context ends. Each channel has its own worker, so a slow one delays no other.
func (r *Room) Deliver(ctx context.Context) {
	woken := make(chan struct{}, 1)
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() {
		r.DB.Wake(ctx, alarm.Channel, woken, func() <-chan time.Time { return r.Clock.After(lookEvery) })
	})
	busy := map[uuid.UUID]bool{}
	ended := make(chan uuid.UUID)
	var again time.Time
	for {
		select {
		case <-ctx.Done():
			for len(busy) > 0 {
				delete(busy, <-ended)
			}
			return
		case id := <-ended:
			delete(busy, id)
		case <-woken:
			// Wait for more: nothing is due earlier.
			select {
			case <-ctx.Done():
			case <-r.Clock.After(r.timing.gather / 2):
			}
		case <-r.Clock.At(again):
		}
		began := r.Clock.Now()
		due, next, err := r.turn(ctx)
		if err != nil && ctx.Err() == nil && !db.Away(err) {
			r.Log.Warn("assigning alerts to channels", "err", err)
		}
		for _, c := range due {
			if busy[c.ID] {
				continue
			}
			busy[c.ID] = true
			workers.Go(func() {
				defer func() { ended <- c.ID }()
				r.serve(ctx, c)
			})
		}
		again = began.Add(min(max(next, 100*time.Millisecond), lookEvery))
	}
}

// turn assigns new events to channels. It returns the channels for which something is due, and when the next delivery is.
func (r *Room) turn(ctx context.Context) (due []Channel, next time.Duration, err error) {
	for {
		n, err := r.fanOut(ctx)
		if err != nil {
			return nil, lookEvery, err
		}
		if n < perTurn {
			break
		}
	}
	now := r.Clock.Now()
	// The index finds the first delivery of each channel, no matter how many wait behind it.
	rows, err := r.DB.Query(ctx, `SELECT id, at FROM alert_channels, LATERAL (SELECT min(next_at) AS at FROM alert_deliveries WHERE channel_id = id AND state = 'waiting') w WHERE at IS NOT NULL`)
	if err != nil {
		return nil, lookEvery, err
	}
	type waiting struct {
		ID uuid.UUID
		At time.Time
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[waiting])
	if err != nil {
		return nil, lookEvery, err
	}
	channels, err := r.channels.Where(ctx, r.DB, "active")
	if err != nil {
		return nil, lookEvery, err
	}
	next = lookEvery
	for _, w := range list {
		i := slices.IndexFunc(channels, func(c Channel) bool { return c.ID == w.ID })
		switch {
		case i < 0:
		case w.At.After(now):
			next = min(next, w.At.Sub(now))
		default:
			due = append(due, channels[i])
		}
	}
	return due, next, nil
}

// fanOut takes events from the outbox and records which channels get them. It returns how many events it took.
func (r *Room) fanOut(ctx context.Context) (n int, err error) {
	err = r.DB.Write(ctx, func(tx *db.Tx) error {
		events, err := r.Alarms.Take(ctx, tx, perTurn)
		n = len(events)
		if err != nil || n == 0 {
			return err
		}
		channels, err := r.channels.Where(ctx, tx, "active")
		if err != nil {
			return err
		}
		mutes, err := r.mutes.Where(ctx, tx, "until > $1", r.Clock.Now())
		if err != nil {
			return err
		}
		var muted, ids, channelIDs []uuid.UUID
		var names []string
		var when []time.Time
		for i := range events {
			e := &events[i]
			if slices.ContainsFunc(mutes, func(m Mute) bool { return m.Kind == e.Kind }) {
				muted = append(muted, e.ID)
				continue
			}
			if e.Resolves != nil {
				// Channels that got the start of an alarm, or are about to, also get its end.
				tx.Queue(`INSERT INTO alert_deliveries (event_id, channel_id, channel, state, next_at)
					SELECT $1, channel_id, channel, 'waiting', $3 FROM alert_deliveries JOIN alert_channels c ON c.id = channel_id AND c.active
					WHERE event_id = $2 AND state IN ('ok', 'waiting') ON CONFLICT DO NOTHING`, e.ID, *e.Resolves, e.CreatedAt.Add(r.timing.gather))
				continue
			}
			for j := range channels {
				c := &channels[j]
				if !c.MinSeverity.Worse(e.Severity) {
					ids, channelIDs, names, when = append(ids, e.ID), append(channelIDs, c.ID), append(names, c.Label()), append(when, e.CreatedAt.Add(r.timing.gather))
				}
			}
		}
		r.Alarms.Mute(tx, muted)
		if len(ids) > 0 {
			tx.Queue(`INSERT INTO alert_deliveries (event_id, channel_id, channel, state, next_at)
				SELECT e, c, n, 'waiting', t FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[]) AS x (e, c, n, t) ON CONFLICT DO NOTHING`, ids, channelIDs, names, when)
		}
		return nil
	})
	return n, err
}

// Forget drops what still waits in a database restored from a backup: it is old, and was sent at the time if possible.
func (r *Room) Forget(ctx context.Context, tx *db.Tx) error {
	for {
		left, err := r.Alarms.Take(ctx, tx, perTurn)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			break
		}
		ids := make([]uuid.UUID, len(left))
		for i, e := range left {
			ids[i] = e.ID
		}
		r.Alarms.Mute(tx, ids)
	}
	tx.Queue(`UPDATE alert_deliveries SET state = 'skipped', error = 'The gateway was restored from a backup before the alert was sent.', ended_at = $1 WHERE state = 'waiting'`, r.Clock.Now())
	return nil
}

type claimed struct {
	Event    uuid.UUID
	Attempts int
}

// serve sends everything that is now due for a channel.
func (r *Room) serve(ctx context.Context, c Channel) {
	var failure error
	defer func() {
		if failure == nil || ctx.Err() != nil {
			return
		}
		if !db.Away(failure) {
			r.Log.Warn("serving an alert channel", "channel", c.Label(), "err", failure)
		}
		select {
		case <-ctx.Done():
		case <-r.Clock.After(rest):
		}
	}()
	defer rescue.Into(&failure, r.Log, "alerts")
	s, err := r.settings.Load(ctx, r.DB)
	if err != nil {
		failure = err
		return
	}
	list, err := r.claim(ctx, c.ID)
	if err != nil || len(list) == 0 {
		failure = err
		return
	}
	now := r.Clock.Now()
	budget, again := r.pace.budget(c.ID, s.DigestOver, now, r.timing)
	switch {
	case len(list) <= budget:
		for i, x := range list {
			done, err := r.sendOne(ctx, &c, x)
			if err != nil {
				failure = err
				return
			}
			if !done {
				// The others would also fail now: they go out with the next attempt.
				failure = r.postpone(ctx, c.ID, list[i+1:], r.Clock.Now().Add(r.timing.pauses[0]))
				return
			}
		}
	case now.Before(again):
		failure = r.postpone(ctx, c.ID, list, again)
	default:
		failure = r.sendDigest(ctx, &c, list)
	}
}

// claim takes everything that is due for a channel, oldest first. It is not due again before the lease ends.
func (r *Room) claim(ctx context.Context, channel uuid.UUID) (list []claimed, err error) {
	now := r.Clock.Now()
	err = r.DB.Write(ctx, func(tx *db.Tx) error {
		rows, err := tx.Query(ctx, `UPDATE alert_deliveries SET next_at = $3 WHERE (event_id, channel_id) IN
			(SELECT event_id, channel_id FROM alert_deliveries WHERE channel_id = $1 AND state = 'waiting' AND next_at <= $2 FOR UPDATE SKIP LOCKED)
			RETURNING event_id, attempts`, channel, now, now.Add(lease))
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[claimed])
		return err
	})
	slices.SortFunc(list, func(a, b claimed) int { return slices.Compare(a.Event[:], b.Event[:]) })
	return list, err
}

// postpone returns deliveries that were not attempted.
func (r *Room) postpone(ctx context.Context, channel uuid.UUID, list []claimed, until time.Time) error {
	return r.DB.Write(context.WithoutCancel(ctx), func(tx *db.Tx) error {
		tx.Queue(`UPDATE alert_deliveries SET next_at = $3 WHERE channel_id = $1 AND event_id = ANY ($2) AND state = 'waiting'`, channel, events(list), until)
		return nil
	})
}

func events(list []claimed) []uuid.UUID {
	ids := make([]uuid.UUID, len(list))
	for i, x := range list {
		ids[i] = x.Event
	}
	return ids
}

// sendOne sends one event to a channel, and reports whether the channel is done with it.
func (r *Room) sendOne(ctx context.Context, c *Channel, x claimed) (done bool, err error) {
	// The channel may have been switched off since it was claimed.
	found, err := readEvents(ctx, r.DB, `WHERE id = $1 AND EXISTS (SELECT FROM alert_deliveries d WHERE d.event_id = e.id AND d.channel_id = $2 AND d.state = 'waiting')`, x.Event, c.ID)
	if err != nil || len(found) == 0 {
		return true, err
	}
	e := &found[0]
	if e.Resolves != nil {
		var startNotSent bool
		err := r.DB.QueryRow(ctx, `SELECT EXISTS (SELECT FROM alert_deliveries WHERE event_id = $1 AND channel_id = $2 AND state IN ('error', 'skipped'))`, *e.Resolves, c.ID).Scan(&startNotSent)
		if err != nil {
			return false, err
		}
		if startNotSent {
			return true, r.DB.Write(ctx, func(tx *db.Tx) error {
				tx.Queue(`UPDATE alert_deliveries SET state = 'skipped', error = $3, ended_at = $4 WHERE event_id = $1 AND channel_id = $2`, x.Event, c.ID, skipped, r.Clock.Now())
				return nil
			})
		}
	}
	m := of(e)
	r.pace.count(c.ID, r.Clock.Now())
	result := r.send(ctx, c, &m)
	return result == nil, r.record(ctx, c, []claimed{x}, false, result)
}

// sendDigest sends many events to a channel in one message.
func (r *Room) sendDigest(ctx context.Context, c *Channel, list []claimed) error {
	rows, err := r.DB.Query(ctx, `SELECT kind, severity, resolves IS NOT NULL, count(*), min(subject), min(created_at) FROM alarm_events WHERE id = ANY ($1)
		GROUP BY 1, 2, 3 ORDER BY array_position(ARRAY['critical', 'error', 'warning', 'info'], severity), 4 DESC, 1`, events(list))
	if err != nil {
		return err
	}
	tallies, err := pgx.CollectRows(rows, pgx.RowToStructByPos[tally])
	if err != nil || len(tallies) == 0 {
		return err
	}
	now := r.Clock.Now()
	m := digest(tallies, now)
	result := r.send(ctx, c, &m)
	r.pace.digested(c.ID, r.Clock.Now(), result == nil, r.timing)
	return r.record(ctx, c, list, true, result)
}

// record stores the result of an attempt. A failed delivery is retried, or given up after the last attempt.
func (r *Room) record(ctx context.Context, c *Channel, list []claimed, many bool, result error) error {
	if result != nil && ctx.Err() != nil {
		return r.postpone(ctx, c.ID, list, r.Clock.Now()) // the program ends: the receiver is not to blame
	}
	if result != nil {
		r.Log.Warn("alerts not sent", "channel", c.Label(), "events", len(list), "err", result)
	}
	return r.DB.Write(context.WithoutCancel(ctx), func(tx *db.Tx) error {
		now := r.Clock.Now()
		if result == nil {
			tx.Queue(`UPDATE alert_deliveries SET state = 'ok', attempts = attempts + 1, error = '', digest = $3, ended_at = $4 WHERE channel_id = $1 AND event_id = ANY ($2)`, c.ID, events(list), many, now)
			return nil
		}
		var over []uuid.UUID
		next := map[int][]uuid.UUID{}
		for _, x := range list {
			if x.Attempts >= len(r.timing.pauses) {
				over = append(over, x.Event)
			} else {
				next[x.Attempts] = append(next[x.Attempts], x.Event)
			}
		}
		tx.Queue(`UPDATE alert_deliveries SET state = 'error', attempts = attempts + 1, error = $3, digest = $4, ended_at = $5 WHERE channel_id = $1 AND event_id = ANY ($2) AND state = 'waiting'`, c.ID, over, result.Error(), many, now)
		for attempts, ids := range next {
			tx.Queue(`UPDATE alert_deliveries SET attempts = attempts + 1, error = $3, digest = $4, next_at = $5 WHERE channel_id = $1 AND event_id = ANY ($2) AND state = 'waiting'`, c.ID, ids, result.Error(), many, now.Add(r.timing.pauses[attempts]))
		}
		return nil
	})
}

// pace counts the messages of each channel, so that none is flooded.
type pace struct {
	mu   sync.Mutex
	sent map[uuid.UUID]*sent
}

type sent struct {
	messages []time.Time // in the last minute
	again    time.Time   // when another message is allowed after a digest
	failures int         // failed digests in a row
}

// budget returns how many messages a channel may get now, and when a digest is allowed.
func (p *pace) budget(channel uuid.UUID, limit int, now time.Time, t timing) (n int, again time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.of(channel)
	s.messages = slices.DeleteFunc(s.messages, func(sent time.Time) bool { return now.Sub(sent) >= t.digestEvery })
	if now.Before(s.again) {
		return 0, s.again
	}
	return limit - len(s.messages), s.again
}

func (p *pace) count(channel uuid.UUID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.of(channel)
	s.messages = append(s.messages, now)
}

// digested records the result of a digest: after a success there is a minute of silence, after a failure the usual pause.
func (p *pace) digested(channel uuid.UUID, now time.Time, ok bool, t timing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.of(channel)
	if ok {
		s.failures, s.again = 0, now.Add(t.digestEvery)
		return
	}
	s.again = now.Add(t.pauses[min(s.failures, len(t.pauses)-1)])
	s.failures++
}

func (p *pace) of(channel uuid.UUID) *sent {
	s := p.sent[channel]
	if s == nil {
		s = &sent{}
		p.sent[channel] = s
	}
	return s
}
