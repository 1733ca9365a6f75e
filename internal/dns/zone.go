package dns

import (
	"context"
	"slices"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Zone is a local part of the DNS tree: its records are answered here, and other names in it by the resolvers that it is forwarded to, if
// any.
type Zone struct {
	resource.Meta
	Name        ZoneName   `json:"name" required:"true" doc:"Name of the zone, for example corp.example.net, lan or 10.in-addr.arpa."`
	ForwardTo   []Forward  `json:"forward_to" doc:"Resolvers for other names in the zone: addresses, with @port if it is not 53. If empty, these names are resolved normally."`
	Description value.Line `json:"description" maxLength:"500" doc:"Description."`
	Active      bool       `json:"active" doc:"When off, the zone and its records are kept but not applied."`
}

func (z *Zone) Label() string { return z.Name.String() }

var zones = resource.Kind[Zone]{
	Name: "dns.zone", Title: "DNS zone", Path: "/dns/zones", Table: "dns_zones", Order: "name", Feeds: feeds[:1], Notes: []string{"description"},
	New: func() Zone { return Zone{Active: true} },
}

// checkZone checks a zone's forwards, and the records of a renamed zone: their names change, too, and may collide with existing records.
func (r *Room) checkZone(ctx context.Context, tx *db.Tx, was, now *Zone) error {
	if now == nil {
		return nil
	}
	s, err := r.settings.Load(ctx, tx)
	if err != nil {
		return err
	}
	var c check.List
	if s.checkForwards(&c, "forward_to", now.ForwardTo); c.Err() != nil || was == nil || was.Name == now.Name {
		return c.Err()
	}
	zones, err := r.zones.All(ctx, tx)
	if err != nil {
		return err
	}
	records, err := r.records.All(ctx, tx)
	if err != nil {
		return err
	}
	zones = slices.Clone(zones)
	for i := range zones {
		zones[i].Active = true
		if zones[i].ID == now.ID {
			zones[i].Name = now.Name
		}
	}
	if _, err := build(&Config{Zones: zones, Records: records}); err != nil {
		return fault.Field("name", "does not fit the records of the zone: %v", err)
	}
	return nil
}
