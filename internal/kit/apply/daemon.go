package apply

import (
	"context"
	"fmt"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

const (
	// watchAgain is how long to wait before the daemons are watched again after the watch was lost.
	watchAgain = time.Second
	// lookWithin bounds the question what a daemon does.
	lookWithin = 5 * time.Second
	// startedAgain is the pause between two looks at a daemon that is starting.
	startedAgain = 50 * time.Millisecond
)

// daemon is what a lane knows about its daemon. It is guarded by the lane's mu.
type daemon struct {
	// wanted says that it should run.
	wanted bool
	// seen is what it did at the end of the last pass; known says that there was one.
	seen  host.UnitState
	known bool
	// working counts those that may restart it now. What it does meanwhile is theirs; missed says that it did something.
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

// down says whether the daemon does not run. It waits for one that is just starting, because one with much to read takes its time, but not for
// systemd to start it again.
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

// watch hears of daemons that end, and of those that were started by hand, and has their lanes look at once.
func (e *Engine) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := e.host.Watch(ctx, func(u host.Unit) {
			for _, l := range e.lanes {
				if l.unit == u {
					l.told(ctx)
				}
			}
		})
		if err == nil {
			continue
		}
		e.log.Warn("the daemons cannot be watched and are looked at on a timer", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(watchAgain):
		}
	}
}

// told looks at the daemon. When it is not what the last pass has left, another pass is due, and a daemon that has ended is not
// called live until then.
func (l *lane) told(ctx context.Context) {
	state, err := l.state(ctx)
	if err != nil {
		return // the timer looks again
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
		l.status.LastError, l.status.Detail = fmt.Sprintf("%s has stopped and is being started again.", called(l.unit)), state.Detail
		l.running, l.at = nil, 0
	}
	if before != l.status {
		l.engine.changed(before, l.status)
	}
	l.mu.Unlock()
	l.kick(0, false)
}

// state asks what the daemon does, even at the end of a pass whose time is over.
func (l *lane) state(ctx context.Context) (host.UnitState, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin)
	defer cancel()
	return l.engine.host.State(ctx, l.unit)
}

// atWork says that the daemon may be restarted from now on. Look ends that.
func (l *lane) atWork() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.working++
}

// look notes what the daemon does after some work, and says whether it has ended meanwhile though it should run. The
// configuration, if it is known, says whether it should.
func (l *lane) look(ctx context.Context, config any) (died bool) {
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

// Restart brings the component behind a unit to what is stored, its files included, and restarts the unit. One that is switched
// off is not started.
func (e *Engine) Restart(ctx context.Context, u host.Unit) error {
	for _, l := range e.lanes {
		if l.unit == u {
			e.Refresh(ctx, l.id, false) // the files may be a moment behind the daemon
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
		return fmt.Errorf("%s is off; turn it on in its settings", called(l.unit))
	}
	l.atWork()
	err := l.engine.host.Restart(ctx, l.unit)
	l.forget()
	l.look(ctx, nil)
	l.kick(0, false)
	return err
}
