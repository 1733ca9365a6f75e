package ids

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
)

const (
	// watchEvery is how often the addresses of administrators are held against the decisions, and the bouncer's tables are told of those
	// who have come. Who logs in is spared within so long.
	watchEvery = 500 * time.Millisecond
	// allowEvery is how often the allow-list is, which CrowdSec itself does for what it finds in logs.
	allowEvery = 30 * time.Second
	// registerAgain is how long the room waits after it could not make its accounts.
	registerAgain = 10 * time.Second
)

// watcher is who ends decisions that should not be.
var watcher = actor.System("gateway-api")

// Run keeps administrators and the allow-list from being banned, and writes the log of dropped packets, until the context ends.
func (r *Room) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(actor.With(ctx, watcher))
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.logDrops(ctx)
	}()
	defer func() { <-done }()
	defer cancel()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var registered, allowed time.Time
	said := ""
	for {
		now := time.Now()
		if now.After(registered) {
			registered = now.Add(registerAgain)
			if err := r.prepare(ctx); err != nil {
				r.Log.Warn("the gateway has no accounts at CrowdSec", "err", err)
			}
		}
		everything := now.Sub(allowed) >= allowEvery
		if everything {
			allowed = now
		}
		switch err := r.watch(ctx, everything); {
		case err == nil:
			said = ""
		case ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			r.Log.Warn("bans of administrators are not looked for", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// prepare makes the gateway's accounts as soon as there is a CrowdSec, so that all is there when it is switched on.
func (r *Room) prepare(ctx context.Context) error {
	state, err := r.Host.State(ctx, unit)
	if err != nil || !state.Installed {
		return err
	}
	if _, err := r.Host.Read(crowdsec.Config); err != nil {
		return nil // the tool reads it; it comes with the first apply
	}
	return r.register(ctx)
}

// watch has the packets of administrators who are logged in pass, and ends the decisions that are about them, and with everything those
// about the allow-list. Decisions that an operator has made are none of its business.
func (r *Room) watch(ctx context.Context, everything bool) error {
	state, err := r.Host.State(ctx, unit)
	if err != nil || state.Active != "active" {
		return err
	}
	wrong, err := r.guard(ctx)
	unspared := gone(err)
	if err := r.undo(ctx, wrong, "an administrator is logged in from there"); err != nil {
		return gone(err)
	}
	if !everything {
		return unspared
	}
	list, err := r.allowed(ctx)
	if err != nil {
		return unspared // the database is away; CrowdSec has the list
	}
	for _, n := range list {
		query := url.Values{"range": {n.String()}, "contains": {"false"}}
		if n.IsSingleIP() {
			query = url.Values{"ip": {n.Addr().String()}}
		}
		list, err := r.decided(ctx, query)
		if err == nil {
			err = r.undo(ctx, list, "it is on the allow-list")
		}
		if err != nil {
			return gone(err)
		}
	}
	return unspared
}

// guard has the bouncer's tables drop the packets of whom it bans, but for administrators who are logged in, and returns the decisions about
// these. Administrators whom an operator has banned are dropped.
func (r *Room) guard(ctx context.Context) (wrong []Decision, err error) {
	r.sparing.Lock()
	defer r.sparing.Unlock()
	var spared []netip.Addr
	for _, a := range r.present(ctx) {
		list, err := r.decided(ctx, url.Values{"ip": {a.String()}})
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(list, Decision.meant) {
			spared = append(spared, a)
		}
		wrong = append(wrong, list...)
	}
	return wrong, r.spare(ctx, spared)
}

// gone forgives a CrowdSec that ends or starts meanwhile.
func gone(err error) error {
	if errors.Is(err, host.ErrNotRunning) || errors.Is(err, host.ErrNotInstalled) {
		return nil
	}
	return err
}

// present are the addresses that administrators are logged in from. While the database is away they are those of before.
func (r *Room) present(ctx context.Context) []netip.Addr {
	list, err := r.deps.Operators(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.operators = list
	}
	return r.operators
}

// spare has the bouncer's tables let addresses pass, whatever it hears of before that is undone. It does so again when another bouncer runs,
// which has made its tables new. The caller holds sparing.
func (r *Room) spare(ctx context.Context, addresses []netip.Addr) error {
	state, err := r.Host.State(ctx, bouncer)
	if err != nil || state.Active != "active" {
		r.spared = ""
		return err
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	now := fmt.Sprint(state.PID, state.Since, addresses)
	if now == r.spared {
		return nil
	}
	if err := r.Host.DetectionSpare(ctx, addresses); err != nil {
		return err
	}
	r.spared = now
	return nil
}

// meant tells whether an operator has made a decision.
func (d Decision) meant() bool { return d.Origin == byGateway || d.Origin == byTool }

// undo ends decisions, but for those of operators.
func (r *Room) undo(ctx context.Context, list []Decision, why string) error {
	for _, d := range list {
		if d.meant() {
			continue
		}
		err := r.Audit.Do(ctx, "ids.decision.undo", d.Value, func() (any, error) {
			return map[string]any{"id": d.ID, "origin": d.Origin, "reason": d.Reason, "because": why}, r.end(ctx, d)
		})
		if err != nil {
			return err
		}
		r.Log.Warn("a ban was undone", "value", d.Value, "scenario", d.Reason, "because", why)
	}
	return nil
}
