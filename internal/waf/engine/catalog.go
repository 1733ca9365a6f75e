package engine

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/experimental"
	"github.com/corazawaf/coraza/v3/types"
)

// Rule is a rule of the core rule set, for people.
type Rule struct {
	ID       int
	Message  string
	Severity string
	Paranoia int // the level from which it is active
	Tags     []string
}

// message matches a rule's message in its source.
var message = regexp.MustCompile(`\bmsg:'((?:[^'\\]|\\.)*)'`)

// Catalog returns the detection rules of the core rule set, in the order of their evaluation. It is for people who search for a rule, and
// built on first use.
var Catalog = sync.OnceValues(func() (list []Rule, err error) {
	known := map[int]bool{}
	config := coraza.NewWAFConfig().WithRootFS(coreruleset.FS).WithDirectives("Include @crs-setup.conf.example").WithDirectives("Include @owasp_crs/*.conf")
	waf, err := coraza.NewWAF(experimental.WAFConfigWithRuleObserver(config, func(r types.RuleMetadata) {
		id := r.ID()
		found := message.FindStringSubmatch(r.Raw())
		if known[id] || found == nil || id < firstAlert || scoreReport(id) {
			return
		}
		known[id] = true
		x := Rule{ID: id, Message: strings.ReplaceAll(found[1], `\'`, `'`), Paranoia: max(1, paranoia(r.Tags())), Tags: r.Tags()}
		if s := r.Severity(); s != types.RuleSeverityUnset {
			x.Severity = s.String()
		}
		list = append(list, x)
	}))
	if err != nil {
		return nil, fmt.Errorf("waf: %w", err)
	}
	return list, waf.(experimental.WAFCloser).Close()
})

// paranoia returns the level in the tags of a rule; 0 if there is none.
func paranoia(tags []string) int {
	for _, tag := range tags {
		if level, ok := strings.CutPrefix(tag, "paranoia-level/"); ok && len(level) == 1 {
			return int(level[0] - '0')
		}
	}
	return 0
}

// PlainPath returns the path of a URI if every server reads it the same way. Otherwise it returns false, and no exclusion for a path
// applies.
func PlainPath(uri string) (string, bool) { return plainPath(uri) }

// Excludable reports whether a rule can be excluded.
func Excludable(rule int) bool {
	_, err := NewExclusion(rule, "", "", "")
	return err == nil
}

// ExcludableParameter reports whether a single parameter of a variable can be excluded. A parameter whose name was masked cannot.
func ExcludableParameter(rule int, variable, parameter string) bool {
	_, err := NewExclusion(rule, "", variable, parameter)
	return err == nil && variable != "" && !strings.Contains(parameter, stars)
}
