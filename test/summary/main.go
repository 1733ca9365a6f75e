// Command summary reads what go test -json says, and tells what people want to know: the output of what fails, a line for
// each package, the slowest tests, and how many passed. It ends with 1 when a test failed or was skipped: a test that cannot
// run on a machine has tested nothing there.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	ok, err := summarise(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// counts are of tests. One that has subtests counts only if it fails while they pass.
type counts struct{ passed, failed, skipped int }

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

func (c *counts) add(o counts) {
	c.passed, c.failed, c.skipped = c.passed+o.passed, c.failed+o.failed, c.skipped+o.skipped
}

// timed is something that took its time.
type timed struct {
	name string
	took time.Duration
}

// run is what a package or a test has said so far.
type run struct {
	said   strings.Builder
	result string
	took   time.Duration
	parent bool // a test with subtests
}

// suite is a package and its tests.
type suite struct {
	run
	tests map[string]*run
}

func (s *suite) test(name string) *run {
	if s.tests[name] == nil {
		s.tests[name] = &run{}
		for i, c := range name {
			if c == '/' {
				s.test(name[:i]).parent = true
			}
		}
	}
	return s.tests[name]
}

// failsBelow tells whether a subtest of a test did not pass.
func (s *suite) failsBelow(name string) bool {
	for n, t := range s.tests {
		if t.result != "pass" && strings.HasPrefix(n, name+"/") {
			return true
		}
	}
	return false
}

// report writes down how a package has ended: what those tests said that did not pass, and a line.
func (s *suite) report(name string, out io.Writer) (c counts) {
	for _, t := range s.tests {
		if t.result == "" && s.result == "pass" {
			t.result = "pass" // what it printed hid the line that says so; a package does not pass otherwise
		}
	}
	for _, n := range slices.Sorted(maps.Keys(s.tests)) {
		switch t := s.tests[n]; {
		case t.result != "pass":
			fmt.Fprint(out, t.said.String())
			switch {
			case s.failsBelow(n):
			case t.result == "skip":
				c.skipped++
			default: // it failed, or it has not ended
				c.failed++
			}
		case !t.parent:
			c.passed++
		}
	}
	if s.result == "fail" {
		fmt.Fprint(out, s.said.String())
		if c.failed == 0 { // it does not compile, or died outside of its tests
			c.failed++
		}
	}
	verdict := "ok  "
	if c.failed+c.skipped > 0 {
		verdict = "FAIL"
	}
	if c != (counts{}) {
		fmt.Fprintf(out, "%s %7.1fs  %-50s %s\n", verdict, s.took.Seconds(), short(name), c)
	}
	return c
}

// short is a package's name without the module's.
func short(name string) string { return strings.TrimPrefix(name, "edge.internal/gateway/") }

// slowestTests is how many of the slowest are told.
const slowestTests = 10

// summarise tells whether everything passed.
func summarise(in io.Reader, out io.Writer) (ok bool, err error) {
	began := time.Now()
	suites := map[string]*suite{}
	var built strings.Builder // what the compiler said
	var all counts
	var tests []timed
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil { // go itself complains
			fmt.Fprintf(out, "%s", line)
			continue
		}
		if e.Action == "build-output" {
			built.WriteString(e.Output)
			continue
		}
		if e.Package == "" {
			continue
		}
		s := suites[e.Package]
		if s == nil {
			s = &suite{tests: map[string]*run{}}
			suites[e.Package] = s
		}
		r := &s.run
		if e.Test != "" {
			r = s.test(e.Test)
		}
		switch e.Action {
		case "output":
			if !strings.HasPrefix(e.Output, "=== ") { // begins or goes on
				r.said.WriteString(e.Output)
			}
		case "pass", "fail", "skip":
			r.result, r.took = e.Action, time.Duration(e.Elapsed*float64(time.Second))
			if e.Test == "" {
				c := s.report(e.Package, out)
				all.add(c)
				for name, t := range s.tests {
					if !t.parent {
						tests = append(tests, timed{short(e.Package) + " " + name, t.took})
					}
				}
				delete(suites, e.Package)
			}
		}
	}
	fmt.Fprint(out, built.String())
	for name, s := range suites { // go test was ended before they were
		s.result = "fail"
		all.add(s.report(name, out))
	}
	slices.SortFunc(tests, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	fmt.Fprintln(out, "\nThe slowest tests:")
	for _, t := range tests[:min(slowestTests, len(tests))] {
		fmt.Fprintf(out, "     %7.1fs  %s\n", t.took.Seconds(), t.name)
	}
	fmt.Fprintf(out, "\n%s in %s\n", all, time.Since(began).Round(time.Second))
	return all.failed+all.skipped == 0 && all.passed > 0, nil
}
