package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"edge.internal/gateway/internal/account"
	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/schema"
	"edge.internal/gateway/internal/setup"
)

// backupDeps gives backups the database server, the machine's links in the configuration, and a trial of another state.
func (h *House) backupDeps(store *setup.Store) backup.Deps {
	return backup.Deps{
		Server: h.DB.Server(), Migrations: schema.Migrations, Transient: account.Transient,
		Keep:  func() int { return store.View().Retention.BackupKeep },
		Links: h.Network.Links, Uploads: h.Remotes, MayRestore: func(ctx context.Context) error { return h.Cluster.MayRestore(ctx) },
		Try: func(ctx context.Context, database, state string, box *secret.Box) (map[string]string, error) {
			d, err := h.DB.Beside(database)
			if err != nil {
				return nil, err
			}
			house, err := aside(ctx, h.Host, h.Log, d, kit.Paths{Root: h.Paths.Root, Aside: state}, box)
			if err != nil {
				return nil, err
			}
			defer d.Close()
			return problems(house.Engine.Try(ctx, h.Engine)), nil
		},
	}
}

// aside builds the gateway on another database and another state folder, beside the running one, if any, and migrates the
// database. It neither serves nor applies anything. Unless it fails, the caller must close the database.
func aside(ctx context.Context, m host.Machine, log *slog.Logger, d *db.DB, paths kit.Paths, box *secret.Box) (h *House, err error) {
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if err := d.Attach(ctx, schema.Migrations); err != nil {
		return nil, err
	}
	store, err := setup.OpenStore(paths)
	if err != nil {
		return nil, err
	}
	return Build(kit.New(d, m, clock.Real, log, box, paths, Version), store, password.New(password.Cost))
}

// scheduledBackup asks gateway-api for the daily backup. gateway-api reports a backup that fails; this function reports one that
// cannot begin, which is retried.
func scheduledBackup(ctx context.Context, k *kit.Kit, store *setup.Store) error {
	if !store.View().Completed {
		return fault.New(fault.Unavailable, "The gateway is not set up yet.")
	}
	made, err := control.AskWithin[backup.Backup](ctx, k.Paths, backup.Within, http.MethodPost, "/backups/scheduled", nil)
	switch {
	case err != nil && ctx.Err() == nil:
		reason := "The program gateway-api does not answer."
		if f, known := errors.AsType[*fault.Error](err); known {
			reason = f.Message
		}
		return errors.Join(fault.Wrap(fault.Unavailable, err, "%s", reason), k.Alarms.Raise(ctx, alarm.Alarm{
			Kind: backup.Failed, Subject: "The scheduled backup could not start", Message: reason + " The gateway tries again every minute.",
		}))
	case err != nil:
		return err
	case made.Error != "":
		return errors.New(made.Error)
	case made.Proof != nil && made.Proof.Error != "":
		return errors.New(made.Proof.Error)
	}
	return nil
}
