// Package waittest waits in tests for what another goroutine, process or machine does.
package waittest

import (
	"testing"
	"time"
)

// Until waits for a condition, with a limit that only a failure reaches.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
