package password

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/waittest"
)

func stranger(lane string) Place { return Place{Lane: lane} }

// wait enters the queue in the background, and returns when it is in.
func wait(t *testing.T, q *queue, ctx context.Context, from Place, served func(error)) {
	t.Helper()
	q.mu.Lock()
	before := q.waiting
	q.mu.Unlock()
	go func() { served(q.enter(ctx, from)) }()
	waittest.Until(t, "somebody enters the queue", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.waiting > before || before == maxWaiting
	})
}

// order returns the order in which callers that arrived one after the other are served.
func order(t *testing.T, waiting ...Place) (served []string) {
	t.Helper()
	q := newQueue(1)
	if err := q.enter(t.Context(), stranger("at work")); err != nil {
		t.Fatal(err)
	}
	turns := make(chan string, len(waiting))
	for i, p := range waiting {
		wait(t, q, t.Context(), p, func(error) { turns <- fmt.Sprint(p.Lane, " ", i) })
	}
	for range waiting {
		q.leave()
		served = append(served, <-turns)
	}
	q.leave()
	if q.free != 1 || q.waiting != 0 || len(q.classes[0].lanes)+len(q.classes[1].lanes) != 0 {
		t.Errorf("%d free, %d waiting", q.free, q.waiting)
	}
	return served
}

func TestQueueServesPlacesInTurns(t *testing.T) {
	flood, other, last := stranger("flood"), stranger("other"), stranger("last")
	got := order(t, flood, flood, flood, other, last, other)
	if want := []string{"flood 0", "other 3", "last 4", "flood 1", "other 5", "flood 2"}; !slices.Equal(got, want) {
		t.Errorf("served %q instead of %q", got, want)
	}
}

// A caller from a new place queues behind those that wait already: a trickle from ever new places does not delay them.
func TestNewPlacesComeLast(t *testing.T) {
	q := newQueue(1)
	_ = q.enter(t.Context(), stranger("at work"))
	served, strangers := make(chan struct{}), make(chan struct{}, 100)
	wait(t, q, t.Context(), stranger("one"), func(error) { strangers <- struct{}{} })
	wait(t, q, t.Context(), stranger("person"), func(error) { close(served) })
	for i := range 4 {
		wait(t, q, t.Context(), stranger(fmt.Sprint("new ", i)), func(error) { strangers <- struct{}{} })
		q.leave()
		select {
		case <-served:
			return
		case <-strangers:
		}
	}
	t.Error("the person still waits")
}

// Known callers get every second turn, however many strangers wait, and whatever the places of either.
func TestKnownHaveTheirShare(t *testing.T) {
	a, b, c := stranger("a"), stranger("b"), stranger("c")
	me, you := Place{"me", true}, Place{"you", true}
	got := order(t, a, b, c, me, me, you)
	if want := []string{"me 3", "a 0", "you 5", "b 1", "me 4", "c 2"}; !slices.Equal(got, want) {
		t.Errorf("served %q instead of %q", got, want)
	}
	got = order(t, me, me, me, a, a)
	if want := []string{"me 0", "a 3", "me 1", "a 4", "me 2"}; !slices.Equal(got, want) {
		t.Errorf("served %q instead of %q", got, want)
	}
}

func TestWhoGivesUpIsPassedOver(t *testing.T) {
	q := newQueue(1)
	_ = q.enter(t.Context(), stranger("a"))
	ctx, cancel := context.WithCancel(t.Context())
	gone, served := make(chan error, 1), make(chan error, 1)
	wait(t, q, t.Context(), stranger("b"), func(err error) { served <- err })
	wait(t, q, ctx, stranger("c"), func(err error) { gone <- err })
	cancel()
	if err := <-gone; !fault.Is(err, fault.Unavailable) {
		t.Errorf("gave up with %v", err)
	}
	q.leave()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A request waits for its turn no longer than for anything else, and the turn then goes to the next one.
func TestTurnOfARequest(t *testing.T) {
	t.Parallel() // it mostly waits
	h := New(bcrypt.MinCost)
	h.queue = newQueue(1)
	busy, err := h.Turn(t.Context(), stranger("a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Turn(db.Impatient(t.Context()), stranger("b")); !fault.Is(err, fault.TooMany) || fault.From(err).RetryAfter == 0 {
		t.Error(err)
	}
	busy.End()
	if _, err := h.Turn(db.Impatient(t.Context()), stranger("c")); err != nil {
		t.Error(err)
	}
}

func TestQueueIsBounded(t *testing.T) {
	q := newQueue(1)
	_ = q.enter(t.Context(), stranger("at work"))
	flood, people := make(chan error, maxWaiting), make(chan error, 2)
	for range maxWaiting {
		wait(t, q, t.Context(), stranger("flood"), func(err error) { flood <- err })
	}
	// Callers of the flood are rejected in favour of those from elsewhere,
	for i, p := range []Place{stranger("other"), {"known", true}} {
		wait(t, q, t.Context(), p, func(err error) { people <- err })
		if err := <-flood; !fault.Is(err, fault.TooMany) || fault.From(err).RetryAfter == 0 {
			t.Errorf("refused %d with %v", i, err)
		}
	}
	// and so are further ones of the flood.
	if err := q.enter(t.Context(), stranger("flood")); !fault.Is(err, fault.TooMany) {
		t.Errorf("one more of the flood: %v", err)
	}
	for range maxWaiting {
		q.leave()
		select {
		case err := <-flood:
			if err != nil {
				t.Error(err)
			}
		case err := <-people:
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// When strangers from ever new places have filled the queue, a known caller still gets in, and another stranger has a chance.
func TestFullQueueOfStrangersKeepsNobodyOut(t *testing.T) {
	q := newQueue(1)
	_ = q.enter(t.Context(), stranger("at work"))
	trickle := make(chan error, 10*maxWaiting)
	for i := range maxWaiting {
		wait(t, q, t.Context(), stranger(fmt.Sprint(i)), func(err error) { trickle <- err })
	}
	known := make(chan error, 1)
	wait(t, q, t.Context(), Place{"me", true}, func(err error) { known <- err })
	if err := <-trickle; !fault.Is(err, fault.TooMany) {
		t.Errorf("a stranger: %v", err)
	}
	q.leave()
	if err := <-known; err != nil {
		t.Errorf("known: %v", err)
	}
	in := 0
	for i := range 10 {
		name := fmt.Sprint("person ", i)
		wait(t, q, t.Context(), stranger(name), func(err error) { trickle <- err })
		q.mu.Lock()
		if q.classes[0].lane(name) >= 0 {
			in++
		}
		q.mu.Unlock()
	}
	if in == 0 {
		t.Error("ten newcomers were all sent away")
	}
	for range maxWaiting {
		q.leave()
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
			if q.enter(ctx, Place{fmt.Sprint(i % 7), i%3 == 0}) != nil {
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
	if most > 2 || q.free != 2 || q.waiting != 0 || len(q.classes[0].lanes)+len(q.classes[1].lanes) != 0 {
		t.Errorf("%d at once, %d free, %d waiting", most, q.free, q.waiting)
	}
}
