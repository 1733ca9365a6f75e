package ids

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

const (
	// decisionsShown and decisionsMost are the default and the maximum number of decisions in an answer.
	decisionsShown = 500
	decisionsMost  = 5000
	// byGateway is the origin of an operator's decisions, and byTool of those made with cscli. Only operators end these.
	byGateway = "gateway"
	byTool    = "cscli"
	// enforceWithin is how long an operator's ban waits for the kernel, and enforceAgain how often the kernel is polled. The bouncer asks
	// for decisions every second.
	enforceWithin = 3 * time.Second
	enforceAgain  = 200 * time.Millisecond
)

// Decision is a decision about an address or a network.
type Decision struct {
	ID        int64     `json:"id" doc:"Its number at CrowdSec."`
	Value     string    `json:"value" doc:"Its subject: an address, a network, or another value as given by scope."`
	Scope     string    `json:"scope" doc:"What the value is: Ip, Range, or a scope of a scenario."`
	Type      string    `json:"type" doc:"Kind of decision, for example ban."`
	Origin    string    `json:"origin" doc:"Where it comes from: crowdsec for a scenario, gateway for an operator, cscli for the tool of that name, CAPI for the central API."`
	Reason    string    `json:"reason" doc:"The scenario, or what the operator wrote."`
	ExpiresAt time.Time `json:"expires_at" doc:"When it ends."`
	Enforced  bool      `json:"enforced" doc:"Whether the kernel drops every packet from it now, also those that would be forwarded. Only packets from single addresses are dropped."`
}

// Decisions lists the decisions in force.
type Decisions struct {
	Decisions []Decision `json:"decisions" doc:"Those that match, newest first."`
	Total     int        `json:"total" doc:"How many match, also those that are not shown."`
	Error     string     `json:"error" doc:"Why CrowdSec could not be asked; empty when it could."`
}

type Ban struct {
	Value    value.Addr `json:"value" required:"true" doc:"Address to ban. For a network, add a firewall rule: the firewall bouncer drops single addresses only."`
	Duration *Duration  `json:"duration" doc:"Duration; by default the one in the settings."`
	Reason   value.Line `json:"reason" doc:"Why, for people; up to 200 characters."`
	Confirm  bool       `json:"confirm" doc:"Ban it even if an administrator is logged in from there."`
}

func (b *Ban) Validate() error {
	var c check.List
	c.That(utf8.RuneCountInString(b.Reason.String()) <= noteMost, "reason", "must have at most %d characters", noteMost)
	return c.Err()
}

type decisionQuery struct {
	Search string `query:"search" doc:"Part of the value or the reason; case does not matter. With an address, also the networks that it is in."`
	Origin string `query:"origin" doc:"Where they come from."`
	Limit  *int   `query:"limit" doc:"How many, at most 5000; 500 by default."`
}

func (q *decisionQuery) Validate() error {
	var c check.List
	c.That(q.Limit == nil || *q.Limit >= 1 && *q.Limit <= decisionsMost, "limit", "must be between 1 and %d", decisionsMost)
	return c.Err()
}

func (r *Room) mountDecisions() {
	httpd.Handle(r.Router, http.MethodGet, "/ids/decisions", httpd.Read, tag.Doc("ids.decision.list", "List the decisions in force"),
		func(c *httpd.Call, in decisionQuery) (Decisions, error) { return r.decisions(c, in), nil })
	create := tag.Audited("ids.decision.create", "Ban an address")
	create.Creates = "/ids/decisions/{id}"
	httpd.Handle(r.Router, http.MethodPost, "/ids/decisions", httpd.Write.Here(), create,
		func(c *httpd.Call, in struct{ Body Ban }) (Decision, error) { return r.ban(c, in.Body) })
	httpd.Handle(r.Router, http.MethodDelete, "/ids/decisions/{id}", httpd.Write.Here(), tag.Audited("ids.decision.delete", "End a decision"),
		func(c *httpd.Call, in struct {
			ID int64 `path:"id" doc:"Number of the decision."`
		}) (resource.Deleted, error) {
			return resource.Deleted{ID: strconv.FormatInt(in.ID, 10)}, r.unban(c, in.ID)
		})
}

// decided asks CrowdSec for decisions.
func (r *Room) decided(ctx context.Context, query url.Values) ([]Decision, error) {
	var raw []struct {
		ID       int64  `json:"id"`
		Value    string `json:"value"`
		Scope    string `json:"scope"`
		Type     string `json:"type"`
		Origin   string `json:"origin"`
		Scenario string `json:"scenario"`
		Duration string `json:"duration"`
	}
	if err := r.asRead(ctx, crowdsec.Question{Verb: crowdsec.Decisions, Query: query}, &raw); err != nil {
		return nil, err
	}
	now := r.Clock.Now()
	list := make([]Decision, 0, len(raw))
	for _, d := range raw {
		left, err := time.ParseDuration(d.Duration)
		if err != nil || left <= 0 {
			continue // it has expired
		}
		list = append(list, Decision{
			ID: d.ID, Value: d.Value, Scope: d.Scope, Type: d.Type, Origin: d.Origin, Reason: d.Scenario, ExpiresAt: now.Add(left).UTC().Truncate(time.Second),
		})
	}
	slices.SortFunc(list, func(a, b Decision) int { return cmp.Compare(b.ID, a.ID) })
	return list, nil
}

// inForce lists all decisions. Callers share the list, so they must not change it.
func (r *Room) inForce(ctx context.Context) ([]Decision, error) {
	return r.asked.decisions.Ask(ctx, "", func(ctx context.Context) ([]Decision, error) { return r.decided(ctx, nil) })
}

func (r *Room) decisions(ctx context.Context, q decisionQuery) Decisions {
	ctx, cancel := host.Asking(ctx)
	defer cancel()
	list, err := r.inForce(ctx)
	if err != nil {
		return Decisions{Decisions: []Decision{}, Error: problem(ctx, err)}
	}
	address, _ := netip.ParseAddr(q.Search)
	search := strings.ToLower(q.Search)
	list = slices.DeleteFunc(slices.Clone(list), func(d Decision) bool {
		if q.Origin != "" && d.Origin != q.Origin {
			return true
		}
		return !d.Covers(address) && !strings.Contains(strings.ToLower(d.Value+"\n"+d.Reason), search)
	})
	limit := decisionsShown
	if q.Limit != nil {
		limit = *q.Limit
	}
	page := list[:min(len(list), limit)]
	r.prove(ctx, page)
	return Decisions{Decisions: page, Total: len(list)}
}

// prove asks the kernel which decisions it enforces. If it cannot be asked, none is proven.
func (r *Room) prove(ctx context.Context, list []Decision) {
	var of []netip.Addr
	for _, d := range list {
		if a, ok := d.drops(); ok {
			of = append(of, a)
		}
	}
	if len(of) == 0 {
		return
	}
	dropped, err := r.Host.DetectionDropped(ctx, of)
	if err != nil {
		return
	}
	slices.SortFunc(dropped, netip.Addr.Compare)
	for i, d := range list {
		if a, ok := d.drops(); ok {
			_, list[i].Enforced = slices.BinarySearchFunc(dropped, a, netip.Addr.Compare)
		}
	}
}

// drops returns the address whose packets the bouncer drops for a decision, if the bouncer enforces this kind.
func (d Decision) drops() (netip.Addr, bool) {
	n, ok := d.network()
	return n.Addr(), ok && n.IsSingleIP() && strings.EqualFold(d.Scope, "ip") && d.Type == "ban"
}

// network returns the subject of a decision, if it is an address or a network.
func (d Decision) network() (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(d.Value); err == nil {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	n, err := netip.ParsePrefix(d.Value)
	return n, err == nil
}

// Covers reports whether a decision applies to an address.
func (d Decision) Covers(a netip.Addr) bool {
	n, ok := d.network()
	return ok && a.IsValid() && n.Contains(a.Unmap())
}

// ban makes an operator's ban.
func (r *Room) ban(c *httpd.Call, b Ban) (Decision, error) {
	if err := r.mayBan(c, b); err != nil {
		return Decision{}, err
	}
	settings, err := r.settings.Load(c, r.DB)
	if err != nil {
		return Decision{}, err
	}
	length := settings.BanDuration
	if b.Duration != nil && !b.Duration.IsZero() {
		length = *b.Duration
	}
	reason := b.Reason.String()
	if reason == "" {
		reason = "banned by " + actor.From(c).Name
	}
	var made Decision
	err = r.Audit.Do(c, "ids.decision.create", b.Value.String(), func() (any, error) {
		details := map[string]any{"duration": length.String(), "reason": reason, "confirmed": b.Confirm}
		made, err = r.decide(c, b.Value, length, reason)
		return details, err
	})
	if err == nil && settings.Enabled && settings.Blocking {
		r.awaitKernel(c, &made)
	}
	return made, err
}

// awaitKernel waits briefly until the kernel enforces a decision, which is valid either way.
func (r *Room) awaitKernel(ctx context.Context, d *Decision) {
	ctx, cancel := context.WithTimeout(ctx, enforceWithin)
	defer cancel()
	one := []Decision{*d}
	_ = until(ctx, enforceAgain, func() (bool, error) {
		r.prove(ctx, one)
		return one[0].Enforced, nil
	})
	*d = one[0]
}

// mayBan refuses a ban of an allowed address, and asks for confirmation before banning an operator's.
func (r *Room) mayBan(c *httpd.Call, b Ban) error {
	allowed, err := r.allowed(c)
	if err != nil {
		return err
	}
	address := b.Value.Netip()
	if address.IsUnspecified() || address.IsMulticast() {
		return fault.Field("value", "must be the address of a host")
	}
	if i := slices.IndexFunc(allowed, func(n netip.Prefix) bool { return n.Contains(address) }); i >= 0 {
		return fault.Field("value", "is never banned, because %s belongs to the gateway, is a trusted proxy of the WAF, or is on the allow-list", allowed[i])
	}
	operators, err := r.deps.Operators(c)
	if err != nil {
		return err
	}
	if !b.Confirm && (address == c.Client() || slices.Contains(operators, address)) {
		refusal := fault.New(fault.Conflict, "An administrator is logged in from %s. Send confirm: true to ban it anyway.", address)
		refusal.Details = map[string]any{"address": address.String(), "yours": address == c.Client()}
		return refusal
	}
	return nil
}

// decide makes CrowdSec decide a ban, and returns it.
func (r *Room) decide(ctx context.Context, address value.Addr, length Duration, reason string) (Decision, error) {
	now := r.Clock.Now().UTC().Format(time.RFC3339)
	body, err := json.Marshal([]any{map[string]any{
		"scenario": "gateway/ban", "scenario_hash": "", "scenario_version": "", "message": reason, "events_count": 1, "events": []any{},
		"start_at": now, "stop_at": now, "capacity": 0, "leakspeed": "0", "simulated": false, "remediation": true,
		"source":    map[string]string{"scope": "Ip", "value": address.String(), "ip": address.String()},
		"decisions": []any{map[string]string{"type": "ban", "scope": "Ip", "value": address.String(), "duration": length.String(), "origin": byGateway, "scenario": reason}},
	}})
	if err != nil {
		return Decision{}, err
	}
	err = r.asMachine(ctx, crowdsec.Question{Verb: crowdsec.AlertAdd, Body: body}, nil)
	r.asked.forgetDecisions()
	if err != nil {
		return Decision{}, away(err)
	}
	list, err := r.decided(ctx, url.Values{"ip": {address.String()}})
	if err != nil {
		return Decision{}, away(err)
	}
	if i := slices.IndexFunc(list, func(d Decision) bool { return d.Origin == byGateway && d.Value == address.String() }); i >= 0 {
		return list[i], nil
	}
	return Decision{}, errors.New("CrowdSec accepted the ban but does not list it")
}

// away turns an error of CrowdSec into a fault for the caller.
func away(err error) error {
	switch {
	case errors.Is(err, host.ErrNotInstalled):
		return fault.Wrap(fault.Unavailable, err, "CrowdSec is not installed.")
	case errors.Is(err, host.ErrNotRunning):
		return fault.Wrap(fault.Unavailable, err, "CrowdSec is not running. Turn on intrusion detection first.")
	}
	return err
}

// unban ends a decision for an operator.
func (r *Room) unban(c *httpd.Call, id int64) error {
	list, err := r.decided(c, nil)
	if err != nil {
		return away(err)
	}
	i := slices.IndexFunc(list, func(d Decision) bool { return d.ID == id })
	if i < 0 {
		return fault.New(fault.NotFound, "This decision does not exist.")
	}
	return r.Audit.Do(c, "ids.decision.delete", list[i].Value, func() (any, error) {
		return map[string]any{"id": list[i].ID, "origin": list[i].Origin, "reason": list[i].Reason}, r.end(c, list[i])
	})
}

func (r *Room) end(ctx context.Context, d Decision) error {
	err := r.asMachine(ctx, crowdsec.Question{Verb: crowdsec.DecisionRemove, ID: d.ID}, nil)
	r.asked.forgetDecisions()
	if err != nil {
		return fmt.Errorf("ending the decision about %s: %w", d.Value, away(err))
	}
	return nil
}
