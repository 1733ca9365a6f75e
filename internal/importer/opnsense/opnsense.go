// Package opnsense converts OPNsense's config.xml into a configuration document: interfaces, addresses and routes, aliases, firewall and
// NAT rules, DHCP, overrides of the resolver, and WireGuard.
package opnsense

import (
	"context"
	"net/netip"
	"strings"

	"edge.internal/gateway/internal/importer"
)

// conversion is an import in progress.
type conversion struct {
	root   *element
	doc    importer.Document
	report importer.Report
	// devices maps the file's names of interfaces to the gateway's.
	devices    map[string]string
	interfaces []*iface
	own        map[netip.Addr]bool // the addresses of the gateway
	zones      map[string]bool
	aliases    map[string]*alias
	objects    map[string]string   // names of address objects by their content
	groups     map[string]string   // names of groups made for one rule, by their members
	services   map[string]string   // names of services and groups of services, by their content
	gateways   map[string]*gateway // by name
}

// Import reads a config.xml. devices maps the file's names of interfaces to those of this machine.
func Import(ctx context.Context, text []byte, devices map[string]string) (*importer.Document, *importer.Report, error) {
	root, err := parse(ctx, text)
	if err != nil {
		return nil, nil, err
	}
	c := &conversion{
		root: root, devices: devices, own: map[netip.Addr]bool{}, zones: map[string]bool{}, aliases: map[string]*alias{}, objects: map[string]string{}, groups: map[string]string{}, services: map[string]string{},
		gateways: map[string]*gateway{},
	}
	for _, read := range []func(){c.readInterfaces, c.readAliases, c.readRules, c.readNAT, c.readDHCP, c.readDNS, c.readWireGuard} {
		if err := context.Cause(ctx); err != nil {
			return nil, nil, err
		}
		read()
	}
	c.reportRest(root, "")
	return &c.doc, &c.report, nil
}

// note reports an element, with its description to help find it.
func (c *conversion) note(e *element, called, why string, args ...any) {
	what := "<" + e.name + ">"
	if called != "" {
		what += " " + called
	}
	c.report.Add(e.line, what, why, args...)
}

// drop reports an element of which nothing is carried over.
func (c *conversion) drop(e *element, called, why string, args ...any) {
	c.note(e, called, why, args...)
	e.whole()
}

// Why parts of the file are not carried over, by their path.
var reasons = map[string]string{
	"system":                       "set up host name, users, time zone and updates at the gateway",
	"system/dnsserver":             "set the resolvers in the DNS settings of the gateway",
	"cert":                         "upload certificates to the gateway, or let it order them (ACME)",
	"ca":                           "upload certificates to the gateway, or let it order them (ACME)",
	"sysctl":                       "the gateway sets the parameters of its kernel itself",
	"ipsec":                        "the gateway has WireGuard tunnels only",
	"OPNsense/IPsec":               "the gateway has WireGuard tunnels only",
	"OPNsense/Swanctl":             "the gateway has WireGuard tunnels only",
	"openvpn":                      "the gateway has WireGuard tunnels only",
	"OPNsense/OpenVPN":             "the gateway has WireGuard tunnels only",
	"hasync":                       "set up a cluster of gateways instead",
	"ntpd":                         "set the time sources in the NTP settings of the gateway",
	"snmpd":                        "the gateway has no SNMP. It has metrics for Prometheus",
	"dhcpdv6":                      "the DHCP server of the gateway is for IPv4 only",
	"OPNsense/Kea/dhcp6":           "the DHCP server of the gateway is for IPv4 only",
	"OPNsense/IDS":                 "the gateway uses CrowdSec for intrusion detection",
	"OPNsense/TrafficShaper":       "the gateway has no traffic shaping",
	"OPNsense/HAProxy":             "import the haproxy.cfg that OPNsense writes (gateway-ctl import haproxy)",
	"OPNsense/AcmeClient":          "the gateway orders certificates with its own ACME settings",
	"OPNsense/proxy":               "set up the forward proxy of the gateway",
	"OPNsense/unboundplus/dnsbl":   "the resolver of the gateway has no block lists",
	"OPNsense/Firewall/Filter/npt": "the gateway has no translation of IPv6 prefixes",
	"rrd":                          "the gateway keeps its own history",
	"revision":                     "",
	"version":                      "",
	"theme":                        "",
	"lastchange":                   "",
	"widgets":                      "",
	"trigger_initial_wizard":       "",
	"OPNsense/Firewall/Category":   "",
	"OPNsense/captiveportal":       "the gateway has no captive portal",
	"OPNsense/monit":               "use the alerts of the gateway instead",
	"OPNsense/cron":                "the gateway has its own scheduler",
	"OPNsense/Syslog":              "the gateway has its own log",
	"syslog":                       "the gateway has its own log",
}

// reportRest reports what was not claimed: the outermost elements without claimed content.
func (c *conversion) reportRest(e *element, path string) {
	for _, x := range e.children {
		at := strings.TrimPrefix(path+"/"+x.name, "/")
		if x.claimed {
			c.reportRest(x, at)
			continue
		}
		why, known := reason(at)
		if !x.says() || known && why == "" {
			continue
		}
		if at == "OPNsense" {
			c.reportRest(x, at) // a part for each of its services
			continue
		}
		if !known {
			why = "the gateway has no equivalent"
		}
		c.report.Add(x.line, "<"+at+">"+content(x), "%s", why)
	}
}

// reason returns why a part of the file, or its parent, is not carried over.
func reason(at string) (why string, known bool) {
	for known = false; !known && at != ""; {
		why, known = reasons[at]
		at = at[:max(0, strings.LastIndexByte(at, '/'))]
	}
	return why, known
}

// content returns the text of an element without children, truncated if it is long. Possible secrets are not shown.
func content(e *element) string {
	name := strings.ToLower(e.name)
	for _, secret := range []string{"key", "pass", "secret", "psk", "prv", "crt", "token"} {
		if strings.Contains(name, secret) {
			return ""
		}
	}
	text := []rune(strings.Join(strings.Fields(e.text), " "))
	if len(e.children) > 0 || len(text) == 0 {
		return ""
	}
	if len(text) > 60 {
		text = append(text[:60], '…')
	}
	return " " + string(text)
}
