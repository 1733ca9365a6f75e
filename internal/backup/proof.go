package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"edge.internal/gateway/internal/backup/archive"
	"edge.internal/gateway/internal/backup/recovery"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/rescue"
	"edge.internal/gateway/internal/kit/secret"
)

// Key opens an encrypted backup.
type Key struct {
	Passphrase secret.Text `json:"passphrase,omitzero" doc:"Opens an encrypted backup. By default the passphrase in the settings is tried."`
}

// passphrase returns the given passphrase, or the one in the settings.
func (r *Room) passphrase(ctx context.Context, given *Key) (string, error) {
	if given != nil {
		if text, fresh := given.Passphrase.Fresh(); fresh {
			return text, nil
		}
	}
	if !r.DB.Attached() {
		return "", nil
	}
	_, text, err := r.configured(ctx, r.DB)
	return text, err
}

// refused turns an error about an archive into a fault for the caller.
func refused(err error) error {
	switch {
	case errors.Is(err, archive.ErrPassphrase):
		return fault.Field("passphrase", "does not open this backup")
	case errors.Is(err, archive.ErrDamaged), errors.Is(err, recovery.ErrSchema):
		return fault.Wrap(fault.Conflict, err, "%s", sentence(err))
	}
	return err
}

func (r *Room) verify(c *httpd.Call, in struct {
	ID   uuid.UUID `path:"id"`
	Body *Key
}) (Backup, error) {
	b, err := r.complete(in.ID)
	if err != nil {
		return Backup{}, err
	}
	passphrase, err := r.passphrase(c, in.Body)
	if err != nil {
		return Backup{}, err
	}
	if err := r.opens(b, passphrase); err != nil {
		return Backup{}, err
	}
	end, err := r.begin("The proof of a backup")
	if err != nil {
		return Backup{}, err
	}
	defer end()
	err = r.Audit.Do(c, "backup.verify", b.File, func() (any, error) {
		b = r.prove(actor.With(r.life, c.Actor), b, passphrase)
		return map[string]string{"status": b.Proof.Status}, nil
	})
	return viewFor(b, c.Actor), err
}

// opens refuses a missing or wrong passphrase before anything is tried.
func (r *Room) opens(b Backup, passphrase string) error {
	if !b.Encrypted {
		return nil
	}
	f, size, err := recovery.OpenFile(r.archiveAt(b.ID))
	if err != nil {
		return err
	}
	defer f.Close()
	opened, err := archive.Open(f, size, passphrase)
	if errors.Is(err, archive.ErrPassphrase) {
		return refused(err)
	}
	if err == nil {
		opened.Close()
	}
	return nil // the trial reports any other problem
}

// prove tries to restore a backup, and records the result.
func (r *Room) prove(ctx context.Context, b Backup, passphrase string) Backup {
	p := &Proof{Status: running, StartedAt: *r.now(), Changed: []string{}}
	b.Proof = p
	r.progress(b)
	defer r.finished(b.ID)
	if err := r.save(&b); err != nil {
		r.Log.Warn("the proof of a backup cannot be described", "err", err)
	}
	tried := *p
	err := r.try(ctx, b, passphrase, &tried)
	tried.FinishedAt = r.now()
	tried.DurationMS = tried.FinishedAt.Sub(tried.StartedAt).Milliseconds()
	tried.Status = proven
	if err != nil {
		tried.Status, tried.Error = failed, sentence(err)
		r.Log.Error("a backup cannot be restored", "backup", b.File, "err", err)
		err = r.Alarms.Raise(ctx, alarm.Alarm{Kind: verifyFailed, Key: b.ID.String(), Subject: "The backup " + b.File + " cannot be restored", Message: "The trial restore failed. Administrators see the reason in the list of backups."})
	} else {
		err = r.Alarms.Clear(ctx, verifyFailed, b.ID.String())
	}
	if err != nil {
		r.Log.Warn("reporting the proof of a backup", "err", err)
	}
	b.Proof = &tried
	r.finished(b.ID)
	if err := r.save(&b); err != nil {
		r.Log.Warn("the proof of a backup cannot be described", "err", err)
	}
	return b
}

// try does what a restore does, up to the point where live data would be replaced.
func (r *Room) try(ctx context.Context, b Backup, passphrase string, p *Proof) (err error) {
	defer rescue.Into(&err, r.Log, "backup")
	folder, err := os.MkdirTemp(r.Paths.Backups(""), unfinished)
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	m, err := recovery.Unpack(ctx, r.archiveAt(b.ID), passphrase, filepath.Join(folder, "unpacked"))
	if err != nil {
		return err
	}
	box, err := r.box(m, filepath.Join(folder, "unpacked"))
	if err != nil {
		return err
	}
	defer func() {
		if dropped := r.deps.Server.Drop(context.WithoutCancel(ctx), r.scratch()); dropped != nil {
			r.Log.Warn("dropping the database of a proof", "err", dropped)
		}
	}()
	var live map[string]db.Content
	both, loading := errgroup.WithContext(ctx)
	both.Go(func() error {
		return recovery.Load(loading, r.Host, r.deps.Server, r.scratch(), r.deps.Migrations, m, filepath.Join(folder, "unpacked"))
	})
	both.Go(func() (err error) {
		live, err = r.deps.Server.Contents(loading, r.deps.Server.Live())
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	for _, t := range m.Tables {
		p.Rows += t.Rows
	}
	p.Tables = len(m.Tables)
	p.Changed = slices.DeleteFunc(recovery.Differ(m.Tables, live), func(table string) bool { return slices.Contains(r.deps.Transient, table) })
	newest, _, err := db.Newest(r.deps.Migrations)
	if err != nil {
		return err
	}
	trial, ctx := errgroup.WithContext(ctx)
	compare := func() error { return recovery.Compare(ctx, r.deps.Server, r.scratch(), m) }
	if m.Schema == newest {
		trial.Go(compare)
	} else if err := compare(); err != nil { // a database that must be migrated was compared before
		return err
	}
	trial.Go(func() error {
		problems, err := r.deps.Try(ctx, r.scratch(), filepath.Join(folder, "unpacked", "state"), box)
		if err != nil {
			return err
		}
		return problemsError(problems)
	})
	return trial.Wait()
}

// box opens the secrets of an archive: with its own key, if it has one.
func (r *Room) box(m archive.Manifest, folder string) (*secret.Box, error) {
	if !m.Has(archive.MasterKey) {
		return r.Secrets, nil
	}
	box, err := secret.Open(filepath.Join(folder, archive.MasterKey))
	if err == nil && box.KeyID() != m.KeyID {
		err = errors.New("the master key of the archive is another one than its manifest says")
	}
	return box, err
}

// problemsError returns an error that names the components that failed.
func problemsError(problems map[string]string) error {
	if len(problems) == 0 {
		return nil
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		list = append(list, name+": "+problems[name])
	}
	return fmt.Errorf("it can be loaded, but not everything of it would run: %s", strings.Join(list, "; "))
}
