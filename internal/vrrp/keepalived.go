package vrrp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
)

// check asks keepalived whether it accepts the staged file. A warning counts as a refusal, because keepalived then uses something else
// instead.
func (r *Room) check(ctx context.Context, files []host.File) error {
	out, err := r.Host.Run(ctx, keepalived.Check, host.Input{Staged: files})
	if err == nil && out.Stderr != "" {
		err = &host.ExitError{Command: keepalived.Check, Output: out}
	}
	return err
}

// apply makes keepalived read its file. A reload removes no address that stays.
func (r *Room) apply(ctx context.Context, c Config, _ []host.File) error {
	if !c.able() {
		return errors.Join(r.Host.Stop(ctx, unit), &apply.Partial{Problems: c.Problems})
	}
	// A node that cannot hear the others would take the addresses although another one has them.
	if err := r.deps.Open(ctx); err != nil {
		return fmt.Errorf("the packet filter does not let the other nodes in yet: %w", err)
	}
	state, err := r.Host.State(ctx, unit)
	if err != nil {
		return err
	}
	if state.Active == "active" {
		return r.Host.Reload(ctx, unit)
	}
	return r.Host.Restart(ctx, unit)
}

const (
	// settlesWithin is how long keepalived may take until the addresses match its state.
	settlesWithin = 5 * time.Second
	lookEvery     = 50 * time.Millisecond
)

// verify checks that keepalived runs, and that the addresses are on this node exactly if it is the master.
func (r *Room) verify(ctx context.Context, c Config, _ []host.File) error {
	if !c.able() {
		return &apply.Partial{Problems: c.Problems}
	}
	state, err := r.Host.State(ctx, unit)
	if err != nil {
		return err
	}
	if state.Active != "active" {
		return fmt.Errorf("keepalived is %s: %s", state.Active, state.Detail)
	}
	for end := time.Now().Add(settlesWithin); ; {
		err := r.compare(ctx, c)
		if err == nil {
			break
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
	if len(c.Problems) > 0 {
		return &apply.Partial{Problems: c.Problems}
	}
	return nil
}

func has(links []host.Link, link string, a netip.Prefix) bool {
	return slices.ContainsFunc(links, func(l host.Link) bool {
		return l.Name == link && slices.ContainsFunc(l.Addrs, func(x host.LinkAddr) bool { return x.Prefix() == a })
	})
}

// master reports whether keepalived has the addresses on this node, by the mark that it sets with them.
func master(links []host.Link) bool {
	return has(links, "lo", netip.MustParsePrefix(mark4)) || has(links, "lo", netip.MustParsePrefix(mark6))
}

// compare checks the addresses in the kernel.
func (r *Room) compare(ctx context.Context, c Config) error {
	before := r.now()
	links, err := r.Host.Links(ctx)
	if err != nil {
		return err
	}
	master := master(links)
	for _, v := range c.VIPs {
		switch there := has(links, v.Link.String(), v.Address); {
		case there && !master:
			return fmt.Errorf("%s is on %s, although another node has the virtual addresses", v.Address.Addr(), v.Link)
		case !there && master:
			return fmt.Errorf("%s is not on %s, although this node has the virtual addresses", v.Address.Addr(), v.Link)
		}
	}
	if r.now() == before { // or it has reported something in the meantime
		r.seen(master)
	}
	return nil
}
