package ntp

import (
	"context"
	"fmt"
	"net/netip"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
)

const unit = chrony.Unit

// check asks chronyd whether it accepts the staged files. It does not check ranges, but the types do.
func (r *Room) check(ctx context.Context, files []host.File) error {
	_, err := r.Host.Run(ctx, chrony.Check, host.Input{Staged: files})
	return err
}

// restart makes chronyd read its files: it has no reload.
func (r *Room) restart(ctx context.Context, _ Config, _ []host.File) error {
	return r.Host.Restart(ctx, unit)
}

// verify checks that chronyd runs, answers, and has every source that needs no name resolution.
func (r *Room) verify(ctx context.Context, c Config, _ []host.File) error {
	state, err := r.Host.State(ctx, unit)
	if err != nil {
		return err
	}
	if state.Active != "active" {
		return fmt.Errorf("chronyd is %s: %s", state.Active, state.Detail)
	}
	sources, err := r.sources(ctx)
	if err != nil {
		return fmt.Errorf("chronyd does not answer: %w", err)
	}
	has := map[string]bool{}
	for _, s := range sources {
		has[s.Address] = true
	}
	for _, p := range c.Pools {
		if _, err := netip.ParseAddr(p.Address.String()); err == nil && !has[p.Address.String()] {
			return fmt.Errorf("chronyd does not have the source %s", p.Address)
		}
	}
	return nil
}
