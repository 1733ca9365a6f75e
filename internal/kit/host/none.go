package host

import (
	"context"
	"fmt"
)

// NoUnits stands where no daemon can run, for instance in a container without privileges.
type NoUnits struct{ Reason string }

func (n NoUnits) State(_ context.Context, u Unit) (UnitState, error) {
	spec, err := u.Spec()
	if err != nil {
		return UnitState{}, err
	}
	if !spec.Installed() {
		return UnitState{Unit: u}, nil
	}
	return UnitState{Unit: u, Installed: true, Active: "inactive", Detail: n.refusal()}, nil
}

func (n NoUnits) Start(_ context.Context, u Unit) error          { return n.refuse(u) }
func (n NoUnits) Stop(_ context.Context, u Unit) error           { return n.refuse(u) }
func (n NoUnits) Restart(_ context.Context, u Unit) error        { return n.refuse(u) }
func (n NoUnits) Reload(_ context.Context, u Unit) error         { return n.refuse(u) }
func (n NoUnits) Enable(_ context.Context, u Unit, _ bool) error { return n.refuse(u) }

func (n NoUnits) Watch(ctx context.Context, _ func(Unit)) error {
	<-ctx.Done()
	return nil
}

func (n NoUnits) refusal() string { return "cannot run here: " + n.Reason }

func (n NoUnits) refuse(u Unit) error {
	spec, err := u.Spec()
	if err != nil {
		return err
	}
	if !spec.Installed() {
		return spec.notInstalled()
	}
	return fmt.Errorf("%s %s", u, n.refusal())
}
