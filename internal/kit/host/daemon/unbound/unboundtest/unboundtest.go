// Package unboundtest is an in-memory unbound.
package unboundtest

import (
	"context"
	"sync"

	"edge.internal/gateway/internal/kit/host/daemon/daemontest"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
)

// Resolver runs while its unit is active.
type Resolver struct {
	on     daemontest.Machine
	mu     sync.Mutex
	answer func(q unbound.Question) (string, error)
}

func New(on daemontest.Machine) *Resolver { return &Resolver{on: on} }

// ResolverAsk answers with the function that AnswerResolver has set; without one, answers are empty.
func (r *Resolver) ResolverAsk(ctx context.Context, questions ...unbound.Question) ([]string, error) {
	if err := r.on.Breaks(); err != nil {
		return nil, err
	}
	var answers []string
	for _, q := range questions {
		if err := daemontest.Runs(r.on, unbound.Unit, "unbound"); err != nil {
			return answers, err
		}
		r.mu.Lock()
		answer := r.answer
		r.mu.Unlock()
		if ctx.Err() != nil {
			return answers, context.Cause(ctx)
		}
		text := ""
		if answer != nil {
			var err error
			if text, err = answer(q); err != nil {
				return answers, err
			}
		}
		answers = append(answers, text)
	}
	return answers, nil
}

// AnswerResolver sets the function that answers from now on; nil removes it.
func (r *Resolver) AnswerResolver(answer func(q unbound.Question) (string, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}
