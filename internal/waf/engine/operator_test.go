package engine

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// stock is an engine with Coraza's own operators: it is built before this package's init registers others.
var stock, errStock = newSet(testSettings)

// A faster operator changes no verdict, and no rule that matches. The values are those of the core rule set's own tests, which attack
// every rule.
func TestOperatorsGiveTheVerdictsOfStock(t *testing.T) {
	if errStock != nil {
		t.Fatal(errStock)
	}
	own, err := newSet(testSettings)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := stages(t)
	step := 8
	if os.Getenv("GATEWAY_WAF_REGRESSION") == "all" {
		step = 1
	}
	with := Settings{Paranoia: 4}
	matched := 0
	var took [2]time.Duration
	for i := 0; i < len(all); i += step {
		var verdicts [2]Verdict
		for k, set := range []*Set{stock, own} {
			began := time.Now()
			v, err := set.Inspect(t.Context(), all[i].request, with)
			took[k] += time.Since(began)
			if err != nil {
				t.Fatalf("%s: %v", all[i].name, err)
			}
			verdicts[k] = v
		}
		if own, stock := outcome(verdicts[1]), outcome(verdicts[0]); own != stock {
			t.Errorf("%s: %s, and stock %s", all[i].name, own, stock)
		}
		matched += len(verdicts[0].Matches)
	}
	if matched < len(all)/step {
		t.Errorf("only %d rules matched", matched)
	}
	t.Logf("%d rules matched; stock took %v, own %v", matched, took[0], took[1])
}

// outcome is what a verdict says. Parameters come in any order.
func outcome(v Verdict) string {
	rules := make([]int, len(v.Matches))
	for i, m := range v.Matches {
		rules[i] = m.Rule
	}
	return fmt.Sprint(v.Deny, v.Rule, v.Score, v.Partial, rules)
}
