package crowdsec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

func serve(t *testing.T, handle http.HandlerFunc) *live {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", Port))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handle)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	s := New(home.Home{}).(*live)
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		server.Close()
	})
	return s
}

func TestRequestsToCrowdSec(t *testing.T) {
	var asked string
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		asked = fmt.Sprint(req.Method, " ", req.URL, " ", req.Header.Get("Authorization"), req.Header.Get("X-Api-Key"), " ", req.Header.Get("Content-Type"), string(body))
		_, _ = io.WriteString(w, `{"fine":true}`)
	})
	for want, q := range map[string]Question{
		"GET /v1/decisions?ip=192.0.2.1 k ":           {Verb: Decisions, Key: "k", Query: url.Values{"ip": {"192.0.2.1"}}},
		"DELETE /v1/decisions/7 Bearer t ":            {Verb: DecisionRemove, ID: 7, Token: "t"},
		"GET /v1/alerts/8 Bearer t ":                  {Verb: Alert, ID: 8, Token: "t"},
		"POST /v1/alerts Bearer t application/json[]": {Verb: AlertAdd, Token: "t", Body: json.RawMessage("[]")},
	} {
		if answer, err := s.DetectionAsk(t.Context(), q); err != nil || string(answer) != `{"fine":true}` || asked != want {
			t.Errorf("%q instead of %q: %s, %v", asked, want, answer, err)
		}
	}
	if _, err := s.DetectionAsk(t.Context(), Question{Verb: "../../x"}); err == nil {
		t.Error("an unknown verb was sent")
	}
}

func TestRefusalsOfCrowdSec(t *testing.T) {
	status, text := 0, ""
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Location", "http://192.0.2.1/")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
	for _, c := range []struct {
		status     int
		text, want string
		unknown    bool
	}{
		{403, `{"message":"access forbidden"}`, "access forbidden", true},
		{401, `{"code":401,"message":"incorrect Username or Password"}`, "incorrect Username or Password", true},
		{500, "no JSON", "no JSON", false},
		{302, "", "", false},
	} {
		status, text = c.status, c.text
		_, err := s.DetectionAsk(t.Context(), Question{Verb: Alerts})
		refused, ok := errors.AsType[*Refused](err)
		if !ok || refused.Status != c.status || refused.Text != c.want || refused.Unknown() != c.unknown {
			t.Errorf("%d %s: %v", c.status, c.text, err)
		}
	}
}

func TestCrowdSecIsNotRunning(t *testing.T) {
	if _, err := New(home.Home{}).DetectionAsk(t.Context(), Question{Verb: Alerts}); !errors.Is(err, daemon.ErrNotRunning) {
		t.Error(err)
	}
	elsewhere := New(home.Home{Root: t.TempDir(), Foreign: true})
	if _, err := elsewhere.DetectionAsk(t.Context(), Question{Verb: Alerts}); !errors.Is(err, daemon.ErrNotInstalled) {
		t.Errorf("the machine's own: %v", err)
	}
}
