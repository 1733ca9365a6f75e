package alert

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// AL-03: whatever a receiver does, an attempt ends soon, none of its answer is displayed, and requests are answered in the meantime.
func TestAL03HostileReceivers(t *testing.T) {
	h := newHouse(t)
	const canary = "c4nary-of-the-receiver"
	over := make(chan struct{})
	wait := func(r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}
	hangs := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) { wait(r) })
	drips := newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for {
			if _, err := io.WriteString(conn, "H"); err != nil {
				return
			}
			select {
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	streams := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := strings.Repeat(canary, 50_000)
		for range 1000 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	})
	says := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, canary, 418) })
	var loops *receiver
	toFile := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "file:///etc/passwd")
		w.WriteHeader(302)
	})
	loops = newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, loops.URL, http.StatusTemporaryRedirect)
	})
	mail := mailTrap(t, canary, over)
	endless := mailTrap(t, "", over)
	// Channels are tested in the order of their names.
	for i, url := range []string{hangs.URL, drips.URL, streams.URL, says.URL, toFile.URL, loops.URL} {
		h.channel(t, map[string]any{"name": fmt.Sprint("a", i), "kind": "webhook", "target": url, "allow_internal": true})
	}
	for i, port := range []int{mail, endless} {
		h.channel(t, map[string]any{"name": fmt.Sprint("b", i), "kind": "email", "target": "ann@example.net", "allow_internal": true, "settings": map[string]any{"smtp_host": "localhost", "smtp_port": port, "from": "gateway@example.net"}})
	}
	// The receivers' cleanup waits for their handlers.
	defer close(over)

	tested := make(chan Tested, 1)
	began := time.Now()
	go func() { tested <- h.test(t) }()
	answered := 0
	var out Tested
	for done := false; !done; {
		select {
		case out = <-tested:
			done = true
		default:
			h.Get(t, "/alerts/kinds").Want(t, http.StatusOK)
			answered++
		}
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %s", took)
	}
	if answered < 10 {
		t.Errorf("%d requests were answered meanwhile", answered)
	}
	for i, want := range []string{"It did not answer within 10s.", "It did not answer within 10s.", "", "It answered 418.",
		"It answered 302, a redirect. Enter the address that it redirects to.", "It answered 307, a redirect. Enter the address that it redirects to.",
		"The mail server answered 554.", "Its answer is too long."} {
		if got := out.Results[i].Error; got != want {
			t.Errorf("%d: %q instead of %q", i, got, want)
		}
	}
	if len(loops.messages()) != 1 {
		t.Errorf("a redirect was followed: %d requests", len(loops.messages()))
	}
	if all := string(h.Get(t, "/alerts/events").Body) + h.audited(t) + h.Logs.String() + fmt.Sprint(out); strings.Contains(all, canary) {
		t.Error("what the receiver said came out")
	}
}

// mailTrap listens in the place of a mail server: it refuses with a text, or sends an endless greeting.
func mailTrap(t *testing.T, refuses string, over <-chan struct{}) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if refuses != "" {
					_, _ = io.WriteString(conn, "554 "+refuses+"\r\n")
					<-over
					return
				}
				for {
					if _, err := io.WriteString(conn, "220-"+strings.Repeat("x", 500)+"\r\n"); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// A target entered by an operator must not reach the gateway itself unless that is allowed.
func TestTargetsInsideAreRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	r := newReceiver(t, nil)
	h.channel(t, map[string]any{"kind": "webhook", "target": r.URL})
	h.channel(t, map[string]any{"kind": "webhook", "target": strings.Replace(r.URL, "127.0.0.1", "localhost", 1)})
	h.channel(t, map[string]any{"kind": "webhook", "target": "http://169.254.169.254/latest"})
	h.channel(t, map[string]any{"kind": "email", "target": "ann@example.net", "settings": map[string]any{"smtp_host": "localhost", "smtp_port": 25, "from": "gateway@example.net"}})
	for _, x := range h.test(t).Results {
		if !strings.HasPrefix(x.Error, "This target is not allowed: ") {
			t.Errorf("%+v", x)
		}
	}
	if len(r.messages()) != 0 {
		t.Error("it was reached")
	}
}
