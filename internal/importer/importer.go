// Package importer has the common parts of the importers of other programs' configurations: the configuration document that they produce,
// and the report of what did not fit into it.
package importer

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// MaxSize is the maximum size of a file in bytes.
const MaxSize = 16 << 20

// Row is a row of the document: fields in the order of the kind's own.
type Row = yaml.MapSlice

// Document is a configuration document under construction. Rows refer to each other by name.
type Document struct {
	kinds []string
	rows  map[string][]Row
	one   map[string]Row
	names map[string]bool
	// numbers has the last number given to names with the same beginning.
	numbers map[string]int
	// Secret means that it contains keys in plain text.
	Secret bool
}

// Fields makes a row from alternating names and values. A nil value is left out, so that the kind's default applies.
func Fields(pairs ...any) Row {
	var row Row
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != nil {
			row = append(row, yaml.MapItem{Key: pairs[i], Value: pairs[i+1]})
		}
	}
	return row
}

// Unless returns a value, or nil if it is the default.
func Unless[T comparable](value, usual T) any {
	if value == usual {
		return nil
	}
	return value
}

func (d *Document) kind(kind string) {
	if !slices.Contains(d.kinds, kind) {
		d.kinds = append(d.kinds, kind)
	}
}

func (d *Document) Add(kind string, row Row) {
	d.kind(kind)
	if d.rows == nil {
		d.rows = map[string][]Row{}
	}
	d.rows[kind] = append(d.rows[kind], row)
}

// Set sets the only row of a kind.
func (d *Document) Set(kind string, row Row) {
	d.kind(kind)
	if d.one == nil {
		d.one = map[string]Row{}
	}
	d.one[kind] = row
}

// Name makes a name unique in a scope, such as the kind: a document identifies rows by name. The result is one line of at most 120 bytes,
// the limit for names in the gateway.
func (d *Document) Name(scope, wish string) string {
	const most, suffixed = 120, 100
	wish = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(wish, "?"))), " ")
	if d.names == nil {
		d.names, d.numbers = map[string]bool{}, map[string]int{}
	}
	name, alike := cut(wish, most), scope+"\x00"+cut(wish, suffixed)
	for d.names[scope+"\x00"+name] {
		d.numbers[alike]++
		suffix := fmt.Sprintf(" (%d)", d.numbers[alike]+1)
		name = cut(wish, most-len(suffix)) + suffix
	}
	d.names[scope+"\x00"+name] = true
	return name
}

func cut(text string, most int) string {
	if len(text) > most {
		text = strings.TrimSpace(strings.ToValidUTF8(text[:most], ""))
	}
	return text
}

// YAML encodes the document, with its source in a comment.
func (d *Document) YAML(from string) ([]byte, error) {
	doc := yaml.MapSlice{{Key: "gateway", Value: 1}}
	for _, kind := range d.kinds {
		if row, single := d.one[kind]; single {
			doc = append(doc, yaml.MapItem{Key: kind, Value: row})
		} else {
			doc = append(doc, yaml.MapItem{Key: kind, Value: d.rows[kind]})
		}
	}
	text, err := yaml.MarshalWithOptions(doc, yaml.IndentSequence(true))
	if err != nil {
		return nil, err
	}
	head := "# Imported from " + from + ".\n"
	if d.Secret {
		head += "# It contains private keys in plain text: keep it as safe as the file it was made of.\n"
	}
	return append([]byte(head), text...), nil
}

// Note is something that was not carried over.
type Note struct {
	Line int
	// What is the directive or element, as people find it in the file.
	What string
	Why  string
}

type Report struct{ notes []Note }

func (r *Report) Add(line int, what, why string, args ...any) {
	if len(args) > 0 {
		why = fmt.Sprintf(why, args...)
	}
	r.notes = append(r.notes, Note{line, what, why})
}

// Notes returns the notes in the order of the file.
func (r *Report) Notes() []Note {
	slices.SortStableFunc(r.notes, func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
	return r.notes
}

// Print writes one line per note. Control characters from the file are removed, because the output may go to a terminal.
func (r *Report) Print(w io.Writer, file string) error {
	for _, n := range r.Notes() {
		if _, err := fmt.Fprintf(w, "%s:%d: %s: %s\n", file, n.Line, printable(n.What), printable(n.Why)); err != nil {
			return err
		}
	}
	return nil
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}
