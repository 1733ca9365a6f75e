package dns

import (
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/value"
)

// Canonical normalizes a new record of a zone for storage, as the API does.
func (r *Record) Canonical(zone string) error {
	var c check.List
	z := value.Must[ZoneName](zone)
	o, err := z.owner(r.Name)
	if err != nil {
		c.Add("name", "%v", err)
	} else {
		r.Name = z.relative(o)
	}
	r.canonical(&c, nil, z)
	return c.Err()
}

// TrafficBetween returns the traffic between two readings of the counters.
var TrafficBetween = traffic

type Totals = totals

func NewTotals(queries, hits int64) Totals { return totals{queries, hits} }
