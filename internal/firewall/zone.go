package firewall

import (
	"context"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Zone is a part of the network with the same level of trust. Interfaces belong to a zone by their role.
type Zone struct {
	resource.Meta
	Name        value.Zone `json:"name" required:"true" doc:"Name of the zone; rules, NAT rules and interfaces refer to it."`
	Description string     `json:"description" maxLength:"500" doc:"What the zone is for."`
	Builtin     bool       `json:"builtin" readOnly:"true" doc:"Comes with the gateway and cannot be renamed or deleted."`
}

const zoneTable = "firewall_zones"

// Pseudo-zones: any place, and the gateway itself.
const (
	zoneAny  = "any"
	zoneSelf = "self"
)

func (z *Zone) Label() string { return z.Name.String() }

func (z *Zone) Validate() error {
	var c check.List
	c.That(z.Name.String() != zoneAny && z.Name.String() != zoneSelf, "name", "must not be %q, which is reserved", z.Name)
	return c.Err()
}

func (r *Room) zoneKind() resource.Kind[Zone] {
	return resource.Kind[Zone]{
		Name: "firewall.zone", Title: "zone", Path: "/firewall/zones", Table: zoneTable, Order: "builtin DESC, name", Feeds: feeds,
		Check: func(ctx context.Context, tx *db.Tx, was, now *Zone) error {
			switch {
			case was == nil:
				return nil
			case now == nil:
				if was.Builtin {
					return builtin("zone", was.Name.String())
				}
				return r.refuseUsed(ctx, tx, was.ID, "the zone "+was.Name.String())
			case was.Name == now.Name:
				return nil
			case was.Builtin:
				return builtin("zone", was.Name.String())
			}
			// A trigger updates the interfaces, which each node has for itself.
			tx.Queue(`UPDATE firewall_rules SET src_zone = $2 WHERE src_zone = $1`, was.Name, now.Name)
			tx.Queue(`UPDATE firewall_rules SET dst_zone = $2 WHERE dst_zone = $1`, was.Name, now.Name)
			tx.Queue(`UPDATE firewall_nat_rules SET in_zone = $2 WHERE in_zone = $1`, was.Name, now.Name)
			tx.Queue(`UPDATE firewall_nat_rules SET out_zone = $2 WHERE out_zone = $1`, was.Name, now.Name)
			return nil
		},
	}
}

// builtin refuses to change what comes with the gateway.
func builtin(title, name string) error {
	return fault.New(fault.Conflict, "The %s %s comes with the gateway and cannot be changed. Create your own instead.", title, name)
}

// zonesExist checks that the zones of the fields are stored or pseudo-zones.
func zonesExist(ctx context.Context, tx *db.Tx, fields map[string]value.Zone) error {
	var names []string
	for _, z := range fields {
		names = append(names, z.String())
	}
	rows, err := tx.Query(ctx, `SELECT name FROM firewall_zones WHERE name = ANY ($1)`, names)
	if err != nil {
		return err
	}
	defer rows.Close()
	known := map[string]bool{zoneAny: true, zoneSelf: true}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		known[name] = true
	}
	var c check.List
	for field, z := range fields {
		c.That(known[z.String()], field, "Zone %q does not exist.", z)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return c.Err()
}

// feeds: everything here affects the packet filter.
var feeds = []apply.ID{apply.PacketFilter}
