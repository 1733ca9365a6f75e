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
	Enabled         bool           `json:"enabled" doc:"When off, the daemon is stopped and its port is closed."`
	ListenAddresses []value.Addr   `json:"listen_addresses" doc:"Addresses to listen on; if empty, all addresses of the gateway."`
	Port            int            `json:"port" minimum:"1" maximum:"65535" doc:"Port to listen on; 3127 is the proxy's own."`
	CacheMB         int            `json:"cache_mb" minimum:"0" maximum:"65536" doc:"Memory for the cache in MiB; with 0 nothing is cached."`
	AllowedNetworks []value.Prefix `json:"allowed_networks" doc:"Networks that may use the proxy; if empty, none. The access list decides what they may reach."`
}

func (s *Settings) Validate() error {
	var c check.List
	c.That(s.Port != managerPort, "port", "must not be %d, which the gateway uses for statistics", managerPort)
	for i, a := range s.ListenAddresses {
		ip := a.Netip()
		c.That(!ip.IsUnspecified(), "listen_addresses", "must not contain %s. Leave the list empty for all addresses", a)
		c.That(!ip.IsMulticast(), "listen_addresses", "must not contain %s, which is a multicast address", a)
		c.That(!ip.IsLinkLocalUnicast(), "listen_addresses", "must not contain %s, which is link-local. Use another address of the gateway", a)
		c.That(!slices.Contains(s.ListenAddresses[:i], a), "listen_addresses", "contains %s twice", a)
	}
	for _, n := range s.AllowedNetworks {
		c.That(!verdict.TooWide(n.Netip()), "allowed_networks", "must not contain %s, which is too wide. Use ::/0 for all IPv6 addresses, or networks from 2000:: upwards", n)
	}
	return c.Err()
}

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
