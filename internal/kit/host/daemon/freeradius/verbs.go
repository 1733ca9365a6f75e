package freeradius

import (
	"context"
	"net/netip"
	"time"

	_ "layeh.com/radius/rfc3580" // the name of VLAN

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Self is the address of the gateway as a client of its own RADIUS server, and the address at which that listens for it.
// It is one of the machine's own that nobody else uses, so that a client of an operator may be 127.0.0.1.
var Self = netip.MustParseAddr("127.255.255.254")

// Radius is the running FreeRADIUS.
type Radius interface {
	// RadiusLogin logs in at the machine's own FreeRADIUS, from Self, and returns its answer, which may be a refusal. A
	// FreeRADIUS that does not run is daemon.ErrNotRunning.
	RadiusLogin(ctx context.Context, l Login) (Answer, error)
}

var verbs = daemon.Verbs{"RadiusLogin": daemon.Local}

// Login is an attempt to log in.
type Login struct {
	Port           int
	Secret         string // what Self shares with the server
	User, Password string
	CHAP           bool // otherwise PAP
}

// Answer is what the server answered.
type Answer struct {
	Accepted bool
	// Attributes are what it replied, such as Session-Timeout = 3600.
	Attributes []string
	Duration   time.Duration
}
