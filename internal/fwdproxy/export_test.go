package fwdproxy

// For tests only.
var (
	Consult     = consult
	TrafficFrom = traffic
)

func Totals(requests, hits, out, own int64) totals { return totals{requests, hits, out, own} }
