// Package waittest lets tests wait for another goroutine, process or machine.
package waittest

import (
	"testing"
	"time"
)

// limit is long enough that only a failure reaches it.
const limit = 2 * time.Minute

// Until waits for a condition.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !wait(limit, ok) {
		t.Fatalf("not in time: %s", what)
	}
}

// UntilNil waits until a function returns nil. If it never does, the test fails with its last error.
func UntilNil(t testing.TB, what string, wrong func() error) {
	t.Helper()
	Within(t, limit, what, wrong)
}

// Within is UntilNil with another limit: a longer one for slow operations, or one that is promised.
func Within(t testing.TB, limit time.Duration, what string, wrong func() error) {
	t.Helper()
	var err error
	if !wait(limit, func() bool { err = wrong(); return err == nil }) {
		t.Fatalf("not within %s: %s: %v", limit, what, err)
	}
}

// wait polls often at first, so that it adds little to a short wait.
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
