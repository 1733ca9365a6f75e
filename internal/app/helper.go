package app

import (
	"context"
	"fmt"
	"os"

	"github.com/coreos/go-systemd/v22/daemon"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/helper"
	"edge.internal/gateway/internal/kit/host/helper/guard"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/secret"
)

// RunHelper runs gateway-helper until the context ends.
func RunHelper(ctx context.Context, cfg Config) error {
	level, err := cfg.level()
	if err != nil {
		return err
	}
	log := newLog(level)
	units, err := units.Parse(cfg.Units)
	if err != nil {
		return err
	}
	m, err := machine.New(machine.Options{Units: units})
	if err != nil {
		return err
	}
	uid, gid, err := files.LookupOwner(host.User, host.User)
	if err != nil {
		return err
	}
	if err := makeMasterKey(masterKey(kit.Paths{}), gid); err != nil {
		return err
	}
	l, err := helper.Listen(cfg.Helper, gid)
	if err != nil {
		return fmt.Errorf("the helper's socket: %w", err)
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	return helper.Serve(ctx, l, guard.Around(m), uid, log)
}

// makeMasterKey makes the key of the sealed secrets, which the programs may read but not change.
func makeMasterKey(path string, gid int) error {
	if _, err := secret.Make(path); err != nil {
		return err
	}
	if err := os.Chown(path, 0, gid); err != nil {
		return err
	}
	return os.Chmod(path, 0o640)
}
