// Package job runs one-time jobs in programs that outlive the one that asked for them: the upgrade of the gateway, its restore,
// and the repair of replication.
//
// A job is requested by a wish, a file that exists until the job has ended. One wish is granted at a time. The program that
// grants it records each step before it begins and after it has ended, so that after a power cut or a kill the next start knows
// how far the last one got. The room that owns a job defines its wish, its record, and its steps.
package job

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit/fault"
)

// Name is the name of a job, which is also that of its program and its unit.
type Name string

// The jobs. The last two have no wish: they are merely started.
const (
	// Upgrade replaces the gateway by another version.
	Upgrade Name = "gateway-upgrade"
	// Restore replaces the gateway's data with those of a backup.
	Restore Name = "gateway-restore"
	// Repair makes a standby equal to its primary again. It runs as the gateway's user, and reports its own end.
	Repair Name = "gateway-repair"
	// Refresh has apt fetch its lists.
	Refresh Name = "gateway-packages"
	// Database configures PostgreSQL for the gateway.
	Database Name = "gateway-database"
)

var names = []Name{Upgrade, Refresh, Restore, Repair, Database}

func Names() []Name { return names }

// Errors for a wish while another job has not ended.
var (
	ErrUpgradeRuns = errors.New("an upgrade is already running")
	ErrRestoreRuns = errors.New("a restore is already running")
	ErrRepairRuns  = errors.New("replication is already being repaired")
)

// wished are the jobs that have wishes. Each replaces what the gateway runs on, or what it has stored, so only one runs at a
// time.
var wished = []known{
	{Upgrade, ErrUpgradeRuns, "upgrade", "An upgrade"},
	{Restore, ErrRestoreRuns, "restore", "A restore"},
	{Repair, ErrRepairRuns, "repair", "A repair of replication"},
}

// known describes a job that has wishes.
type known struct {
	name   Name
	runs   error
	noun   string
	people string // its name in messages
}

// known returns the zero value for a job without wishes.
func (n Name) known() known {
	i := slices.IndexFunc(wished, func(k known) bool { return k.name == n })
	if i < 0 {
		return known{}
	}
	return wished[i]
}

// Wished reports whether the job has wishes.
func (n Name) Wished() bool { return n.known().name != "" }

func (n Name) Service() (string, error) {
	if !slices.Contains(names, n) {
		return "", fmt.Errorf("no job %q in the list", string(n))
	}
	return string(n) + ".service", nil
}

// Folder returns where root keeps what the job needs. The gateway's user may read it.
func (n Name) Folder() string { return "/var/lib/" + string(n) }

// wishFile exists in the folder of a job from the wish until the job has ended.
const wishFile = "wish.json"

func (n Name) WishFile() string { return n.Folder() + "/" + wishFile }

// Passphrase is the file in a job's folder that holds the passphrase of its wish, for root only.
const Passphrase = "passphrase"

// RecordFile returns the path of the record; empty for a job whose room keeps it elsewhere.
func (n Name) RecordFile() string {
	switch n {
	case Upgrade, Restore:
		return n.Folder() + "/" + n.known().noun + ".json"
	}
	return ""
}

// Wish has the fields of all wishes.
type Wish struct {
	ID string    `json:"id"` // ordered by time
	At time.Time `json:"at"`
}

func (w *Wish) wish() *Wish { return w }

// State says how far a job got.
type State string

// States of a job.
const (
	Running   State = "running"
	Done      State = "done"
	Refused   State = "refused"    // it ended before anything was changed
	TakenBack State = "taken_back" // the former version is back, with its data
	Stuck     State = "stuck"      // taking it back failed, too
)

type Record struct {
	ID      string    `json:"id"`
	State   State     `json:"state"`
	Reason  string    `json:"reason"` // why it failed, in a sentence; empty on success
	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	Steps   []Step    `json:"steps"`
	// Step is the last step that began.
	Step string `json:"step"`
	// Attempts counts how often the steps that change something began.
	Attempts int `json:"attempts"`
}

func (r *Record) record() *Record { return r }

// At reports whether the last step that began is one of the given ones.
func (r *Record) At(steps ...string) bool { return slices.Contains(steps, r.Step) }

type Step struct {
	Name    string    `json:"name"`
	State   StepState `json:"state"`
	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	Output  string    `json:"output"` // the end of the output of its programs
	Error   string    `json:"error"`
}

// StepState says how far a step got.
type StepState string

// States of a step.
const (
	StepRunning     StepState = "running"
	StepDone        StepState = "done"
	StepFailed      StepState = "failed"
	StepInterrupted StepState = "interrupted" // the machine or the program stopped in the middle of it
)

// Err returns the error for a wish while the job has not ended.
func (n Name) Err() error { return n.known().runs }

// Runs reports whether an error says that the job has not ended.
func (n Name) Runs(err error) bool { return n.Wished() && errors.Is(err, n.Err()) }

// Conflict translates the error that a job cannot begin while another one, or one of its own kind, runs. It returns other errors
// unchanged.
func (n Name) Conflict(err error) error {
	for _, w := range wished {
		switch {
		case !errors.Is(err, w.runs):
		case w.name == n:
			return fault.Wrap(fault.Conflict, err, "%s is already running. Wait until it is finished.", w.people)
		default:
			return fault.Wrap(fault.Conflict, err, "%s is running. Wait until it is finished.", w.people)
		}
	}
	return err
}
