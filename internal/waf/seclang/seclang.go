// Package seclang compiles custom rules for the web application firewall safely: a text is read the way the engine reads it, each token
// is checked against lists of harmless ones, and what the engine gets is written only from those tokens.
package seclang

import (
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/experimental"
)

// Limits. The engine silently stops reading at a line of 64 KiB.
const (
	MaxBytes      = 128 << 10
	MaxDirectives = 500
	MaxLine       = 16 << 10
)

// Error is an error in a text, with its line.
type Error struct {
	Line  int // counted from 1
	Cause string
}

func (e *Error) Error() string { return "line " + strconv.Itoa(e.Line) + ": " + e.Cause }

func fail(line int, format string, args ...any) error {
	return &Error{line, fmt.Sprintf(format, args...)}
}

// show quotes a piece of the text, shortened.
func show(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return strconv.Quote(s)
}

// Rules are compiled custom rules.
type Rules struct {
	rules, tuning []unit
	own           map[int]int
}

// Compile compiles custom rules. Its error is an *Error.
func Compile(text string) (*Rules, error) {
	lines, err := join(text)
	if err != nil {
		return nil, err
	}
	p := parser{ids: map[int]int{}, markers: map[string]int{}}
	for _, l := range lines {
		if err := p.directive(l); err != nil {
			return nil, err
		}
	}
	if p.chain != 0 {
		// Otherwise it would take in the first rule of the core rule set.
		return nil, fail(p.chain, "the chain has no further rule")
	}
	for _, s := range p.skips {
		// A missing marker would make the engine skip everything.
		if at, ok := p.markers[s.marker]; !ok || at < s.line {
			return nil, fail(s.line, "skipAfter: no SecMarker %s follows", show(s.marker))
		}
	}
	r := &Rules{rules: p.rules, tuning: p.tuning, own: p.ids}
	for _, u := range r.units() {
		for _, ref := range u.ids {
			if _, ok := p.ids[ref.id]; own(ref.id) && !ok {
				return nil, fail(ref.line, "there is no rule %d", ref.id)
			}
		}
		for _, text := range u.texts {
			if len(text) > 2*MaxLine {
				return nil, fail(u.line, "the directive is too long")
			}
		}
	}
	return r, r.try()
}

func (r *Rules) units() []unit { return append(r.rules[:len(r.rules):len(r.rules)], r.tuning...) }

func lines(units []unit) string {
	var b strings.Builder
	for _, u := range units {
		for _, text := range u.texts {
			b.WriteString(text + "\n")
		}
	}
	return b.String()
}

// Before returns the rules that the engine reads before those of the core rule set: they can decide about a request, or tune the rule set
// for it.
func (r *Rules) Before() string { return lines(r.rules) }

// After returns the directives that change rules of the core rule set, and therefore follow them.
func (r *Rules) After() string { return lines(r.tuning) }

// String returns the canonical form of everything.
func (r *Rules) String() string { return r.Before() + r.After() }

// Steady reports whether the rules only depend on the request itself, so that the same request always gets the same result.
func (r *Rules) Steady() bool {
	for _, word := range word.FindAllString(r.String(), -1) {
		if _, ok := unsteady[strings.ToLower(word)]; ok {
			return false // or it is part of a text, which is harmless
		}
	}
	return true
}

var word = regexp.MustCompile(`\w+`)

// Missing returns an error if the rules refer to a missing rule.
func (r *Rules) Missing(has func(id int) bool) error {
	for _, u := range r.units() {
		for _, ref := range u.ids {
			if !own(ref.id) && !has(ref.id) {
				return fail(ref.line, "the core rule set has no rule %d", ref.id)
			}
		}
	}
	return nil
}

// try has the engine compile the rules, with stand-ins for those that they refer to. If that fails, the shortest prefix that it refuses
// identifies the line.
func (r *Rules) try() error {
	units := r.units()
	err := compile(units)
	if err == nil {
		return nil
	}
	good, bad := 0, len(units)
	for bad-good > 1 {
		half := (good + bad) / 2
		if e := compile(units[:half]); e != nil {
			bad, err = half, e
		} else {
			good = half
		}
	}
	return fail(units[bad-1].line, "%s", cause(err))
}

// cause extracts the engine's message, without its internals.
func cause(err error) string {
	s := strings.TrimPrefix(err.Error(), "invalid WAF config from string: ")
	if rest, ok := strings.CutPrefix(s, "failed to compile the directive "); ok {
		if _, after, ok := strings.Cut(rest, ": "); ok {
			s = after
		}
	}
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

func compile(units []unit) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the engine cannot compile this: %v", p)
		}
	}()
	var standins strings.Builder
	done := map[int]bool{}
	for _, u := range units {
		for _, ref := range u.ids {
			if !own(ref.id) && !done[ref.id] {
				done[ref.id] = true
				fmt.Fprintf(&standins, "SecRule ARGS \"@noMatch\" \"id:%d,phase:2,pass,nolog\"\n", ref.id)
			}
		}
	}
	waf, err := coraza.NewWAF(coraza.NewWAFConfig().WithRootFS(sealed{}).WithDirectives(standins.String() + lines(units)))
	if err != nil {
		return err
	}
	return waf.(experimental.WAFCloser).Close()
}

// sealed is a file system that opens nothing.
type sealed struct{}

func (sealed) Open(string) (fs.File, error) { return nil, fs.ErrPermission }
