package password

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/fault"
)

// wait enters the queue in the background, and returns when it is in.
func wait(t *testing.T, q *queue, ctx context.Context, from string, served func(error)) {
	t.Helper()
	q.mu.Lock()
	before := q.waiting
	q.mu.Unlock()
	go func() { served(q.enter(ctx, from)) }()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Microsecond) {
		q.mu.Lock()
		now := q.waiting
		q.mu.Unlock()
		if now > before || before == maxWaiting {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody entered the queue")
		}
	}
}

func TestQueueServesPlacesInTurns(t *testing.T) {
	q := newQueue(1)
	if err := q.enter(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	served := make(chan string, 10)
	for i := range 3 {
		wait(t, q, t.Context(), "flood", func(error) { served <- fmt.Sprint("flood ", i) })
	}
	wait(t, q, t.Context(), "other", func(error) { served <- "other" })
	wait(t, q, t.Context(), "last", func(error) { served <- "last" })
	var order []string
	for range 5 {
		q.leave()
		order = append(order, <-served)
	}
	if want := []string{"last", "other", "flood 2", "flood 1", "flood 0"}; !slices.Equal(order, want) {
		t.Errorf("served %q instead of %q", order, want)
	}
	q.leave()
	if q.free != 1 || q.waiting != 0 {
		t.Errorf("%d free, %d waiting", q.free, q.waiting)
	}
}

func TestFloodDoesNotHoldUpAnotherPlaceTwice(t *testing.T) {
	q := newQueue(1)
	_ = q.enter(t.Context(), "flood")
	served := make(chan string, 10)
	for range 4 {
		wait(t, q, t.Context(), "flood", func(error) { served <- "flood" })
	}
	for range 2 {
		wait(t, q, t.Context(), "other", func(error) { served <- "other" })
	}
	var order []string
	for range 6 {
		q.leave()
		order = append(order, <-served)
	}
	if want := []string{"other", "flood", "other", "flood", "flood", "flood"}; !slices.Equal(order, want) {
		t.Errorf("served %q instead of %q", order, want)
	}
}

func TestWhoGivesUpIsPassedOver(t *testing.T) {
	q := newQueue(1)
	_ = q.enter(t.Context(), "a")
	ctx, cancel := context.WithCancel(t.Context())
	gone, served := make(chan error, 1), make(chan error, 1)
	wait(t, q, t.Context(), "b", func(err error) { served <- err })
	wait(t, q, ctx, "c", func(err error) { gone <- err })
	cancel()
	if err := <-gone; !fault.Is(err, fault.Unavailable) {
		t.Errorf("gave up with %v", err)
	}
	q.leave()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestQueueIsBounded(t *testing.T) {
	q := newQueue(1)
	_ = q.enter(t.Context(), "a")
	refused := make(chan error, 1)
	served := make(chan error, maxWaiting)
	wait(t, q, t.Context(), "flood", func(err error) { refused <- err })
	for range maxWaiting - 1 {
		wait(t, q, t.Context(), "flood", func(err error) { served <- err })
	}
	right := make(chan error, 1)
	wait(t, q, t.Context(), "other", func(err error) { right <- err })
	if err := <-refused; !fault.Is(err, fault.TooMany) || fault.From(err).RetryAfter == 0 {
		t.Errorf("refused with %v", err)
	}
	q.leave()
	if err := <-right; err != nil {
		t.Error(err)
	}
	for range maxWaiting - 1 {
		q.leave()
		<-served
	}
}

func TestQueueNeverLosesAPlace(t *testing.T) {
	q := newQueue(2)
	var mu sync.Mutex
	working, most := 0, 0
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*100*time.Microsecond)
			defer cancel()
			if q.enter(ctx, fmt.Sprint(i%7)) != nil {
				return
			}
			mu.Lock()
			working++
			most = max(most, working)
			mu.Unlock()
			time.Sleep(100 * time.Microsecond)
			mu.Lock()
			working--
			mu.Unlock()
			q.leave()
		})
	}
	all.Wait()
	if most > 2 || q.free != 2 || q.waiting != 0 || len(q.lanes) != 0 {
		t.Errorf("%d at once, %d free, %d waiting, %d lanes", most, q.free, q.waiting, len(q.lanes))
	}
}
