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

// Rule is a rule of the core rule set, for people to read.
type Rule struct {
	ID       int
	Message  string
	Severity string
	Paranoia int // the level at which it starts to be used
	Tags     []string
}

// message is what a rule says, in its text.
var message = regexp.MustCompile(`\bmsg:'((?:[^'\\]|\\.)*)'`)

// Catalog are the rules of the core rule set that find something, in the order in which they are asked. It is for people who look for
// one, and made when the first does.
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

// paranoia is the level that the tags of a rule say; 0 if they say none.
func paranoia(tags []string) int {
	for _, tag := range tags {
		if level, ok := strings.CutPrefix(tag, "paranoia-level/"); ok && len(level) == 1 {
			return int(level[0] - '0')
		}
	}
	return 0
}

// PlainPath is the path of a URI as every server reads it. It says false if servers may read it differently: then no exclusion for a
// path holds for it.
func PlainPath(uri string) (string, bool) { return plainPath(uri) }

// Excludable tells whether a rule can be left out.
func Excludable(rule int) bool {
	_, err := NewExclusion(rule, "", "", "")
	return err == nil
}

// ExcludableParameter tells whether a parameter of a variable can be left out, alone. One can not whose name was withheld.
func ExcludableParameter(rule int, variable, parameter string) bool {
	_, err := NewExclusion(rule, "", variable, parameter)
	return err == nil && variable != "" && !strings.Contains(parameter, stars)
}
