// Package vm runs the tests of test/vm/guest in a virtual machine, because they need devices that the kernel of a
// development machine may not have.
package vm

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/test/vm/rig"
)

// Guest tests find these programs of Debian in the machine, next to busybox.
var programs = []string{"/sbin/ip", "/usr/sbin/nft"}

// One boot serves all. Each test of the guest is a subtest here.
func TestGuest(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "guest")
	// -trimpath as in make build, whose packages are used again.
	build := exec.Command("go", "test", "-c", "-tags", "vm", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	start := time.Now()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the tests of the guest: %v\n%s", err, out)
	}
	built := time.Since(start)

	m := rig.Machine{
		Programs: programs, Tests: []string{binary}, Limit: 10 * time.Minute,
		// Below the limit, so that a hanging test reports itself; the machine cannot.
		Arguments: []string{"-test.v=test2json", "-test.timeout=9m"},
	}
	if pattern := os.Getenv("GATEWAY_VM_RUN"); pattern != "" {
		m.Arguments = append(m.Arguments, "-test.run="+pattern)
	}
	var output bytes.Buffer
	result, err := m.Run(t.Context(), func(_ int, line string) {
		output.WriteString(line + "\n")
		if !strings.HasPrefix(line, marker+"=== NAME") { // only names the test of the next line
			t.Log(strings.ReplaceAll(line, marker, ""))
		}
	})
	t.Logf("built in %.1f s, booted in %.1f s, all in %.1f s", built.Seconds(), result.Boot.Seconds(), time.Since(start).Seconds())
	if err != nil {
		t.Error(err)
	}

	tests := parse(t, &output)
	if len(tests) == 0 {
		t.Error("no test has run in the guest")
	}
	for _, g := range tests {
		t.Run(g.name, func(t *testing.T) {
			switch g.result {
			case "pass":
			case "skip":
				t.Error("the guest has skipped it: what it needs belongs into the virtual machine\n" + g.output)
			case "fail":
				t.Error(g.output)
			default:
				t.Errorf("did not end\n%s", g.output)
			}
		})
	}
	if err == nil && !t.Failed() && result.Exits[0] != 0 {
		t.Errorf("the tests of the guest ended with %d", result.Exits[0])
	}
}

// marker is what the testing package puts before its own lines for test2json.
const marker = "\x16"

// test is a test of the guest, with the output of its subtests.
type test struct {
	name, result, output string
}

// parse reads what a test program printed.
func parse(t *testing.T, printed io.Reader) []*test {
	t.Helper()
	convert := exec.Command("go", "tool", "test2json")
	convert.Stdin = printed
	out, err := convert.Output()
	if err != nil {
		t.Fatalf("go tool test2json: %v", err)
	}
	var list []*test
	byName := map[string]*test{}
	for events := json.NewDecoder(bytes.NewReader(out)); ; {
		var event struct{ Action, Test, Output string }
		if err := events.Decode(&event); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("go tool test2json: %v", err)
		}
		name, _, sub := strings.Cut(event.Test, "/")
		if name == "" {
			continue
		}
		g := byName[name]
		if g == nil {
			g = &test{name: name}
			byName[name], list = g, append(list, g)
		}
		switch event.Action {
		case "output":
			g.output += event.Output
		case "pass", "fail", "skip":
			if !sub {
				g.result = event.Action
			}
		}
	}
}
