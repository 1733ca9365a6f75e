package resource

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/rescue"
)

// Area is a group of users or clients of the gateway.
type Area string

// Areas that previews assess.
const (
	Connections Area = "connections"
	TunnelPeers Area = "tunnel-peers"
	Sites       Area = "sites"
	DHCPClients Area = "dhcp-clients"
)

// Effect is what a change does to one client.
type Effect string

// Effects of a change, worst first.
const (
	Cut      Effect = "cut"
	Rerouted Effect = "rerouted"
	// Blocked and Redirected affect only new connections.
	Blocked    Effect = "blocked_when_reopened"
	Redirected Effect = "rerouted_when_reopened"
)

var effects = []Effect{Cut, Rerouted, Blocked, Redirected}

// Affected is a client that a change affects.
type Affected struct {
	What   string `json:"what" doc:"Who it is."`
	Effect Effect `json:"effect" enum:"cut,rerouted,blocked_when_reopened,rerouted_when_reopened" doc:"cut: it stops working. rerouted: it goes another way. The other two keep working until they end: a new one would be refused, or would go another way."`
	Before string `json:"verdict_before" doc:"What happens to it now."`
	After  string `json:"verdict_after" doc:"What would happen to it."`
}

// EffectCount is how many clients a change affects in one way.
type EffectCount struct {
	Effect Effect `json:"effect" enum:"cut,rerouted,blocked_when_reopened,rerouted_when_reopened" doc:"What the change does to them."`
	Count  int    `json:"count" doc:"How many."`
}

// Impact is what a change does to the clients of one area.
type Impact struct {
	Area     Area          `json:"area" enum:"connections,tunnel-peers,sites,dhcp-clients" doc:"Who was looked at."`
	Computed bool          `json:"computed" doc:"Whether this could be worked out. If not, nothing is known, and the numbers mean nothing."`
	Why      string        `json:"why" doc:"Why it could not be worked out; empty if it was."`
	Checked  int           `json:"checked" doc:"How many there are now."`
	Count    int           `json:"count" doc:"How many of them the change affects."`
	Effects  []EffectCount `json:"effects" doc:"How it affects them, the worst first."`
	First    []Affected    `json:"first" doc:"The first twenty of them, the worst first."`
}

const (
	// assessWithin bounds how long a preview waits for its impact.
	assessWithin = 2 * time.Second
	// impactListed limits the affected clients that are named.
	impactListed = 20
)

// Assessor determines whom a change affects in one area. S is the configuration that this depends on.
type Assessor[S any] struct {
	Area Area
	// Feeds are the components through which a change can affect the area. A change that feeds none of them is not assessed.
	Feeds []apply.ID
	// Load reads the configuration in the transaction of the change, once before it and once after.
	Load func(ctx context.Context, q db.Querier) (S, error)
	// Compare examines all clients of the area, and returns how many there are and which of them the change affects. It never
	// guesses: if it cannot decide, it returns a fault whose message says why.
	Compare func(ctx context.Context, was, now S) (checked int, reached []Affected, err error)
}

// assessor is an Assessor with its type parameter erased.
type assessor struct {
	area    Area
	feeds   []apply.ID
	load    func(ctx context.Context, q db.Querier) (any, error)
	compare func(ctx context.Context, was, now any) (int, []Affected, error)
}

// Assess adds an area to the impact that previews show.
func Assess[S any](r *Registry, a Assessor[S]) {
	r.assessors = append(r.assessors, assessor{
		a.Area, a.Feeds,
		func(ctx context.Context, q db.Querier) (any, error) { return a.Load(ctx, q) },
		func(ctx context.Context, was, now any) (int, []Affected, error) {
			return a.Compare(ctx, was.(S), now.(S))
		},
	})
}

// assessment is an area that a change feeds, before and after the change.
type assessment struct {
	assessor
	was, now any
}

// assessed wraps write so that it loads what the impact of the change depends on.
func (r *Registry) assessed(ctx context.Context, fed []apply.ID, write apply.Write) (apply.Write, []*assessment) {
	var list []*assessment
	for _, a := range r.assessors {
		if slices.ContainsFunc(a.feeds, func(id apply.ID) bool { return slices.Contains(fed, id) }) {
			list = append(list, &assessment{assessor: a})
		}
	}
	return func(tx *db.Tx) (rows []apply.Row, err error) {
		for _, a := range list {
			if a.was, err = a.load(ctx, tx); err != nil {
				return nil, err
			}
		}
		if rows, err = write(tx); err != nil {
			return nil, err
		}
		if err := tx.Flush(ctx); err != nil {
			return nil, err
		}
		for _, a := range list {
			if a.now, err = a.load(ctx, tx); err != nil {
				return nil, err
			}
		}
		return rows, nil
	}, list
}

// impact assesses all areas concurrently. It returns within assessWithin, whatever the assessors do.
func (r *Registry) impact(ctx context.Context, list []*assessment) []Impact {
	ctx, cancel := context.WithTimeoutCause(ctx, assessWithin, errLongImpact)
	defer cancel()
	found := make([]Impact, len(list))
	var all sync.WaitGroup
	for i, a := range list {
		all.Go(func() { found[i] = r.impactOn(ctx, a) })
	}
	all.Wait()
	return found
}

// unforeseen marks the areas whose impact cannot be known for some of the changes, even if others were assessed there.
func (r *Registry) unforeseen(list []Impact, changes []Change) []Impact {
	for _, c := range changes {
		if c.idle {
			continue
		}
		reasons := r.kinds[c.Kind].Unforeseen
		for _, area := range slices.Sorted(maps.Keys(reasons)) {
			i := slices.IndexFunc(list, func(x Impact) bool { return x.Area == area })
			if i < 0 {
				i, list = len(list), append(list, Impact{})
			}
			list[i] = unknown(area, reasons[area])
		}
	}
	return list
}

// unknown returns the impact on an area that could not be assessed.
func unknown(area Area, why string) Impact {
	return Impact{Area: area, Why: why, Effects: []EffectCount{}, First: []Affected{}}
}

var errLongImpact = fault.New(fault.Unavailable, "It would take longer than %d seconds.", int(assessWithin.Seconds()))

func (r *Registry) impactOn(ctx context.Context, a *assessment) Impact {
	type answer struct {
		checked int
		reached []Affected
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		var x answer
		defer func() { answers <- x }()
		defer rescue.Into(&x.err, r.Log, string(a.area))
		x.checked, x.reached, x.err = a.compare(ctx, a.was, a.now)
	}()
	var x answer
	select {
	case x = <-answers:
	case <-ctx.Done():
		x.err = context.Cause(ctx)
	}
	if x.err != nil && ctx.Err() != nil {
		x.err = context.Cause(ctx)
	}
	out := unknown(a.area, "")
	if x.err != nil {
		out.Why = "It could not be worked out."
		if f, ok := errors.AsType[*fault.Error](x.err); ok {
			out.Why = f.Message
		} else {
			r.Log.Warn("assessing the impact of a change failed", "err", x.err)
		}
		return out
	}
	out.Computed, out.Checked, out.Count = true, x.checked, len(x.reached)
	slices.SortStableFunc(x.reached, func(a, b Affected) int {
		return cmp.Compare(slices.Index(effects, a.Effect), slices.Index(effects, b.Effect))
	})
	for _, e := range effects {
		n := 0
		for _, who := range x.reached {
			if who.Effect == e {
				n++
			}
		}
		if n > 0 {
			out.Effects = append(out.Effects, EffectCount{e, n})
		}
	}
	out.First = append(out.First, x.reached[:min(len(x.reached), impactListed)]...)
	return out
}
