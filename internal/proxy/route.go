package proxy

import (
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/resource"
)

// Rule sends the paths of a domain that begin with a prefix to another backend. The first matching rule by priority decides.
type Rule struct {
	resource.Meta
	DomainID    uuid.UUID `json:"domain_id" required:"true" doc:"Domain that it is for."`
	PathPrefix  Path      `json:"path_prefix" required:"true" doc:"Path prefix; it must start with /."`
	BackendID   uuid.UUID `json:"backend_id" required:"true" doc:"Backend that answers."`
	Priority    int64     `json:"priority" doc:"Lower comes first. By default a new rule goes last."`
	Active      bool      `json:"active" doc:"When off, the rule is kept but not applied."`
	StripPrefix bool      `json:"strip_prefix" doc:"Strip the prefix from the path before the backend sees it."`
}

func (r *Rule) Label() string { return r.PathPrefix.String() }

func ruleKind() resource.Kind[Rule] {
	return resource.Kind[Rule]{
		Name: "proxy.routing-rule", Title: "routing rule", Path: "/routing-rules", Table: "proxy_routing_rules", Order: "priority, created_at", Feeds: feeds, Natural: []string{"domain_id", "path_prefix"},
		New: func() Rule { return Rule{Active: true} },
	}
}
