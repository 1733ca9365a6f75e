// Command summary reads the output of go test -json of all tests, some of which ran twice, and reports what
// failed, with its output, what passed only at the second try, where the time went, and how many passed. Its exit code is 1 if a test failed
// or was skipped: a test that cannot run on a machine has tested nothing there.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
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
	Action, Package, Test, Output, Key, Value string
	Elapsed                                   float64 // seconds
}

// flakyKey is the attribute of a test that has retried itself, as the browser tests do. Its value is the output of the first try, as JSON.
const flakyKey = "flaky"

// try is one run of a test, or of a whole package.
type try struct {
	said   strings.Builder
	result string
	took   time.Duration
}

// test is a test, or a package if it has no name.
type test struct {
	pkg, name string
	tries     []*try
	flaky     string // output of the first try, of a test that has retried itself
	below     []*test
}

// now is the try that is under way, which may just begin.
func (t *test) now(begins bool) *try {
	if len(t.tries) == 0 || begins {
		t.tries = append(t.tries, &try{})
	}
	return t.tries[len(t.tries)-1]
}

func (t *test) last() *try { return t.tries[len(t.tries)-1] }

func (t *test) passed() bool { return t.last().result == "pass" }

// firstWords is the output of the first try of a test that passed at its second; empty if it passed at once.
func (t *test) firstWords() string {
	if t.flaky != "" || len(t.tries) == 1 || t.tries[0].result != "fail" {
		return t.flaky
	}
	if slices.ContainsFunc(t.below, func(b *test) bool { return b.firstWords() != "" }) {
		return "" // they have it
	}
	return cmp.Or(t.tries[0].said.String(), "nothing")
}

// short is the test's name behind that of its package without the module.
func (t *test) short() string {
	return strings.TrimSpace(strings.TrimPrefix(t.pkg, "edge.internal/gateway/") + " " + t.name)
}

// record is everything that was read.
type record struct {
	tests map[[2]string]*test
	order []*test         // in the order of their first event
	built strings.Builder // output of the compiler
}

func (r *record) test(pkg, name string) *test {
	t := r.tests[[2]string{pkg, name}]
	if t == nil {
		t = &test{pkg: pkg, name: name}
		r.tests[[2]string{pkg, name}] = t
		r.order = append(r.order, t)
		if i := strings.LastIndexByte(name, '/'); i > 0 {
			above := r.test(pkg, name[:i])
			above.below = append(above.below, t)
		}
	}
	return t
}

func (r *record) read(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var e event
		switch {
		case json.Unmarshal(line, &e) != nil: // go itself complains
			fmt.Fprintf(out, "%s", line)
		case e.Action == "build-output":
			r.built.WriteString(e.Output)
		case e.Package != "":
			if err := r.hear(e); err != nil {
				return err
			}
		}
	}
}

// hear processes an event of a test or of a package.
func (r *record) hear(e event) error {
	t := r.test(e.Package, e.Test)
	switch e.Action {
	case "run", "start":
		t.now(true)
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") { // begins or continues
			t.now(false).said.WriteString(e.Output)
		}
	case "attr":
		if e.Key == flakyKey {
			return json.Unmarshal([]byte(e.Value), &t.flaky)
		}
	case "pass", "fail", "skip":
		try := t.now(false)
		try.result, try.took = e.Action, time.Duration(e.Elapsed*float64(time.Second))
	}
	return nil
}

// end gives a result to tests without one.
func (r *record) end() {
	for _, t := range r.order {
		if try := t.now(false); try.result == "" {
			try.result = "fail" // it was ended
			if t.name != "" && r.test(t.pkg, "").now(false).result == "pass" {
				try.result = "pass" // its own output hid the result line; a package does not pass otherwise
			}
		}
	}
}

// slowest is the number of slowest packages and tests that are listed.
const slowest = 10

// summarise prints the summary, and reports whether everything passed.
func summarise(in io.Reader, out io.Writer) (ok bool, err error) {
	r := record{tests: map[[2]string]*test{}}
	if err := r.read(in, out); err != nil {
		return false, err
	}
	r.end()
	fmt.Fprint(out, r.built.String())
	failedIn := map[string]bool{} // packages in which a test failed or was skipped
	var packages, leaves, flaky []*test
	var passed, failed, skipped int
	for _, t := range r.order {
		switch {
		case t.name == "":
			if t.last().result != "skip" { // it has no tests
				packages = append(packages, t)
			}
			continue
		case len(t.below) == 0:
			leaves = append(leaves, t)
		}
		if t.firstWords() != "" && t.passed() {
			flaky = append(flaky, t)
		}
		switch {
		case t.passed():
			if len(t.below) == 0 {
				passed++
			}
			continue
		case slices.ContainsFunc(t.below, func(b *test) bool { return !b.passed() }): // one of those counts
		case t.last().result == "skip":
			skipped++
		default:
			failed++
		}
		failedIn[t.pkg] = true
		for _, try := range t.tries {
			fmt.Fprint(out, try.said.String())
		}
	}
	for _, p := range packages {
		if !p.passed() {
			fmt.Fprint(out, p.last().said.String())
			if !failedIn[p.pkg] { // it does not compile, or died outside of its tests
				failed++
			}
		}
	}
	tell(out, "The slowest packages:", packages)
	tell(out, "The slowest tests:", leaves)
	if len(flaky) > 0 {
		fmt.Fprintln(out, "\nflaky, passed at the second try only:")
		for _, t := range flaky {
			fmt.Fprintf(out, "  %s\n    %s\n", t.short(), strings.ReplaceAll(strings.TrimSpace(t.firstWords()), "\n", "\n    "))
		}
	}
	fmt.Fprintf(out, "\n%d flaky\n%d passed, %d failed, %d skipped\n", len(flaky), passed, failed, skipped)
	return failed+skipped == 0 && passed > 0, nil
}

// tell lists the slowest.
func tell(out io.Writer, title string, of []*test) {
	fmt.Fprintf(out, "\n%s\n", title)
	slices.SortStableFunc(of, func(a, b *test) int { return cmp.Compare(b.tries[0].took, a.tries[0].took) })
	for _, t := range of[:min(slowest, len(of))] {
		fmt.Fprintf(out, "  %7.1fs  %s\n", t.tries[0].took.Seconds(), t.short())
	}
}
