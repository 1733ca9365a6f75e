package alert

import (
	"context"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/resource"
)

// Settings holds the thresholds of alarms, and how many messages are sent.
type Settings struct {
	resource.Meta
	alarm.Limits
	DigestOver  int `json:"digest_over" minimum:"1" maximum:"1000" doc:"Messages per minute to each channel. If there are more, they are combined into one, at most once a minute."`
	HistoryDays int `json:"history_days" minimum:"1" maximum:"3650" doc:"How long events are kept."`
}

func (s *Settings) Label() string { return "alert settings" }

func (s *Settings) Validate() error {
	var c check.List
	c.That(s.CertErrorDays < s.CertWarningDays, "cert_error_days", "must be less than cert_warning_days")
	for _, x := range []struct {
		field          string
		warning, error int
	}{
		{"memory", s.MemoryWarning, s.MemoryError}, {"conntrack", s.ConntrackWarning, s.ConntrackError}, {"disk", s.DiskWarning, s.DiskError},
	} {
		c.That(x.warning <= x.error, x.field+"_error_percent", "must not be less than %s_warning_percent", x.field)
	}
	return c.Err()
}

var settings = resource.Singleton[Settings]{Name: "alert.settings", Title: "alert settings", Path: "/alerts/settings", Table: "alert_settings"}

// Limits returns the thresholds in force.
func (r *Room) Limits(ctx context.Context) (alarm.Limits, error) {
	s, err := r.settings.Load(ctx, r.DB)
	return s.Limits, err
}
