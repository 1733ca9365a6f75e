// Package backup makes, proves, keeps and hands out archives, and starts restores.
//
// Each backup is an archive in a folder of its own, with its description in a file beside it instead of in the database: the list of
// backups must be available while the database is down, and after it was replaced by an older one.
package backup

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/bus"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/throttle"
)

// Deps holds what the room needs from others.
type Deps struct {
	// Server holds the database and those beside it; Migrations create its schema.
	Server     *db.Server
	Migrations fs.FS
	// Transient lists the tables whose rows are in no backup: an archive must not be a way into someone's session.
	Transient []string
	// Keep returns how many successful backups are kept.
	Keep func() int
	// Links returns the interfaces that the configuration uses.
	Links func(ctx context.Context, q db.Querier) ([]string, error)
	// Try builds the gateway on another database and another state folder, migrates the database, renders every component, and asks its
	// daemon to check the result. It returns the components that failed, and why.
	Try func(ctx context.Context, database, state string, box *secret.Box) (map[string]string, error)
	// MayRestore returns why this node must not be restored. It is nil if nothing can prevent a restore.
	MayRestore func(ctx context.Context) error
	// Uploads sends finished archives to the off-site targets. It is nil if there are none.
	Uploads Uploads
}

// Room manages backups.
type Room struct {
	*kit.Kit
	deps     Deps
	settings resource.Singleton[Settings]
	changes  bus.Topic[Backup]
	// life ends with the program, because a backup outlives the request that started it.
	life context.Context
	end  context.CancelFunc
	// tries limits the attempts of the owner of a machine that is not set up yet.
	tries *throttle.Throttle

	mu   sync.Mutex
	busy string // the operation in progress, for messages; empty if there is none
	// running holds the descriptions of running operations, which change more often than they are saved.
	running map[uuid.UUID]Backup
}

func New(k *kit.Kit, d Deps) *Room {
	r := &Room{Kit: k, deps: d, running: map[uuid.UUID]Backup{}, tries: throttle.New(k.Clock, Tries)}
	r.life, r.end = context.WithCancel(context.Background())
	r.settings = r.newSettings()
	return r
}

type byID struct {
	ID uuid.UUID `path:"id"`
}

// Within limits a backup with its uploads and its trial restore.
const Within = 2 * time.Hour

const Path = "/backups/{id}"

// Mount adds the room's routes. Those that need no database also answer without one, because that is when a restore is needed.
func (r *Room) Mount() {
	r.settings.Mount(r.Resources)
	const tag httpd.Tag = "backup"
	httpd.Handle(r.Router, http.MethodGet, "/backups", httpd.Read.Offline(), tag.Doc("backup.list", "List all backups, newest first"),
		func(c *httpd.Call, _ struct{}) ([]Backup, error) { return r.list(c.Actor) })
	httpd.Handle(r.Router, http.MethodGet, "/backups/{id}", httpd.Read.Offline(), tag.Doc("backup.get", "One backup"),
		func(c *httpd.Call, in byID) (Backup, error) {
			b, err := r.find(in.ID)
			return viewFor(b, c.Actor), err
		})
	httpd.Stream(r.Router, "/backups/live", httpd.Read.Offline(), tag.Doc("backup.live", "Changes of backups, live"), r.follow)
	made := tag.Audited("backup.create", "Back up the gateway. The answer comes when the backup is done or has failed")
	made.Creates = Path
	httpd.Handle(r.Router, http.MethodPost, "/backups", httpd.Write.Here(), made, r.create)
	httpd.Handle(r.Router, http.MethodPost, "/backups/scheduled", httpd.Write.Here(), tag.Audited("backup.create-scheduled", "Run the daily backup: back up the gateway, upload the archive to the off-site targets, and test that it can be restored"), r.scheduled)
	httpd.Handle(r.Router, http.MethodDelete, "/backups/{id}", httpd.Write.Offline().Here(), tag.Audited("backup.delete", "Delete a backup with its archive"), r.delete)
	httpd.Handle(r.Router, http.MethodPost, "/backups/{id}/verify", httpd.Write.Here(), tag.Audited("backup.verify", "Test that a backup can be restored: load it into a temporary database, migrate that, and check its configuration with every daemon"), r.verify)
	httpd.Handle(r.Router, http.MethodPost, "/backups/{id}/restore-plan", httpd.AdminRead.Offline().Here(), tag.Doc("backup.restore-plan", "What a restore of a backup would do, and what prevents it. Nothing is changed"), r.plan)
	httpd.Handle(r.Router, http.MethodPost, "/backups/{id}/restore", httpd.Write.Offline().Here().BySession(), tag.Audited("backup.restore", "Replace the gateway's data with a backup. The answer comes when the restore has started. If it fails, the previous data is restored"), r.restore)
	httpd.Handle(r.Router, http.MethodGet, "/backups/restore", httpd.Read.Offline(), tag.Doc("backup.restore.get", "The running or last restore of the gateway"),
		func(c *httpd.Call, _ struct{}) (Restore, error) { return r.last(c.Actor) })
	r.mountTransfer()
	r.mountOwner()
}

// Run cleans up after a previous process, and then allows backups until the context ends.
func (r *Room) Run(ctx context.Context) {
	r.sweep()
	defer r.end()
	every := time.NewTicker(noteEvery)
	defer every.Stop()
	for forgotten := false; ; {
		r.note(ctx)
		if !forgotten && r.DB.Attached() {
			r.forget(ctx)
			forgotten = true
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// noteEvery is how often we poll for the end of a restore.
const noteEvery = time.Second

// begin reserves the room for one operation: only one runs at a time.
func (r *Room) begin(what string) (end func(), err error) {
	for _, name := range []job.Name{job.Restore, job.Upgrade} {
		if err := name.Free(r.Host); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy != "" {
		return nil, fault.New(fault.Conflict, "%s is running. Wait until it is finished.", r.busy)
	}
	r.busy = what
	lavish := frugal()
	return func() {
		lavish()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.busy = ""
	}, nil
}

// sweep marks operations that were running when the last process ended as failed, and removes their unfinished files.
func (r *Room) sweep() {
	list, err := r.read()
	if err != nil {
		r.Log.Warn("reading the backups", "err", err)
	}
	for _, b := range list {
		changed := false
		if b.Status == running && !r.runs(b.ID) {
			b.Status, b.Error, b.Phase, b.FinishedAt, changed = failed, "It was interrupted.", "", r.now(), true
		}
		if b.Proof != nil && b.Proof.Status == running && !r.runs(b.ID) {
			b.Proof.Status, b.Proof.Error, b.Proof.FinishedAt, changed = failed, "It was interrupted.", r.now(), true
		}
		if changed {
			if err := r.save(&b); err != nil {
				r.Log.Warn("an interrupted backup cannot be marked as such", "err", err)
			}
		}
	}
	left, _ := filepath.Glob(r.Paths.Backups(".*")) // archives and descriptions begin with an id
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			r.Log.Warn("the leftovers of an interrupted backup cannot be removed", "err", err)
		}
	}
	// An archive without a description is left over from an interrupted deletion.
	archives, _ := filepath.Glob(r.Paths.Backups("*" + archiveSuffix))
	for _, path := range archives {
		id, err := uuid.Parse(filepath.Base(path)[:max(0, len(filepath.Base(path))-len(archiveSuffix))])
		if err != nil {
			continue
		}
		if _, err := os.Stat(r.describedAt(id)); os.IsNotExist(err) {
			if err := os.Remove(path); err != nil {
				r.Log.Warn("the archive of a deleted backup cannot be removed", "err", err)
			}
		}
	}
	if r.deps.Server != nil {
		if err := r.deps.Server.Drop(r.life, r.scratch()); err != nil {
			r.Log.Debug("dropping the database of an interrupted proof", "err", err)
		}
	}
}

func (r *Room) runs(id uuid.UUID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, is := r.running[id]
	return is
}

// scratch returns the name of the database that backups are proven in.
func (r *Room) scratch() string { return r.deps.Server.Live() + "_proof" }

// follow sends each changed backup.
func (r *Room) follow(ctx context.Context, _ struct{}, send func(Backup) error) error {
	reader := r.changes.Subscribe()
	defer reader.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case b := <-reader.C:
			if err := send(brief(b)); err != nil {
				return fmt.Errorf("sending a backup: %w", err)
			}
		}
	}
}
