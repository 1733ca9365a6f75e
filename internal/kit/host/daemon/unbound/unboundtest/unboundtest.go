// Package unboundtest is an unbound in memory.
package unboundtest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"edge.internal/gateway/internal/kit/host/daemon/daemontest"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
)

// Resolver runs while its unit is active.
type Resolver struct {
	on     daemontest.Machine
	mu     sync.Mutex
	answer func(q unbound.Question) (string, error)
	asked  []string
}

// New returns the unbound of a machine.
func New(on daemontest.Machine) *Resolver { return &Resolver{on: on} }

// ResolverAsk answers with the script of AnswerResolver, and without one with empty answers.
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
		r.asked = append(r.asked, strings.Join(q, " "))
		r.mu.Unlock()
		if ctx.Err() != nil {
			return answers, context.Cause(ctx)
		}
		said := ""
		if answer != nil {
			var err error
			if said, err = answer(q); err != nil {
				return answers, err
			}
		}
		answers = append(answers, said)
	}
	return answers, nil
}

// AnswerResolver sets what answers the questions to unbound from now on; nil takes it away.
func (r *Resolver) AnswerResolver(answer func(q unbound.Question) (string, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// ResolverAsked returns the questions to a running unbound so far, in their order.
func (r *Resolver) ResolverAsked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asked)
}
