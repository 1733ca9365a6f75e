package daemon_test

import (
	"strings"
	"testing"

	_ "edge.internal/gateway/internal/kit/host" // registers the daemons
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/parts"
)

func TestExitErrorText(t *testing.T) {
	for _, c := range []struct {
		out  daemon.Output
		want string
	}{
		{daemon.Output{ExitCode: 3}, "chronyc: ended with status 3"},
		{daemon.Output{ExitCode: 1, Stdout: "506 Cannot talk to daemon\n"}, "chronyc: 506 Cannot talk to daemon"},
		{daemon.Output{ExitCode: 1, Stdout: "noise", Stderr: "\na\n\n b \n"}, "chronyc: a; b"},
		{daemon.Output{ExitCode: 1, Stderr: "1\n2\n3\n4\n5\n6\n7\n"}, "chronyc: 1; 2; 3; 4; 5"},
		{daemon.Output{ExitCode: 1, Stderr: strings.Repeat("ä", 1000)}, "chronyc: " + strings.Repeat("ä", 250) + "…"},
	} {
		if got := (&daemon.ExitError{Command: chrony.Tracking, Output: c.out}).Error(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.out, got, c.want)
		}
	}
}

// A file with parts has the same content and digest as the same file without, whether it is put together or not.
func TestFileInParts(t *testing.T) {
	text := func(words ...string) (t parts.Text) {
		for _, w := range words {
			t = append(t, parts.Of([]byte(w)))
		}
		return t
	}
	whole := daemon.File{Place: chrony.DropIn, Content: []byte("abc")}
	divided := daemon.File{Place: chrony.DropIn, Parts: text("a", "bc")}
	for _, f := range []daemon.File{whole, divided, divided.Whole()} {
		if string(f.Text()) != "abc" || string(f.Whole().Content) != "abc" || !f.Digest().Of([]byte("abc")) {
			t.Errorf("%+v is %q", f, f.Text())
		}
		for _, other := range []daemon.File{whole, divided, divided.Whole()} {
			if !f.Same(other) {
				t.Errorf("%+v and %+v differ", f, other)
			}
		}
		for _, other := range []daemon.File{{Content: []byte("abd")}, {Parts: text("a", "bd")}, {}} {
			if f.Same(other) || other.Same(f) {
				t.Errorf("%+v and %+v are the same", f, other)
			}
		}
	}
}
