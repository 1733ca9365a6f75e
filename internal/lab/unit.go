package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

// running is a started unit.
type running interface {
	PID() int
	Done() <-chan struct{}
	Err() error
	Stop() error
}

// unit is one thing that the supervisor runs.
type unit struct {
	name   host.Unit
	able   func() error                               // returns why it cannot run here; nil if it can
	launch func(ctx context.Context) (running, error) // starts it and returns when it is ready
	keep   bool                                       // restart it when it dies
	once   bool                                       // it does one job: a successful exit is not a failure
	// changed is called when the state has changed. It must not block.
	changed func()

	turn chan struct{} // held by the current operation

	mu       sync.Mutex
	state    host.UnitState
	run      running // nil while it does not run
	reviving bool
}

func newUnit(name host.Unit, launch func(ctx context.Context) (running, error)) *unit {
	return &unit{
		name:    name,
		able:    func() error { return nil },
		launch:  launch,
		changed: func() {},
		turn:    make(chan struct{}, 1),
		state:   host.UnitState{Unit: name, Installed: true, Active: "inactive", Since: time.Now()},
	}
}

// takeTurn waits until no other operation is in progress.
func (u *unit) takeTurn(ctx context.Context) (done func(), err error) {
	select {
	case u.turn <- struct{}{}:
		return func() { <-u.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (u *unit) now() host.UnitState {
	err := u.able()
	u.mu.Lock()
	defer u.mu.Unlock()
	state := u.state
	switch {
	case u.run != nil || err == nil:
	case errors.Is(err, host.ErrNotInstalled):
		state = host.UnitState{Unit: u.name}
	default:
		state.Detail = err.Error()
	}
	return state
}

func (u *unit) set(run running, active, detail string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.setLocked(run, active, detail)
}

func (u *unit) setLocked(run running, active, detail string) {
	u.run = run
	u.state = host.UnitState{Unit: u.name, Installed: true, Active: active, Since: time.Now(), Detail: detail}
	if run != nil {
		u.state.PID = run.PID()
	}
	u.changed()
}

func (u *unit) current() running {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.run
}

// refusal returns why the unit cannot run here; nil if it can.
func (u *unit) refusal() error {
	err := u.able()
	if err == nil || errors.Is(err, host.ErrNotInstalled) {
		return err
	}
	return fmt.Errorf("%s %w", u.name, err)
}

// start starts it unless it runs. The caller has the turn.
func (u *unit) start(ctx context.Context) error {
	if u.current() != nil {
		return nil
	}
	if err := u.refusal(); err != nil {
		if errors.Is(err, errHeld) {
			u.set(nil, "failed", err.Error())
			u.revive()
		}
		return err
	}
	u.set(nil, "activating", "")
	run, err := u.launch(ctx)
	if err != nil {
		u.set(nil, "failed", err.Error())
		u.revive()
		return err
	}
	u.set(run, "active", "")
	go u.watch(run)
	return nil
}

// stop stops it if it runs. The caller has the turn.
func (u *unit) stop() error {
	run := u.current()
	u.set(nil, "inactive", "") // so that watch knows that it was stopped on purpose
	if run == nil {
		return nil
	}
	return run.Stop()
}

// watch detects when a process ends that was not stopped.
func (u *unit) watch(run running) {
	<-run.Done()
	why := "exited without an error"
	err := run.Err()
	if err != nil {
		why = err.Error()
	}
	u.mu.Lock()
	died := u.run == run
	if died && u.once && errors.Is(err, errEnded) {
		u.setLocked(nil, "inactive", "")
		died = false
	}
	if died {
		u.setLocked(nil, "failed", why)
	}
	u.mu.Unlock()
	if died {
		slog.Warn("a unit died", "unit", u.name, "err", why)
		u.revive()
	}
}

// revive restarts a failed unit that must run, with increasing delays, until it runs or another operation changes its state.
func (u *unit) revive() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.keep || u.reviving {
		return
	}
	u.reviving = true
	go func() {
		for wait := 100 * time.Millisecond; u.failed(); wait = min(2*wait, 5*time.Second) {
			time.Sleep(wait)
			u.turn <- struct{}{}
			if u.failed() {
				if err := u.start(context.Background()); err != nil {
					slog.Warn("restarting a unit failed", "unit", u.name, "err", err)
				}
			}
			<-u.turn
		}
	}()
}

// failed reports whether the unit must still be revived, and if not, ends the revival.
func (u *unit) failed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reviving = u.state.Active == "failed"
	return u.reviving
}
