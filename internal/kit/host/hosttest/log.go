package hosttest

import (
	"bytes"

	"edge.internal/gateway/internal/kit/host"
)

func (m *Machine) ReadLog(l host.Log, most int64) ([]byte, error) {
	if err := m.breaks(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.logs[l]
	if int64(len(b)) > most {
		_, b, _ = bytes.Cut(b[int64(len(b))-most:], []byte("\n"))
	}
	return bytes.Clone(b), nil
}

// ReadLogBefore reads the text of SetLog as a single file.
func (m *Machine) ReadLogBefore(l host.Log, at host.LogPlace, most int64) (host.LogPiece, error) {
	if err := m.breaks(); err != nil {
		return host.LogPiece{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	const number = 1
	b := m.logs[l]
	if at.File == number {
		b = b[:min(at.Offset, int64(len(b)))]
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	to, from := int64(len(b)), int64(0)
	if to > most {
		from = to - most + int64(bytes.IndexByte(b[to-most:], '\n')) + 1
	}
	return host.LogPiece{
		Lines: bytes.Clone(b[from:]), From: host.LogPlace{File: number, Offset: from}, To: host.LogPlace{File: number, Offset: to}, More: from > 0,
	}, nil
}

func (m *Machine) TrimLog(l host.Log) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trims[l]++
	return nil
}

func (m *Machine) SetLog(l host.Log, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logs[l] = []byte(text)
}

func (m *Machine) Trims(l host.Log) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trims[l]
}
