// Package waittest waits in tests for what another goroutine, process or machine does.
package waittest

import (
	"testing"
	"time"
)

// limit is what only a failure reaches.
const limit = time.Minute

// Until waits for a condition.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// UntilNil waits until a function finds nothing wrong. If it always does, the test fails with what it found last.
func UntilNil(t testing.TB, what string, wrong func() error) {
	t.Helper()
	err := wrong()
	for end := time.Now().Add(limit); err != nil; err = wrong() {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
