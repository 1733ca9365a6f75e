package host

import (
	"strings"
	"testing"
)

func TestExitErrorText(t *testing.T) {
	for _, c := range []struct {
		out  Output
		want string
	}{
		{Output{ExitCode: 3}, "chronyc: ended with status 3"},
		{Output{ExitCode: 1, Stdout: "506 Cannot talk to daemon\n"}, "chronyc: 506 Cannot talk to daemon"},
		{Output{ExitCode: 1, Stdout: "noise", Stderr: "\na\n\n b \n"}, "chronyc: a; b"},
		{Output{ExitCode: 1, Stderr: "1\n2\n3\n4\n5\n6\n7\n"}, "chronyc: 1; 2; 3; 4; 5"},
		{Output{ExitCode: 1, Stderr: strings.Repeat("ä", 1000)}, "chronyc: " + strings.Repeat("ä", 250) + "…"},
	} {
		if got := (&ExitError{Command: ChronyTracking, Output: c.out}).Error(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.out, got, c.want)
		}
	}
}
