// Package nft is a typed model of one table of the packet filter, and its printer.
//
// Only constants of the program, parsed values, numbers and ids can become text, so that no value can become a statement: nft has
// no escape within quotes. Printed text can be parsed part by part, and so compared.
package nft

import (
	"bytes"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/parts"
	"edge.internal/gateway/internal/kit/value"
)

// constant is a word of the program. A variable of type string is not assignable to it.
type constant string

// Name is the name of a chain or a set.
type Name struct{ text string }

// Named returns a constant name.
func Named(name constant) Name { return Name{string(name)} }

// Of appends a zone's name, which contains no slash and has no leading dash; the absent zone is a dash.
func (n Name) Of(zone value.Zone) Name {
	if zone.IsZero() {
		return Name{n.text + "/-"}
	}
	return Name{n.text + "/" + zone.String()}
}

// At appends a number.
func (n Name) At(i int) Name { return Name{n.text + "/" + strconv.Itoa(i)} }

func (n Name) By(id uuid.UUID) Name { return Name{n.text + "/" + id.String()} }

// On appends a side and a family.
func (n Name) On(s Side, f Family) Name {
	return Name{n.text + [...]string{"/from", "/to"}[s] + f.digit()}
}

func (n Name) ID(id uuid.UUID, f Family) Name {
	return Name{n.text + "_" + id.String() + "_" + f.digit()}
}

func (n Name) String() string { return n.text }

func (n Name) IsZero() bool { return n.text == "" }

// Family is a version of IP.
type Family int

// Families of addresses.
const (
	V4 Family = iota
	V6
)

// Families lists both families.
var Families = [...]Family{V4, V6}

func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return V4
	}
	return V6
}

func (f Family) digit() string { return [...]string{"4", "6"}[f] }

func (f Family) keyword() string { return [...]string{"ip", "ip6"}[f] }

func (f Family) String() string { return [...]string{"ipv4", "ipv6"}[f] }

// Span is all addresses from one to another.
type Span struct{ First, Last netip.Addr }

func (s Span) print(b *bytes.Buffer) {
	b.Write(s.First.AppendTo(b.AvailableBuffer()))
	if s.First == s.Last {
		return
	}
	if n, ok := prefix(s); ok {
		b.WriteByte('/')
		number(b, n)
		return
	}
	b.WriteByte('-')
	b.Write(s.Last.AppendTo(b.AvailableBuffer()))
}

func number(b *bytes.Buffer, n int) { b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(n), 10)) }

// prefix returns the prefix length of a span, if it is a network.
func prefix(s Span) (int, bool) {
	first, last := s.First.As16(), s.Last.As16() // IPv4 within the last four bytes
	same := 0
	for i := range first {
		zeros := bits.LeadingZeros8(first[i] ^ last[i])
		if same += zeros; zeros < 8 {
			break
		}
	}
	same -= 128 - s.First.BitLen()
	n := netip.PrefixFrom(s.First, same).Masked()
	return same, n.Addr() == s.First && value.Last(n) == s.Last
}

// Table is one table of the family inet, which is replaced as a whole.
type Table struct {
	Name constant
	// Notes are comments for readers of the file.
	Notes  []Note
	Sets   []*Set
	Chains []*Chain
}

// Note is a comment in the file, which the kernel does not get.
type Note struct{ text string }

func IDNote(text constant, id uuid.UUID) Note { return Note{string(text) + " " + id.String()} }

// Set is a named set of addresses of one family.
type Set struct {
	Name     Name
	Family   Family
	Elements []Span // sorted, and none touches another

	part *parts.Part // once it has been printed
}

// Chain is a list of rules; with a hook, the kernel enters it.
type Chain struct {
	Name  Name
	Hook  constant // such as "type filter hook input priority filter; policy drop;"
	Rules []Rule

	part *parts.Part // once it has been printed
}

// Rule is a list of expressions: conditions and actions.
type Rule struct {
	Exprs []Expr
	// Tag identifies the rule to people and counters.
	Tag Tag
}

// Tag is the comment of a rule.
type Tag struct{ text string }

func IDTag(prefix constant, id uuid.UUID) Tag { return Tag{string(prefix) + id.String()} }

func Auto(tag constant) Tag { return Tag{string(tag)} }

// For returns a tag of a constant and a room's word, of which it keeps letters, digits and dashes up to a maximum length: nft
// refuses a table if a comment is too long.
func For(prefix constant, word string) Tag {
	word = strings.Map(func(r rune) rune {
		if r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' {
			return r
		}
		return -1
	}, word)
	return Tag{string(prefix) + word[:min(len(word), 64)]}
}

// Parts returns the transaction that replaces the table. A set or a chain is printed only once, and must not change afterwards.
func (t *Table) Parts() parts.Text {
	text := make(parts.Text, 0, 2+len(t.Notes)+len(t.Sets)+len(t.Chains))
	text = append(text, parts.Of([]byte(head(string(t.Name)))))
	for _, n := range t.Notes {
		text = append(text, parts.Of([]byte(note+n.text+"\n")))
	}
	for _, s := range t.Sets {
		text = append(text, printed(s, &s.part))
	}
	for _, c := range t.Chains {
		text = append(text, printed(c, &c.part))
	}
	return append(text, parts.Of([]byte(tail)))
}

func printed(x interface{ print(b *bytes.Buffer) }, once **parts.Part) parts.Part {
	if *once == nil {
		var b bytes.Buffer
		x.print(&b)
		p := parts.Of(bytes.Clone(b.Bytes()))
		*once = &p
	}
	return **once
}

// note begins a note, and tail ends a table.
const note, tail = "\t# ", "}\n"

// head returns the beginning of a table. Its first line makes sure that there is something to delete.
func head(table string) string {
	return fmt.Sprintf("table inet %s\ndelete table inet %s\ntable inet %s {\n", table, table, table)
}

func (s *Set) print(b *bytes.Buffer) {
	fmt.Fprintf(b, "\tset %s {\n\t\ttype %s_addr\n\t\tflags interval\n", s.Name, s.Family)
	if len(s.Elements) > 0 {
		b.WriteString("\t\telements = ")
		spans(b, s.Elements)
		b.WriteByte('\n')
	}
	b.WriteString("\t}\n")
}

func (c *Chain) print(b *bytes.Buffer) {
	fmt.Fprintf(b, "\tchain %s {\n", c.Name)
	if c.Hook != "" {
		fmt.Fprintf(b, "\t\t%s\n", c.Hook)
	}
	for i := range c.Rules {
		b.WriteByte('\t')
		for _, e := range c.Rules[i].Exprs {
			b.WriteByte(' ')
			e.print(b)
		}
		if tag := c.Rules[i].Tag.text; tag != "" {
			b.WriteString(` comment "`)
			b.WriteString(tag)
			b.WriteByte('"')
		}
		b.WriteByte('\n')
	}
	b.WriteString("\t}\n")
}

func spans(b *bytes.Buffer, list []Span) {
	b.WriteString("{ ")
	for i, s := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		s.print(b)
	}
	b.WriteString(" }")
}
