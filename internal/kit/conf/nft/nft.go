// Package nft is the typed model of one table of the packet filter, and its printer.
//
// Text reaches the printer as constants of the program, parsed values, numbers and ids alone, so that no value can
// become a statement: nft has no escape within quotes. What is printed is read again part by part, and two tables are compared so.
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

// constant is a word of the program. A variable of type string does not convert to it by itself.
type constant string

// Name is the name of a chain or a set.
type Name struct{ text string }

// Named is a constant name.
func Named(name constant) Name { return Name{string(name)} }

// Of appends a zone's name, which has neither slashes nor a dash in front; the absent zone is a dash.
func (n Name) Of(zone value.Zone) Name {
	if zone.IsZero() {
		return Name{n.text + "/-"}
	}
	return Name{n.text + "/" + zone.String()}
}

// At appends a number.
func (n Name) At(i int) Name { return Name{n.text + "/" + strconv.Itoa(i)} }

func (n Name) By(id uuid.UUID) Name { return Name{n.text + "/" + id.String()} }

func (n Name) ID(id uuid.UUID, f Family) Name {
	return Name{n.text + "_" + id.String() + "_" + f.digit()}
}

func (n Name) String() string { return n.text }

// IsZero tells whether there is no name.
func (n Name) IsZero() bool { return n.text == "" }

// Family is a version of IP.
type Family int

// The families.
const (
	V4 Family = iota
	V6
)

// Families are both.
var Families = [...]Family{V4, V6}

// FamilyOf is the family of an address.
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

// prefix is the length of the network that a span is, if it is one.
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

// Table is one table of the family inet, which is replaced whole.
type Table struct {
	Name constant
	// Notes are for people who read the file.
	Notes  []Note
	Sets   []Set
	Chains []*Chain
}

// Note is a line that the kernel does not see.
type Note struct{ text string }

// IDNote is a constant and an id.
func IDNote(text constant, id uuid.UUID) Note { return Note{string(text) + " " + id.String()} }

// Set is a named set of addresses of one family.
type Set struct {
	Name     Name
	Family   Family
	Elements []Span // sorted, not overlapping
}

// Chain is a list of rules; with a hook the kernel enters there.
type Chain struct {
	Name  Name
	Hook  constant // such as "type filter hook input priority filter; policy drop;"
	Rules []Rule

	part *parts.Part // once it is printed
}

// Rule is a list of expressions: what is asked and what is done.
type Rule struct {
	Exprs []Expr
	// Tag is what people and the counters know the rule by.
	Tag Tag
}

// Tag is the comment of a rule.
type Tag struct{ text string }

// IDTag is a constant and an id.
func IDTag(prefix constant, id uuid.UUID) Tag { return Tag{string(prefix) + id.String()} }

// Auto is a constant tag.
func Auto(tag constant) Tag { return Tag{string(tag)} }

// For is a constant and a word of a room, of which letters, digits and dashes are kept, and no more than fits: nft refuses
// a table with a comment that is too long.
func For(prefix constant, word string) Tag {
	word = strings.Map(func(r rune) rune {
		if r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' {
			return r
		}
		return -1
	}, word)
	return Tag{string(prefix) + word[:min(len(word), 64)]}
}

// Parts is the transaction that puts the table in the place of its former self. A chain is printed once, and stays as it is from then on.
func (t *Table) Parts() parts.Text {
	text := make(parts.Text, 0, 2+len(t.Notes)+len(t.Sets)+len(t.Chains))
	text = append(text, parts.Of([]byte(head(string(t.Name)))))
	for _, n := range t.Notes {
		text = append(text, parts.Of([]byte(note+n.text+"\n")))
	}
	for i := range t.Sets {
		text = append(text, printed(&t.Sets[i]))
	}
	for _, c := range t.Chains {
		if c.part == nil {
			p := printed(c)
			c.part = &p
		}
		text = append(text, *c.part)
	}
	return append(text, parts.Of([]byte(tail)))
}

func printed(p interface{ print(b *bytes.Buffer) }) parts.Part {
	var b bytes.Buffer
	p.print(&b)
	return parts.Of(bytes.Clone(b.Bytes()))
}

// note is how a note begins, and tail how a table ends.
const note, tail = "\t# ", "}\n"

// head is how a table begins. Its first line makes sure that there is something to delete.
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
