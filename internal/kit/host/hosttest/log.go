package hosttest

import (
	"bytes"

	"edge.internal/gateway/internal/kit/host"
)

// ReadLog returns the last whole lines of what SetLog has set.
func (m *Machine) ReadLog(l host.Log, most int64) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.logs[l]
	if int64(len(b)) > most {
		_, b, _ = bytes.Cut(b[int64(len(b))-most:], []byte("\n"))
	}
	return bytes.Clone(b), nil
}

// TrimLog leaves a log as it is and counts.
func (m *Machine) TrimLog(l host.Log) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trims[l]++
	return nil
}

// SetLog sets what a log has.
func (m *Machine) SetLog(l host.Log, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logs[l] = []byte(text)
}

// Trims counts how often a log was to be cut.
func (m *Machine) Trims(l host.Log) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trims[l]
}
