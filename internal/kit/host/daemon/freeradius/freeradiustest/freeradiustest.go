// Package freeradiustest is an in-memory FreeRADIUS.
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
	users  []byte // as of the last start
	answer func(l freeradius.Login) (freeradius.Answer, error)
	logins []freeradius.Login
}

func New(on daemontest.Machine) *Radius {
	r := &Radius{on: on}
	on.OnStart(freeradius.Unit, func(verb string, read func(daemon.Place) []byte) {
		if verb != "reload" {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.users = read(freeradius.Users)
		}
	})
	return r
}

// RadiusLogin answers with the function that AnswerRadius has set. Without one it accepts every user of the list that was installed
// at the last start, with any password.
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

// AnswerRadius sets the function that answers from now on; nil removes it.
func (r *Radius) AnswerRadius(answer func(l freeradius.Login) (freeradius.Answer, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *Radius) RadiusLogins() []freeradius.Login {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.logins)
}
