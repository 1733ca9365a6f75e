package apply

import (
	"testing"
	"time"
)

// What takes long to bring up to date rests for longer, but never longer than until the next look at the component.
func TestFilesLag(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: settleAfter, 100 * time.Millisecond: settleAfter, time.Second: 4 * time.Second, time.Minute: tick,
	} {
		if lag := settleLag(took); lag != want {
			t.Errorf("after %s they may lag behind for %s instead of %s", took, lag, want)
		}
	}
}
