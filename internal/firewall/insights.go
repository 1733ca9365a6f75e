package firewall

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

// Insights are rules that deserve a look.
type Insights struct {
	Unused     []Unused    `json:"unused" doc:"Enabled rules that no packet matched for unused_days, by when they were last hit."`
	Shadowed   []Shadowed  `json:"shadowed" doc:"Rules that never decide, because one earlier rule matches all that they match."`
	Duplicates []Duplicate `json:"duplicates" doc:"Rules with the same match and the same action."`
	Skipped    []Skipped   `json:"skipped" doc:"NAT rules that cannot be brought about."`
	Empty      []Skipped   `json:"empty" doc:"Rules and NAT rules that can match nothing now."`
}

// RuleRef is a rule as people know it.
type RuleRef struct {
	ID   uuid.UUID `json:"id" doc:"Which rule."`
	Name string    `json:"name" doc:"Name of the rule."`
}

// Unused is a rule without a hit.
type Unused struct {
	RuleRef
	Since     time.Time  `json:"since" doc:"When counting began for this rule."`
	LastHitAt *time.Time `json:"last_hit_at" doc:"When a packet last matched it; null when none has since."`
}

// Shadowed is a rule that never decides.
type Shadowed struct {
	RuleRef
	By []RuleRef `json:"by" doc:"The first earlier rule that matches all that it matches."`
	// A drop behind an accept is a hole; an accept behind an accept is just untidy.
	SameAction bool `json:"same_action" doc:"Whether that rule does the same, so that nothing is lost but the counters."`
}

// Duplicate are rules that say the same.
type Duplicate struct {
	Rules []RuleRef `json:"rules" doc:"The rules, in their order; the first decides."`
}

// Count is what the kernel counted for a rule.
type Count struct {
	RuleID  uuid.UUID `json:"rule_id" doc:"Which rule or NAT rule."`
	Packets uint64    `json:"packets" doc:"Packets that matched since the rules were last applied."`
	Bytes   uint64    `json:"bytes" doc:"Their bytes."`
}

type insightsInput struct {
	UnusedDays int `query:"unused_days" doc:"For how many days no packet must have matched; 30 without it."`
}

func (r *Room) mountInsights() {
	httpd.Handle(r.Router, http.MethodGet, "/firewall/insights", httpd.Read, doc("firewall.insights", "Rules that deserve a look: unused, shadowed, duplicate, without effect"),
		func(c *httpd.Call, in insightsInput) (Insights, error) {
			return Insights{}, fault.New(fault.NotSupported, "not known yet")
		})
	httpd.Handle(r.Router, http.MethodGet, "/firewall/counters", httpd.Read, doc("firewall.counters", "What the kernel counted for each rule since the rules were last applied"),
		func(c *httpd.Call, _ struct{}) ([]Count, error) {
			return nil, fault.New(fault.NotSupported, "not known yet")
		})
}
