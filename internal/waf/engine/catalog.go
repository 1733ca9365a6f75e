package engine

import (
	"regexp"
	"strings"

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

// observe notes a rule that the engine was built with.
func (e *engine) observe(r types.RuleMetadata) {
	id := r.ID()
	known := e.rules[id]
	e.rules[id] = true
	found := message.FindStringSubmatch(r.Raw())
	if known || found == nil || id < firstAlert || scoreReport(id) {
		return
	}
	x := Rule{ID: id, Message: strings.ReplaceAll(found[1], `\'`, `'`), Paranoia: 1, Tags: r.Tags()}
	if s := r.Severity(); s != types.RuleSeverityUnset {
		x.Severity = s.String()
	}
	if level := paranoia(x.Tags); level > 0 {
		x.Paranoia = level
	}
	e.catalog = append(e.catalog, x)
}

// paranoia is the level that the tags of a rule say; 0 if they say none.
func paranoia(tags []string) int {
	for _, tag := range tags {
		if level, ok := strings.CutPrefix(tag, "paranoia-level/"); ok && len(level) == 1 {
			return int(level[0] - '0')
		}
	}
	return 0
}

// Rules are those of the core rule set that find something, in the order in which they are asked.
func (s *Set) Rules() []Rule { return s.plain.catalog }

// PlainPath is the path of a URI as every server reads it. It says false if servers may read it differently: then no exclusion for a
// path holds for it.
func PlainPath(uri string) (string, bool) { return plainPath(uri) }

// Excludable tells whether a parameter of a variable can be left out, alone.
func Excludable(rule int, variable, parameter string) bool {
	_, err := NewExclusion(rule, "", variable, parameter)
	return err == nil && variable != ""
}
