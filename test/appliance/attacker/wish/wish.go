// Package wish has the attacker's instructions about mutated files, and its results.
package wish

import (
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/helper/guard/fuzz"
)

// Wish is read from a file, as CBOR.
type Wish struct {
	Subjects []fuzz.Subject
	Seed     uint64
	// Changes is how many changes of the subjects are handed over to be checked.
	Changes int
	// Starts is how many changes of each subject that its checker likes are installed for its daemon to read. Zero: none are.
	Starts int
}

// Unchanged is how often a daemon is started with its own files before, and Enough how many changes have one among them that its checker likes.
const (
	Unchanged = 2
	Enough    = 20_000
)

// Daemons read what a checker checks.
var Daemons = map[host.Command]host.Unit{
	chrony.Check: chrony.Unit, unbound.Check: unbound.Unit, squid.Check: squid.Unit, kea.Check: kea.Unit, keepalived.Check: keepalived.Unit,
	freeradius.Check: freeradius.Unit, haproxy.Check: haproxy.Unit,
}

// Told is printed at the end, as JSON.
type Told struct {
	Refused  int // by the helper itself
	Disliked int // by the checker
	Liked    int
	Others   []string // what went wrong otherwise
	// Changed is the mutation of each subject, by its number in the trace.
	Changed map[int]string
	Started map[host.Unit]int
	Failed  map[host.Unit]int // those that did not start
}
