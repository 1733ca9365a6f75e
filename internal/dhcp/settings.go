package dhcp

import (
	"context"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/resource"
)

// Settings say whether addresses are handed out, and for how long.
type Settings struct {
	resource.Meta
	Enabled             bool `json:"enabled" doc:"When off, the daemon is stopped."`
	DefaultLeaseSeconds int  `json:"default_lease_seconds" minimum:"60" maximum:"31536000" doc:"Lease time in seconds if the client does not ask for one."`
	MaxLeaseSeconds     int  `json:"max_lease_seconds" minimum:"60" maximum:"31536000" doc:"Upper limit of the lease time, in seconds."`
}

func (s *Settings) Label() string { return "DHCP settings" }

func (s *Settings) Validate() error {
	var c check.List
	c.That(s.MaxLeaseSeconds >= s.DefaultLeaseSeconds, "max_lease_seconds", "must not be less than default_lease_seconds")
	return c.Err()
}

func (r *Room) settingsKind() resource.Singleton[Settings] {
	return resource.Singleton[Settings]{
		Name: "dhcp.settings", Title: "DHCP settings", Path: "/dhcp/settings", Table: "dhcp_settings", Feeds: feeds, Local: true,
		Check: r.checkSettings,
	}
}

// checkSettings checks the settings against the subnets.
func (r *Room) checkSettings(ctx context.Context, tx *db.Tx, _, now *Settings) error {
	subnets, err := r.subnets.All(ctx, tx)
	if err != nil {
		return err
	}
	var c check.List
	for _, s := range subnets {
		c.That(s.LeaseSeconds == nil || *s.LeaseSeconds <= now.MaxLeaseSeconds, "max_lease_seconds", "must not be less than the lease_seconds of the subnet %s", s.CIDR)
	}
	return c.Err()
}
