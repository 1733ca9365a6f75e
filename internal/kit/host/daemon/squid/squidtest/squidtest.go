// Package squidtest is an in-memory squid with its judge.
package squidtest

import (
	"context"
	"errors"
	"sync"

	"edge.internal/gateway/internal/kit/host/daemon/daemontest"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
)

// Squid runs while its unit is active.
type Squid struct {
	on      daemontest.Machine
	mu      sync.Mutex
	reports map[squid.Report]string
	judge   func(reload bool) (squid.Judge, error)
	loads   int
}

func New(on daemontest.Machine) *Squid { return &Squid{on: on, reports: map[squid.Report]string{}} }

// SquidReport returns the text that SetSquidReport has set, or nothing.
func (s *Squid) SquidReport(ctx context.Context, r squid.Report) (text string, bytes int64, err error) {
	if err := s.on.Answers(ctx); err != nil {
		return "", 0, err
	}
	if err := daemontest.Runs(s.on, squid.Unit, "squid"); err != nil {
		return "", 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text = s.reports[r]
	return text, int64(len(text)), nil
}

// SquidJudge answers with the function that JudgeSquid has set.
func (s *Squid) SquidJudge(_ context.Context, reload bool) (squid.Judge, error) {
	if err := daemontest.Runs(s.on, squid.Unit, "the judge of the access list"); err != nil {
		return squid.Judge{}, err
	}
	s.mu.Lock()
	judge := s.judge
	if reload {
		s.loads++
	}
	s.mu.Unlock()
	if judge == nil {
		return squid.Judge{}, errors.New("the test has set no answer of the judge")
	}
	return judge(reload)
}

func (s *Squid) SetSquidReport(r squid.Report, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports[r] = text
}

// JudgeSquid sets the function that answers in the judge's place.
func (s *Squid) JudgeSquid(judge func(reload bool) (squid.Judge, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judge = judge
}

// SquidLoads counts how often the judge was told to read its list.
func (s *Squid) SquidLoads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads
}
