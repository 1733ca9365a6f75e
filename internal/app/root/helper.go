// Package root has the programs that run as root and serve others, gateway-helper with gateway-probe, and what the jobs of root
// have in common. It imports no room.
package root

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/helper"
	"edge.internal/gateway/internal/kit/host/helper/guard"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/host/machine/probe"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/start"
)

// RunHelper runs gateway-helper until ctx ends.
func RunHelper(ctx context.Context, cfg start.Config) error {
	level, err := cfg.Level()
	if err != nil {
		return err
	}
	log := start.NewLog(level)
	units, err := units.Parse(cfg.Units)
	if err != nil {
		return err
	}
	m, err := machine.New(machine.Options{Units: units})
	if err != nil {
		return err
	}
	if err := m.Sweep(); err != nil {
		return fmt.Errorf("removing what was staged for a check: %w", err)
	}
	uid, gid, err := files.LookupOwner(host.User, host.User)
	if err != nil {
		return err
	}
	if err := makeMasterKey(start.MasterKey(kit.Paths{}), gid); err != nil {
		return err
	}
	l, err := helper.Listen(cfg.Helper, gid)
	if err != nil {
		return fmt.Errorf("the helper's socket: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	if cfg.Probes {
		p, err := helper.Listen(probeSocket(cfg), gid)
		if err != nil {
			return fmt.Errorf("the socket of the probes: %w", err)
		}
		group.Go(func() error { return helper.ServeProbes(ctx, p, m, uid, log) })
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	group.Go(func() error { return helper.Serve(ctx, l, guard.Around(m, cfg.Listen, cfg.Agents), uid, log) })
	return group.Wait()
}

// probeSocket returns the path of gateway-probe's socket.
func probeSocket(cfg start.Config) string {
	return filepath.Join(filepath.Dir(cfg.Helper), filepath.Base(host.ProbeSocket))
}

// RunProbes runs gateway-probe until ctx ends. It is not root, and keeps only the capability to open raw sockets.
func RunProbes(ctx context.Context, cfg start.Config) error {
	level, err := cfg.Level()
	if err != nil {
		return err
	}
	if err := probe.Disarm(); err != nil {
		return err
	}
	uid, gid, err := files.LookupOwner(host.User, host.User)
	if err != nil {
		return err
	}
	l, err := helper.Listen(probeSocket(cfg), gid)
	if err != nil {
		return fmt.Errorf("the socket of the probes: %w", err)
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	return helper.ServeProbes(ctx, l, probe.New(home.Home{}), uid, start.NewLog(level))
}

// makeMasterKey creates the key for sealed secrets, which the programs may read but not change.
func makeMasterKey(path string, gid int) error {
	if _, err := secret.Make(path); err != nil {
		return err
	}
	if err := os.Chown(path, 0, gid); err != nil {
		return err
	}
	return os.Chmod(path, 0o640)
}
