// Package upgrade replaces the gateway by another version of its package, and takes that back when the new version does not serve.
//
// It is a list of steps. Each is written down before it begins and after it has ended, so that after a power cut or a kill the next
// start knows where the last one was. Until the installation begins nothing is changed, and the upgrade is merely refused; from then on
// it ends with the new version serving, or with the former one and its data.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/job"
)

// The steps, by the names that people see.
const (
	stepFetch     = "fetch"     // fetch the new package and the former one, and keep both
	stepBackUp    = "back-up"   // the database and the state folder
	stepVerify    = "verify"    // space, dpkg's state, versions and hashes
	stepInstall   = "install"   // the new package
	stepConfirm   = "confirm"   // it serves
	stepReinstall = "reinstall" // the former package
	stepRestore   = "restore"   // the database and the state folder
	stepRecover   = "recover"   // the former version serves
)

// Effects is what an upgrade does to the machine. All of it may be done again after it was interrupted. What programs say goes to
// the writer of the context.
type Effects interface {
	// Installed is the version that dpkg has, whatever state its package is in.
	Installed(ctx context.Context) (string, error)
	// Live are the components that are live; none when the gateway does not tell for as long as it may take to start.
	Live(ctx context.Context, w job.Waiting) []string
	// Fetch has a version's package, from apt or from an earlier fetch.
	Fetch(ctx context.Context, version string) (Package, error)
	// BackUp stops the gateway's programs, so that nothing changes any more, and writes a backup. When it fails they run again.
	BackUp(ctx context.Context, id string) error
	// Verify complains about what would make the installation or its way back fail, and sets aside the space that the way back needs.
	Verify(ctx context.Context, id string, former, next Package) error
	// Resume has the gateway's programs run, after an upgrade that was refused.
	Resume(ctx context.Context) error
	// Install installs the new package.
	Install(ctx context.Context, next Package) error
	// Reinstall installs the former package, whatever state dpkg is in.
	Reinstall(ctx context.Context, former Package) error
	// Restore brings back what BackUp has written, whole or not at all, and has the gateway's programs run.
	Restore(ctx context.Context, id string) error
	// Ready complains until the version serves and the components are live. It asks once.
	Ready(ctx context.Context, version string, live []string) error
	// Clean removes the backups and packages that no later upgrade needs.
	Clean(keep Record) error
}

// Package is a package that was fetched.
type Package struct {
	Version string `json:"version"`
	File    string `json:"file"`    // its name in the folder of packages
	SHA256  string `json:"sha256"`  // of the file
	Unpacks int64  `json:"unpacks"` // bytes that it takes when it is installed
}

// Record is an upgrade with what it needs to go on.
type Record struct {
	host.Upgrade
	Live   []string `json:"live"`
	Former Package  `json:"former"`
	Next   Package  `json:"next"`
	// Step is the last step that was begun.
	Step string `json:"step"`
	// Attempts counts how often the installation was begun.
	Attempts int `json:"attempts"`
}

// Runner does upgrades.
type Runner struct {
	Folder  job.Folder
	Effects Effects
	Log     *slog.Logger
	job.Waiting
}

// maxAttempts is how often an installation that is interrupted is begun: one that takes the machine down would do so for ever.
const maxAttempts = 3

// Run grants the wish that is written down, or goes on where it was interrupted. Without a wish there is nothing to do.
func (r *Runner) Run(ctx context.Context) error {
	release, err := r.Folder.Lock()
	if err != nil {
		return fmt.Errorf("%w: %w", host.ErrUpgradeRuns, err)
	}
	defer release()
	if err := r.Folder.Sweep(host.UpgradeFile); err != nil {
		return err
	}
	var wish host.UpgradeWish
	if err := r.Folder.Load(host.UpgradeWishFile, &wish); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		// It was written whole or not at all: this is damage, and stays so.
		return errors.Join(err, r.Folder.Remove(host.UpgradeWishFile))
	}
	rec := &Record{}
	if err := r.Folder.Load(host.UpgradeFile, rec); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Log.Warn("the record of the last upgrade is lost", "err", err)
		rec = &Record{}
	}
	if rec.ID != wish.ID {
		rec = &Record{Upgrade: host.Upgrade{ID: wish.ID, To: wish.Version, State: host.JobRunning, BeganAt: wish.At}}
	}
	if rec.State == host.JobRunning {
		r.ledger(rec).Interrupted()
		if err := r.advance(ctx, rec); err != nil {
			return err // the wish stays, and with it the way on
		}
	}
	if err := r.Effects.Clean(*rec); err != nil {
		r.Log.Warn("cleaning up after an upgrade", "err", err)
	}
	return errors.Join(r.Folder.Release(), r.Folder.Remove(host.UpgradeWishFile))
}

// advance does what is left of an upgrade. An error says that it could not be brought to an end now.
func (r *Runner) advance(ctx context.Context, rec *Record) error {
	return (&job.Course{
		Ledger: r.ledger(rec), Name: "upgrade", Reason: &rec.Reason,
		Changing: []string{stepInstall, stepConfirm}, Returning: []string{stepReinstall, stepRestore, stepRecover},
		Forward: func(ctx context.Context) error { return r.goForward(ctx, rec) },
		Back:    func(ctx context.Context) error { return r.goBack(ctx, rec) },
		Refused: func(ctx context.Context) {
			// Nothing was changed, but the programs may be stopped.
			if err := r.Effects.Resume(ctx); err != nil {
				r.Log.Error("starting the gateway again", "err", err)
			}
		},
		End: func(state host.JobState, reason string) error { return r.end(rec, state, reason) },
	}).Advance(ctx)
}

// goForward does the steps up to the new version that serves.
func (r *Runner) goForward(ctx context.Context, rec *Record) error {
	if !rec.at(stepInstall, stepConfirm) {
		// What comes before the installation changes nothing: it is done from the start, for the machine may have changed since.
		if err := r.Folder.First(host.UpgradeWishFile); err != nil {
			return err
		}
		if err := r.prepare(ctx, rec); err != nil {
			return err
		}
	}
	if !rec.at(stepConfirm) {
		if rec.Attempts++; rec.Attempts > maxAttempts {
			return fmt.Errorf("the installation was interrupted %d times", maxAttempts)
		}
		if err := r.step(ctx, rec, stepInstall, func(ctx context.Context) error { return r.Effects.Install(ctx, rec.Next) }); err != nil {
			return err
		}
	}
	return r.step(ctx, rec, stepConfirm, func(ctx context.Context) error { return r.await(ctx, rec.To, rec.Live) })
}

// prepare fetches, backs up and verifies.
func (r *Runner) prepare(ctx context.Context, rec *Record) error {
	err := r.step(ctx, rec, stepFetch, func(ctx context.Context) (err error) {
		if rec.From, err = r.Effects.Installed(ctx); err != nil {
			return err
		}
		if rec.Live == nil {
			rec.Live = r.Effects.Live(ctx, r.Waiting)
		}
		if rec.Next, err = r.Effects.Fetch(ctx, rec.To); err != nil {
			return fmt.Errorf("the package of version %s cannot be fetched: %w", rec.To, err)
		}
		if rec.Former, err = r.Effects.Fetch(ctx, rec.From); err != nil {
			return fmt.Errorf("the package of the installed version %s cannot be fetched, so that the upgrade could not be taken back: %w", rec.From, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.step(ctx, rec, stepBackUp, func(ctx context.Context) error { return r.Effects.BackUp(ctx, rec.ID) }); err != nil {
		return err
	}
	return r.step(ctx, rec, stepVerify, func(ctx context.Context) error { return r.Effects.Verify(ctx, rec.ID, rec.Former, rec.Next) })
}

// goBack does the steps back to the former version. One that was interrupted is done again.
func (r *Runner) goBack(ctx context.Context, rec *Record) error {
	if !rec.at(stepRestore, stepRecover) {
		if err := r.step(ctx, rec, stepReinstall, func(ctx context.Context) error { return r.Effects.Reinstall(ctx, rec.Former) }); err != nil {
			return err
		}
	}
	if !rec.at(stepRecover) {
		if err := r.step(ctx, rec, stepRestore, func(ctx context.Context) error { return r.Effects.Restore(ctx, rec.ID) }); err != nil {
			return err
		}
	}
	return r.step(ctx, rec, stepRecover, func(ctx context.Context) error { return r.await(ctx, rec.From, rec.Live) })
}

// await asks until a version serves.
func (r *Runner) await(ctx context.Context, version string, live []string) error {
	return r.Waiting.Await(ctx, "version "+version, func(ctx context.Context) error { return r.Effects.Ready(ctx, version, live) })
}

// ledger is where the steps of an upgrade are written down.
func (r *Runner) ledger(rec *Record) *job.Ledger {
	return &job.Ledger{Folder: r.Folder, File: host.UpgradeFile, Log: r.Log, Record: rec, Step: &rec.Step, Steps: &rec.Steps}
}

func (r *Runner) step(ctx context.Context, rec *Record, name string, do func(context.Context) error) error {
	return r.ledger(rec).Do(ctx, name, do)
}

// end writes down how an upgrade ended.
func (r *Runner) end(rec *Record, state host.JobState, reason string) error {
	rec.State, rec.Reason, rec.EndedAt = state, job.Sentence(reason), time.Now().UTC()
	r.Log.Info("the upgrade has ended", "state", string(state), "from", rec.From, "to", rec.To, "reason", reason)
	return r.ledger(rec).Save()
}

// at tells whether the last step that was begun is one of some.
func (rec *Record) at(steps ...string) bool { return slices.Contains(steps, rec.Step) }
