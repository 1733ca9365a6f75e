// Package restore replaces the gateway's data by those of a backup, and takes that back when the gateway does not serve with them.
//
// It is a list of steps, as an upgrade is. Until the data are swapped nothing that is live is touched, and the restore is merely refused:
// the archive is verified and unpacked, loaded into a database beside the gateway's, brought up to date, and every daemon is asked about what
// it would get. The swap happens while the gateway's programs stand still, and a mark keeps them from starting in the middle of it. From its
// beginning on a restore ends with the new data whole, or with the old ones.
package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/archive"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/home"
	"edge.internal/gateway/internal/kit/host/machine/job"
	"edge.internal/gateway/internal/kit/recovery"
)

// The steps, by the names that people see.
const (
	stepVerify  = "verify"  // verify the archive, and unpack it aside
	stepLoad    = "load"    // load its database beside the gateway's
	stepCheck   = "check"   // bring that up to date, render everything, ask every daemon
	stepSwap    = "swap"    // replace the data while the programs stand still
	stepConfirm = "confirm" // they serve
	stepReturn  = "return"  // put the former data back
	stepRecover = "recover" // the programs serve with them
)

// Record is a restore with what it needs to go on.
type Record struct {
	host.Restore
	Interfaces map[string]string `json:"interfaces"`
	Manifest   archive.Manifest  `json:"manifest"`
	// Live are the components that were live before.
	Live []string `json:"live"`
	// Kept says that the former files are set aside, so that live ones may be replaced.
	Kept bool `json:"kept"`
	// Step is the last step that was begun.
	Step string `json:"step"`
	// Attempts counts how often the swap was begun.
	Attempts int `json:"attempts"`
	// Guarded says that what is set aside may be of a restore that got stuck: it is for people to remove.
	Guarded bool `json:"guarded"`
}

// Runner does restores. It needs root.
type Runner struct {
	Home    home.Home
	Folder  job.Folder
	Log     *slog.Logger
	Machine host.Backups
	Units   host.Units
	Server  *db.Server
	// Migrations make the schema.
	Migrations fs.FS
	// Files are the owners and places of state files.
	Files Files
	// Adapt brings a loaded database up to date, and makes what is in it fit this machine, with links as they are called here, and Try says which components would not take what is
	// in it. Both get a copy of the state folder that belongs to it, and the file of the master key that opens the secrets.
	Adapt func(ctx context.Context, database, state, keyFile string, links map[string]string) (warnings []string, err error)
	Try   func(ctx context.Context, database, state, keyFile string) (map[string]string, error)
	// KeyFile is the master key of this machine, and KeyID names it.
	KeyFile string
	KeyID   func() (string, error)
	// Service is the gateway as its callers see it, and Version what it is to be.
	Service job.Service
	Version string
	job.Waiting
}

// maxAttempts is how often a swap that is interrupted is begun: one that takes the machine down would do so for ever.
const maxAttempts = 5

// Run grants the wish that is written down, or goes on where it was interrupted. Without a wish there is nothing to do.
func (r *Runner) Run(ctx context.Context) error {
	release, err := r.Folder.Lock()
	if err != nil {
		return fmt.Errorf("%w: %w", host.ErrRestoreRuns, err)
	}
	defer release()
	for _, name := range []string{host.RestoreFile, host.RestorePassphrase, host.RestoreWishFile} {
		if err := r.Folder.Sweep(name); err != nil {
			return err
		}
	}
	var wish host.RestoreWish
	if err := r.Folder.Load(host.RestoreWishFile, &wish); errors.Is(err, fs.ErrNotExist) {
		return r.Folder.Remove(host.RestoreHold)
	} else if err != nil {
		// It was written whole or not at all: this is damage, and stays so.
		return errors.Join(err, r.Folder.Remove(host.RestoreHold), r.Folder.Remove(host.RestoreWishFile))
	}
	rec := &Record{}
	if err := r.Folder.Load(host.RestoreFile, rec); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Log.Warn("the record of the last restore is lost", "err", err)
		rec = &Record{}
	}
	if rec.ID != wish.ID {
		rec = &Record{
			Restore:    host.Restore{ID: wish.ID, Backup: wish.Backup, State: host.JobRunning, BeganAt: wish.At},
			Interfaces: wish.Interfaces, Guarded: rec.State == host.JobStuck || rec.Guarded,
		}
	}
	if rec.State == host.JobRunning {
		r.ledger(rec).Interrupted()
		if err := r.awaitDatabase(ctx); err != nil {
			r.Log.Warn("the database does not answer", "err", err) // the step that needs it says so, too
		}
		if err := r.advance(ctx, rec); err != nil {
			return err // the wish stays, and with it the way on
		}
	}
	if err := r.clean(ctx, rec); err != nil {
		r.Log.Warn("cleaning up after a restore", "err", err)
	}
	return errors.Join(r.Folder.Release(), r.Folder.Remove(host.RestorePassphrase), r.Folder.Remove(host.RestoreHold), r.Folder.Remove(host.RestoreWishFile))
}

// databaseWithin is how long the database may take to come up at the boot.
const databaseWithin = 2 * time.Minute

func (r *Runner) awaitDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, databaseWithin)
	defer cancel()
	return r.Server.Await(ctx)
}

func (r *Runner) ledger(rec *Record) *job.Ledger {
	return &job.Ledger{Folder: r.Folder, File: host.RestoreFile, Log: r.Log, Record: rec, Step: &rec.Step, Steps: &rec.Steps}
}

// step does one step, between its two failpoints.
func (r *Runner) step(ctx context.Context, rec *Record, name string, do func(context.Context) error) error {
	return r.ledger(rec).Do(ctx, name, func(ctx context.Context) error {
		if err := failpoint.Hit("restore." + name + ".begun"); err != nil {
			return err
		}
		if err := do(ctx); err != nil {
			return err
		}
		return failpoint.Hit("restore." + name + ".done")
	})
}

// end writes down how a restore ended.
func (r *Runner) end(rec *Record, state host.JobState, reason string) error {
	rec.State, rec.Reason, rec.EndedAt = state, job.Sentence(reason), time.Now().UTC()
	r.Log.Info("the restore has ended", "state", string(state), "reason", reason)
	return r.ledger(rec).Save()
}

func (rec *Record) at(steps ...string) bool { return slices.Contains(steps, rec.Step) }

// advance does what is left of a restore. An error says that it could not be brought to an end now.
func (r *Runner) advance(ctx context.Context, rec *Record) error {
	return (&job.Course{
		Ledger: r.ledger(rec), Name: "restore", Reason: &rec.Reason,
		Changing: []string{stepSwap, stepConfirm}, Returning: []string{stepReturn, stepRecover},
		Forward: func(ctx context.Context) error { return r.goForward(ctx, rec) },
		Back:    func(ctx context.Context) error { return r.goBack(ctx, rec) },
		End:     func(state host.JobState, reason string) error { return r.end(rec, state, reason) },
	}).Advance(ctx)
}

// goForward does the steps up to a gateway that serves with the new data.
func (r *Runner) goForward(ctx context.Context, rec *Record) error {
	if !rec.at(stepSwap, stepConfirm) {
		// What comes before the swap changes nothing: it is done from the start.
		if err := r.Folder.First(host.RestoreWishFile); err != nil {
			return err
		}
		if err := r.prepare(ctx, rec); err != nil {
			return err
		}
	}
	if !rec.at(stepConfirm) {
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

// Folders of a restore, in the folder of root's.
const (
	unpacked = "unpacked" // what the archive has
	tried    = "tried"    // a copy of it for the trial, which may write there
	kept     = "kept"     // the files that were live before
)

// reserved is the space that is set aside for the record and for putting files back.
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
		passphrase, err := os.ReadFile(r.Folder.Path(host.RestorePassphrase))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if rec.Manifest, err = recovery.Unpack(ctx, r.Home.Path(host.BackupFile(id)), string(passphrase), r.Folder.Path(unpacked)); err != nil {
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

// check brings the loaded database up to date, and asks every daemon about what it would get.
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
	// Without it the gateway makes another one: what was signed before the restore, or before the backup, is worth nothing.
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

// programs are the gateway's own that write its data, in the order in which they start.
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

// release lets the programs start, and starts them. Whether they serve is another question.
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

// swap replaces the files and the database. All of it may be done again.
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
		if err := r.ledger(rec).Save(); err != nil {
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

// settlesWithin is how long components may take to run after the gateway serves. What does not run then is told.
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
	// What a backup of another machine configures need not run here: that is told, and no reason to take it back.
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

// goBack does the steps back to the former data. One that was interrupted is done again.
func (r *Runner) goBack(ctx context.Context, rec *Record) error {
	if !rec.at(stepRecover) {
		err := r.ledger(rec).Do(ctx, stepReturn, func(ctx context.Context) error {
			if err := r.hold(ctx); err != nil {
				return err
			}
			// Where one of the two fails, the other is put back all the same: less is left to do by hand.
			return errors.Join(r.returnDatabase(ctx), r.returnFiles(rec))
		})
		if err != nil {
			return err
		}
	}
	return r.ledger(rec).Do(ctx, stepRecover, func(ctx context.Context) error {
		if err := r.release(ctx); err != nil {
			return err
		}
		return r.await(ctx, rec)
	})
}

// returnDatabase puts the former database back. As long as the new one has its own name, the former one was not replaced.
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

// clean removes what no later restore needs. What was replaced goes when the gateway serves without it.
func (r *Runner) clean(ctx context.Context, rec *Record) error {
	var failed []error
	if rec.State != host.JobStuck && !rec.Guarded {
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
