package host

import (
	"context"
	"net/netip"
	"time"

	_ "layeh.com/radius/rfc3580" // the name of VLAN
)

// RadiusSelf is the address of the gateway as a client of its own RADIUS server, and the address at which that listens for it.
// It is one of the machine's own that nobody else uses, so that a client of an operator may be 127.0.0.1.
var RadiusSelf = netip.MustParseAddr("127.255.255.254")

// Radius is the running FreeRADIUS.
type Radius interface {
	// RadiusLogin logs in at the machine's own FreeRADIUS, from RadiusSelf, and returns its answer, which may be a refusal. A
	// FreeRADIUS that does not run is ErrNotRunning.
	RadiusLogin(ctx context.Context, l RadiusLogin) (RadiusAnswer, error)
}

// RadiusLogin is an attempt to log in.
type RadiusLogin struct {
	Port           int
	Secret         string // what RadiusSelf shares with the server
	User, Password string
	CHAP           bool // otherwise PAP
}

// RadiusAnswer is what the server answered.
type RadiusAnswer struct {
	Accepted bool
	// Attributes are what it replied, such as Session-Timeout = 3600.
	Attributes []string
	Duration   time.Duration
}
