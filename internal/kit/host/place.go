package host

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/value"
)

// Place is one file that the gateway writes on the machine: one of the list, or one of a family whose members have an id.
type Place string

// The places, by daemon.
const (
	ChronyMain   Place = "chrony.main"
	ChronyDropIn Place = "chrony.dropin"
	// RouteProtocols names the gateway's protocol for those who list routes.
	RouteProtocols Place = "iproute2.protocols"
	// NetworkState is what links, addresses and routes shall be, for people to read.
	NetworkState Place = "network.state"

	PacketFilterTable Place = "packet-filter.table" // the kernel's table as nft reads it
)

// The places of the gateway itself that are not its own to write.
const (
	// MasterKey is the key of the sealed secrets. A node that joins a cluster gets the cluster's.
	MasterKey Place = "gateway.master-key"
	// NodeFile says what the machine is in a cluster, for people and scripts.
	NodeFile Place = "gateway.node"
)

// The places of the resolver.
const (
	UnboundMain   Place = "unbound.main"
	UnboundDropIn Place = "unbound.dropin"
)

// The places of the forward proxy.
const (
	SquidMain   Place = "squid.main"
	SquidDropIn Place = "squid.dropin"
	// SquidAccessList is the part of the access list that squid asks the gateway's own judge about.
	SquidAccessList Place = "squid.acls"
)

// The places of the DHCP server.
const (
	KeaConfig Place = "kea.config"
)

// The places of the RADIUS server.
const (
	RadiusConfig  Place = "freeradius.config"
	RadiusClients Place = "freeradius.clients"
	RadiusUsers   Place = "freeradius.users"
)

// The places of intrusion detection. CrowdSec knows parsers and scenarios that are not of its hub by the names of their files, so that
// no two of these may have the same.
const (
	DetectionConfig    Place = "crowdsec.config"
	DetectionSources   Place = "crowdsec.acquis"    // which logs are read
	DetectionProfiles  Place = "crowdsec.profiles"  // what follows from an alert
	DetectionParsers   Place = "crowdsec.parsers"   // how the gateway's own logs are read
	DetectionAllowList Place = "crowdsec.allowlist" // who is never banned for what a log says
	DetectionScenarios Place = "crowdsec.scenarios" // what in the gateway's own logs is an attack
	DetectionBouncer   Place = "crowdsec.bouncer"   // how bans reach the kernel
)

// The places of the virtual addresses of a cluster.
const (
	VRRPConfig Place = "keepalived.config"
	// VRRPDrain is 1 while this node gives the virtual addresses to any other that can have them, and 0 otherwise.
	VRRPDrain Place = "keepalived.drain"
)

// The places of the reverse proxy. Paths in its configuration are relative to the folder of ProxyConfig, so that a staged copy
// of all of them can be checked.
const (
	ProxyConfig             Place = "haproxy.config"
	ProxyHosts              Place = "haproxy.map.hosts"
	ProxyWildcards          Place = "haproxy.map.wildcards"
	ProxyRoutes             Place = "haproxy.map.routes"
	ProxyHeaders            Place = "haproxy.map.headers"
	ProxySwitches           Place = "haproxy.map.switches"
	ProxyMaintenancePage    Place = "haproxy.page.maintenance"
	ProxyBlockedPage        Place = "haproxy.page.blocked"
	ProxyInspection         Place = "haproxy.inspection" // how it asks the web application firewall
	ProxyCertificateList    Place = "haproxy.certificates"
	ProxyManagementList     Place = "haproxy.management"
	ProxyDefaultCertificate Place = "haproxy.certificate.default"
)

// The places of PostgreSQL's server, where nodes of a cluster reach one another's databases.
const (
	DatabaseSettings  Place = "postgresql.settings"
	DatabaseAccess    Place = "postgresql.hba"       // who may connect, from where
	DatabaseMembers   Place = "postgresql.ident"     // whose certificates are taken
	DatabaseAuthority Place = "postgresql.authority" // the cluster's certificate authority
	DatabaseIdentity  Place = "postgresql.identity"  // the node's certificate with its key, in one file: they are replaced together
)

// DatabaseFolder is where they are.
const DatabaseFolder = "/etc/postgresql/gateway"

// proxyCertificate is how the places of ProxyCertificate begin.
const proxyCertificate = "haproxy.certificate/"

// certificateFolder is where they are.
const certificateFolder = "/etc/haproxy/gateway/certificates/"

// ProxyCertificate is a certificate of the reverse proxy with its key.
func ProxyCertificate(id uuid.UUID) Place { return Place(proxyCertificate + id.String()) }

// tunnelState is how the places of TunnelState begin.
const tunnelState = "tunnel/"

// tunnelFolder is where they are.
const tunnelFolder = "/var/lib/gateway-helper/tunnels/"

// TunnelState is what a tunnel shall be, for people to read.
func TunnelState(name value.IfName) Place { return Place(tunnelState + name.String()) }

// PlaceSpec is all that the machine must know about a place.
type PlaceSpec struct {
	Path         string
	Mode         fs.FileMode
	Owner, Group string
}

// places is the closed list: what is not in it cannot be written.
var places = map[Place]PlaceSpec{
	ChronyMain:   {"/etc/chrony/gateway.conf", 0o644, "root", "root"},
	ChronyDropIn: {"/etc/chrony/conf.d/gateway.conf", 0o644, "root", "root"},

	RouteProtocols:    {"/etc/iproute2/rt_protos.d/gateway.conf", 0o644, "root", "root"},
	NetworkState:      {"/var/lib/gateway-helper/network.json", 0o644, "root", "root"},
	PacketFilterTable: {"/var/lib/gateway-helper/packet-filter.nft", 0o600, "root", "root"},

	MasterKey: {"/etc/gateway/master.key", 0o640, "root", User},
	NodeFile:  {"/etc/gateway/node.conf", 0o644, "root", "root"},

	UnboundMain:   {"/etc/unbound/gateway.conf", 0o644, "root", "root"},
	UnboundDropIn: {"/etc/unbound/gateway.conf.d/gateway.conf", 0o644, "root", "root"},

	SquidMain:   {"/etc/squid/gateway.conf", 0o644, "root", "root"},
	SquidDropIn: {"/etc/squid/conf.d/gateway.conf", 0o644, "root", "root"},
	// The judge reads it as squid's user.
	SquidAccessList: {"/etc/squid/gateway.acls", 0o640, "root", "proxy"},

	DatabaseSettings:  {DatabaseFolder + "/gateway.conf", 0o644, "root", "root"},
	DatabaseAccess:    {DatabaseFolder + "/hba.conf", 0o640, "root", "postgres"},
	DatabaseMembers:   {DatabaseFolder + "/ident.conf", 0o640, "root", "postgres"},
	DatabaseAuthority: {DatabaseFolder + "/authority.pem", 0o644, "root", "root"},
	// PostgreSQL takes no key that others can read.
	DatabaseIdentity: {DatabaseFolder + "/node.pem", 0o600, "postgres", "postgres"},

	KeaConfig: {"/etc/kea/gateway/kea-dhcp4.conf", 0o644, "root", "root"},

	RadiusConfig:  {"/etc/freeradius/gateway/radiusd.conf", 0o640, "root", "freerad"},
	RadiusClients: {"/etc/freeradius/gateway/gateway-clients.conf", 0o640, "root", "freerad"},
	RadiusUsers:   {"/etc/freeradius/gateway/gateway-users", 0o640, "root", "freerad"},

	DetectionConfig:    {"/etc/crowdsec/gateway/config.yaml", 0o644, "root", "root"},
	DetectionSources:   {"/etc/crowdsec/gateway/acquis.yaml", 0o644, "root", "root"},
	DetectionProfiles:  {"/etc/crowdsec/gateway/profiles.yaml", 0o644, "root", "root"},
	DetectionParsers:   {"/etc/crowdsec/parsers/s01-parse/gateway-logs.yaml", 0o644, "root", "root"},
	DetectionAllowList: {"/etc/crowdsec/parsers/s02-enrich/gateway-allow-list.yaml", 0o644, "root", "root"},
	DetectionScenarios: {"/etc/crowdsec/scenarios/gateway-attacks.yaml", 0o644, "root", "root"},
	// It has the bouncer's key.
	DetectionBouncer: {"/etc/crowdsec/gateway/firewall-bouncer.yaml", 0o600, "root", "root"},

	VRRPConfig: {"/etc/keepalived/gateway.conf", 0o644, "root", "root"},
	VRRPDrain:  {vrrpFolder + "/drain", 0o644, "root", "root"},

	// HAProxy reads its files as root. The values of headers are nobody else's business.
	ProxyConfig:             {"/etc/haproxy/gateway/haproxy.cfg", 0o640, "root", "root"},
	ProxyHosts:              {"/etc/haproxy/gateway/maps/hosts.map", 0o640, "root", "root"},
	ProxyWildcards:          {"/etc/haproxy/gateway/maps/wildcards.map", 0o640, "root", "root"},
	ProxyRoutes:             {"/etc/haproxy/gateway/maps/routes.map", 0o640, "root", "root"},
	ProxyHeaders:            {"/etc/haproxy/gateway/maps/headers.map", 0o640, "root", "root"},
	ProxySwitches:           {"/etc/haproxy/gateway/maps/switches.map", 0o640, "root", "root"},
	ProxyMaintenancePage:    {"/etc/haproxy/gateway/pages/maintenance.html", 0o644, "root", "root"},
	ProxyBlockedPage:        {"/etc/haproxy/gateway/pages/blocked.html", 0o644, "root", "root"},
	ProxyInspection:         {"/etc/haproxy/gateway/spoe.cfg", 0o640, "root", "root"},
	ProxyCertificateList:    {"/etc/haproxy/gateway/certificates.list", 0o640, "root", "root"},
	ProxyManagementList:     {"/etc/haproxy/gateway/management.list", 0o640, "root", "root"},
	ProxyDefaultCertificate: {certificateFolder + "default.pem", 0o600, "root", "root"},
}

// Path tells where the place is on a real gateway; it is empty for a place that is not in the list.
func (p Place) Path() string {
	spec, _ := p.Spec()
	return spec.Path
}

// Spec returns the entry of the place in the closed list.
func (p Place) Spec() (PlaceSpec, error) {
	if s, ok := places[p]; ok {
		return s, nil
	}
	if text, ok := strings.CutPrefix(string(p), proxyCertificate); ok {
		if id, err := uuid.Parse(text); err == nil && p == ProxyCertificate(id) {
			return PlaceSpec{certificateFolder + text + ".pem", 0o600, "root", "root"}, nil
		}
	}
	if text, ok := strings.CutPrefix(string(p), tunnelState); ok {
		if name, err := value.Parse[value.IfName](text); err == nil {
			return PlaceSpec{tunnelFolder + name.String() + ".conf", 0o600, "root", "root"}, nil
		}
	}
	return PlaceSpec{}, fmt.Errorf("no place %q in the list", string(p))
}

// IsPlace tells whether a path is that of a place.
func IsPlace(path string) bool {
	if name, ok := strings.CutPrefix(path, certificateFolder); ok {
		if id, err := uuid.Parse(strings.TrimSuffix(name, ".pem")); err == nil && ProxyCertificate(id).Path() == path {
			return true
		}
	}
	if name, ok := strings.CutPrefix(path, tunnelFolder); ok {
		if _, err := value.Parse[value.IfName](strings.TrimSuffix(name, ".conf")); err == nil && strings.HasSuffix(name, ".conf") {
			return true
		}
	}
	for _, spec := range places {
		if spec.Path == path {
			return true
		}
	}
	return false
}
