package httpd_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
)

type number struct {
	N int `json:"n" doc:"A number."`
}

// counter returns a router with a setting, an action below it, and one beside it.
func counter(t *testing.T) *httpd.Router {
	t.Helper()
	r, _ := router(t)
	var mu sync.Mutex
	n := number{}
	doc := func(id string) httpd.Doc { return httpd.Doc{ID: id, Tag: "test", Summary: "x"} }
	change := func(f func()) (number, error) {
		mu.Lock()
		defer mu.Unlock()
		f()
		return n, nil
	}
	httpd.Handle(r, http.MethodGet, "/number", httpd.Read, doc("number.get"), func(*httpd.Call, struct{}) (number, error) { return change(func() {}) })
	httpd.Handle(r, http.MethodPut, "/number", httpd.Write.Here(), doc("number.put"), func(_ *httpd.Call, in struct{ Body number }) (number, error) {
		return change(func() { n = in.Body })
	})
	httpd.Handle(r, http.MethodPost, "/number/increase", httpd.Write.Here(), doc("number.increase"), func(*httpd.Call, struct{}) (number, error) { return change(func() { n.N++ }) })
	httpd.Handle(r, http.MethodPost, "/alone", httpd.Write.Here(), doc("alone"), func(*httpd.Call, struct{}) (number, error) { return change(func() { n.N++ }) })
	return r
}

// Everything that can be read has a tag, and changes of it can depend on that.
func TestIfMatchOfEveryRoute(t *testing.T) {
	h := counter(t).Handler(http.NotFoundHandler())
	do := func(method, path string, body any, headers ...string) *kittest.Answer {
		t.Helper()
		return kittest.Call(t, h, method, path, body, append(headers, "Authorization", "Bearer admin")...)
	}
	tag := do("GET", "/number", nil).Want(t, 200).Header.Get("ETag")
	if tag == "" {
		t.Fatal("no ETag")
	}
	do("GET", "/number", nil, "If-None-Match", tag).Want(t, 304)
	do("PUT", "/number", `{"n":1}`, "If-Match", tag).Want(t, 200)
	for _, x := range []struct {
		method, path string
		body         any
	}{{"PUT", "/number", `{"n":2}`}, {"POST", "/number/increase", nil}, {"POST", "/alone", nil}} {
		if a := do(x.method, x.path, x.body, "If-Match", tag).Want(t, 412); a.Error.Code != "stale" {
			t.Errorf("%s %s: %s", x.method, x.path, a.Body)
		}
	}
	kittest.Call(t, h, "PUT", "/number", `{"n":2}`, "If-Match", tag).Want(t, 401)
	if a := do("GET", "/number", nil); string(a.Data) != `{"n":1}` {
		t.Fatalf("a refused change was made: %s", a.Body)
	}
	tag = do("GET", "/number", nil).Header.Get("ETag")
	do("POST", "/number/increase", nil, "If-Match", `"other", `+tag).Want(t, 200)
	do("POST", "/number/increase", nil, "If-Match", "*").Want(t, 200)
	do("POST", "/alone", nil).Want(t, 200)

	tag = do("GET", "/number", nil).Header.Get("ETag")
	statuses := make(chan int, 20)
	for range cap(statuses) {
		go func() { statuses <- do("POST", "/number/increase", nil, "If-Match", tag).Status }()
	}
	wins := 0
	for range cap(statuses) {
		if <-statuses == 200 {
			wins++
		}
	}
	if wins != 1 {
		t.Errorf("%d of those that depend on one state have won", wins)
	}
}

func TestBodyWhereNoneIsTaken(t *testing.T) {
	h := counter(t).Handler(http.NotFoundHandler())
	for body, want := range map[string]int{"": 200, "{}": 200, " { } ": 200, `{"n":1}`: 400, "{": 400, "[]": 400, "null": 400, "n=1": 400, strings.Repeat(" ", 2<<20): 413} {
		if a := kittest.Call(t, h, "POST", "/number/increase", body, "Authorization", "Bearer admin"); a.Status != want {
			t.Errorf("%.20q: %d instead of %d", body, a.Status, want)
		}
	}
}

func TestBodyMustBeAnnouncedAsJSON(t *testing.T) {
	h := counter(t).Handler(http.NotFoundHandler())
	for announced, want := range map[string]int{
		"application/json": 200, "application/json; charset=utf-8": 200, "Application/JSON": 200,
		"application/x-www-form-urlencoded": 415, "text/plain": 415, "multipart/form-data; boundary=x": 415, "application/jsonx": 415, "json": 415, ";": 415,
	} {
		a := kittest.Call(t, h, "PUT", "/number", `{"n":1}`, "Authorization", "Bearer admin", "Content-Type", announced)
		if a.Status != want || want == 415 && a.Error.Code != "unsupported_media_type" {
			t.Errorf("%q: %d %s", announced, a.Status, a.Body)
		}
	}
	kittest.Call(t, h, "POST", "/number/increase", nil, "Authorization", "Bearer admin", "Content-Type", "text/plain").Want(t, 200)
}

// Each request has one line in the log, with the id in its answer and without its query.
func TestEveryRequestHasItsLine(t *testing.T) {
	r := counter(t)
	var logs bytes.Buffer
	r.Log = slog.New(slog.NewTextHandler(&logs, nil))
	httpd.Handle(r, http.MethodGet, "/refused", httpd.Read, httpd.Doc{ID: "refused", Tag: "test", Summary: "x"}, func(*httpd.Call, struct{}) (string, error) {
		return "", fault.New(fault.Conflict, "no")
	})
	h := r.Handler(r.App(app))
	for _, x := range []struct {
		method, path, role string
		status             int
	}{
		{"GET", "/number?token=canary", "admin", 200}, {"GET", "/number", "", 401}, {"PUT", "/number", "viewer", 403}, {"GET", "/refused", "admin", 409}, {"GET", "/nothing", "", 404}, {"GET", "/panic", "", 500},
	} {
		logs.Reset()
		a := kittest.Call(t, h, x.method, x.path, nil, "Authorization", "Bearer "+x.role)
		actor := `""`
		if x.role != "" && x.status != 401 {
			actor = "[0-9a-f-]{36}"
		}
		at, _, _ := strings.Cut(x.path, "?")
		want := fmt.Sprintf(`level=INFO msg=request request_id=%s method=%s path=/api/v1%s status=%d duration=\S+ actor=%s\n`, a.Header.Get("X-Request-ID"), x.method, at, x.status, actor)
		if n := len(regexp.MustCompile(want).FindAllString(logs.String(), -1)); n != 1 || strings.Contains(logs.String(), "canary") || strings.Count(logs.String(), "msg=request ") != 1 {
			t.Errorf("%s %s: %s", x.method, x.path, logs.String())
		}
	}
}
