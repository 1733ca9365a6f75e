// Package conf writes daemon configuration from typed parts, so that no value can become a directive.
//
// A directive is a constant of the program: its type is unexported, and only a literal converts to it. An argument is a parsed
// value, a number or a constant. Each grammar has one printer, which quotes and refuses what cannot be written; the first refusal
// sticks.
package conf

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/value"
)

// constant is a word of the program. A variable of type string is not assignable to it.
type constant string

// Arg is one argument of a directive.
type Arg struct {
	text     string
	constant bool // a word of the program, which is never quoted
}

func Word(w constant) Arg { return Arg{string(w), true} }

func Int(n int) Arg { return Int64(int64(n)) }

func Int64(n int64) Arg { return Arg{strconv.FormatInt(n, 10), true} }

func ID(id uuid.UUID) Arg { return Arg{id.String(), true} }

func Hex(b []byte) Arg { return Arg{hex.EncodeToString(b), true} }

// Value returns a parsed value in its canonical form.
func Value(v value.Parsed) Arg { return Arg{text: v.String()} }

// Network returns an address with its prefix length.
func Network(p netip.Prefix) Arg { return Arg{p.String(), true} }

// Joined concatenates arguments to one word. If one of them is not constant, neither is the result.
func Joined(args ...Arg) Arg {
	whole := Arg{constant: true}
	for _, a := range args {
		whole.text += a.text
		whole.constant = whole.constant && a.constant
	}
	return whole
}

// String returns the text of the argument, for the runtime interfaces of daemons.
func (a Arg) String() string { return a.text }

// Grammar prints one directive, or refuses it.
type Grammar interface {
	print(directive string, args []Arg) (string, error)
}

// Writer collects the directives of one file.
type Writer struct {
	grammar Grammar
	buf     bytes.Buffer
	err     error
	digest  hash.Hash
	counted int // bytes of the file that are in the digest, or excluded from it
}

// New returns a writer that starts with a comment against manual edits.
func New(g Grammar) *Writer {
	w := Bare(g)
	w.Comment("Written by the gateway from its database. Changes made here are lost.")
	w.counted = w.buf.Len()
	return w
}

// Bare returns a writer without that comment, for files that are given away.
func Bare(g Grammar) *Writer { return &Writer{grammar: g, digest: sha256.New()} }

// Comment writes a constant comment. Operator text never enters a file, not even in comments.
func (w *Writer) Comment(text constant) { fmt.Fprintf(&w.buf, "# %s\n", text) }

// Note writes a directive as a comment, for people.
func (w *Writer) Note(directive constant, args ...Arg) {
	w.buf.WriteString("# ")
	w.Line(directive, args...)
}

func (w *Writer) Line(directive constant, args ...Arg) {
	if w.err != nil {
		return
	}
	line, err := w.grammar.print(string(directive), args)
	if err != nil {
		w.err = fmt.Errorf("directive %s: %w", directive, err)
		return
	}
	w.buf.WriteString(line)
	w.buf.WriteByte('\n')
}

// Aside writes directives that Digest excludes.
func (w *Writer) Aside(write func()) {
	w.count()
	write()
	w.counted = w.buf.Len()
}

func (w *Writer) count() {
	w.digest.Write(w.buf.Bytes()[w.counted:])
	w.counted = w.buf.Len()
}

// Digest identifies the directives so far.
func (w *Writer) Digest() []byte {
	w.count()
	return w.digest.Sum(nil)[:16]
}

// Bytes returns the file, or the first refusal.
func (w *Writer) Bytes() ([]byte, error) { return w.buf.Bytes(), w.err }

// Chrony is the grammar of chrony.conf: words between blanks. It has no quoting, so words that contain a blank or begin like a
// comment are refused.
var Chrony Grammar = chrony{}

type chrony struct{}

func (chrony) print(directive string, args []Arg) (string, error) {
	words := make([]string, 0, len(args)+1)
	words = append(words, directive)
	for _, a := range args {
		if err := plain(a.text); err != nil {
			return "", err
		}
		if strings.ContainsAny(a.text, " ") || strings.ContainsAny(a.text[:1], "!;#%") {
			return "", fmt.Errorf("%q cannot be written as one word", a.text)
		}
		words = append(words, a.text)
	}
	return strings.Join(words, " "), nil
}

// Numbers is the grammar of iproute2's lists of names: a number, a tab and a name.
var Numbers Grammar = numbers{}

type numbers struct{}

func (numbers) print(number string, args []Arg) (string, error) {
	if len(args) != 1 || strings.ContainsAny(args[0].text, " \t#") {
		return "", fmt.Errorf("a number has one name, which is one word")
	}
	return number + "\t" + args[0].text, plain(args[0].text)
}

// plain refuses what no grammar can write: empty arguments, control characters, invalid UTF-8.
func plain(s string) error {
	if s != "" && printable(s) {
		return nil
	}
	switch {
	case s == "":
		return fmt.Errorf("an argument is empty")
	case !utf8.ValidString(s), strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' }):
		return fmt.Errorf("%q has characters that cannot be written", s)
	}
	return nil
}

// printable reports whether a text is printable ASCII. Nearly every argument is, and this check is fast.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
