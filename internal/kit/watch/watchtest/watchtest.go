// Package watchtest runs the checks of rooms against a fake gateway-api.
package watchtest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/watch"
	"edge.internal/gateway/internal/kit/wire"
)

var Limits = alarm.Limits{
	CertWarningDays: 14, CertErrorDays: 3, MemoryWarning: 90, MemoryError: 95, ConntrackWarning: 80, ConntrackError: 95, DiskWarning: 90, DiskError: 95,
	TunnelDownMinutes: 5, DegradedSeconds: 60, FailedLogins: 10, FailedLoginsMinutes: 15, ReplicationLag: 60,
}

// World is the environment of a check.
type World struct {
	*kittest.Bench
	Clock *clock.Fake
	// Answers are those of gateway-api, by path.
	Answers map[string]any
	// Err replaces all answers.
	Err error
	// Names maps keys to the names that the test uses for them.
	Names map[string]string
	look  func(ctx context.Context) error
}

func New(t *testing.T, c watch.Check) *World {
	t.Helper()
	w := &World{Bench: kittest.New(t), Clock: clock.NewFake(time.Now().Truncate(time.Second)), Answers: map[string]any{}, Names: map[string]string{}}
	w.Kit.Clock, w.Kit.Alarms = w.Clock, alarm.New(w.DB, w.Clock)
	w.FakeDaemon(t, control.Socket(kit.Paths{}), func(rw http.ResponseWriter, r *http.Request) {
		answer, known := w.Answers[strings.TrimPrefix(r.URL.Path, httpd.Prefix)]
		body, err := wire.Encode(map[string]any{"data": answer})
		switch {
		case w.Err != nil:
			rw.WriteHeader(http.StatusInternalServerError)
			body = fmt.Appendf(nil, `{"error":{"message":%q}}`, w.Err)
		case !known || err != nil:
			t.Errorf("%s: no answer, %v", r.URL.Path, err)
		}
		_, _ = rw.Write(body)
	})
	w.look = c.For(w.Kit, func(context.Context) (alarm.Limits, error) { return Limits, nil }).Do
	return w
}

func (w *World) Look(t *testing.T) error {
	t.Helper()
	return w.look(t.Context())
}

// ID returns a new id, and records its name.
func (w *World) ID(name string) uuid.UUID {
	id := uuid.New()
	w.Names[id.String()] = name
	return id
}

// Want runs the check, and fails the test unless exactly these conditions are open afterwards: kind, severity and key of each, in
// alphabetical order.
func (w *World) Want(t *testing.T, wanted ...string) (open []alarm.Condition) {
	t.Helper()
	if err := w.Look(t); err != nil {
		t.Fatal(err)
	}
	open, err := w.Alarms.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, c := range open {
		if c.Subject == "" || c.Message == "" || strings.Contains(c.Subject+c.Message, "%!") {
			t.Errorf("%+v", c)
		}
		found = append(found, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Kind, c.Severity, cmp.Or(w.Names[c.Key], c.Key))))
	}
	slices.Sort(found)
	if !slices.Equal(found, wanted) {
		t.Errorf("%q instead of %q", found, wanted)
	}
	return open
}
