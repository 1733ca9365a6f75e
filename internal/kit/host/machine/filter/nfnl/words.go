package nfnl

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// errForeign says that a text has something that the gateway's own tables never have, though nft may know it.
var errForeign = errors.New("not supported")

// words splits a line of a rule into words.
type words struct{ rest string }

// next returns the next word; empty at the end of the line. A text in quotes is one word, and so is each comma.
func (w *words) next() string {
	s := strings.TrimLeft(w.rest, " ")
	n := len(s)
	switch {
	case s == "":
	case s[0] == '"':
		if i := strings.IndexByte(s[1:], '"'); i >= 0 {
			n = i + 2
		}
	case s[0] == ',':
		n = 1
	default:
		if i := strings.IndexAny(s, " ,"); i >= 0 {
			n = i
		}
	}
	w.rest = s[n:]
	return s[:n]
}

func (w *words) peek() string { c := *w; return c.next() }

// expect fails unless these words come next.
func (w *words) expect(list ...string) error {
	for _, want := range list {
		if got := w.next(); got != want {
			return foreign(got)
		}
	}
	return nil
}

func foreign(word string) error {
	if len(word) > 100 {
		word = word[:100]
	}
	return fmt.Errorf("%w: %q", errForeign, word)
}

// list reads one item, or several in braces; then the second result is true.
func (w *words) list() ([]string, bool, error) {
	first := w.next()
	if first != "{" {
		return []string{first}, false, nil
	}
	var items []string
	for {
		item := w.next()
		if item == "" || item == "," || item == "}" {
			return nil, false, foreign(item)
		}
		for next := w.peek(); next != "," && next != "}" && next != ""; next = w.peek() {
			item += " " + w.next()
		}
		items = append(items, item)
		switch end := w.next(); end {
		case "}":
			return items, true, nil
		case ",":
		default:
			return nil, false, foreign(end)
		}
	}
}

func quoted(word string) (string, error) {
	if len(word) < 2 || word[0] != '"' || word[len(word)-1] != '"' || strings.ContainsAny(word[1:len(word)-1], "\"\x00") {
		return "", foreign(word)
	}
	return word[1 : len(word)-1], nil
}

// isName reports whether a text can be the name of one of the gateway's chains or sets.
func isName(s string) bool {
	if len(s) == 0 || len(s) > 200 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '/':
		default:
			return false
		}
	}
	return true
}

// number reads a decimal number without leading zeros.
func number(s string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0, foreign(s)
	}
	return n, nil
}
