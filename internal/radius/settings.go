package radius

import (
	"net/netip"
	"slices"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Settings say whether and where the server listens.
type Settings struct {
	resource.Meta
	Enabled         bool         `json:"enabled" doc:"When off, the daemon is stopped and its ports are closed."`
	AuthPort        int          `json:"auth_port" minimum:"1024" maximum:"65535" doc:"Port for authentication, 1024 or higher: the server runs without privileges."`
	AcctPort        int          `json:"acct_port" minimum:"1024" maximum:"65535" doc:"Port for accounting. Reports are answered but not stored."`
	ListenAddresses []value.Addr `json:"listen_addresses" doc:"Addresses to listen on; if empty, all addresses of the gateway."`
}

func (s *Settings) Label() string { return "RADIUS settings" }

func (s *Settings) Validate() error {
	var c check.List
	c.That(s.AuthPort != s.AcctPort, "acct_port", "must differ from the authentication port")
	for i, a := range s.ListenAddresses {
		ip := a.Netip()
		switch {
		case ip.IsUnspecified():
			c.Add("listen_addresses", "must contain addresses of this gateway, which item %d is not. Leave the list empty for all addresses", i+1)
		case ip.IsMulticast() || ip.IsLinkLocalUnicast():
			c.Add("listen_addresses", "contains an address that the server cannot listen on (item %d)", i+1)
		case ip == freeradius.Self:
			c.Add("listen_addresses", "contains an address that is reserved for the gateway itself (item %d)", i+1)
		case slices.Contains(s.ListenAddresses[:i], a):
			c.Add("listen_addresses", "contains item %d twice", i+1)
		}
	}
	return c.Err()
}

// own is the gateway as a client of its own server.
var own = value.Must[value.Prefix](freeradius.Self.String())

// listen is a socket of the server.
type listen struct {
	address    value.Addr
	port       int
	accounting bool
}

// listens returns the server's sockets: those in the settings, and one for the gateway itself.
func (s *Settings) listens() []listen {
	addresses := slices.Clone(s.ListenAddresses)
	if len(addresses) == 0 {
		addresses = []value.Addr{value.Must[value.Addr](netip.IPv4Unspecified().String()), value.Must[value.Addr](netip.IPv6Unspecified().String())}
	} else {
		addresses = append(addresses, value.Must[value.Addr](freeradius.Self.String()))
	}
	var list []listen
	for _, a := range addresses {
		list = append(list, listen{a, s.AuthPort, false}, listen{a, s.AcctPort, true})
	}
	return list
}

var settings = resource.Singleton[Settings]{
	Name: "radius.settings", Title: "RADIUS settings", Path: "/radius/settings", Table: "radius_settings", Feeds: feeds, Local: true,
}

func (s *Settings) openings() []policy.Opening {
	reachable := policy.Reachable(s.ListenAddresses)
	if !s.Enabled || len(reachable) == 0 && len(s.ListenAddresses) > 0 {
		return nil
	}
	return []policy.Opening{
		{Service: "radius", Proto: policy.UDP, Port: s.AuthPort, Addresses: reachable},
		{Service: "radius", Proto: policy.UDP, Port: s.AcctPort, Addresses: reachable},
	}
}
