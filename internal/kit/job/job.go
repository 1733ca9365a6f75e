// Package job is what is done once by a program of its own, which outlives the one that asked for it: the upgrade of the gateway, its
// restore, and the repair of replication.
//
// A job is asked for with a wish, a file that is there until the job has ended. One wish is granted at a time, and what grants it writes
// down each step before it begins and after it has ended, so that after a power cut or a kill the next start knows where the last one was.
// The room that owns a job says what its wish and its record have; what each step does is the room's, too.
package job

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit/fault"
)

// Name is that of a job, which is the name of its program and of its unit.
type Name string

// The jobs. Nothing is wished of the last two: they are merely started.
const (
	// Upgrade replaces the gateway by another version.
	Upgrade Name = "gateway-upgrade"
	// Restore replaces the gateway's data with those of a backup.
	Restore Name = "gateway-restore"
	// Repair makes a standby the same as its primary again. It runs as the gateway's user, and says itself that it has ended.
	Repair Name = "gateway-repair"
	// Refresh has apt fetch its lists.
	Refresh Name = "gateway-packages"
	// Database gives PostgreSQL what the gateway needs.
	Database Name = "gateway-database"
)

var names = []Name{Upgrade, Refresh, Restore, Repair, Database}

// Names returns the closed list.
func Names() []Name { return names }

// While a job has not ended, a wish for it or for another one is answered with its error.
var (
	ErrUpgradeRuns = errors.New("an upgrade is already running")
	ErrRestoreRuns = errors.New("a restore is already running")
	ErrRepairRuns  = errors.New("replication is already being repaired")
)

// wished are the jobs that are wished for. Each replaces what the gateway runs on, or what it has stored, so there is one at a time.
var wished = []known{
	{Upgrade, ErrUpgradeRuns, "upgrade", "An upgrade"},
	{Restore, ErrRestoreRuns, "restore", "A restore"},
	{Repair, ErrRepairRuns, "repair", "A repair of replication"},
}

// known is what is known about a job that is wished for.
type known struct {
	name   Name
	runs   error
	noun   string
	people string // how messages call it
}

// known is empty for a job that is not wished for.
func (n Name) known() known {
	i := slices.IndexFunc(wished, func(k known) bool { return k.name == n })
	if i < 0 {
		return known{}
	}
	return wished[i]
}

// Wished tells whether a job is wished for.
func (n Name) Wished() bool { return n.known().name != "" }

// Service is systemd's name of a job of the closed list.
func (n Name) Service() (string, error) {
	if !slices.Contains(names, n) {
		return "", fmt.Errorf("no job %q in the list", string(n))
	}
	return string(n) + ".service", nil
}

// Folder is where root keeps what a job needs. The gateway's user may read there.
func (n Name) Folder() string { return "/var/lib/" + string(n) }

// wishFile is there, in the folder of a job, from the wish until the job has ended.
const wishFile = "wish.json"

// WishFile is where the wish is.
func (n Name) WishFile() string { return n.Folder() + "/" + wishFile }

// Passphrase is the file in the folder of a job that keeps the passphrase of its wish, for root alone.
const Passphrase = "passphrase"

// RecordFile is where the record is; empty for a job whose room keeps it elsewhere.
func (n Name) RecordFile() string {
	switch n {
	case Upgrade, Restore:
		return n.Folder() + "/" + n.known().noun + ".json"
	}
	return ""
}

// Wish is what all wishes have.
type Wish struct {
	ID string    `json:"id"` // in the order of time
	At time.Time `json:"at"`
}

func (w *Wish) wish() *Wish { return w }

// State is how far a job has come.
type State string

// The states of a job.
const (
	Running   State = "running"
	Done      State = "done"
	Refused   State = "refused"    // it ended before anything was changed
	TakenBack State = "taken_back" // what was there before is there again, with its data
	Stuck     State = "stuck"      // taking it back failed, too
)

// Record is what is written down about every job.
type Record struct {
	ID      string    `json:"id"`
	State   State     `json:"state"`
	Reason  string    `json:"reason"` // why it did not succeed, in a sentence; empty when it did
	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	Steps   []Step    `json:"steps"`
	// Step is the last step that was begun.
	Step string `json:"step"`
	// Attempts counts how often what changes something was begun.
	Attempts int `json:"attempts"`
}

func (r *Record) record() *Record { return r }

// At tells whether the last step that was begun is one of some.
func (r *Record) At(steps ...string) bool { return slices.Contains(steps, r.Step) }

// Step is one step of a job.
type Step struct {
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

// Err is the answer to a wish while the job has not ended.
func (n Name) Err() error { return n.known().runs }

// Runs tells whether an error says that the job has not ended.
func (n Name) Runs(err error) bool { return n.Wished() && errors.Is(err, n.Err()) }

// Conflict says in the caller's terms why a job cannot begin while another one, or one of its own kind, runs. Other errors stay what
// they are.
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
