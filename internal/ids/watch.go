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
	// watchEvery is how often administrators' addresses are compared with the decisions, and new ones are added to the bouncer's tables.
	// An administrator who logs in is spared within that time.
	watchEvery = 500 * time.Millisecond
	// allowEvery is the same for the allow-list, which CrowdSec itself applies to what it finds in logs.
	allowEvery = 30 * time.Second
	// registerAgain is the pause after the accounts could not be created.
	registerAgain = 10 * time.Second
)

// watcher is the actor that ends wrong decisions.
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
	lastFailure := ""
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
			lastFailure = ""
		case ctx.Err() == nil && err.Error() != lastFailure:
			lastFailure = err.Error()
			r.Log.Warn("bans of administrators cannot be checked", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// prepare creates the gateway's accounts as soon as CrowdSec is installed, so that they exist when it is switched on.
func (r *Room) prepare(ctx context.Context) error {
	state, err := r.Host.State(ctx, unit)
	if err != nil || !state.Installed {
		return err
	}
	if _, err := r.Host.Read(crowdsec.Config); err != nil {
		return nil // the tool needs the configuration, which comes with the first apply
	}
	return r.register(ctx)
}

// watch lets the packets of logged-in administrators pass, and ends the decisions about them and, with everything, those about the
// allow-list. It does not touch decisions made by operators.
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

// guard makes the bouncer's tables drop the packets of banned addresses, except those of logged-in administrators, and returns the
// decisions about these. Administrators banned by an operator are dropped.
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

// gone ignores that CrowdSec is stopping or starting.
func gone(err error) error {
	if errors.Is(err, host.ErrNotRunning) || errors.Is(err, host.ErrNotInstalled) {
		return nil
	}
	return err
}

// present returns the addresses from which administrators are logged in; while the database is away, the last known ones.
func (r *Room) present(ctx context.Context) []netip.Addr {
	list, err := r.deps.Operators(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.operators = list
	}
	return r.operators
}

// spare makes the bouncer's tables let addresses pass, whatever it decides, until that is undone. It does so again for another bouncer
// process, which has created its tables again. The caller holds sparing.
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

// meant reports whether an operator has made a decision.
func (d Decision) meant() bool { return d.Origin == byGateway || d.Origin == byTool }

// undo ends decisions, except those of operators.
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
