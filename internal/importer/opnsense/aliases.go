package opnsense

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/importer"
	"edge.internal/gateway/internal/kit/value"
)

// alias is a name for addresses or ports.
type alias struct {
	*element
	name    string
	ports   bool
	places  []place
	numbers []ports
	// bad says why it was not carried over.
	bad     string
	pending bool
	read    bool
	// object or group is its name in the document.
	object, group string
}

// place is an address, a network, a range or a name.
type place struct{ kind, value string }

// ports is a range of ports; first is 0 for all of them.
type ports struct{ first, last int }

// mostMembers is the maximum number of members of a group.
const mostMembers = 1000

// readPlace parses an element of an alias or a rule.
func readPlace(text string) (place, bool) {
	if a, err := value.Parse[value.Addr](text); err == nil {
		return place{"host", a.String()}, true
	}
	if p, err := value.Parse[value.Prefix](text); err == nil {
		return place{"network", p.String()}, true
	}
	if r, err := value.Parse[value.Range](text); err == nil {
		return place{"range", r.String()}, true
	}
	if h, err := value.Parse[value.Host](text); err == nil && strings.Contains(h.String(), ".") {
		return place{"fqdn", h.String()}, true
	}
	return place{}, false
}

// bounds returns the first and the last address of a place; a name has none.
func (p place) bounds() (first, last netip.Addr, ok bool) {
	if p.kind == "fqdn" {
		return first, last, false
	}
	r, err := value.Parse[value.Range](p.value)
	if err != nil {
		return first, last, false
	}
	first, last = r.Bounds()
	return first, last, true
}

func (c *conversion) readAliases() {
	c.root.all("OPNsense", "Firewall", "Alias")
	for _, e := range c.root.all("OPNsense", "Firewall", "Alias", "aliases", "alias") {
		e.pass("proto", "counters", "updatefreq", "categories", "interface", "path_expression", "authtype", "username", "password", "expire", "current_items", "last_updated", "eval_nomatch", "eval_match", "description")
		a := &alias{element: e, name: e.get("name")}
		if a.name == "" || c.aliases[a.name] != nil {
			c.drop(e, a.name, "it has no name, or one that is taken")
			continue
		}
		c.aliases[a.name] = a
	}
	for _, e := range c.root.all("OPNsense", "Firewall", "Alias", "aliases", "alias") {
		a := c.aliases[e.get("name")]
		if a == nil || a.element != e {
			continue
		}
		if c.resolve(a); a.bad != "" {
			c.drop(e, a.name, "%s", a.bad)
			continue
		}
		if !a.ports {
			c.writeAlias(a)
		}
	}
}

// resolve resolves an alias and those that it contains.
func (c *conversion) resolve(a *alias) {
	if a.read {
		return
	}
	if a.pending {
		a.bad = "it contains itself"
		return
	}
	a.pending = true
	defer func() { a.pending, a.read = false, true }()
	kind := a.get("type")
	a.ports = kind == "port"
	content := list(a.get("content"))
	switch {
	case !a.yes("enabled"):
		a.bad = "it is off, and matches nothing"
	case kind != "host" && kind != "network" && kind != "networkgroup" && kind != "port":
		a.bad = "the gateway has no aliases of the kind " + kind
	}
	for _, item := range content {
		if a.bad != "" {
			return
		}
		if other := c.aliases[item]; other != nil {
			if c.resolve(other); other.bad != "" {
				a.bad = item + " in it was not carried over: " + other.bad
				return
			}
			a.places, a.numbers = append(a.places, other.places...), append(a.numbers, other.numbers...)
		} else if a.ports {
			p, ok := readPorts(item)
			if !ok {
				a.bad = "it contains " + item + ", which is not a port"
			}
			a.numbers = append(a.numbers, p)
		} else if key, ok := strings.CutSuffix(strings.TrimPrefix(item, "__"), "_network"); ok && strings.HasPrefix(item, "__") && c.byKey(key) != nil {
			a.places = append(a.places, c.byKey(key).places("")...)
		} else if p, ok := readPlace(item); ok {
			a.places = append(a.places, p)
		} else {
			a.bad = "it contains " + item + ", which is not an address, a network, a range or a name"
		}
		if len(a.places) > mostMembers || len(a.numbers) > mostMembers {
			a.bad = "it has more than " + strconv.Itoa(mostMembers) + " members"
		}
	}
	if a.bad == "" && len(a.places)+len(a.numbers) == 0 {
		a.bad = "it is empty"
	}
	slices.SortFunc(a.numbers, func(x, y ports) int { return x.first - y.first })
	a.numbers = slices.Compact(a.numbers)
	a.places = distinct(a.places)
}

func distinct(all []place) []place {
	var list []place
	seen := map[place]bool{}
	for _, p := range all {
		if !seen[p] {
			seen[p] = true
			list = append(list, p)
		}
	}
	return list
}

// places returns the networks of an interface in a family (inet, inet6), or in both.
func (i *iface) places(family string) (list []place) {
	for _, v4 := range []bool{true, false} {
		if n, ok := i.network(v4); ok && family != map[bool]string{true: "inet6", false: "inet"}[v4] {
			list = append(list, place{"network", n.String()})
		}
	}
	return list
}

// The common names of ports that OPNsense accepts instead of numbers.
var portNames = map[string]int{
	"ftp": 21, "ssh": 22, "telnet": 23, "smtp": 25, "domain": 53, "tftp": 69, "http": 80, "pop3": 110, "ntp": 123, "imap": 143, "snmp": 161, "ldap": 389, "https": 443,
	"submission": 587, "ldaps": 636, "imaps": 993, "pop3s": 995, "openvpn": 1194, "radius": 1812, "ms-wbt-server": 3389, "sip": 5060, "isakmp": 500, "syslog": 514,
}

// readPorts parses a port or a range of ports.
func readPorts(text string) (p ports, ok bool) {
	from, to, ranged := strings.Cut(strings.ReplaceAll(text, ":", "-"), "-")
	if n, named := portNames[text]; named {
		return ports{n, n}, true
	}
	first, err := strconv.Atoi(from)
	last := first
	var err2 error
	if ranged {
		last, err2 = strconv.Atoi(to)
	}
	return ports{first, last}, err == nil && err2 == nil && first >= 1 && last <= 65535 && first <= last
}

func (p ports) String() string {
	if p.first == p.last {
		return strconv.Itoa(p.first)
	}
	return strconv.Itoa(p.first) + "-" + strconv.Itoa(p.last)
}

// writeAlias adds an alias to the document: one place is an object, several are a group of objects named by their values.
func (c *conversion) writeAlias(a *alias) {
	description := a.get("description")
	if len(a.places) == 1 {
		a.object = c.doc.Name("firewall.address-object", a.name)
		p := a.places[0]
		c.doc.Add("firewall.address-object", importer.Fields("name", a.object, "kind", p.kind, "value", p.value, "description", importer.Unless(short(description), "")))
		return
	}
	a.group = c.group(a.name, short(description), a.places)
}

func short(text string) string {
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "")
	}
	return strings.Join(strings.Fields(text), " ")
}

func (c *conversion) object(p place) string {
	name := c.objects[p.value]
	if name == "" {
		name = c.doc.Name("firewall.address-object", p.value)
		c.objects[p.value] = name
		c.doc.Add("firewall.address-object", importer.Fields("name", name, "kind", p.kind, "value", p.value))
	}
	return name
}

func (c *conversion) group(wish, description string, places []place) string {
	var members []string
	for _, p := range places {
		members = append(members, c.object(p))
	}
	key := wish + "\x00" + strings.Join(members, "\x00")
	name := c.groups[key]
	if name == "" {
		name = c.doc.Name("firewall.address-group", wish)
		c.groups[key] = name
		c.doc.Add("firewall.address-group", importer.Fields("name", name, "description", importer.Unless(description, ""), "members", members))
	}
	return name
}

// The protocols of services, by those of rules.
var protocols = map[string]string{"tcp": "tcp", "udp": "udp", "tcp/udp": "tcp+udp", "icmp": "icmp", "icmp6": "icmpv6", "ipv6-icmp": "icmpv6", "icmpv6": "icmpv6"}

// service returns a service, or a group of services, for ports of a protocol.
func (c *conversion) service(protocol, called string, numbers []ports) (object, group string) {
	one := func(p ports) string {
		wish := protocol
		if p.first > 0 {
			wish += " " + p.String()
		}
		name := c.services[wish]
		if name == "" {
			name = c.doc.Name("firewall.service", wish)
			c.services[wish] = name
			c.doc.Add("firewall.service", importer.Fields("name", name, "protocol", protocol, "port_start", importer.Unless(p.first, 0), "port_end", importer.Unless(p.last, p.first)))
		}
		return name
	}
	if len(numbers) == 0 {
		return one(ports{}), ""
	}
	if len(numbers) == 1 {
		return one(numbers[0]), ""
	}
	var members []string
	for _, p := range numbers {
		members = append(members, one(p))
	}
	key := protocol + " group " + called + " " + strings.Join(members, ",")
	name := c.services[key]
	if name == "" {
		name = c.doc.Name("firewall.service-group", called+" "+protocol)
		c.services[key] = name
		c.doc.Add("firewall.service-group", importer.Fields("name", name, "members", members))
	}
	return "", name
}

// complement returns the ranges of addresses in none of the places. All of them must be known, so names have no complement.
func complement(places []place, family string) ([]place, bool) {
	type span struct{ first, last netip.Addr }
	var list []place
	for _, world := range []span{
		{netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("255.255.255.255")},
		{netip.MustParseAddr("::"), netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")},
	} {
		if world.first.Is4() && family == "inet6" || world.first.Is6() && family == "inet" {
			continue
		}
		var taken []span
		for _, p := range places {
			first, last, ok := p.bounds()
			if !ok {
				return nil, false
			}
			if first.Is4() == world.first.Is4() {
				taken = append(taken, span{first, last})
			}
		}
		slices.SortFunc(taken, func(a, b span) int { return a.first.Compare(b.first) })
		next := world.first // invalid after the last address
		for _, s := range taken {
			if next.IsValid() && next.Less(s.first) {
				list = append(list, place{"range", next.String() + "-" + s.first.Prev().String()})
			}
			if next.IsValid() && !s.last.Less(next) {
				next = s.last.Next()
			}
		}
		if next.IsValid() {
			list = append(list, place{"range", next.String() + "-" + world.last.String()})
		}
	}
	return list, len(list) > 0
}
