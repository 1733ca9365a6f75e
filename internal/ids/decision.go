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

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

const (
	// decisionsShown and decisionsMost are how many decisions one answer has: unless the caller says, and at most.
	decisionsShown = 500
	decisionsMost  = 5000
	// byGateway is where a decision of an operator comes from, and byTool one that was made with cscli. Nobody but the operator ends these.
	byGateway = "gateway"
	byTool    = "cscli"
)

// Decision is what was decided about an address or a network.
type Decision struct {
	ID        int64     `json:"id" doc:"Its number at CrowdSec."`
	Value     string    `json:"value" doc:"Whom it is about: an address, a network, or what else its scope says."`
	Scope     string    `json:"scope" doc:"What the value is: Ip, Range, or a scope of a scenario."`
	Type      string    `json:"type" doc:"What is decided, such as ban."`
	Origin    string    `json:"origin" doc:"Where it comes from: crowdsec for a scenario, gateway for an operator, cscli for the tool of that name, CAPI for the central API."`
	Reason    string    `json:"reason" doc:"The scenario, or what the operator wrote."`
	ExpiresAt time.Time `json:"expires_at" doc:"When it ends."`
	Enforced  bool      `json:"enforced" doc:"Whether the firewall bouncer can drop the packets that it is about. It drops those of single addresses alone."`
}

// Decisions are what is decided now.
type Decisions struct {
	Decisions []Decision `json:"decisions" doc:"Those that match, newest first."`
	Total     int        `json:"total" doc:"How many match, also those that are not shown."`
	Error     string     `json:"error" doc:"Why CrowdSec could not be asked; empty when it could."`
}

// Ban is a ban to decide.
type Ban struct {
	Value    value.Addr `json:"value" required:"true" doc:"Address to ban. For a network, write a rule of the packet filter: the firewall bouncer drops single addresses alone."`
	Duration *Duration  `json:"duration" doc:"How long it lasts; that of the settings when there is none."`
	Reason   value.Line `json:"reason" maxLength:"200" doc:"Why, for people."`
	Confirm  bool       `json:"confirm" doc:"Ban it although an administrator is logged in from there."`
}

func (r *Room) mountDecisions() {
	httpd.Handle(r.Router, http.MethodGet, "/ids/decisions", httpd.Read, doc("ids.decision.list", "What is decided now"),
		func(c *httpd.Call, in struct {
			Search string `query:"search" doc:"Part of the value or the reason; case does not matter. With an address, also the networks that it is in."`
			Origin string `query:"origin" doc:"Where they come from."`
			Limit  int    `query:"limit" minimum:"1" maximum:"5000" doc:"How many; 500 when there is none."`
		}) (Decisions, error) {
			return r.decisions(c, in.Search, in.Origin, in.Limit), nil
		})
	create := audited("ids.decision.create", "Ban an address")
	create.Creates = true
	httpd.Handle(r.Router, http.MethodPost, "/ids/decisions", httpd.Write, create,
		func(c *httpd.Call, in struct{ Body Ban }) (Decision, error) { return r.ban(c, in.Body) })
	httpd.Handle(r.Router, http.MethodDelete, "/ids/decisions/{id}", httpd.Write, audited("ids.decision.delete", "End a decision"),
		func(c *httpd.Call, in struct {
			ID string `path:"id" doc:"Number of the decision."`
		}) (resource.Deleted, error) {
			return resource.Deleted{ID: in.ID}, r.unban(c, in.ID)
		})
}

// decided asks CrowdSec for decisions.
func (r *Room) decided(ctx context.Context, query url.Values) ([]Decision, error) {
	var said []struct {
		ID       int64  `json:"id"`
		Value    string `json:"value"`
		Scope    string `json:"scope"`
		Type     string `json:"type"`
		Origin   string `json:"origin"`
		Scenario string `json:"scenario"`
		Duration string `json:"duration"`
	}
	if err := r.asRead(ctx, host.DetectionQuestion{Verb: host.DetectionDecisions, Query: query}, &said); err != nil {
		return nil, err
	}
	now := r.Clock.Now()
	list := make([]Decision, 0, len(said))
	for _, d := range said {
		left, err := time.ParseDuration(d.Duration)
		if err != nil || left <= 0 {
			continue // it is over
		}
		list = append(list, Decision{
			ID: d.ID, Value: d.Value, Scope: d.Scope, Type: d.Type, Origin: d.Origin, Reason: d.Scenario, ExpiresAt: now.Add(left).UTC().Truncate(time.Second),
			Enforced: strings.EqualFold(d.Scope, "ip") && d.Type == "ban",
		})
	}
	slices.SortFunc(list, func(a, b Decision) int { return cmp.Compare(b.ID, a.ID) })
	return list, nil
}

func (r *Room) decisions(ctx context.Context, search, origin string, limit int) Decisions {
	ctx, cancel := host.Asking(ctx)
	defer cancel()
	list, err := r.decided(ctx, nil)
	if err != nil {
		return Decisions{Decisions: []Decision{}, Error: told(err)}
	}
	address, _ := netip.ParseAddr(search)
	search = strings.ToLower(search)
	list = slices.DeleteFunc(list, func(d Decision) bool {
		if origin != "" && d.Origin != origin {
			return true
		}
		return !d.covers(address) && !strings.Contains(strings.ToLower(d.Value+"\n"+d.Reason), search)
	})
	if limit == 0 {
		limit = decisionsShown
	}
	return Decisions{Decisions: list[:min(len(list), limit, decisionsMost)], Total: len(list)}
}

// network is what a decision is about, if that is an address or a network.
func (d Decision) network() (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(d.Value); err == nil {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	n, err := netip.ParsePrefix(d.Value)
	return n, err == nil
}

func (d Decision) covers(a netip.Addr) bool {
	n, ok := d.network()
	return ok && a.IsValid() && n.Contains(a.Unmap())
}

// ban decides a ban for an operator.
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
	return made, err
}

// mayBan complains about a ban of who is never banned, and asks before one of who is at work here.
func (r *Room) mayBan(c *httpd.Call, b Ban) error {
	allowed, err := r.allowed(c)
	if err != nil {
		return err
	}
	address := b.Value.Netip()
	if address.IsUnspecified() || address.IsMulticast() {
		return fault.Field("value", "must be the address of a machine")
	}
	if i := slices.IndexFunc(allowed, func(n netip.Prefix) bool { return n.Contains(address) }); i >= 0 {
		return fault.Field("value", "is never banned: %s belongs to the gateway or is on the allow-list", allowed[i])
	}
	operators, err := r.deps.Operators(c)
	if err != nil {
		return err
	}
	if !b.Confirm && (address == c.Client() || slices.Contains(operators, address)) {
		refusal := fault.New(fault.Conflict, "An administrator is logged in from %s. Send confirm: true to ban it all the same.", address)
		refusal.Details = map[string]any{"address": address.String(), "yours": address == c.Client()}
		return refusal
	}
	return nil
}

// decide has CrowdSec decide a ban, and returns it.
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
	if err := r.asMachine(ctx, host.DetectionQuestion{Verb: host.DetectionAlertAdd, Body: body}, nil); err != nil {
		return Decision{}, away(err)
	}
	list, err := r.decided(ctx, url.Values{"ip": {address.String()}})
	if err != nil {
		return Decision{}, away(err)
	}
	if i := slices.IndexFunc(list, func(d Decision) bool { return d.Origin == byGateway && d.Value == address.String() }); i >= 0 {
		return list[i], nil
	}
	return Decision{}, errors.New("CrowdSec takes the ban and does not list it")
}

// away is an error about asking CrowdSec, for who wanted it to do something.
func away(err error) error {
	switch {
	case errors.Is(err, host.ErrNotInstalled):
		return fault.Wrap(fault.Unavailable, err, "CrowdSec is not installed")
	case errors.Is(err, host.ErrNotRunning):
		return fault.Wrap(fault.Unavailable, err, "CrowdSec does not run: switch intrusion detection on first")
	}
	return err
}

// unban ends a decision for an operator.
func (r *Room) unban(c *httpd.Call, id string) error {
	list, err := r.decided(c, nil)
	if err != nil {
		return away(err)
	}
	number, _ := strconv.ParseInt(id, 10, 64)
	i := slices.IndexFunc(list, func(d Decision) bool { return d.ID == number && strconv.FormatInt(d.ID, 10) == id })
	if i < 0 {
		return fault.New(fault.NotFound, "there is no such decision")
	}
	return r.Audit.Do(c, "ids.decision.delete", list[i].Value, func() (any, error) {
		return map[string]any{"id": list[i].ID, "origin": list[i].Origin, "reason": list[i].Reason}, r.end(c, list[i])
	})
}

// end ends a decision.
func (r *Room) end(ctx context.Context, d Decision) error {
	err := r.asMachine(ctx, host.DetectionQuestion{Verb: host.DetectionDecisionRemove, ID: d.ID}, nil)
	if err != nil {
		return fmt.Errorf("ending the decision about %s: %w", d.Value, away(err))
	}
	return nil
}
