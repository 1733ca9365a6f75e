package host

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// GatewayPackage is the package that the gateway itself comes in.
const GatewayPackage = "gateway"

// packageNames is the closed list: the gateway, and what it manages.
var packageNames = []string{
	GatewayPackage, "haproxy", "nftables", "unbound", "chrony", "squid", "kea-dhcp4-server", "freeradius", "keepalived", "wireguard-go", "crowdsec", "crowdsec-firewall-bouncer",
}

// PackageNames returns the closed list, the gateway's own package first.
func PackageNames() []string { return packageNames }

// Job is something that is done once, in a unit of its own.
type Job string

// The jobs.
const (
	// UpgradeJob does the upgrade that is wished for.
	UpgradeJob Job = "gateway-upgrade"
	// RefreshJob has apt fetch its lists.
	RefreshJob Job = "gateway-packages"
	// RestoreJob does the restore that is wished for.
	RestoreJob Job = "gateway-restore"
	// RepairJob does the repair of replication that is wished for, as the gateway's user.
	RepairJob Job = "gateway-repair"
	// DatabaseJob gives PostgreSQL what the gateway needs.
	DatabaseJob Job = "gateway-database"
)

// jobs is the closed list.
var jobs = []Job{UpgradeJob, RefreshJob, RestoreJob, RepairJob, DatabaseJob}

// Service is systemd's name of a job of the closed list.
func (j Job) Service() (string, error) {
	if !slices.Contains(jobs, j) {
		return "", fmt.Errorf("no job %q in the list", string(j))
	}
	return service(j), nil
}

// UpgradeFolder is where root keeps what upgrades need. The gateway's user may read there.
const UpgradeFolder = "/var/lib/gateway-upgrade"

// Files of the folder.
const (
	// UpgradeWishFile is there from the wish for an upgrade until the upgrade has ended.
	UpgradeWishFile = UpgradeFolder + "/wish.json"
	// UpgradeFile is the running or the last upgrade.
	UpgradeFile = UpgradeFolder + "/upgrade.json"
	// ListsFile is the last refresh of apt's lists.
	ListsFile = UpgradeFolder + "/lists.json"
)

// ErrUpgradeRuns says that an upgrade has not ended yet.
var ErrUpgradeRuns = errors.New("an upgrade is already running")

// Packages is what apt and dpkg know of the gateway and of its daemons, and the upgrade of the gateway.
type Packages interface {
	// PackageVersions tells the versions of all packages of the closed list.
	PackageVersions(ctx context.Context) (PackageVersions, error)
	// RefreshPackages has apt fetch its lists, and does not wait for it. A machine whose gateway is no package is ErrNotInstalled.
	RefreshPackages(ctx context.Context) error
	// BeginUpgrade has the gateway replaced by another version, and does not wait for it. While an upgrade runs it is ErrUpgradeRuns;
	// on a machine whose gateway is no package it is ErrNotInstalled.
	BeginUpgrade(ctx context.Context, version string) error
	// LastUpgrade is the running upgrade or the last one; fs.ErrNotExist when there was none.
	LastUpgrade() (Upgrade, error)
}

// PackageVersions are the versions of packages, and how old that knowledge is.
type PackageVersions struct {
	Packages []PackageVersion
	Lists    PackageLists
}

// PackageVersion is what is known about one package.
type PackageVersion struct {
	Name string
	// Installed is empty for a package that is not installed.
	Installed string
	// Available is what apt would install; empty when apt knows none.
	Available string
	// Newer are the versions after the installed one, the newest first.
	Newer []string
	// Security says that one of the newer ones comes from a security archive.
	Security bool
}

// PackageLists is the state of apt's lists.
type PackageLists struct {
	RefreshedAt time.Time
	Refreshing  bool
	// Error is why the last refresh failed; empty when it did not.
	Error string
}

// Upgrade is one upgrade of the gateway.
type Upgrade struct {
	ID      string    `json:"id"`
	From    string    `json:"from"` // empty until it is known
	To      string    `json:"to"`
	State   JobState  `json:"state"`
	Reason  string    `json:"reason"` // why it did not succeed, in a sentence; empty when it did
	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	Steps   []JobStep `json:"steps"`
}

// JobState is how far a job of root's has come.
type JobState string

// The states of a job.
const (
	JobRunning   JobState = "running"
	JobDone      JobState = "done"
	JobRefused   JobState = "refused"    // it ended before anything was changed
	JobTakenBack JobState = "taken_back" // what was there before is there again, with its data
	JobStuck     JobState = "stuck"      // taking it back failed, too
)

// JobStep is one step of a job of root's.
type JobStep struct {
	Name    string    `json:"name"`
	State   StepState `json:"state"`
	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	Output  string    `json:"output"` // the end of what its programs said
	Error   string    `json:"error"`
}

// StepState is how far a step has come.
type StepState string

// The states of a step.
const (
	StepRunning     StepState = "running"
	StepDone        StepState = "done"
	StepFailed      StepState = "failed"
	StepInterrupted StepState = "interrupted" // the machine or the program stopped in the middle of it
)

// UpgradeWish asks for an upgrade.
type UpgradeWish struct {
	ID      string    `json:"id"`
	Version string    `json:"version"`
	At      time.Time `json:"at"`
}

// versionForm is that of a version of Debian, which an option of a program never has.
var versionForm = regexp.MustCompile(`^[0-9][A-Za-z0-9.+~:-]{0,63}$`)

// IsVersion complains about a text that is no version of a package.
func IsVersion(s string) error {
	if !versionForm.MatchString(s) {
		return fmt.Errorf("%.70q is not the version of a package", s)
	}
	return nil
}
