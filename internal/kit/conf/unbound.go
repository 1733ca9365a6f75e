package conf

import (
	"fmt"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/kit/value"
)

// Unbound is the grammar of unbound.conf: clauses that begin with their keyword, and indented attributes. Operator values are
// quoted, which removes any special meaning; the quote itself cannot be escaped.
var Unbound Grammar = unbound{}

type unbound struct{}

func (unbound) print(attribute string, args []Arg) (string, error) {
	if len(args) == 0 {
		return attribute + ":", nil
	}
	words := make([]string, 0, len(args)+1)
	words = append(words, "  "+attribute+":")
	for _, a := range args {
		word := a.text
		if !a.constant {
			if err := plain(word); err != nil {
				return "", err
			}
			quote := `"`
			if strings.Contains(word, quote) {
				quote = "'"
			}
			if strings.Contains(word, quote) {
				return "", fmt.Errorf("%q has both quotes", word)
			}
			word = quote + word + quote
		}
		words = append(words, word)
	}
	return strings.Join(words, " "), nil
}

// ResourceRecord returns a DNS record in zone file syntax as one argument. A value that zone files would not read as one word
// makes it empty, which every grammar refuses.
func ResourceRecord(owner value.Parsed, ttl int, kind Arg, data ...Arg) Arg {
	words := []string{owner.String(), strconv.Itoa(ttl), "IN", kind.text}
	data = append(data, Value(owner))
	for i, a := range data {
		if !a.constant && (a.text == "" || strings.Trim(a.text, recordWord) != "") {
			return Arg{}
		}
		if i < len(data)-1 {
			words = append(words, a.text)
		}
	}
	return Arg{text: strings.Join(words, " ")}
}

const recordWord = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"

// maxCharacters is the maximum length of a DNS character string.
const maxCharacters = 255

// CharacterStrings returns a text as arguments of a record: as many quoted strings as necessary, with everything escaped that has
// a special meaning in zone files or in a configuration file.
func CharacterStrings(text string) []Arg {
	var list []Arg
	for {
		chunk := text[:min(len(text), maxCharacters)]
		text = text[len(chunk):]
		var b strings.Builder
		b.WriteByte('"')
		for i := range len(chunk) {
			if c := chunk[i]; c < ' ' || c > '~' || c == '"' || c == '\'' || c == '\\' {
				fmt.Fprintf(&b, `\%03d`, c)
			} else {
				b.WriteByte(c)
			}
		}
		b.WriteByte('"')
		list = append(list, Arg{text: b.String(), constant: true})
		if text == "" {
			return list
		}
	}
}
