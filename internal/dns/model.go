package dns

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/value"
)

// model holds the local names in unbound's terms. Each is a local zone of its own, so that it can be changed without looking at any
// other.
type model struct {
	names map[string]*local
	// links lists the targets of aliases that are local names. unbound resolves an alias by asking other servers, so for these it must
	// ask itself.
	links []Name
}

// local is a name that is answered here.
type local struct {
	name Name
	// zone means that it is the name of a zone, and forward lists the resolvers for the rest of that zone.
	zone    bool
	forward []Forward
	// redirect means that names below get the same answers: it is an alias, which unbound only follows in such zones, or a wildcard.
	redirect bool
	// alias is its target, if it is an alias.
	alias   Name
	records []conf.Arg
}

// build makes the model of everything that is active.
func build(c *Config) (*model, error) {
	m := &model{names: map[string]*local{}}
	active := map[uuid.UUID]*Zone{}
	for i := range c.Zones {
		z := &c.Zones[i]
		if !z.Active {
			continue
		}
		active[z.ID] = z
		apex, err := value.Parse[Name](z.Name.apex())
		if err != nil {
			return nil, fmt.Errorf("zone %s: %w", z.Name, err)
		}
		m.names[apex.String()] = &local{name: apex, zone: true, forward: z.ForwardTo}
	}
	wildcards := map[string]bool{}
	for i := range c.Records {
		rec := &c.Records[i]
		z := active[rec.ZoneID]
		if z == nil {
			continue
		}
		o, err := z.Name.owner(rec.Name)
		if err != nil {
			return nil, fmt.Errorf("record %s: %w", rec.Name, err)
		}
		n := m.names[o.name.String()]
		if n == nil {
			n = &local{name: o.name}
			m.names[o.name.String()] = n
		}
		if had, mixed := wildcards[o.name.String()]; mixed && had != o.wildcard {
			return nil, fmt.Errorf("%s has records, and so has *.%[1]s", o.name)
		}
		wildcards[o.name.String()] = o.wildcard
		if err := n.add(o, rec); err != nil {
			return nil, err
		}
	}
	for _, n := range m.names {
		n.sort()
	}
	return m, m.link()
}

func (n *local) add(o owner, rec *Record) error {
	if len(n.records) > 0 && (rec.Type == alias || !n.alias.IsZero()) {
		return fmt.Errorf("%s is an alias and has other records", o)
	}
	if rec.Type == alias {
		target, err := value.Parse[Name](rec.Value)
		if err != nil {
			return fmt.Errorf("record %s: %w", o, err)
		}
		n.alias = target
	}
	n.redirect = n.redirect || o.wildcard || rec.Type == alias
	r, err := rec.resource(o.name)
	if err != nil {
		return fmt.Errorf("record %s: %w", o, err)
	}
	n.records = append(n.records, r)
	return nil
}

func (n *local) sort() {
	slices.SortFunc(n.records, func(a, b conf.Arg) int { return cmp.Compare(a.String(), b.String()) })
}

// link finds the targets of aliases that are local names.
func (m *model) link() error {
	linked := map[Name]bool{}
	for _, n := range m.names {
		if n.alias.IsZero() || linked[n.alias] {
			continue
		}
		if to := m.names[n.alias.String()]; to != nil && !to.alias.IsZero() {
			return fmt.Errorf("%s is an alias of %s, which is one, too", n.name, to.name)
		}
		if m.answers(n.alias) {
			linked[n.alias] = true
		}
	}
	m.links = slices.SortedFunc(maps.Keys(linked), func(a, b Name) int { return cmp.Compare(a.String(), b.String()) })
	return nil
}

// answers reports whether a name is answered here: by its own records, or below a wildcard that is not itself an alias.
func (m *model) answers(name Name) bool {
	if n := m.names[name.String()]; n != nil && len(n.records) > 0 {
		return true
	}
	for above := range name.above {
		if n := m.names[above]; n != nil {
			return n.redirect && n.alias.IsZero()
		}
	}
	return false
}

// sorted returns the names in order.
func (m *model) sorted() []*local {
	list := make([]*local, 0, len(m.names))
	for _, key := range slices.Sorted(maps.Keys(m.names)) {
		list = append(list, m.names[key])
	}
	return list
}

var types = map[string]conf.Arg{
	"A": conf.Word("A"), "AAAA": conf.Word("AAAA"), "CNAME": conf.Word("CNAME"), "TXT": conf.Word("TXT"), "MX": conf.Word("MX"),
	"SRV": conf.Word("SRV"), "NS": conf.Word("NS"), "PTR": conf.Word("PTR"), "CAA": conf.Word("CAA"),
}

var tags = map[string]conf.Arg{
	"issue": conf.Word("issue"), "issuewild": conf.Word("issuewild"), "issuemail": conf.Word("issuemail"), "issuevmc": conf.Word("issuevmc"),
	"iodef": conf.Word("iodef"), "contactemail": conf.Word("contactemail"), "contactphone": conf.Word("contactphone"),
}

func (r *Record) resource(name Name) (conf.Arg, error) {
	data, err := r.data()
	if err != nil {
		return conf.Arg{}, err
	}
	return conf.ResourceRecord(name, r.TTL, types[r.Type], data...), nil
}

func (r *Record) data() ([]conf.Arg, error) {
	switch r.Type {
	case "A", "AAAA":
		a, err := value.Parse[value.Addr](r.Value)
		return []conf.Arg{conf.Value(a)}, err
	case "TXT":
		return conf.CharacterStrings(r.Value), nil
	case "CAA":
		flags, tag, text, err := parseCAA(r.Value)
		return append([]conf.Arg{conf.Int(flags), tags[tag]}, conf.CharacterStrings(text)...), err
	}
	var data []conf.Arg
	for _, field := range r.numbers() {
		n := *r.number(field)
		if n == nil {
			return nil, fmt.Errorf("%s is missing", field)
		}
		data = append(data, conf.Int(*n))
	}
	name, err := value.Parse[Name](r.Value)
	return append(data, conf.Value(name)), err
}

// listed converts a record from unbound's list into the form in which it is written.
func listed(line string) string {
	line = strings.Replace(line, "\t", " ", 4)
	if !strings.ContainsAny(line, "\\'\t") {
		return line
	}
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'' || c == '\t':
			fmt.Fprintf(&b, `\%03d`, c)
		case c == '\\' && i+1 < len(line) && (line[i+1] < '0' || line[i+1] > '9'):
			i++
			fmt.Fprintf(&b, `\%03d`, line[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
