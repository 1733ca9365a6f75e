package fwdproxy

import (
	"slices"

	"edge.internal/gateway/internal/fwdproxy/verdict"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

// Settings say where the proxy listens and who may use it.
type Settings struct {
	resource.Meta
	Enabled         bool           `json:"enabled" doc:"Off, the daemon is stopped and its port is closed."`
	ListenAddresses []value.Addr   `json:"listen_addresses" doc:"Addresses to listen on; none means every address of the gateway."`
	Port            int            `json:"port" minimum:"1" maximum:"65535" doc:"Port to listen on; 3127 is the proxy's own."`
	CacheMB         int            `json:"cache_mb" minimum:"0" maximum:"65536" doc:"Memory for what was fetched, in MiB; 0 keeps nothing."`
	AllowedNetworks []value.Prefix `json:"allowed_networks" doc:"Networks that may use the proxy at all; none means nobody. The access list decides about the rest."`
}

// Validate says what the settings can say about themselves.
func (s *Settings) Validate() error {
	var c check.List
	c.That(s.Port != managerPort, "port", "must not be %d: the gateway asks the proxy for its figures there", managerPort)
	for i, a := range s.ListenAddresses {
		ip := a.Netip()
		c.That(!ip.IsUnspecified(), "listen_addresses", "must not hold %s: no address at all means every address", a)
		c.That(!ip.IsMulticast(), "listen_addresses", "%s is for groups: nobody can connect to it", a)
		c.That(!ip.IsLinkLocalUnicast(), "listen_addresses", "%s is good on one link only: take an address of the gateway that is not link-local", a)
		c.That(!slices.Contains(s.ListenAddresses[:i], a), "listen_addresses", "holds %s twice", a)
	}
	for _, n := range s.AllowedNetworks {
		c.That(!verdict.TooWide(n.Netip()), "allowed_networks", "%s is too wide: take ::/0 for all addresses of IPv6, or networks from 2000:: on", n)
	}
	return c.Err()
}

// Label is how people know it.
func (s *Settings) Label() string { return "forward proxy settings" }

var settings = resource.Singleton[Settings]{
	Name: "forward-proxy.settings", Title: "forward proxy settings", Path: "/forward-proxy/settings", Table: "fwdproxy_settings", Feeds: feeds,
}

func (s *Settings) openings() []policy.Opening {
	reachable := policy.Reachable(s.ListenAddresses)
	if !s.Enabled || len(reachable) == 0 && len(s.ListenAddresses) > 0 {
		return nil
	}
	return []policy.Opening{{Service: "forward-proxy", Proto: policy.TCP, Port: s.Port, Addresses: reachable}}
}
