package httpd

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"
)

// ConnectedHeader is how the reverse proxy says since when the client's connection is open: in milliseconds since 1970.
const ConnectedHeader = "Gateway-Connected"

type (
	arrivalKey   struct{}
	connectedKey struct{}
)

// arrival is a connection, and when it was accepted.
type arrival struct {
	at   time.Time
	conn net.Conn
}

// Arrived notes that a connection was accepted now.
func Arrived(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, arrivalKey{}, arrival{time.Now(), conn})
}

// connected tells since when the caller's connection is open; zero if that is not known. The reverse proxy keeps connections of its own: for
// those behind it, it says so.
func connected(req *http.Request) time.Time {
	a, ok := req.Context().Value(arrivalKey{}).(arrival)
	if !ok {
		return time.Time{}
	}
	if f := forwarded(req.Context()); f != nil {
		// Both the client's and the other node's must be that new.
		if f.since.Before(a.at) {
			return f.since
		}
		return a.at
	}
	if s, ok := a.conn.(*sniffed); ok && !s.encrypted() {
		ms, err := strconv.ParseInt(req.Header.Get(ConnectedHeader), 10, 64)
		if err != nil {
			return time.Time{}
		}
		return time.UnixMilli(ms)
	}
	return a.at
}

// Reached has the call count as one that came over a connection which was opened then, because its caller has opened that one, too.
func (c *Call) Reached(at time.Time) { c.reached = at }

// Connected tells since when the connection is open that the request came by; zero if that is not known.
func (c *Call) Connected() time.Time {
	if !c.reached.IsZero() {
		return c.reached
	}
	return connected(c.Request)
}

// Connected is Call.Connected for a stream.
func Connected(ctx context.Context) time.Time {
	at, _ := ctx.Value(connectedKey{}).(time.Time)
	return at
}
