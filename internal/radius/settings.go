package radius

import (
	"slices"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Settings say whether and where the server listens.
type Settings struct {
	resource.Meta
	Enabled         bool         `json:"enabled" doc:"Off, the daemon is stopped and its ports are closed."`
	AuthPort        int          `json:"auth_port" minimum:"1" maximum:"65535" doc:"Port for authentication."`
	AcctPort        int          `json:"acct_port" minimum:"1" maximum:"65535" doc:"Port for accounting."`
	ListenAddresses []value.Addr `json:"listen_addresses" doc:"Addresses to listen on; none means every address of the gateway."`
}

// Label is how people know it.
func (s *Settings) Label() string { return "RADIUS settings" }

// Validate says what the settings can say about themselves.
func (s *Settings) Validate() error {
	var c check.List
	c.That(s.AuthPort != s.AcctPort, "acct_port", "must not be the port for authentication")
	return c.Err()
}

var settings = resource.Singleton[Settings]{
	Name: "radius.settings", Title: "RADIUS settings", Path: "/radius/settings", Table: "radius_settings", Feeds: feeds, Local: true,
}

func (s *Settings) openings() []policy.Opening {
	reachable := slices.DeleteFunc(slices.Clone(s.ListenAddresses), func(a value.Addr) bool { return a.Netip().IsLoopback() })
	if !s.Enabled || len(reachable) == 0 && len(s.ListenAddresses) > 0 {
		return nil
	}
	return []policy.Opening{
		{Service: "radius", Proto: policy.UDP, Port: s.AuthPort, Addresses: reachable},
		{Service: "radius", Proto: policy.UDP, Port: s.AcctPort, Addresses: reachable},
	}
}
