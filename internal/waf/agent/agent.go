// Package agent assembles the web application firewall: it takes HAProxy's message about a request, has the engine inspect it when there
// is time, and answers with variables.
package agent

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/spoe"
)

// Within limits the time from the arrival of a request. HAProxy waits for a second; a later answer is lost.
const Within = 800 * time.Millisecond

// Variables in the transaction's scope. Only a verdict of Pass lets a request through: if anything goes wrong, there is no verdict.
const (
	VarVerdict = "verdict"
	VarAnswer  = "answer" // the verdict on the response
	VarRule    = "rule"   // the rule that decided
	VarScore   = "score"  // the total score of the matched rules
	VarClient  = "client" // the client behind the trusted proxies
	VarError   = "error"  // why there is no verdict; HAProxy sets it to a number if it has no answer
)

// The verdicts.
const (
	Pass = "pass"
	Deny = "deny"
)

// Reason is why there is no verdict.
type Reason string

// The reasons.
const (
	BadMessage    Reason = "message"  // not what the gateway's HAProxy configuration sends
	UnknownDomain Reason = "domain"   // it has no settings
	Busy          Reason = "busy"     // it could not be inspected in time
	Late          Reason = "deadline" // its inspection took too long
	Failed        Reason = "engine"   // its inspection failed
	Panicked      Reason = "panic"    // its inspection made our own code panic
)

var reasons = [...]Reason{BadMessage, UnknownDomain, Busy, Late, Failed, Panicked}

// Engine inspects requests. It stops early when the context ends, and keeps nothing of a request's body.
type Engine interface {
	// Known reports, at next to no cost, whether a request is known to match nothing.
	Known(r *engine.Request, with engine.Settings) bool
	Inspect(ctx context.Context, r *engine.Request, with engine.Settings) (engine.Verdict, error)
	InspectResponse(ctx context.Context, r *engine.Request, res *engine.Response, with engine.Settings) (engine.Verdict, error)
}

// Domain is what the agent knows about a domain.
type Domain struct {
	ID       string // HAProxy's key
	Settings engine.Settings
	Trusted  []netip.Prefix // proxies whose statement about the client is believed
}

// Agent answers HAProxy's messages.
type Agent struct {
	// Record gets verdicts that must be recorded; it may be nil. It must not keep the request, must be fast, and is called concurrently.
	Record func(r *engine.Request, v *engine.Verdict)
	// Soon waits for a domain that is being added. It returns nil if the domain is not ready in time, and may itself be nil. It is called
	// concurrently.
	Soon func(ctx context.Context, name []byte) *Domain

	engine Engine
	domain func(name []byte) *Domain
	gate   *gate
	within time.Duration

	inspected, denied atomic.Uint64
	failed            [len(reasons)]atomic.Uint64
}

// New returns an agent. domain finds a domain by its name, or returns nil; it is called concurrently.
func New(e Engine, domain func(name []byte) *Domain) *Agent {
	return &Agent{engine: e, domain: domain, gate: newGate(runtime.GOMAXPROCS(0)), within: Within}
}

// Handle answers one message. It is the handler of a spoe.Server.
func (a *Agent) Handle(ctx context.Context, n *spoe.Notify, out *spoe.Answer) {
	why := Panicked
	defer func() { a.count(why) }()
	if why = a.handle(ctx, n, out); why != "" {
		out.SetText(spoe.Transaction, VarError, string(why))
	}
}

// Quick answers a message about a request that is known to match nothing. It is the quick handler of a spoe.Server.
func (a *Agent) Quick(n *spoe.Notify, out *spoe.Answer) bool {
	msg, ok := read(n)
	if !ok || msg.response {
		return false
	}
	domain := a.domain(msg.domain)
	if domain == nil {
		return false
	}
	r := msg.request(domain)
	if !a.engine.Known(r, domain.Settings) {
		return false
	}
	a.inspected.Add(1)
	out.SetText(spoe.Transaction, VarClient, r.Source.Addr().String())
	out.SetText(spoe.Transaction, VarVerdict, Pass)
	out.SetInt(spoe.Transaction, VarScore, 0)
	return true
}

func (a *Agent) count(why Reason) {
	if i := slices.Index(reasons[:], why); i >= 0 {
		a.failed[i].Add(1)
	} else {
		a.inspected.Add(1)
	}
}

// Counts returns how many requests got a verdict, how many of these were denied, and how many got none, by reason.
func (a *Agent) Counts() (inspected, denied uint64, failed map[Reason]uint64) {
	failed = make(map[Reason]uint64, len(reasons))
	for i, why := range reasons {
		failed[why] = a.failed[i].Load()
	}
	return a.inspected.Load(), a.denied.Load(), failed
}

func (a *Agent) handle(ctx context.Context, n *spoe.Notify, out *spoe.Answer) Reason {
	msg, ok := read(n)
	if !ok {
		return BadMessage
	}
	deadline := n.Received.Add(a.within)
	domain := a.domain(msg.domain)
	if domain == nil && a.Soon != nil {
		within, cancel := context.WithDeadline(ctx, deadline)
		domain = a.Soon(within, msg.domain)
		cancel()
	}
	if domain == nil {
		return UnknownDomain
	}
	r := msg.request(domain)
	var v engine.Verdict
	var why Reason
	variable := VarVerdict
	if msg.response {
		variable = VarAnswer
		v, why = a.inspectResponse(ctx, r, msg.answer(), domain.Settings, deadline)
	} else {
		out.SetText(spoe.Transaction, VarClient, r.Source.Addr().String())
		v, why = a.inspect(ctx, r, domain.Settings, deadline)
	}
	if why != "" {
		return why
	}
	verdict := Pass
	if v.Deny {
		a.denied.Add(1)
		verdict = Deny
		out.SetInt(spoe.Transaction, VarRule, int64(v.Rule))
	}
	out.SetText(spoe.Transaction, variable, verdict)
	out.SetInt(spoe.Transaction, VarScore, int64(v.Score))
	if a.Record != nil && (v.Deny || len(v.Matches) > 0) {
		a.Record(r, &v)
	}
	return ""
}

// inspect waits for its turn and asks the engine. A request that became known in the meantime does not wait.
func (a *Agent) inspect(ctx context.Context, r *engine.Request, with engine.Settings, deadline time.Time) (v engine.Verdict, why Reason) {
	if a.engine.Known(r, with) {
		return v, ""
	}
	cost, heavy := expected(r, with)
	return a.turn(ctx, cost, heavy, deadline, func(ctx context.Context) (engine.Verdict, error) { return a.engine.Inspect(ctx, r, with) })
}

func (a *Agent) inspectResponse(ctx context.Context, r *engine.Request, res *engine.Response, with engine.Settings, deadline time.Time) (engine.Verdict, Reason) {
	cost := costBase + costResponse*time.Duration(len(res.Body))
	return a.turn(ctx, cost, cost > lightest, deadline, func(ctx context.Context) (engine.Verdict, error) { return a.engine.InspectResponse(ctx, r, res, with) })
}

// turn waits for a turn, and has the engine decide.
func (a *Agent) turn(ctx context.Context, cost time.Duration, heavy bool, deadline time.Time, decide func(context.Context) (engine.Verdict, error)) (v engine.Verdict, why Reason) {
	leave, ok := a.gate.enter(ctx, cost, heavy, deadline)
	if !ok {
		return v, Busy
	}
	defer leave()
	within, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	v, err := decide(within)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return v, Late
	case err != nil:
		return v, Failed
	}
	return v, ""
}
