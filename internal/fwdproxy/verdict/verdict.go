// Package verdict decides about a request to the forward proxy by the ordered access list. It is a pure function: the same code
// says what a value of an entry may be, and what it means, so that nothing is accepted that is judged otherwise.
package verdict

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Note is what squid keeps a verdict under. The names that end without an underscore are squid's own: since 6 it warns of each
// that it does not know.
const Note = "verdict_"

// Entry is one entry of the access list.
type Entry struct {
	Type, Value string
	Allow       bool
	// Position counts the entries of type dst before it. Those are squid's own to judge: it alone knows the address.
	Position int
}

// Request is what is asked of the proxy.
type Request struct {
	Source netip.Addr
	Method string
	// Host is lower-case, without brackets and without a dot at its end.
	Host string
	Port int
	// URL is that of the request, percent-decoded; host:port for a CONNECT.
	URL string
	At  time.Time
}

// Verdict is what becomes of a request.
type Verdict struct {
	// Decided says that an entry matched, or that the port is not one of those that are open.
	Decided bool
	Allow   bool
	// Position is that of the entry.
	Position int
}

// List is an access list, ready to judge. What can be looked up is, so that a list of many thousands costs little; the rest is
// tried in order.
type List struct {
	// Layout names the entries of type dst that the positions refer to.
	Layout string

	entries  []Entry
	domains  map[string]int // first entry with the name; with a dot before it for the names below, too
	networks map[netip.Prefix]int
	bits     map[int][]int // the lengths of networks that there are, by the length of their addresses
	methods  map[string]int
	tried    []trial
	open     []ports // that an entry allows
}

// trial is an entry that has to be tried.
type trial struct {
	entry int
	match matcher
}

type matcher func(r *Request) bool

// New makes a list of entries, which are in their order. One that cannot be understood spoils all.
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

// first notes the first entry that has a key.
func first[K comparable](index map[K]int, key K, i int) {
	if _, there := index[key]; !there {
		index[key] = i
	}
}

// Judge decides about a request.
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

// lookUp finds the first entry of those that need not be tried.
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

// usualPorts are open without an entry, besides those from 1025 on: FTP, the web, and what else squid has always called safe.
var usualPorts = []int{21, 70, 80, 210, 280, 443, 488, 591, 777}

// usual tells whether the port of a request is open without an entry. A tunnel can carry anything, and so has 443 alone.
func usual(r *Request) bool {
	if r.Method == "CONNECT" {
		return r.Port == 443
	}
	return r.Port >= 1025 || slices.Contains(usualPorts, r.Port)
}

// matcher tries what cannot be looked up; it is nil where there is no such thing.
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
