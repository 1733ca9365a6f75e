// Package freeradiustest is a FreeRADIUS in memory.
package freeradiustest

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/daemontest"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
)

// Radius runs while its unit is active.
type Radius struct {
	on     daemontest.Machine
	mu     sync.Mutex
	users  []byte // the list as it was when it was started
	answer func(l freeradius.Login) (freeradius.Answer, error)
	logins []freeradius.Login
}

// New returns the FreeRADIUS of a machine.
func New(on daemontest.Machine) *Radius {
	r := &Radius{on: on}
	on.Hear(freeradius.Unit, func(verb string, read func(daemon.Place) []byte) {
		if verb != "reload" {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.users = read(freeradius.Users)
		}
	})
	return r
}

// RadiusLogin answers with the script of AnswerRadius, and without one accepts whoever was in the list of users when the unit was
// started, with any password.
func (r *Radius) RadiusLogin(_ context.Context, l freeradius.Login) (freeradius.Answer, error) {
	if err := daemontest.Runs(r.on, freeradius.Unit, "freeradius"); err != nil {
		return freeradius.Answer{}, err
	}
	r.mu.Lock()
	answer := r.answer
	known := bytes.Contains(r.users, []byte("\n"+l.User+" Cleartext-Password := "))
	r.logins = append(r.logins, l)
	r.mu.Unlock()
	if answer != nil {
		return answer(l)
	}
	return freeradius.Answer{Accepted: known, Attributes: []string{}}, nil
}

// AnswerRadius sets what answers those who log in from now on; nil takes it away.
func (r *Radius) AnswerRadius(answer func(l freeradius.Login) (freeradius.Answer, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// RadiusLogins returns the attempts to log in at a running FreeRADIUS so far, in their order.
func (r *Radius) RadiusLogins() []freeradius.Login {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.logins)
}
