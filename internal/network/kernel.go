package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/host"
)

// rounds limits how often a pass checks again. A step can undo others, for example when a recreated link takes its vlans with it; the
// next round adds what is then missing.
const rounds = 5

// Machine is the part of the machine that the network depends on.
type Machine interface {
	host.Network
	// FilterState reports whether the packet filter is loaded.
	FilterState(ctx context.Context) (host.FilterState, error)
}

// ReadLive reads the kernel's network.
func ReadLive(ctx context.Context, m Machine) (live Live, err error) {
	if live.Links, err = m.Links(ctx); err != nil {
		return live, err
	}
	if live.Routes, err = m.Routes(ctx); err != nil {
		return live, err
	}
	live.Tables = m.RouteTables()
	// In this order, so that forwarding that reads as off was already off before the packet filter was checked.
	if live.Forwarding, err = m.Forwarding(ctx); err != nil {
		return live, err
	}
	filter, err := m.FilterState(ctx)
	if errors.Is(err, host.ErrNotInstalled) {
		return live, err
	}
	live.Filtered, live.FilterErr = filter.Present, err
	return live, nil
}

// Converge brings the kernel's network to the configuration. A failed step does not stop the rest: it is reported in an *apply.Partial at
// the end.
func Converge(ctx context.Context, n Machine, c Config) error {
	var last []Step
	var failed []string
	for range rounds {
		live, err := ReadLive(ctx, n)
		if err != nil {
			return err
		}
		plan := MakePlan(live, c)
		if len(plan.Steps) == 0 {
			return complain(plan.Problems)
		}
		if slices.Equal(plan.Steps, last) {
			return complain(append(plan.Problems, failed...))
		}
		last, failed = plan.Steps, nil
		broken := map[string]bool{} // links that could not be created: do not try what needs them
		for _, s := range plan.Steps {
			if broken[s.Link] || broken[s.Master] || broken[s.New.Parent] {
				continue
			}
			err := s.do(ctx, n)
			if errors.Is(err, host.ErrNotInstalled) || ctx.Err() != nil {
				return err
			}
			if err != nil {
				failed = append(failed, fmt.Sprintf("could not %s: %s", s, reason(s, err)))
				broken[s.Link] = s.Verb == createLink
			}
		}
	}
	return complain(append([]string{"the network changes faster than it can be set"}, failed...))
}

func complain(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return &apply.Partial{Problems: problems}
}

// reason explains an error of the kernel where its own words do not.
func reason(s Step, err error) string {
	route := s.Verb == addRoute || s.Verb == replaceRoute
	switch {
	case route && (errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH)):
		return fmt.Sprintf("the next hop %s is not in a network of the gateway", s.Route.Gateway)
	case route && errors.Is(err, syscall.ENETDOWN):
		return "the interface is down"
	case s.Verb == setMTU && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ERANGE)):
		return "the interface does not support packets of that size"
	}
	return err.Error()
}

func (s Step) do(ctx context.Context, n host.Network) error {
	up := true
	switch s.Verb {
	case acceptRouters:
		return n.AcceptRouters(ctx, s.Link)
	case forward, stopForwarding:
		return n.Forward(ctx, s.Verb == forward)
	case removeLink:
		return n.RemoveLink(ctx, s.Link)
	case createLink:
		return n.CreateLink(ctx, s.New)
	case markLink:
		return n.ChangeLink(ctx, s.Link, host.LinkChange{Alias: &s.Alias})
	case freeMember:
		return n.ChangeLink(ctx, s.Link, host.LinkChange{Master: new(string)})
	case addMember:
		return n.ChangeLink(ctx, s.Link, host.LinkChange{Master: &s.Master})
	case setMTU:
		return n.ChangeLink(ctx, s.Link, host.LinkChange{MTU: &s.MTU})
	case raiseLink:
		return n.ChangeLink(ctx, s.Link, host.LinkChange{Up: &up})
	case setAddress:
		return n.SetAddress(ctx, s.Link, s.Address)
	case removeAddress:
		return n.RemoveAddress(ctx, s.Link, s.Address.Prefix)
	case addRoute:
		return n.AddRoute(ctx, s.Route)
	case replaceRoute:
		return n.ReplaceRoute(ctx, s.Route)
	case removeRoute:
		return n.RemoveRoute(ctx, s.Route)
	}
	return fmt.Errorf("no verb %q", s.Verb)
}

func (r *Room) apply(ctx context.Context, c Config, _ []host.File) error {
	return Converge(ctx, r.Host, c)
}

// verify checks that the kernel's network matches the configuration: no step is left, and no problem.
func (r *Room) verify(ctx context.Context, c Config, _ []host.File) error {
	live, err := ReadLive(ctx, r.Host)
	if err != nil {
		return err
	}
	plan := MakePlan(live, c)
	problems := plan.Problems
	for _, s := range plan.Steps {
		problems = append(problems, "not done: "+s.String())
	}
	return complain(problems)
}
