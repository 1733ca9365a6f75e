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

const (
	kindHost    = "host"
	kindNetwork = "network"
	kindRange   = "range"
	kindFQDN    = "fqdn"
)

// Address is a named address object that rules refer to.
type Address struct {
	resource.Meta
	Name        value.Line `json:"name" required:"true" maxLength:"120" doc:"Name of the object."`
	Kind        string     `json:"kind" required:"true" enum:"host,network,range,fqdn" doc:"What the value is: one address, a network, a range of addresses, or a name that is resolved in the background."`
	Value       string     `json:"value" required:"true" maxLength:"300" doc:"An address, a network like 192.0.2.0/24, a range like 192.0.2.10-192.0.2.20, or a host name."`
	Description string     `json:"description" maxLength:"500" doc:"What it is."`
	// Resolved is stored so that the last answer survives a failing resolver and a restart.
	Resolved []value.Addr `json:"resolved" readOnly:"true" doc:"Addresses that the name last resolved to. They are kept while the resolver fails."`
}

func (a *Address) Label() string { return a.Name.String() }

// Validate normalizes the value.
func (a *Address) Validate() error {
	var c check.List
	var parsed interface{ String() string }
	var err error
	switch a.Kind {
	case kindHost:
		parsed, err = value.Parse[value.Addr](a.Value)
	case kindNetwork:
		parsed, err = value.Parse[value.Prefix](a.Value)
	case kindRange:
		parsed, err = value.Parse[value.Range](a.Value)
	case kindFQDN:
		var name value.Host
		name, err = value.Parse[value.Host](a.Value)
		if _, bad := value.Parse[value.Addr](a.Value); err == nil && bad == nil {
			c.Add("value", "is an address. Use the kind host for it")
		}
		parsed = name
	default:
		return nil // the kind's own error says it
	}
	if err != nil {
		c.Add("value", "%s", err)
	} else {
		a.Value = parsed.String()
	}
	return c.Err()
}

func (r *Room) addressKind() resource.Kind[Address] {
	return resource.Kind[Address]{
		Name: "firewall.address-object", Title: "address object", Path: "/firewall/address-objects", Table: "firewall_address_objects", Order: "name", Feeds: feeds,
		LocalColumns: []string{"resolved"}, // each node resolves for itself, and may get another answer
		Check: func(ctx context.Context, tx *db.Tx, was, now *Address) error {
			if now == nil {
				return r.refuseUsed(ctx, tx, was.ID, "the address object "+was.Name.String())
			}
			if was == nil || was.Kind != now.Kind || was.Value != now.Value {
				now.Resolved = nil
				if now.Kind == kindFQDN {
					tx.AfterCommit(r.resolver.wake)
				}
			}
			return nil
		},
	}
}

// AddressGroup is a named set of address objects.
type AddressGroup struct {
	resource.Meta
	Name        value.Line  `json:"name" required:"true" maxLength:"120" doc:"Name of the group."`
	Description string      `json:"description" maxLength:"500" doc:"What it is."`
	Members     []uuid.UUID `json:"members" doc:"Ids of the address objects in it. A group without members matches nothing."`
}

func (g *AddressGroup) Label() string { return g.Name.String() }

func (r *Room) addressGroupKind() resource.Kind[AddressGroup] {
	return resource.Kind[AddressGroup]{
		Name: "firewall.address-group", Title: "address group", Path: "/firewall/address-groups", Table: "firewall_address_groups", Order: "name", Feeds: feeds,
		Refers: map[string]string{"members": "firewall_address_objects"},
		Check: func(ctx context.Context, tx *db.Tx, was, now *AddressGroup) error {
			if now == nil {
				return r.refuseUsed(ctx, tx, was.ID, "the address group "+was.Name.String())
			}
			return members(ctx, tx, "firewall_address_objects", now.Members)
		},
	}
}

// members checks that every member is a row of the table, listed once.
func members(ctx context.Context, tx *db.Tx, table string, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	var c check.List
	sorted := slices.Clone(ids)
	slices.SortFunc(sorted, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	distinct := int64(len(slices.Compact(sorted)))
	c.That(distinct == int64(len(ids)), "members", "must list each member once")
	var found int64
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM "+table+" WHERE id = ANY ($1)", ids).Scan(&found); err != nil {
		return err
	}
	c.That(found == distinct, "members", "contains %d members that do not exist", distinct-found)
	return c.Err()
}
