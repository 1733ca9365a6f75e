// Package grammar reads configurations by the rules that daemons have for where a word, a line and a text end. What the gateway's renderers
// do not write is refused.
package grammar

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	// Longest is the limit of a line. Some daemons cut longer ones, each at a length of its own, and read the rest as another line; AnyLength is
	// for those that do not.
	Longest, AnyLength = 1000, 0

	// Address is one of IPv4 or IPv6, or a network.
	Address = `[0-9a-f.:]+(?:/[0-9]{1,3})?`
	// Link is the name of a network interface.
	Link = `[a-zA-Z0-9][a-zA-Z0-9_.-]{0,14}`
)

// Lines calls look with the words of every line that has some and is no comment. What a daemon could take for the end of a line, or for
// none, is refused everywhere.
func Lines(text string, limit int, look func(words []string) error) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, " \t\n")
		var err error
		switch words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' }); {
		case limit > 0 && len(line) > limit:
			err = fmt.Errorf("it has %d characters", len(line))
		case strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			err = errors.New("it has a control character")
		case strings.HasSuffix(line, `\`):
			err = errors.New("it goes on in the next line")
		case len(words) > 0 && !strings.HasPrefix(words[0], "#"):
			err = look(words)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

// Only refuses every directive but some.
func Only(directives ...string) func(words []string) error {
	return func(words []string) error {
		if !slices.Contains(directives, words[0]) {
			return fmt.Errorf("it has %q", words[0])
		}
		return nil
	}
}

// OnlyLines refuses every line but some, and those that a function takes.
func OnlyLines(take func(line string) bool, known ...string) func(text string) error {
	return func(text string) error {
		return Lines(text, Longest, func(words []string) error {
			if line := strings.Join(words, " "); !slices.Contains(known, line) && !take(line) {
				return fmt.Errorf("it has %q", line)
			}
			return nil
		})
	}
}

// Forms are what may follow a directive: a regular expression for the rest of its line.
type Forms map[string]*regexp.Regexp

// Following makes forms of expressions by directive.
func Following(rest map[string]string) Forms {
	f := Forms{}
	for directive, form := range rest {
		f[directive] = regexp.MustCompile("^(?:" + form + ")$")
	}
	return f
}

// Take refuses every line but those of the forms.
func (f Forms) Take(words []string) error {
	if form := f[words[0]]; form == nil || !form.MatchString(strings.Join(words[1:], " ")) {
		return fmt.Errorf("it has %q", strings.Join(words, " "))
	}
	return nil
}

// Exactly takes some texts and nothing else.
func Exactly(texts ...string) *regexp.Regexp {
	for i := range texts {
		texts[i] = regexp.QuoteMeta(texts[i])
	}
	return regexp.MustCompile(`^(?:` + strings.Join(texts, "|") + `)$`)
}
