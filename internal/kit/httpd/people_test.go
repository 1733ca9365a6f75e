package httpd_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
)

// machines admits callers with a session, with API tokens, and programs with neither.
type machines struct{}

func (machines) Authenticate(r *http.Request) (actor.Actor, error) {
	a, err := kittest.Roles{}.Authenticate(r)
	switch r.Header.Get("X-Test-Caller") {
	case "person":
		a.Session = uuid.New()
	case "token":
		a.Token = uuid.New()
	}
	return a, err
}

func TestRoutesForPeopleAlone(t *testing.T) {
	r := httpd.NewRouter(slog.New(slog.DiscardHandler))
	r.Sessions, r.SetupDone = machines{}, func() bool { return true }
	handle := func(path string, p httpd.Policy) {
		httpd.Handle(r, http.MethodPost, path, p.Here(), httpd.Doc{ID: path, Tag: "test", Summary: "x", Creates: "/made"}, func(*httpd.Call, struct {
			All bool `query:"all"`
		}) (string, error) {
			return "x", nil
		})
	}
	handle("/own", httpd.Own.BySession())
	handle("/all", httpd.Write.BySession())
	h := r.Handler(http.NotFoundHandler())
	for _, x := range []struct {
		role, path, caller string
		status             int
	}{
		{"viewer", "/own", "person", 201}, {"viewer", "/own", "token", 403}, {"admin", "/own", "token", 403}, {"admin", "/own", "program", 403}, {"", "/own", "person", 401},
		{"admin", "/all", "person", 201}, {"admin", "/all", "token", 403}, {"admin", "/all", "program", 201}, {"viewer", "/all", "person", 403},
		{"admin", "/all?all=true", "person", 201}, {"admin", "/all?all=x", "person", 400},
	} {
		if a := kittest.Call(t, h, http.MethodPost, x.path, nil, "Authorization", "Bearer "+x.role, "X-Test-Caller", x.caller); a.Status != x.status {
			t.Errorf("%+v: %d", x, a.Status)
		}
	}
	op := r.Spec("x").Paths["/own"].Post
	if op.Extensions["x-by-session"] != true || op.Responses["201"] == nil {
		t.Errorf("documentation: %+v", op)
	}
}

func TestRedirects(t *testing.T) {
	r := httpd.NewRouter(slog.New(slog.DiscardHandler))
	r.SetupDone = func() bool { return true }
	httpd.Redirect(r, "/away", httpd.Public, httpd.Doc{ID: "away", Tag: "test", Summary: "x"}, func(_ *httpd.Call, in struct {
		To string `query:"to"`
	}) string {
		return "/" + in.To
	})
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		w := httptest.NewRecorder()
		r.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(method, "/api/v1/away?to=there", nil))
		if w.Code != http.StatusFound || w.Header().Get("Location") != "/there" || w.Body.Len() != 0 || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", method, w.Code, w.Header())
		}
	}
	if r.Routes()[0].Enveloped() || r.Spec("x").Paths["/away"].Get.Responses["302"] == nil {
		t.Error("the documentation has an envelope")
	}
}
