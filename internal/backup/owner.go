package backup

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/throttle"
)

// Tries limits how often the owner of a machine that is not set up yet may bring it archives; after repeated failures the owner must
// wait.
var Tries = throttle.Limits{Pair: 20, Source: 20, Within: 10 * time.Minute}

// Chosen is the backup that a new machine is restored from.
type Chosen struct {
	BackupID   uuid.UUID   `json:"backup_id" required:"true" doc:"Id of the backup, as returned by the upload or the copy."`
	Passphrase secret.Text `json:"passphrase,omitzero" doc:"Opens an encrypted backup."`
}

// ChosenWish says how it is restored.
type ChosenWish struct {
	Chosen
	Interfaces map[string]string `json:"interfaces" doc:"Interface of this machine for each interface in the backup."`
}

// mountOwner adds the routes that restore a new machine from a backup instead of setting it up.
func (r *Room) mountOwner() {
	const tag httpd.Tag = "setup"
	r.Router.Add(httpd.Route{
		Doc:    httpd.Doc{ID: "setup.restore.upload", Tag: "setup", Summary: "Upload an archive to a machine that is not set up yet, to restore it there. It replaces an earlier one", Audit: "setup.restore.upload", Creates: Path},
		Method: http.MethodPost, Path: "/setup/restore/upload", Policy: httpd.Owner.Here(), In: reflect.TypeFor[struct{}](), Out: &httpd.SchemaSource{Type: reflect.TypeFor[Backup]()}, Takes: mimeType,
	}, func(c *httpd.Call) error {
		attempt, err := r.tries.Begin("", throttle.Address(c.Client()))
		if err != nil {
			return err
		}
		b, err := r.uploaded(c, "setup.restore.upload", r.Replace)
		if err != nil {
			return err
		}
		attempt.Succeeded()
		return c.Reply(b)
	})
	httpd.Handle(r.Router, http.MethodPost, "/setup/restore/plan", httpd.Owner.Here(), tag.Doc("setup.restore.plan", "What the restore of a backup on a machine that is not set up yet would do, and what prevents it. Nothing is changed"),
		func(c *httpd.Call, in struct{ Body Chosen }) (Plan, error) {
			_, p, _, err := r.look(c, in.Body.BackupID, &Key{in.Body.Passphrase})
			return p, err
		})
	begin := tag.Doc("setup.restore.begin", "Restore a backup on a machine that is not set up yet. The answer comes when the restore has started")
	begin.Audit = "backup.restore"
	httpd.Handle(r.Router, http.MethodPost, "/setup/restore/begin", httpd.Owner.Here(), begin,
		func(c *httpd.Call, in struct{ Body ChosenWish }) (Restore, error) {
			return r.beginRestore(c, in.Body.BackupID, RestoreWish{Passphrase: in.Body.Passphrase, Interfaces: in.Body.Interfaces})
		})
	httpd.Handle(r.Router, http.MethodGet, "/setup/restore", httpd.Owner, tag.Doc("setup.restore.get", "The running or last restore of a machine that is not set up yet. After a successful restore the setup is complete, and this route is closed"),
		func(c *httpd.Call, _ struct{}) (Restore, error) { return r.last(c.Actor) })
}

// Replace is Adopt for a machine that is not set up yet: it deletes the previous upload, so that repeated attempts do not fill the disk.
func (r *Room) Replace(ctx context.Context, in io.Reader) (Backup, error) {
	return r.adopt(ctx, in, func() error {
		list, err := r.read()
		if err != nil {
			return err
		}
		for _, b := range list {
			if b.Uploaded {
				if err := r.remove(b.ID); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
