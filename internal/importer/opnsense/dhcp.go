package opnsense

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/importer"
	"edge.internal/gateway/internal/kit/value"
)

// subnet is a network with DHCP.
type subnet struct {
	*element
	called           string
	at               *iface
	network          netip.Prefix
	from, to         string
	gateway, domain  string
	resolvers, times []string
	lease            int
	on               bool
}

// readDHCP reads both of OPNsense's servers.
func (c *conversion) readDHCP() {
	var subnets []*subnet
	reservations := map[*subnet][]*element{}
	if all := c.root.at("dhcpd"); all != nil {
		for _, e := range all.children {
			e.claimed = true
			if s := c.readISC(e); s != nil {
				subnets = append(subnets, s)
				reservations[s] = e.all("staticmap")
			}
		}
	}
	kea, byUUID := c.readKea()
	subnets = append(subnets, kea...)
	for _, e := range c.root.all("OPNsense", "Kea", "dhcp4", "reservations", "reservation") {
		if s := byUUID[e.get("subnet")]; s != nil {
			reservations[s] = append(reservations[s], e)
		} else {
			c.drop(e, e.get("ip_address"), "its subnet was not carried over")
		}
	}
	longest, any := 0, false
	taken := map[*iface]bool{}
	var carried []*subnet
	for _, s := range subnets {
		if why := c.check(s, taken[s.at]); why != "" {
			c.drop(s.element, s.called, "%s", why)
			for _, e := range reservations[s] {
				e.whole()
			}
			continue
		}
		taken[s.at] = taken[s.at] || s.on
		longest, any = max(longest, s.lease), any || s.on
		carried = append(carried, s)
	}
	if len(carried) == 0 {
		return
	}
	const usual = 86400
	c.doc.Set("dhcp.settings", importer.Fields("enabled", any, "max_lease_seconds", importer.Unless(max(longest, usual), usual)))
	for _, s := range carried {
		c.doc.Add("dhcp.subnet", importer.Fields("interface", c.device(s.at.device), "cidr", s.network.String(), "range_start", s.from, "range_end", s.to, "gateway", importer.Unless(s.gateway, ""),
			"dns_servers", some(s.resolvers), "ntp_servers", some(s.times), "domain_name", importer.Unless(s.domain, ""), "lease_seconds", importer.Unless(s.lease, 0), "active", importer.Unless(s.on, true)))
	}
	for _, s := range carried {
		c.writeReservations(s, reservations[s])
	}
}

// some returns a list, or nil if it is empty.
func some(list []string) any {
	if len(list) == 0 {
		return nil
	}
	return list
}

// v4 returns the distinct IPv4 addresses of a list.
func v4(texts []string) (list []string) {
	seen := map[string]bool{}
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil && a.Is4() && !a.IsUnspecified() && !a.IsMulticast() && !seen[text] {
			seen[text] = true
			list = append(list, text)
		}
	}
	return list
}

func texts(all []*element) (list []string) {
	for _, e := range all {
		list = append(list, e.text)
	}
	return list
}

// readISC reads an interface's settings of the older server.
func (c *conversion) readISC(e *element) *subnet {
	if e.name == "v4" || !e.says() {
		return nil
	}
	s := &subnet{element: e, called: e.name, at: c.byKey(e.name), from: e.get("range", "from"), to: e.get("range", "to"), gateway: e.get("gateway"), domain: e.get("domain"), on: e.yes("enable")}
	s.resolvers, s.times = v4(texts(e.all("dnsserver"))), v4(texts(e.all("ntpserver")))
	s.lease, _ = strconv.Atoi(cmp.Or(e.get("defaultleasetime"), e.get("maxleasetime")))
	e.pass("ddnsdomainalgorithm", "numberoptions", "ddnsdomainprimary", "maxleasetime")
	if s.at == nil {
		return s
	}
	own, ok := s.at.v4()
	if !ok {
		return s
	}
	s.network = own.Masked()
	// The default is the gateway itself.
	if s.gateway == "" {
		s.gateway = own.Addr().String()
	} else if s.gateway == "none" {
		s.gateway = ""
	}
	if len(s.resolvers) == 0 {
		s.resolvers = []string{own.Addr().String()}
	}
	s.domain = cmp.Or(s.domain, c.root.get("system", "domain"))
	return s
}

// v4 returns the first IPv4 address of an interface.
func (i *iface) v4() (netip.Prefix, bool) {
	for _, a := range i.addresses {
		if a.Addr().Is4() {
			return a, true
		}
	}
	return netip.Prefix{}, false
}

// readKea reads the subnets of the newer server, and returns them also by id.
func (c *conversion) readKea() (all []*subnet, byUUID map[string]*subnet) {
	byUUID = map[string]*subnet{}
	server := c.root.at("OPNsense", "Kea", "dhcp4")
	if server == nil {
		return nil, byUUID
	}
	on := server.yes("general", "enabled")
	lease, _ := strconv.Atoi(server.get("general", "valid_lifetime"))
	enabled := list(server.get("general", "interfaces"))
	if g := server.at("general"); g != nil {
		g.pass("fwrules", "dhcp_socket_type", "manual_config")
	}
	for _, e := range server.all("subnets", "subnet4") {
		e.pass("description", "match-client-id", "match_client_id", "option_data_autocollect")
		s := &subnet{element: e, called: e.get("subnet"), lease: lease, gateway: e.get("option_data", "routers"), domain: e.get("option_data", "domain_name")}
		s.resolvers, s.times = v4(list(e.get("option_data", "domain_name_servers"))), v4(list(e.get("option_data", "ntp_servers")))
		byUUID[e.uuid] = s
		all = append(all, s)
		network, err := netip.ParsePrefix(s.called)
		if err != nil {
			continue
		}
		s.network = network.Masked()
		for _, i := range c.interfaces {
			if own, ok := i.v4(); ok && own.Masked() == s.network {
				s.at, s.on = i, on
				for _, key := range enabled {
					s.on = on && (key == i.key || s.on && len(enabled) == 0)
					if s.on {
						break
					}
				}
				if e.yes("option_data_autocollect") { // as in Kea, the default is the gateway itself
					s.gateway = cmp.Or(s.gateway, own.Addr().String())
					if len(s.resolvers) == 0 {
						s.resolvers = []string{own.Addr().String()}
					}
				}
			}
		}
		pools := list(strings.ReplaceAll(e.get("pools"), " ", ""))
		if len(pools) > 0 {
			from, to, ranged := strings.Cut(pools[0], "-")
			if p, err := netip.ParsePrefix(from); err == nil && !ranged && p.Addr().Is4() && p.Bits() < 31 {
				from, to = p.Masked().Addr().Next().String(), value.Last(p.Masked()).Prev().String()
			}
			s.from, s.to = from, to
		}
		if len(pools) > 1 {
			c.note(e, s.called, "a subnet of the gateway has one range. %s is used", pools[0])
		}
	}
	return all, byUUID
}

// check returns why a subnet cannot be carried over. It removes invalid optional settings.
func (c *conversion) check(s *subnet, taken bool) string {
	inside := func(text string) (netip.Addr, bool) {
		a, err := netip.ParseAddr(text)
		return a, err == nil && s.network.Contains(a) && a != s.network.Addr() && a != value.Last(s.network)
	}
	switch {
	case s.at == nil || !s.at.carried:
		return "the gateway does not have an interface with this network"
	case !s.network.IsValid() || !s.network.Addr().Is4() || s.network.Bits() < 8 || s.network.Bits() > 30:
		return "the interface has no static IPv4 network from /8 to /30"
	case s.at.zone == "wan":
		return "the gateway hands out no addresses on an interface of the zone wan"
	case taken && s.on:
		return "an interface of the gateway has one subnet that is on"
	}
	first, ok1 := inside(s.from)
	last, ok2 := inside(s.to)
	if !ok1 || !ok2 || last.Less(first) {
		return "its range is missing, or not in the network"
	}
	for _, a := range slices.SortedFunc(maps.Keys(c.own), netip.Addr.Compare) {
		if !a.Less(first) && !last.Less(a) {
			return "the range contains " + a.String() + ", an address of the gateway"
		}
	}
	if a, ok := inside(s.gateway); s.gateway != "" && (!ok || !a.Less(first) && !last.Less(a)) {
		c.note(s.element, s.called, "the default gateway %s is not in the network, or in the range. None is sent", s.gateway)
		s.gateway = ""
	}
	if s.lease != 0 && (s.lease < 60 || s.lease > 31536000) {
		s.lease = 0
	}
	if s.domain != "" && !hostName(s.domain) {
		c.note(s.element, s.called, "the domain %s is not a host name", s.domain)
		s.domain = ""
	}
	return ""
}

// hostName reports whether DHCP can send a name.
func hostName(text string) bool {
	h, err := value.Parse[value.Host](text)
	_, ip := netip.ParseAddr(text)
	return err == nil && ip != nil && !strings.Contains(h.String(), "_")
}

// writeReservations adds the fixed addresses of a subnet.
func (c *conversion) writeReservations(s *subnet, all []*element) {
	taken := map[string]bool{}
	for _, e := range all {
		e.pass("descr", "description", "ddnsdomainalgorithm", "winsserver", "dnsserver", "ntpserver", "cid")
		mac, ip, hostname := strings.ToLower(cmp.Or(e.get("mac"), e.get("hw_address"))), cmp.Or(e.get("ipaddr"), e.get("ip_address")), e.get("hostname")
		called := cmp.Or(hostname, mac)
		a, err := netip.ParseAddr(ip)
		switch {
		case err != nil || !s.network.Contains(a) || a == s.network.Addr() || a == value.Last(s.network):
			c.drop(e, called, "it has no address in %s", s.network)
			continue
		case ip == s.gateway || c.own[a]:
			c.drop(e, called, "%s is the address of a gateway", ip)
			continue
		case mac == "" || taken[mac] || taken[ip]:
			c.drop(e, called, "it has no MAC address, or another reservation has the same address")
			continue
		}
		taken[mac], taken[ip] = true, true
		if hostname != "" && !hostName(hostname) {
			c.note(e, called, "the host name is not one that DHCP can send")
			hostname = ""
		}
		c.doc.Add("dhcp.reservation", importer.Fields("subnet_id", s.network.String(), "mac", mac, "ip", ip, "hostname", importer.Unless(strings.ToLower(hostname), "")))
	}
}
