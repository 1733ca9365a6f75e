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
	FailedLogins       Kind = "auth.login.failures"
	JobFailed          Kind = "job.failed"
	NodeOffline        Kind = "node.offline"
	ReplicationLag     Kind = "replication.lag"
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
	{CertExpiring, Warning, "A certificate ends soon.", true},
	{CertRenewFailed, Error, "A certificate could not be renewed. The present one is served until it ends.", true},
	{CertRunFailed, Error, "The gateway could not find out which certificates to renew.", true},
	{BackupFailed, Error, "The scheduled backup failed.", true},
	{BackupVerifyFailed, Error, "A backup could not be restored in a trial, so it may be of no use.", true},
	{BackupUploadFailed, Error, "A backup did not reach one of the off-site targets.", true},
	{LicenseInvalid, Error, "The license is not valid.", true},
	{BackendDown, Error, "No server of a backend answers, so what it serves is down.", true},
	{TunnelDown, Error, "A tunnel to another gateway has no contact.", true},
	{ClockUnsync, Warning, "The clock of this machine follows no time source.", true},
	{Memory, Warning, "The memory of this machine is nearly used up.", true},
	{Conntrack, Warning, "The table of connections is nearly full. When it is full, new connections are dropped.", true},
	{Disk, Warning, "The disk of this machine is nearly full.", true},
	{Degraded, Error, "What is stored for a component does not run: the last good configuration does.", true},
	{DaemonDown, Error, "A daemon that should run does not.", true},
	{InspectionDown, Error, "The web application firewall does not inspect requests.", true},
	{FailedLogins, Warning, "Many logins failed within a short time.", true},
	{JobFailed, Error, "A periodic job crashed or did not end in time.", true},
	{NodeOffline, Critical, "A node of the cluster is not reached.", true},
	{ReplicationLag, Warning, "The database of a node is behind.", true},
	{Test, Info, "An operator tries whether alerts arrive.", false},
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
