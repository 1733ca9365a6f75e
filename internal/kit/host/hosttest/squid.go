package hosttest

import (
	"context"
	"errors"
	"fmt"

	"edge.internal/gateway/internal/kit/host"
)

// squid is the forward proxy in memory. It runs while its unit is active.
type squid struct {
	reports map[host.SquidReport]string
	judge   func(reload bool) (host.SquidJudge, error)
	loads   int
}

// SquidReport answers with what SaySquid has set, and without that with nothing.
func (m *Machine) SquidReport(ctx context.Context, r host.SquidReport) (text string, bytes int64, err error) {
	if err := m.answers(ctx); err != nil {
		return "", 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.units[host.Squid].Active != "active" {
		return "", 0, fmt.Errorf("squid: %w", host.ErrNotRunning)
	}
	text = m.squid.reports[r]
	return text, int64(len(text)), nil
}

// SquidJudge answers with the script of JudgeSquid.
func (m *Machine) SquidJudge(_ context.Context, reload bool) (host.SquidJudge, error) {
	m.mu.Lock()
	judge, active := m.squid.judge, m.units[host.Squid].Active == "active"
	if reload && active {
		m.squid.loads++
	}
	m.mu.Unlock()
	switch {
	case !active:
		return host.SquidJudge{}, fmt.Errorf("the judge of the access list: %w", host.ErrNotRunning)
	case judge == nil:
		return host.SquidJudge{}, errors.New("no test has set what the judge answers")
	}
	return judge(reload)
}

// SaySquid sets a report of the cache manager.
func (m *Machine) SaySquid(r host.SquidReport, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.squid.reports == nil {
		m.squid.reports = map[host.SquidReport]string{}
	}
	m.squid.reports[r] = text
}

// JudgeSquid sets what the judge of a running squid answers from now on.
func (m *Machine) JudgeSquid(judge func(reload bool) (host.SquidJudge, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.squid.judge = judge
}

// SquidLoads counts how often the judge of a running squid was told to read its list.
func (m *Machine) SquidLoads() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.squid.loads
}
