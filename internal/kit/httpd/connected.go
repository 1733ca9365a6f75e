package httpd

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"
)

// ConnectedHeader is the header in which the reverse proxy says when the client's connection was opened, in milliseconds since
// 1970.
const ConnectedHeader = "Gateway-Connected"

type (
	arrivalKey   struct{}
	connectedKey struct{}
)

// arrival is a connection, and the time at which it was accepted.
type arrival struct {
	at   time.Time
	conn net.Conn
}

// Arrived records the time at which a connection was accepted.
func Arrived(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, arrivalKey{}, arrival{time.Now(), conn})
}

// connected returns when the caller's connection was opened; zero if unknown. Behind the reverse proxy, which reuses its own
// connections, the header says so.
func connected(req *http.Request) time.Time {
	a, ok := req.Context().Value(arrivalKey{}).(arrival)
	if !ok {
		return time.Time{}
	}
	if f := forwarded(req.Context()); f != nil {
		// The later of both: the connections to the client and to the other node.
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

// Reached makes the call count as one over a connection opened at that time, because its caller has opened such a connection,
// too.
func (c *Call) Reached(at time.Time) { c.reached = at }

// Connected returns when the request's connection was opened; zero if unknown.
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
