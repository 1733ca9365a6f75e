package watch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/watch"
	"edge.internal/gateway/internal/kit/watch/watchtest"
)

var (
	out    = &alarm.Kind{Name: "toy.out", Severity: alarm.Error, After: func(l *alarm.Limits) time.Duration { return time.Duration(l.DegradedSeconds) * time.Second }}
	dimmed = &alarm.Kind{Name: "toy.dimmed", Severity: alarm.Warning, Unless: out}
)

// A condition is reported when it has lasted long enough, and is over when it is no longer found. While a check fails or cannot
// know, nothing is over.
func TestLastingConditionsAreReported(t *testing.T) {
	t.Parallel()
	var found []alarm.Alarm
	var failure error
	w := watchtest.New(t, watch.Check{Name: "watch.toy", Every: time.Minute, Kinds: []*alarm.Kind{out, dimmed}, Conditions: func(context.Context, *watch.Scene) ([]alarm.Alarm, error) {
		return found, failure
	}})
	is := func(kind *alarm.Kind, key string) alarm.Alarm {
		return alarm.Alarm{Kind: kind, Key: key, Subject: "Lamp " + key, Message: "It does not shine."}
	}
	find := func(list ...alarm.Alarm) { found = list }

	find(is(out, "a"), is(dimmed, "b"))
	w.Want(t) // not long enough, and it explains the other one
	find(is(dimmed, "b"))
	w.Want(t, "toy.dimmed warning b")
	find(is(out, "a"))
	w.Want(t, "toy.dimmed warning b") // neither reported nor cleared
	w.Clock.Move(59 * time.Second)
	w.Want(t, "toy.dimmed warning b")
	w.Clock.Move(time.Second)
	w.Want(t, "toy.dimmed warning b", "toy.out error a")

	find()
	failure = watch.ErrTooEarly
	w.Want(t, "toy.dimmed warning b", "toy.out error a")
	failure = errors.New("it does not answer")
	if err := w.Look(t); !errors.Is(err, failure) {
		t.Error(err)
	}
	find(is(out, "c"))
	if err := w.Look(t); !errors.Is(err, failure) {
		t.Errorf("a condition that is not reported yet hides that the check fails: %v", err)
	}
	w.Clock.Move(time.Minute)
	w.Want(t, "toy.dimmed warning b", "toy.out error a", "toy.out error c")
	failure = nil
	find()
	w.Want(t)
}

// A check may track a condition that it does not report.
func TestWhatIsNotedCounts(t *testing.T) {
	t.Parallel()
	noted, reported := true, false
	w := watchtest.New(t, watch.Check{Name: "watch.toy", Every: time.Minute, Kinds: []*alarm.Kind{out, dimmed}, Conditions: func(_ context.Context, s *watch.Scene) (found []alarm.Alarm, _ error) {
		if noted && s.Now.Sub(s.Since(out, "")) > time.Hour {
			t.Error("it is counted for longer than it is so")
		}
		if reported {
			found = []alarm.Alarm{{Kind: out, Subject: "Lamp", Message: "It does not shine."}}
		}
		return append(found, alarm.Alarm{Kind: dimmed, Subject: "Lamp", Message: "It shines a little."}), nil
	}})
	w.Want(t)
	w.Clock.Move(time.Minute)
	reported = true
	w.Want(t, "toy.out error")
	noted, reported = false, false
	w.Want(t, "toy.dimmed warning")
	w.Clock.Move(2 * time.Hour)
	noted = true
	w.Want(t, "toy.dimmed warning") // it begins again, and explains the other one
}
