// Package kittest provides a complete kit for the tests of rooms: a real database, a machine in memory, and callers of every
// role.
package kittest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/hosttest"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/secret"
)

// Bench is a kit with a machine in memory, or with the real kernel.
type Bench struct {
	*kit.Kit
	Machine *hosttest.Machine // nil with the real kernel
	Logs    *bytes.Buffer
	handler http.Handler
	stop    func()
}

// New returns a kit on its own database. Mount rooms on it, then call Start.
func New(t testing.TB) *Bench {
	t.Helper()
	return NewOn(t, dbtest.New(t))
}

// NewOn returns a kit on the given database.
func NewOn(t testing.TB, d *db.DB) *Bench {
	t.Helper()
	machine := hosttest.New()
	b := bench(t, d, machine, t.TempDir())
	b.Machine = machine
	return b
}

// NewReal returns a kit on the real kernel, for tests in their own network namespace. Its files are in a folder of the test, and
// it has no daemons.
func NewReal(t testing.TB) *Bench {
	t.Helper()
	root := t.TempDir()
	machine, err := machine.New(machine.Options{Root: root, OwnKernel: true, Units: units.None{Reason: "a test of the kernel"}})
	if err != nil {
		t.Fatal(err)
	}
	return bench(t, dbtest.New(t), machine, root)
}

func bench(t testing.TB, d *db.DB, machine host.Machine, root string) *Bench {
	t.Helper()
	box, err := secret.NewBox(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	logs := new(bytes.Buffer)
	log := slog.New(slog.NewTextHandler(&lockedWriter{w: logs}, nil))
	k := kit.New(d, machine, clock.Real, log, box, kit.Paths{Root: root}, "1.0.0")
	k.Router.SetupDone = func() bool { return true }
	k.Router.Owner = func(netip.Addr, string) (actor.Actor, error) { return actor.System("setup"), nil }
	k.Router.Sessions = Roles{}
	return &Bench{Kit: k, Logs: logs}
}

// Start serves the mounted rooms, and runs the lanes until the test ends.
func (b *Bench) Start(t testing.TB) {
	t.Helper()
	b.handler = b.Router.Handler(http.NotFoundHandler())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { b.Engine.Run(ctx); close(done) }()
	b.stop = func() { cancel(); <-done }
	t.Cleanup(b.stop)
	b.Engine.Converge()
}

// Stop ends what Start has begun, as the end of the program does.
func (b *Bench) Stop() { b.stop() }

// Again returns a kit on the database, the machine and the files of a stopped one, as the next start of the program does.
func Again(t testing.TB, stopped *Bench) *Bench {
	t.Helper()
	b := bench(t, stopped.DB, stopped.Machine, stopped.Paths.Root)
	b.Machine = stopped.Machine
	return b
}

func (b *Bench) Handler() http.Handler { return b.handler }

// Roles authenticates test callers by "Authorization: Bearer admin" or viewer.
type Roles struct{}

// Authenticate returns the role that the test chose.
func (Roles) Authenticate(r *http.Request) (actor.Actor, error) {
	switch role := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); role {
	case "admin", "viewer":
		return actor.Actor{Name: role + "@example.net", UserID: uuid.NewSHA1(uuid.Nil, []byte(role)), Role: actor.Role(role)}, nil
	}
	return actor.Actor{}, fault.New(fault.Unauthenticated, "Log in first.")
}

type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Data   json.RawMessage
	Error  *httpd.Envelope
}

func (a *Answer) Into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.Data, v); err != nil {
		t.Fatalf("decoding %s: %v", a.Data, err)
	}
}

// Get is Do for an administrator's GET.
func (b *Bench) Get(t testing.TB, path string) *Answer {
	t.Helper()
	return b.Do(t, "admin", http.MethodGet, path, nil)
}

// Do makes a request as role ("" for nobody). A body that is not a string is encoded as JSON; additional headers come in pairs.
func (b *Bench) Do(t testing.TB, role, method, path string, body any, headers ...string) *Answer {
	t.Helper()
	if role != "" {
		headers = append(headers, "Authorization", "Bearer "+role)
	}
	return Call(t, b.handler, method, path, body, headers...)
}

// Call makes a request to a handler. The path is relative to the API's prefix, and the answer must be in the envelope.
func Call(t testing.TB, h http.Handler, method, path string, body any, headers ...string) *Answer {
	t.Helper()
	var r io.Reader
	switch v := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(v)
	default:
		encoded, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		r = bytes.NewReader(encoded)
	}
	req := httptest.NewRequest(method, httpd.Prefix+path, r).WithContext(t.Context())
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if addr := req.Header.Get("X-Test-Client"); addr != "" {
		req.RemoteAddr = addr
	}
	if addr := req.Header.Get("X-Test-Server"); addr != "" {
		server := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))
		req = req.WithContext(context.WithValue(req.Context(), http.LocalAddrContextKey, server))
	}
	if req.Header.Get("X-Test-Connection") == "new" {
		req = req.WithContext(httpd.Arrived(req.Context(), nil))
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	a := &Answer{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}
	if w.Code == http.StatusNotModified || method == http.MethodHead {
		return a
	}
	var envelope map[string]json.RawMessage
	if err := json.Unmarshal(a.Body, &envelope); err != nil || envelope["data"] == nil || envelope["error"] == nil || len(envelope) != 2 {
		t.Fatalf("%s %s: answer %d is not in the envelope: %s", method, path, w.Code, a.Body)
	}
	a.Data = envelope["data"]
	if err := json.Unmarshal(envelope["error"], &a.Error); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if failed := a.Status >= 400; failed != (a.Error != nil) || failed && string(a.Data) != "null" {
		t.Fatalf("%s %s: status %d does not fit the envelope %s", method, path, a.Status, a.Body)
	}
	return a
}

// Want fails the test unless the answer has the status.
func (a *Answer) Want(t testing.TB, status int) *Answer {
	t.Helper()
	if a.Status != status {
		t.Fatalf("status %d instead of %d: %s", a.Status, status, a.Body)
	}
	return a
}

// WantField fails the test unless the answer is a 400 that names the field.
func (a *Answer) WantField(t testing.TB, field string) *Answer {
	t.Helper()
	a.Want(t, http.StatusBadRequest)
	if a.Error.Fields[field] == "" {
		t.Fatalf("no complaint about %q: %s", field, a.Body)
	}
	return a
}

// WantTaken fails the test unless the answer is a conflict about the field.
func (a *Answer) WantTaken(t testing.TB, field string) *Answer {
	t.Helper()
	a.Want(t, http.StatusConflict)
	if a.Error.Fields[field] == "" {
		t.Fatalf("no complaint about %q: %s", field, a.Body)
	}
	return a
}

// FakeDaemon serves a socket in place of a program, until the test ends or stop is called.
func (b *Bench) FakeDaemon(t testing.TB, socket string, answer http.HandlerFunc) (stop func()) {
	t.Helper()
	path := filepath.Join(b.Paths.Root, socket)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer}
	go func() { _ = server.Serve(l) }()
	stop = func() { _ = server.Close() }
	t.Cleanup(stop)
	return stop
}

// Audited returns how many entries the audit log has for the action.
func (b *Bench) Audited(t testing.TB, action string) int {
	t.Helper()
	entries, err := b.Audit.Search(t.Context(), audit.Filter{Action: action, Limit: audit.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if e.Action == action {
			n++
		}
	}
	return n
}

func (b *Bench) Rows(t testing.TB, table string) (n int) {
	t.Helper()
	if err := b.DB.QueryRow(t.Context(), fmt.Sprintf("SELECT count(*) FROM %s", table)).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
