// Package parts has texts that consist of parts. The cost of processing a changed text depends on the parts that have changed,
// and not on its size.
package parts

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
)

// Sum identifies a content.
type Sum [sha256.Size]byte

// Part is a piece of a text. Equal parts have equal sums.
type Part struct {
	text  []byte
	sum   Sum
	lines int
}

// Of returns a part of a text, which must not be modified afterwards.
func Of(text []byte) Part { return Part{text, sha256.Sum256(text), bytes.Count(text, []byte("\n"))} }

func (p Part) String() string { return string(p.text) }

// Text is a text in parts, which others may share. The first and the last part are its frame, which no change affects.
type Text []Part

func (t Text) Bytes() []byte {
	all := make([]byte, 0, t.Len())
	for i := range t {
		all = append(all, t[i].text...)
	}
	return all
}

func (t Text) WriteTo(w io.Writer) (n int64, err error) {
	b := bufio.NewWriterSize(w, 64<<10)
	for i := range t {
		m, err := b.Write(t[i].text)
		if n += int64(m); err != nil {
			return n, err
		}
	}
	return n, b.Flush()
}

// Len returns the length of the whole text.
func (t Text) Len() (n int) {
	for i := range t {
		n += len(t[i].text)
	}
	return n
}

func (t Text) Lines() (n int) {
	for i := range t {
		n += t[i].lines
	}
	return n
}

// Sum identifies a whole text among those that are divided in the same way.
func (t Text) Sum() Sum {
	all := make([]byte, 0, len(t)*sha256.Size)
	for i := range t {
		all = append(all, t[i].sum[:]...)
	}
	return sha256.Sum256(all)
}

// Same reports whether two texts that are divided in the same way are equal.
func (t Text) Same(o Text) bool {
	return slices.EqualFunc(t, o, func(a, b Part) bool { return a.sum == b.sum })
}

func (t Text) sums() []Sum {
	list := make([]Sum, len(t))
	for i := range t {
		list[i] = t[i].sum
	}
	return list
}

// Distinct returns the parts that only one of two texts has.
func Distinct(a, b Text) (onlyA, onlyB Text) {
	first := 0
	for first < min(len(a), len(b)) && a[first].sum == b[first].sum {
		first++
	}
	n, m := len(a), len(b)
	for n > first && m > first && a[n-1].sum == b[m-1].sum {
		n, m = n-1, m-1
	}
	has := make(map[Sum]bool, n-first)
	for _, p := range a[first:n] {
		has[p.sum] = true
	}
	both := make(map[Sum]bool)
	for _, p := range b[first:m] {
		if has[p.sum] {
			both[p.sum] = true
		} else {
			onlyB = append(onlyB, p)
		}
	}
	for _, p := range a[first:n] {
		if !both[p.sum] {
			onlyA = append(onlyA, p)
		}
	}
	return onlyA, onlyB
}

// News returns the frame of a text and the parts that another text does not have. Empty lines replace the others, so that every line
// keeps its number.
func (t Text) News(other Text) []byte {
	has := make(map[Sum]bool, len(other))
	for i := range other {
		has[other[i].sum] = true
	}
	var b bytes.Buffer
	for i := range t {
		if i > 0 && i < len(t)-1 && has[t[i].sum] {
			b.WriteString(strings.Repeat("\n", t[i].lines))
		} else {
			b.Write(t[i].text)
		}
	}
	return b.Bytes()
}

// Change turns a text into another.
type Change struct {
	// Was is the sum of the text that it is for.
	Was Sum
	// Remove are the indexes of the parts to remove.
	Remove []int
	Add    []Addition
}

// Addition is a part that is inserted before another one of the original text.
type Addition struct {
	Before int
	Text   []byte
}

// Between returns the change from one text to another; ok is false if they have different frames.
func Between(was, now Text) (c Change, ok bool) {
	if len(was) < 2 || len(now) < 2 || was[0].sum != now[0].sum || was[len(was)-1].sum != now[len(now)-1].sum {
		return c, false
	}
	e := EditOf(was.sums(), now.sums())
	c = Change{Was: was.Sum(), Remove: e.Remove}
	for _, a := range e.Add {
		c.Add = append(c.Add, Addition{a.Before, now[a.Item].text})
	}
	return c, true
}

// Empty reports whether there is nothing to change.
func (c *Change) Empty() bool { return len(c.Remove)+len(c.Add) == 0 }

// ErrOther says that a change is for another text.
var ErrOther = errors.New("the text is not the one that the change is for")

// Changed applies a change. The frame must stay.
func (t Text) Changed(c Change) (Text, error) {
	if c.Was != t.Sum() {
		return nil, ErrOther
	}
	now := make(Text, 0, len(t)+len(c.Add)-min(len(t), len(c.Remove)))
	at := 0
	// upTo copies the parts that stay before an index.
	upTo := func(place int) {
		now = append(now, t[at:place]...)
		at = place
	}
	removed := 0
	remove := func(before int) error {
		for ; removed < len(c.Remove) && c.Remove[removed] < before; removed++ {
			i := c.Remove[removed]
			if i < max(at, 1) || i >= len(t)-1 {
				return fmt.Errorf("part %d of %d cannot be removed", i, len(t))
			}
			upTo(i)
			at++
		}
		return nil
	}
	for _, a := range c.Add {
		if err := remove(a.Before); err != nil {
			return nil, err
		}
		if a.Before < max(at, 1) || a.Before >= len(t) {
			return nil, fmt.Errorf("nothing can come before part %d of %d", a.Before, len(t))
		}
		upTo(a.Before)
		now = append(now, Of(a.Text))
	}
	if err := remove(len(t)); err != nil {
		return nil, err
	}
	if removed < len(c.Remove) {
		return nil, fmt.Errorf("part %d of %d cannot be removed", c.Remove[removed], len(t))
	}
	upTo(len(t))
	return now, nil
}

// Region is where two texts differ: the parts of each between parts that both have.
type Region struct {
	// Was and Now are half-open ranges of indexes.
	Was, Now [2]int
}

// Regions returns all places where two texts differ.
func Regions(was, now Text) (list []Region) {
	e := EditOf(was.sums(), now.sums())
	i, j, removed, added := 0, 0, 0, 0
	for removed < len(e.Remove) || added < len(e.Add) {
		next := len(was)
		if removed < len(e.Remove) {
			next = e.Remove[removed]
		}
		if added < len(e.Add) {
			next = min(next, e.Add[added].Before)
		}
		i, j = next, j+next-i
		r := Region{[2]int{i}, [2]int{j}}
		for more := true; more; {
			more = false
			for ; added < len(e.Add) && e.Add[added].Before == i; added++ {
				j, more = j+1, true
			}
			for ; removed < len(e.Remove) && e.Remove[removed] == i; removed++ {
				i, more = i+1, true
			}
		}
		r.Was[1], r.Now[1] = i, j
		list = append(list, r)
	}
	return list
}

// Edit turns a list into another.
type Edit struct {
	Remove []int
	Add    []Insertion
}

// Insertion is an item of the new list that is inserted before an item of the old list that stays, or at its end.
type Insertion struct{ Before, Item int }

// EditOf returns what to remove from a list and what to add to it to get another. As many items as possible stay where they are.
// Indexes are ascending.
func EditOf[T comparable](was, now []T) (e Edit) {
	first := 0
	for first < min(len(was), len(now)) && was[first] == now[first] {
		first++
	}
	last := len(was)
	for n := len(now); last > first && n > first && was[last-1] == now[n-1]; n-- {
		last--
	}
	places := map[T][]int{}
	for i := first; i < last; i++ {
		places[was[i]] = append(places[was[i]], i)
	}
	// Find the old index of each item; those in the longest increasing subsequence stay.
	at := make([]int, len(now)-first-(len(was)-last))
	for i := range at {
		item := now[first+i]
		at[i] = -1
		if list := places[item]; len(list) > 0 {
			at[i], places[item] = list[0], list[1:]
		}
	}
	stays := Ascending(at)
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
			e.Add = append(e.Add, Insertion{next[i], first + i})
		}
	}
	return e
}

// Ascending marks the members of a longest increasing subsequence, ignoring negative numbers.
func Ascending(list []int) []bool {
	var tails []int // the index of the smallest last number of the subsequences of each length
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
