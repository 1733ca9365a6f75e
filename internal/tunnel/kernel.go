package tunnel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/host"
)

// rounds limits how often a pass checks again: a step can undo others, for example when a link is recreated, and a step fails if the
// program behind a link exits at that moment.
const rounds = 3

// Machine is the part of the machine that tunnels depend on.
type Machine interface {
	host.Network
	host.Tunnels
}

// ReadLive reads the kernel's state.
func ReadLive(ctx context.Context, m Machine) (live Live, err error) {
	if live.Links, err = m.Links(ctx); err != nil {
		return live, err
	}
	if live.Devices, err = m.TunnelDevices(ctx); err != nil {
		return live, err
	}
	if live.Routes, err = m.Routes(ctx); err != nil {
		return live, err
	}
	live.Rules, err = m.Rules(ctx)
	return live, err
}

// look compares the kernel's state with the configuration.
func (r *Room) look(ctx context.Context, c Config) (Plan, error) {
	live, err := ReadLive(ctx, r.Host)
	if err != nil {
		return Plan{}, err
	}
	r.meter.add(r.Clock.Now(), live.Devices)
	dial, unknown := r.whereToDial(ctx, live, c)
	plan := MakePlan(live, c, dial)
	plan.Problems = slices.Concat(c.Problems, plan.Problems, slices.Sorted(maps.Values(unknown)))
	if len(plan.Steps) == 0 {
		r.dialled(c, unknown)
	}
	return plan, nil
}

// converge brings the kernel to the configuration. A failed step does not stop the rest: it is reported in an *apply.Partial at the end.
func (r *Room) converge(ctx context.Context, c Config, _ []host.File) error {
	var problems, failed []string
	for range rounds {
		plan, err := r.look(ctx, c)
		if err != nil {
			return err
		}
		if len(plan.Steps) == 0 {
			return complain(plan.Problems)
		}
		problems, failed = plan.Problems, nil
		broken := map[string]bool{} // links that could not be created: do not try what needs them
		for _, s := range plan.Steps {
			if broken[s.Link] {
				continue
			}
			err := s.Do(ctx, r.Host)
			if errors.Is(err, host.ErrNotInstalled) || ctx.Err() != nil {
				return err
			}
			if err != nil {
				failed = append(failed, fmt.Sprintf("could not %s: %s", s.Text, reason(err)))
				broken[s.Link] = s.Vital
			}
		}
	}
	if len(failed) == 0 {
		failed = []string{"the tunnels change faster than they can be set"}
	}
	return complain(slices.Concat(problems, failed))
}

func complain(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return &apply.Partial{Problems: problems}
}

// verify checks that the kernel matches the configuration: no step is left, and no problem.
func (r *Room) verify(ctx context.Context, c Config, _ []host.File) error {
	plan, err := r.look(ctx, c)
	if err != nil {
		return err
	}
	problems := plan.Problems
	for _, s := range plan.Steps {
		problems = append(problems, "not done: "+s.Text)
	}
	return complain(problems)
}
