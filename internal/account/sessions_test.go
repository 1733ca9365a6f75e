package account

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/kittest"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"

func TestOwnSessions(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	h.add(t, root, "b@example.net", "viewer")
	theirs := h.enter(t, "b@example.net", plain)
	h.clock.Move(time.Hour)
	second := cookieOf(t, kittest.Call(t, h.Handler(), http.MethodPost, "/auth/login", map[string]any{"email": admin, "password": plain}, "X-Test-Client", there, "User-Agent", firefox))
	var list, others []Session
	h.do(t, root, http.MethodGet, "/auth/sessions", nil).Want(t, http.StatusOK).Into(t, &list)
	if len(list) != 2 || list[0].Current || !list[1].Current || list[0].Browser != "Firefox on Linux" || list[0].UserAgent != firefox || list[0].Address != "198.51.100.1" ||
		list[0].Method != "password" || list[0].ExpiresAt.Sub(list[0].CreatedAt) != 12*time.Hour || list[1].Address != "192.0.2.1" {
		t.Fatalf("sessions %+v", list)
	}
	h.do(t, theirs, http.MethodGet, "/auth/sessions", nil).Into(t, &others)
	if len(others) != 1 {
		t.Errorf("their sessions %+v", others)
	}
	h.do(t, theirs, http.MethodDelete, "/auth/sessions/"+list[0].ID.String(), nil).Want(t, http.StatusNotFound)
	h.do(t, root, http.MethodDelete, "/auth/sessions/"+others[0].ID.String(), nil).Want(t, http.StatusNotFound)
	h.do(t, root, http.MethodDelete, "/auth/sessions/nonsense", nil).Want(t, http.StatusNotFound)
	h.me(t, second).Want(t, http.StatusOK)
	h.do(t, root, http.MethodDelete, "/auth/sessions/"+list[0].ID.String(), nil).Want(t, http.StatusOK)
	h.me(t, second).Want(t, http.StatusUnauthorized)
	h.me(t, root).Want(t, http.StatusOK)
	if e := h.entries(t, "auth.session.end"); len(e) != 1 || e[0].Actor != admin || !strings.Contains(string(e[0].Details), list[0].ID.String()) {
		t.Errorf("audit %+v", e)
	}
	h.do(t, root, http.MethodDelete, "/auth/sessions/"+list[1].ID.String(), nil).Want(t, http.StatusOK) // one's own
	h.me(t, root).Want(t, http.StatusUnauthorized)
	h.clock.Move(11 * time.Hour)
	h.me(t, theirs).Want(t, http.StatusUnauthorized)
}

// Operators returns where administrators are logged in, and no one else.
func TestOperators(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	h.add(t, root, "b@example.net", "viewer")
	kittest.Call(t, h.Handler(), http.MethodPost, "/auth/login", map[string]any{"email": "b@example.net", "password": plain}, "X-Test-Client", there).Want(t, http.StatusOK)
	operators := func() []netip.Addr {
		t.Helper()
		list, err := h.room.Operators(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if got := operators(); len(got) != 1 || got[0] != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("%v", got)
	}
	h.clock.Move(13 * time.Hour)
	if got := operators(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestBrowserInWords(t *testing.T) {
	for agent, want := range map[string]string{
		firefox: "Firefox on Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0":           "Edge on Windows",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15":                   "Safari on macOS",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1": "Safari on iOS",
		"Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36":                            "Chrome on Android",
		"curl/8.10.1":           "curl",
		"":                      "unknown",
		"<img src=x onerror=x>": "<img",
	} {
		if got := browser(agent); got != want {
			t.Errorf("%q is %q", agent, got)
		}
	}
}
