package waf

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/watch"
	"edge.internal/gateway/internal/waf/domain"
)

var (
	agentDown = &alarm.Kind{
		Name: "waf.agent.down", Severity: alarm.Error, Mutable: true,
		Meaning: "The web application firewall does not inspect requests.",
		After:   func(*alarm.Limits) time.Duration { return restarts },
	}
	uninspected = &alarm.Kind{
		Name: "waf.uninspected", Severity: alarm.Warning, Mutable: true,
		Meaning: "The web application firewall did not inspect some requests of a domain.",
		Unless:  agentDown, // every domain then has uninspected requests
	}
)

// Check finds requests that should be inspected but are not.
var Check = watch.Check{
	Name: "watch.waf", Title: "Check that requests are inspected", Every: 5 * time.Second, Later: true,
	Kinds: []*alarm.Kind{agentDown, uninspected}, Conditions: conditions,
}

// restarts is how long the agent may take to restart. Requests that are not inspected for no longer than that are in its records, and
// need no alarm.
const restarts = 10 * time.Second

func conditions(ctx context.Context, s *watch.Scene) (found []alarm.Alarm, err error) {
	rows, err := watch.Get[[]Config](ctx, s, "/waf/configs")
	if err != nil {
		return nil, err
	}
	agent, err := watch.Get[Agent](ctx, s, "/waf/status")
	if err != nil {
		return nil, err
	}
	if agent.State != "up" {
		s.Since(agentDown, "") // also if no domain needs it
		if a := down(rows, strings.TrimSpace(agent.Reason)); a != nil {
			found = append(found, *a)
		}
		return found, nil
	}
	missed, err := missed(ctx, s)
	for _, m := range missed {
		if m.last.Sub(m.first) < restarts {
			continue
		}
		a := alarm.Alarm{Kind: uninspected, Key: m.id, Subject: "Domain " + m.name, Message: fmt.Sprintf("Within a minute, at least %d requests passed without inspection. Why: %s.", m.passed, m.reason)}
		if m.refused > 0 {
			a.Severity = alarm.Critical
			a.Message = fmt.Sprintf("Within a minute, at least %d requests were refused because they could not be inspected. Why: %s.", m.refused, m.reason)
		}
		found = append(found, a)
	}
	return found, err
}

// down returns the alarm for an agent that is down; nil if no domain needs it.
func down(rows []Config, reason string) *alarm.Alarm {
	blocking, detecting := 0, 0
	for i := range rows {
		switch c := &rows[i]; {
		case !c.Enabled:
		case c.Mode == domain.Blocking:
			blocking++
		default:
			detecting++
		}
	}
	a := &alarm.Alarm{Kind: agentDown, Severity: alarm.Warning, Subject: "Web application firewall"}
	switch {
	case blocking > 0:
		a.Severity = alarm.Critical
		a.Message = reason + fmt.Sprintf("\n%d domains are in blocking mode. Their requests are refused, unless the domain is set to let requests pass.", blocking)
	case detecting > 0:
		a.Message = reason + fmt.Sprintf("\nRequests to %d domains pass without inspection.", detecting)
	default:
		return nil
	}
	return a
}

// gapSum counts the uninspected requests of a domain.
type gapSum struct {
	id, name        string
	passed, refused int
	reason          string // of the last one
	first, last     time.Time
}

// missed counts the uninspected requests of the last minute, by domain.
func missed(ctx context.Context, s *watch.Scene) (list []gapSum, err error) {
	records, err := watch.Get[[]Alert](ctx, s, "/waf/alerts?"+url.Values{
		"action": {unavailable}, "limit": {"1000"}, "since": {s.Now.Add(-time.Minute).UTC().Format(time.RFC3339)},
	}.Encode())
	for _, a := range records { // the newest first
		if a.DomainID == nil {
			continue
		}
		values := map[string]string{}
		for _, d := range a.Data {
			values[d.Variable] = d.Value
		}
		requests, _ := strconv.Atoi(values["requests"])
		refused, _ := strconv.Atoi(values["refused"])
		i := slices.IndexFunc(list, func(g gapSum) bool { return g.id == a.DomainID.String() })
		if i < 0 {
			i = len(list)
			list = append(list, gapSum{id: a.DomainID.String(), name: a.Domain, reason: values["reason"], last: a.CreatedAt})
		}
		list[i].passed += requests - refused
		list[i].refused += refused
		list[i].first = a.CreatedAt
	}
	return list, err
}
