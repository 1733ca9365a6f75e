package hosttest

import (
	"context"
	"io/fs"
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/host"
)

type ProbeScript func(ctx context.Context, p host.Probe, sink func(output []byte)) (host.ProbeEnd, error)

// Probe answers with the script; without one it prints nothing and succeeds. As on a real machine, invalid requests are refused.
func (m *Machine) Probe(ctx context.Context, p host.Probe, sink func(output []byte)) (host.ProbeEnd, error) {
	if _, err := p.Spec(); err != nil {
		return host.ProbeEnd{}, err
	}
	m.mu.Lock()
	script := m.probe
	m.mu.Unlock()
	if script == nil {
		return host.ProbeEnd{}, ctx.Err()
	}
	return script(ctx, p, sink)
}

func (m *Machine) ScriptProbes(s ProbeScript) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.probe = s
}

func (m *Machine) SetConnections(list ...host.Connection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connections = slices.SortedFunc(slices.Values(list), func(a, b host.Connection) int { return a.Compare(b.ConnectionKey) })
}

func (m *Machine) Connections(ctx context.Context, q host.ConnectionQuery) (page host.ConnectionPage, err error) {
	if err := m.answers(ctx); err != nil {
		return page, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	page.Total = len(m.connections)
	for i := range m.connections {
		c := &m.connections[i]
		if !q.Matches(c) {
			continue
		}
		page.Matching++
		switch {
		case q.After != nil && c.Compare(*q.After) <= 0:
		case len(page.List) == q.Limit:
			page.More = true
		default:
			page.List = append(page.List, *c)
		}
	}
	return page, ctx.Err()
}

func (m *Machine) CountTraffic(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counting = on
}

func (m *Machine) Traffic(ctx context.Context, of []netip.Addr) (host.Traffic, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := host.NewTrafficOf(of)
	for i := range m.connections {
		counts.Add(&m.connections[i])
	}
	return host.Traffic{Counted: m.counting, List: counts.List()}, ctx.Err()
}

func (m *Machine) EndConnection(ctx context.Context, k host.ConnectionKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.connections)
	m.connections = slices.DeleteFunc(m.connections, func(c host.Connection) bool { return c.ConnectionKey == k })
	if len(m.connections) == n {
		return fs.ErrNotExist
	}
	return ctx.Err()
}
