package opnsense

import (
	"cmp"
	"net/netip"
	"strings"

	"edge.internal/gateway/internal/importer"
	"edge.internal/gateway/internal/kit/value"
)

// mostNAT is the maximum number of rules for one of OPNsense's: a rule of the gateway has one network on each side.
const mostNAT = 64

// readNAT reads port forwards and outbound NAT.
func (c *conversion) readNAT() {
	for _, e := range c.root.all("nat", "rule") {
		c.readForward(e)
	}
	for _, e := range append(c.root.all("nat", "onetoone", "rule"), c.root.all("nat", "onetoone")...) {
		if e.name == "rule" || len(e.children) > 0 && e.children[0].name != "rule" {
			c.drop(e, e.get("descr"), "the gateway has no one-to-one NAT. Use a port forward (DNAT) and a source NAT rule for each address")
		}
	}
	for _, e := range c.root.all("OPNsense", "Firewall", "Filter", "onetoone", "rule") {
		c.drop(e, e.get("description"), "the gateway has no one-to-one NAT. Use a port forward (DNAT) and a source NAT rule for each address")
	}
	mode := c.root.get("nat", "outbound", "mode")
	if mode == "" {
		mode = "automatic"
	}
	if mode == "hybrid" || mode == "advanced" {
		for _, e := range c.root.all("nat", "outbound", "rule") {
			e.pass("created", "updated", "category", "nosync", "staticnatport", "poolopts", "sourcehash_key", "source_hash_key", "id")
			c.readOutbound(e, "descr", e.yes("disabled"), oldEndpoint(e.at("source")), oldEndpoint(e.at("destination")), e.get("sourceport"), cmp.Or(e.get("dstport"), e.get("destination", "port")))
		}
		for _, e := range c.root.all("OPNsense", "Firewall", "Filter", "snatrules", "rule") {
			e.pass("categories", "sequence", "staticnatport")
			c.readOutbound(e, "description", !e.yes("enabled"), endpoint{e, e.get("source_net"), "", e.yes("source_not")},
				endpoint{e, e.get("destination_net"), "", e.yes("destination_not")}, e.get("source_port"), e.get("destination_port"))
		}
	} else if e := c.root.at("nat", "outbound"); e != nil {
		e.whole() // rules that are stored, but not applied
	}
	if mode == "automatic" || mode == "hybrid" {
		c.masquerade()
	}
}

// masquerade adds the rules that OPNsense adds automatically for traffic from the inside to the outside.
func (c *conversion) masquerade() {
	for _, out := range c.interfaces {
		if !out.outside {
			continue
		}
		for _, in := range c.interfaces {
			if n, ok := in.network(true); ok && !in.outside {
				c.doc.Add("firewall.nat-rule", importer.Fields("name", c.doc.Name("firewall.nat-rule", "Masquerade "+in.descr+" to "+out.descr), "kind", "masquerade",
					"out_zone", out.zone, "protocol", "any", "src_cidr", n.String()))
			}
		}
	}
}

// networksOf returns the networks on a side of a NAT rule; "" is any.
func (c *conversion) networksOf(e endpoint, family string) ([]string, string) {
	if e.net == "" || e.net == "any" {
		if e.not {
			return nil, "nothing is not everything"
		}
		return []string{""}, ""
	}
	if e.not {
		return nil, "NAT rules of the gateway have no conditions with not"
	}
	var networks []string
	for _, name := range list(e.net) {
		places, why := c.placesOf(name, family)
		if why != "" {
			return nil, why
		}
		for _, p := range places {
			if p.kind != "host" && p.kind != "network" {
				return nil, "NAT rules of the gateway are for addresses and networks, not for " + p.value
			}
			networks = append(networks, value.Must[value.Prefix](p.value).String())
		}
	}
	if len(networks) == 0 {
		return nil, e.net + " has no addresses of this family"
	}
	return networks, ""
}

var natProtocols = map[string]string{"": "any", "any": "any", "tcp": "tcp", "udp": "udp", "tcp/udp": "tcp+udp"}

// management reports whether a forward takes ports of the gateway's own management, which needs permission.
func management(protocol string, p ports) bool {
	covers := func(n int) bool { return p.first == 0 || p.first <= n && n <= p.last }
	return protocol != "udp" && covers(22) || covers(443)
}

// one returns the address of a name, if it has exactly one.
func (c *conversion) one(name, family string) (netip.Addr, bool) {
	places, why := c.placesOf(name, family)
	if why != "" || len(places) != 1 {
		return netip.Addr{}, false
	}
	first, last, ok := places[0].bounds()
	return first, ok && first == last && !first.IsUnspecified()
}

func (c *conversion) readForward(e *element) {
	e.pass("created", "updated", "category", "id", "nosync", "poolopts", "natreflection", "ipprotocol", "log")
	family := cmp.Or(e.get("ipprotocol"), "inet")
	called := cmp.Or(e.get("descr"), "port forward")
	bad := func(why string, args ...any) { c.drop(e, called, why, args...) }
	source, destination := oldEndpoint(e.at("source")), oldEndpoint(e.at("destination"))
	protocol, known := natProtocols[strings.ToLower(e.get("protocol"))]
	zones, why := c.zonesOf(list(e.get("interface")))
	target, found := c.one(e.get("target"), family)
	switch {
	case e.yes("nordr"):
		bad("the gateway has no rules that exempt from port forwards")
		return
	case !known:
		bad("port forwards of the gateway are for tcp and udp, not for %s", e.get("protocol"))
		return
	case why != "":
		bad("%s", why)
		return
	case !found:
		bad("the target %s is not one address", e.get("target"))
		return
	case source.port != "":
		bad("the gateway has no port forwards for source ports")
		return
	}
	sources, why := c.networksOf(source, family)
	if why != "" {
		bad("the source: %s", why)
		return
	}
	destinations, own, why := c.forwarded(destination, family)
	if why != "" {
		bad("the destination: %s", why)
		return
	}
	numbers, why := c.portsOf(destination.port)
	if why != "" {
		bad("the destination port: %s", why)
		return
	}
	if len(numbers) == 0 {
		numbers = []ports{{}}
	}
	local := e.get("local-port")
	start := ports{}
	if a := c.aliases[local]; a != nil && a.ports && local == destination.port {
		local = "" // the same ports as before
	}
	if local != "" && local != "any" {
		found, why := c.portsOf(local)
		if why != "" || len(found) != 1 || len(numbers) != 1 || numbers[0].first == 0 {
			bad("the target port %s is not one port, or it is not for one range of ports", local)
			return
		}
		start = found[0]
	}
	if len(zones)*len(sources)*len(destinations)*len(numbers) > mostNAT {
		bad("it would become more than %d rules", mostNAT)
		return
	}
	on := !e.yes("disabled")
	if associated := e.get("associated-rule-id"); associated == "" && on {
		c.note(e, called, "a port forward of the gateway accepts what it redirects. In OPNsense that was left to the firewall rules (no associated rule)")
	}
	for _, p := range numbers {
		if own && protocol != "" && on && management(protocol, p) {
			c.note(e, called, "it redirects ports that you may need to manage the gateway (tcp 22, 443). It is carried over turned off: set takes_management_ports to turn it on")
			on = false
		}
	}
	for _, zone := range zones {
		for _, src := range sources {
			for _, dst := range destinations {
				for _, p := range numbers {
					first, last := start.first, 0
					if first > 0 && p.last > p.first {
						if last = first + p.last - p.first; last > 65535 {
							bad("the target ports go beyond 65535")
							return
						}
					}
					if protocol == "any" {
						p = ports{}
					}
					c.doc.Add("firewall.nat-rule", importer.Fields("name", c.doc.Name("firewall.nat-rule", called), "kind", "dnat", "in_zone", importer.Unless(zone, "any"), "protocol", protocol,
						"src_cidr", importer.Unless(src, ""), "dst_cidr", importer.Unless(dst, ""), "dst_port", importer.Unless(p.first, 0), "dst_port_end", importer.Unless(p.last, p.first),
						"target_address", target.String(), "target_port", importer.Unless(first, 0), "target_port_end", importer.Unless(last, 0), "enabled", importer.Unless(on, true)))
				}
			}
		}
	}
}

// forwarded returns the destination networks of a port forward, and whether they include addresses of the gateway. No network stands for
// all addresses of the gateway, as for an interface with a leased address.
func (c *conversion) forwarded(e endpoint, family string) (list []string, own bool, why string) {
	key, address := strings.CutSuffix(e.net, "ip")
	i := c.byKey(key)
	switch {
	case e.net == "(self)" && !e.not, address && i != nil && len(i.addresses) == 0 && !e.not:
		return []string{""}, true, ""
	case (e.net == "any" || e.net == "") && !e.not:
		return []string{map[bool]string{true: "0.0.0.0/0", false: "::/0"}[family != "inet6"]}, true, ""
	}
	if list, why = c.networksOf(e, family); why != "" {
		return nil, false, why
	}
	for _, n := range list {
		for a := range c.own {
			own = own || value.Must[value.Prefix](n).Netip().Contains(a)
		}
	}
	return list, own, ""
}

// readOutbound reads a rule for outbound NAT.
func (c *conversion) readOutbound(e *element, descr string, off bool, source, destination endpoint, sourcePort, port string) {
	called := cmp.Or(e.get(descr), "outbound NAT")
	bad := func(why string, args ...any) { c.drop(e, called, why, args...) }
	family := cmp.Or(e.get("ipprotocol"), "inet")
	protocol, known := natProtocols[strings.ToLower(e.get("protocol"))]
	zones, why := c.zonesOf(list(e.get("interface")))
	e.pass("targetip_subnet", "log")
	switch {
	case e.yes("nonat"):
		bad("the gateway has no rules that exempt from NAT. Narrow the rules after it instead")
		return
	case !known:
		bad("NAT rules of the gateway are for tcp and udp, not for %s", e.get("protocol"))
		return
	case why != "":
		bad("%s", why)
		return
	case sourcePort != "" || e.get("natport") != "":
		bad("source NAT of the gateway has no conditions on source ports, and does not choose them")
		return
	}
	sources, why := c.networksOf(source, family)
	if why != "" {
		bad("the source: %s", why)
		return
	}
	destinations, why := c.networksOf(destination, family)
	if why != "" {
		bad("the destination: %s", why)
		return
	}
	numbers, why := c.portsOf(port)
	if why != "" || len(numbers) > 0 && protocol == "any" {
		bad("the destination port: %s", cmp.Or(why, "ports need tcp or udp"))
		return
	}
	if len(numbers) == 0 {
		numbers = []ports{{}}
	}
	kind, target := "masquerade", ""
	name := cmp.Or(e.get("targetip"), e.get("target"))
	if key, address := strings.CutSuffix(name, "ip"); name != "" && (!address || c.byKey(key) == nil) {
		a, found := c.one(name, family)
		if !found {
			bad("the target %s is not one address", name)
			return
		}
		kind, target = "snat", a.String()
	}
	if len(zones)*len(sources)*len(destinations)*len(numbers) > mostNAT {
		bad("it would become more than %d rules", mostNAT)
		return
	}
	for _, zone := range zones {
		for _, src := range sources {
			if src == "" && family == "inet" {
				src = "0.0.0.0/0"
			}
			for _, dst := range destinations {
				for _, p := range numbers {
					c.doc.Add("firewall.nat-rule", importer.Fields("name", c.doc.Name("firewall.nat-rule", called), "kind", kind, "out_zone", importer.Unless(zone, "any"), "protocol", protocol,
						"src_cidr", importer.Unless(src, ""), "dst_cidr", importer.Unless(dst, ""), "dst_port", importer.Unless(p.first, 0), "dst_port_end", importer.Unless(p.last, p.first),
						"target_address", importer.Unless(target, ""), "enabled", importer.Unless(!off, true)))
				}
			}
		}
	}
}
