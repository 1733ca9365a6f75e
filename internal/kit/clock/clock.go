// Package clock provides a clock that tests can control.
package clock

import (
	"sync"
	"time"
)

// Clock tells the time.
type Clock interface {
	Now() time.Time
	// After fires once when the duration has passed on this clock.
	After(d time.Duration) <-chan time.Time
	// At fires once when this clock has reached the time, or immediately if it has passed. Use it instead of After in a worker
	// that computes the time of its next check from Now: the clock may move between the two calls.
	At(t time.Time) <-chan time.Time
}

// Real is the machine's clock, in UTC and with the precision of the database.
var Real Clock = realClock{}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now().UTC().Truncate(time.Microsecond) }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
func (realClock) At(t time.Time) <-chan time.Time        { return time.After(time.Until(t)) }

// Fake is a clock that stands still until it is moved.
type Fake struct {
	mu     sync.Mutex
	now    time.Time
	timers []fakeTimer
}

type fakeTimer struct {
	at time.Time
	ch chan time.Time
}

// NewFake returns a clock that stands at t.
func NewFake(t time.Time) *Fake { return &Fake{now: t.UTC()} }

func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// After fires when Move has passed the moment.
func (f *Fake) After(d time.Duration) <-chan time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at(f.now.Add(d))
}

// At fires when Move has reached the time, or immediately if it has passed.
func (f *Fake) At(t time.Time) <-chan time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at(t)
}

func (f *Fake) at(t time.Time) <-chan time.Time {
	timer := fakeTimer{at: t, ch: make(chan time.Time, 1)}
	f.timers = append(f.timers, timer)
	f.fire()
	return timer.ch
}

func (f *Fake) Move(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	f.fire()
}

func (f *Fake) fire() {
	rest := f.timers[:0]
	for _, t := range f.timers {
		if t.at.After(f.now) {
			rest = append(rest, t)
			continue
		}
		t.ch <- f.now
	}
	f.timers = rest
}
