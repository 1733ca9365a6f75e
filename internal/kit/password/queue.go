package password

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/fault"
)

// maxWaiting limits the length of the queue.
const (
	maxWaiting = 256
	retryAfter = 5 * time.Second
)

// Place is where a caller queues. Known callers have authenticated before: they get every second turn if others wait too, so that
// no flood of strangers, from however many places, keeps them out.
type Place struct {
	Lane  string
	Known bool
}

// queue limits concurrency. Callers queue in a lane for each place. The lanes are served round-robin, and new ones come last;
// within a lane, first come, first served.
type queue struct {
	mu      sync.Mutex
	free    int
	classes [2]class // strangers, and known callers
	next    int      // the class that is served next, if a caller waits there
	waiting int
}

// class holds non-empty lanes, which are served round-robin from the first.
type class struct{ lanes []*lane }

type lane struct {
	name    string
	waiters []*waiter // oldest first
}

// waiter receives on its channel whether it may work.
type waiter struct{ result chan error }

func newQueue(workers int) *queue { return &queue{free: workers, next: 1} }

func (q *queue) class(p Place) *class {
	if p.Known {
		return &q.classes[1]
	}
	return &q.classes[0]
}

func (q *queue) enter(ctx context.Context, from Place) error {
	q.mu.Lock()
	if q.free > 0 {
		q.free--
		q.mu.Unlock()
		return nil
	}
	w := &waiter{result: make(chan error, 1)}
	q.class(from).push(from.Lane, w)
	if q.waiting++; q.waiting > maxWaiting {
		q.sendAway()
	}
	q.mu.Unlock()
	select {
	case err := <-w.result:
		return err
	case <-ctx.Done():
		q.giveUp(from, w)
		return fault.Wrap(fault.Unavailable, ctx.Err(), "The request ended before it was processed.")
	}
}

// leave passes the place to the next caller.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == 0 {
		q.free++
		return
	}
	serve := q.next
	if len(q.classes[serve].lanes) == 0 {
		serve = 1 - serve
	}
	q.next = 1 - serve
	q.waiting--
	q.classes[serve].take().result <- nil
}

// giveUp removes a caller that no longer waits. If its turn came at the same moment, the next one gets it.
func (q *queue) giveUp(from Place, w *waiter) {
	q.mu.Lock()
	found := q.class(from).remove(from.Lane, w)
	if found {
		q.waiting--
	}
	q.mu.Unlock()
	if found {
		return
	}
	if err := <-w.result; err == nil {
		q.leave()
	}
}

// sendAway rejects the last caller of the longest lane, preferably a stranger. Among lanes of equal length, it picks one at
// random: callers that keep coming from new places have no advantage.
func (q *queue) sendAway() {
	c := &q.classes[0]
	if len(c.lanes) == 0 {
		c = &q.classes[1]
	}
	q.waiting--
	c.last().result <- tooMany()
}

// tooMany returns the error for callers that cannot wait for their turn.
func tooMany() error {
	f := fault.New(fault.TooMany, "Too many requests are waiting. Try again in a moment.")
	f.RetryAfter = retryAfter
	return f
}

func (c *class) lane(name string) int {
	return slices.IndexFunc(c.lanes, func(l *lane) bool { return l.name == name })
}

func (c *class) push(name string, w *waiter) {
	i := c.lane(name)
	if i < 0 {
		i = len(c.lanes)
		c.lanes = append(c.lanes, &lane{name: name})
	}
	c.lanes[i].waiters = append(c.lanes[i].waiters, w)
}

// take removes the first waiter of the first lane, which then comes last.
func (c *class) take() *waiter {
	l := c.lanes[0]
	w := l.waiters[0]
	l.waiters = l.waiters[1:]
	c.lanes = c.lanes[1:]
	if len(l.waiters) > 0 {
		c.lanes = append(c.lanes, l)
	}
	return w
}

func (c *class) last() *waiter {
	var longest []*lane
	for _, l := range c.lanes {
		if len(longest) > 0 && len(l.waiters) > len(longest[0].waiters) {
			longest = nil
		}
		if len(longest) == 0 || len(l.waiters) == len(longest[0].waiters) {
			longest = append(longest, l)
		}
	}
	l := longest[rand.IntN(len(longest))]
	w := l.waiters[len(l.waiters)-1]
	c.remove(l.name, w)
	return w
}

func (c *class) remove(name string, w *waiter) (found bool) {
	i := c.lane(name)
	if i < 0 {
		return false
	}
	l := c.lanes[i]
	j := slices.Index(l.waiters, w)
	if j < 0 {
		return false
	}
	if l.waiters = slices.Delete(l.waiters, j, j+1); len(l.waiters) == 0 {
		c.lanes = slices.Delete(c.lanes, i, i+1)
	}
	return true
}
