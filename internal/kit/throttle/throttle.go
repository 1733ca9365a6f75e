// Package throttle refuses callers who guess too often.
package throttle

import (
	"slices"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/fault"
)

// Limits are the maximum numbers of failures. They are for an address or a device; wider networks have more.
type Limits struct {
	// Pair is for one account from one source, so that others are not locked out of the account.
	Pair int
	// Source is for one source, whatever the account.
	Source int
	// Within is how long a failure counts.
	Within time.Duration
}

// Guessing are the limits for passwords and tokens.
var Guessing = Limits{Pair: 10, Source: 50, Within: 15 * time.Minute}

// maxSources bounds the memory. Beyond it, the sources that failed longest ago are dropped.
const maxSources = 4096

// Throttle counts failures, and remembers who has succeeded.
type Throttle struct {
	clock  clock.Clock
	limits Limits
	mu     sync.Mutex
	counts map[string]*count    // by the name of a group
	known  map[string]time.Time // the last success of a source
}

type count struct {
	attempts []*Attempt // oldest first
	// reported is when a refusal was last reported, by account; "" is the group as a whole.
	reported map[string]time.Time
}

type Attempt struct {
	throttle *Throttle
	source   Source
	account  string
	at       time.Time
}

// Refusal is the error for one guess too many.
type Refusal struct {
	fault *fault.Error
	// First marks the first refusal within Limits.Within, for those who keep a record.
	First bool
}

func (r *Refusal) Error() string { return r.fault.Error() }

// Unwrap returns what the caller may see.
func (r *Refusal) Unwrap() error { return r.fault }

// New returns a throttle without failures.
func New(c clock.Clock, l Limits) *Throttle {
	return &Throttle{clock: c, limits: l, counts: map[string]*count{}, known: map[string]time.Time{}}
}

// Allow returns an error unless a guess would be allowed now.
func (t *Throttle) Allow(account string, from Source) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.allow(account, from)
}

// Begin allows or refuses a guess. It counts as failed from the start, so that guesses in flight count too, until it is withdrawn
// or has succeeded.
func (t *Throttle) Begin(account string, from Source) (*Attempt, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.allow(account, from); err != nil {
		return nil, err
	}
	a := &Attempt{throttle: t, source: from, account: account, at: t.clock.Now()}
	for _, g := range from.groups {
		c := t.counts[g.name]
		if c == nil {
			t.makeRoom()
			c = &count{reported: map[string]time.Time{}}
			t.counts[g.name] = c
		}
		c.attempts = append(c.attempts, a)
	}
	return a, nil
}

// Known reports whether the source has succeeded before.
func (t *Throttle) Known(from Source) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.known[from.name()]
	return known
}

// Succeeded clears the account's failures from this source.
func (a *Attempt) Succeeded() {
	t := a.throttle
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(a.source, func(x *Attempt) bool { return x.account == a.account && x.source.name() == a.source.name() })
	if _, known := t.known[a.source.name()]; !known && len(t.known) >= maxSources {
		delete(t.known, oldest(t.known, func(at time.Time) time.Time { return at }))
	}
	t.known[a.source.name()] = t.clock.Now()
}

// Withdraw undoes a guess that could not be checked.
func (a *Attempt) Withdraw() {
	a.throttle.mu.Lock()
	defer a.throttle.mu.Unlock()
	a.throttle.remove(a.source, func(x *Attempt) bool { return x == a })
}

func (t *Throttle) remove(from Source, which func(*Attempt) bool) {
	for _, g := range from.groups {
		if c := t.counts[g.name]; c != nil {
			c.attempts = slices.DeleteFunc(c.attempts, which)
			if len(c.attempts) == 0 {
				delete(t.counts, g.name)
			}
		}
	}
}

func (t *Throttle) allow(account string, from Source) error {
	now := t.clock.Now()
	t.remove(from, func(a *Attempt) bool { return now.Sub(a.at) >= t.limits.Within })
	var wait time.Duration
	first := false
	for _, g := range from.groups {
		c := t.counts[g.name]
		if c == nil {
			continue
		}
		pair := slices.DeleteFunc(slices.Clone(c.attempts), func(a *Attempt) bool { return a.account != account })
		forAll, forPair := t.wait(now, c.attempts, t.limits.Source, g.share), t.wait(now, pair, t.limits.Pair, g.share)
		if wait == 0 && forAll+forPair > 0 {
			whom := account
			if forAll > 0 {
				whom = ""
			}
			if at, reported := c.reported[whom]; !reported || now.Sub(at) >= t.limits.Within {
				first, c.reported[whom] = true, now
			}
		}
		wait = max(wait, forAll, forPair)
	}
	if wait == 0 {
		return nil
	}
	f := fault.New(fault.TooMany, "There were too many failed attempts. Try again later.")
	f.RetryAfter = wait
	return &Refusal{f, first}
}

// wait returns how long it takes until fewer attempts count than the limit, multiplied by the group's share, allows.
func (t *Throttle) wait(now time.Time, attempts []*Attempt, limit, share int) time.Duration {
	if len(attempts)/share < limit {
		return 0
	}
	return attempts[len(attempts)-limit*share].at.Add(t.limits.Within).Sub(now)
}

// makeRoom drops the group that failed longest ago if there are too many.
func (t *Throttle) makeRoom() {
	if len(t.counts) >= maxSources {
		delete(t.counts, oldest(t.counts, func(c *count) time.Time { return c.attempts[len(c.attempts)-1].at }))
	}
}

func oldest[V any](m map[string]V, at func(V) time.Time) (key string) {
	var first time.Time
	for k, v := range m {
		if when := at(v); first.IsZero() || when.Before(first) {
			key, first = k, when
		}
	}
	return key
}
