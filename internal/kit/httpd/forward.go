package httpd

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/fault"
)

const (
	// ForwardHeader describes a request that one node forwards to another: a Forwarded in JSON.
	ForwardHeader = "Gateway-Forward"
	// DoneHeader marks the answer to such a request, and contains the id of the last audit entry that it wrote.
	DoneHeader = "Gateway-Forwarded"
	// ForwardType is the content type of such a request, whatever its original one is.
	ForwardType = "application/octet-stream"
)

// forwardedHeaders are the request headers that the primary needs.
var forwardedHeaders = []string{"Content-Type", "If-Match", ReasonHeader, ConfirmWithinHeader}

// relayedHeaders are the headers of its answer that the caller needs.
var relayedHeaders = []string{"ETag", "Location", "Retry-After", "Gateway-Apply", ChangeSetHeader, ConfirmByHeader}

// Forwarded is a request that one node forwards to another. It says who the user is, but not what the user may do.
type Forwarded struct {
	Method  string         `json:"method"`
	URI     string         `json:"uri"`
	Host    string         `json:"host"`
	Client  netip.AddrPort `json:"client"`
	UserID  uuid.UUID      `json:"user_id"`
	Token   uuid.UUID      `json:"token"`
	Session uuid.UUID      `json:"session"`
	By      string         `json:"by"`
	Header  http.Header    `json:"header"`
	// Open is how long the client's connection has been open; zero if unknown. It is not a time, because the clocks of two nodes
	// differ.
	Open time.Duration `json:"open"`

	since time.Time // by the clock of this node
}

func (f *Forwarded) actor() actor.Actor {
	return actor.Actor{UserID: f.UserID, Token: f.Token, Session: f.Session, Method: f.By}
}

type forwardedKey struct{}

func forwarded(ctx context.Context) *Forwarded {
	f, _ := ctx.Value(forwardedKey{}).(*Forwarded)
	return f
}

// elsewhere forwards a request to the primary if it is not for this node, and refuses a forwarded request that the other node
// should have handled.
func (r *Router) elsewhere(route *Route, c *Call) (done bool, err error) {
	passed := forwarded(c.Request.Context()) != nil
	if !passed && r.Forward == nil {
		return false, nil
	}
	there := route.Policy.where == onPrimary
	if route.OnPrimary != nil {
		there, err = route.OnPrimary(c)
	}
	switch {
	case passed && err == nil && !there:
		return false, fault.New(fault.Forbidden, "Each node does this itself.")
	case passed || err == nil && !there:
		return false, err
	}
	return r.Forward(c, err)
}

// RequireNewConnection requires a new connection if the call is forwarded: a kept one may still work although no new one can be opened.
func (c *Call) RequireNewConnection() { c.newConnection = true }

// NeedsNewConnection reports whether the call must be forwarded over a new connection.
func (c *Call) NeedsNewConnection() bool { return c.newConnection }

// Peek decodes the body of a request before it is handled. It ignores errors, which the handler reports.
func (c *Call) Peek(into any) error {
	body, err := ReadBody(c.Request)
	if err != nil {
		return err
	}
	c.Request.Body = io.NopCloser(bytes.NewReader(body))
	_ = json.Unmarshal(body, into)
	return nil
}

// Onward returns the request that forwards a call to another node. ok is false for callers without an account, such as the
// machine's root: the other node would have to take their permissions on trust.
func (c *Call) Onward(ctx context.Context, to string) (req *http.Request, ok bool, err error) {
	if c.Actor.UserID == uuid.Nil || isLocal(ctx) {
		return nil, false, nil
	}
	client, _ := netip.ParseAddrPort(c.Request.RemoteAddr)
	open := time.Duration(0)
	if at := c.Connected(); !at.IsZero() {
		open = max(time.Since(at), time.Nanosecond)
	}
	f, err := json.Marshal(Forwarded{
		Method: c.Request.Method, URI: c.Request.URL.RequestURI(), Host: c.Request.Host, Client: client, Header: pick(c.Request.Header),
		UserID: c.Actor.UserID, Token: c.Actor.Token, Session: c.Actor.Session, By: c.Actor.Method, Open: open,
	})
	if err != nil {
		return nil, false, err
	}
	// Read the body first, so that a slow sender does not occupy the other node.
	body, err := ReadBody(c.Request)
	if err != nil {
		return nil, false, err
	}
	if req, err = http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body)); err != nil {
		return nil, false, err
	}
	req.Header.Set("Content-Type", ForwardType)
	req.Header.Set("X-Request-ID", actor.Request(ctx))
	req.Header.Set(ForwardHeader, string(f))
	return req, true, nil
}

// pick returns the headers that the primary needs.
func pick(all http.Header) http.Header {
	some := http.Header{}
	for _, name := range forwardedHeaders {
		if v := all.Get(name); v != "" {
			some.Set(name, v)
		}
	}
	return some
}

// Relay answers with what another node has answered: data, but nothing that a browser would store or run.
func (c *Call) Relay(res *http.Response, body []byte) {
	c.Header().Set("Content-Type", "application/json")
	for _, name := range relayedHeaders {
		if v := res.Header.Get(name); v != "" {
			c.Header().Set(name, v)
		}
	}
	c.response.WriteHeader(res.StatusCode)
	_, _ = c.response.Write(body)
}

// Passed handles a request that another node has forwarded, as if its user had made it here: this node decides who the user is
// and what the user may do, and only routes for the primary are allowed.
func (c *Call) Passed(r *Router, api http.Handler) error {
	f := new(Forwarded)
	if err := json.Unmarshal([]byte(c.Request.Header.Get(ForwardHeader)), f); err != nil || f.UserID == uuid.Nil || r.Recall == nil {
		return fault.New(fault.Invalid, "This request cannot be passed on.")
	}
	if f.Open > 0 {
		f.since = time.Now().Add(-f.Open)
	}
	ctx, last := audit.Noting(context.WithValue(c.Request.Context(), forwardedKey{}, f))
	req, err := http.NewRequestWithContext(ctx, f.Method, f.URI, c.Request.Body)
	if err != nil || req.URL.Host != "" || req.Method == http.MethodGet || req.Method == http.MethodHead {
		return fault.New(fault.Invalid, "This request cannot be passed on.")
	}
	req.Host, req.RequestURI, req.RemoteAddr, req.ContentLength = f.Host, f.URI, f.Client.String(), c.Request.ContentLength
	req.Header = pick(f.Header)
	req.Header.Set("X-Request-ID", actor.Request(ctx))
	api.ServeHTTP(&marked{c.response, last}, req)
	return nil
}

// marked adds DoneHeader to the answer to a forwarded request.
type marked struct {
	http.ResponseWriter
	last func() uuid.UUID
}

func (w *marked) WriteHeader(code int) {
	id := ""
	if code < http.StatusBadRequest && w.last() != uuid.Nil {
		id = w.last().String()
	}
	w.Header()[DoneHeader] = []string{id}
	w.ResponseWriter.WriteHeader(code)
}

func (w *marked) Unwrap() http.ResponseWriter { return w.ResponseWriter }
