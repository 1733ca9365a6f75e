package resource

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/wire"
)

// maxDepth limits the nesting of a document, including that through aliases.
const maxDepth = 40

// allowance bounds the cost of reading a document. It applies before anything else is known about the document.
type allowance struct {
	bytes  int    // of the document, and of its values after aliases are resolved
	rows   int    // of all kinds
	nodes  int    // that are parsed, and of the values after aliases are resolved
	others string // suffix of the error that says who may send more
}

var (
	// adminsAllowance fits a document of everything that a gateway can have.
	adminsAllowance = allowance{bytes: 64 << 20, rows: 500_000, nodes: 4_000_000}
	// viewersAllowance fits a document of a typical gateway, of which most rows are stored already. Every program with a
	// read-only token may have documents planned.
	viewersAllowance = allowance{bytes: 1 << 20, rows: 2_000, nodes: 100_000, others: ", unless you are an administrator"}
)

func allowanceOf(a actor.Actor) allowance {
	if a.Role == actor.Admin {
		return adminsAllowance
	}
	return viewersAllowance
}

// exceeded returns the error for a document that has too much of something.
func (a allowance) exceeded(line, most int, what string) error {
	return misplaced(line, "The document must have at most %d %s%s. Send fewer rows at once.", most, what, a.others)
}

// marks counts the characters of a YAML text that may begin a node. Each begins at most three: an object with its first name and
// value. This bounds the number of nodes before parsing.
func marks(text []byte) (n int) {
	for _, c := range text {
		switch c {
		case ',', '[', '{', ':', '-', '?', '#':
			n++
		}
	}
	return n
}

// written is a document as it was sent.
type written struct {
	allowance
	kinds []writtenKind
	count int // of rows
	json  bool
}

// full reports whether there are more rows than allowed.
func (w *written) full() bool { return w.count > w.rows }

func (w *written) add(k *writtenKind, row writtenRow) {
	if k.name != formKey {
		w.count++
	}
	k.rows = append(k.rows, row)
}

// writtenKind is the part of a document about one kind.
type writtenKind struct {
	name string
	line int
	list bool // of rows; otherwise one object
	rows []writtenRow
}

// writtenRow is a row of a document. It is parsed only when needed: most rows equal those that are stored.
type writtenRow struct {
	line int
	text []byte     // as it was sent, if the document could be divided into rows
	node *yaml.Node // otherwise, as it was parsed
}

func readDocument(body []byte, most allowance) (*written, error) {
	if text := bytes.TrimSpace(body); len(text) > 0 && text[0] == '{' {
		return readJSON(text, most)
	}
	if len(body) == 0 || body[len(body)-1] != '\n' {
		body = append(bytes.Clone(body), '\n')
	}
	if w, ok := divide(body, most); ok {
		return w, w.complain()
	}
	return readYAML(body, most)
}

// complain checks what every document must have.
func (w *written) complain() error {
	if w.full() {
		return w.exceeded(0, w.rows, "rows")
	}
	seen := map[string]bool{}
	for _, k := range w.kinds {
		if seen[k.name] {
			return misplaced(k.line, "%s is given twice.", k.name)
		}
		seen[k.name] = true
	}
	if !seen[formKey] {
		return misplaced(0, "The document must begin with gateway: %d, the version of its form.", documentForm)
	}
	return nil
}

// misplaced returns an error about a line of a document, or about the document as a whole.
func misplaced(line int, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if line > 0 {
		text = fmt.Sprintf("Line %d: %s", line, text)
	}
	return fault.New(fault.Invalid, "%s", text)
}

var sectionLine = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9._-]*):(?: +(\S.*))?$`)

// divide splits a document that is formatted like an export into the texts of its rows, without parsing them. ok is false for any
// other format. A text that is not valid YAML on its own, because it continues in what looks like the next row or uses an alias
// from another row, is detected when it is parsed; the document is then read as a whole.
func divide(body []byte, most allowance) (*written, bool) {
	w := &written{allowance: most}
	var kind *writtenKind // the kind that rows are added to
	begin, end := -1, -1  // of the current row
	finish := func() {
		if begin >= 0 {
			kind.rows[len(kind.rows)-1].text = body[begin:end]
		}
		begin = -1
	}
	for at, line := 0, 1; at < len(body) && !w.full(); line++ {
		next := bytes.IndexByte(body[at:], '\n') + 1
		text := body[at : at+next-1]
		start := at
		at += next
		indent := len(text) - len(bytes.TrimLeft(text, " "))
		switch {
		case indent == len(text):
			continue // an empty line belongs to what is around it
		case text[indent] == '\t' || text[len(text)-1] == '\r':
			return nil, false
		case indent <= 2 && text[indent] == '#':
			finish() // a comment between two rows
		case indent == 0:
			m := sectionLine.FindSubmatch(text)
			if m == nil {
				return nil, false
			}
			finish()
			w.kinds = append(w.kinds, writtenKind{name: string(m[1]), line: line, list: true})
			kind = &w.kinds[len(w.kinds)-1]
			switch {
			case string(m[2]) == "[]":
				kind = nil
			case string(m[1]) == formKey:
				kind.list = false
				w.add(kind, writtenRow{line: line, text: m[2]})
				kind = nil
			case len(m[2]) > 0:
				return nil, false
			}
		case kind == nil || indent == 1:
			return nil, false
		case indent == 2 && text[2] == '-':
			if !kind.list {
				return nil, false
			}
			finish()
			w.add(kind, writtenRow{line: line})
			begin, end = start, at
		case indent == 2 && len(kind.rows) == 0:
			kind.list = false
			w.add(kind, writtenRow{line: line})
			begin, end = start, at
		case indent == 2 && kind.list, begin < 0:
			return nil, false
		default:
			end = at
		}
	}
	finish()
	return w, true
}

// readYAML reads a document in any YAML format.
func readYAML(body []byte, most allowance) (*written, error) {
	if marks(body) > most.nodes {
		return nil, most.exceeded(0, most.nodes, "values")
	}
	var root yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&root); err != nil {
		return nil, unreadableYAML(err)
	}
	if d.Decode(new(yaml.Node)) == nil {
		return nil, misplaced(0, "There must be one document, not several.")
	}
	if len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return nil, misplaced(0, "The document must be a mapping from the names of kinds to their rows.")
	}
	w := &written{allowance: most}
	top := root.Content[0].Content
	for i := 0; i < len(top); i += 2 {
		key, value := top[i], resolveAlias(top[i+1])
		k := writtenKind{name: key.Value, line: key.Line}
		switch {
		case key.Kind != yaml.ScalarNode:
			return nil, misplaced(key.Line, "The name of a kind must be a plain text.")
		case value.Kind == yaml.SequenceNode:
			k.list = true
			for _, n := range value.Content {
				w.add(&k, writtenRow{line: n.Line, node: n})
			}
		case value.Kind == yaml.ScalarNode && value.Tag == "!!null":
			k.list = true
		default:
			w.add(&k, writtenRow{line: value.Line, node: value})
		}
		w.kinds = append(w.kinds, k)
	}
	return w, w.complain()
}

func resolveAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// unreadableYAML translates an error of the YAML parser.
func unreadableYAML(err error) error {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return misplaced(0, "This is not valid YAML.")
	}
	line, _ := strconv.Atoi(m[1])
	return misplaced(line, "This is not valid YAML: %s.", strings.TrimSuffix(m[2], "."))
}

func readJSON(body []byte, most allowance) (*written, error) {
	w := &written{allowance: most, json: true}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	failed := func(err error) (*written, error) {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return nil, fault.Wrap(fault.Invalid, err, "The document has a name twice (at byte %d).", d.InputOffset())
		}
		return nil, fault.Wrap(fault.Invalid, err, "The document is not valid JSON (at byte %d).", d.InputOffset())
	}
	if _, err := d.ReadToken(); err != nil {
		return failed(err)
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return failed(err)
		}
		k := writtenKind{name: name.String()}
		if k.list = d.PeekKind() == '['; !k.list {
			v, err := d.ReadValue()
			if err != nil {
				return failed(err)
			}
			w.add(&k, writtenRow{text: bytes.Clone(v)})
			w.kinds = append(w.kinds, k)
			continue
		}
		_, _ = d.ReadToken()
		for d.PeekKind() != ']' {
			v, err := d.ReadValue()
			if err != nil {
				return failed(err)
			}
			if w.add(&k, writtenRow{text: bytes.Clone(v)}); w.full() {
				return nil, w.complain()
			}
		}
		_, _ = d.ReadToken()
		w.kinds = append(w.kinds, k)
	}
	if _, err := d.ReadToken(); err != nil {
		return failed(err)
	}
	if len(bytes.TrimSpace(body[d.InputOffset():])) > 0 {
		return nil, misplaced(0, "There is more behind the document.")
	}
	return w, w.complain()
}

// errFragment says that a row cannot be parsed without the rest of its document.
var errFragment = errors.New("an incomplete row")

// reader parses the rows of a document, within what is left of its allowance.
type reader struct{ left allowance }

func (d *reader) fields(w *written, row writtenRow) (map[string]jsontext.Value, map[string]int, error) {
	if w.json {
		return objectJSON(row.text)
	}
	node := row.node
	if node == nil {
		if marks(row.text) > d.left.nodes {
			return nil, nil, w.exceeded(row.line, w.nodes, "values")
		}
		var root yaml.Node
		if err := yaml.Unmarshal(row.text, &root); err != nil {
			return nil, nil, errFragment
		}
		if len(root.Content) != 1 {
			return nil, nil, misplaced(row.line, "A row must have fields.")
		}
		node = root.Content[0]
		if node.Kind == yaml.SequenceNode && len(node.Content) == 1 {
			node = node.Content[0]
		}
		shift(node, row.line-1, maxDepth)
	}
	node = resolveAlias(node)
	if node.Kind != yaml.MappingNode {
		return nil, nil, misplaced(row.line, "A row must have fields, each with a name and a value.")
	}
	found, lines := make(map[string]jsontext.Value, len(node.Content)/2), make(map[string]int, len(node.Content)/2)
	for i := 0; i < len(node.Content); i += 2 {
		key := node.Content[i]
		if key.Kind != yaml.ScalarNode {
			return nil, nil, misplaced(key.Line, "The name of a field must be a plain text.")
		}
		if _, twice := found[key.Value]; twice {
			return nil, nil, misplaced(key.Line, "%s is given twice.", key.Value)
		}
		v, err := d.value(nil, node.Content[i+1], 0)
		if err != nil {
			return nil, nil, err
		}
		found[key.Value], lines[key.Value] = v, key.Line
	}
	return found, lines, nil
}

// shift makes the lines of nodes relative to the beginning of the document.
func shift(n *yaml.Node, by, depth int) {
	n.Line += by
	if depth > 0 {
		for _, x := range n.Content {
			shift(x, by, depth-1)
		}
	}
}

func objectJSON(text []byte) (map[string]jsontext.Value, map[string]int, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if d.PeekKind() != '{' {
		return nil, nil, misplaced(0, "A row must be an object.")
	}
	_, _ = d.ReadToken()
	found := map[string]jsontext.Value{}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, nil, err
		}
		key := name.String()
		if found[key], err = d.ReadValue(); err != nil {
			return nil, nil, err
		}
		found[key] = found[key].Clone()
	}
	return found, nil, nil
}

var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,18})$`)

// value appends a node as JSON.
func (d *reader) value(b []byte, n *yaml.Node, depth int) ([]byte, error) {
	d.left.nodes--
	d.left.bytes -= len(n.Value)
	if d.left.nodes < 0 || d.left.bytes < 0 || depth > maxDepth {
		return nil, misplaced(n.Line, "The document is too large when its aliases are followed.")
	}
	var err error
	switch n.Kind {
	case yaml.AliasNode:
		return d.value(b, n.Alias, depth+1)
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, x := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = d.value(b, x, depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case yaml.MappingNode:
		seen := map[string]bool{}
		b = append(b, '{')
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || seen[key.Value] {
				return nil, misplaced(key.Line, "A name must be a plain text, and is given once.")
			}
			seen[key.Value] = true
			d.left.bytes -= len(key.Value)
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = jsontext.AppendQuote(b, key.Value); err != nil {
				return nil, misplaced(key.Line, "This is not valid UTF-8.")
			}
			if b, err = d.value(append(b, ':'), n.Content[i+1], depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	switch n.Tag {
	case "!!null":
		return append(b, "null"...), nil
	case "!!bool":
		if n.Value != "true" && n.Value != "false" {
			return nil, misplaced(n.Line, "Write true or false.")
		}
		return append(b, n.Value...), nil
	case "!!int", "!!float":
		if !decimal.MatchString(n.Value) {
			return nil, misplaced(n.Line, "%q looks like a number. Write a text in quotes, and a number with decimal digits only.", n.Value)
		}
		return append(b, n.Value...), nil
	case "!!str", "!!timestamp":
		if b, err = jsontext.AppendQuote(b, n.Value); err != nil {
			return nil, misplaced(n.Line, "This is not valid UTF-8.")
		}
		return b, nil
	}
	return nil, misplaced(n.Line, "The tag %s is not supported.", n.Tag)
}

func (k *writtenKind) form() error {
	if len(k.rows) == 1 && !k.list {
		text := string(k.rows[0].text)
		if k.rows[0].node != nil {
			text = k.rows[0].node.Value
		}
		if strings.TrimSpace(text) == strconv.Itoa(documentForm) {
			return nil
		}
	}
	return misplaced(k.line, "This gateway reads documents with gateway: %d.", documentForm)
}

// same finds the stored rows whose text equals that of rows in a document.
func (c *catalogue) same(s *section, w *written, k *writtenKind) ([]*entry, error) {
	found := make([]*entry, len(k.rows))
	if len(k.rows) == 0 || k.rows[0].text == nil {
		return found, nil
	}
	texts := make(map[string][]*entry, len(s.entries))
	var b []byte
	for _, e := range s.entries {
		if included, err := c.included(s, e); err != nil || !included {
			if err != nil {
				return nil, err
			}
			continue
		}
		b = s.text(b[:0], e.fields, w.json)
		texts[string(b)] = append(texts[string(b)], e)
	}
	for i, row := range k.rows {
		if list := texts[string(row.text)]; len(list) > 0 {
			found[i], texts[string(row.text)] = list[0], list[1:]
		}
	}
	return found, nil
}

// text appends a row in document form.
func (s *section) text(b []byte, fields []wire.Raw, json bool) []byte {
	switch {
	case json:
		return s.appendJSON(b, fields)
	case s.single:
		return s.appendYAML(b, fields, "  ", "  ")
	}
	return s.appendYAML(b, fields, "  - ", "    ")
}
