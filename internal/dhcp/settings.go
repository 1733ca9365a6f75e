package dhcp

import (
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/resource"
)

// Settings say whether addresses are handed out, and for how long.
type Settings struct {
	resource.Meta
	Enabled             bool `json:"enabled" doc:"Off, the daemon is stopped."`
	DefaultLeaseSeconds int  `json:"default_lease_seconds" minimum:"60" maximum:"31536000" doc:"How long a lease lasts when the client names no time."`
	MaxLeaseSeconds     int  `json:"max_lease_seconds" minimum:"60" maximum:"31536000" doc:"The longest time that a client gets."`
}

// Label is how people know it.
func (s *Settings) Label() string { return "DHCP settings" }

// Validate says what the settings can say about themselves.
func (s *Settings) Validate() error {
	var c check.List
	c.That(s.MaxLeaseSeconds >= s.DefaultLeaseSeconds, "max_lease_seconds", "must not be less than default_lease_seconds")
	return c.Err()
}

var settings = resource.Singleton[Settings]{
	Name: "dhcp.settings", Title: "DHCP settings", Path: "/dhcp/settings", Table: "dhcp_settings", Feeds: feeds, Local: true,
}
