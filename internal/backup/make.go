package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/backup/archive"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/disk"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/rescue"
	"edge.internal/gateway/internal/kit/secret"
)

// Uploads sends finished archives to the off-site targets.
type Uploads interface {
	// UploadAll sends an archive to every active target and returns the result for each: one that fails does not affect the others. It
	// reports its progress repeatedly.
	UploadAll(ctx context.Context, a Archive, report func([]UploadResult)) []UploadResult
}

type Archive struct {
	ID uuid.UUID
	// Name is its display name, and Path its file.
	Name, Path string
	Size       int64
	SHA256     string
	Kind       string
	MadeAt     time.Time
}

// UploadResult is the progress or the result of an upload to one off-site target.
type UploadResult struct {
	RemoteID   uuid.UUID  `json:"remote_id" doc:"Id of the off-site target."`
	Target     string     `json:"target" doc:"Where that is."`
	Status     string     `json:"status" enum:"running,success,failed" doc:"Progress of the upload."`
	Sent       int64      `json:"sent" doc:"Bytes of the archive sent so far. It starts again from 0 when the upload is retried."`
	Error      string     `json:"error" doc:"Why it failed, for administrators; empty when it did not."`
	FinishedAt *time.Time `json:"finished_at" doc:"When it ended; null while it runs."`
	DurationMS int64      `json:"duration_ms" doc:"How long it took."`
}

// Wish is a request for a backup.
type Wish struct {
	Passphrase secret.Text `json:"passphrase,omitzero" doc:"Encrypts this backup: at least 12 characters. If empty, the passphrase in the settings is used, if set."`
}

func (w *Wish) Validate() error { return checkPassphrase(w.Passphrase) }

func (r *Room) create(c *httpd.Call, in struct{ Body *Wish }) (Backup, error) {
	given := ""
	if in.Body != nil {
		given, _ = in.Body.Passphrase.Fresh()
	}
	b, err := r.audited(c, "backup.create", manual, given, false)
	return viewFor(b, c.Actor), err
}

func (r *Room) scheduled(c *httpd.Call, _ struct{}) (Backup, error) {
	settings, _, err := r.configured(c, r.DB)
	if err != nil {
		return Backup{}, err
	}
	b, err := r.audited(c, "backup.create-scheduled", scheduled, "", settings.Prove)
	return viewFor(b, c.Actor), err
}

// audited makes a backup and records it in the audit log. A failed backup is not an error: its description says why it failed.
func (r *Room) audited(c *httpd.Call, action, kind, passphrase string, prove bool) (b Backup, err error) {
	end, err := r.begin("A backup")
	if err != nil {
		return b, err
	}
	defer end()
	if passphrase == "" {
		if _, passphrase, err = r.configured(c, r.DB); err != nil {
			return b, err
		}
	}
	// A backup ends neither with its caller nor with the request's timeout.
	ctx := actor.With(r.life, c.Actor)
	subject := name(r.Host.Facts().Hostname, *r.now(), passphrase != "")
	err = r.Audit.Do(c, action, subject, func() (any, error) {
		b = r.make(ctx, subject, kind, passphrase)
		if b.Status != success {
			return map[string]string{"status": b.Status}, nil
		}
		return map[string]any{"status": b.Status, "size": b.Size, "encrypted": b.Encrypted}, nil
	})
	if err != nil {
		return b, err
	}
	r.report(ctx, b)
	if b.Status == success {
		if err := r.prune(); err != nil {
			r.Log.Warn("removing old backups", "err", err)
		}
		r.forget(ctx)
		if prove {
			b = r.prove(ctx, b, passphrase)
		}
	}
	return b, nil
}

// report raises an alarm for a failed scheduled backup, for which no one was waiting.
func (r *Room) report(ctx context.Context, b Backup) {
	var err error
	switch {
	case b.Status == success:
		err = r.Alarms.Clear(ctx, Failed, "")
	case b.Kind == scheduled:
		err = r.Alarms.Raise(ctx, alarm.Alarm{Kind: Failed, Subject: "The scheduled backup failed", Message: "No backup was made. Administrators see the reason in the list of backups."})
	}
	if err != nil {
		r.Log.Warn("reporting how a backup went", "err", err)
	}
}

// name returns the display name of an archive: the host it comes from and its time, so that listings are sorted.
func name(hostname string, at time.Time, encrypted bool) string {
	safe := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' {
			return c
		}
		return '-'
	}, hostname)
	n := "gateway-" + safe + "-" + at.Format("20060102T150405Z") + ".tar.zst"
	if encrypted {
		n += ".age"
	}
	return n
}

// make runs a whole backup, and describes its success or failure.
func (r *Room) make(ctx context.Context, file, kind, passphrase string) Backup {
	id, err := uuid.NewV7()
	facts := r.Host.Facts()
	b := Backup{
		ID: id, CreatedAt: *r.now(), StartedAt: *r.now(), File: file, Kind: kind, Status: running, Phase: "dump", Host: facts.Hostname, Version: r.Version,
		KeyID: r.Secrets.KeyID(), Encrypted: passphrase != "", RemoteUploads: []UploadResult{},
	}
	if err == nil {
		err = r.save(&b)
	}
	if err == nil {
		r.progress(b)
		defer r.finished(id)
		err = r.write(ctx, &b, passphrase)
	}
	b.Phase, b.Written, b.FinishedAt = "", 0, r.now()
	if err != nil {
		b.Status, b.Error = failed, sentence(err)
		r.Log.Error("a backup failed", "err", err)
	} else {
		b.Status = success
	}
	if saved := r.save(&b); saved != nil {
		r.Log.Error("a backup cannot be described", "err", saved)
		if b.Status == success { // a backup that cannot be described is not kept
			b.Status, b.Error = failed, sentence(saved)
			_ = os.Remove(r.archiveAt(id))
		}
	}
	r.finished(id)
	if b.Status == success && r.deps.Uploads != nil {
		b.Phase = "upload"
		r.progress(b)
		now := b
		b.RemoteUploads = r.deps.Uploads.UploadAll(ctx, Archive{ID: id, Name: b.File, Path: r.archiveAt(id), Size: b.Size, SHA256: b.SHA256, Kind: b.Kind, MadeAt: b.StartedAt}, func(so []UploadResult) {
			now.RemoteUploads = so
			r.progress(now)
		})
		b.Phase = ""
		r.finished(id)
		if err := r.save(&b); err != nil {
			r.Log.Error("the uploads of a backup cannot be described", "err", err)
		}
	}
	return b
}

// sentence explains a failure to an administrator.
func sentence(err error) string {
	text := err.Error()
	if f := fault.From(err); f.Kind != fault.Internal {
		text = f.Message
	}
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// write writes the archive, under a temporary name until it is complete on disk.
func (r *Room) write(ctx context.Context, b *Backup, passphrase string) (err error) {
	defer rescue.Into(&err, r.Log, "backup")
	if err := os.MkdirAll(r.Paths.Backups(""), 0o700); err != nil {
		return err
	}
	// The file is unlinked as soon as it is open, so it never outlives the program.
	dump, err := os.CreateTemp(r.Paths.Backups(""), unfinished)
	if err != nil {
		return err
	}
	defer dump.Close()
	if err := os.Remove(dump.Name()); err != nil {
		return err
	}
	done := r.measure(b, func() int64 {
		info, err := dump.Stat()
		if err != nil {
			return 0
		}
		return info.Size()
	})
	m, err := r.dump(ctx, dump)
	done()
	if err != nil {
		return err
	}
	m.Version, m.Kind, m.Host, m.CreatedAt, m.KeyID = b.Version, b.Kind, b.Host, b.StartedAt, b.KeyID
	sources, err := r.sources(dump, passphrase != "")
	if err != nil {
		return err
	}
	for _, s := range sources {
		m.Parts = append(m.Parts, s.Part)
	}
	b.DatabaseBytes, b.FilesBytes = m.Bytes()
	b.SchemaVersion = m.Schema
	return r.pack(b, m, sources, passphrase)
}

// dump writes the database to a file, and returns a manifest of its content.
func (r *Room) dump(ctx context.Context, into *os.File) (m archive.Manifest, err error) {
	if r.deps.Server == nil {
		return m, errors.New("this program does not know the database")
	}
	tables, version, err := r.deps.Server.Dump(ctx, r.deps.Transient, func(ctx context.Context, snapshot string) error {
		return r.Host.DumpDatabase(ctx, snapshot, r.deps.Transient, into)
	})
	if err != nil {
		return m, fmt.Errorf("the database cannot be backed up: %w", err)
	}
	m.Schema, m.Tables = version, map[string]archive.Table{}
	for name, c := range tables {
		m.Tables[name] = archive.Table{Rows: c.Rows, Sum: c.Sum}
	}
	err = r.DB.Snapshot(ctx, func(tx *db.Tx) error {
		m.Interfaces, err = r.deps.Links(ctx, tx)
		return err
	})
	slices.Sort(m.Interfaces)
	return m, err
}

// sources returns the parts of an archive. State files are small and are kept in memory from here on, because they may change at any
// time.
func (r *Room) sources(dump *os.File, whole bool) ([]archive.Source, error) {
	if _, err := dump.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	p, err := archive.Measure(archive.Database, dump)
	if err != nil {
		return nil, err
	}
	list := []archive.Source{{Part: p, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(dump, 0, p.Size)), nil
	}}}
	names := archive.Names()
	accounts, err := filepath.Glob(r.Paths.State("acme/*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range accounts {
		names = append(names, archive.State+"acme/"+filepath.Base(path))
	}
	for _, name := range names {
		if name == archive.MasterKey && !whole || !archive.Known(name) {
			continue
		}
		content, err := os.ReadFile(r.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p, err := archive.Measure(name, bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		list = append(list, archive.Source{Part: p, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }})
	}
	return list, nil
}

// path returns the file of a part on this machine.
func (r *Room) path(part string) string {
	if name, ok := archive.StateFile(part); ok {
		return r.Paths.State(name)
	}
	name, _ := archive.ConfigFile(part)
	return r.Paths.Config(name)
}

func (r *Room) pack(b *Backup, m archive.Manifest, sources []archive.Source, passphrase string) error {
	out, err := os.CreateTemp(r.Paths.Backups(""), unfinished)
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) // unless it was renamed
	defer out.Close()
	b.Phase = "pack"
	var written atomic.Int64
	done := r.measure(b, written.Load)
	w, err := archive.Write(io.MultiWriter(out, counter{&written}), m, sources, passphrase)
	done()
	if err != nil {
		return fmt.Errorf("the archive cannot be written: %w", err)
	}
	if err := out.Sync(); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), r.archiveAt(b.ID)); err != nil {
		return err
	}
	b.Size, b.SHA256 = w.Size, w.SHA256
	return disk.Sync(r.Paths.Backups(""))
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// reportEvery is how often the progress of a backup is reported.
const reportEvery = 250 * time.Millisecond

// measure reports the progress of a phase until it is done.
func (r *Room) measure(b *Backup, written func() int64) (done func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	now := *b
	r.progress(now)
	go func() {
		defer close(ended)
		every := time.NewTicker(reportEvery)
		defer every.Stop()
		for {
			select {
			case <-stop:
				return
			case <-every.C:
				now.Written = written()
				r.progress(now)
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}
