package proxy

import (
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/resource"
)

// Rule leads the paths of a domain that begin with a prefix to a backend of their own. The first that matches, by
// priority, decides.
type Rule struct {
	resource.Meta
	DomainID    uuid.UUID `json:"domain_id" required:"true" doc:"Domain that it is for."`
	PathPrefix  Path      `json:"path_prefix" required:"true" doc:"How the path begins; it must begin with /."`
	BackendID   uuid.UUID `json:"backend_id" required:"true" doc:"Backend that answers."`
	Priority    int64     `json:"priority" doc:"Lower comes first. Without one a new rule goes last."`
	Active      bool      `json:"active" doc:"Off, the rule is kept and has no effect."`
	StripPrefix bool      `json:"strip_prefix" doc:"Take the prefix off the path before the backend sees it."`
}

// Label is how people know it.
func (r *Rule) Label() string { return r.PathPrefix.String() }

func ruleKind() resource.Kind[Rule] {
	return resource.Kind[Rule]{
		Name: "proxy.routing-rule", Title: "routing rule", Path: "/routing-rules", Table: "proxy_routing_rules", Order: "priority, created_at", Feeds: feeds,
		New: func() Rule { return Rule{Active: true} },
	}
}
