package firewall

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Service is a named protocol with its ports, which rules refer to.
type Service struct {
	resource.Meta
	Name        value.Line `json:"name" required:"true" maxLength:"120" doc:"Name of the service."`
	Protocol    string     `json:"protocol" required:"true" enum:"tcp,udp,tcp+udp,icmp,icmpv6,any" doc:"The protocol."`
	PortStart   *int       `json:"port_start" minimum:"1" maximum:"65535" doc:"The destination port, or the first of a range; null means any port."`
	PortEnd     *int       `json:"port_end" minimum:"1" maximum:"65535" doc:"The last port of a range."`
	Description string     `json:"description" maxLength:"500" doc:"What it is."`
	Builtin     bool       `json:"builtin" readOnly:"true" doc:"Comes with the gateway and cannot be changed."`
}

func (s *Service) Label() string { return s.Name.String() }

func (s *Service) Validate() error {
	var c check.List
	ported := s.Protocol == "tcp" || s.Protocol == "udp" || s.Protocol == "tcp+udp"
	c.That(ported || s.PortStart == nil, "port_start", "must be empty, because only tcp and udp have ports")
	ports(&c, "port_start", s.PortStart, "port_end", s.PortEnd)
	return c.Err()
}

// ports checks a range of ports.
func ports(c *check.List, startField string, start *int, endField string, end *int) {
	if end == nil {
		return
	}
	c.That(start != nil, endField, "needs %s as well", startField)
	c.That(start == nil || *end >= *start, endField, "must not be less than %s", startField)
}

func (r *Room) serviceKind() resource.Kind[Service] {
	return resource.Kind[Service]{
		Name: "firewall.service", Title: "service", Path: "/firewall/services", Table: "firewall_services", Order: "name", Feeds: feeds,
		Check: func(ctx context.Context, tx *db.Tx, was, now *Service) error {
			switch {
			case was != nil && was.Builtin && (now == nil || !sameService(was, now)):
				return builtin("service", was.Name.String())
			case now == nil:
				return r.refuseUsed(ctx, tx, was.ID, "the service "+was.Name.String())
			}
			return nil
		},
	}
}

func sameService(a, b *Service) bool {
	return a.Name == b.Name && a.Protocol == b.Protocol && same(a.PortStart, b.PortStart) && same(a.PortEnd, b.PortEnd)
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// ServiceGroup is a named set of services.
type ServiceGroup struct {
	resource.Meta
	Name        value.Line  `json:"name" required:"true" maxLength:"120" doc:"Name of the group."`
	Description string      `json:"description" maxLength:"500" doc:"What it is."`
	Members     []uuid.UUID `json:"members" doc:"Ids of the services in it. A group without members matches nothing."`
	Builtin     bool        `json:"builtin" readOnly:"true" doc:"Comes with the gateway and cannot be changed."`
}

func (g *ServiceGroup) Label() string { return g.Name.String() }

func (r *Room) serviceGroupKind() resource.Kind[ServiceGroup] {
	return resource.Kind[ServiceGroup]{
		Name: "firewall.service-group", Title: "service group", Path: "/firewall/service-groups", Table: "firewall_service_groups", Order: "name", Feeds: feeds,
		Refers: map[string]string{"members": "firewall_services"},
		Check: func(ctx context.Context, tx *db.Tx, was, now *ServiceGroup) error {
			switch {
			case was != nil && was.Builtin && (now == nil || was.Name != now.Name || !slices.Equal(was.Members, now.Members)):
				return builtin("service group", was.Name.String())
			case now == nil:
				return r.refuseUsed(ctx, tx, was.ID, "the service group "+was.Name.String())
			}
			return members(ctx, tx, "firewall_services", now.Members)
		},
	}
}
