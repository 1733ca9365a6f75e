// Package verdict decides about requests to the forward proxy by the ordered access list. It is a pure function: the same code checks the
// values of entries and interprets them, so that nothing is accepted that would be judged differently.
package verdict

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Note is the name of squid's annotation for a verdict. Names without a trailing underscore are reserved for squid: since version 6 it
// warns about unknown ones.
const Note = "verdict_"

// Entry is one entry of the access list.
type Entry struct {
	Type, Value string
	Allow       bool
	// Position counts the preceding entries of type dst. Those are judged by squid, which alone knows the address.
	Position int
}

type Request struct {
	Source netip.Addr
	Method string
	// Host is lower-case, without brackets and without a trailing dot.
	Host string
	Port int
	// URL is percent-decoded; it is host:port for a CONNECT.
	URL string
	At  time.Time
}

// Verdict is the decision about a request.
type Verdict struct {
	// Decided means that an entry matched, or that the port is not open.
	Decided bool
	Allow   bool
	// Position is the entry's position.
	Position int
}

// List is an access list that is ready to judge. It uses lookups where possible, so that a list of many thousands is fast; the rest is
// tried in order.
type List struct {
	// Layout identifies the entries of type dst that the positions refer to.
	Layout string

	entries  []Entry
	domains  map[string]int // first entry with the name; with a leading dot for the names below, too
	networks map[netip.Prefix]int
	bits     map[int][]int // the prefix lengths of the networks, by the length of their addresses
	methods  map[string]int
	tried    []trial
	open     []ports // allowed by an entry
}

// trial is an entry that must be tried.
type trial struct {
	entry int
	match matcher
}

type matcher func(r *Request) bool

// New returns a list of ordered entries. One invalid entry invalidates the list.
func New(layout string, entries []Entry) (*List, error) {
	l := &List{
		Layout: layout, entries: entries,
		domains: map[string]int{}, networks: map[netip.Prefix]int{}, bits: map[int][]int{}, methods: map[string]int{},
	}
	for i, e := range entries {
		if err := l.add(i, e); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *List) add(i int, e Entry) error {
	p, err := parse(e.Type, e.Value)
	if err != nil {
		return err
	}
	for _, name := range p.domains {
		first(l.domains, name, i)
	}
	for _, method := range p.methods {
		first(l.methods, method, i)
	}
	for _, n := range p.networks {
		first(l.networks, n, i)
		if width := n.Addr().BitLen(); !slices.Contains(l.bits[width], n.Bits()) {
			l.bits[width] = append(l.bits[width], n.Bits())
		}
	}
	if m := p.matcher(); m != nil {
		l.tried = append(l.tried, trial{i, m})
	}
	if e.Allow {
		l.open = append(l.open, p.ports...)
	}
	return nil
}

// first records the first entry that has a key.
func first[K comparable](index map[K]int, key K, i int) {
	if _, there := index[key]; !there {
		index[key] = i
	}
}

func (l *List) Judge(r *Request) Verdict {
	if !usual(r) && !slices.ContainsFunc(l.open, func(p ports) bool { return p.has(r.Port) }) {
		return Verdict{Decided: true}
	}
	i := l.lookUp(r)
	for _, t := range l.tried {
		if t.entry > i {
			break
		}
		if t.match(r) {
			i = t.entry
			break
		}
	}
	if i == len(l.entries) {
		return Verdict{}
	}
	return Verdict{Decided: true, Allow: l.entries[i].Allow, Position: l.entries[i].Position}
}

// lookUp finds the first matching entry among those with lookups.
func (l *List) lookUp(r *Request) int {
	found := len(l.entries)
	hit := func(i int, ok bool) {
		if ok && i < found {
			found = i
		}
	}
	if len(l.domains) > 0 {
		i, ok := l.domains[r.Host]
		hit(i, ok)
		for below := "." + r.Host; below != ""; {
			i, ok = l.domains[below]
			hit(i, ok)
			if dot := strings.IndexByte(below[1:], '.'); dot >= 0 {
				below = below[1+dot:]
			} else {
				below = ""
			}
		}
	}
	for _, bits := range l.bits[r.Source.BitLen()] {
		if n, err := r.Source.Prefix(bits); err == nil {
			i, ok := l.networks[n]
			hit(i, ok)
		}
	}
	i, ok := l.methods[r.Method]
	hit(i, ok)
	return found
}

// usualPorts are open without an entry, besides those from 1025: FTP, the web, and what squid has always considered safe.
var usualPorts = []int{21, 70, 80, 210, 280, 443, 488, 591, 777}

// usual reports whether the port of a request is open without an entry. A tunnel can carry anything, so only 443 is open for it.
func usual(r *Request) bool {
	if r.Method == "CONNECT" {
		return r.Port == 443
	}
	return r.Port >= 1025 || slices.Contains(usualPorts, r.Port)
}

// matcher returns a function for what cannot be looked up; nil if there is nothing.
func (p *parsed) matcher() matcher {
	switch {
	case len(p.hosts) > 0:
		return func(r *Request) bool { return matches(p.hosts, r.Host) }
	case len(p.urls) > 0:
		return func(r *Request) bool { return matches(p.urls, r.URL) }
	case len(p.ports) > 0:
		return func(r *Request) bool {
			return slices.ContainsFunc(p.ports, func(x ports) bool { return x.has(r.Port) })
		}
	case len(p.times) > 0:
		return func(r *Request) bool { return slices.ContainsFunc(p.times, func(w window) bool { return w.has(r.At) }) }
	case len(p.ranges) > 0:
		return func(r *Request) bool {
			return slices.ContainsFunc(p.ranges, func(x span) bool { return x.has(r.Source) })
		}
	}
	return nil
}

func matches(list []*regexp.Regexp, text string) bool {
	return slices.ContainsFunc(list, func(x *regexp.Regexp) bool { return x.MatchString(text) })
}
