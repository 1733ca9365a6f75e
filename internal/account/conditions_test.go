package account

import (
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/watch/watchtest"
)

func TestManyFailedLogins(t *testing.T) {
	t.Parallel()
	w := watchtest.New(t, Check)
	fail := func(n int, from string) {
		for range n {
			if err := w.Audit.RecordAs(t.Context(), "<img onerror=x>@example.net", "auth.login.failed", "x", map[string]any{"remote_ip": from}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fail(9, "192.0.2.1")
	w.Want(t)
	fail(1, "192.0.2.2")
	open := w.Want(t, "auth.login.failures warning")
	if !strings.Contains(open[0].Message, "192.0.2.1") || strings.Contains(open[0].Message, "img") {
		t.Errorf("%+v", open)
	}
	w.Clock.Move(16 * time.Minute)
	w.Want(t)
}
