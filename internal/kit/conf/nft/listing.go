package nft

import (
	"fmt"
	"sort"
	"strings"
)

// Listing is the text of a table, part by part: what Bytes has written, read again.
type Listing struct {
	Sets   []ListedSet
	Chains []ListedChain
}

// ListedSet is a set of a listing.
type ListedSet struct {
	Name     string
	Type     string // ipv4_addr or ipv6_addr
	Elements string // separated by commas; empty for none
}

// ListedChain is a chain of a listing.
type ListedChain struct {
	Name string
	Hook string // where the kernel enters it; empty for those that rules lead to
	// Body are its rules, each with a tab before and a line break behind it.
	Body string
}

func (c *ListedChain) Rules() []string {
	list := make([]string, 0, strings.Count(c.Body, "\n"))
	for line := range strings.Lines(c.Body) {
		list = append(list, strings.Trim(line, "\t \n"))
	}
	return list
}

// Read reads the transaction that puts a table in the place of its former self, if it is one that Bytes could have written. What the
// rules say is not looked at.
func Read(table, text string) (*Listing, error) {
	rest, ok := strings.CutPrefix(text, head(table))
	if !ok {
		return nil, fmt.Errorf("the text does not put the table %s in the place of its former self", table)
	}
	l := &Listing{}
	for n := 4; ; n++ {
		line, tail, _ := strings.Cut(rest, "\n")
		rest = tail
		kind, name, _ := strings.Cut(line, " ")
		name, opens := strings.CutSuffix(name, " {")
		body, tail, closes := strings.Cut(rest, "\t}\n")
		switch {
		case line == "}" && rest == "":
			return l, nil
		case strings.HasPrefix(line, "\t# "):
			continue
		case kind == "\tset" && opens && closes:
			s := ListedSet{Name: name}
			s.Type, ok = strings.CutPrefix(body, "\t\ttype ")
			s.Type, body, _ = strings.Cut(s.Type, "\n")
			body, flagged := strings.CutPrefix(body, "\t\tflags interval\n")
			if body != "" {
				s.Elements, ok = strings.CutPrefix(body, "\t\telements = { ")
				s.Elements, closes = strings.CutSuffix(s.Elements, " }\n")
			}
			if !ok || !flagged || !closes {
				return nil, fmt.Errorf("line %d: the set %s is not known", n, name)
			}
			l.Sets = append(l.Sets, s)
		case kind == "\tchain" && opens && closes:
			c := ListedChain{Name: name, Body: body}
			if hook, hooked := strings.CutPrefix(body, "\t\t"); hooked {
				c.Hook, c.Body, _ = strings.Cut(hook, "\n")
			}
			l.Chains = append(l.Chains, c)
		default:
			return nil, fmt.Errorf("line %d: %.100q is not known", n, line)
		}
		n += strings.Count(rest[:len(rest)-len(tail)], "\n")
		rest = tail
	}
}

// Change leads from one table to another.
type Change struct {
	// Generation is the state of the packet filter that the change is for.
	Generation uint32
	NewSets    []ListedSet
	NewChains  []ListedChain
	// Edits are of chains that stay.
	Edits []Edit
	// Refilled are sets that get other elements.
	Refilled []ListedSet
	// Gone is what nothing refers to any more.
	GoneChains, GoneSets []string
}

// Empty tells whether there is nothing to do.
func (c *Change) Empty() bool {
	return len(c.NewSets)+len(c.NewChains)+len(c.Edits)+len(c.Refilled)+len(c.GoneChains)+len(c.GoneSets) == 0
}

// Edit changes the rules of a chain, which are counted as they were before.
type Edit struct {
	Chain  string
	Rules  int // how many it has
	Remove []int
	Add    []Addition
}

// Addition is a rule that comes before another, which stays, or at the end of the chain.
type Addition struct {
	Before int
	Rule   string
}

// Difference finds the change that turns one table into another. It is not ok if that is impossible, or if loading the whole table takes less
// work.
func Difference(table, was, now string) (c Change, ok bool) {
	a, err1 := Read(table, was)
	b, err2 := Read(table, now)
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

// manyRules is from how many rules on a change is no shorter than the whole table.
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
			c.Refilled = append(c.Refilled, x)
		}
	}
	for _, gone := range was {
		if before[gone.Name] != nil {
			c.GoneSets = append(c.GoneSets, gone.Name)
		}
	}
}

// edit finds what to take from a list and what to add to it to get another. As many as can stay where they are do.
func edit(was, now []string) Edit {
	e := Edit{Rules: len(was)}
	first := 0
	for first < min(len(was), len(now)) && was[first] == now[first] {
		first++
	}
	last := len(was)
	for n := len(now); last > first && n > first && was[last-1] == now[n-1]; n-- {
		last--
	}
	places := map[string][]int{}
	for i := first; i < last; i++ {
		places[was[i]] = append(places[was[i]], i)
	}
	// Where each line was, and which of those that were somewhere can stay: the longest row of ascending places.
	at := make([]int, len(now)-first-(len(was)-last))
	for i := range at {
		line := now[first+i]
		at[i] = -1
		if list := places[line]; len(list) > 0 {
			at[i], places[line] = list[0], list[1:]
		}
	}
	stays := ascending(at)
	kept := map[int]bool{}
	for i := range at {
		if stays[i] {
			kept[at[i]] = true
		}
	}
	for i := first; i < last; i++ {
		if !kept[i] {
			e.Remove = append(e.Remove, i)
		}
	}
	next := make([]int, len(at))
	for i, before := len(at)-1, last; i >= 0; i-- {
		if stays[i] {
			before = at[i]
		}
		next[i] = before
	}
	for i := range at {
		if !stays[i] {
			e.Add = append(e.Add, Addition{Before: next[i], Rule: now[first+i]})
		}
	}
	return e
}

// ascending marks the longest row of ascending numbers; those below zero are not in it.
func ascending(list []int) []bool {
	var tails []int // the index of the last number of the best row of each length
	before := make([]int, len(list))
	for i, x := range list {
		if x < 0 {
			continue
		}
		low := sort.Search(len(tails), func(i int) bool { return list[tails[i]] >= x })
		before[i] = -1
		if low > 0 {
			before[i] = tails[low-1]
		}
		if low == len(tails) {
			tails = append(tails, i)
		}
		tails[low] = i
	}
	marked := make([]bool, len(list))
	if len(tails) > 0 {
		for i := tails[len(tails)-1]; i >= 0; i = before[i] {
			marked[i] = true
		}
	}
	return marked
}
