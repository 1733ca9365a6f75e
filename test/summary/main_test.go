package main

import (
	"strings"
	"testing"
)

const pkg = `"Package":"edge.internal/gateway/internal/ntp"`

// lines are events of the package.
func lines(list ...string) string {
	text := ""
	for _, l := range list {
		text += "{" + pkg + "," + l + "}\n"
	}
	return text
}

func TestSummary(t *testing.T) {
	passes := lines(`"Action":"run","Test":"TestA"`, `"Action":"output","Test":"TestA","Output":"chatter\n"`, `"Action":"run","Test":"TestA/x"`,
		`"Action":"pass","Test":"TestA/x","Elapsed":1.5`, `"Action":"pass","Test":"TestA","Elapsed":2`)
	done := lines(`"Action":"pass","Elapsed":3`)
	fails := lines(`"Action":"run","Test":"TestB"`, `"Action":"output","Test":"TestB","Output":"parent\n"`, `"Action":"run","Test":"TestB/y"`,
		`"Action":"output","Test":"TestB/y","Output":"why\n"`, `"Action":"fail","Test":"TestB/y"`, `"Action":"fail","Test":"TestB"`, `"Action":"fail"`)
	for _, x := range []struct {
		name, in string
		ok       bool
		has      []string
		hasNot   []string
	}{
		{"all pass", passes + done, true, []string{"3.0s  internal/ntp\n", "1.5s  internal/ntp TestA/x", "\n0 flaky\n1 passed, 0 failed, 0 skipped\n"}, []string{"chatter"}},
		{"a test fails", passes + lines(`"Action":"output","Test":"TestB","Output":"=== RUN   TestB\n"`, `"Action":"output","Test":"TestB","Output":"why\n"`,
			`"Action":"fail","Test":"TestB","Elapsed":1`, `"Action":"fail","Elapsed":3`), false, []string{"why\n", "1 passed, 1 failed, 0 skipped"}, []string{"chatter", "==="}},
		{"a subtest fails", lines(`"Action":"run","Test":"TestB/y"`, `"Action":"fail","Test":"TestB/y"`, `"Action":"fail","Test":"TestB"`, `"Action":"fail"`),
			false, []string{"0 passed, 1 failed, 0 skipped"}, nil},
		{"a test fails whose subtests pass", lines(`"Action":"pass","Test":"TestB/y"`, `"Action":"fail","Test":"TestB"`, `"Action":"fail","Test":"TestC"`, `"Action":"fail"`),
			false, []string{"1 passed, 2 failed, 0 skipped"}, nil},
		{"a test fails and passes then", passes + fails + done + lines(`"Action":"start"`, `"Action":"run","Test":"TestB"`, `"Action":"run","Test":"TestB/y"`,
			`"Action":"pass","Test":"TestB/y"`, `"Action":"pass","Test":"TestB"`, `"Action":"pass"`),
			true, []string{"only:\n  internal/ntp TestB/y\n    why\n", "\n1 flaky\n2 passed, 0 failed, 0 skipped\n"}, []string{"parent"}},
		{"a test fails twice", passes + fails + lines(`"Action":"start"`) + fails, false, []string{"why\n", "\n0 flaky\n1 passed, 1 failed, 0 skipped\n"}, nil},
		{"a test has tried again by itself", lines(`"Action":"run","Test":"TestC"`, `"Action":"attr","Test":"TestC","Key":"flaky","Value":"\"two\\nlines\""`, `"Action":"pass","Test":"TestC"`) + done,
			true, []string{"  internal/ntp TestC\n    two\n    lines\n", "\n1 flaky\n1 passed, 0 failed, 0 skipped\n"}, nil},
		{"a test is skipped", passes + lines(`"Action":"output","Test":"TestB","Output":"no daemon\n"`, `"Action":"skip","Test":"TestB"`) + done,
			false, []string{"no daemon\n", "1 passed, 0 failed, 1 skipped"}, nil},
		{"it does not compile", `{"ImportPath":"x","Action":"build-output","Output":"undefined: y\n"}` + "\n" + lines(`"Action":"output","Output":"FAIL x [build failed]\n"`, `"Action":"fail"`),
			false, []string{"undefined: y\n", "FAIL x [build failed]\n", "0 passed, 1 failed, 0 skipped"}, nil},
		{"it is ended", passes + lines(`"Action":"run","Test":"TestB"`), false, []string{"1 passed, 1 failed, 0 skipped"}, nil},
		{"what a test prints hides its end", passes + lines(`"Action":"run","Test":"TestB"`) + done, true, []string{"2 passed, 0 failed, 0 skipped"}, nil},
		{"go complains", "go: no such folder\n", false, []string{"go: no such folder\n", "0 passed, 0 failed, 0 skipped"}, nil},
		{"packages without tests", passes + done + `{"Package":"edge.internal/gateway/cmd/x","Action":"skip"}` + "\n", true, []string{"1 passed, 0 failed, 0 skipped"}, []string{"cmd/x"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			var out strings.Builder
			ok, err := summarise(strings.NewReader(x.in), &out)
			if err != nil || ok != x.ok {
				t.Errorf("%t, %v", ok, err)
			}
			for _, text := range x.has {
				if !strings.Contains(out.String(), text) {
					t.Errorf("no %q in\n%s", text, &out)
				}
			}
			for _, text := range x.hasNot {
				if strings.Contains(out.String(), text) {
					t.Errorf("%q in\n%s", text, &out)
				}
			}
		})
	}
}
