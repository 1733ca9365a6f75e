// Package runner replaces the gateway by another version of its package, and reverts if the new version does not serve.
//
// Before the installation nothing is changed, and a failure only refuses the upgrade. Once the installation has begun, the upgrade ends
// either with the new version serving, or with the old one and its data.
package runner

import (
	"context"
	"fmt"
	"log/slog"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/job"
)

// Steps, by the names that people see.
const (
	stepFetch     = "fetch"     // fetch the new package and the old one, and keep both
	stepBackUp    = "back-up"   // the database and the state folder
	stepVerify    = "verify"    // space, dpkg's state, versions and hashes
	stepInstall   = "install"   // the new package
	stepConfirm   = "confirm"   // wait until it serves
	stepReinstall = "reinstall" // install the old package again
	stepRestore   = "restore"   // the database and the state folder
	stepRecover   = "recover"   // wait until the old version serves
)

// Job describes the upgrade to those who start or follow it.
var Job = job.Kind[Wish, Upgrade]{Name: job.Upgrade, Begun: func(w Wish) Upgrade { return Upgrade{To: w.Version} }}

// Wish is a request for a version.
type Wish struct {
	job.Wish
	Version string `json:"version"`
}

// Check refuses a version that no package can have.
func (w Wish) Check() error { return host.IsVersion(w.Version) }

// Upgrade is the public part of an upgrade's record.
type Upgrade struct {
	job.Record
	From string `json:"from"` // empty until it is known
	To   string `json:"to"`
}

// Effects are the effects of an upgrade on the machine. Each may be repeated after an interruption. Output of programs goes to the writer
// in the context.
type Effects interface {
	// Installed returns the version that dpkg has, whatever the state of its package.
	Installed(ctx context.Context) (string, error)
	// Live returns the components that are live; none if the gateway does not answer for as long as it may take to start.
	Live(ctx context.Context, w job.Waiting) []string
	// Fetch gets a version's package, from apt or from an earlier fetch.
	Fetch(ctx context.Context, version string) (host.PackageFile, error)
	// BackUp stops the gateway's programs, so that nothing changes any more, and writes a backup. If it fails they run again.
	BackUp(ctx context.Context, id string) error
	// Verify refuses what would make the installation or its reversal fail, and reserves the space that the reversal needs.
	Verify(ctx context.Context, id string, former, next host.PackageFile) error
	// Resume starts the gateway's programs after a refused upgrade.
	Resume(ctx context.Context) error
	// Install installs the new package.
	Install(ctx context.Context, next host.PackageFile) error
	// Reinstall installs the old package, whatever the state of dpkg.
	Reinstall(ctx context.Context, former host.PackageFile) error
	// Restore restores what BackUp has written, completely or not at all, and starts the gateway's programs.
	Restore(ctx context.Context, id string) error
	// Ready returns an error unless the version serves and the components are live. It checks once.
	Ready(ctx context.Context, version string, live []string) error
	// Clean removes the backups and packages that no later upgrade needs, except those of one.
	Clean(id string, former, next host.PackageFile) error
}

// Record is an upgrade with what it needs to continue after an interruption.
type Record struct {
	Upgrade
	Live   []string         `json:"live"`
	Former host.PackageFile `json:"former"`
	Next   host.PackageFile `json:"next"`
}

// Runner runs upgrades.
type Runner struct {
	Folder  job.Folder
	Effects Effects
	Log     *slog.Logger
	job.Waiting
}

// maxAttempts is how often an interrupted installation is retried: one that crashes the machine would otherwise do so forever.
const maxAttempts = 3

// Run carries out the stored request, or resumes where it was interrupted. Without a request it does nothing.
func (r *Runner) Run(ctx context.Context) error { return r.task().Run(ctx) }

func (r *Runner) task() *job.Task[Wish, Record] {
	return &job.Task[Wish, Record]{
		Name: job.Upgrade, Folder: r.Folder, Log: r.Log,
		Begun:    func(w Wish, _ Record) Record { return Record{Upgrade: Job.Begun(w)} },
		Changing: []string{stepInstall, stepConfirm}, Returning: []string{stepReinstall, stepRestore, stepRecover},
		Forward: r.goForward, Back: r.goBack,
		Refused: func(ctx context.Context) {
			// Nothing was changed, but the programs may be stopped.
			if err := r.Effects.Resume(ctx); err != nil {
				r.Log.Error("starting the gateway again", "err", err)
			}
		},
		Clean: func(_ context.Context, rec *Record) error { return r.Effects.Clean(rec.ID, rec.Former, rec.Next) },
	}
}

// goForward does the steps up to the new version that serves.
func (r *Runner) goForward(ctx context.Context, rec *Record) error {
	if !rec.At(stepInstall, stepConfirm) {
		// Nothing before the installation changes anything, so it starts over: the machine may have changed.
		if err := r.prepare(ctx, rec); err != nil {
			return err
		}
	}
	if !rec.At(stepConfirm) {
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

// goBack does the steps back to the old version. It may be repeated after an interruption.
func (r *Runner) goBack(ctx context.Context, rec *Record) error {
	if !rec.At(stepRestore, stepRecover) {
		if err := r.step(ctx, rec, stepReinstall, func(ctx context.Context) error { return r.Effects.Reinstall(ctx, rec.Former) }); err != nil {
			return err
		}
	}
	if !rec.At(stepRecover) {
		if err := r.step(ctx, rec, stepRestore, func(ctx context.Context) error { return r.Effects.Restore(ctx, rec.ID) }); err != nil {
			return err
		}
	}
	return r.step(ctx, rec, stepRecover, func(ctx context.Context) error { return r.await(ctx, rec.From, rec.Live) })
}

// await waits until a version serves.
func (r *Runner) await(ctx context.Context, version string, live []string) error {
	return r.Waiting.Await(ctx, "version "+version, func(ctx context.Context) error { return r.Effects.Ready(ctx, version, live) })
}

func (r *Runner) step(ctx context.Context, rec *Record, name string, do func(context.Context) error) error {
	return r.task().Step(ctx, rec, name, do)
}
