package freeradius

import (
	"context"
	"net/netip"
	"time"

	_ "layeh.com/radius/rfc3580" // registers the name of tunnel type VLAN

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Self is the gateway's address as a client of its own RADIUS server; the server also listens on it for that client. Nothing else
// uses this loopback address, so operators may still add a client at 127.0.0.1.
var Self = netip.MustParseAddr("127.255.255.254")

type Radius interface {
	// RadiusLogin tries a login at the machine's own FreeRADIUS, as the client Self. A rejection is an answer, not an error. If
	// FreeRADIUS does not run, it is daemon.ErrNotRunning.
	RadiusLogin(ctx context.Context, l Login) (Answer, error)
}

var verbs = daemon.Verbs{"RadiusLogin": daemon.Local}

type Login struct {
	Port           int
	Secret         string // shared secret of the client Self
	User, Password string
	CHAP           bool // otherwise PAP
}

type Answer struct {
	Accepted bool
	// Attributes are reply attributes, such as Session-Timeout = 3600.
	Attributes []string
	Duration   time.Duration
}
