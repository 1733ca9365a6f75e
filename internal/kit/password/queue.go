package password

import (
	"context"
	"slices"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/fault"
)

// maxWaiting bounds the queue. When it is full, the one who has waited longest in the longest lane is sent away.
const (
	maxWaiting = 256
	retryAfter = 5 * time.Second
)

// queue lets a few work at a time. Those who wait stand in a lane for each place they come from. The lanes are served
// in turns, beginning with the one that came last, and within a lane the last comes first: under a flood, those who
// have waited longest have given up already.
type queue struct {
	mu      sync.Mutex
	free    int
	lanes   []*lane // none is empty; the first is served next
	waiting int
}

type lane struct {
	from    string
	waiters []*waiter // the newest is last
}

// waiter learns on its channel whether it may work.
type waiter struct{ told chan error }

func newQueue(workers int) *queue { return &queue{free: workers} }

func (q *queue) enter(ctx context.Context, from string) error {
	q.mu.Lock()
	if q.free > 0 {
		q.free--
		q.mu.Unlock()
		return nil
	}
	w := &waiter{told: make(chan error, 1)}
	if q.waiting == maxWaiting {
		q.sendAway()
	}
	q.push(from, w)
	q.mu.Unlock()
	select {
	case err := <-w.told:
		return err
	case <-ctx.Done():
		q.giveUp(from, w)
		return fault.Wrap(fault.Unavailable, ctx.Err(), "the request ended while it waited for its turn")
	}
}

// leave hands the place to the next one.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lanes) == 0 {
		q.free++
		return
	}
	l := q.lanes[0]
	w := l.waiters[len(l.waiters)-1]
	l.waiters = l.waiters[:len(l.waiters)-1]
	q.waiting--
	q.lanes = q.lanes[1:]
	if len(l.waiters) > 0 {
		q.lanes = append(q.lanes, l)
	}
	w.told <- nil
}

func (q *queue) push(from string, w *waiter) {
	q.waiting++
	if i := q.lane(from); i >= 0 {
		q.lanes[i].waiters = append(q.lanes[i].waiters, w)
		return
	}
	q.lanes = slices.Insert(q.lanes, 0, &lane{from: from, waiters: []*waiter{w}})
}

func (q *queue) lane(from string) int {
	return slices.IndexFunc(q.lanes, func(l *lane) bool { return l.from == from })
}

// remove takes a waiter out of a lane.
func (q *queue) remove(lane, waiter int) {
	l := q.lanes[lane]
	l.waiters = slices.Delete(l.waiters, waiter, waiter+1)
	q.waiting--
	if len(l.waiters) == 0 {
		q.lanes = slices.Delete(q.lanes, lane, lane+1)
	}
}

// giveUp is for a waiter who does not wait any longer. If its turn came at the same moment, the next one gets it.
func (q *queue) giveUp(from string, w *waiter) {
	q.mu.Lock()
	if i := q.lane(from); i >= 0 {
		if j := slices.Index(q.lanes[i].waiters, w); j >= 0 {
			q.remove(i, j)
			q.mu.Unlock()
			return
		}
	}
	q.mu.Unlock()
	if err := <-w.told; err == nil {
		q.leave()
	}
}

func (q *queue) sendAway() {
	longest := 0
	for i, l := range q.lanes {
		// Of equal lanes, the later one has been here longer.
		if len(l.waiters) >= len(q.lanes[longest].waiters) {
			longest = i
		}
	}
	w := q.lanes[longest].waiters[0]
	q.remove(longest, 0)
	f := fault.New(fault.TooMany, "too many requests are waiting: try again in a moment")
	f.RetryAfter = retryAfter
	w.told <- f
}
