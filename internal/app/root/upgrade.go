package root

import (
	"context"
	"log/slog"
	"syscall"
	"time"

	"edge.internal/gateway/internal/app/start"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/host/machine/home"
	"edge.internal/gateway/internal/kit/host/machine/jobs"
	"edge.internal/gateway/internal/kit/host/machine/network"
	"edge.internal/gateway/internal/kit/host/machine/packages"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/host/machine/upgrade"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/upgrade/runner"
)

const (
	// servesWithin is how long a version may take until it serves, on a slow machine with much to migrate.
	servesWithin = 5 * time.Minute
	// answersWithin is how long it may take until it answers, which needs no database.
	answersWithin = 90 * time.Second
	// consolePort is where HAProxy serves the console.
	consolePort = 3443
)

// Service is the gateway as the jobs of root see it.
func Service(paths kit.Paths) job.Service {
	return job.Service{Control: paths.Run("control.sock"), Port: consolePort, Holders: func(port int) (names []string, err error) {
		users, err := network.New(home.Home{}).PortUsers(port)
		for _, u := range users {
			names = append(names, u.Program)
		}
		return names, err
	}}
}

// Waiting is how the jobs of root wait for the gateway to serve.
var Waiting = job.Waiting{Patience: servesWithin, Silence: answersWithin, Every: time.Second}

// RunUpgrade runs gateway-upgrade: it grants the wish for an upgrade that is written down, if there is one. It needs root.
func RunUpgrade(ctx context.Context, cfg start.Config) error {
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
		Folder: folder, Log: start.NewLog(level), Waiting: Waiting,
		Effects: upgrade.Machine{
			Folder: folder, Units: units.Systemd{}, Database: cfg.DB, State: paths.State(""),
			User:    &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
			Service: Service(paths),
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
