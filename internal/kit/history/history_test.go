package history_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/history"
)

func newHistory() *history.History[int, float64] {
	return &history.History[int, float64]{Point: func(_ time.Time, was, now int, seconds float64) float64 { return float64(now-was) / seconds }}
}

func TestPoints(t *testing.T) {
	h := newHistory()
	at := time.Unix(1000, 0)
	want := func(points ...float64) {
		t.Helper()
		if got := h.Points(); !slices.Equal(got, points) {
			t.Fatalf("%v instead of %v", got, points)
		}
	}
	h.Add(at, 100)
	want() // there is nothing to compare it with
	h.Add(at.Add(5*time.Second), 110)
	want(2)
	h.Add(at.Add(5*time.Second), 110)
	want(2) // no time has passed
	h.Add(at.Add(10*time.Second), 115)
	want(2, 1)
	h.Add(at.Add(time.Minute), 1000)
	want(2, 1) // after a gap it starts over
	h.Add(at.Add(time.Minute+5*time.Second), 1005)
	want(2, 1, 1)
}

func TestAnHourIsKept(t *testing.T) {
	h := newHistory()
	at := time.Unix(1000, 0)
	for n := range 1000 {
		h.Add(at.Add(time.Duration(n)*history.Step), n*n)
	}
	points := h.Points()
	if len(points) != 720 || points[719] != float64(999*999-998*998)/5 {
		t.Fatalf("%d points, the last is %v", len(points), points[len(points)-1])
	}
}

func TestRunBearsADaemonThatIsAway(t *testing.T) {
	h := newHistory()
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	h.Run(ctx, clock.Real, func(context.Context) (int, error) {
		asked++
		cancel()
		return 0, errors.New("it is away")
	})
	if asked != 1 || len(h.Points()) != 0 {
		t.Fatalf("asked %d times: %v", asked, h.Points())
	}
}
