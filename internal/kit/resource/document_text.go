package resource

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"edge.internal/gateway/internal/kit/wire"
)

// yamlHead returns the first line of a document.
func yamlHead() string { return fmt.Sprintf("%s: %d\n", formKey, documentForm) }

// appendYAML writes the fields of a row. The first line is prefixed with first, the others with rest.
func (s *section) appendYAML(b []byte, fields []wire.Raw, first, rest string) []byte {
	lead, none := first, true
	for i, f := range s.fields {
		if fields[i] == nil {
			continue
		}
		b = append(b, lead...)
		b = appendScalar(b, f.Name)
		b = append(b, ':')
		b = appendValue(b, fields[i], len(rest))
		lead, none = rest, false
	}
	if none {
		b = append(b, first...)
		b = append(b, "{}\n"...)
	}
	return b
}

func (s *section) appendJSON(b []byte, fields []wire.Raw) []byte {
	b = append(b, '{')
	begun := false
	for i, f := range s.fields {
		if fields[i] == nil {
			continue
		}
		if begun {
			b = append(b, ',')
		}
		begun = true
		b = strconv.AppendQuote(b, f.Name)
		b = append(b, ':')
		b = append(b, fields[i]...)
	}
	return append(b, '}')
}

// appendValue writes a JSON value after a key that has the given indentation.
func appendValue(b []byte, v []byte, indent int) []byte {
	switch v[0] {
	case '[':
		d := jsontext.NewDecoder(bytes.NewReader(v))
		_, _ = d.ReadToken()
		if d.PeekKind() == ']' {
			return append(b, " []\n"...)
		}
		b = append(b, '\n')
		for d.PeekKind() != ']' {
			item, err := d.ReadValue()
			if err != nil {
				return b
			}
			b = appendIndent(b, indent+2)
			b = append(b, '-')
			b = appendItem(b, item, indent+2)
		}
		return b
	case '{':
		d := jsontext.NewDecoder(bytes.NewReader(v))
		_, _ = d.ReadToken()
		if d.PeekKind() == '}' {
			return append(b, " {}\n"...)
		}
		b = append(b, '\n')
		return appendMembers(b, d, indent+2, true)
	case '"':
		return appendText(append(b, ' '), unquoted(v), indent)
	}
	b = append(b, ' ')
	b = append(b, v...)
	return append(b, '\n')
}

// appendItem writes a list item whose dash has the given indentation.
func appendItem(b []byte, v []byte, indent int) []byte {
	d := jsontext.NewDecoder(bytes.NewReader(v))
	if v[0] != '{' {
		return appendValue(b, v, indent)
	}
	_, _ = d.ReadToken()
	if d.PeekKind() == '}' {
		return append(b, " {}\n"...)
	}
	return appendMembers(append(b, ' '), d, indent+2, false)
}

// appendMembers writes the remaining members of an object. If indented is false, the first one continues the current line.
func appendMembers(b []byte, d *jsontext.Decoder, indent int, indented bool) []byte {
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return b
		}
		text := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return b
		}
		if indented {
			b = appendIndent(b, indent)
		}
		indented = true
		b = append(appendScalar(b, text), ':')
		b = appendValue(b, value, indent)
	}
	return b
}

func appendIndent(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
}

func unquoted(v []byte) string {
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	text, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return string(v)
	}
	return string(text)
}

// appendText writes a text and a newline. A text of several lines becomes a block below a key with the given indentation.
func appendText(b []byte, s string, indent int) []byte {
	if !literal(s) {
		return append(appendScalar(b, s), '\n')
	}
	b = append(b, '|')
	if !strings.HasSuffix(s, "\n") {
		b = append(b, '-')
	}
	b = append(b, '\n')
	for line := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
		if line != "" {
			b = append(appendIndent(b, indent+2), line...)
		}
		b = append(b, '\n')
	}
	return b
}

// literal reports whether a text can be written as a literal block.
func literal(s string) bool {
	if !strings.Contains(s, "\n") || strings.HasSuffix(s, "\n\n") || s[0] == '\n' || s[0] == ' ' {
		return false
	}
	for line := range strings.SplitSeq(s, "\n") {
		if line != strings.TrimRight(line, " ") {
			return false
		}
	}
	for _, r := range s {
		if r != '\n' && (r < ' ' || !printable(r)) {
			return false
		}
	}
	return true
}

// printable reports whether YAML allows a rune unescaped.
func printable(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r < 0xa0, r == 0x2028, r == 0x2029, r == 0xfeff, r == 0xfffe, r == 0xffff, r == utf8.RuneError:
		return false
	}
	return true
}

// appendScalar writes a text on one line: plain if it cannot be mistaken for another type, quoted otherwise.
func appendScalar(b []byte, s string) []byte {
	if plainYAML(s) {
		return append(b, s...)
	}
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r == '\t':
			b = append(b, '\\', 't')
		case printable(r):
			b = utf8.AppendRune(b, r)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return append(b, '"')
}

// words are the plain scalars that some version of YAML reads as something other than text.
var words = map[string]bool{"true": true, "false": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true, "null": true, "nan": true, "inf": true}

func plainYAML(s string) bool {
	if s == "" || len(s) > 200 {
		return false
	}
	letter := s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z' || s[0] == '/'
	if !letter && !dotted(s) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._/@+-=,()", c) >= 0:
		case c == ' ' && i+1 < len(s) && s[i+1] != ' ':
		case c == ':' && i+1 < len(s) && s[i+1] != ' ':
		default:
			return false
		}
	}
	return len(s) > 5 || !words[strings.ToLower(s)]
}

// dotted reports whether a text is an IPv4 address or network. No other YAML type has this form.
func dotted(s string) bool {
	address, _, _ := strings.Cut(s, "/")
	return strings.Count(address, ".") == 3 && strings.Trim(s, "0123456789./") == ""
}
