package clock_test

import (
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/clock"
)

func fired(timer <-chan time.Time) bool {
	select {
	case <-timer:
		return true
	default:
		return false
	}
}

func TestAt(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	c := clock.NewFake(now)
	soon := c.At(now.Add(time.Hour))
	c.Move(time.Minute)
	if fired(soon) {
		t.Error("it fires before its time")
	}
	c.Move(time.Hour)
	if !fired(soon) {
		t.Error("it does not fire at its time")
	}
	// The clock has moved between Now and At.
	if !fired(c.At(now.Add(time.Hour))) {
		t.Error("a time that has passed does not fire")
	}
	select {
	case <-clock.Real.At(time.Now().Add(-time.Hour)):
	case <-time.After(time.Minute):
		t.Error("a time that has passed does not fire on the machine's clock")
	}
}
