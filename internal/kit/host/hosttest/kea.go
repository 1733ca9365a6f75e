package hosttest

import (
	"context"
	"encoding/json"
	"fmt"

	"edge.internal/gateway/internal/kit/host"
)

// leaseServer is the Kea in memory. It runs while its unit is active, and has what was installed when it was started or told to
// reload last.
type leaseServer struct {
	answer  func(c host.LeaseCommand, arguments json.RawMessage) (any, error)
	mark    string
	reloads int
	refusal error
}

// LeaseServerAsk knows the mark and the reload by itself; the script of AnswerLeaseServer answers the rest.
func (m *Machine) LeaseServerAsk(ctx context.Context, c host.LeaseCommand, arguments json.RawMessage) (json.RawMessage, error) {
	if err := m.answers(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	said, err := m.leaseServerSays(c)
	answer := m.leases.answer
	m.mu.Unlock()
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && said == nil && answer != nil {
		said, err = answer(c, arguments)
	}
	if err != nil || said == nil {
		return nil, err
	}
	return json.Marshal(said)
}

func (m *Machine) leaseServerSays(c host.LeaseCommand) (any, error) {
	if m.units[host.Kea].Active != "active" {
		return nil, fmt.Errorf("kea: %w", host.ErrNotRunning)
	}
	switch c {
	case host.LeaseServerReload:
		m.leases.reloads++
		if m.leases.refusal != nil {
			return nil, m.leases.refusal
		}
		m.leases.mark = m.installedMark()
	case host.LeaseServerMark:
		return map[string]string{"server-tag": m.leases.mark}, nil
	}
	return nil, nil
}

func (m *Machine) installedMark() string {
	var file struct {
		Dhcp4 struct {
			ServerTag string `json:"server-tag"`
		}
	}
	if err := json.Unmarshal(m.files[host.KeaConfig], &file); err != nil {
		return ""
	}
	return file.Dhcp4.ServerTag
}

// AnswerLeaseServer sets what answers the questions to Kea from now on, but for its mark; nil takes it away.
func (m *Machine) AnswerLeaseServer(answer func(c host.LeaseCommand, arguments json.RawMessage) (any, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases.answer = answer
}

// LeaseServerReloads counts the reloads of a running Kea, also those that were refused.
func (m *Machine) LeaseServerReloads() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leases.reloads
}

// RefuseLeaseServerReload makes Kea refuse reloads; nil makes it well again.
func (m *Machine) RefuseLeaseServerReload(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases.refusal = err
}
