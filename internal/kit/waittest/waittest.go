// Package waittest waits in tests for what another goroutine, process or machine does.
package waittest

import (
	"testing"
	"time"
)

// limit is what only a failure reaches.
const limit = 2 * time.Minute

// Until waits for a condition.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !wait(limit, ok) {
		t.Fatalf("not in time: %s", what)
	}
}

// UntilNil waits until a function finds nothing wrong. If it always does, the test fails with what it found last.
func UntilNil(t testing.TB, what string, wrong func() error) {
	t.Helper()
	Within(t, limit, what, wrong)
}

// Within is UntilNil with another limit: a longer one for what takes its time, or one that is promised.
func Within(t testing.TB, limit time.Duration, what string, wrong func() error) {
	t.Helper()
	var err error
	if !wait(limit, func() bool { err = wrong(); return err == nil }) {
		t.Fatalf("not within %s: %s: %v", limit, what, err)
	}
}

// wait looks often at first, so that what takes a moment is not waited for any longer.
func wait(limit time.Duration, ok func() bool) bool {
	end := time.Now().Add(limit)
	for pause := 100 * time.Microsecond; !ok(); pause = min(2*pause, 10*time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
