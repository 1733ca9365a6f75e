package hosttest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host"
)

// resolver is the unbound in memory. It runs while its unit is active.
type resolver struct {
	answer func(q host.ResolverQuestion) (string, error)
	asked  []string
}

// ResolverAsk answers with the script of AnswerResolver, and without one with empty answers.
func (m *Machine) ResolverAsk(ctx context.Context, questions ...host.ResolverQuestion) ([]string, error) {
	if err := m.breaks(); err != nil {
		return nil, err
	}
	var answers []string
	for _, q := range questions {
		m.mu.Lock()
		running, answer := m.units[host.Unbound].Active == "active", m.resolver.answer
		if running {
			m.resolver.asked = append(m.resolver.asked, strings.Join(q, " "))
		}
		m.mu.Unlock()
		if !running {
			return answers, fmt.Errorf("unbound: %w", host.ErrNotRunning)
		}
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
func (m *Machine) AnswerResolver(answer func(q host.ResolverQuestion) (string, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resolver.answer = answer
}

// ResolverAsked returns the questions to a running unbound so far, in their order.
func (m *Machine) ResolverAsked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.resolver.asked)
}
