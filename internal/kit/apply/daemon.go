package apply

import (
	"context"
	"fmt"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

const (
	// watchAgain is the delay before a lost watch of the daemons is restarted.
	watchAgain = time.Second
	// lookWithin bounds a query of the daemon's state.
	lookWithin = 5 * time.Second
	// startedAgain is the interval at which a starting daemon is polled.
	startedAgain = 50 * time.Millisecond
)

// daemon is what a lane knows about its daemon. It is guarded by the lane's mu.
type daemon struct {
	// wanted says that it should run.
	wanted bool
	// seen is its state at the end of the last pass; known says that there was one.
	seen  host.UnitState
	known bool
	// working counts the operations that may restart it. State changes during those are expected; missed says that there was one.
	working int
	missed  bool
}

func (d *daemon) does() Daemon {
	switch up := alive(d.seen); {
	case !d.known || !d.seen.Installed:
		return ""
	case up:
		return Running
	case d.wanted:
		return Down
	}
	return Off
}

func alive(s host.UnitState) bool { return s.Active == "active" || s.Active == "reloading" }

// down reports whether the daemon is not running. It waits for a daemon that is starting, which may have much to read, but not
// for systemd to restart one.
func (l *lane) down(ctx context.Context) bool {
	for l.unit != "" {
		state, err := l.state(ctx)
		if err != nil {
			return false
		}
		if state.Active != "activating" || state.PID == 0 {
			return !alive(state)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(startedAgain):
		}
	}
	return false
}

// watch makes lanes check their daemons as soon as these end or are started manually.
func (e *Engine) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := e.host.Watch(ctx, func(u host.Unit) {
			for _, l := range e.lanes {
				if l.unit == u {
					l.unitChanged(ctx)
				}
			}
		})
		if err == nil {
			continue
		}
		e.log.Warn("the daemons cannot be watched and are polled instead", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(watchAgain):
		}
	}
}

// unitChanged checks the daemon. If it is not as the last pass left it, another pass is due, and a daemon that has ended is not
// called live until then.
func (l *lane) unitChanged(ctx context.Context) {
	state, err := l.state(ctx)
	if err != nil {
		return // the timer checks again
	}
	l.mu.Lock()
	if l.working > 0 {
		l.missed = true
	}
	if l.working > 0 || !l.known || state.Active == "deactivating" || state.Active == l.seen.Active && state.PID == l.seen.PID {
		l.mu.Unlock()
		return
	}
	l.seen = state
	before := l.status
	if l.status.Daemon = l.does(); l.status.Daemon == Down && l.status.State == Live {
		l.status.State = Pending
		l.status.LastError, l.status.Detail = fmt.Sprintf("%s has stopped and is being started again.", displayName(l.unit)), state.Detail
		l.running, l.at = nil, 0
	}
	if before != l.status {
		l.engine.changed(before, l.status)
	}
	l.mu.Unlock()
	l.kick(0, false)
}

// state queries the daemon's state, even at the end of a pass that has run out of time.
func (l *lane) state(ctx context.Context) (host.UnitState, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin)
	defer cancel()
	return l.engine.host.State(ctx, l.unit)
}

// beginWork announces that the daemon may be restarted. endWork must follow.
func (l *lane) beginWork() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.working++
}

// endWork records the daemon's state after some work, and reports whether it ended in the meantime although it should run. The
// configuration, if known, says whether it should.
func (l *lane) endWork(ctx context.Context, config any) (died bool) {
	var state host.UnitState
	var err error
	if l.unit != "" {
		state, err = l.state(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.working--
	if config != nil {
		l.wanted = l.on(config)
	}
	died = l.missed && l.wanted && err == nil && !alive(state) && l.unit != ""
	l.missed = false
	if err == nil && l.unit != "" {
		l.seen, l.known = state, true
	}
	return died
}

// Restart brings the component of a unit to what is stored, including its files, and restarts the unit. A unit that is turned off
// is not started.
func (e *Engine) Restart(ctx context.Context, u host.Unit) error {
	for _, l := range e.lanes {
		if l.unit == u {
			e.Refresh(ctx, l.id, false) // the files may lag behind the daemon
			return l.restart(ctx)
		}
	}
	return e.host.Restart(ctx, u)
}

func (l *lane) restart(ctx context.Context) error {
	l.work.Lock()
	defer l.work.Unlock()
	l.mu.Lock()
	off := !l.wanted
	l.mu.Unlock()
	if off {
		return fmt.Errorf("%s is off; turn it on in its settings", displayName(l.unit))
	}
	l.beginWork()
	err := l.engine.host.Restart(ctx, l.unit)
	l.forget()
	l.endWork(ctx, nil)
	l.kick(0, false)
	return err
}
