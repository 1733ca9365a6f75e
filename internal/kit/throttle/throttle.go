// Package throttle refuses those who guess too often.
package throttle

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/fault"
)

// Limits say how many failures are too many.
type Limits struct {
	// Pair is for one account from one source; others are not locked out of the account.
	Pair int
	// Source is for one source, whatever the account.
	Source int
	// Within is how long a failure counts.
	Within time.Duration
}

// Guessing are the limits for passwords and tokens.
var Guessing = Limits{Pair: 10, Source: 50, Within: 15 * time.Minute}

// maxSources bounds the memory. When there are more, those that failed longest ago are forgotten.
const maxSources = 4096

// Throttle counts failures.
type Throttle struct {
	clock    clock.Clock
	limits   Limits
	mu       sync.Mutex
	attempts map[netip.Addr][]*Attempt // of each source, oldest first
}

// Attempt is one guess.
type Attempt struct {
	throttle *Throttle
	source   netip.Addr
	account  string
	at       time.Time
}

// New makes a throttle that has seen nothing.
func New(c clock.Clock, l Limits) *Throttle {
	return &Throttle{clock: c, limits: l, attempts: map[netip.Addr][]*Attempt{}}
}

// Source is what one party holds: an IPv4 address, or the /64 in which it may choose any IPv6 address.
func Source(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if p, err := a.Prefix(64); err == nil && a.Is6() {
		return p.Addr()
	}
	return a
}

// Allow says whether a guess would be let through now.
func (t *Throttle) Allow(account string, from netip.Addr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.allow(account, Source(from))
}

// Begin lets a guess through or refuses it. It counts as failed from the start, so that guesses in flight count too,
// until it is withdrawn or has succeeded.
func (t *Throttle) Begin(account string, from netip.Addr) (*Attempt, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := &Attempt{throttle: t, source: Source(from), account: account, at: t.clock.Now()}
	if err := t.allow(account, a.source); err != nil {
		return nil, err
	}
	if _, known := t.attempts[a.source]; !known && len(t.attempts) >= maxSources {
		t.forget()
	}
	t.attempts[a.source] = append(t.attempts[a.source], a)
	return a, nil
}

// Succeeded clears the account's failures from this source.
func (a *Attempt) Succeeded() {
	a.throttle.remove(a.source, func(x *Attempt) bool { return x.account == a.account })
}

// Withdraw takes back a guess that nobody could judge.
func (a *Attempt) Withdraw() {
	a.throttle.remove(a.source, func(x *Attempt) bool { return x == a })
}

func (t *Throttle) remove(source netip.Addr, which func(*Attempt) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep(source, slices.DeleteFunc(t.attempts[source], which))
}

func (t *Throttle) keep(source netip.Addr, attempts []*Attempt) {
	if len(attempts) == 0 {
		delete(t.attempts, source)
		return
	}
	t.attempts[source] = attempts
}

func (t *Throttle) allow(account string, source netip.Addr) error {
	now := t.clock.Now()
	attempts := slices.DeleteFunc(t.attempts[source], func(a *Attempt) bool { return now.Sub(a.at) >= t.limits.Within })
	t.keep(source, attempts)
	var pair []*Attempt
	for _, a := range attempts {
		if a.account == account {
			pair = append(pair, a)
		}
	}
	wait := max(t.wait(now, attempts, t.limits.Source), t.wait(now, pair, t.limits.Pair))
	if wait == 0 {
		return nil
	}
	f := fault.New(fault.TooMany, "too many failed attempts: try again later")
	f.RetryAfter = wait
	return f
}

// wait is how long it takes until fewer than limit attempts count.
func (t *Throttle) wait(now time.Time, attempts []*Attempt, limit int) time.Duration {
	if len(attempts) < limit {
		return 0
	}
	return attempts[len(attempts)-limit].at.Add(t.limits.Within).Sub(now)
}

// forget drops the source that failed longest ago.
func (t *Throttle) forget() {
	var oldest netip.Addr
	var at time.Time
	for source, attempts := range t.attempts {
		if last := attempts[len(attempts)-1].at; at.IsZero() || last.Before(at) {
			oldest, at = source, last
		}
	}
	delete(t.attempts, oldest)
}
