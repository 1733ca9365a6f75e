package logs

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// turns limits concurrent operations, in total and per user, so that no user can lock out the others.
type turns struct {
	all  chan struct{}
	each int
	mu   sync.Mutex
	own  map[uuid.UUID]*own
}

// own has the places of one user.
type own struct {
	taken chan struct{}
	users int // who have a place or wait for one
}

func newTurns(all, each int) *turns {
	return &turns{all: make(chan struct{}, all), each: each, own: map[uuid.UUID]*own{}}
}

// take takes a place for a user, and waits for it until the context ends.
func (p *turns) take(ctx context.Context, user uuid.UUID) (leave func(), ok bool) {
	return p.enter(user, func(free chan struct{}) bool {
		select {
		case free <- struct{}{}:
			return true
		case <-ctx.Done():
			return false
		}
	})
}

// try takes a place for a user, unless there is none.
func (p *turns) try(user uuid.UUID) (leave func(), ok bool) {
	return p.enter(user, func(free chan struct{}) bool {
		select {
		case free <- struct{}{}:
			return true
		default:
			return false
		}
	})
}

// enter takes one of the user's own places first, because waiting for one of those does not delay other users.
func (p *turns) enter(user uuid.UUID, take func(chan struct{}) bool) (leave func(), ok bool) {
	p.mu.Lock()
	mine := p.own[user]
	if mine == nil {
		mine = &own{taken: make(chan struct{}, p.each)}
		p.own[user] = mine
	}
	mine.users++
	p.mu.Unlock()
	forget := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(p.own, user)
		}
	}
	if !take(mine.taken) {
		forget()
		return nil, false
	}
	if !take(p.all) {
		<-mine.taken
		forget()
		return nil, false
	}
	return func() { <-p.all; <-mine.taken; forget() }, true
}
