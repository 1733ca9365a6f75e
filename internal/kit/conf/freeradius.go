package conf

import (
	"fmt"
	"strings"
)

// Grammars of FreeRADIUS: a directive with its operator, and arguments. The program's words are written unchanged; operator
// values are written in single quotes, where nothing is expanded.
var (
	// FreeRADIUS is that of radiusd.conf and its includes. There, a backslash is literal unless it escapes a quote. Which of the
	// two it is can be ambiguous, so backslashes are refused.
	FreeRADIUS Grammar = freeRADIUS{escape: strings.NewReplacer(`'`, `\'`), refused: `\`}
	// FreeRADIUSUsers is that of the list of users.
	FreeRADIUSUsers Grammar = freeRADIUS{escape: strings.NewReplacer(`\`, `\\`, `'`, `\'`)}
)

type freeRADIUS struct {
	escape  *strings.Replacer
	refused string
}

func (g freeRADIUS) print(directive string, args []Arg) (string, error) {
	words := make([]string, 0, len(args)+1)
	words = append(words, directive)
	for _, a := range args {
		word := a.text
		if !a.constant {
			if err := plain(word); err != nil {
				return "", err
			}
			if g.refused != "" && strings.Contains(word, g.refused) {
				return "", fmt.Errorf("a value has a %s, which cannot be written", g.refused)
			}
			word = "'" + g.escape.Replace(word) + "'"
		}
		words = append(words, word)
	}
	return strings.Join(words, " "), nil
}
