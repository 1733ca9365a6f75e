package alarm

import "slices"

// Severity says how bad something is.
type Severity string

// The severities, the least first.
const (
	Info     Severity = "info"
	Warning  Severity = "warning"
	Error    Severity = "error"
	Critical Severity = "critical"
)

// Severities lists them, the least first.
var Severities = []Severity{Info, Warning, Error, Critical}

// Worse tells whether a severity is higher than another.
func (s Severity) Worse(than Severity) bool {
	return slices.Index(Severities, s) > slices.Index(Severities, than)
}

// Kind says what has gone wrong.
type Kind string

// The kinds of alarm. Their names are part of the contract.
const (
	CertExpiring       Kind = "cert.expiring"
	CertRenewFailed    Kind = "cert.renew_failed"
	CertRunFailed      Kind = "cert.renewer.run_failed"
	BackupFailed       Kind = "backup.failed"
	BackupVerifyFailed Kind = "backup.verify_failed"
	BackupUploadFailed Kind = "backup.upload_failed"
	LicenseInvalid     Kind = "license.invalid"
	BackendDown        Kind = "backend.down"
	TunnelDown         Kind = "wg.tunnel.down"
	ClockUnsync        Kind = "ntp.unsync"
	Memory             Kind = "system.memory"
	Conntrack          Kind = "system.conntrack"
	Disk               Kind = "system.disk"
	Degraded           Kind = "component.degraded"
	DaemonDown         Kind = "daemon.down"
	InspectionDown     Kind = "waf.agent.down"
	Uninspected        Kind = "waf.uninspected"
	FailedLogins       Kind = "auth.login.failures"
	JobFailed          Kind = "job.failed"
	ChangeStays        Kind = "change.stays"
	NodeOffline        Kind = "node.offline"
	ReplicationLag     Kind = "replication.lag"
	ReplicationDrift   Kind = "replication.drift"
	SlotLost           Kind = "replication.slot_lost"
	SplitBrain         Kind = "cluster.split_brain"
	Test               Kind = "alert.test"
	Digest             Kind = "alert.digest"
)

// About is what is known about a kind.
type About struct {
	Kind Kind `json:"kind" doc:"Name of the kind."`
	// Severity is what an alarm has that names none.
	Severity Severity `json:"severity" enum:"info,warning,error,critical" doc:"Its usual severity."`
	Meaning  string   `json:"meaning" doc:"What it means."`
	// Mutable says that an operator may silence it for a time.
	Mutable bool `json:"mutable" doc:"Whether it can be muted."`
}

// kinds is the closed list. Who reports something else has forgotten to say here what it means.
var kinds = []About{
	{CertExpiring, Warning, "A certificate expires soon.", true},
	{CertRenewFailed, Error, "A certificate could not be renewed. The current one is used until it expires.", true},
	{CertRunFailed, Error, "The gateway could not find out which certificates to renew.", true},
	{BackupFailed, Error, "The scheduled backup failed.", true},
	{BackupVerifyFailed, Error, "A trial restore of a backup failed, so it may be unusable.", true},
	{BackupUploadFailed, Error, "A backup did not reach one of the off-site targets.", true},
	{LicenseInvalid, Error, "The license is not valid.", true},
	{BackendDown, Error, "No server of a backend answers, so its sites are down.", true},
	{TunnelDown, Error, "A tunnel to another gateway is down.", true},
	{ClockUnsync, Warning, "The clock of this machine is not synchronised.", true},
	{Memory, Warning, "The memory of this machine is nearly full.", true},
	{Conntrack, Warning, "The connection table is nearly full. When it is full, new connections are dropped.", true},
	{Disk, Warning, "The disk of this machine is nearly full.", true},
	{Degraded, Error, "The saved configuration of a component is not running. The last known good configuration is.", true},
	{DaemonDown, Error, "A daemon is not running although it should.", true},
	{InspectionDown, Error, "The web application firewall does not inspect requests.", true},
	{Uninspected, Warning, "The web application firewall did not inspect some requests of a domain.", true},
	{FailedLogins, Warning, "Many logins failed within a short time.", true},
	{JobFailed, Error, "A job crashed or did not finish in time.", true},
	{ChangeStays, Error, "An unconfirmed change could not be taken back, or not all of it.", true},
	{NodeOffline, Critical, "A node of the cluster cannot be reached.", true},
	{ReplicationLag, Warning, "The database of a node lags behind.", true},
	{ReplicationDrift, Error, "A node's configuration differs from that of the others.", true},
	{SlotLost, Error, "A node was away for too long to catch up, and has to be repaired.", true},
	{SplitBrain, Critical, "Two nodes were the primary at the same time. Neither accepts changes.", true},
	{Test, Info, "A test, sent by an administrator.", false},
	{Digest, Warning, "Several alerts in one message, because there were many.", false},
}

// Kinds lists every kind with what is known about it.
func Kinds() []About { return slices.Clone(kinds) }

// Known is what is known about a kind.
func Known(k Kind) (About, bool) {
	i := slices.IndexFunc(kinds, func(a About) bool { return a.Kind == k })
	if i < 0 {
		return About{}, false
	}
	return kinds[i], true
}
