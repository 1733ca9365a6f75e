package opnsense

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// element is an element of the file. What is read is claimed; the rest is reported.
type element struct {
	name     string
	uuid     string
	line     int
	text     string
	children []*element
	buffer   *strings.Builder // the text until the element ends
	claimed  bool
}

// Limits that no real file comes near.
const (
	mostDepth    = 64
	mostElements = 1 << 20
)

func parse(ctx context.Context, text []byte) (*element, error) {
	d := xml.NewDecoder(bytes.NewReader(text))
	d.CharsetReader = func(charset string, in io.Reader) (io.Reader, error) {
		if strings.EqualFold(charset, "us-ascii") {
			return in, nil
		}
		return nil, fmt.Errorf("the file is in %q, and must be in UTF-8", charset)
	}
	var root *element
	var open []*element
	count := 0
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			line, _ := d.InputPos()
			e := &element{name: token.Name.Local, line: line, buffer: &strings.Builder{}}
			for _, a := range token.Attr {
				if a.Name.Local == "uuid" {
					e.uuid = a.Value
				}
			}
			if count++; count > mostElements || len(open) >= mostDepth {
				return nil, fmt.Errorf("line %d: the file has too many elements, or elements too deep in others", line)
			}
			if len(open) == 0 {
				root = e
			} else {
				parent := open[len(open)-1]
				parent.children = append(parent.children, e)
			}
			open = append(open, e)
		case xml.EndElement:
			e := open[len(open)-1]
			e.text, e.buffer = strings.TrimSpace(e.buffer.String()), nil
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].buffer.Write(token)
			}
		}
	}
	if root == nil || root.name != "opnsense" {
		return nil, errors.New("the file is not a configuration of OPNsense: its outermost element is not <opnsense>")
	}
	root.claimed = true
	return root, nil
}

// all returns the elements at a path below this one. It claims them and those on the way.
func (e *element) all(path ...string) (list []*element) {
	if e == nil {
		return nil
	}
	for _, c := range e.children {
		if c.name != path[0] {
			continue
		}
		c.claimed = true
		if len(path) == 1 {
			list = append(list, c)
		} else {
			list = append(list, c.all(path[1:]...)...)
		}
	}
	return list
}

// at returns the first element at a path below this one, or nil.
func (e *element) at(path ...string) *element {
	if list := e.all(path...); len(list) > 0 {
		return list[0]
	}
	return nil
}

// get returns the text at a path below this element.
func (e *element) get(path ...string) string {
	if x := e.at(path...); x != nil {
		return x.text
	}
	return ""
}

// yes reports whether a switch is on: it exists, and is not 0 or no.
func (e *element) yes(path ...string) bool {
	x := e.at(path...)
	return x != nil && x.text != "0" && !strings.EqualFold(x.text, "no")
}

// pass claims elements without meaning for the result, such as the time of a change.
func (e *element) pass(names ...string) {
	for _, c := range e.children {
		if slices.Contains(names, c.name) {
			c.whole()
		}
	}
}

// whole claims an element with its content.
func (e *element) whole() {
	e.claimed = true
	for _, c := range e.children {
		c.whole()
	}
}

// says reports whether an element contains anything that is neither off nor empty.
func (e *element) says() bool {
	return len(e.children) == 0 && e.text != "" && e.text != "0" || slices.ContainsFunc(e.children, (*element).says)
}

// list splits a text at commas, newlines and blanks.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' || r == ' ' || r == '\t' })
}
