package httpd

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"edge.internal/gateway/internal/kit/fault"
)

// ETag returns the entity tag of an encoded resource.
func ETag(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// Encoded is the complete body of an answer, and the tag of its data. It can be cached and sent again.
type Encoded struct {
	Tag  string
	body []byte
}

// Encode puts encoded data into the envelope.
func Encode(data []byte) Encoded { return Encoded{Tag: ETag(data), body: enclose(data)} }

func enclose(data []byte) []byte {
	body := make([]byte, 0, len(data)+24)
	body = append(body, `{"data":`...)
	body = append(body, data...)
	return append(body, `,"error":null}`...)
}

func (e Encoded) Size() int { return len(e.body) }

// ReplyTagged answers with encoded data, or with 304 if the caller has it.
func (c *Call) ReplyTagged(e Encoded) error {
	c.Header().Set("ETag", e.Tag)
	// The browser may store the answer, but must revalidate it before each use.
	c.Header().Set("Cache-Control", "private, no-cache")
	if c.reads() && matches(c.Request.Header.Get("If-None-Match"), e.Tag) {
		c.response.WriteHeader(http.StatusNotModified)
		return nil
	}
	return c.ReplyJSON(e.body)
}

// Match refuses a mutation whose If-Match does not match the current state.
func Match(ifMatch, tag string) error {
	if ifMatch != "" && !matches(ifMatch, tag) {
		return fault.New(fault.Stale, "This has changed since it was read. Read it again.")
	}
	return nil
}

// match refuses a mutation whose If-Match does not match the current state of what it changes: that of the nearest readable path.
// If there is none, nothing matches. Kinds compare the rows that they change themselves, in their transaction. Until release is
// called, no other mutation that depends on this state starts.
func (r *Router) match(route *Route, c *Call) (release func(), err error) {
	ifMatch := c.Request.Header.Get("If-Match")
	if ifMatch == "" || route.Matches {
		return func() {}, nil
	}
	state := r.stateOf(route)
	if state == nil || route.Policy.public {
		return nil, fault.New(fault.Stale, "If-Match does not apply here.")
	}
	state.changing.Lock()
	tag, err := state.tag(c)
	if err == nil {
		err = Match(ifMatch, tag)
	}
	if err != nil {
		state.changing.Unlock()
		return nil, err
	}
	return state.changing.Unlock, nil
}

// stateOf returns the route that shows what a mutation changes.
func (r *Router) stateOf(route *Route) *Route {
	at := route.Path
	if route.State != "" {
		at = route.State
	}
	for ; at != ""; at = at[:strings.LastIndexByte(at, '/')] {
		if get := r.byPath[at][http.MethodGet]; get != nil && get.Enveloped() && !get.WebSock {
			return get
		}
	}
	return nil
}

// tag returns the ETag that the caller would read now.
func (r *Route) tag(c *Call) (string, error) {
	if err := r.Policy.allow(c.Actor); err != nil {
		return "", err
	}
	req := c.Request.Clone(c.Context)
	req.Method, req.Body, req.URL.RawQuery = http.MethodGet, http.NoBody, ""
	req.Header.Del("If-None-Match")
	w := discard{}
	err := r.handle(&Call{Context: c.Context, Request: req, Actor: c.Actor, response: w, status: r.Status})
	return http.Header(w).Get("ETag"), err
}

// discard is an answer of which only the header matters.
type discard http.Header

func (d discard) Header() http.Header         { return http.Header(d) }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

func matches(list, tag string) bool {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimPrefix(strings.TrimSpace(item), "W/")
		if item == "*" || item == tag {
			return true
		}
	}
	return false
}
