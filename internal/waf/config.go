package waf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/waf/domain"
	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/seclang"
)

// Options for a body larger than the inspection limit.
const (
	refuse  = "refuse"
	inspect = "inspect"
)

// Config is a domain's configuration of the web application firewall.
type Config struct {
	resource.Meta
	DomainID     uuid.UUID  `json:"domain_id" readOnly:"true" db:"-" doc:"Domain that the configuration is for."`
	DomainName   string     `json:"domain" readOnly:"true" db:"-" doc:"Name of that domain."`
	Enabled      bool       `json:"enabled" doc:"Inspect the requests of the domain."`
	EnabledSince *time.Time `json:"enabled_since" readOnly:"true" doc:"Since when they are inspected; null while they are not."`
	domain.Settings
	ExclusionNotes   map[string]string `json:"exclusion_notes" doc:"Why each of these rules is excluded, by id."`
	TrustedProxies   []value.Prefix    `json:"trusted_proxies" maxItems:"200" doc:"Proxies in front of the gateway. The gateway takes the client's address from their X-Forwarded-For header."`
	FailOpen         *bool             `json:"fail_open" doc:"Let requests pass that could not be inspected. Null lets them pass in detection mode and refuses them in blocking mode."`
	Oversized        string            `json:"oversized" enum:"refuse,inspect" doc:"Whether larger bodies are refused with 413, or inspected up to there and let through. In detection mode they always pass."`
	InspectResponses bool              `json:"inspect_responses" doc:"Inspect the beginning of responses as well, for data that servers should not send: database errors, source code, web shells. Responses are then not compressed and start a little later."`
}

// Maximum lengths of the texts in an exclusion.
const maxPath, maxName, maxNote = 2048, 200, 1000

func (c *Config) Label() string {
	if c.DomainName != "" {
		return c.DomainName
	}
	return c.ID.String()
}

func (c *Config) Validate() error {
	var list check.List
	if c.ExclusionNotes == nil {
		c.ExclusionNotes = map[string]string{}
	}
	for i, rule := range c.RuleExclusions {
		if _, err := engine.NewExclusion(rule, "", "", ""); err != nil {
			list.Add("rule_exclusions", "item %d: %s; rules of the core rule set have ids from 911000 to 948999 and from 950000 to 958999, your own from 1 to 99999", i+1, err)
		}
		list.That(!slices.Contains(c.RuleExclusions[:i], rule), "rule_exclusions", "contains rule %[2]d twice (item %[1]d)", i+1, rule)
	}
	for rule, note := range c.ExclusionNotes {
		id, err := strconv.Atoi(rule)
		list.That(err == nil && slices.Contains(c.RuleExclusions, id), "exclusion_notes", "%q is not the id of a rule that is left out.", rule)
		list.That(fits(note, maxNote), "exclusion_notes", "The note of rule %s must be text of at most %d bytes.", rule, maxNote)
	}
	for i := range c.Exclusions {
		x := &c.Exclusions[i]
		if !fits(x.Path, maxPath) || !fits(x.Variable, maxName) || !fits(x.Parameter, maxName) || !fits(x.Note, maxNote) {
			list.Add("exclusions", "item %d: a path has at most %d bytes, a name %d and a note %d, without control characters", i+1, maxPath, maxName, maxNote)
			continue
		}
		if _, err := x.Engine(); err != nil {
			list.Add("exclusions", "item %d: %s", i+1, err)
		}
		list.That(!slices.ContainsFunc(c.Exclusions[:i], x.Same), "exclusions", "contains item %d twice", i+1)
	}
	return list.Err()
}

// fits reports whether a text can be stored.
func fits(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
}

// failOpen reports whether requests pass that could not be inspected.
func (c *Config) failOpen() bool {
	if c.FailOpen == nil {
		return c.Mode == domain.Detection
	}
	return *c.FailOpen
}

func (r *Room) configKind() resource.Extension[Config] {
	return resource.Extension[Config]{
		Kind: resource.Kind[Config]{
			Name: "waf.config", Title: "WAF configuration", Path: "/waf/configs", Table: "waf_configs", Key: "domain_id", Order: "(SELECT name FROM " + r.deps.DomainTable + " WHERE id = domain_id)", Feeds: feeds,
			New: func() Config {
				return Config{Settings: domain.New(), ExclusionNotes: map[string]string{}, TrustedProxies: []value.Prefix{}, Oversized: refuse}
			},
			Unforeseen: unforeseen, Prepare: r.prepareConfig, Check: r.checkConfig, View: func(c *Config) { c.DomainID = c.ID },
			Join: r.nameDomains, Joins: []string{r.deps.DomainTable},
		},
		Of: r.deps.DomainTable,
	}
}

func (r *Room) nameDomains(ctx context.Context, q db.Querier, rows []*Config) error {
	names, err := r.deps.Domains(ctx, q)
	for _, c := range rows {
		c.DomainName = names[c.ID]
	}
	return err
}

// prepareConfig has the engine check the custom rules, and that the excluded rules exist.
func (r *Room) prepareConfig(_ context.Context, was, now *Config) (func(*Config), error) {
	if was == nil {
		was = &Config{}
	}
	rules, err := compiled(now)
	if err != nil {
		return nil, err
	}
	if rules != nil && now.CustomRules != was.CustomRules {
		set, err := r.engines()
		if err != nil {
			return nil, err
		}
		custom, err := set.Custom(rules)
		if err != nil {
			return nil, complaint(err)
		}
		if err := custom.Close(); err != nil {
			return nil, err
		}
	}
	return nil, r.knowsRules(was, now)
}

// compiled returns the compiled custom rules; nil if there are none.
func compiled(c *Config) (*seclang.Rules, error) {
	if c.CustomRules == "" {
		return nil, nil
	}
	rules, err := seclang.Compile(c.CustomRules)
	if err != nil {
		return nil, complaint(err)
	}
	return rules, nil
}

// complaint turns an error in custom rules into one for their author.
func complaint(err error) error {
	if wrong, ok := errors.AsType[*seclang.Error](err); ok {
		return fault.Field("custom_rules", "line %d: %s", wrong.Line, wrong.Cause)
	}
	return err
}

// knowsRules refuses newly excluded rules that do not exist. A later rule set may lack some of the stored ones.
func (r *Room) knowsRules(was, now *Config) error {
	fields := map[int]string{}
	for _, id := range now.RuleExclusions {
		if !slices.Contains(was.RuleExclusions, id) {
			fields[id] = "rule_exclusions"
		}
	}
	for _, x := range now.Exclusions {
		if !slices.ContainsFunc(was.Exclusions, x.Same) {
			fields[x.RuleID] = "exclusions"
		}
	}
	var list check.List
	for id, field := range fields {
		if id < coreRules {
			continue // a custom rule, which may be written later
		}
		set, err := r.engines()
		if err != nil {
			return err
		}
		list.That(set.Has(id), field, "There is no rule %d in the core rule set.", id)
	}
	return list.Err()
}

// coreRules is where the ids of the core rule set begin.
const coreRules = 100_000

// checkConfig names the domain for the audit log, and records since when it is inspected. A preview has not been prepared.
func (r *Room) checkConfig(ctx context.Context, tx *db.Tx, was, now *Config) error {
	if now == nil {
		return nil
	}
	names, err := r.deps.Domains(ctx, tx)
	if err != nil {
		return err
	}
	now.DomainName = names[now.ID]
	if was != nil {
		was.DomainName = now.DomainName
	}
	if !now.Enabled {
		now.EnabledSince = nil
	} else if now.EnabledSince == nil {
		since := now.UpdatedAt
		now.EnabledSince = &since
	}
	if tx.Supposed() {
		_, err = compiled(now)
	}
	return err
}

// Inspection is what the proxy needs to know about an inspected domain.
type Inspection struct {
	DomainID uuid.UUID
	// Detects means that nothing is blocked, whatever is found.
	Detects bool
	// Open lets requests pass that could not be inspected.
	Open bool
	// Partial lets requests pass whose bodies are larger than MaxBody.
	Partial bool
	MaxBody int
	// Answers means that responses are inspected, too.
	Answers bool
}

// inspection returns nil if the requests of the domain are not inspected.
func (c *Config) inspection() *Inspection {
	if c == nil || !c.Enabled {
		return nil
	}
	return &Inspection{DomainID: c.ID, Detects: c.Mode == domain.Detection, Open: c.failOpen(), Partial: c.Mode == domain.Detection || c.Oversized == inspect, MaxBody: c.MaxBodyBytes, Answers: c.InspectResponses}
}

func (r *Room) Inspections(ctx context.Context, q db.Querier) ([]Inspection, error) {
	configs, err := r.configs.All(ctx, q)
	var list []Inspection
	for i := range configs {
		if x := configs[i].inspection(); x != nil {
			list = append(list, *x)
		}
	}
	return list, err
}

// TrustedProxies returns the trusted proxies of all inspected domains.
func (r *Room) TrustedProxies(ctx context.Context, q db.Querier) (list []netip.Prefix, err error) {
	configs, err := r.configs.All(ctx, q)
	for i := range configs {
		if !configs[i].Enabled {
			continue
		}
		for _, p := range configs[i].TrustedProxies {
			list = append(list, p.Netip())
		}
	}
	return list, err
}

// InspectionOf returns the inspection of one domain; nil if it is not inspected.
func (r *Room) InspectionOf(ctx context.Context, q db.Querier, domain uuid.UUID) (*Inspection, error) {
	configs, err := r.configs.Where(ctx, q, "domain_id = $1", domain)
	if err != nil || len(configs) == 0 {
		return nil, err
	}
	return configs[0].inspection(), nil
}

// Changed returns a domain's inspection before and after a change, if the change is about that.
func (r *Room) Changed(row apply.Row) (domain uuid.UUID, was, now *Inspection, ok bool) {
	if row.Kind != r.configs.Name {
		return uuid.Nil, nil, nil, false
	}
	before, _ := row.Was.(*Config)
	after, _ := row.Now.(*Config)
	switch {
	case after != nil:
		domain = after.ID
	case before != nil:
		domain = before.ID
	}
	return domain, before.inspection(), after.inspection(), true
}

// settings returns the engine's settings for a domain, as the agent uses them. The caller must call closed.
func (r *Room) settings(set *engine.Set, c *Config, more ...domain.Exclusion) (s engine.Settings, closed func() error, err error) {
	of := c.Settings
	of.Exclusions = slices.Concat(c.Exclusions, more)
	s = of.Engine(func(wrong error) { err = errors.Join(err, fmt.Errorf("a stored exclusion: %w", wrong)) })
	if err != nil {
		return s, nil, err
	}
	rules, err := compiled(c)
	if err != nil || rules == nil {
		return s, func() error { return nil }, err
	}
	if s.Custom, err = set.Custom(rules); err != nil {
		return s, nil, complaint(err)
	}
	return s, s.Custom.Close, nil
}
