package conf

import (
	"fmt"
	"strings"
)

// The grammars of FreeRADIUS: a directive with its sign, and what follows it. What the program says goes in as it is; what an
// operator said goes in single quotes, where nothing is expanded.
var (
	// FreeRADIUS is that of radiusd.conf and of what it includes. A backslash is itself there, but for the one that keeps a
	// quote from ending the text: which of the two it is cannot always be told, so that none is written.
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
