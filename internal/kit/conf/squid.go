package conf

import (
	"fmt"
	"strings"
)

// Squid is the grammar of squid.conf: words between blanks. Quotes, backslashes, dollars and dashes have meanings that no quoting
// removes, so values that are not plain words are refused.
var Squid Grammar = squid{}

type squid struct{}

const squidWord = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/[]-"

func (squid) print(directive string, args []Arg) (string, error) {
	words := []string{directive}
	for _, a := range args {
		if !a.constant && (a.text == "" || strings.Trim(a.text, squidWord) != "" || a.text[0] == '-') {
			return "", fmt.Errorf("%q cannot be written as one plain word", a.text)
		}
		words = append(words, a.text)
	}
	return strings.Join(words, " "), nil
}

// AccessList is the grammar of the forward proxy's access list: words between blanks, of which the last extends to the end of the
// line and may contain blanks.
var AccessList Grammar = accessList{}

type accessList struct{}

func (accessList) print(action string, args []Arg) (string, error) {
	words := []string{action}
	for i, a := range args {
		if err := plain(a.text); err != nil {
			return "", err
		}
		if i < len(args)-1 && strings.Contains(a.text, " ") {
			return "", fmt.Errorf("%q cannot be written as one word", a.text)
		}
		words = append(words, a.text)
	}
	return strings.Join(words, " "), nil
}
