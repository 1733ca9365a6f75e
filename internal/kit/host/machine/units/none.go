// Package units starts, stops and watches daemons and reads their logs: with systemd, with the supervisor of a lab, or not at all.
package units

import (
	"context"
	"fmt"

	"edge.internal/gateway/internal/kit/host"
)

// None is for machines where no daemon can run, such as unprivileged containers.
type None struct{ Reason string }

func (n None) State(_ context.Context, u host.Unit) (host.UnitState, error) {
	spec, err := u.Spec()
	if err != nil {
		return host.UnitState{}, err
	}
	if !spec.Installed() {
		return host.UnitState{Unit: u}, nil
	}
	return host.UnitState{Unit: u, Installed: true, Active: "inactive", Detail: n.refusal()}, nil
}

func (n None) Start(_ context.Context, u host.Unit) error          { return n.refuse(u) }
func (n None) Stop(_ context.Context, u host.Unit) error           { return n.refuse(u) }
func (n None) Restart(_ context.Context, u host.Unit) error        { return n.refuse(u) }
func (n None) Reload(_ context.Context, u host.Unit) error         { return n.refuse(u) }
func (n None) Enable(_ context.Context, u host.Unit, _ bool) error { return n.refuse(u) }

func (n None) Watch(ctx context.Context, _ func(host.Unit)) error {
	<-ctx.Done()
	return nil
}

func (n None) SearchJournal(context.Context, host.JournalQuery, func([]host.JournalEntry, host.JournalPlace)) error {
	return fmt.Errorf("the journal %s", n.refusal())
}

func (n None) FollowJournal(context.Context, host.JournalQuery, func([]host.JournalEntry)) error {
	return fmt.Errorf("the journal %s", n.refusal())
}

func (n None) refusal() string { return "cannot run here: " + n.Reason }

func (n None) refuse(u host.Unit) error {
	spec, err := u.Spec()
	if err != nil {
		return err
	}
	if !spec.Installed() {
		return spec.NotInstalled()
	}
	return fmt.Errorf("%s %s", u, n.refusal())
}
