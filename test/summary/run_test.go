package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecondTry runs the example as make test runs all packages.
func TestSecondTry(t *testing.T) {
	for _, x := range []struct {
		run string
		ok  bool
		has []string
	}{
		{"TestPasses$", true, []string{"\n0 flaky\n1 passed, 0 failed, 0 skipped\n"}},
		{"TestPasses$|TestFailsOnce", true, []string{"test/summary/testdata/example TestFailsOnce\n    example_test.go:18: the first try fails", "\n1 flaky\n2 passed, 0 failed, 0 skipped\n"}},
		{"TestPartFailsOnce", true, []string{"example TestPartFailsOnce/second\n", "\n1 flaky\n2 passed, 0 failed, 0 skipped\n"}},
		{"TestPasses$|TestFailsTwice", false, []string{"every try fails", "\n0 flaky\n1 passed, 1 failed, 0 skipped\n"}},
		{"TestPasses$|TestIsSkipped", false, []string{"there is no daemon", "\n0 flaky\n1 passed, 0 failed, 1 skipped\n"}},
		{"TestFailsOnce|TestOneOfEleven", false, []string{"exceeds maximum (10)", "\n0 flaky\n0 passed, 12 failed, 0 skipped\n"}},
	} {
		t.Run(x.run, func(t *testing.T) {
			cmd := exec.Command("../../packaging/gotest.sh", "-run", x.run, "--", "./test/summary/testdata/example")
			cmd.Env = append(os.Environ(), "EXAMPLE_FILE="+filepath.Join(t.TempDir(), "tried"))
			out, err := cmd.CombinedOutput()
			if (err == nil) != x.ok {
				t.Errorf("it ended with %v", err)
			}
			for _, text := range x.has {
				if !strings.Contains(string(out), text) {
					t.Errorf("it does not say %q", text)
				}
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}
