package hosttest

import (
	"context"
	"fmt"
	"slices"

	"edge.internal/gateway/internal/kit/host"
)

// proxy is the HAProxy in memory. It runs while its unit is active.
type proxy struct {
	answer   func(q host.ProxyQuestion) (string, error)
	asked    []host.ProxyQuestion
	reloads  int
	taken    int // reloads that were not refused
	failures []error
}

// proxyWorker is the number of the first worker; each reload that is taken gives the next.
const proxyWorker = 7001

// ProxyAsk answers with the script of AnswerProxy, and without one with empty answers.
func (m *Machine) ProxyAsk(ctx context.Context, questions ...host.ProxyQuestion) ([]string, error) {
	if err := m.breaks(); err != nil {
		return nil, err
	}
	var answers []string
	for _, q := range questions {
		m.mu.Lock()
		err, answer := m.proxyRuns(), m.proxy.answer
		if err == nil {
			m.proxy.asked = append(m.proxy.asked, q)
		}
		m.mu.Unlock()
		if err == nil {
			err = ctx.Err()
		}
		said := ""
		if err == nil && answer != nil {
			said, err = answer(q)
		}
		if err != nil {
			return answers, err
		}
		answers = append(answers, said)
	}
	return answers, nil
}

func (m *Machine) ProxyReload(ctx context.Context) (host.ProxyProcess, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.proxyRuns(); err != nil {
		return host.ProxyProcess{}, err
	}
	if ctx.Err() != nil {
		return host.ProxyProcess{}, context.Cause(ctx)
	}
	m.proxy.reloads++
	if next := m.proxy.failures; len(next) > 0 {
		m.proxy.failures = next[1:]
		return host.ProxyProcess{}, next[0]
	}
	m.proxy.taken++
	return m.proxyProcess(), nil
}

func (m *Machine) ProxyProcess(context.Context) (host.ProxyProcess, error) {
	if err := m.breaks(); err != nil {
		return host.ProxyProcess{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.proxyRuns(); err != nil {
		return host.ProxyProcess{}, err
	}
	return m.proxyProcess(), nil
}

func (m *Machine) proxyProcess() host.ProxyProcess {
	return host.ProxyProcess{PID: proxyWorker + m.proxy.taken, Version: "2.6.12", Reloads: m.proxy.reloads}
}

func (m *Machine) proxyRuns() error {
	if m.units[host.HAProxy].Active != "active" {
		return fmt.Errorf("haproxy: %w", host.ErrNotRunning)
	}
	return nil
}

// AnswerProxy sets what answers the questions to HAProxy from now on; nil takes it away.
func (m *Machine) AnswerProxy(answer func(q host.ProxyQuestion) (string, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proxy.answer = answer
}

// ProxyAsked returns the questions to a running HAProxy so far, in their order.
func (m *Machine) ProxyAsked() []host.ProxyQuestion {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.proxy.asked)
}

// ProxyReloads counts the reloads of a running HAProxy, also those that were refused.
func (m *Machine) ProxyReloads() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proxy.reloads
}

// FailProxyReload makes the next reload fail, for instance with a *host.ReloadRefused. Calls add up: one failure each.
func (m *Machine) FailProxyReload(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proxy.failures = append(m.proxy.failures, err)
}
