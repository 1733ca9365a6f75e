// Package restore replaces the gateway's data with those of a backup, and reverts if the gateway does not serve with them.
//
// Up to the swap nothing live is touched, and a failure only refuses the restore: the archive is verified and unpacked, its database is
// loaded beside the gateway's and migrated, and every daemon checks the configuration that it would get. The swap happens while the
// gateway's programs are stopped, and a marker file keeps them from starting in the middle of it. Once the swap has begun, a restore ends
// with either all of the new data or all of the old.
package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/backup/archive"
	"edge.internal/gateway/internal/backup/recovery"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/value"
)

// Steps, by the names that people see.
const (
	stepVerify  = "verify"  // verify the archive, and unpack it
	stepLoad    = "load"    // load its database beside the gateway's
	stepCheck   = "check"   // migrate it, render everything, ask every daemon
	stepSwap    = "swap"    // replace the data while the programs are stopped
	stepConfirm = "confirm" // wait until they serve
	stepReturn  = "return"  // put the old data back
	stepRecover = "recover" // wait until the programs serve with them
)

// Job describes the restore to those who start or follow it.
var Job = job.Kind[Wish, Restore]{Name: job.Restore, Begun: func(w Wish) Restore { return Restore{Backup: w.Backup} }}

// Wish asks for the restore of a backup.
type Wish struct {
	job.Wish
	Backup string `json:"backup"` // its id
	// Interfaces maps the backup's interfaces to those of this machine, where the names differ.
	Interfaces map[string]string `json:"interfaces"`
}

var idForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Check refuses a request that no gateway makes.
func (w Wish) Check() error {
	if !idForm.MatchString(w.Backup) {
		return fmt.Errorf("%.40q is not the id of a backup", w.Backup)
	}
	if len(w.Interfaces) > 256 {
		return errors.New("there are too many interfaces")
	}
	for was, now := range w.Interfaces {
		for _, name := range []string{was, now} {
			if _, err := value.Parse[value.IfName](name); err != nil {
				return fmt.Errorf("%.40q is not the name of an interface: %w", name, err)
			}
		}
	}
	return nil
}

// Restore is the public part of a restore's record.
type Restore struct {
	job.Record
	Backup string `json:"backup"`
	// Host and MadeAt tell which machine was backed up, and when; they are empty until the archive is read.
	Host   string    `json:"host"`
	MadeAt time.Time `json:"made_at,omitzero"`
	// Warnings lists what must be done by hand afterwards.
	Warnings []string `json:"warnings"`
}

// Record is a restore with what it needs to continue after an interruption.
type Record struct {
	Restore
	Interfaces map[string]string `json:"interfaces"`
	Manifest   archive.Manifest  `json:"manifest"`
	// Live lists the components that were live before.
	Live []string `json:"live"`
	// Kept is set once the old files are set aside, so that live ones may be replaced.
	Kept bool `json:"kept"`
	// Guarded means that the old data set aside may belong to a restore that got stuck: only people may delete them.
	Guarded bool `json:"guarded"`
}

// Runner runs restores. It needs root.
type Runner struct {
	Folder job.Folder
	// Archive returns the file of a backup.
	Archive    func(id uuid.UUID) string
	Log        *slog.Logger
	Machine    host.Backups
	Units      host.Units
	Server     *db.Server
	Migrations fs.FS
	// Files locates the state files and their owner.
	Files Files
	// Adapt migrates a loaded database and adapts its content to this machine, with interfaces renamed as in links. Try returns the
	// components that reject its content. Both get a copy of its state folder, and the file of the master key that opens the secrets.
	Adapt func(ctx context.Context, database, state, keyFile string, links map[string]string) (warnings []string, err error)
	Try   func(ctx context.Context, database, state, keyFile string) (map[string]string, error)
	// KeyFile is the master key of this machine, and KeyID returns its name.
	KeyFile string
	KeyID   func() (string, error)
	// Service is the gateway as its callers see it, and Version the version that it must report.
	Service job.Service
	Version string
	job.Waiting
}

// maxAttempts is how often an interrupted swap is retried: one that crashes the machine would otherwise do so forever.
const maxAttempts = 5

// Run carries out the stored request, or resumes where it was interrupted. Without a request it does nothing.
func (r *Runner) Run(ctx context.Context) error { return r.task().Run(ctx) }

func (r *Runner) task() *job.Task[Wish, Record] {
	return &job.Task[Wish, Record]{
		Name: job.Restore, Folder: r.Folder, Log: r.Log, Goes: job.Passphrase, Hold: host.RestoreHold,
		Begun: func(w Wish, last Record) Record {
			return Record{Restore: Job.Begun(w), Interfaces: w.Interfaces, Guarded: last.State == job.Stuck || last.Guarded}
		},
		Await:    r.awaitDatabase,
		Changing: []string{stepSwap, stepConfirm}, Returning: []string{stepReturn, stepRecover},
		Forward: r.goForward, Back: r.goBack, Clean: r.clean,
	}
}

// databaseWithin is how long the database may take to start at boot.
const databaseWithin = 2 * time.Minute

// awaitDatabase waits for the database. If it stays away, the step that needs it fails.
func (r *Runner) awaitDatabase(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, databaseWithin)
	defer cancel()
	if err := r.Server.Await(ctx); err != nil {
		r.Log.Warn("the database does not answer", "err", err)
	}
}

// step does one step, between its two failpoints.
func (r *Runner) step(ctx context.Context, rec *Record, name string, do func(context.Context) error) error {
	return r.task().Step(ctx, rec, name, func(ctx context.Context) error {
		if err := failpoint.Hit("restore." + name + ".begun"); err != nil {
			return err
		}
		if err := do(ctx); err != nil {
			return err
		}
		return failpoint.Hit("restore." + name + ".done")
	})
}

// goForward does the steps up to a gateway that serves with the new data.
func (r *Runner) goForward(ctx context.Context, rec *Record) error {
	if !rec.At(stepSwap, stepConfirm) {
		// Nothing before the swap changes live data, so it starts over.
		if err := r.prepare(ctx, rec); err != nil {
			return err
		}
	}
	if !rec.At(stepConfirm) {
		if rec.Attempts++; rec.Attempts > maxAttempts {
			return fmt.Errorf("the swap was interrupted %d times", maxAttempts)
		}
		if err := r.step(ctx, rec, stepSwap, func(ctx context.Context) error { return r.swap(ctx, rec) }); err != nil {
			return err
		}
	}
	return r.step(ctx, rec, stepConfirm, func(ctx context.Context) error { return r.confirm(ctx, rec) })
}

// Databases beside the gateway's own.
func (r *Runner) next() string   { return r.Server.Live() + "_restore" }
func (r *Runner) former() string { return r.Server.Live() + "_former" }

// Folders of a restore, in root's folder.
const (
	unpacked = "unpacked" // what the archive contains
	tried    = "tried"    // a copy of it for the trial, which may write there
	kept     = "kept"     // the files that were live before
)

// reserved is the space set aside for the record and for putting files back.
const reserved = 16 << 20

func (r *Runner) prepare(ctx context.Context, rec *Record) error {
	err := r.step(ctx, rec, stepVerify, func(ctx context.Context) (err error) {
		if rec.Live == nil {
			rec.Live = r.Service.Live(ctx, r.Waiting)
		}
		if err := r.makeRoom(ctx, rec); err != nil {
			return err
		}
		id, err := uuid.Parse(rec.Backup)
		if err != nil {
			return err
		}
		passphrase, err := os.ReadFile(r.Folder.Path(job.Passphrase))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if rec.Manifest, err = recovery.Unpack(ctx, r.Archive(id), string(passphrase), r.Folder.Path(unpacked)); err != nil {
			return err
		}
		rec.Host, rec.MadeAt = rec.Manifest.Host, rec.Manifest.CreatedAt
		if err := recovery.CheckSchema(rec.Manifest, r.Migrations); err != nil {
			return err
		}
		return r.Folder.Reserve(reserved)
	})
	if err != nil {
		return err
	}
	err = r.step(ctx, rec, stepLoad, func(ctx context.Context) error {
		if err := recovery.Load(ctx, r.Machine, r.Server, r.next(), r.Migrations, rec.Manifest, r.Folder.Path(unpacked)); err != nil {
			return err
		}
		if err := recovery.Compare(ctx, r.Server, r.next(), rec.Manifest); err != nil {
			return err
		}
		return r.Server.Analyze(ctx, r.next())
	})
	if err != nil {
		return err
	}
	return r.step(ctx, rec, stepCheck, func(ctx context.Context) error { return r.check(ctx, rec) })
}

// makeRoom drops the old database if an earlier restore could not, for example because of an open session: this restore needs the name.
func (r *Runner) makeRoom(ctx context.Context, rec *Record) error {
	left, err := r.Server.Exists(ctx, r.former())
	if err != nil {
		return err
	}
	if left && rec.Guarded {
		return fmt.Errorf("the database %s is left from a restore that got stuck, and may be the only one with the data from before it. Drop it when you no longer need it, then restore again", r.former())
	}
	rec.Guarded = false
	if !left {
		return nil
	}
	if err := r.Server.Drop(ctx, r.former()); err != nil {
		return fmt.Errorf("the database %s is left from another restore and cannot be dropped. End the sessions in it, then restore again: %w", r.former(), err)
	}
	return nil
}

// check migrates the loaded database, and has every daemon check its new configuration.
func (r *Runner) check(ctx context.Context, rec *Record) error {
	if err := copyFolder(r.Folder.Path(tried), r.Folder.Path(unpacked), archive.State); err != nil {
		return err
	}
	keyFile := r.KeyFile
	rec.Warnings = nil
	if rec.Manifest.Has(archive.MasterKey) {
		keyFile = r.Folder.Path(unpacked) + "/" + archive.MasterKey
	} else if id, err := r.KeyID(); err != nil {
		return err
	} else if id != rec.Manifest.KeyID {
		rec.Warnings = append(rec.Warnings, "The secrets in the backup are encrypted with a master key that this machine does not have. Enter them again.")
	}
	state := r.Folder.Path(tried) + "/state"
	warnings, err := r.Adapt(ctx, r.next(), state, keyFile, rec.Interfaces)
	if err != nil {
		return fmt.Errorf("the database cannot be brought up to date: %w", err)
	}
	rec.Warnings = append(rec.Warnings, warnings...)
	// The gateway then generates a new secret: nothing signed before the restore, or before the backup, stays valid.
	if err := os.Remove(filepath.Join(r.Folder.Path(unpacked), archive.State, "jwt-secret")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	problems, err := r.Try(ctx, r.next(), state, keyFile)
	if err != nil {
		return err
	}
	var refused []string
	for name, why := range problems {
		refused = append(refused, name+": "+why)
	}
	if len(refused) > 0 {
		slices.Sort(refused)
		return fmt.Errorf("not everything would run: %s", strings.Join(refused, "; "))
	}
	return nil
}

// programs lists the gateway's programs that write its data, in starting order.
var programs = []host.Unit{host.API, host.Scheduler}

// hold stops the programs, and keeps them from starting.
func (r *Runner) hold(ctx context.Context) error {
	if err := r.Folder.Save(host.RestoreHold, time.Now().UTC()); err != nil {
		return err
	}
	for _, u := range slices.Backward(programs) {
		if err := r.Units.Stop(ctx, u); err != nil && !errors.Is(err, host.ErrNotInstalled) {
			return err
		}
	}
	return nil
}

// release starts the programs. It does not wait until they serve.
func (r *Runner) release(ctx context.Context) error {
	if err := r.Folder.Remove(host.RestoreHold); err != nil {
		return err
	}
	for _, u := range programs {
		if err := r.Units.Start(ctx, u); err != nil && !errors.Is(err, host.ErrNotInstalled) {
			fmt.Fprintln(job.Output(ctx), err)
		}
	}
	return nil
}

// swap replaces the files and the database. It may be repeated.
func (r *Runner) swap(ctx context.Context, rec *Record) error {
	if err := r.hold(ctx); err != nil {
		return err
	}
	if err := failpoint.Hit("restore.swap.held"); err != nil {
		return err
	}
	if !rec.Kept {
		if err := r.Files.keep(r.Folder.Path(kept)); err != nil {
			return fmt.Errorf("the files from before cannot be set aside: %w", err)
		}
		rec.Kept = true
		if err := r.task().Save(rec); err != nil {
			return err
		}
	}
	if err := failpoint.Hit("restore.swap.kept"); err != nil {
		return err
	}
	if err := r.Files.replace(r.Folder.Path(unpacked), rec.Manifest.Has(archive.MasterKey)); err != nil {
		return fmt.Errorf("the files cannot be replaced: %w", err)
	}
	if err := failpoint.Hit("restore.swap.files"); err != nil {
		return err
	}
	if err := r.Server.Exchange(ctx, r.next(), r.former()); err != nil {
		return fmt.Errorf("the database cannot be replaced: %w", err)
	}
	return failpoint.Hit("restore.swap.database")
}

// settlesWithin is how long components may take to run once the gateway serves. Those that do not run by then are reported.
const settlesWithin = time.Minute

// reverseProxy is the component that serves the console.
const reverseProxy = "reverse-proxy"

// confirm starts the programs, and waits until they serve.
func (r *Runner) confirm(ctx context.Context, rec *Record) error {
	if err := r.release(ctx); err != nil {
		return err
	}
	if err := r.await(ctx, rec); err != nil {
		return err
	}
	// A backup of another machine may configure something that cannot run here. That is reported, but is no reason to revert.
	settling, cancel := context.WithTimeout(ctx, settlesWithin)
	defer cancel()
	for {
		waiting, idle := r.Service.Waiting(settling)
		if len(waiting) == 0 || settling.Err() != nil {
			rec.Warnings = append(rec.Warnings, idle...)
			return nil
		}
		select {
		case <-settling.Done():
		case <-time.After(r.Every):
		}
	}
}

func (r *Runner) await(ctx context.Context, rec *Record) error {
	var live []string
	if slices.Contains(rec.Live, reverseProxy) {
		live = []string{reverseProxy}
	}
	return r.Await(ctx, "the gateway", func(ctx context.Context) error { return r.Service.Ready(ctx, r.Version, live) })
}

// goBack does the steps back to the old data. It may be repeated after an interruption.
func (r *Runner) goBack(ctx context.Context, rec *Record) error {
	if !rec.At(stepRecover) {
		err := r.task().Step(ctx, rec, stepReturn, func(ctx context.Context) error {
			if err := r.hold(ctx); err != nil {
				return err
			}
			// If one of the two fails, the other is still put back, so that less remains to be done by hand.
			return errors.Join(r.returnDatabase(ctx), r.returnFiles(rec))
		})
		if err != nil {
			return err
		}
	}
	return r.task().Step(ctx, rec, stepRecover, func(ctx context.Context) error {
		if err := r.release(ctx); err != nil {
			return err
		}
		return r.await(ctx, rec)
	})
}

// returnDatabase puts the old database back. As long as the new one has its own name, the old one was not replaced.
func (r *Runner) returnDatabase(ctx context.Context) error {
	waiting, err := r.Server.Exists(ctx, r.next())
	if err == nil && !waiting {
		err = r.Server.Exchange(ctx, r.former(), r.next())
	}
	if err != nil {
		return fmt.Errorf("the database cannot be put back: %w", err)
	}
	return nil
}

func (r *Runner) returnFiles(rec *Record) error {
	if !rec.Kept {
		return nil
	}
	if err := r.Files.replace(r.Folder.Path(kept), true); err != nil {
		return fmt.Errorf("the files cannot be put back: %w", err)
	}
	return nil
}

// clean removes what no later restore needs. The replaced data are deleted once the gateway serves without them.
func (r *Runner) clean(ctx context.Context, rec *Record) error {
	var failed []error
	if rec.State != job.Stuck && !rec.Guarded {
		for _, name := range []string{r.next(), r.former()} {
			failed = append(failed, r.Server.Drop(ctx, name))
		}
		failed = append(failed, os.RemoveAll(r.Folder.Path(kept)))
	}
	for _, name := range []string{unpacked, tried} {
		failed = append(failed, os.RemoveAll(r.Folder.Path(name)))
	}
	return errors.Join(failed...)
}
