package fwdproxy

// What tests ask by themselves.
var (
	Consult     = consult
	TrafficFrom = traffic
)

// Totals are squid's counters.
func Totals(requests, hits, out, own int64) totals { return totals{requests, hits, out, own} }
