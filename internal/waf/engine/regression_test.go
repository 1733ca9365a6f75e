package engine_test

import (
	"context"
	"fmt"
	"testing"

	"edge.internal/gateway/internal/waf/crstest"
	"edge.internal/gateway/internal/waf/engine"
)

func setUp(t *testing.T) (*engine.Set, map[int]int) {
	t.Helper()
	s, err := engine.NewWith(crstest.Settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	levels, err := crstest.Levels()
	if err != nil {
		t.Fatal(err)
	}
	return s, levels
}

func everySetting() (all []engine.Settings) {
	for level := 1; level <= 4; level++ {
		all = append(all, engine.Settings{Paranoia: level}, engine.Settings{Blocking: true, Paranoia: level})
	}
	return all
}

// The core rule set's own regression tests: a part of them, or all.
func TestCoreRuleSet(t *testing.T) {
	s, levels := setUp(t)
	all, err := crstest.Requests()
	if err != nil {
		t.Fatal(err)
	}
	known, err := crstest.Deviations("testdata/deviations.txt")
	if err != nil {
		t.Fatal(err)
	}
	runs, every := []engine.Settings{{Paranoia: 4}, {Blocking: true, Paranoia: 1}}, 16
	if crstest.Everything() {
		runs, every = everySetting(), 1
	}
	seen := map[string]bool{}
	for _, with := range runs {
		for i, c := range all {
			instead, is := known[c.Name]
			if i%every != 0 && !is {
				continue
			}
			v, err := s.Inspect(t.Context(), c.Request, with)
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			if d := c.Deviates(v, with, levels); d != "" {
				seen[c.Name] = true
				if !instead.Found(&v) {
					t.Errorf("%s, blocking %v, level %d: %s", c.Name, with.Blocking, with.Paranoia, d)
				}
			}
		}
	}
	for name := range known {
		if !seen[name] {
			t.Errorf("%s is as expected: take it out of the list of deviations", name)
		}
	}
}

// The core rule set's own tests of responses, all of them.
func TestCoreRuleSetOnResponses(t *testing.T) {
	s, levels := setUp(t)
	all, err := crstest.Responses()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 92 {
		t.Errorf("%d tests", len(all))
	}
	for _, with := range everySetting() {
		for _, c := range all {
			v, err := s.InspectResponse(t.Context(), c.Request, c.Response, with)
			if err != nil {
				t.Fatal(err)
			}
			if d := c.Deviates(v, with, levels); d != "" {
				t.Errorf("%s, blocking %v, level %d: %s", c.Name, with.Blocking, with.Paranoia, d)
			}
		}
	}
}

// A faster operator changes no verdict, and no matching rule. The values are those of the core rule set's own tests, which attack every
// rule.
func TestOperatorsGiveTheVerdictsOfStock(t *testing.T) {
	if engine.ErrStock != nil {
		t.Fatal(engine.ErrStock)
	}
	own, err := engine.New()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	all, err := crstest.Requests()
	if err != nil {
		t.Fatal(err)
	}
	every, matched := 8, 0
	if crstest.Everything() {
		every = 1
	}
	with := engine.Settings{Paranoia: 4}
	outcome := func(s *engine.Set, r *engine.Request) string {
		v, err := s.Inspect(context.Background(), r, with)
		if err != nil {
			t.Fatalf("%s: %v", r.ID, err)
		}
		matched += len(v.Matches)
		return fmt.Sprint(v.Deny, v.Score, v.Partial, crstest.Rules(v))
	}
	for i := 0; i < len(all); i += every {
		r := all[i].Request
		if got, want := outcome(own, r), outcome(engine.Stock, r); got != want {
			t.Errorf("%s: %s, and stock %s", all[i].Name, got, want)
		}
	}
	if matched < 2*len(all)/every {
		t.Errorf("only %d rules matched", matched)
	}
}
