// Package haproxytest is an in-memory HAProxy.
package haproxytest

import (
	"context"
	"slices"
	"sync"

	"edge.internal/gateway/internal/kit/host/daemon/daemontest"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
)

// Proxy runs while its unit is active.
type Proxy struct {
	on       daemontest.Machine
	mu       sync.Mutex
	answer   func(q haproxy.Question) (string, error)
	asked    []haproxy.Question
	reloads  int
	accepted int // reloads that were not refused
	failures []error
}

func New(on daemontest.Machine) *Proxy { return &Proxy{on: on} }

// firstWorker is the pid of the first worker. Each accepted reload uses the next number.
const firstWorker = 7001

func (p *Proxy) runs() error { return daemontest.Runs(p.on, haproxy.Unit, "haproxy") }

// ProxyAsk answers with the function that AnswerProxy has set; without one, answers are empty.
func (p *Proxy) ProxyAsk(ctx context.Context, questions ...haproxy.Question) ([]string, error) {
	if err := p.on.Breaks(); err != nil {
		return nil, err
	}
	var answers []string
	for _, q := range questions {
		if err := p.runs(); err != nil {
			return answers, err
		}
		p.mu.Lock()
		answer := p.answer
		p.asked = append(p.asked, q)
		p.mu.Unlock()
		err := ctx.Err()
		text := ""
		if err == nil && answer != nil {
			text, err = answer(q)
		}
		if err != nil {
			return answers, err
		}
		answers = append(answers, text)
	}
	return answers, nil
}

func (p *Proxy) ProxyReload(ctx context.Context) (haproxy.Process, error) {
	if err := p.runs(); err != nil {
		return haproxy.Process{}, err
	}
	if ctx.Err() != nil {
		return haproxy.Process{}, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reloads++
	if next := p.failures; len(next) > 0 {
		p.failures = next[1:]
		return haproxy.Process{}, next[0]
	}
	p.accepted++
	return p.process(), nil
}

func (p *Proxy) ProxyProcess(context.Context) (haproxy.Process, error) {
	if err := p.on.Breaks(); err != nil {
		return haproxy.Process{}, err
	}
	if err := p.runs(); err != nil {
		return haproxy.Process{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process(), nil
}

func (p *Proxy) process() haproxy.Process {
	return haproxy.Process{PID: firstWorker + p.accepted, Version: "2.6.12", Reloads: p.reloads}
}

// AnswerProxy sets the function that answers from now on; nil removes it.
func (p *Proxy) AnswerProxy(answer func(q haproxy.Question) (string, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *Proxy) ProxyAsked() []haproxy.Question {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// ProxyReloads counts the reloads so far, including refused ones.
func (p *Proxy) ProxyReloads() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reloads
}

// FailProxyReload makes one reload fail, for instance with a *haproxy.ReloadRefused. Several calls fail as many reloads.
func (p *Proxy) FailProxyReload(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, err)
}
