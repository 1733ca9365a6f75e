package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"syscall"

	"edge.internal/gateway/internal/account"
	"edge.internal/gateway/internal/app/root"
	"edge.internal/gateway/internal/backup/restore"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/helper/guard"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/host/machine/jobs"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/schema"
	"edge.internal/gateway/internal/start"
)

// RunRestore runs gateway-restore: it grants the wish for a restore, if there is one. It needs root.
func RunRestore(ctx context.Context, cfg Config) error {
	level, err := cfg.Level()
	if err != nil {
		return err
	}
	log := start.NewLog(level)
	folder, err := jobs.Open(home.Home{}, job.Restore)
	if err != nil {
		return err
	}
	uid, gid, err := files.LookupOwner(host.User, host.User)
	if err != nil {
		return err
	}
	runs, err := units.Parse(cfg.Units)
	if err != nil {
		return err
	}
	groups, err := start.Groups()
	if err != nil {
		return err
	}
	user := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: groups}
	local, err := machine.New(machine.Options{Units: runs, Database: cfg.DB, User: user})
	if err != nil {
		return err
	}
	// The configuration in an archive is subject to the same rules as requests of the API.
	m := guard.Around(local)
	live, err := db.OpenAs(cfg.DB, user)
	if err != nil {
		return err
	}
	defer live.Close()
	paths := kit.Paths{}
	on := func(ctx context.Context, database, state, keyFile string) (*House, *db.DB, error) {
		box, err := secret.Open(keyFile)
		if err != nil {
			return nil, nil, err
		}
		d, err := live.Beside(database)
		if err != nil {
			return nil, nil, err
		}
		h, err := aside(ctx, m, log, d, kit.Paths{Aside: state}, box)
		return h, d, err
	}
	return (&restore.Runner{
		Folder: folder, Archive: host.BackupFile, Log: log, Machine: m, Units: runs, Server: live.Server(), Migrations: schema.Migrations,
		Files:   restore.Files{State: paths.State(""), Config: paths.Config(""), UID: uid, GID: gid},
		KeyFile: start.MasterKey(paths),
		KeyID: func() (string, error) {
			box, err := secret.Open(start.MasterKey(paths))
			if err != nil {
				return "", err
			}
			return box.KeyID(), nil
		},
		Adapt: func(ctx context.Context, database, state, keyFile string, links map[string]string) ([]string, error) {
			h, d, err := on(ctx, database, state, keyFile)
			if err != nil {
				return nil, err
			}
			defer d.Close()
			if err := h.Cluster.Restored(ctx, live); err != nil {
				return nil, err
			}
			if err := h.arrive(ctx, links); err != nil {
				return nil, err
			}
			return returned(ctx, log, d, live), nil
		},
		Try: func(ctx context.Context, database, state, keyFile string) (map[string]string, error) {
			h, d, err := on(ctx, database, state, keyFile)
			if err != nil {
				return nil, err
			}
			defer d.Close()
			return problems(h.Engine.Try(ctx, nil)), nil
		},
		Service: root.Service(paths),
		Version: Version, Waiting: root.Waiting,
	}).Run(ctx)
}

// returned warns of users and API tokens that come back with a backup: someone may have had a reason to delete them. It warns of
// nothing if the former database cannot be read.
func returned(ctx context.Context, log *slog.Logger, now, live *db.DB) (warnings []string) {
	var users, tokens []string
	former, err := live.Server().Connect(ctx)
	if err == nil {
		defer former.Close(context.WithoutCancel(ctx))
		users, tokens, err = account.Returned(ctx, now, former)
	}
	if err != nil {
		log.Warn("the users from before the restore are unknown", "err", err)
		return nil
	}
	if len(users) > 0 {
		warnings = append(warnings, fmt.Sprintf("These users had been deleted, and are back: %s.", strings.Join(users, ", ")))
	}
	if len(tokens) > 0 {
		warnings = append(warnings, fmt.Sprintf("These API tokens had been deleted, and work again: %s.", strings.Join(tokens, ", ")))
	}
	return warnings
}

// arrive adapts a backup to this machine and this time: it renames links to those of this machine, ends sessions, and drops
// notifications that were never sent.
func (h *House) arrive(ctx context.Context, links map[string]string) error {
	return h.DB.Write(ctx, func(tx *db.Tx) error {
		if err := h.Network.RenameLinks(ctx, tx, links); err != nil {
			return err
		}
		if err := h.DHCP.RenameLinks(ctx, tx, links); err != nil {
			return err
		}
		if err := h.VRRP.RenameLinks(ctx, tx, links); err != nil {
			return err
		}
		account.Forget(tx)
		return h.Alert.Forget(ctx, tx)
	})
}

// problems converts errors of components to texts.
func problems(failed map[apply.ID]error) map[string]string {
	texts := map[string]string{}
	for id, err := range failed {
		texts[string(id)] = err.Error()
	}
	return texts
}
