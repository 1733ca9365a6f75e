// Package httpd is the HTTP server: routes with their policies, the envelope, authentication, the single-page app, streams, and
// the OpenAPI document.
package httpd

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/netip"
	"path"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/wire"
)

const Prefix = "/api/v1"

// MaxBody is the largest body that a request may have.
const MaxBody = 1 << 20

// Sessions authenticates requests.
type Sessions interface {
	// Authenticate returns Unauthenticated if the request has no valid session, Forbidden if its user is inactive, and
	// Unavailable if that cannot be checked.
	Authenticate(r *http.Request) (actor.Actor, error)
}

// Doc documents a route.
type Doc struct {
	ID      string // operation id, unique: ntp.pool.list
	Tag     Tag    // the room
	Summary string // one line
	// Audit is the action that a call of the route writes to the audit log; empty for routes that change nothing.
	Audit string
	// Feeds lists the components that a mutation re-renders.
	Feeds []string
	// Creates is the path of what a call creates: /backups/{id}, with parameters of the route's own path and fields of the
	// answer. The answer then has status 201 and this Location. It is empty for routes that create nothing.
	Creates string
	// OnPrimary decides, based on the request, where it is handled, if the policy leaves that open. The primary ignores the
	// error.
	OnPrimary func(c *Call) (bool, error)
	// State is the path whose ETag is compared with If-Match; if empty, that of the nearest readable route, starting with the
	// route's own path.
	State string
}

// Tag groups the routes of a room in the document.
type Tag string

// Doc documents a route that writes no audit entry.
func (t Tag) Doc(id, summary string) Doc { return Doc{ID: id, Tag: t, Summary: summary} }

// Audited documents a route that writes an audit entry under its own id.
func (t Tag) Audited(id, summary string) Doc { return Doc{ID: id, Tag: t, Summary: summary, Audit: id} }

// Route is one registered operation.
type Route struct {
	Doc
	Method  string
	Path    string // relative to Prefix, with {name} for parameters
	Policy  Policy
	In      reflect.Type  // path and query parameters, and Body
	Body    *SchemaSource // the JSON body; nil if the route takes none
	Out     *SchemaSource // the data of a successful answer; nil if that has no envelope
	Status  int           // of a successful answer
	MIME    string        // of an answer without an envelope
	Takes   string        // MIME types of a body that the handler reads and limits itself; separated by commas
	WebSock bool
	// Matches says that the handler checks If-Match itself.
	Matches  bool
	handle   func(c *Call) error
	mutation bool
	changing *sync.Mutex // held by a mutation that depends on the state that this route shows
}

func (r *Route) Enveloped() bool { return r.Out != nil }

// SchemaSource is a type, and how the documentation shows it.
type SchemaSource struct {
	Type   reflect.Type
	Suffix string // of the schema's name, for the input forms of a type
	New    bool   // required fields must be given
	List   bool
	// Optional says that the body may be omitted.
	Optional bool
	Only     []string // the fields of an input form; nil for all
	// Defaults are the values of omitted fields when something is created, by name.
	Defaults map[string]any
}

// Router holds the routes of the API.
type Router struct {
	Sessions Sessions
	// SetupDone reports whether the initial setup is complete.
	SetupDone func() bool
	// Owner authenticates a request to a machine that is not set up yet, and refuses callers who do not own it.
	Owner func(client netip.Addr, token string) (actor.Actor, error)
	// Forward, if set, makes the primary handle a request that is not for this node, and relays the answer. done reports whether
	// it did. With a refusal, a standby answers with that instead.
	Forward func(c *Call, refusal error) (done bool, err error)
	// Recall returns the current state of the user or API token that another node says a request is from. If it is nil, forwarded
	// requests are refused.
	Recall func(ctx context.Context, a actor.Actor) (actor.Actor, error)
	// Door, if set, decides about every request before a route is looked up. Handlers see the context that it returns.
	Door    func(r *http.Request) (context.Context, error)
	Log     *slog.Logger
	routes  []*Route
	byPath  map[string]map[string]*Route
	observe func(route string, status int, d time.Duration)
	streams streams
}

// NewRouter returns a router without routes.
func NewRouter(log *slog.Logger) *Router {
	return &Router{Log: log, byPath: map[string]map[string]*Route{}, observe: func(string, int, time.Duration) {}}
}

func (r *Router) Routes() []*Route { return r.routes }

// Add registers a route with a handler that works on the call itself. Use Handle for everything that fits the envelope.
func (r *Router) Add(route Route, handle func(c *Call) error) {
	switch {
	case route.Policy.name == "":
		panic(fmt.Sprintf("%s %s has no policy", route.Method, route.Path))
	case route.ID == "" || route.Tag == "" || route.Summary == "":
		panic(fmt.Sprintf("%s %s is not documented", route.Method, route.Path))
	case slices.ContainsFunc(r.routes, func(x *Route) bool { return x.ID == route.ID }):
		panic(fmt.Sprintf("operation %s is registered twice", route.ID))
	case route.Status == http.StatusCreated && route.Creates == "":
		panic(fmt.Sprintf("%s %s does not say where what it makes is", route.Method, route.Path))
	case route.Creates != "":
		route.Status = http.StatusCreated
	}
	if route.mutation = route.Method != http.MethodGet; route.mutation == (route.Policy.where == "" && route.OnPrimary == nil) {
		panic(fmt.Sprintf("%s %s: what changes something says which node does it (Here or OnPrimary), and nothing else does", route.Method, route.Path))
	}
	route.handle = handle
	route.changing = new(sync.Mutex)
	if route.Status == 0 {
		route.Status = http.StatusOK
	}
	if r.byPath[route.Path] == nil {
		r.byPath[route.Path] = map[string]*Route{}
	}
	if r.byPath[route.Path][route.Method] != nil {
		panic(fmt.Sprintf("%s %s is registered twice", route.Method, route.Path))
	}
	r.byPath[route.Path][route.Method] = &route
	r.routes = append(r.routes, &route)
}

// Handle registers a route whose answer is in the envelope. In is a struct: fields with a path or query tag come from the URL,
// the field Body from the JSON body, which is optional if Body is a pointer.
func Handle[In, Out any](r *Router, method, path string, p Policy, d Doc, fn func(c *Call, in In) (Out, error)) {
	plan := planFor(reflect.TypeFor[In]())
	route := Route{Doc: d, Method: method, Path: path, Policy: p, In: reflect.TypeFor[In](), Out: &SchemaSource{Type: reflect.TypeFor[Out]()}}
	if plan.body != nil {
		body := reflect.TypeFor[In]().FieldByIndex(plan.body).Type
		optional := body.Kind() == reflect.Pointer
		if optional {
			body = body.Elem()
		}
		route.Body = &SchemaSource{Type: body, Suffix: "Input", New: true, Optional: optional}
		if onto, ok := reflect.Zero(body).Interface().(interface{ source() *SchemaSource }); ok {
			route.Body = onto.source()
		}
	}
	r.Add(route, func(c *Call) error {
		var in In
		if err := plan.read(c.Request, reflect.ValueOf(&in).Elem()); err != nil {
			return err
		}
		out, err := fn(c, in)
		if err != nil {
			return err
		}
		return c.Reply(out)
	})
}

// Redirect registers a route that redirects the browser to what fn returns. Failures are redirects as well, because only people
// see them.
func Redirect[In any](r *Router, path string, p Policy, d Doc, fn func(c *Call, in In) (location string)) {
	plan := planFor(reflect.TypeFor[In]())
	r.Add(Route{Doc: d, Method: http.MethodGet, Path: path, Policy: p, In: reflect.TypeFor[In](), Status: http.StatusFound}, func(c *Call) error {
		var in In
		if err := plan.read(c.Request, reflect.ValueOf(&in).Elem()); err != nil {
			return err
		}
		c.Header().Set("Location", fn(c, in))
		c.response.WriteHeader(c.status)
		return nil
	})
}

type envelope struct {
	Data  any       `json:"data"`
	Error *Envelope `json:"error"`
}

// Open unwraps an answer of the API: the data, or the error with which the request was refused.
func Open[T any](body []byte) (out T, refused *Envelope, err error) {
	answer := struct {
		Data  *T        `json:"data"`
		Error *Envelope `json:"error"`
	}{Data: &out}
	err = json.Unmarshal(body, &answer)
	return out, answer.Error, err
}

// Envelope is the error of an answer.
type Envelope struct {
	Code    string            `json:"code" doc:"Stable code of the error."`
	Message string            `json:"message" doc:"The message as a sentence."`
	Fields  map[string]string `json:"fields,omitempty" doc:"What is wrong with each field of the request."`
	Details any               `json:"details,omitempty" doc:"Further data, for example what depends on a row."`
}

// Reply answers with data in the envelope. Answers to reads have an ETag.
func (c *Call) Reply(data any) error {
	b, err := wire.Encode(data)
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	if c.reads() {
		return c.ReplyTagged(Encode(b))
	}
	if err := c.locate(b); err != nil {
		return err
	}
	return c.ReplyJSON(enclose(b))
}

// ReplyJSON answers with a complete encoded body.
func (c *Call) ReplyJSON(body []byte) error {
	return c.ReplyRaw("application/json", body)
}

// ReplyRaw answers with a body without an envelope.
func (c *Call) ReplyRaw(contentType string, body []byte) error {
	c.Header().Set("Content-Type", contentType)
	c.response.WriteHeader(c.status)
	if c.Request.Method != http.MethodHead {
		_, _ = c.response.Write(body)
	}
	return nil
}

// ReplyFile answers with a file, or with the requested ranges of it. name is its name for the browser, and tag identifies its
// content.
func (c *Call) ReplyFile(contentType, name, tag string, at time.Time, content io.ReadSeeker) {
	h := c.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(c.response, c.Request, name, at, content)
}

// fail answers with an error in the envelope, and logs what the caller must not see.
func (r *Router) fail(w http.ResponseWriter, req *http.Request, err error) int {
	f := fault.From(err)
	if f.Kind == fault.Internal && req.Context().Err() != nil {
		// The caller is gone, and its work was cancelled: nobody reads this answer.
		f = fault.Wrap(fault.Unavailable, err, "The request was cancelled.")
	}
	if f.Kind == fault.Internal {
		r.Log.Error("request failed", "method", req.Method, "path", req.URL.Path, "request_id", w.Header().Get("X-Request-ID"), "err", err)
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int(f.RetryAfter.Seconds())+1))
	}
	h := w.Header()
	h.Del("ETag")
	h.Set("Content-Type", "application/json")
	w.WriteHeader(f.Kind.Status())
	if req.Method == http.MethodHead {
		return f.Kind.Status()
	}
	fields := maps.Clone(f.Fields)
	for name, text := range fields {
		fields[name] = fault.Complaint(text)
	}
	b, err := wire.Encode(envelope{Error: &Envelope{Code: f.Kind.Code(), Message: f.Message, Fields: fields, Details: f.Details}})
	if err != nil {
		b = []byte(`{"data":null,"error":{"code":"internal","message":"Internal error. See the log of the gateway."}}`)
	}
	_, _ = w.Write(b)
	return f.Kind.Status()
}

// Handler serves the API under Prefix, and app for everything else.
func (r *Router) Handler(app http.Handler) http.Handler {
	mux := http.NewServeMux()
	for at, methods := range r.byPath {
		mux.Handle(Prefix+at, r.endpoint(methods))
	}
	unknown := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.fail(w, req, fault.New(fault.NotFound, "This route does not exist."))
	})
	mux.Handle("/api", unknown)
	mux.Handle("/api/", unknown)
	mux.Handle("/", app)
	return r.guard(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		// The mux would redirect to the clean path, with a page in HTML.
		clean := path.Clean(req.URL.Path)
		if clean != strings.TrimSuffix(req.URL.Path, "/") && (strings.HasPrefix(clean+"/", "/api/") || strings.HasPrefix(req.URL.Path, "/api/")) {
			unknown(w, req)
			return
		}
		mux.ServeHTTP(w, req)
	}))
}

// endpoint selects the route of a path by method. The mux could do that, but answers 405 in plain text.
func (r *Router) endpoint(methods map[string]*Route) http.Handler {
	allowed := make([]string, 0, len(methods)+1)
	for m := range methods {
		allowed = append(allowed, m)
		if m == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	slices.Sort(allowed)
	allow := strings.Join(allowed, ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		method := req.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		route := methods[method]
		if route == nil {
			w.Header().Set("Allow", allow)
			r.fail(w, req, fault.New(fault.MethodNotAllowed, "This route accepts %s.", allow))
			return
		}
		r.serve(route, w, req)
	})
}

func (r *Router) serve(route *Route, w http.ResponseWriter, req *http.Request) {
	about(req).route = route.ID
	if err := r.call(route, w, req); err != nil {
		r.fail(w, req, err)
	}
}

func (r *Router) call(route *Route, w http.ResponseWriter, req *http.Request) error {
	if !route.Policy.beforeSetup && !r.SetupDone() {
		return fault.New(fault.SetupRequired, "The gateway is not set up yet. Open /setup.")
	}
	if !route.WebSock {
		req = req.WithContext(db.Impatient(req.Context()))
	}
	c := &Call{Context: req.Context(), Request: req, response: w, status: route.Status, creates: route.Creates}
	if !route.Policy.public {
		a, err := r.caller(route, req)
		if err != nil {
			return err
		}
		about(req).actor = a.ID()
		if err := route.Policy.allow(a); err != nil {
			return err
		}
		c.Actor = a
		c.Context = actor.With(c.Context, a)
	}
	if route.mutation {
		if route.Takes == "" {
			req.Body = http.MaxBytesReader(w, req.Body, MaxBody)
		}
		done, err := r.elsewhere(route, c)
		if done || err != nil {
			return err
		}
		if err := checkBody(route, req); err != nil {
			return err
		}
		i, err := intent(req)
		if err != nil {
			return err
		}
		c.Context = changes.With(c.Context, i)
		release, err := r.match(route, c)
		if err != nil {
			return err
		}
		defer release()
	}
	if err := route.handle(c); err != nil || c.afterwards == nil {
		return err
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		r.Log.Warn("flushing an answer failed", "err", err)
	}
	go c.afterwards()
	return nil
}

// SetupTokenHeader contains the setup token, for routes of the machine's owner.
const SetupTokenHeader = "Gateway-Setup-Token"

// caller returns who calls a route.
func (r *Router) caller(route *Route, req *http.Request) (actor.Actor, error) {
	if route.Policy.owner {
		return r.Owner(clientAddr(req), req.Header.Get(SetupTokenHeader))
	}
	return r.authenticate(req)
}

// authenticate returns the actor of a request's session. Root on the machine itself needs none.
func (r *Router) authenticate(req *http.Request) (actor.Actor, error) {
	if f := forwarded(req.Context()); f != nil {
		return r.Recall(req.Context(), f.actor())
	}
	if isLocal(req.Context()) {
		return actor.System("gateway-ctl"), nil
	}
	return r.Sessions.Authenticate(req)
}

// recorder records what the log and the metrics need to know about a request.
type recorder struct {
	http.ResponseWriter
	status int
	aboutRequest
}

// aboutRequest is what becomes known about a request while it is handled.
type aboutRequest struct{ route, actor string }

type aboutKey struct{}

func about(req *http.Request) *aboutRequest { return req.Context().Value(aboutKey{}).(*aboutRequest) }

func (w *recorder) WriteHeader(code int) {
	if w.status == 0 {
		w.status = code
		w.ResponseWriter.WriteHeader(code)
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// Unwrap lets a WebSocket reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// securityHeaders are set on every response. All responses share the values: to change one, set it to a new slice.
var securityHeaders = http.Header{
	"Strict-Transport-Security":  {"max-age=31536000"},
	"X-Content-Type-Options":     {"nosniff"},
	"X-Frame-Options":            {"DENY"},
	"Referrer-Policy":            {"no-referrer"},
	"Cross-Origin-Opener-Policy": {"same-origin"},
	"Permissions-Policy":         {"camera=(), microphone=(), geolocation=()"},
	"Content-Security-Policy":    {contentPolicy("")},
}

// guard handles every request first: it adds the request id and the security headers, writes the log line, recovers from panics,
// and refuses requests that another site makes with the user's cookie.
func (r *Router) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(plain http.ResponseWriter, req *http.Request) {
		start := time.Now()
		id := requestID(req)
		w := &recorder{ResponseWriter: plain}
		ctx := actor.WithRequest(context.WithValue(req.Context(), aboutKey{}, &w.aboutRequest), id)
		if !isLocal(ctx) {
			ctx = actor.WithAddress(ctx, clientAddr(req))
		}
		req = req.WithContext(ctx)
		h := w.Header()
		maps.Copy(h, securityHeaders)
		h.Set("X-Request-ID", id)
		if strings.HasPrefix(req.URL.Path, "/api/") {
			h.Set("Cache-Control", "no-store")
		}
		defer func() {
			p := recover()
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			if p != nil {
				r.Log.Error("panic", "method", req.Method, "path", req.URL.Path, "request_id", id, "err", p, "stack", string(debug.Stack()))
				r.fail(w, req, fault.New(fault.Internal, "Internal error. See the log of the gateway."))
			}
			r.finished(w, req, id, time.Since(start))
		}()
		if r.Door != nil {
			ctx, err := r.Door(req)
			if err != nil {
				r.fail(w, req, err)
				return
			}
			req = req.WithContext(ctx)
		}
		if req.Method != http.MethodGet && req.Method != http.MethodHead && !sameOrigin(req) {
			r.fail(w, req, fault.New(fault.Forbidden, "This request came from another site."))
			return
		}
		next.ServeHTTP(w, req)
	})
}

// finished counts a request and logs it. It omits the query, which may contain the code of a single sign-on.
func (r *Router) finished(w *recorder, req *http.Request, id string, took time.Duration) {
	status := cmp.Or(w.status, http.StatusOK)
	if w.route != "" {
		r.observe(w.route, status, took)
	}
	r.Log.Info("request", "request_id", id, "method", req.Method, "path", req.URL.Path, "status", status, "duration", took.Round(time.Microsecond), "actor", w.actor)
}

// sameOrigin reports whether the request comes from our own page, which is served by https, or from a program other than a
// browser.
func sameOrigin(req *http.Request) bool {
	site, origin := req.Header.Get("Sec-Fetch-Site"), req.Header.Get("Origin")
	return slices.Contains([]string{"", "same-origin", "none"}, site) && (origin == "" || strings.EqualFold(origin, "https://"+req.Host))
}

func requestID(req *http.Request) string {
	// An id from outside is kept if it is harmless, so that a request can be followed across machines.
	if id := req.Header.Get("X-Request-ID"); len(id) >= 8 && len(id) <= 64 && strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.") == "" {
		return id
	}
	var b [12]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// PathID reads a path parameter that is an id; a malformed one is not found.
func PathID(req *http.Request, name string) (uuid.UUID, error) {
	id, err := uuid.Parse(req.PathValue(name))
	if err != nil || len(req.PathValue(name)) != 36 {
		return uuid.UUID{}, fault.New(fault.NotFound, "This id does not exist.")
	}
	return id, nil
}
