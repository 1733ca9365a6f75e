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

// rounds bounds how often a pass looks again. One step can undo what was there, as when a link that is made anew takes
// its vlans with it; what then is missing is the next round's.
const rounds = 5

// Machine is what of the machine the network depends on.
type Machine interface {
	host.Network
	// FilterState tells whether the packet filter is loaded.
	FilterState(ctx context.Context) (host.FilterState, error)
}

// ReadLive asks the kernel what it has.
func ReadLive(ctx context.Context, m Machine) (live Live, err error) {
	if live.Links, err = m.Links(ctx); err != nil {
		return live, err
	}
	if live.Routes, err = m.Routes(ctx); err != nil {
		return live, err
	}
	live.Tables = m.RouteTables()
	// In this order: when both are read, forwarding that is off was off before the packet filter was seen.
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

// Converge brings the kernel's network to the configuration. What cannot be does not stop the rest: it is told as an
// *apply.Partial at the end.
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
		broken := map[string]bool{} // links that could not be made: what needs them need not be tried
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

// reason says in words what the kernel means, where its own do not.
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

// verify says whether the kernel has what it shall have: nothing is left to do, and nothing stands in the way.
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
