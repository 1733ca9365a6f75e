package alert

import (
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/resource"
)

// Settings say from when on something counts as wrong.
type Settings struct {
	resource.Meta
	CertWarningDays     int `json:"cert_warning_days" minimum:"1" maximum:"365" doc:"A certificate with fewer days left is a warning."`
	CertErrorDays       int `json:"cert_error_days" minimum:"0" maximum:"365" doc:"A certificate with fewer days left is an error."`
	MemoryWarning       int `json:"memory_warning_percent" minimum:"1" maximum:"100" doc:"Used memory, in percent, that is a warning."`
	MemoryError         int `json:"memory_error_percent" minimum:"1" maximum:"100" doc:"Used memory, in percent, that is an error."`
	ConntrackWarning    int `json:"conntrack_warning_percent" minimum:"1" maximum:"100" doc:"Tracked connections, in percent of the maximum, that are a warning."`
	ConntrackError      int `json:"conntrack_error_percent" minimum:"1" maximum:"100" doc:"Tracked connections, in percent of the maximum, that are an error."`
	DiskWarning         int `json:"disk_warning_percent" minimum:"1" maximum:"100" doc:"Used space of the root file system, in percent, that is a warning."`
	DiskError           int `json:"disk_error_percent" minimum:"1" maximum:"100" doc:"Used space of the root file system, in percent, that is an error."`
	TunnelDownMinutes   int `json:"tunnel_down_minutes" minimum:"3" maximum:"1440" doc:"A tunnel to another gateway without a handshake for longer than this is down. Handshakes are two minutes apart."`
	DegradedSeconds     int `json:"degraded_seconds" minimum:"10" maximum:"86400" doc:"A component that is degraded, or a daemon that is down, for longer than this is an error."`
	FailedLogins        int `json:"failed_logins" minimum:"1" maximum:"10000" doc:"Number of failed logins, within the minutes of the next setting, that is a warning."`
	FailedLoginsMinutes int `json:"failed_logins_minutes" minimum:"1" maximum:"1440" doc:"The time in which failed logins are counted."`
	ReplicationLag      int `json:"replication_lag_seconds" minimum:"1" maximum:"86400" doc:"A node whose database lags by more than this is a warning; ten times as much is an error."`
	DigestOver          int `json:"digest_over" minimum:"1" maximum:"1000" doc:"Messages per minute to each channel. If there are more, they are combined into one, at most once a minute."`
	HistoryDays         int `json:"history_days" minimum:"1" maximum:"3650" doc:"How long events are kept."`
}

// Label is how people know it.
func (s *Settings) Label() string { return "alert settings" }

// Validate says what the settings can say about themselves.
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
