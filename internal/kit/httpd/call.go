package httpd

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"edge.internal/gateway/internal/kit/actor"
)

// Call is one request on its way through a handler. It is the request's context too.
type Call struct {
	context.Context
	Request  *http.Request
	Actor    actor.Actor
	response http.ResponseWriter
	status   int
}

// Header is the header of the answer.
func (c *Call) Header() http.Header { return c.response.Header() }

// Status changes the status of a successful answer.
func (c *Call) Status(code int) { c.status = code }

// reads tells whether the request changes nothing.
func (c *Call) reads() bool {
	return c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead
}

// SetCookie adds a cookie to the answer.
func (c *Call) SetCookie(cookie *http.Cookie) { http.SetCookie(c.response, cookie) }

// Client is the address the request came from: the connection's, or what the PROXY protocol said on the unix socket.
func (c *Call) Client() netip.Addr { return clientAddr(c.Request) }

func clientAddr(r *http.Request) netip.Addr {
	if isLocal(r.Context()) {
		return netip.IPv6Loopback()
	}
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// Connection is both ends of the connection that the request came by; not ok when it did not come over the network. On
// the unix socket they are what the PROXY protocol said.
func (c *Call) Connection() (client, server netip.AddrPort, ok bool) {
	client, err := netip.ParseAddrPort(c.Request.RemoteAddr)
	local, _ := c.Request.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if err != nil || local == nil || isLocal(c.Request.Context()) {
		return client, server, false
	}
	server, err = netip.ParseAddrPort(local.String())
	plain := func(a netip.AddrPort) netip.AddrPort {
		return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
	}
	return plain(client), plain(server), err == nil
}

type localKey struct{}

// local marks connections of the control socket, which only the machine's root can open.
func local(ctx context.Context) context.Context { return context.WithValue(ctx, localKey{}, true) }

func isLocal(ctx context.Context) bool { return ctx.Value(localKey{}) != nil }

// Body is a body that is not JSON. A sender may take as long as it does, but not send nothing for long.
func (c *Call) Body() io.Reader {
	return &unhurriedBody{c.Request.Body, http.NewResponseController(c.response)}
}

type unhurriedBody struct {
	in      io.Reader
	control *http.ResponseController
}

func (b *unhurriedBody) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(takeWithin))
	return b.in.Read(p)
}
