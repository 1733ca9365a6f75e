package opnsense

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/importer"
	"edge.internal/gateway/internal/kit/value"
)

// names holds the records of the resolver, by zone.
type names struct {
	order   []string
	records map[string][]importer.Row
	forward map[string][]string
	seen    map[string]bool
}

func (n *names) zone(name string) {
	if _, known := n.records[name]; !known {
		n.order = append(n.order, name)
		n.records[name] = nil
	}
}

// readDNS reads the overrides of the resolver, in either of its forms.
func (c *conversion) readDNS() {
	n := &names{records: map[string][]importer.Row{}, forward: map[string][]string{}, seen: map[string]bool{}}
	hosts := map[string]*element{}
	for _, e := range append(c.root.all("OPNsense", "unboundplus", "hosts", "host"), c.root.all("unbound", "hosts")...) {
		if e.get("host") == "" && e.get("hostname") == "" && e.get("domain") == "" && !e.says() {
			continue
		}
		hosts[e.uuid] = e
		c.readHost(n, e, cmp.Or(e.get("hostname"), e.get("host")), e.get("domain"), e)
		for _, a := range e.all("aliases", "item") {
			c.readHost(n, a, a.get("host"), a.get("domain"), e)
		}
	}
	for _, e := range c.root.all("OPNsense", "unboundplus", "aliases", "alias") {
		e.pass("description")
		of := hosts[e.get("host")]
		if of == nil {
			c.drop(e, e.get("hostname"), "it is an alias of an override that does not exist")
			continue
		}
		if e.yes("enabled") {
			c.readHost(n, e, e.get("hostname"), e.get("domain"), of)
		} else {
			c.drop(e, e.get("hostname"), "it is off")
		}
	}
	upstream := c.readForwards(n)
	c.writeSettings(upstream)
	for _, zone := range n.order {
		c.doc.Add("dns.zone", importer.Fields("name", zone, "forward_to", some(n.forward[zone])))
	}
	for _, zone := range n.order {
		for _, row := range n.records[zone] {
			c.doc.Add("dns.record", row)
		}
	}
}

// zoneName returns a valid name of a zone.
func zoneName(text string) (string, bool) {
	h, err := value.Parse[value.Host](text)
	_, ip := netip.ParseAddr(text)
	return h.String(), err == nil && ip != nil && h.String() != "invalid" && !strings.HasSuffix(h.String(), ".invalid")
}

// readHost reads a name with its address or mail server.
func (c *conversion) readHost(n *names, e *element, host, domain string, of *element) {
	of.pass("description", "descr", "aliases", "mxprio", "mx", "addptr")
	called := strings.TrimPrefix(host+"."+domain, ".")
	if on := of.at("enabled"); on != nil && on.text == "0" {
		c.drop(e, called, "it is off")
		return
	}
	zone, ok := zoneName(domain)
	if name := strings.TrimPrefix(strings.TrimPrefix(host, "*"), "."); !ok || name != "" && !labels(name) {
		c.drop(e, called, "it is not the name of a host in a domain")
		return
	}
	kind, text := strings.ToUpper(cmp.Or(of.get("rr"), "A")), cmp.Or(of.get("server"), of.get("ip"))
	var priority any
	if kind, _, _ = strings.Cut(kind, " "); kind == "MX" {
		mail, ok := zoneName(of.get("mx"))
		number, err := strconv.ParseUint(cmp.Or(of.get("mxprio"), "10"), 10, 16)
		if !ok || err != nil {
			c.drop(e, called, "its mail server is not a host name with a priority")
			return
		}
		text, priority = mail+".", int(number) // as the gateway stores it
	} else {
		a, err := netip.ParseAddr(text)
		switch {
		case err != nil || kind != "A" && kind != "AAAA":
			c.drop(e, called, "the resolver of OPNsense has no such override of the type %s", kind)
			return
		case a.Is4():
			kind = "A"
		default:
			kind = "AAAA"
		}
	}
	name := cmp.Or(strings.ToLower(host), "@")
	base, wildcard := strings.CutPrefix(name, "*")
	base = cmp.Or(strings.TrimPrefix(base, "."), "@")
	opposite := zone + " " + base + " " + strconv.FormatBool(!wildcard)
	key := strings.Join([]string{zone, name, kind, text}, " ")
	switch {
	case n.seen[key]:
		return
	case n.seen[opposite]:
		c.drop(e, called, "a wildcard of the gateway also answers for its parent name, which has another override")
		return
	}
	n.seen[key], n.seen[zone+" "+base+" "+strconv.FormatBool(wildcard)] = true, true
	n.zone(zone)
	var ttl any
	if t, err := strconv.Atoi(of.get("ttl")); err == nil && t > 0 && t < 1<<31 {
		ttl = t
	}
	n.records[zone] = append(n.records[zone], importer.Fields("zone_id", zone, "name", name, "type", kind, "value", text, "ttl", ttl, "priority", priority))
}

// labels reports whether a text is a name within a zone.
func labels(text string) bool {
	_, err := value.Parse[value.Host](text + ".example")
	return err == nil
}

// readForwards reads the resolvers for particular domains. It returns those for everything else.
func (c *conversion) readForwards(n *names) (upstream []string) {
	lists := [][]*element{
		c.root.all("OPNsense", "unboundplus", "domains", "domain"), c.root.all("unbound", "domainoverrides"), c.root.all("OPNsense", "unboundplus", "dots", "dot"),
	}
	for _, all := range lists {
		for _, e := range all {
			e.pass("description", "descr", "verify", "forward_tcp_upstream", "forward_first")
			domain, server, port := e.get("domain"), cmp.Or(e.get("server"), e.get("ip")), e.get("port")
			if server == "" && domain == "" {
				continue
			}
			called := cmp.Or(domain, "all names")
			address, asked, marked := strings.Cut(server, "@")
			if marked {
				port = asked
			}
			a, err := netip.ParseAddr(address)
			number, _ := strconv.Atoi(cmp.Or(port, "53"))
			on := e.at("enabled")
			switch {
			case on != nil && on.text == "0":
				c.drop(e, called, "it is off")
				continue
			case e.get("type") == "dot":
				c.drop(e, called, "the resolver of the gateway has no DNS over TLS. Choose its upstreams in the DNS settings")
				continue
			case err != nil || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() || number < 1 || number > 65535:
				c.drop(e, called, "%s is not the address of a resolver", server)
				continue
			case a.IsLoopback() && number == 53 || c.own[a] && number == 53:
				c.drop(e, called, "%s is this resolver itself", server)
				continue
			}
			forward := a.String()
			if number != 53 {
				forward += "@" + strconv.Itoa(number)
			}
			if domain == "" || domain == "." {
				upstream = append(upstream, forward)
				continue
			}
			zone, ok := zoneName(domain)
			if !ok {
				c.drop(e, called, "it is not the name of a domain")
				continue
			}
			n.zone(zone)
			n.forward[zone] = append(n.forward[zone], forward)
		}
	}
	return upstream
}

// writeSettings makes the resolver answer internal networks, like OPNsense.
func (c *conversion) writeSettings(upstream []string) {
	general := c.root.at("OPNsense", "unboundplus", "general")
	on := general != nil && general.yes("enabled")
	if general == nil {
		general = c.root.at("unbound")
		on = general != nil && general.yes("enable")
	}
	if !on {
		return
	}
	general.pass("stats", "local_zone_type", "cacheflush", "regdhcp", "regdhcpdomain", "regdhcpstatic", "noreglladdr6", "noregrecords", "txtsupport", "enable_wpad", "outgoing_interface")
	if port := general.get("port"); port != "" && port != "53" {
		c.note(general, "", "the resolver of the gateway listens on port 53, not on %s", port)
	}
	if c.root.yes("OPNsense", "unboundplus", "forwarding", "enabled") || c.root.yes("unbound", "forwarding") {
		for _, e := range c.root.all("system", "dnsserver") {
			if a, err := netip.ParseAddr(e.text); err == nil && !a.IsLoopback() && !c.own[a] && a.Zone() == "" {
				upstream = append(upstream, a.String())
			}
		}
	}
	chosen := list(general.get("active_interface"))
	var listen, networks []string
	for _, i := range c.interfaces {
		if i.outside || len(chosen) > 0 && !slices.Contains(chosen, i.key) {
			continue
		}
		for _, a := range i.addresses {
			listen, networks = append(listen, a.Addr().String()), append(networks, a.Masked().String())
		}
	}
	if upstream == nil {
		upstream = []string{} // OPNsense asks the root servers then
	}
	c.doc.Set("dns.settings", importer.Fields("upstream_forwards", upstream, "access_acl", some(networks), "listen_addresses", some(listen), "dnssec_validation", general.yes("dnssec")))
}
