package waf

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/wire"
	"edge.internal/gateway/internal/waf/domain"
	"edge.internal/gateway/internal/waf/engine"
)

// Proposal is the narrowest way to let a request pass, with its overall effect. Nothing of it is stored.
type Proposal struct {
	Exclusions []domain.Exclusion `json:"exclusions" doc:"All exclusions that the request needs: each rule that contributed, at the request's path and not below it, for the parameters that it matched; the whole rule if it matched something else."`
	Notes      []string           `json:"notes" doc:"What to know before it is saved."`
	Replay     *Replay            `json:"replay" doc:"The kept request, inspected again; null if it was not kept."`
	Attacks    Attacks            `json:"attacks" doc:"The built-in attacks, sent to the same path, in each of the excluded parameters."`
}

// Replay is the kept request, inspected with the domain's settings as if in blocking mode.
type Replay struct {
	Before Outcome `json:"before" doc:"Without the exclusions."`
	After  Outcome `json:"after" doc:"With them."`
}

// Outcome is the result of an inspection.
type Outcome struct {
	Refused bool  `json:"refused" doc:"The request is refused in blocking mode."`
	Score   int   `json:"score" doc:"Total score."`
	Rules   []int `json:"rules" doc:"The rules that match."`
}

// Attacks is the result of trying the built-in attacks.
type Attacks struct {
	Total   int      `json:"total" doc:"How many of them are refused without the exclusions."`
	Refused int      `json:"refused" doc:"How many of these are still refused with all of them."`
	Passing []string `json:"passing" doc:"Names of those that pass in at least one of the parameters."`
}

// Forecast lists what blocking mode would have blocked.
type Forecast struct {
	Days     int            `json:"days" doc:"How far it looks back."`
	Since    *time.Time     `json:"since" doc:"Since when the domain's requests are inspected; null if they are not."`
	Requests int64          `json:"requests" doc:"Requests that would have been refused."`
	Clients  int64          `json:"clients" doc:"Clients that they came from."`
	Rules    []ForecastRule `json:"rules" doc:"The rules that they matched."`
	Quiet    bool           `json:"quiet" doc:"There were none in the last 7 days."`
}

type ForecastRule struct {
	RuleID   int    `json:"rule_id" doc:"The rule."`
	Message  string `json:"message" doc:"What it says."`
	Requests int64  `json:"requests" doc:"Requests that it matched."`
	Clients  int64  `json:"clients" doc:"Clients that they came from."`
}

const (
	// replayWithin limits the inspection of the request and of all attacks.
	replayWithin = 30 * time.Second
	// mostExclusions is how many can be saved at once.
	mostExclusions = 100
	// mostParameters is the maximum number of parameters for which a rule is excluded by name. A rule that matches more is excluded as a
	// whole.
	mostParameters = 10
	// mostReplays is how often the request is inspected again to find out what else it needs.
	mostReplays = 10
	// responseRules is where the ids of rules about responses begin.
	responseRules = 950_000
	// threshold is the score from which the core rule set blocks a request.
	threshold = 5
	// quietFor is how long nothing may have happened.
	quietFor = 7 * 24 * time.Hour
	// someDays is how far a forecast looks back by default.
	someDays, mostDays = 7, 30
)

type alertInput struct {
	ID uuid.UUID `path:"id" doc:"Id of the record."`
}

func (r *Room) mountTuning() {
	httpd.Handle(r.Router, http.MethodPost, "/waf/alerts/{id}/propose", httpd.AdminRead.Here(), tag.Doc("waf.alert.propose", "Propose the narrowest exclusions that let the request of an alert pass, and test them"),
		func(c *httpd.Call, in alertInput) (Proposal, error) { return r.propose(c, in.ID) })
	exclude := tag.Doc("waf.alert.exclude", "Add the exclusions for a legitimate request")
	exclude.Audit = "waf.config.update"
	for _, id := range feeds {
		exclude.Feeds = append(exclude.Feeds, string(id))
	}
	httpd.Handle(r.Router, http.MethodPost, "/waf/alerts/{id}/exclude", httpd.Write.Here(), exclude,
		func(c *httpd.Call, in struct {
			ID   uuid.UUID `path:"id" doc:"Id of the record."`
			Body Exclude
		}) (wire.Encoded[Config], error) {
			return r.exclude(c, in.ID, in.Body)
		})
	httpd.Handle(r.Router, http.MethodGet, "/waf/configs/{id}/forecast", httpd.Read, tag.Doc("waf.forecast", "What blocking mode would have refused in the last days"),
		func(c *httpd.Call, in struct {
			ID   uuid.UUID `path:"id" doc:"Id of the domain."`
			Days int       `query:"days" doc:"Days to look back: 1 to 30, 7 by default."`
		}) (Forecast, error) {
			return r.forecast(c, in.ID, in.Days)
		})
}

// Exclude lists the exclusions to save.
type Exclude struct {
	Exclusions []domain.Exclusion `json:"exclusions" required:"true" doc:"As they were proposed, or narrower or wider. They are stored by one change."`
	Note       string             `json:"note" maxLength:"1000" doc:"Why; stored with each one that has no note of its own."`
}

// configOf returns the configuration of a record's domain.
func (r *Room) configOf(ctx context.Context, a Alert) (*Config, error) {
	if a.RuleID == 0 || a.DomainID == nil {
		return nil, fault.New(fault.Conflict, "This alert was not raised by a rule, so there is nothing to exclude.")
	}
	c, err := r.configs.Get(ctx, r.DB, *a.DomainID)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.New(fault.Conflict, "The domain of this alert no longer exists.")
	}
	return c, err
}

// tuning collects what to exclude for one request.
type tuning struct {
	path       string // only this path; empty for all
	exclusions []domain.Exclusion
	notes      []string
}

// narrowest returns what to exclude so that the rules that contributed to an alert no longer match the request: those that decided, or
// all that matched if none decided.
func narrowest(a Alert, records []Alert) (*tuning, error) {
	t := &tuning{}
	path, plain := engine.PlainPath(a.URI)
	if plain {
		t.path = path
	} else {
		t.notes = append(t.notes, "Servers may read the path of this request in different ways, so the exclusions cannot be limited to it and hold for the whole site.")
	}
	records = slices.DeleteFunc(slices.Clone(records), func(x Alert) bool { return !engine.Excludable(x.RuleID) })
	decided := slices.ContainsFunc(records, func(x Alert) bool { return x.Deciding })
	for _, x := range records {
		if x.Deciding || !decided {
			t.leaveOut(x.RuleID, x.Data)
		}
	}
	if len(t.exclusions) == 0 {
		return nil, fault.New(fault.Conflict, "Rule %d is part of the engine and cannot be excluded.", a.RuleID)
	}
	return t, nil
}

// leaveOut adds what is needed for a rule that matched these parts of the request. It reports whether that was anything.
func (t *tuning) leaveOut(rule int, parts []Datum) bool {
	whole := domain.Exclusion{RuleID: rule, Path: t.path, Exact: t.path != ""}
	if !engine.Excludable(rule) || slices.Contains(t.exclusions, whole) {
		return false
	}
	list := slices.DeleteFunc(slices.Clone(t.exclusions), func(x domain.Exclusion) bool { return x.RuleID != rule })
	before, why := len(list), ""
	if len(parts) == 0 {
		why = "matched a part of the request that is not a parameter"
	}
	for _, d := range parts {
		x := whole
		x.Variable, x.Parameter = d.Variable, d.Key
		if !engine.ExcludableParameter(rule, d.Variable, d.Key) {
			why = "matched a part of the request that is not a parameter"
		} else if !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	if len(list) > mostParameters {
		why = fmt.Sprintf("matched more than %d parameters", mostParameters)
	}
	if why != "" {
		list = []domain.Exclusion{whole}
		t.notes = append(t.notes, fmt.Sprintf("Rule %d %s, so the whole rule is excluded there.", rule, why))
	} else if len(list) == before {
		return false
	}
	t.exclusions = append(slices.DeleteFunc(t.exclusions, func(x domain.Exclusion) bool { return x.RuleID == rule }), list...)
	return true
}

// more adds what a request still needs, and reports whether there was anything. A rule that blocks a request at once prevents others from
// being evaluated, and a record has only some of the parameters.
func (t *tuning) more(v *engine.Verdict) (found bool) {
	for _, m := range v.Matches {
		parts := make([]Datum, len(m.Data))
		for i, d := range m.Data {
			parts[i] = Datum(d)
		}
		found = t.leaveOut(m.Rule, parts) || found
	}
	return found
}

func outcome(v *engine.Verdict) Outcome {
	o := Outcome{Refused: v.Deny, Score: v.Score, Rules: []int{}}
	for _, m := range v.Matches {
		if !slices.Contains(o.Rules, m.Rule) {
			o.Rules = append(o.Rules, m.Rule)
		}
	}
	return o
}

func (r *Room) propose(ctx context.Context, id uuid.UUID) (p Proposal, err error) {
	d, err := r.detail(ctx, id)
	if err != nil {
		return p, err
	}
	c, err := r.configOf(ctx, d.Alert)
	if err != nil {
		return p, err
	}
	t, err := narrowest(d.Alert, d.Records)
	if err != nil {
		return p, err
	}
	set, err := r.engines()
	if err != nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(ctx, replayWithin)
	defer cancel()
	// It takes a core for about a second, so only one runs at a time.
	select {
	case r.proposing <- struct{}{}:
		defer func() { <-r.proposing }()
	case <-ctx.Done():
		return p, fault.New(fault.Unavailable, "Other exclusions are being tested. Try again in a moment.")
	}
	as := *c
	as.Mode = domain.Blocking
	before, closeBefore, err := r.settings(set, &as)
	if err != nil {
		return p, err
	}
	defer func() { _ = closeBefore() }()
	with := func(list []domain.Exclusion) (engine.Settings, error) {
		s, closed, err := r.settings(set, &as, list...)
		if err != nil {
			return s, err
		}
		return s, closed() // before holds the engine
	}
	after, err := with(t.exclusions)
	if err != nil {
		return p, err
	}
	if d.Request == nil {
		t.notes = append(t.notes, "The request was not stored, so it could not be inspected again.")
	} else {
		q := d.Request.request(d.Alert)
		was, err := set.Inspect(ctx, q, before)
		if err != nil {
			return p, err
		}
		now, err := set.Inspect(ctx, q, after)
		for n := 0; err == nil && now.Deny && n < mostReplays && t.more(&now); n++ {
			if after, err = with(t.exclusions); err == nil {
				now, err = set.Inspect(ctx, q, after)
			}
		}
		if err != nil {
			return p, err
		}
		p.Replay = &Replay{Before: outcome(&was), After: outcome(&now)}
		t.notes = append(t.notes, p.Replay.notes(t.exclusions, d.Request)...)
	}
	p.Exclusions, p.Notes = t.exclusions, t.notes
	if p.Notes == nil {
		p.Notes = []string{}
	}
	p.Attacks, err = try(ctx, set, before, after, p.Exclusions)
	return p, err
}

// try sends the attacks to each excluded parameter, with and without the exclusions.
func try(ctx context.Context, set *engine.Set, before, after engine.Settings, exclusions []domain.Exclusion) (a Attacks, err error) {
	var places []domain.Exclusion
	for _, x := range exclusions {
		if x.RuleID = 0; !slices.Contains(places, x) {
			places = append(places, x)
		}
	}
	a.Passing = []string{}
	for _, x := range attacks {
		counts, passes := false, false
		for _, at := range places {
			for _, q := range x.requests(at) {
				was, err := set.Inspect(ctx, q, before)
				if err != nil {
					return a, err
				}
				if !was.Deny {
					continue
				}
				now, err := set.Inspect(ctx, q, after)
				if err != nil {
					return a, err
				}
				counts, passes = true, passes || !now.Deny
			}
		}
		switch {
		case passes:
			a.Total++
			a.Passing = append(a.Passing, x.name)
		case counts:
			a.Total++
			a.Refused++
		}
	}
	return a, nil
}

// notes explain what the replay does not cover.
func (p *Replay) notes(exclusions []domain.Exclusion, kept *KeptRequest) (list []string) {
	var silent []string
	responses := false
	for _, x := range exclusions {
		if x.RuleID >= responseRules {
			responses = true
			continue
		}
		if id := strconv.Itoa(x.RuleID); !slices.Contains(p.Before.Rules, x.RuleID) && !slices.Contains(silent, id) {
			silent = append(silent, id)
		}
	}
	if len(silent) > 0 {
		why := "The settings of the domain have changed since then."
		switch {
		case kept.Masked:
			why = "Its secrets are masked, so the replay cannot show the effect of all exclusions."
		case kept.BodyTruncated:
			why = "Only the beginning of its body was stored, so the replay cannot show the effect of all exclusions."
		}
		list = append(list, "The stored request no longer matches: "+strings.Join(silent, ", ")+". "+why)
	}
	if responses {
		list = append(list, "Responses are not stored, so the replay cannot show the effect of exclusions for them.")
	}
	if p.After.Refused {
		list = append(list, "Other rules, which cannot be excluded, still refuse the request.")
	}
	return list
}

func (k *KeptRequest) request(a Alert) *engine.Request {
	q := &engine.Request{ID: a.RequestID, Method: k.Method, URI: k.URI, Version: k.Version, Body: k.body, Complete: !k.BodyTruncated}
	client, err := netip.ParseAddr(a.ClientIP)
	if err != nil {
		client = netip.IPv4Unspecified()
	}
	q.Source = netip.AddrPortFrom(client, 0)
	q.Destination = netip.AddrPortFrom(netip.IPv4Unspecified(), 443)
	for _, h := range k.Headers {
		q.Header = append(q.Header, engine.Field{Name: h.Name, Value: h.Value})
	}
	return q
}

func (r *Room) exclude(c *httpd.Call, id uuid.UUID, body Exclude) (wire.Encoded[Config], error) {
	a, err := r.alert(c, r.DB, id)
	if err != nil {
		return nil, err
	}
	was, err := r.configOf(c, a)
	if err != nil {
		return nil, err
	}
	if len(body.Exclusions) == 0 || len(body.Exclusions) > mostExclusions {
		return nil, fault.Field("exclusions", "must have 1 to %d items", mostExclusions)
	}
	add := slices.Clone(body.Exclusions)
	for i := range add {
		if add[i].Note == "" {
			add[i].Note = body.Note
		}
	}
	if err := r.knowsRules(was, &Config{Settings: domain.Settings{Exclusions: add}}); err != nil {
		return nil, err
	}
	change, outcome, err := r.configs.Amend(c, r.Resources, *a.DomainID, func(now *Config) error {
		list := slices.Clone(now.Exclusions)
		for _, x := range add {
			if !slices.ContainsFunc(list, x.Same) {
				list = append(list, x)
			}
		}
		if len(list) > mostStored {
			return fault.Field("exclusions", "must not bring the domain to more than %d", mostStored)
		}
		now.Exclusions = list
		return nil
	})
	if err != nil {
		return nil, err
	}
	resource.Applied(c, outcome, change)
	return wire.Encoded[Config](change.After), nil
}

// mostStored is the maximum number of exclusions of a domain, as in the field's tag.
const mostStored = 500

func (r *Room) forecast(ctx context.Context, domain uuid.UUID, days int) (f Forecast, err error) {
	if days == 0 {
		days = someDays
	}
	if days < 1 || days > mostDays {
		return f, fault.Field("days", "must be between 1 and %d", mostDays)
	}
	c, err := r.configs.Get(ctx, r.DB, domain)
	if err != nil {
		return f, err
	}
	f.Days, f.Since = days, c.EnabledSince
	now := r.Clock.Now()
	const would = ` FROM waf_alerts WHERE domain_id = $1 AND created_at >= $2 AND action = 'detected' AND (deciding OR score >= $3)`
	err = r.DB.Snapshot(ctx, func(tx *db.Tx) error {
		from := now.AddDate(0, 0, -days)
		if err := tx.QueryRow(ctx, `SELECT count(DISTINCT request_id), count(DISTINCT client_ip)`+would, domain, from, threshold).Scan(&f.Requests, &f.Clients); err != nil {
			return err
		}
		if f.Rules, err = read[ForecastRule](ctx, tx, `SELECT rule_id, max(message), count(DISTINCT request_id), count(DISTINCT client_ip)`+would+` GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT 50`, domain, from, threshold); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT NOT EXISTS (SELECT`+would+`)`, domain, now.Add(-quietFor), threshold).Scan(&f.Quiet)
	})
	return f, err
}
