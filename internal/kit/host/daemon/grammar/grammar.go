// Package grammar checks daemons' configuration files the way the daemons read them: where a word, a line and a text end. It
// refuses what the gateway's renderers do not write.
package grammar

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	// Longest limits a line in bytes. Some daemons split longer lines, each at its own length, and read the rest as another line.
	// AnyLength is for those that do not.
	Longest, AnyLength = 1000, 0

	Address = `[0-9a-f.:]+(?:/[0-9]{1,3})?`
	Link    = `[a-zA-Z0-9][a-zA-Z0-9_.-]{0,14}`
)

// Lines calls check with the words of every line that is neither empty nor a comment. Whatever one daemon could take for the end of
// a line, or for its continuation, is refused for all.
func Lines(text string, limit int, check func(words []string) error) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimRight(line, " \t\n"); line == "" {
			continue
		}
		var err error
		switch words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' }); {
		case limit > 0 && len(line) > limit:
			err = fmt.Errorf("%d bytes are too long for a line", len(line))
		case strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			err = errors.New("unexpected control character")
		case strings.HasSuffix(line, `\`):
			err = errors.New("unexpected line continuation")
		case len(words) > 0 && !strings.HasPrefix(words[0], "#"):
			err = check(words)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

// Only accepts lines that begin with one of these directives.
func Only(directives ...string) func(words []string) error {
	return func(words []string) error {
		if !slices.Contains(directives, words[0]) {
			return fmt.Errorf("unexpected %q", words[0])
		}
		return nil
	}
}

// OnlyLines accepts the known lines, and those that accept reports true for.
func OnlyLines(accept func(line string) bool, known ...string) func(text string) error {
	return func(text string) error {
		return Lines(text, Longest, func(words []string) error {
			if line := strings.Join(words, " "); !slices.Contains(known, line) && !accept(line) {
				return fmt.Errorf("unexpected %q", line)
			}
			return nil
		})
	}
}

// Forms holds, by directive, a regular expression for the rest of the line.
type Forms map[string]*regexp.Regexp

// Following compiles forms. Each expression must match the whole rest of the line.
func Following(rest map[string]string) Forms {
	f := Forms{}
	for directive, form := range rest {
		f[directive] = regexp.MustCompile("^(?:" + form + ")$")
	}
	return f
}

// Take refuses every line that matches no form.
func (f Forms) Take(words []string) error {
	if form := f[words[0]]; form == nil || !form.MatchString(strings.Join(words[1:], " ")) {
		return fmt.Errorf("unexpected %q", strings.Join(words, " "))
	}
	return nil
}

func Exactly(texts ...string) *regexp.Regexp {
	for i := range texts {
		texts[i] = regexp.QuoteMeta(texts[i])
	}
	return regexp.MustCompile(`^(?:` + strings.Join(texts, "|") + `)$`)
}
