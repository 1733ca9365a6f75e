// Package httpd owns the HTTP side: routes with their policies, the envelope, sessions at the door, the single-page
// app, streams, and the OpenAPI document.
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

// Prefix is where the API lives.
const Prefix = "/api/v1"

// MaxBody is the largest body a request may have.
const MaxBody = 1 << 20

// Sessions tells who makes a request.
type Sessions interface {
	// Authenticate answers Unauthenticated when the request has no valid session, Forbidden when its user is inactive,
	// Unavailable when that cannot be judged.
	Authenticate(r *http.Request) (actor.Actor, error)
}

// Doc is what the documentation says about a route.
type Doc struct {
	ID      string // operation id, unique: ntp.pool.list
	Tag     Tag    // the room
	Summary string // one line
	// Audit is the action that a call of the route writes to the audit log; empty for routes that change nothing.
	Audit string
	// Feeds names the components that a mutation re-renders.
	Feeds []string
	// Creates is the path of what a call makes: /backups/{id}, with parameters of the route's own path and fields of the answer. The answer is
	// 201, and has it as its Location. It is empty for routes that make nothing.
	Creates string
	// OnPrimary decides where a request is done by what it asks for, where the policy does not say so. What it refuses, the primary does all the same.
	OnPrimary func(c *Call) (bool, error)
	// State is the path whose ETag an If-Match is compared with; empty for the route's own path, or the nearest above it
	// that can be read.
	State string
}

// Tag groups the routes of a room in the document.
type Tag string

// Doc documents a route that writes no audit entry.
func (t Tag) Doc(id, summary string) Doc { return Doc{ID: id, Tag: t, Summary: summary} }

// Audited documents a route that writes an entry under its own id.
func (t Tag) Audited(id, summary string) Doc { return Doc{ID: id, Tag: t, Summary: summary, Audit: id} }

// Route is one registered operation.
type Route struct {
	Doc
	Method  string
	Path    string // relative to Prefix, with {name} for parameters
	Policy  Policy
	In      reflect.Type  // path and query parameters, and Body
	Body    *SchemaSource // the JSON body, if the route takes one
	Out     *SchemaSource // the data of a successful answer; nil for what is not in the envelope
	Status  int           // of a successful answer
	MIME    string        // of an answer that is not in the envelope
	Takes   string        // MIME types of a body that is read by the handler, which bounds its length; separated by commas
	WebSock bool
	// Matches says that the handler compares the If-Match itself.
	Matches  bool
	handle   func(c *Call) error
	mutation bool
	changing *sync.Mutex // held by a mutation that depends on the state that this route shows
}

// Enveloped tells whether the answers of the route are in the envelope.
func (r *Route) Enveloped() bool { return r.Out != nil }

// SchemaSource is a type, and how the documentation shows it.
type SchemaSource struct {
	Type   reflect.Type
	Suffix string // of the schema's name, for the input forms of a type
	New    bool   // required fields must be given
	List   bool
	// Optional says that a body may be left out.
	Optional bool
	Only     []string // the fields that an input form has; nil for all
	// Defaults are what the fields of a new value are where a request does not say, by their names.
	Defaults map[string]any
}

// Router holds the routes of the API.
type Router struct {
	Sessions Sessions
	// SetupDone tells whether the initial setup is complete.
	SetupDone func() bool
	// Owner says who makes a request to a machine that is not set up yet, and refuses those who do not own it.
	Owner func(client netip.Addr, token string) (actor.Actor, error)
	// Forward, where there is one, has the primary do what this node does not, and answers the caller. It tells whether it did. With a refusal that is the
	// answer of a node which is not the primary.
	Forward func(c *Call, refusal error) (done bool, err error)
	// Recall tells who the user or the API token is now that another node says a request is of. Without it, nothing is taken from other nodes.
	Recall func(ctx context.Context, a actor.Actor) (actor.Actor, error)
	// Door, where there is one, decides about every request before a route is looked up; what it adds to the context, handlers find.
	Door    func(r *http.Request) (context.Context, error)
	Log     *slog.Logger
	routes  []*Route
	byPath  map[string]map[string]*Route
	observe func(route string, status int, d time.Duration)
	streams streams
}

// NewRouter makes an empty router.
func NewRouter(log *slog.Logger) *Router {
	return &Router{Log: log, byPath: map[string]map[string]*Route{}, observe: func(string, int, time.Duration) {}}
}

// Routes lists what is registered, in order.
func (r *Router) Routes() []*Route { return r.routes }

// Add registers a route with a handler that works on the call itself. Handle is the way for all that fits the envelope.
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

// Handle registers a route whose answer is in the envelope. In is a struct: fields with a path or query tag come from
// the URL, the field Body from the JSON body, which may be left out if that is a pointer.
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

// Redirect registers a route that sends the browser elsewhere: fn answers where to. Its failures have a place of their
// own too, because nobody but a person sees them.
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

// Open takes an answer of the API out of its envelope: what was asked for, or why it was refused.
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

// Reply answers with data in the envelope. What is read carries its ETag.
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

// ReplyJSON answers with a whole body that is encoded already.
func (c *Call) ReplyJSON(body []byte) error {
	return c.ReplyRaw("application/json", body)
}

// ReplyRaw answers with a body that is not in the envelope.
func (c *Call) ReplyRaw(contentType string, body []byte) error {
	c.Header().Set("Content-Type", contentType)
	c.response.WriteHeader(c.status)
	if c.Request.Method != http.MethodHead {
		_, _ = c.response.Write(body)
	}
	return nil
}

// ReplyFile answers with a file, or with the parts of it that were asked for. name is what the browser calls it, and tag names its content.
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
		// The caller went away, and whatever was under way for it ended early: nobody reads this answer.
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
		// The mux would send the caller to the clean path, by a page in HTML.
		clean := path.Clean(req.URL.Path)
		if clean != strings.TrimSuffix(req.URL.Path, "/") && (strings.HasPrefix(clean+"/", "/api/") || strings.HasPrefix(req.URL.Path, "/api/")) {
			unknown(w, req)
			return
		}
		mux.ServeHTTP(w, req)
	}))
}

// endpoint chooses the route of a path by method. It is ours because the mux answers 405 in plain text.
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
		r.Log.Warn("an answer may come too late", "err", err)
	}
	go c.afterwards()
	return nil
}

// SetupTokenHeader carries the setup token of those who need it for a route of the machine's owner.
const SetupTokenHeader = "Gateway-Setup-Token"

// caller tells who calls a route.
func (r *Router) caller(route *Route, req *http.Request) (actor.Actor, error) {
	if route.Policy.owner {
		return r.Owner(clientAddr(req), req.Header.Get(SetupTokenHeader))
	}
	return r.authenticate(req)
}

// authenticate tells whose session a request has. Root on the machine itself needs none.
func (r *Router) authenticate(req *http.Request) (actor.Actor, error) {
	if f := forwarded(req.Context()); f != nil {
		return r.Recall(req.Context(), f.actor())
	}
	if isLocal(req.Context()) {
		return actor.System("gateway-ctl"), nil
	}
	return r.Sessions.Authenticate(req)
}

// recorder remembers what the log and the metrics say about a request.
type recorder struct {
	http.ResponseWriter
	status int
	aboutRequest
}

// aboutRequest is what becomes known of a request on its way.
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

// guard is what every request passes: its id, its line in the log, the security headers, a net under panics, and the
// refusal of requests that another site made with our user's cookie.
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
		h.Set("X-Request-ID", id)
		h.Set("Strict-Transport-Security", "max-age=31536000")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
		h.Set("Content-Security-Policy", contentPolicy(""))
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

// finished counts a request and writes its line. The query is left out: a sign-on comes back with its code there.
func (r *Router) finished(w *recorder, req *http.Request, id string, took time.Duration) {
	status := cmp.Or(w.status, http.StatusOK)
	if w.route != "" {
		r.observe(w.route, status, took)
	}
	r.Log.Info("request", "request_id", id, "method", req.Method, "path", req.URL.Path, "status", status, "duration", took.Round(time.Microsecond), "actor", w.actor)
}

// sameOrigin tells whether a browser's page of ours, or no browser at all, makes the request. Our pages come by https.
func sameOrigin(req *http.Request) bool {
	site, origin := req.Header.Get("Sec-Fetch-Site"), req.Header.Get("Origin")
	return slices.Contains([]string{"", "same-origin", "none"}, site) && (origin == "" || strings.EqualFold(origin, "https://"+req.Host))
}

func requestID(req *http.Request) string {
	// An id from outside is kept when it is harmless, so that a request can be followed through several machines.
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
