package alarm

import (
	"slices"
	"time"
)

// Severity says how bad something is.
type Severity string

// The severities, least severe first.
const (
	Info     Severity = "info"
	Warning  Severity = "warning"
	Error    Severity = "error"
	Critical Severity = "critical"
)

// Severities lists them, least severe first.
var Severities = []Severity{Info, Warning, Error, Critical}

// Worse reports whether a severity is higher than another.
func (s Severity) Worse(than Severity) bool {
	return slices.Index(Severities, s) > slices.Index(Severities, than)
}

// Name is the name of a kind. Names are part of the contract.
type Name string

// Kind is a kind of alarm. The room that reports it declares it.
type Kind struct {
	Name Name `json:"kind" doc:"Name of the kind."`
	// Severity is that of alarms without one.
	Severity Severity `json:"severity" enum:"info,warning,error,critical" doc:"Its usual severity."`
	Meaning  string   `json:"meaning" doc:"What it means."`
	// Mutable says that operators may mute it for a time.
	Mutable bool `json:"mutable" doc:"Whether it can be muted."`
	// After returns how long a condition must last before it is reported; nil for immediately.
	After func(l *Limits) time.Duration `json:"-"`
	// Unless is a kind that explains this one: while it has a condition, this one is neither reported nor cleared.
	Unless *Kind `json:"-"`
}

// Limits are the thresholds of conditions.
type Limits struct {
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
}
