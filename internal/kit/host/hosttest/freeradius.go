package hosttest

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"edge.internal/gateway/internal/kit/host"
)

// radius is the FreeRADIUS in memory. It runs while its unit is active.
type radius struct {
	users  []byte // the list as it was when it was started
	answer func(l host.RadiusLogin) (host.RadiusAnswer, error)
	logins []host.RadiusLogin
}

// RadiusLogin answers with the script of AnswerRadius, and without one accepts whoever was in the list of users when the unit was
// started, with any password.
func (m *Machine) RadiusLogin(_ context.Context, l host.RadiusLogin) (host.RadiusAnswer, error) {
	m.mu.Lock()
	runs, answer := m.units[host.FreeRADIUS].Active == "active", m.radius.answer
	known := bytes.Contains(m.radius.users, []byte("\n"+l.User+" Cleartext-Password := "))
	if runs {
		m.radius.logins = append(m.radius.logins, l)
	}
	m.mu.Unlock()
	switch {
	case !runs:
		return host.RadiusAnswer{}, fmt.Errorf("freeradius: %w", host.ErrNotRunning)
	case answer != nil:
		return answer(l)
	}
	return host.RadiusAnswer{Accepted: known, Attributes: []string{}}, nil
}

// AnswerRadius sets what answers those who log in from now on; nil takes it away.
func (m *Machine) AnswerRadius(answer func(l host.RadiusLogin) (host.RadiusAnswer, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.radius.answer = answer
}

// RadiusLogins returns the attempts to log in at a running FreeRADIUS so far, in their order.
func (m *Machine) RadiusLogins() []host.RadiusLogin {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.radius.logins)
}
