package firewall

import (
	"context"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

const (
	selectAny    = "any"
	selectObject = "object"
	selectGroup  = "group"
	selectCIDR   = "cidr"
)

// Rule decides about traffic through or to the gateway. The first matching rule by priority decides.
type Rule struct {
	resource.Meta
	Name            value.Line   `json:"name" required:"true" maxLength:"120" doc:"Name of the rule."`
	SrcZone         value.Zone   `json:"src_zone" required:"true" doc:"Zone that the traffic comes from, or any."`
	SrcKind         string       `json:"src_kind" enum:"any,object,group,cidr" doc:"How the source is given."`
	SrcObjectID     *uuid.UUID   `json:"src_object_id" doc:"The address object, for src_kind object."`
	SrcGroupID      *uuid.UUID   `json:"src_group_id" doc:"The address group, for src_kind group."`
	SrcCIDR         value.Prefix `json:"src_cidr" doc:"The network, for src_kind cidr."`
	DstZone         value.Zone   `json:"dst_zone" required:"true" doc:"Destination zone; self for traffic to the gateway; any for both."`
	DstKind         string       `json:"dst_kind" enum:"any,object,group,cidr" doc:"How the destination is given."`
	DstObjectID     *uuid.UUID   `json:"dst_object_id" doc:"The address object, for dst_kind object."`
	DstGroupID      *uuid.UUID   `json:"dst_group_id" doc:"The address group, for dst_kind group."`
	DstCIDR         value.Prefix `json:"dst_cidr" doc:"The network, for dst_kind cidr."`
	ServiceObjectID *uuid.UUID   `json:"service_object_id" doc:"The service. With neither a service nor a group, any protocol matches."`
	ServiceGroupID  *uuid.UUID   `json:"service_group_id" doc:"The service group."`
	Action          string       `json:"action" required:"true" enum:"accept,drop,reject" doc:"Accept the packet, drop it without an answer, or reject it with an error."`
	Log             bool         `json:"log" doc:"Log each packet that the rule decides about."`
	Priority        int64        `json:"priority" doc:"Lower comes first. By default a new rule goes last."`
	Enabled         bool         `json:"enabled" doc:"When off, the rule is kept but not applied."`
	Comment         string       `json:"comment" maxLength:"500" doc:"What the rule is for."`
	Note            string       `json:"note" maxLength:"4000" doc:"Note for other administrators."`
	Labels          []value.Line `json:"labels" doc:"Labels to find it by."`
}

func (r *Rule) Label() string { return r.Name.String() }

func (r *Rule) Validate() error {
	var c check.List
	c.That(r.SrcZone.String() != zoneSelf, "src_zone", "must be a zone, or any, because traffic from the gateway itself is not filtered")
	selector(&c, "src", r.SrcKind, r.SrcObjectID, r.SrcGroupID, r.SrcCIDR)
	selector(&c, "dst", r.DstKind, r.DstObjectID, r.DstGroupID, r.DstCIDR)
	c.That(r.ServiceObjectID == nil || r.ServiceGroupID == nil, "service_group_id", "must not be set together with a service group")
	labels(&c, r.Labels)
	return c.Err()
}

// selector checks that exactly the field of the kind is set: a leftover must not silently widen a rule.
func selector(c *check.List, side, kind string, object, group *uuid.UUID, cidr value.Prefix) {
	for _, x := range []struct {
		kind, field string
		given       bool
	}{
		{selectObject, side + "_object_id", object != nil},
		{selectGroup, side + "_group_id", group != nil},
		{selectCIDR, side + "_cidr", !cidr.IsZero()},
	} {
		switch {
		case x.kind == kind:
			c.That(x.given, x.field, "is required when %s_kind is %s", side, kind)
		case x.given:
			c.Add(x.field, "must be empty (null) when %s_kind is %s", side, kind)
		}
	}
}

const maxLabels = 32

func labels(c *check.List, list []value.Line) {
	c.That(len(list) <= maxLabels, "labels", "must have at most %d items", maxLabels)
	seen := map[value.Line]bool{}
	for _, l := range list {
		c.That(len(l.String()) <= 64, "labels", "must have labels of at most 64 bytes, and %q is longer", l)
		c.That(!seen[l], "labels", "contains %q twice", l)
		seen[l] = true
	}
}

func (r *Room) ruleKind() resource.Kind[Rule] {
	return resource.Kind[Rule]{
		Name: "firewall.rule", Title: "firewall rule", Path: "/firewall/rules", Table: "firewall_rules", Order: "priority, created_at", Feeds: feeds,
		Notes: []string{"note", "labels"}, Refers: map[string]string{"src_zone": zoneTable, "dst_zone": zoneTable},
		New: func() Rule {
			return Rule{SrcZone: anywhere, DstZone: anywhere, SrcKind: selectAny, DstKind: selectAny, Enabled: true}
		},
		Check: func(ctx context.Context, tx *db.Tx, _, now *Rule) error {
			if now == nil {
				return nil
			}
			return zonesExist(ctx, tx, map[string]value.Zone{"src_zone": now.SrcZone, "dst_zone": now.DstZone})
		},
	}
}

var anywhere = value.Must[value.Zone](zoneAny)
