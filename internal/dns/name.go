package dns

import (
	"errors"
	"regexp"
	"strings"

	"edge.internal/gateway/internal/kit/value"
)

// Name is a full DNS name, in lower case and with the trailing dot.
type Name struct{ value.Text[nameGrammar] }

type nameGrammar struct{}

func (nameGrammar) Example() string { return "www.corp.example.net." }

func (nameGrammar) Parse(s string) (string, error) {
	if s == "." {
		return s, nil
	}
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	if len(name) > maxName || !labels.MatchString(name) {
		return "", errName
	}
	return name + ".", nil
}

// maxName is the maximum length of a name without the trailing dot.
const maxName = 253

var (
	labels  = regexp.MustCompile(`^` + label + `(\.` + label + `)*$`)
	errName = errors.New("must be a name of at most 253 characters, in labels of at most 63 letters, digits, hyphens and underscores separated by dots")
)

const label = `[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?`

// misplaced refuses names in parts of the tree where we can have none.
func misplaced(name string) error {
	switch last := name[strings.LastIndexByte(name, '.')+1:]; {
	case strings.Trim(last, "0123456789") == "":
		return errors.New("must be a name, for example corp.example.net or 2.0.192.in-addr.arpa, not an address")
	case last == "invalid":
		return errors.New("must not end in invalid, which is reserved")
	}
	return nil
}

// above yields the parent names, the nearest first, without the root.
func (n Name) above(yield func(string) bool) {
	for rest := n.String(); ; {
		_, after, _ := strings.Cut(rest, ".")
		if after == "" || !yield(after) {
			return
		}
		rest = after
	}
}

// ZoneName is the name of a zone: a Name without the trailing dot.
type ZoneName struct{ value.Text[zoneGrammar] }

type zoneGrammar struct{}

func (zoneGrammar) Example() string { return "corp.example.net" }

func (zoneGrammar) Parse(s string) (string, error) {
	n, err := nameGrammar{}.Parse(s)
	name := strings.TrimSuffix(n, ".")
	switch {
	case err != nil:
		return "", err
	case name == "":
		return "", errors.New("must not be the root. Put the resolvers for all other names into upstream_forwards")
	}
	return name, misplaced(name)
}

// apex returns the zone's own name.
func (z ZoneName) apex() string { return z.String() + "." }

// owner is the name that a record is for. A wildcard stands for all names below it.
type owner struct {
	name     Name
	wildcard bool
}

func (o owner) String() string {
	if o.wildcard {
		return "*." + o.name.String()
	}
	return o.name.String()
}

// owner resolves the name of a record of the zone.
func (z ZoneName) owner(text string) (owner, error) {
	name := strings.ToLower(text)
	switch {
	case name == "" || name == "@":
		name = z.apex()
	case strings.HasSuffix(name, "."):
	case name == z.String() || strings.HasSuffix(name, "."+z.String()):
		name += "."
	default:
		name += "." + z.apex()
	}
	below, wildcard := strings.CutPrefix(name, "*.")
	n, err := value.Parse[Name](below)
	switch {
	case err != nil:
		return owner{}, err
	case len(name) > maxName+1:
		return owner{}, errName
	case n.String() == ".":
		return owner{}, errors.New("must not be the root")
	}
	return owner{n, wildcard}, misplaced(strings.TrimSuffix(n.String(), "."))
}

// relative returns the stored form of a name: without the zone, unless it is outside of it, or would be ambiguous.
func (z ZoneName) relative(o owner) string {
	if o.String() == z.apex() {
		return "@"
	}
	short := strings.TrimSuffix(o.String(), "."+z.apex())
	if again, err := z.owner(short); err != nil || again != o {
		return o.String()
	}
	return short
}

// target resolves a name that a record of the zone points to: @ is the zone itself, and the zone is appended to a single label.
func (z ZoneName) target(text string) (Name, error) {
	switch {
	case text == "@":
		text = z.apex()
	case text != "" && !strings.Contains(text, "."):
		text += "." + z.apex()
	}
	return value.Parse[Name](text)
}

// stored returns the zones that the name may belong to, with its stored form in each. In every other zone the full name is stored.
func (o owner) stored() (zones, names []string) {
	add := func(z ZoneName) {
		zones, names = append(zones, z.String()), append(names, z.relative(o))
	}
	if z, err := value.Parse[ZoneName](o.name.String()); err == nil {
		add(z)
	}
	for above := range o.name.above {
		if z, err := value.Parse[ZoneName](above); err == nil {
			add(z)
		}
	}
	return zones, names
}
