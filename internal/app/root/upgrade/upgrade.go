// Package upgrade is gateway-upgrade. It imports only the part of the room that performs the upgrade.
package upgrade

import (
	"context"
	"log/slog"
	"syscall"

	"edge.internal/gateway/internal/app/root"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/host/machine/jobs"
	"edge.internal/gateway/internal/kit/host/machine/packages"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/host/machine/upgrade"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/start"
	"edge.internal/gateway/internal/upgrade/runner"
)

// Run runs gateway-upgrade: it grants the wish for an upgrade, if there is one. It needs root.
func Run(ctx context.Context, cfg start.Config) error {
	folder, err := jobs.Open(home.Home{}, job.Upgrade)
	if err != nil {
		return err
	}
	uid, gid, err := files.LookupOwner(host.User, host.User)
	if err != nil {
		return err
	}
	level, err := cfg.Level()
	if err != nil {
		return err
	}
	paths := kit.Paths{}
	return (&runner.Runner{
		Folder: folder, Log: start.NewLog(level), Waiting: root.Waiting,
		Effects: upgrade.Machine{
			Folder: folder, Units: units.Systemd{}, Database: cfg.DB, State: paths.State(""),
			User:    &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
			Service: root.Service(paths),
		},
	}).Run(ctx)
}

// RefreshPackages has apt fetch its lists. It needs root.
func RefreshPackages(ctx context.Context) error {
	folder, err := jobs.Open(home.Home{}, job.Upgrade)
	if err != nil {
		return err
	}
	r, err := packages.RunRefresh(ctx, folder)
	if r.Error != "" {
		start.NewLog(slog.LevelInfo).Warn("the package lists are not refreshed", "err", r.Error)
	}
	return err
}
