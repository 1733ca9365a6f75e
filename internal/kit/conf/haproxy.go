package conf

import (
	"fmt"
	"strings"
)

// HAProxy is the grammar of haproxy.cfg: sections that begin with their keyword, and indented directives. The program's words are
// written unchanged; an operator's value becomes one literal word. Operator values must not be written where HAProxy expects a
// log format or a sample expression: they belong in a map.
var HAProxy Grammar = haproxy{}

type haproxy struct{}

// sections are the keywords that begin a section.
var sections = map[string]bool{"global": true, "defaults": true, "frontend": true, "backend": true, "resolvers": true}

// maxWords is the maximum number of words that HAProxy accepts on one line.
const maxWords = 64

func (haproxy) print(directive string, args []Arg) (string, error) {
	words := make([]string, 0, len(args)+1)
	if !sections[directive] {
		directive = "  " + directive
	}
	words = append(words, directive)
	for _, a := range args {
		word := a.text
		if !a.constant {
			if err := plain(word); err != nil {
				return "", err
			}
			word = quoted(word)
		}
		words = append(words, word)
	}
	line := strings.Join(words, " ")
	if strings.Count(line, " ") >= maxWords && len(strings.Fields(line)) > maxWords {
		return "", fmt.Errorf("more than %d words", maxWords)
	}
	return line, nil
}

// quoted puts a word in single quotes, where nothing has a special meaning, if it needs them. A leading dash would be read as an
// option even in quotes, but no value has one.
func quoted(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool { return !strings.ContainsRune(bare, r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

const bare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@,*+=-"

// Map is the grammar of HAProxy's map files: a key, a blank, and a value that consists of fields with a separator between them.
type Map struct{ Separator constant }

func (m Map) print(key string, args []Arg) (string, error) {
	fields := make([]string, len(args))
	for i, a := range args {
		if a.text != "" {
			if err := plain(a.text); err != nil {
				return "", err
			}
		}
		if strings.Contains(a.text, string(m.Separator)) {
			return "", fmt.Errorf("%q cannot be a field between %q", a.text, m.Separator)
		}
		fields[i] = a.text
	}
	value := strings.Join(fields, string(m.Separator))
	if strings.TrimSpace(value) == "" || value != strings.TrimSpace(value) {
		return "", fmt.Errorf("a value must neither be blank nor begin or end with a blank")
	}
	return key + " " + value, nil
}

func (w *Writer) Entry(key Arg, fields ...Arg) {
	switch {
	case w.err != nil:
	case plain(key.text) != nil, strings.ContainsAny(key.text, " \t"), strings.HasPrefix(key.text, "#"):
		w.err = fmt.Errorf("%q cannot be a key", key.text)
	default:
		w.Line(constant(key.text), fields...)
	}
}

// CertificateList is the grammar of HAProxy's certificate lists: a file, and the names that it is for.
var CertificateList Grammar = certificateList{}

type certificateList struct{}

func (certificateList) print(file string, args []Arg) (string, error) {
	words := []string{file}
	for _, a := range args {
		if err := plain(a.text); err != nil {
			return "", err
		}
		if strings.ContainsAny(a.text, " \t#[]!") {
			return "", fmt.Errorf("%q cannot be a name in a list of certificates", a.text)
		}
		words = append(words, a.text)
	}
	return strings.Join(words, " "), nil
}
