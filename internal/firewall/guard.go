package firewall

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
)

const (
	// guardEvery is how often the guard checks when the kernel reports nothing, and guardSoon how often while there is no table.
	guardEvery = 10 * time.Second
	guardSoon  = time.Second
	// listenAgain is the pause before the guard listens again after a failure.
	listenAgain = 5 * time.Second
)

// guard makes sure that the gateway never forwards without its table. It needs no database: while there is no table it switches
// forwarding off and loads the stored table.
type guard struct {
	room *Room
	// signal reports a change of the packet filter, and moved that the table has appeared or disappeared.
	signal, moved chan struct{}
	// present reports whether the table existed at the last check.
	present bool
	// paused means that the guard has switched forwarding off and must switch it on again.
	paused      bool
	lastFailure string // the last failure, to log it only once
}

func newGuard(r *Room) *guard {
	return &guard{room: r, signal: make(chan struct{}, 1), moved: make(chan struct{}, 1)}
}

// Boot loads the stored table unless there is one: until the database is available it is better than none. Run keeps trying.
func (r *Room) Boot(ctx context.Context) { r.guard.look(ctx) }

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run handles every change of the packet filter, by the gateway or by others.
func (g *guard) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.signal:
		case <-time.After(g.pause()):
		}
		g.look(ctx)
	}
}

func (g *guard) pause() time.Duration {
	if g.present {
		return guardEvery
	}
	return guardSoon
}

// listen receives the kernel's notifications.
func (g *guard) listen(ctx context.Context) {
	for {
		err := g.room.Host.FilterChanges(ctx, func() { notify(g.signal) })
		if ctx.Err() != nil {
			return
		}
		g.room.Log.Warn("changes of the packet filter are not reported", "component", "packet-filter", "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(listenAgain):
		}
	}
}

// notifyLanes makes the lanes check again whose state depends on the table.
func (g *guard) notifyLanes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.moved:
			g.room.Engine.Refresh(ctx, apply.PacketFilter, false)
			g.room.Engine.Refresh(ctx, apply.Network, false)
		}
	}
}

// look checks whether the table exists, and reacts.
func (g *guard) look(ctx context.Context) {
	state, err := g.room.Host.FilterState(ctx)
	switch {
	case errors.Is(err, host.ErrNotInstalled):
		return // not our packet filter
	case state.Present && err == nil:
		g.say(ctx, nil)
		g.resume(ctx)
		return
	case err == nil:
		g.stop(ctx)
		_, err = g.room.restore(ctx)
	case err != nil && !g.present:
		// The state is unknown, but loading a table twice does no harm.
		loaded, failed := g.room.restore(ctx)
		g.present, err = loaded, errors.Join(err, failed)
	}
	g.say(ctx, err)
	if state, err := g.room.Host.FilterState(ctx); err == nil && state.Present {
		g.resume(ctx)
	}
}

// say logs a failure once.
func (g *guard) say(ctx context.Context, err error) {
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	if failure != "" && failure != g.lastFailure && ctx.Err() == nil {
		g.room.Log.Error("the packet filter is not loaded", "component", "packet-filter", "err", err)
	}
	g.lastFailure = failure
}

// stop switches forwarding off because there is no table.
func (g *guard) stop(ctx context.Context) {
	if g.present {
		g.present = false
		g.room.Log.Error("the packet filter is gone from the kernel", "component", "packet-filter")
		notify(g.moved)
	}
	f, err := g.room.Host.Forwarding(ctx)
	if err != nil || !f.Any() {
		return
	}
	if err := g.room.Host.Forward(ctx, false); err != nil {
		g.room.Log.Error("forwarding cannot be switched off", "component", "packet-filter", "err", err)
		return
	}
	g.paused = true
}

// resume switches forwarding on again, if the guard has switched it off.
func (g *guard) resume(ctx context.Context) {
	if g.paused {
		if err := g.room.Host.Forward(ctx, true); err != nil {
			g.room.Log.Error("forwarding cannot be switched on again", "component", "packet-filter", "err", err)
			return
		}
		g.paused = false
	}
	if !g.present {
		g.present = true
		notify(g.moved)
	}
}

// restore loads the stored table unless there is one, and reports whether a table exists now. A new gateway has no stored table.
func (r *Room) restore(ctx context.Context) (loaded bool, err error) {
	r.kernel.loading.Lock()
	defer r.kernel.loading.Unlock()
	if state, err := r.Host.FilterState(ctx); err == nil && state.Present {
		return true, nil // someone else was faster
	}
	kept, err := r.Host.Read(nftables.Table)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		_, err = r.Host.Run(ctx, nftables.Load, host.Input{Staged: []host.File{{Place: nftables.Table, Content: kept}}})
	}
	return err == nil, err
}
