package firewall

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

// Insights lists rules that deserve a look.
type Insights struct {
	Unused     []Unused    `json:"unused" doc:"Rules that are on but have matched no packet for unused_days, by their last hit."`
	Shadowed   []Shadowed  `json:"shadowed" doc:"Rules that never decide, because one earlier rule matches all that they match."`
	Duplicates []Duplicate `json:"duplicates" doc:"Rules with the same match and the same action."`
	Skipped    []Skipped   `json:"skipped" doc:"NAT rules that cannot be applied."`
	Empty      []Skipped   `json:"empty" doc:"Rules and NAT rules that can match nothing now."`
	WideOpen   []WideOpen  `json:"wide_open" doc:"Rules that are on and open the inside to the internet: they accept from any or wan, from any source, to any or lan."`
}

// RuleRef identifies a rule for people.
type RuleRef struct {
	ID   uuid.UUID `json:"id" doc:"Which rule."`
	Name string    `json:"name" doc:"Name of the rule."`
}

// Unused is a rule without hits.
type Unused struct {
	RuleRef
	Since     time.Time  `json:"since" doc:"When counting began for this rule."`
	LastHitAt *time.Time `json:"last_hit_at" doc:"When a packet last matched it; null when none has since."`
}

// Shadowed is a rule that never decides.
type Shadowed struct {
	RuleRef
	By []RuleRef `json:"by" doc:"The first earlier rule that matches all that it matches."`
	// A drop behind an accept is a security hole; an accept behind an accept is just untidy.
	SameAction bool `json:"same_action" doc:"Whether that rule has the same action, so removing this one changes nothing but counters."`
}

// Duplicate lists rules with the same effect.
type Duplicate struct {
	Rules []RuleRef `json:"rules" doc:"The rules, in their order; the first decides."`
}

// WideOpen is a rule that opens an inside zone to everyone outside.
type WideOpen struct {
	RuleRef
	SrcZone value.Zone `json:"src_zone" doc:"Zone that it accepts from."`
	DstZone value.Zone `json:"dst_zone" doc:"Zone that it accepts to."`
}

const (
	// defaultUnused is after how many days without a hit a rule counts as unused.
	defaultUnused = 30
	maxUnused     = 3650
)

type insightsInput struct {
	UnusedDays int `query:"unused_days" doc:"Days without a match, 1 to 3650; 30 by default."`
}

// insights caches the findings for a revision, because comparing many rules takes a while.
type insights struct {
	mu       sync.Mutex
	revision int64
	found    *findings
}

func (r *Room) mountInsights() {
	httpd.Handle(r.Router, http.MethodGet, "/firewall/insights", httpd.Read, tag.Doc("firewall.insights", "Rules to review: unused, shadowed, duplicate, without effect, wide open"),
		func(c *httpd.Call, in insightsInput) (Insights, error) {
			days := cmp.Or(in.UnusedDays, defaultUnused)
			if days < 1 || days > maxUnused {
				return Insights{}, fault.Field("unused_days", "must be between 1 and %d", maxUnused)
			}
			return r.lookInto(c, time.Duration(days)*24*time.Hour)
		})
}

func (r *Room) lookInto(ctx context.Context, idle time.Duration) (Insights, error) {
	f, err := r.findings(ctx)
	if err != nil {
		return Insights{}, err
	}
	unused, err := r.unused(ctx, f, r.Clock.Now().Add(-idle))
	return Insights{Unused: unused, Shadowed: f.shadowed, Duplicates: f.duplicates, Skipped: f.skipped, Empty: f.empty, WideOpen: f.wideOpen}, err
}

// findings returns the findings for the stored state. The packet filter's revision identifies that state, because everything that it
// depends on feeds the filter.
func (r *Room) findings(ctx context.Context) (*findings, error) {
	in := &r.insights
	in.mu.Lock()
	defer in.mu.Unlock()
	err := r.DB.Snapshot(ctx, func(tx *db.Tx) error {
		revision, err := apply.Revision(ctx, tx, apply.PacketFilter)
		if err != nil {
			return err
		}
		if in.found != nil && in.revision == revision {
			return nil
		}
		c, err := r.load(ctx, tx)
		if err == nil {
			in.found, in.revision = find(c), revision
		}
		return err
	})
	return in.found, err
}

// unused returns the rules whose last hit, or else the start of counting, is before a time.
func (r *Room) unused(ctx context.Context, f *findings, before time.Time) ([]Unused, error) {
	rows, err := r.DB.Query(ctx, `
		SELECT rule_id, since, last_hit_at FROM firewall_rule_hits WHERE coalesce(last_hit_at, since) < $1
		ORDER BY coalesce(last_hit_at, since), rule_id`, before)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Unused{}
	for rows.Next() {
		var u Unused
		if err := rows.Scan(&u.ID, &u.Since, &u.LastHitAt); err != nil {
			return nil, err
		}
		name, enabled := f.enabled[u.ID]
		if !enabled {
			continue
		}
		u.Name = name
		list = append(list, u)
	}
	return list, rows.Err()
}
