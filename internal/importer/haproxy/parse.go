package haproxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// line is one directive. What is carried over is claimed; the rest is reported.
type line struct {
	number  int
	words   []string
	claimed bool
}

// word returns the word at a position; empty if there is none.
func (l *line) word(i int) string {
	if i < len(l.words) {
		return l.words[i]
	}
	return ""
}

// is reports whether the line begins with some words.
func (l *line) is(words ...string) bool {
	return len(l.words) >= len(words) && slices.Equal(l.words[:len(words)], words)
}

// text returns the line for people, truncated if it is long.
func (l *line) text() string {
	text := strings.Join(l.words, " ")
	if runes := []rune(text); len(runes) > 100 {
		text = string(runes[:100]) + "…"
	}
	return text
}

type section struct {
	kind, name string
	line
	lines []*line
	// defaults is the section that this one inherits from, if any.
	defaults *section
}

// The first words that begin a section.
var sectionWords = []string{
	"global", "defaults", "frontend", "backend", "listen", "userlist", "peers", "resolvers", "mailers", "cache", "program", "http-errors", "ring",
	"log-forward", "log-profile", "fcgi-app", "crt-store", "traces", "acme", "dynamic-update",
}

var errNoSection = errors.New("is not a configuration of HAProxy: it does not begin with a section such as global, defaults or frontend")

// parse parses a file. Conditional blocks are left out and reported.
func parse(text string, skipped func(l *line)) ([]*section, error) {
	var list []*section
	named := map[string]*section{}
	var defaults *section
	number, depth := 0, 0
	for raw := range strings.Lines(text) {
		number++
		words, err := split(strings.TrimRight(raw, "\r\n"))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if len(words) == 0 {
			continue
		}
		l := &line{number: number, words: words}
		switch {
		case words[0] == ".if":
			if depth++; depth == 1 {
				skipped(l)
			}
			continue
		case words[0] == ".endif":
			depth = max(0, depth-1)
			continue
		case depth > 0:
			continue
		case strings.HasPrefix(words[0], "."):
			skipped(l)
			continue
		}
		if slices.Contains(sectionWords, words[0]) {
			s := &section{kind: words[0], line: *l}
			s.name = s.word(1)
			if s.kind == "frontend" || s.kind == "backend" || s.kind == "listen" {
				s.defaults = defaults
				if from := slices.Index(words, "from"); from >= 2 {
					s.defaults = named[s.word(from+1)]
				}
			}
			if s.kind == "defaults" {
				defaults = s
				named[s.name] = s
				if from := slices.Index(words, "from"); from >= 1 {
					s.defaults = named[s.word(from+1)]
				}
			}
			list = append(list, s)
			continue
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("line %d: the file %w", number, errNoSection)
		}
		s := list[len(list)-1]
		s.lines = append(s.lines, l)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the file %w", errNoSection)
	}
	return list, nil
}

// split splits a line into words like HAProxy: blanks separate them, quotes and backslashes keep characters together, and # begins a
// comment. Environment variables are not expanded, because their values are not in the file.
func split(text string) (words []string, err error) {
	var word strings.Builder
	inside, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inside = c, true
		case quote != '\'' && c == '\\' && i+1 < len(text):
			i++
			inside = true
			word.WriteByte(escaped(text[i]))
		case quote == 0 && (c == ' ' || c == '\t'):
			if inside {
				words = append(words, word.String())
				word.Reset()
				inside = false
			}
		case quote == 0 && c == '#':
			if inside {
				words = append(words, word.String())
			}
			return words, nil
		default:
			word.WriteByte(c)
			inside = true
		}
	}
	if quote != 0 {
		return nil, errors.New("has a quote without its end")
	}
	if inside {
		words = append(words, word.String())
	}
	return words, nil
}

func escaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// sources returns a section and those that it inherits from, the nearest first.
func (s *section) sources() (list []*section) {
	for at := s; at != nil && !slices.Contains(list, at); at = at.defaults {
		list = append(list, at)
	}
	return list
}

// find returns and claims the lines of a section that begin with some words: its own, or else inherited ones.
func (s *section) find(words ...string) []*line {
	for _, at := range s.sources() {
		var found []*line
		for _, l := range at.lines {
			if l.is(words...) {
				l.claimed = true
				found = append(found, l)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// setting returns the last of the lines that begin with some words, which is the effective one.
func (s *section) setting(words ...string) *line {
	if found := s.find(words...); len(found) > 0 {
		return found[len(found)-1]
	}
	return nil
}
