package seclang

import (
	"strings"
	"unicode/utf8"
)

// logical is one directive as the engine's parser sees it: physical lines, trimmed and joined at trailing backslashes.
type logical struct {
	line int // its first physical line, counted from 1
	text string
}

// join does what the engine's parser does with lines, so that the checks apply to what the engine would read: comments and empty lines
// disappear even between the parts of a continued line, and a word may continue in the next line. A continued last line, which the engine
// would silently drop, is refused.
func join(text string) ([]logical, error) {
	if len(text) > MaxBytes {
		return nil, fail(1, "the rules are longer than %d bytes", MaxBytes)
	}
	var (
		all     []logical
		pending strings.Builder
		start   int
	)
	for i, line := range strings.Split(text, "\n") {
		n := i + 1
		line = strings.TrimSuffix(line, "\r")
		if !utf8.ValidString(line) {
			return nil, fail(n, "the text is not valid UTF-8")
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, fail(n, "the line contains a control character")
		}
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '`' || line[len(line)-1] == '`' {
			return nil, fail(n, "blocks in backticks are not allowed")
		}
		if start == 0 {
			start = n
		}
		head, continued := strings.CutSuffix(line, `\`)
		pending.WriteString(head)
		if pending.Len() > MaxLine {
			return nil, fail(start, "the directive is longer than %d bytes", MaxLine)
		}
		if continued {
			continue
		}
		all = append(all, logical{start, pending.String()})
		if len(all) > MaxDirectives {
			return nil, fail(start, "more than %d directives", MaxDirectives)
		}
		pending.Reset()
		start = 0
	}
	if start != 0 {
		return nil, fail(start, "the directive ends with a backslash, and nothing follows")
	}
	return all, nil
}

const blanks = " \t"

// token is one argument of a directive.
type token struct {
	text   string // without its quotes; \" still escaped
	quoted bool
}

// tokens splits the arguments of a directive. A double quote ends an argument unless preceded by an odd number of backslashes.
func tokens(line int, s string) ([]token, error) {
	var all []token
	for {
		s = strings.TrimLeft(s, blanks)
		if s == "" {
			return all, nil
		}
		if s[0] != '"' {
			end := strings.IndexAny(s, blanks)
			if end < 0 {
				end = len(s)
			}
			if strings.Contains(s[:end], `"`) {
				return nil, fail(line, "a double quote inside %s: quote the whole argument", show(s[:end]))
			}
			all = append(all, token{text: s[:end]})
			s = s[end:]
			continue
		}
		end, backslashes := -1, 0
		for i := 1; i < len(s); i++ {
			if s[i] == '"' && backslashes%2 == 0 {
				end = i
				break
			}
			if s[i] == '\\' {
				backslashes++
			} else {
				backslashes = 0
			}
		}
		if end < 0 {
			return nil, fail(line, "a double quote is not closed")
		}
		// Because the engine trims lines before it joins them, two quoted arguments may touch.
		if end+1 < len(s) && !strings.ContainsRune(blanks+`"`, rune(s[end+1])) {
			return nil, fail(line, "a space is missing after the double quote that ends %s", show(s[1:end]))
		}
		all = append(all, token{text: s[1:end], quoted: true})
		s = s[end+1:]
	}
}
