package opnsense

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/importer"
	"edge.internal/gateway/internal/kit/value"
)

// rule is a firewall rule of the file, in either of its forms.
type rule struct {
	*element
	action, family, protocol, direction string
	keys                                []string
	source, destination                 endpoint
	descr, gateway, schedule            string
	on, log, quick, floating            bool
	sequence                            int
}

// endpoint is a side of a rule: a name and ports.
type endpoint struct {
	*element
	net, port string
	not       bool
}

// side is a side of a rule of the gateway.
type side struct {
	kind, object, group, cidr string
	self                      bool
	zone                      string
}

// readRules reads the firewall rules. Rules for several interfaces come first, as in OPNsense.
func (c *conversion) readRules() {
	var rules []*rule
	for _, e := range c.root.all("OPNsense", "Firewall", "Filter", "rules", "rule") {
		rules = append(rules, newRule(e))
	}
	slices.SortStableFunc(rules, func(a, b *rule) int { return cmp.Compare(a.sequence, b.sequence) })
	for _, e := range c.root.all("filter", "rule") {
		rules = append(rules, oldRule(e))
	}
	slices.SortStableFunc(rules, func(a, b *rule) int { return cmp.Compare(c.turn(a), c.turn(b)) })
	c.blockPrivate()
	for _, r := range rules {
		c.writeRule(r)
	}
}

// turn returns the order of evaluation: floating rules, those of groups, those of interfaces.
func (c *conversion) turn(r *rule) int {
	switch {
	case r.floating || len(r.keys) != 1:
		return 0
	case c.byKey(r.keys[0]) == nil:
		return 1
	}
	return 2
}

// oldRule reads a rule from the pages of each interface.
func oldRule(e *element) *rule {
	e.pass("created", "updated", "tracker", "id", "category", "associated-rule-id", "nosync", "disablereplyto", "reply-to")
	if e.get("statetype") == "keep state" || e.get("statetype") == "" {
		e.pass("statetype")
	}
	quick := e.at("quick")
	return &rule{
		element: e, action: e.get("type"), family: cmp.Or(e.get("ipprotocol"), "inet"), protocol: cmp.Or(strings.ToLower(e.get("protocol")), "any"), direction: cmp.Or(e.get("direction"), "in"),
		keys: list(e.get("interface")), source: oldEndpoint(e.at("source")), destination: oldEndpoint(e.at("destination")), descr: e.get("descr"), gateway: e.get("gateway"), schedule: e.get("sched"),
		on: !e.yes("disabled"), log: e.yes("log"), quick: quick == nil && !e.yes("floating") || quick != nil && e.yes("quick"), floating: e.yes("floating"),
	}
}

func oldEndpoint(e *element) endpoint {
	if e == nil {
		return endpoint{net: "any"}
	}
	p := endpoint{element: e, net: cmp.Or(e.get("network"), e.get("address"), "any"), port: e.get("port"), not: e.yes("not")}
	e.pass("any")
	return p
}

// newRule reads a rule from the newer page for all interfaces.
func newRule(e *element) *rule {
	e.pass("categories", "statetype", "state-policy", "sort_order", "prio_group", "icmptype", "icmp6type")
	r := &rule{
		element: e, action: e.get("action"), family: cmp.Or(e.get("ipprotocol"), "inet"), protocol: cmp.Or(strings.ToLower(e.get("protocol")), "any"), direction: cmp.Or(e.get("direction"), "in"),
		keys:        list(e.get("interface")),
		source:      endpoint{e, cmp.Or(e.get("source_net"), "any"), e.get("source_port"), e.yes("source_not")},
		destination: endpoint{e, cmp.Or(e.get("destination_net"), "any"), e.get("destination_port"), e.yes("destination_not")},
		descr:       e.get("description"), gateway: e.get("gateway"), schedule: e.get("sched"), on: e.yes("enabled"), log: e.yes("log"), quick: e.yes("quick"),
	}
	if e.yes("interfacenot") {
		r.action = "interfacenot"
	}
	r.sequence, _ = strconv.Atoi(e.get("sequence"))
	return r
}

var actions = map[string]string{"pass": "accept", "block": "drop", "reject": "reject"}

// blockPrivate converts the option to block private networks on an interface into rules.
func (c *conversion) blockPrivate() {
	var private []place
	for _, n := range []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"} {
		private = append(private, place{"network", n})
	}
	for _, i := range c.interfaces {
		if i.yes("blockpriv") {
			c.doc.Add("firewall.rule", importer.Fields("name", c.doc.Name("firewall.rule", "Block private networks from "+i.descr), "src_zone", i.zone, "src_kind", "group",
				"src_group_id", c.group("private networks", "", private), "action", "drop"))
		}
		if i.yes("blockbogons") {
			c.note(i.at("blockbogons"), i.descr, "the gateway has no list of bogon networks")
		}
	}
}

func (c *conversion) writeRule(r *rule) {
	called := cmp.Or(r.descr, strings.Join(r.keys, ",")+" rule")
	bad := func(why string, args ...any) {
		if r.action == "block" || r.action == "reject" {
			why += ". It blocks, so rules after it may accept what it blocked"
		}
		c.drop(r.element, called, why, args...)
	}
	action := actions[r.action]
	zones, why := c.zonesOf(r.keys)
	switch {
	case action == "":
		bad("the gateway has no rules of the kind %s", r.action)
		return
	case why != "":
		bad("%s", why)
		return
	case r.direction == "out":
		bad("the gateway filters traffic where it comes in, not where it leaves (direction out)")
		return
	case !r.quick:
		bad("the first rule that matches decides at the gateway. This one lets later rules decide (quick is off)")
		return
	case r.source.port != "":
		bad("the gateway has no rules for source ports (%s)", r.source.port)
		return
	case r.get("tagged") != "":
		bad("the gateway has no tags for packets")
		return
	}
	protocol := ""
	if r.protocol != "any" {
		if protocol = protocols[r.protocol]; protocol == "" {
			bad("the gateway has no rules for the protocol %s", r.protocol)
			return
		}
	}
	src, why := c.side(r.source, r.family)
	if why != "" || src.self {
		bad("the source: %s", cmp.Or(why, "traffic of the gateway itself is not filtered"))
		return
	}
	dst, why := c.side(r.destination, r.family)
	if why != "" {
		bad("the destination: %s", why)
		return
	}
	narrow(&src, &dst, r.family)
	var object, group string
	if protocol != "" {
		numbers, why := c.portsOf(r.destination.port)
		if why != "" {
			bad("the destination port: %s", why)
			return
		}
		object, group = c.service(protocol, r.destination.port, numbers)
	}
	on := r.on
	for _, x := range []struct{ text, why string }{
		{r.gateway, "the gateway has no policy routing (gateway " + r.gateway + "). The rule is carried over turned off, because its traffic would leave another way"},
		{r.schedule, "the gateway has no schedules (" + r.schedule + "). The rule is carried over turned off"},
	} {
		if x.text != "" {
			c.note(r.element, called, "%s", x.why)
			on = false
		}
	}
	if r.direction == "any" {
		c.note(r.element, called, "the gateway filters traffic where it comes in. The rule is not for traffic that leaves")
	}
	if t := r.get("icmptype"); t != "" {
		c.note(r.element, called, "the gateway has no rules for types of ICMP (%s). The rule is for all of them", t)
	}
	if src.zone != "" { // the network of an interface whose address is leased
		zones = []string{src.zone}
	}
	for _, zone := range zones {
		wish := called
		if len(zones) > 1 {
			wish += " (" + zone + ")"
		}
		to := cmp.Or(dst.zone, "any")
		if dst.self {
			to = "self"
		}
		row := importer.Fields("name", c.doc.Name("firewall.rule", wish), "src_zone", importer.Unless(zone, "any"))
		row = append(row, src.fields("src")...)
		row = append(row, importer.Fields("dst_zone", importer.Unless(to, "any"))...)
		row = append(row, dst.fields("dst")...)
		c.doc.Add("firewall.rule", append(row, importer.Fields("service_object_id", importer.Unless(object, ""), "service_group_id", importer.Unless(group, ""),
			"action", action, "log", importer.Unless(r.log, false), "enabled", importer.Unless(on, true))...))
	}
}

func (s side) fields(name string) importer.Row {
	return importer.Fields(name+"_kind", importer.Unless(s.kind, "any"), name+"_object_id", importer.Unless(s.object, ""), name+"_group_id", importer.Unless(s.group, ""),
		name+"_cidr", importer.Unless(s.cidr, ""))
}

// narrow keeps a rule for one family from matching the other: an unrestricted side becomes all addresses of the family.
func narrow(src, dst *side, family string) {
	everything := map[string]string{"inet": "0.0.0.0/0", "inet6": "::/0"}[family]
	if everything == "" {
		return
	}
	for _, s := range []*side{src, dst} {
		if s.kind == "any" {
			s.kind, s.cidr = "cidr", everything
			return
		}
	}
}

// zonesOf returns the zones of interfaces and groups of interfaces; no interface stands for all.
func (c *conversion) zonesOf(keys []string) (zones []string, why string) {
	if len(keys) == 0 || slices.Contains(keys, "any") {
		return []string{"any"}, ""
	}
	for _, key := range keys {
		found := false
		if i := c.byKey(key); i != nil {
			zones, found = append(zones, i.zone), true
		}
		for _, g := range c.root.all("ifgroups", "ifgroupentry") {
			g.pass("descr", "nogroup", "sequence")
			if g.get("ifname") != key {
				continue
			}
			for _, member := range list(g.get("members")) {
				if i := c.byKey(member); i != nil {
					zones, found = append(zones, i.zone), true
				}
			}
		}
		if key == "wireguard" {
			zones, found = append(zones, c.tunnelZones()...), true
		}
		if !found {
			return nil, fmt.Sprintf("the gateway does not have its interface %s", key)
		}
	}
	slices.Sort(zones)
	if zones = slices.Compact(zones); len(zones) == 0 {
		return nil, "the gateway has none of its interfaces"
	}
	return zones, ""
}

// side converts an endpoint. A rule that cannot be carried over exactly must not become wider, so anything unclear is refused.
func (c *conversion) side(e endpoint, family string) (s side, why string) {
	if e.net == "any" || e.net == "" {
		if e.not {
			return s, "nothing is not everything"
		}
		return side{kind: "any"}, ""
	}
	names := list(e.net)
	if len(names) == 1 && !e.not {
		if s, ok := c.named(names[0], family); ok {
			return s, ""
		}
	}
	if i, ok := strings.CutSuffix(e.net, "ip"); ok && c.byKey(i) != nil && !e.not {
		s.self = true
	}
	var places []place
	for _, name := range names {
		found, why := c.placesOf(name, family)
		if why != "" {
			return s, why
		}
		places = append(places, found...)
	}
	places = distinct(places)
	called := strings.Join(names, ", ")
	if a := c.aliases[e.net]; a != nil && len(places) != len(a.places) {
		called += map[string]string{"inet": " (IPv4)", "inet6": " (IPv6)"}[family]
	}
	if e.not {
		rest, ok := complement(places, family)
		if !ok {
			return s, "all but " + called + " is not known, because host names are in it"
		}
		return side{kind: "group", group: c.group("not "+called, "All addresses but those of "+called+".", rest)}, ""
	}
	if len(places) == 0 {
		return s, called + " has no addresses of this family"
	}
	if len(places) > 1 {
		s.kind, s.group = "group", c.group(called, "", places)
		return s, ""
	}
	switch p := places[0]; p.kind {
	case "host", "network":
		s.kind, s.cidr = "cidr", value.Must[value.Prefix](p.value).String()
	default:
		s.kind, s.object = "object", c.object(p)
	}
	return s, ""
}

// named returns the side for names other than plain addresses, and for aliases in the document.
func (c *conversion) named(name, family string) (side, bool) {
	if name == "(self)" {
		return side{kind: "any", self: true}, true
	}
	if a := c.aliases[name]; a != nil && a.bad == "" && !a.ports && len(only(a.places, family)) == len(a.places) {
		if a.object != "" {
			return side{kind: "object", object: a.object}, true
		}
		return side{kind: "group", group: a.group}, true
	}
	if i := c.byKey(name); i != nil && len(i.addresses) == 0 {
		return side{kind: "any", zone: i.zone}, true // its addresses are leased: what comes from it, or leaves by it
	}
	if i := c.byKey(strings.TrimSuffix(name, "ip")); i != nil && strings.HasSuffix(name, "ip") && len(i.addresses) == 0 {
		return side{kind: "any", self: true}, true
	}
	return side{}, false
}

// placesOf returns the addresses that a name stands for.
func (c *conversion) placesOf(name, family string) ([]place, string) {
	if i := c.byKey(name); i != nil {
		if len(i.addresses) == 0 {
			return nil, "the addresses of " + i.descr + " are not in the file"
		}
		return i.places(family), ""
	}
	if i := c.byKey(strings.TrimSuffix(name, "ip")); i != nil && strings.HasSuffix(name, "ip") {
		var list []place
		for _, a := range i.addresses {
			if family == "inet46" || a.Addr().Is4() == (family == "inet") {
				list = append(list, place{"host", a.Addr().String()})
			}
		}
		return list, ""
	}
	if a := c.aliases[name]; a != nil {
		if a.bad != "" || a.ports {
			return nil, "the alias " + name + " was not carried over"
		}
		return only(a.places, family), ""
	}
	p, ok := readPlace(name)
	if !ok {
		return nil, name + " is neither an address nor an alias of the file"
	}
	return []place{p}, ""
}

// only returns the places of a family: a rule for one must not match addresses of the other. Names may have both.
func only(places []place, family string) (list []place) {
	for _, p := range places {
		first, _, known := p.bounds()
		if !known || family == "inet46" || first.Is4() == (family == "inet") {
			list = append(list, p)
		}
	}
	return list
}

// portsOf returns the ports of a rule; none stands for all.
func (c *conversion) portsOf(text string) (numbers []ports, why string) {
	for _, item := range list(text) {
		if item == "any" {
			return nil, ""
		}
		if a := c.aliases[item]; a != nil {
			if a.bad != "" || !a.ports {
				return nil, "the alias " + item + " was not carried over"
			}
			numbers = append(numbers, a.numbers...)
			continue
		}
		p, ok := readPorts(item)
		if !ok {
			return nil, item + " is neither a port nor an alias of the file"
		}
		numbers = append(numbers, p)
	}
	slices.SortFunc(numbers, func(a, b ports) int { return cmp.Or(a.first-b.first, a.last-b.last) })
	return slices.Compact(numbers), ""
}
