// Package remote manages the off-site targets: it sends archives there after each backup, lists them, and fetches them back. A target
// belongs to someone else: it may be down, hang, lie or change owners, and none of this may harm the gateway.
package remote

import (
	"context"
	"io"
	"sync"
	"time"

	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/throttle"
	"edge.internal/gateway/internal/kit/value"
)

const (
	table = "backup_remotes"

	kindS3   = "s3"
	kindSFTP = "sftp"
)

// Remote is an off-site target.
type Remote struct {
	resource.Meta
	resource.Secrets
	Name          value.Line `json:"name" maxLength:"120" doc:"Its name; its address by default."`
	Kind          string     `json:"kind" required:"true" enum:"s3,sftp" doc:"What it is: a bucket of an object store, or a folder of an SSH server. It cannot be changed."`
	TargetURL     string     `json:"target_url" readOnly:"true" db:"-" doc:"Where it is."`
	Settings      Settings   `json:"settings" required:"true" doc:"How it is reached. Secrets are shown as ***SET***."`
	Active        bool       `json:"active" doc:"Whether archives are sent there; true by default."`
	AllowInternal bool       `json:"allow_internal" doc:"Allow a target on this machine or at a link-local address. Refused otherwise."`
	Keep          int        `json:"keep" minimum:"1" maximum:"1000" doc:"How many archives of this gateway stay there; older ones are deleted after an upload. Other files are never touched."`
	LastUploadAt  *time.Time `json:"last_upload_at" readOnly:"true" doc:"When an archive was last sent there with success."`
	LastError     string     `json:"last_error" readOnly:"true" doc:"Why the last upload failed; empty when it did not."`
}

func (v *Remote) Label() string {
	if !v.Name.IsZero() {
		return v.Name.String()
	}
	return v.Settings.url(v.Kind)
}

func (v *Remote) Validate() error {
	var c check.List
	v.Settings.complain(&c, v.Kind)
	return c.Err()
}

// Deps holds what the room needs from others.
type Deps struct {
	// Adopt adds an archive from elsewhere to the backups.
	Adopt func(ctx context.Context, in io.Reader) (backup.Backup, error)
	// Replace is Adopt for a machine that is not set up yet: it deletes the previous upload.
	Replace func(ctx context.Context, in io.Reader) (backup.Backup, error)
}

// Room manages the off-site targets.
type Room struct {
	*kit.Kit
	deps    Deps
	remotes resource.Kind[Remote]
	bounds  bounds
	// turn and tries limit what the owner of a machine that is not set up yet can make it ask of others.
	turn  sync.Mutex
	tries *throttle.Throttle
}

func New(k *kit.Kit, d Deps) *Room {
	r := &Room{Kit: k, deps: d, bounds: usual, tries: throttle.New(k.Clock, backup.Tries)}
	r.remotes = resource.Kind[Remote]{
		Name: "backup.remote", Title: "off-site target", Path: "/backup-remotes", Table: table, Order: "name, created_at", Local: true,
		Unkept: []string{"last_upload_at", "last_error"},
		New:    func() Remote { return Remote{Settings: defaults(), Active: true, Keep: 14} },
		Check:  r.check,
		View: func(v *Remote) {
			v.TargetURL = v.Settings.url(v.Kind)
			v.Settings.kind = v.Kind
		},
	}
	return r
}

func (r *Room) Mount() {
	r.remotes.Mount(r.Resources)
	r.mountTest()
	r.mountArchives()
	r.mountFetch()
	r.mountOwner()
}

// check keeps stored secrets from being sent to a new server. It also clears the alarm of a target that is switched off: nothing is sent
// there any more.
func (r *Room) check(ctx context.Context, tx *db.Tx, was, now *Remote) error {
	if was != nil && was.Active && (now == nil || !now.Active) {
		tx.AfterCommit(func() {
			if err := r.Alarms.Clear(context.WithoutCancel(ctx), UploadFailed, was.ID.String()); err != nil {
				r.Log.Warn("an alarm about an off-site target stays", "target", was.ID, "err", err)
			}
		})
	}
	if was == nil || now == nil {
		return nil
	}
	if was.Kind != now.Kind {
		return fault.Field("kind", "cannot be changed. Create another target")
	}
	var c check.List
	if !resource.Restored(ctx) && was.Settings.destination(was.Kind) != now.Settings.destination(now.Kind) {
		for name, s := range now.Settings.secrets() {
			secret.Again(&c, "settings."+name, *s)
		}
	}
	return c.Err()
}
