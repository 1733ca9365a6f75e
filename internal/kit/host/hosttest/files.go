package hosttest

import (
	"bytes"
	"fmt"
	"io/fs"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/parts"
)

func (m *Machine) Read(p host.Place) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.files[p]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: p.Path(), Err: fs.ErrNotExist}
	}
	return bytes.Clone(content), nil
}

func (m *Machine) Differing(want []host.Digest) ([]host.Place, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var differing []host.Place
	for _, d := range want {
		m.looks[d.Place]++
		if content, ok := m.files[d.Place]; !ok || !d.Of(content) {
			differing = append(differing, d.Place)
		}
	}
	return differing, nil
}

func (m *Machine) Install(p host.Place, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.install(p, content)
}

func (m *Machine) Amend(p host.Place, c parts.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	spec, err := p.Spec()
	if err != nil || spec.Split == nil {
		return parts.ErrOther
	}
	text, err := spec.Split(string(m.files[p]))
	if err != nil {
		return parts.ErrOther
	}
	if text, err = text.Changed(c); err != nil {
		return err
	}
	m.amends[p]++
	return m.install(p, text.Bytes())
}

// Amends counts the successful calls of Amend.
func (m *Machine) Amends(p host.Place) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.amends[p]
}

// install requires m.mu.
func (m *Machine) install(p host.Place, content []byte) error {
	if p.Path() == "" {
		return fmt.Errorf("unknown place %q", string(p))
	}
	if next := m.failures[p]; len(next) > 0 {
		m.failures[p] = next[1:]
		return fmt.Errorf("installing %s: %w", p.Path(), next[0])
	}
	m.files[p] = append([]byte{}, content...)
	m.installs[p]++
	return nil
}

func (m *Machine) Remove(p host.Place) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.files, p)
	return nil
}

func (m *Machine) Sweep() error { return nil }

func (m *Machine) Path(p host.Place) string { return p.Path() }

// SetFile changes a file without the gateway; it does not count as an install.
func (m *Machine) SetFile(p host.Place, content string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[p] = []byte(content)
}

// Installs counts the successful installs of a place.
func (m *Machine) Installs(p host.Place) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.installs[p]
}

// Looks counts how often a place was compared with what it should have.
func (m *Machine) Looks(p host.Place) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.looks[p]
}

// FailInstall makes one install of a place fail, for instance with syscall.ENOSPC. Several calls fail as many installs.
func (m *Machine) FailInstall(p host.Place, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures[p] = append(m.failures[p], err)
}
