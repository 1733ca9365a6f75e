package certificate

import (
	"testing"

	"github.com/google/uuid"
)

// A request for a row that is already running is not lost.
func TestWantedAgainWhileItRuns(t *testing.T) {
	var n running
	id := uuid.New()
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
	run := func() { begun <- struct{}{}; <-end }
	then := func(again bool) { done <- again }
	for _, again := range []bool{false, true, false} {
		n.start(id, run, then)
		<-begun
		if again {
			n.start(id, run, then)
		}
		end <- struct{}{}
		if got := <-done; got != again {
			t.Errorf("wanted again: %v, done: %v", again, got)
		}
	}
	n.all.Wait()
}
