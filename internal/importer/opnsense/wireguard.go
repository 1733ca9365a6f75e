package opnsense

import (
	"cmp"
	"encoding/base64"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"edge.internal/gateway/internal/importer"
	"edge.internal/gateway/internal/kit/value"
)

func (c *conversion) tunnels() []*element {
	return c.root.all("OPNsense", "wireguard", "server", "servers", "server")
}

// tunnelDevice returns the interface name of a tunnel.
func tunnelDevice(e *element) string { return "wg" + cmp.Or(e.get("instance"), "0") }

// tunnelZones returns the zones of all tunnels: OPNsense's rules can be for all of them at once.
func (c *conversion) tunnelZones() (zones []string) {
	for _, e := range c.tunnels() {
		zones = append(zones, c.tunnelZone(tunnelDevice(e)))
	}
	return zones
}

// tunnelZone returns the zone of a tunnel. Tunnels without an interface in OPNsense share one.
func (c *conversion) tunnelZone(device string) string {
	if i := c.byDevice(device); i != nil {
		return i.zone
	}
	const shared = "wireguard"
	if !c.zones[shared] {
		c.zone(shared, "Tunnels without an interface of their own in OPNsense.")
	}
	return shared
}

func key(text string) bool {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	return err == nil && len(b) == 32 && [32]byte(b) != [32]byte{}
}

// readWireGuard reads tunnels with their peers, including the keys, which the file has in plain text.
func (c *conversion) readWireGuard() {
	peers := map[string]*element{}
	used := map[string]bool{}
	for _, e := range c.root.all("OPNsense", "wireguard", "client", "clients", "client") {
		peers[e.uuid] = e
	}
	c.root.all("OPNsense", "wireguard", "general", "enabled")
	taken := map[string]bool{}
	var rows []importer.Row
	for _, e := range c.tunnels() {
		e.pass("pubkey", "carp_depend_on", "debug", "endpoint")
		called, device := e.get("name"), tunnelDevice(e)
		if _, err := value.Parse[value.IfName](device); err != nil || taken[device] {
			c.drop(e, called, "%s is not a name that an interface can have, or it is taken", device)
			continue
		}
		addresses := tunnelAddresses(e.get("tunneladdress"))
		if len(addresses) == 0 {
			c.drop(e, called, "it has no address in the tunnel")
			continue
		}
		taken[device] = true
		if e.yes("disableroutes") {
			c.note(e, called, "the gateway routes the networks of peers into the tunnel. Narrow their allowed IPs instead (disableroutes)")
		}
		if g := e.get("gateway"); g != "" {
			c.note(e, called, "the gateway has no next hop %s for a tunnel", g)
		}
		var private any
		if k := e.get("privkey"); key(k) {
			private, c.doc.Secret = k, true
		} else {
			c.note(e, called, "it has no private key. The gateway generates one, and peers need its public key")
		}
		port, _ := strconv.Atoi(e.get("port"))
		mtu, _ := strconv.Atoi(e.get("mtu"))
		if mtu < 1280 || mtu > 9000 {
			mtu = 0
		}
		var resolvers []string
		for _, text := range list(e.get("dns")) {
			if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
				resolvers = append(resolvers, text)
			}
		}
		c.doc.Add("tunnel.interface", importer.Fields("name", device, "mode", "server", "address_cidr", joined(addresses), "listen_port", importer.Unless(min(max(port, 0), 65535), 0),
			"dns", importer.Unless(strings.Join(resolvers, ","), ""), "mtu", importer.Unless(mtu, 0), "private_key", private, "active", importer.Unless(e.yes("enabled"), true)))
		if c.byDevice(device) == nil {
			c.doc.Add("network.interface", importer.Fields("name", device, "type", "wireguard", "role", c.tunnelZone(device), "description", importer.Unless(called, "")))
		}
		for _, uuid := range list(e.get("peers")) {
			if p := peers[uuid]; p != nil {
				used[uuid] = true
				if row := c.peer(device, p, addresses); row != nil {
					rows = append(rows, row)
				}
			}
		}
	}
	for _, row := range rows {
		c.doc.Add("tunnel.peer", row)
	}
	for uuid, e := range peers {
		if !used[uuid] {
			c.drop(e, e.get("name"), "no tunnel has this peer")
		}
	}
}

// tunnelAddresses returns the addresses of a tunnel, one per network.
func tunnelAddresses(text string) (addresses []netip.Prefix) {
	for _, item := range list(text) {
		p, err := netip.ParsePrefix(item)
		a := p.Addr()
		edge := a.Is4() && p.Bits() < 31 && p.Bits() > 0 && (a == p.Masked().Addr() || a == value.Last(p.Masked()))
		if err != nil || a.Is4In6() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || p.Bits() == 0 || edge {
			continue
		}
		if !slices.ContainsFunc(addresses, p.Overlaps) {
			addresses = append(addresses, p)
		}
	}
	return addresses
}

func joined(list []netip.Prefix) string {
	var texts []string
	for _, p := range list {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ",")
}

// peer reads a peer of a tunnel.
func (c *conversion) peer(device string, e *element, own []netip.Prefix) importer.Row {
	called := e.get("name")
	var allowed []string
	for _, item := range list(e.get("tunneladdress")) {
		p, err := value.Parse[value.Prefix](item)
		if err != nil {
			c.note(e, called, "%s is not a network", item)
			continue
		}
		for _, o := range own {
			if a := o.Addr(); p.Netip() == netip.PrefixFrom(a, a.BitLen()) {
				c.drop(e, called, "%s is the address of the gateway itself", item)
				return nil
			}
		}
		allowed = append(allowed, p.String())
	}
	switch {
	case !key(e.get("pubkey")):
		c.drop(e, called, "it has no public key")
		return nil
	case len(allowed) == 0:
		c.drop(e, called, "it has no allowed IPs")
		return nil
	}
	var shared any
	if k := e.get("psk"); k != "" {
		if key(k) {
			shared, c.doc.Secret = k, true
		} else {
			c.drop(e, called, "its preshared key is not a key")
			return nil
		}
	}
	endpoint := ""
	if host := e.get("serveraddress"); host != "" {
		if _, err := value.Parse[value.Host](host); err != nil {
			c.note(e, called, "the endpoint %s is not a host", host)
		} else {
			endpoint = net.JoinHostPort(host, cmp.Or(e.get("serverport"), "51820"))
		}
	}
	e.pass("serverport", "keepalive", "enabled")
	keepalive, _ := strconv.Atoi(e.get("keepalive"))
	return importer.Fields("interface_id", device, "name", c.doc.Name("tunnel.peer "+device, cmp.Or(called, "peer")), "public_key", e.get("pubkey"), "preshared_key", shared,
		"allowed_ips", strings.Join(allowed, ","), "endpoint", importer.Unless(endpoint, ""), "keepalive", importer.Unless(min(max(keepalive, 0), 65535), 0), "active", importer.Unless(e.yes("enabled"), true))
}
