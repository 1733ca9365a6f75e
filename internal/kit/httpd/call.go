package httpd

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
)

// Call is one request on its way through a handler, and also the request's context.
type Call struct {
	context.Context
	Request       *http.Request
	Actor         actor.Actor
	response      http.ResponseWriter
	status        int
	creates       string // see Doc
	afterwards    func()
	newConnection bool
	reached       time.Time // see Reached
}

// NewCall returns a call that belongs to no route, for tests of functions that take a Call.
func NewCall(w http.ResponseWriter, r *http.Request) *Call {
	return &Call{Context: r.Context(), Request: r, response: w, status: http.StatusOK}
}

func (c *Call) Header() http.Header { return c.response.Header() }

// Status changes the status of a successful answer.
func (c *Call) Status(code int) { c.status = code }

// reads reports whether the request changes nothing.
func (c *Call) reads() bool {
	return c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead
}

// Unhurried lifts the time limit of the request: otherwise the server takes the caller for gone after a while, even though it
// expects nothing more from it.
func (c *Call) Unhurried() {
	_ = http.NewResponseController(c.response).SetReadDeadline(time.Time{}) // a response that does not support this has no limit either
}

// Made sets the location of what the call has created. values are the parameters of the documented path that are not in the
// route's own.
func (c *Call) Made(values map[string]string) {
	c.Header().Set("Location", Prefix+parameter.ReplaceAllStringFunc(c.creates, func(name string) string {
		name = strings.Trim(name, "{}")
		if v, ok := values[name]; ok {
			return url.PathEscape(v)
		}
		return url.PathEscape(c.Request.PathValue(name))
	}))
}

var parameter = regexp.MustCompile(`\{[a-z_]+\}`)

// locate sets the location of what the call has created from the fields of the answer.
func (c *Call) locate(data []byte) error {
	if c.creates == "" {
		return nil
	}
	values := map[string]string{}
	if strings.Contains(c.creates, "{") {
		var fields map[string]jsontext.Value
		if err := json.Unmarshal(data, &fields); err != nil {
			return fmt.Errorf("finding out where what was made is: %w", err)
		}
		for name, v := range fields {
			if v.Kind() == '"' || v.Kind() == '0' {
				values[name] = strings.Trim(string(v), `"`)
			}
		}
	}
	c.Made(values)
	return nil
}

// Afterwards runs do once the answer has been sent, because do cuts the connection that the answer takes.
func (c *Call) Afterwards(do func()) { c.afterwards = do }

// SetCookie adds a cookie to the answer.
func (c *Call) SetCookie(cookie *http.Cookie) { http.SetCookie(c.response, cookie) }

// Client returns the client's address: that of the connection or, on the unix socket, that of the PROXY header.
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

// Connection returns both ends of the request's connection; ok is false if it came by the control socket or from another node. On
// the unix socket, the ends are those of the PROXY header.
func (c *Call) Connection() (client, server netip.AddrPort, ok bool) {
	client, err := netip.ParseAddrPort(c.Request.RemoteAddr)
	local, _ := c.Request.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if err != nil || local == nil || isLocal(c.Request.Context()) || forwarded(c.Request.Context()) != nil {
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

// Local reports whether the caller is the machine's root, on the control socket.
func (c *Call) Local() bool { return isLocal(c.Request.Context()) }

// Body returns a body that is not JSON. The sender may take as long as it needs, but may not pause for long.
func (c *Call) Body() io.Reader {
	return &unhurriedBody{c.Request.Body, http.NewResponseController(c.response)}
}

// Whole reads a body that is not JSON, up to most bytes. name is used in the error for a body that is too large.
func (c *Call) Whole(name string, most int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(c.Body(), most+1))
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "The body ended early.")
	case int64(len(body)) > most:
		return nil, fault.New(fault.TooLarge, "%s must have at most %d MiB.", name, most>>20)
	}
	return body, nil
}

type unhurriedBody struct {
	in      io.Reader
	control *http.ResponseController
}

func (b *unhurriedBody) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(takeWithin))
	return b.in.Read(p)
}
