package nft

import (
	"fmt"
	"iter"
	"strings"

	"edge.internal/gateway/internal/kit/parts"
)

// Listing is the parsed text of a table as written by Bytes.
type Listing struct {
	Sets   []ListedSet
	Chains []ListedChain
}

type ListedSet struct {
	Name     string
	Type     string // ipv4_addr or ipv6_addr
	Elements string // separated by commas; empty for none
}

type ListedChain struct {
	Name string
	Hook string // where the kernel enters it; empty for chains that rules jump to
	// Body contains its rules, each with a leading tab and a trailing newline.
	Body string
}

func (c *ListedChain) Rules() []string {
	list := make([]string, 0, strings.Count(c.Body, "\n"))
	for line := range strings.Lines(c.Body) {
		list = append(list, strings.Trim(line, "\t \n"))
	}
	return list
}

// Read parses a transaction that replaces a table, if Bytes could have written it. It does not parse the rules.
func Read(table, text string) (*Listing, error) {
	l := &Listing{}
	n := 1
	for part, err := range pieces(table, text) {
		if err == nil && part != head(table) && part != tail {
			err = l.add(part)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		n += strings.Count(part, "\n")
	}
	return l, nil
}

// Split divides the text of such a transaction into its parts: head, each note, set and chain, and tail.
func Split(table, text string) (parts.Text, error) {
	var t parts.Text
	for part, err := range pieces(table, text) {
		if err != nil {
			return nil, err
		}
		t = append(t, parts.Of([]byte(part)))
	}
	return t, nil
}

const (
	partEnd    = "\n\t}\n" // of several lines
	elementEnd = ", "
)

// pieces yields the parts of a transaction in order, or an error at the first unknown one.
func pieces(table, text string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		rest, ok := strings.CutPrefix(text, head(table))
		if !ok {
			yield("", fmt.Errorf("the text does not replace the table %s", table))
			return
		}
		if !yield(head(table), nil) {
			return
		}
		for rest != tail {
			at, end := -1, partEnd
			switch {
			case strings.HasPrefix(rest, note):
				end = "\n"
				fallthrough
			case strings.HasPrefix(rest, "\tset "), strings.HasPrefix(rest, "\tchain "):
				at = strings.Index(rest, end)
			}
			if at < 0 {
				yield("", fmt.Errorf("%.100q is not known", rest))
				return
			}
			part := rest[:at+len(end)]
			if !yield(part, nil) {
				return
			}
			rest = rest[len(part):]
		}
		yield(tail, nil)
	}
}

// ReadPart parses exactly one note, set or chain.
func ReadPart(part string) (*Listing, error) {
	l := &Listing{}
	return l, l.add(part)
}

func (l *Listing) add(part string) error {
	line, body, _ := strings.Cut(part, "\n")
	if strings.HasPrefix(line, note) && body == "" && len(part) > len(line) {
		return nil
	}
	kind, name, _ := strings.Cut(line, " ")
	name, opens := strings.CutSuffix(name, " {")
	if !opens || strings.Index(part, partEnd) != len(part)-len(partEnd) {
		return fmt.Errorf("%.100q is not known", line)
	}
	body = strings.TrimSuffix(body, partEnd[1:])
	switch kind {
	case "\tset":
		s := ListedSet{Name: name}
		kind, rest, _ := strings.Cut(body, "\n")
		typed, flagged, closed := false, false, true
		s.Type, typed = strings.CutPrefix(kind, "\t\ttype ")
		rest, flagged = strings.CutPrefix(rest, "\t\tflags interval\n")
		if rest != "" {
			opened := false
			rest, opened = strings.CutPrefix(rest, "\t\telements = { ")
			s.Elements, closed = strings.CutSuffix(rest, " }\n")
			closed = closed && opened
		}
		if !typed || !flagged || !closed {
			return fmt.Errorf("the set %s is not known", name)
		}
		l.Sets = append(l.Sets, s)
	case "\tchain":
		c := ListedChain{Name: name, Body: body}
		if hook, hooked := strings.CutPrefix(body, "\t\t"); hooked {
			c.Hook, c.Body, _ = strings.Cut(hook, "\n")
		}
		l.Chains = append(l.Chains, c)
	default:
		return fmt.Errorf("%.100q is not known", line)
	}
	return nil
}

func listing(t parts.Text) (*Listing, error) {
	l := &Listing{}
	for _, part := range t {
		if err := l.add(part.String()); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Change turns one table into another.
type Change struct {
	// Generation is the state of the packet filter that the change is for.
	Generation uint32
	NewSets    []ListedSet
	NewChains  []ListedChain
	// Edits are of chains that stay.
	Edits []Edit
	// Refills are of sets that stay.
	Refills []Refill
	// GoneChains and GoneSets are those that nothing refers to any more.
	GoneChains, GoneSets []string
}

func (c *Change) Empty() bool {
	return len(c.NewSets)+len(c.NewChains)+len(c.Edits)+len(c.Refills)+len(c.GoneChains)+len(c.GoneSets) == 0
}

// Edit changes the rules of a chain. Indexes are those before the change.
type Edit struct {
	Chain  string
	Rules  int // number of rules before the change
	Remove []int
	Add    []Addition
}

// Addition is a rule that is inserted before another one that stays, or at the end of the chain.
type Addition struct {
	Before int
	Rule   string
}

// Refill changes the elements of a set.
type Refill struct {
	Name, Type string
	// Whole says that no element stays.
	Whole bool
	// Remove and Add are elements, separated by commas.
	Remove, Add string
}

// Difference returns the change that turns one table into another. It parses only the parts that differ. ok is false if that is
// impossible, or if loading the whole table is less work.
func Difference(was, now parts.Text) (c Change, ok bool) {
	was, now = parts.Distinct(was, now)
	a, err1 := listing(was)
	b, err2 := listing(now)
	if err1 != nil || err2 != nil {
		return c, false
	}
	before := make(map[string]*ListedChain, len(a.Chains))
	for i := range a.Chains {
		before[a.Chains[i].Name] = &a.Chains[i]
	}
	touched := 0
	for i := range b.Chains {
		x := &b.Chains[i]
		y := before[x.Name]
		delete(before, x.Name)
		switch {
		case y == nil:
			c.NewChains = append(c.NewChains, *x)
			touched += strings.Count(x.Body, "\n")
		case x.Hook != y.Hook:
			return c, false
		case x.Body != y.Body:
			e := edit(y.Rules(), x.Rules())
			e.Chain = x.Name
			c.Edits = append(c.Edits, e)
			touched += len(e.Remove) + len(e.Add)
		}
	}
	for i := range a.Chains {
		if gone := &a.Chains[i]; before[gone.Name] != nil {
			c.GoneChains = append(c.GoneChains, gone.Name)
			touched += strings.Count(gone.Body, "\n")
		}
	}
	if touched > manyRules {
		return c, false
	}
	c.sets(a.Sets, b.Sets)
	return c, true
}

// manyRules is the number of changed rules from which loading the whole table is less work.
const manyRules = 1000

func (c *Change) sets(was, now []ListedSet) {
	before := make(map[string]*ListedSet, len(was))
	for i := range was {
		before[was[i].Name] = &was[i]
	}
	for _, x := range now {
		y := before[x.Name]
		delete(before, x.Name)
		switch {
		case y == nil:
			c.NewSets = append(c.NewSets, x)
		case x.Elements != y.Elements:
			c.Refills = append(c.Refills, refill(y, &x))
		}
	}
	for _, gone := range was {
		if before[gone.Name] != nil {
			c.GoneSets = append(c.GoneSets, gone.Name)
		}
	}
}

// refill returns what to remove from a set and what to add to it to get another. If its first element differs, all are replaced: the kernel
// has a mark before the first element, unless that is the lowest address.
func refill(was, now *ListedSet) Refill {
	before, after := strings.Split(was.Elements, elementEnd), strings.Split(now.Elements, elementEnd)
	if before[0] != after[0] {
		return Refill{Name: now.Name, Type: now.Type, Whole: true, Add: now.Elements}
	}
	var remove, add []string
	found := parts.EditOf(before, after)
	for _, i := range found.Remove {
		remove = append(remove, before[i])
	}
	for _, a := range found.Add {
		add = append(add, after[a.Item])
	}
	return Refill{Name: now.Name, Type: now.Type, Remove: strings.Join(remove, elementEnd), Add: strings.Join(add, elementEnd)}
}

// edit returns what to remove from a chain and what to add to it to get another.
func edit(was, now []string) Edit {
	found := parts.EditOf(was, now)
	e := Edit{Rules: len(was), Remove: found.Remove}
	for _, a := range found.Add {
		e.Add = append(e.Add, Addition{Before: a.Before, Rule: now[a.Item]})
	}
	return e
}
