package apply_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	history "edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/waittest"
)

// report waits until the history of the newest set satisfies enough.
func (x *toy) report(t *testing.T, what string, enough func(list []history.Apply) bool) (list []history.Apply) {
	t.Helper()
	waittest.UntilNil(t, what, func() error {
		sets, err := x.Changes.Search(t.Context(), x.DB, history.Filter{Limit: 1})
		if err != nil || len(sets) != 1 {
			return fmt.Errorf("%+v %w", sets, err)
		}
		if list, err = x.Changes.Report(t.Context(), x.DB, sets[0]); err != nil || !enough(list) {
			return fmt.Errorf("%+v %w", list, err)
		}
		return nil
	})
	return list
}

// The history says of each change how its component applied it: at run time, by a reload, or not at all, and what happened to the
// files.
func TestHistoryTellsHowAChangeWasTaken(t *testing.T) {
	t.Parallel()
	s := newStepping(t)
	dbtest.Exec(t, s.DB, `ALTER TABLE toy_lines ADD id uuid DEFAULT gen_random_uuid(); SELECT change_keep('toy_lines', 'id', 'shared')`)
	// At run time; the file follows.
	s.want(t, "one", apply.Live)
	list := s.report(t, "the step and its file", func(list []history.Apply) bool { return len(list) == 2 })
	if a := list[0]; a.Component != "ntp" || a.Way != history.Runtime || a.State != "live" || a.Error != "" || len(a.Files) != 0 || a.DurationMS < 0 {
		t.Errorf("%+v", a)
	}
	if a := list[1]; a.Way != history.None || len(a.Files) != 1 || !strings.Contains(a.Files[0].Diff, "\n+one\n") || !strings.HasPrefix(a.Files[0].Diff, "--- before/") {
		t.Errorf("%+v", a)
	}
	// By a reload, which takes a while.
	gate := make(chan struct{})
	s.set(func() { s.gate = gate })
	done := make(chan struct{})
	go func() { defer close(done); s.want(t, "structure", apply.Live) }()
	waittest.Until(t, "it is being applied", func() bool { s.toy.mu.Lock(); defer s.toy.mu.Unlock(); return len(s.given) == 3 })
	if list := s.report(t, "nothing yet", func([]history.Apply) bool { return true }); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	began := time.Now()
	waittest.Until(t, "time passes", func() bool { return time.Since(began) > 5*time.Millisecond })
	close(gate)
	<-done
	list = s.report(t, "the reload", func(list []history.Apply) bool { return len(list) == 1 })
	if a := list[0]; a.Way != history.Reload || a.State != "live" || len(a.Files) != 1 || !strings.Contains(a.Files[0].Diff, "\n+structure\n") || a.DurationMS < 5 || a.EndedAt.IsZero() {
		t.Errorf("%+v", a)
	}
	// It fails, and says why. The daemon gets its old file back.
	s.set(func() {
		s.sick = func(lines string) error {
			if strings.Contains(lines, "zz") {
				return errors.New("no answer")
			}
			return nil
		}
	})
	s.fails = "zz"
	s.want(t, "zz", apply.Degraded)
	list = s.report(t, "the failure", func(list []history.Apply) bool { return len(list) > 0 })
	if a := list[0]; a.State != "degraded" || !strings.Contains(a.Error, "No answer") {
		t.Errorf("%+v", a)
	}
}
