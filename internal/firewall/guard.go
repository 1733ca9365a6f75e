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
	// guardEvery is how often the guard looks when the kernel reports nothing, and guardSoon while there is no table.
	guardEvery = 10 * time.Second
	guardSoon  = time.Second
	// listenAgain is how long after a failure the guard listens for changes again.
	listenAgain = 5 * time.Second
)

// guard sees to it that the gateway never forwards without its table. It needs no database: while there is no table it switches
// forwarding off and loads the table that was kept.
type guard struct {
	room *Room
	// signal says that the packet filter has changed, and moved that the table has come or gone.
	signal, moved chan struct{}
	// present says that the table was there at the last look.
	present bool
	// paused says that the guard has switched forwarding off, and owes it back.
	paused bool
	said   string // the last failure, for not saying it twice
}

func newGuard(r *Room) *guard {
	return &guard{room: r, signal: make(chan struct{}, 1), moved: make(chan struct{}, 1)}
}

// Boot loads the table that was kept, unless there is one: until the database is there it is better than none. Run goes on
// trying.
func (r *Room) Boot(ctx context.Context) { r.guard.look(ctx) }

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run handles every change of the packet filter, the gateway's own and those of others.
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

// listen hears the kernel's reports.
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

// tell has the lanes look again whose state depends on whether there is a table.
func (g *guard) tell(ctx context.Context) {
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

// look asks whether the table is there, and does what follows.
func (g *guard) look(ctx context.Context) {
	state, err := g.room.Host.FilterState(ctx)
	switch {
	case errors.Is(err, host.ErrNotInstalled):
		return // not our packet filter
	case err == nil && !state.Present:
		g.stop(ctx)
		_, err = g.room.restore(ctx)
	case err != nil && !g.present:
		// Nothing is known: a table that is loaded twice does no harm.
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
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != "" && said != g.said && ctx.Err() == nil {
		g.room.Log.Error("the packet filter is not loaded", "component", "packet-filter", "err", err)
	}
	g.said = said
}

// stop switches forwarding off, because there is no table.
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

// resume switches on again what the guard has switched off, because there is a table.
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

// restore loads the table that was kept, unless there is one, and tells whether there is one then. On a new gateway nothing was
// kept.
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
