// Package keatest is an in-memory Kea.
package keatest

import (
	"context"
	"encoding/json"
	"sync"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/daemontest"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
)

// Leases runs while its unit is active. It has the configuration as of its last start or reload.
type Leases struct {
	on      daemontest.Machine
	mu      sync.Mutex
	answer  func(c kea.Command, arguments json.RawMessage) (any, error)
	mark    string
	reloads int
	refusal error
}

func New(on daemontest.Machine) *Leases {
	l := &Leases{on: on}
	on.OnStart(kea.Unit, func(_ string, read func(daemon.Place) []byte) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.mark = markOf(read(kea.Config))
	})
	return l
}

// LeaseServerAsk answers reloads and the mark itself; the function that AnswerLeaseServer has set answers the rest.
func (l *Leases) LeaseServerAsk(ctx context.Context, c kea.Command, arguments json.RawMessage) (json.RawMessage, error) {
	if err := l.on.Answers(ctx); err != nil {
		return nil, err
	}
	answered, err := l.own(c)
	l.mu.Lock()
	answer := l.answer
	l.mu.Unlock()
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && answered == nil && answer != nil {
		answered, err = answer(c, arguments)
	}
	if err != nil || answered == nil {
		return nil, err
	}
	return json.Marshal(answered)
}

func (l *Leases) own(c kea.Command) (any, error) {
	if err := daemontest.Runs(l.on, kea.Unit, "kea"); err != nil {
		return nil, err
	}
	installed, _ := l.on.Read(kea.Config)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch c {
	case kea.Reload:
		l.reloads++
		if l.refusal != nil {
			return nil, l.refusal
		}
		l.mark = markOf(installed)
	case kea.Mark:
		return map[string]string{"server-tag": l.mark}, nil
	}
	return nil, nil
}

func markOf(content []byte) string {
	var file struct {
		Dhcp4 struct {
			ServerTag string `json:"server-tag"`
		}
	}
	if err := json.Unmarshal(content, &file); err != nil {
		return ""
	}
	return file.Dhcp4.ServerTag
}

// AnswerLeaseServer sets the function that answers all commands but those about the mark from now on; nil removes it.
func (l *Leases) AnswerLeaseServer(answer func(c kea.Command, arguments json.RawMessage) (any, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = answer
}

// LeaseServerReloads counts the reloads so far, including refused ones.
func (l *Leases) LeaseServerReloads() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reloads
}

// RefuseLeaseServerReload makes reloads fail; nil ends that.
func (l *Leases) RefuseLeaseServerReload(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusal = err
}
