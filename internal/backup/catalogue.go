package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
)

// States of a backup and of its proof.
const (
	running = "running"
	success = "success"
	failed  = "failed"
	proven  = "proven"
)

const (
	manual    = "manual"
	scheduled = "scheduled"
)

// Backup describes a backup, whether or not it has an archive.
type Backup struct {
	ID            uuid.UUID      `json:"id" doc:"Id of the backup."`
	CreatedAt     time.Time      `json:"created_at" doc:"When it came to this gateway."`
	UpdatedAt     time.Time      `json:"updated_at" doc:"When something about it changed."`
	File          string         `json:"file" doc:"What its archive is called when it is downloaded."`
	Size          int64          `json:"size" doc:"Bytes of the archive."`
	SHA256        string         `json:"sha256" doc:"Hash of the archive."`
	DatabaseBytes int64          `json:"database_bytes" doc:"Bytes of the dump of the database, before they are compressed."`
	FilesBytes    int64          `json:"files_bytes" doc:"Bytes of the state files."`
	Kind          string         `json:"kind" enum:",manual,scheduled" doc:"User or program that created it. Empty for an uploaded archive that cannot be read without its passphrase."`
	Status        string         `json:"status" enum:"running,success,failed" doc:"Progress."`
	Phase         string         `json:"phase" enum:",dump,pack,upload" doc:"What is being done while it runs."`
	Written       int64          `json:"written" doc:"Bytes that the phase has written so far."`
	Error         string         `json:"error" doc:"Why it failed, for administrators; empty when it did not."`
	Host          string         `json:"host" doc:"Name of the machine that was backed up."`
	Version       string         `json:"version" doc:"Version of the gateway that was backed up."`
	SchemaVersion int64          `json:"schema_version" doc:"Version of the schema of its database."`
	KeyID         string         `json:"key_id" doc:"Names the master key that its secrets are sealed with."`
	Encrypted     bool           `json:"encrypted" doc:"Whether it is encrypted. It then contains the master key."`
	Uploaded      bool           `json:"uploaded" doc:"Whether it was uploaded. An uploaded backup is not deleted to make room for newer ones."`
	StartedAt     time.Time      `json:"started_at" doc:"When the gateway was backed up."`
	FinishedAt    *time.Time     `json:"finished_at" doc:"When that ended."`
	RemoteUploads []UploadResult `json:"remote_uploads" doc:"Upload to each off-site target."`
	Proof         *Proof         `json:"proof" doc:"The last trial restore; null if there was none."`
}

// Proof is the result of a trial restore.
type Proof struct {
	Status     string     `json:"status" enum:"running,proven,failed" doc:"Whether it can be restored."`
	StartedAt  time.Time  `json:"started_at" doc:"When the trial began."`
	FinishedAt *time.Time `json:"finished_at" doc:"When it ended."`
	DurationMS int64      `json:"duration_ms" doc:"How long it took."`
	Error      string     `json:"error" doc:"Why it failed, for administrators; empty when it did not."`
	Rows       int64      `json:"rows" doc:"Rows that were loaded and compared with the backup."`
	Tables     int        `json:"tables" doc:"Tables that they are in."`
	// Changed lists the tables that have changed since the backup.
	Changed []string `json:"changed" doc:"Tables whose rows have changed since the backup."`
}

// Names of a backup's files.
const (
	archiveSuffix = ".archive"
	descriptions  = ".json"
	// unfinished is the prefix of incomplete files.
	unfinished = ".unfinished-"
)

func (r *Room) archiveAt(id uuid.UUID) string {
	return r.Paths.Backups(filepath.Base(host.BackupFile(id)))
}
func (r *Room) describedAt(id uuid.UUID) string { return r.Paths.Backups(id.String() + descriptions) }

func (r *Room) now() *time.Time {
	t := r.Clock.Now().UTC()
	return &t
}

// save stores a description, and notifies the streams.
func (r *Room) save(b *Backup) error {
	b.UpdatedAt = *r.now()
	content, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.Paths.Backups(""), 0o700); err != nil {
		return err
	}
	if err := renameio.WriteFile(r.describedAt(b.ID), append(content, '\n'), 0o600, renameio.WithTempDir(r.Paths.Backups(""))); err != nil {
		return fmt.Errorf("writing the description of a backup: %w", err)
	}
	r.changes.Publish(*b)
	return nil
}

// progress publishes the progress of a running backup without saving it.
func (r *Room) progress(b Backup) {
	r.mu.Lock()
	r.running[b.ID] = b
	r.mu.Unlock()
	r.changes.Publish(b)
}

func (r *Room) finished(id uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, id)
}

// read returns all descriptions, newest first.
func (r *Room) read() ([]Backup, error) {
	entries, err := os.ReadDir(r.Paths.Backups(""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	list := []Backup{}
	for _, e := range entries {
		id, err := uuid.Parse(strings.TrimSuffix(e.Name(), descriptions))
		if err != nil || !strings.HasSuffix(e.Name(), descriptions) {
			continue
		}
		b, err := r.load(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted in the meantime
		}
		if err != nil {
			r.Log.Warn("the description of a backup cannot be read", "backup", id, "err", err)
			continue
		}
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b Backup) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(b.ID.String(), a.ID.String()))
	})
	return list, nil
}

func (r *Room) load(id uuid.UUID) (b Backup, err error) {
	content, err := os.ReadFile(r.describedAt(id))
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(content, &b); err != nil {
		return b, err
	}
	b.ID = id
	r.mu.Lock()
	defer r.mu.Unlock()
	if now, is := r.running[id]; is {
		b = now
	}
	if b.RemoteUploads == nil {
		b.RemoteUploads = []UploadResult{}
	}
	return b, nil
}

// All returns the backups, newest first.
func (r *Room) All() ([]Backup, error) { return r.read() }

func (r *Room) list(reader actor.Actor) ([]Backup, error) {
	list, err := r.read()
	for i := range list {
		list[i] = viewFor(list[i], reader)
	}
	return list, err
}

var errNone = fault.New(fault.NotFound, "This backup does not exist.")

func (r *Room) find(id uuid.UUID) (Backup, error) {
	b, err := r.load(id)
	if errors.Is(err, fs.ErrNotExist) {
		return b, errNone
	}
	return b, err
}

// complete returns a backup that has its archive.
func (r *Room) complete(id uuid.UUID) (Backup, error) {
	b, err := r.find(id)
	if err == nil && b.Status != success {
		err = fault.New(fault.Conflict, "This backup has no archive: it %s.", map[string]string{running: "is still running", failed: "failed"}[b.Status])
	}
	return b, err
}

// viewFor hides the output of programs from readers who are not administrators.
func viewFor(b Backup, reader actor.Actor) Backup {
	if reader.Role == actor.Admin {
		return b
	}
	return brief(b)
}

func brief(b Backup) Backup {
	b.Error = hidden(b.Error)
	if b.Proof != nil {
		p := *b.Proof
		p.Error = hidden(p.Error)
		b.Proof = &p
	}
	b.RemoteUploads = slices.Clone(b.RemoteUploads)
	for i := range b.RemoteUploads {
		b.RemoteUploads[i].Error = hidden(b.RemoteUploads[i].Error)
	}
	return b
}

func hidden(text string) string {
	if text == "" {
		return ""
	}
	return "Administrators can see the reason."
}

// Deleted confirms a deletion.
type Deleted struct {
	ID uuid.UUID `json:"id" doc:"Id of what was deleted."`
}

func (r *Room) delete(c *httpd.Call, in byID) (Deleted, error) {
	b, err := r.find(in.ID)
	if err != nil {
		return Deleted{}, err
	}
	end, err := r.begin("The deletion of a backup")
	if err != nil {
		return Deleted{}, err
	}
	defer end()
	err = r.Audit.Do(c, "backup.delete", b.File, func() (any, error) { return nil, r.remove(b.ID) })
	r.forget(c)
	return Deleted(in), err
}

// forget clears the alarms about backups that are gone.
func (r *Room) forget(ctx context.Context) {
	if !r.DB.Attached() {
		return // the next start does it
	}
	open, err := r.Alarms.Open(ctx)
	for _, c := range open {
		if c.Kind != verifyFailed.Name {
			continue
		}
		id, bad := uuid.Parse(c.Key)
		if _, gone := os.Stat(r.describedAt(id)); bad != nil || errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, r.Alarms.Clear(ctx, verifyFailed, c.Key))
		}
	}
	if err != nil {
		r.Log.Warn("reporting that a backup is gone", "err", err)
	}
}

// remove deletes the description first: the next start deletes an archive without a description, but a description without an archive
// would promise a backup that does not exist.
func (r *Room) remove(id uuid.UUID) error {
	for _, path := range []string{r.describedAt(id), r.archiveAt(id)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// prune deletes the oldest successful backups beyond the limit, and failed ones that are older than the rest.
func (r *Room) prune() error {
	list, err := r.read()
	if err != nil {
		return err
	}
	kept, keep := 0, max(1, r.deps.Keep())
	for _, b := range list {
		if b.Uploaded || b.Status == running {
			continue
		}
		if b.Status == success && kept < keep {
			kept++
			continue
		}
		if b.Status == failed && kept < keep {
			continue
		}
		if err := r.remove(b.ID); err != nil {
			return err
		}
	}
	return nil
}
