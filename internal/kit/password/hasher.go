package password

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/kit/db"
)

// Cost is the cost of the hashes in production. One takes about a third of a second.
const Cost = 12

// Hasher hashes and compares passwords with limited concurrency: one core stays free for everything else.
type Hasher struct {
	cost  int
	dummy []byte
	queue *queue
	done  atomic.Int64
}

// New returns a hasher. The cost is Cost except in tests. A process must have only one hasher, because the limit is per hasher.
func New(cost int) *Hasher {
	return &Hasher{
		cost: cost,
		// Well-formed, and the hash of no known password.
		dummy: fmt.Appendf(nil, "$2a$%02d$8Hn0rjLrWs0cqJcGkG3vXuR5pQ2mT7bZ1xY4wV9dF6sA3eKiOaNbC", cost),
		queue: newQueue(max(1, runtime.GOMAXPROCS(0)-1)),
	}
}

// Done returns how many hashes were computed.
func (h *Hasher) Done() int64 { return h.done.Load() }

// Turn waits for a core to hash on. Waiting callers are served round-robin by where they come from, so that a flood from one
// place does not delay others. A request waits only as long as its patience allows.
func (h *Hasher) Turn(ctx context.Context, from Place) (*Turn, error) {
	waiting, over := db.Patience(ctx)
	defer over()
	if err := h.queue.enter(waiting, from); err != nil {
		if waiting.Err() != nil && ctx.Err() == nil {
			err = tooMany()
		}
		return nil, err
	}
	return &Turn{h}, nil
}

// Turn is the right to hash until End.
type Turn struct{ hasher *Hasher }

// End lets the next caller hash.
func (t *Turn) End() { t.hasher.queue.leave() }

func (t *Turn) Hash(c Chosen) (Hash, error) {
	if !c.Set() {
		return "", errors.New("hashing no password")
	}
	t.hasher.done.Add(1)
	b, err := bcrypt.GenerateFromPassword([]byte(c.plain), t.hasher.cost)
	if err != nil {
		return "", fmt.Errorf("hashing a password: %w", err)
	}
	return Hash(b), nil
}

// Matches compares a password with a hash. It takes just as long without a hash, so that the time does not reveal whether an
// account exists.
func (t *Turn) Matches(h Hash, typed Typed) bool {
	plain, possible := []byte(typed.plain), true
	if len(plain) > MaxBytes {
		// bcrypt would compare only the beginning.
		plain, possible = plain[:MaxBytes], false
	}
	hash := []byte(h)
	if _, err := bcrypt.Cost(hash); err != nil {
		hash, possible = t.hasher.dummy, false
	}
	t.hasher.done.Add(1)
	return bcrypt.CompareHashAndPassword(hash, plain) == nil && possible
}
