package apply

import (
	"testing"
	"time"
)

// SetTick makes the lanes of a test look at their components at another pace. It is called before they run.
func SetTick(t testing.TB, d time.Duration) {
	was := tick
	tick = d
	t.Cleanup(func() { tick = was })
}
