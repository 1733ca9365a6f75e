// Package rx is the engine's operator @rx with a gate in front of the regular expression. Nearly all values are harmless, and a few bytes
// show that the expression cannot match: one of the words that every match contains would have to be present. The gate is sound: what it
// rejects does not match. The rest is decided by Go's regexp, as in Coraza's own operator.
package rx

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"
	"rsc.io/binaryregexp"
)

// expression is what regexp and binaryregexp have in common.
type expression interface {
	MatchString(s string) bool
	FindStringSubmatchIndex(s string) []int
}

// Operator is @rx with one expression.
type Operator struct {
	re   expression
	gate *gate
}

// Takes reports whether some value of a kind may match; false is certain.
func (o *Operator) Takes(k Kind) bool { return o.gate.takes(k) }

// May reports whether a value of a kind may match, in any case; false is certain.
func (o *Operator) May(value string, k Kind) bool { return o.gate == nil || o.gate.openFor(value, k) }

// New returns a replacement for Coraza's operator: the same values match, and the same fields are captured.
func New(options plugintypes.OperatorOptions) (plugintypes.Operator, error) {
	return compiled(options, "gateway:rx:", newGate)
}

// Ungated returns the operator without its gate, for comparison.
func Ungated(options plugintypes.OperatorOptions) (plugintypes.Operator, error) {
	return compiled(options, "gateway:ungated:", func(string) *gate { return nil })
}

func compiled(options plugintypes.OperatorOptions, key string, gateOf func(pattern string) *gate) (plugintypes.Operator, error) {
	pattern := options.Arguments
	compile := func() (any, error) {
		// An expression that names bytes which are not text is matched byte by byte, without the flags.
		if namesBytes(pattern) {
			re, err := binaryregexp.Compile(pattern)
			return &Operator{re: re}, err
		}
		flagged := "(?sm)" + pattern
		re, err := regexp.Compile(flagged)
		if err != nil {
			return nil, err
		}
		return &Operator{re, gateOf(flagged)}, nil
	}
	var made any
	var err error
	if options.Memoizer != nil {
		made, err = options.Memoizer.Do(key+pattern, compile)
	} else {
		made, err = compile()
	}
	if err != nil {
		return nil, fmt.Errorf("@rx: %w", err)
	}
	return made.(*Operator), nil
}

// maxFields is how many fields are captured: the whole match and eight groups.
const maxFields = 9

func (o *Operator) Evaluate(tx plugintypes.TransactionState, value string) bool {
	if !o.gate.open(value) {
		return false
	}
	if !tx.Capturing() {
		return o.re.MatchString(value)
	}
	match := o.re.FindStringSubmatchIndex(value)
	if match == nil {
		return false
	}
	for i := range min(len(match)/2, maxFields) {
		text := ""
		if from, to := match[2*i], match[2*i+1]; from >= 0 {
			text = value[from:to]
		}
		tx.CaptureField(i, text)
	}
	return true
}

// namesBytes reports whether the escapes of an expression, such as \xbc, name bytes that are not UTF-8.
func namesBytes(pattern string) bool {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if size, named := escape(pattern[i:]); size > 0 {
			b.WriteByte(named)
			i += size - 1
		} else {
			b.WriteByte(pattern[i])
		}
	}
	return !utf8.ValidString(b.String())
}

// escape parses \xbc or \x{bc} at the beginning of a text, and returns its length; 0 if there is none.
func escape(text string) (size int, named byte) {
	if len(text) < 4 || text[0] != '\\' || text[1] != 'x' {
		return 0, 0
	}
	digits, size := text[2:4], 4
	if text[2] == '{' {
		end := strings.IndexByte(text, '}')
		if end < 0 || len(text) < 6 {
			return 0, 0
		}
		if digits, size = text[3:end], end+1; len(digits) < 2 {
			return 0, 0
		}
		digits = digits[:2]
	}
	n, err := strconv.ParseUint(digits, 16, 8)
	if err != nil {
		return 0, 0
	}
	return size, byte(n)
}
