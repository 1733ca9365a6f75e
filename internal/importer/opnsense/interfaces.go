package opnsense

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/importer"
	"edge.internal/gateway/internal/kit/value"
)

// iface is an interface of the file: a key such as opt1, and its device.
type iface struct {
	*element
	key, device, zone, descr string
	// addresses lists the static addresses, with their networks.
	addresses []netip.Prefix
	// outside means that it leads to a gateway, so its outgoing traffic is masqueraded.
	outside bool
	// carried means that the gateway has such an interface.
	carried, on bool
}

// network returns its network of a family, if any.
func (i *iface) network(v4 bool) (netip.Prefix, bool) {
	for _, a := range i.addresses {
		if a.Addr().Is4() == v4 {
			return a.Masked(), true
		}
	}
	return netip.Prefix{}, false
}

// gateway is a next hop of the file.
type gateway struct {
	*element
	address  netip.Addr
	via      *iface
	standard bool
	priority int
}

// The built-in zones.
var builtin = []string{"wan", "lan", "dmz", "mgmt", "cluster"}

var notZone = regexp.MustCompile(`[^a-z0-9_-]+`)

// zone derives a zone from the description of an interface.
func (c *conversion) zone(wish, description string) string {
	name := strings.Trim(notZone.ReplaceAllString(strings.ToLower(wish), "-"), "-_")
	if name == "" || name[0] < 'a' || name[0] > 'z' || name == "any" || name == "self" {
		name = "zone-" + name
	}
	if len(name) > 28 {
		name = name[:28]
	}
	unique := strings.Trim(name, "-_")
	for n := 2; c.zones[unique]; n++ {
		unique = name + "-" + strconv.Itoa(n)
	}
	c.zones[unique] = true
	if !slices.Contains(builtin, unique) {
		c.doc.Add("firewall.zone", importer.Fields("name", unique, "description", description))
	}
	return unique
}

func (c *conversion) byKey(key string) *iface {
	i := slices.IndexFunc(c.interfaces, func(i *iface) bool { return i.key == key })
	if i < 0 {
		return nil
	}
	return c.interfaces[i]
}

// device returns the gateway's name of a device.
func (c *conversion) device(name string) string {
	return cmp.Or(c.devices[name], name)
}

// foreign matches devices that the gateway does not have.
var foreign = regexp.MustCompile(`^(pppoe|ppp|l2tp|pptp|ovpn|tun|tap|gif|gre|enc|ipsec|lo|stf|vxlan|wan_stf)`)

// readInterfaces reads interfaces with their addresses, and routes.
func (c *conversion) readInterfaces() {
	if all := c.root.at("interfaces"); all != nil {
		for _, e := range all.children {
			e.claimed = true
			i := &iface{element: e, key: e.name, device: e.get("if"), on: e.yes("enable")}
			i.descr = cmp.Or(e.get("descr"), strings.ToUpper(i.key))
			e.pass("internal_dynamic", "virtual", "lock", "networks", "alias-subnet", "alias-address", "spoofmac")
			if e.get("type") == "group" || i.key == "lo0" {
				e.whole()
				continue // the groups of OpenVPN and WireGuard, and the loopback interface
			}
			c.interfaces = append(c.interfaces, i)
		}
	}
	// Built-in names go first to the interfaces that have them in the file.
	slices.SortStableFunc(c.interfaces, func(a, b *iface) int { return cmp.Compare(rank(a.key), rank(b.key)) })
	for _, i := range c.interfaces {
		wish := i.descr
		if i.key == "wan" || i.key == "lan" {
			wish = i.key
		}
		i.zone = c.zone(wish, "Interface "+i.descr+" of OPNsense.")
	}
	c.writeInterfaces()
	for _, e := range c.tunnels() {
		if i := c.byDevice(tunnelDevice(e)); i != nil {
			i.addresses = tunnelAddresses(e.get("tunneladdress")) // they belong to the tunnel
		}
	}
	for _, i := range c.interfaces {
		c.readAddresses(i)
	}
	c.readVirtual()
	c.readGateways()
}

func rank(key string) int {
	switch key {
	case "wan":
		return 0
	case "lan":
		return 1
	}
	return 2
}

// link is a device that other devices are built on.
type link struct {
	*element
	kind   string
	fields importer.Row
	needs  []string
}

// The modes of a lagg, as modes of a bond.
var bondModes = map[string]string{"lacp": "802.3ad", "failover": "active-backup", "fec": "balance-xor", "loadbalance": "balance-xor", "roundrobin": "balance-rr"}

// readLinks reads VLANs, bonds and bridges, by the names of their devices.
func (c *conversion) readLinks() map[string]*link {
	links := map[string]*link{}
	for _, e := range c.root.all("vlans", "vlan") {
		e.pass("descr", "proto")
		parent, tag := c.device(e.get("if")), e.get("tag")
		id, err := strconv.Atoi(tag)
		if err != nil || id < 1 || id > 4094 {
			c.drop(e, e.get("vlanif"), "the VLAN ID %q is not a number from 1 to 4094", tag)
			continue
		}
		if pcp := e.get("pcp"); pcp != "" && pcp != "0" {
			c.note(e, e.get("vlanif"), "the gateway sets no priority (PCP) for a VLAN")
		}
		links[e.get("vlanif")] = &link{element: e, kind: "vlan", fields: importer.Fields("parent", parent, "vlan_id", id), needs: []string{parent}}
	}
	for _, e := range c.root.all("laggs", "lagg") {
		e.pass("descr", "lacp_fast_timeout", "use_flowid", "lagghash", "lacp_strict")
		var members []string
		for _, m := range list(e.get("members")) {
			members = append(members, c.device(m))
		}
		mode := bondModes[e.get("proto")]
		if mode == "" {
			c.note(e, e.get("laggif"), "the gateway has no bond of the kind %q. active-backup is used", e.get("proto"))
			mode = "active-backup"
		}
		links[e.get("laggif")] = &link{element: e, kind: "bond", fields: importer.Fields("members", members, "bond_mode", mode), needs: members}
	}
	for _, e := range c.root.all("bridges", "bridged") {
		e.pass("descr")
		var members []string
		for _, key := range list(e.get("members")) {
			if i := c.byKey(key); i != nil {
				members = append(members, c.device(i.device))
			}
		}
		links[e.get("bridgeif")] = &link{element: e, kind: "bridge", fields: importer.Fields("members", members), needs: members}
	}
	return links
}

// writeInterfaces adds the interfaces to the document, each after those that it is built on.
func (c *conversion) writeInterfaces() {
	links := c.readLinks()
	written, spare := map[string]bool{}, ""
	var write func(device string, i *iface, depth int)
	write = func(device string, i *iface, depth int) {
		name := c.device(device)
		if written[name] || depth > 8 {
			return
		}
		kind := "ethernet"
		var fields importer.Row
		if l := links[device]; l != nil {
			kind, fields = l.kind, l.fields
			for _, need := range l.needs {
				write(need, c.byDevice(need), depth+1)
			}
			if kind != "vlan" && len(l.needs) == 0 {
				c.drop(l.element, device, "the %s has no members that the gateway has", kind)
				return
			}
		} else if strings.HasPrefix(device, "wg") {
			kind = "wireguard"
		}
		if written[name] {
			return
		}
		written[name] = true
		zone, description, active, mtu := "", "", true, 0
		if i != nil {
			zone, description, active = i.zone, i.descr, i.on
			mtu, _ = strconv.Atoi(i.get("mtu"))
			i.carried = true
		} else {
			if spare == "" {
				spare = c.zone("unassigned", "Ports without a name in OPNsense: they carry VLANs, or are members of a bond or a bridge.")
			}
			zone = spare
		}
		row := append(importer.Fields("name", name, "type", kind, "role", zone), fields...)
		if mtu < 68 || mtu > 65535 {
			mtu = 0
		}
		c.doc.Add("network.interface", append(row, importer.Fields("mtu", importer.Unless(mtu, 0), "description", importer.Unless(description, ""), "active", importer.Unless(active, true))...))
	}
	for _, i := range c.interfaces {
		switch _, err := value.Parse[value.IfName](c.device(i.device)); {
		case foreign.MatchString(i.device):
			c.note(i.element, i.descr, "the gateway has no interface like %s. Its zone %s and its rules are carried over", i.device, i.zone)
		case err != nil:
			c.note(i.element, i.descr, "the name of the interface %q %v. Choose another with --interface", i.device, err)
		default:
			write(i.device, i, 0)
		}
	}
}

// byDevice returns the interface with a device, by its name in the gateway.
func (c *conversion) byDevice(device string) *iface {
	for _, i := range c.interfaces {
		if c.device(i.device) == device {
			return i
		}
	}
	return nil
}

// readAddresses reads the static addresses of an interface.
func (c *conversion) readAddresses(i *iface) {
	for _, family := range []struct{ address, length, gateway string }{{"ipaddr", "subnet", "gateway"}, {"ipaddrv6", "subnetv6", "gatewayv6"}} {
		text, length := i.get(family.address), i.get(family.length)
		i.outside = i.outside || i.get(family.gateway) != "" && family.gateway == "gateway"
		switch text {
		case "", "none":
			continue
		case "dhcp", "pppoe", "pptp", "l2tp", "ppp":
			i.outside = true
		}
		prefix, err := netip.ParsePrefix(text + "/" + length)
		if err != nil {
			c.note(i.at(family.address), i.descr, "the gateway does not manage addresses that are not static (%s). Let the system configure the interface", text)
			continue
		}
		if i.carried && c.address(i, prefix, "", false) {
			i.addresses = append(i.addresses, prefix)
		}
	}
	i.pass("dhcphostname", "alias-address", "alias-subnet", "dhcp6-ia-pd-len", "track6-interface", "track6-prefix-id", "gateway_interface", "media", "mediaopt", "mss")
}

// address adds an address to the document.
func (c *conversion) address(i *iface, p netip.Prefix, description string, virtual bool) bool {
	a := p.Addr()
	edge := a.Is4() && p.Bits() < 31 && (a == p.Masked().Addr() || a == value.Last(p.Masked()))
	if a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || p.Bits() == 0 || edge || c.own[a] {
		c.note(i.element, i.descr, "no interface can have the address %s, or another has it already", p)
		return false
	}
	c.own[a] = true
	c.doc.Add("network.ip-address", importer.Fields("interface_id", c.device(i.device), "address", p.Addr().String(), "prefix", p.Bits(), "is_vip", importer.Unless(virtual, false),
		"description", importer.Unless(description, "")))
	return true
}

func (c *conversion) readVirtual() {
	for _, e := range c.root.all("virtualip", "vip") {
		e.pass("type", "noexpand", "nobind", "gateway", "advbase", "advskew", "vhid", "password", "peer", "peer6", "nosync")
		text, mode := e.get("subnet"), e.get("mode")
		if text == "" {
			continue
		}
		i, descr := c.byKey(e.get("interface")), cmp.Or(e.get("descr"), text)
		p, err := netip.ParsePrefix(text + "/" + e.get("subnet_bits"))
		switch {
		case i == nil || !i.carried:
			c.drop(e, descr, "the gateway does not have its interface")
		case mode != "ipalias" && mode != "carp":
			c.drop(e, descr, "the gateway has no virtual addresses of the kind %s", mode)
		case err != nil:
			c.drop(e, descr, "%q is not an address with a prefix length", text)
		default:
			c.address(i, p, e.get("descr"), mode == "carp")
		}
	}
}

// readGateways reads next hops and the routes to them.
func (c *conversion) readGateways() {
	var defaults []*gateway
	items := append(c.root.all("gateways", "gateway_item"), c.root.all("OPNsense", "Gateways", "gateway_item")...)
	for _, e := range items {
		e.pass("descr", "ipprotocol", "weight", "interval", "monitor_disable", "monitor_noroute", "fargw", "monitor", "latencylow", "latencyhigh", "losslow", "losshigh", "time_period", "loss_interval", "data_length", "monitor_killstates", "monitor_killstates_priority")
		name := e.get("name")
		g := &gateway{element: e, via: c.byKey(e.get("interface")), standard: e.yes("defaultgw")}
		g.priority, _ = strconv.Atoi(e.get("priority"))
		off := e.yes("disabled")
		if g.via != nil && g.standard {
			g.via.outside = true
		}
		address, err := netip.ParseAddr(e.get("gateway"))
		if err != nil || off {
			if e.get("gateway") != "dynamic" && e.get("gateway") != "" || off {
				c.drop(e, name, "the gateway is off, or its address is not an IP address")
			}
			continue
		}
		g.address = address
		c.gateways[name] = g
		if g.standard {
			defaults = append(defaults, g)
		}
	}
	slices.SortStableFunc(defaults, func(a, b *gateway) int { return cmp.Compare(a.priority, b.priority) })
	metric := map[bool]int{}
	for _, g := range defaults {
		everywhere := "0.0.0.0/0"
		if g.address.Is6() {
			everywhere = "::/0"
		}
		c.route(everywhere, g, g.get("name"), true, metric[g.address.Is4()])
		metric[g.address.Is4()] += 10
	}
	for _, e := range c.root.all("staticroutes", "route") {
		network, name := e.get("network"), e.get("gateway")
		p, err := value.Parse[value.Prefix](network)
		g := c.gateways[name]
		switch {
		case err != nil:
			c.drop(e, network, "the destination %v", err)
		case g == nil:
			c.drop(e, network, "its next hop %s was not carried over", name)
		default:
			c.route(p.String(), g, e.get("descr"), !e.yes("disabled"), 0)
		}
	}
}

func (c *conversion) route(destination string, g *gateway, comment string, active bool, metric int) {
	var dev any
	if g.via != nil && g.via.carried {
		dev = c.device(g.via.device)
	}
	if c.own[g.address] || g.address.IsUnspecified() || g.address.IsLoopback() || g.address.IsMulticast() {
		c.note(g.element, g.get("name"), "the next hop %s is not the address of another router", g.address)
		return
	}
	c.doc.Add("network.route", importer.Fields("destination", destination, "gateway", g.address.String(), "dev", dev, "metric", importer.Unless(metric, 0),
		"active", importer.Unless(active, true), "comment", importer.Unless(comment, "")))
}
