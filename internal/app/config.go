// Package app builds the programs from the rooms. It is the only package that imports all rooms.
package app

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/helper"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/start"
)

// Version is the version of the programs; the build sets it.
var Version = "1.0.0"

// LicensePublicKey verifies licenses: the base64 of a public key of 32 bytes. The build sets it; a build without it accepts no
// license.
var LicensePublicKey = ""

// Config is the configuration of a program.
type Config = start.Config

// newKit builds the kit on the real machine. The database need not be available yet.
func newKit(cfg Config, level slog.Level) (*kit.Kit, error) {
	log := start.NewLog(level)
	paths := kit.Paths{Root: cfg.Root}
	units, err := units.Parse(cfg.Units)
	if err != nil {
		return nil, err
	}
	local, err := machine.New(machine.Options{Root: cfg.Root, Units: units, Database: cfg.DB})
	if err != nil {
		return nil, err
	}
	var m host.Machine = local
	if !cfg.Alone() {
		m = helper.New(local, cfg.Helper)
	}
	box, err := secret.Open(start.MasterKey(paths))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no master key yet: gateway-helper makes it when it starts for the first time")
	}
	if err != nil {
		return nil, err
	}
	d, err := db.Open(cfg.DB)
	if err != nil {
		return nil, err
	}
	k := kit.New(d, m, clock.Real, log, box, paths, Version)
	if cfg.Listen != "" {
		_, port, err := net.SplitHostPort(cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("the management port %q: %w", cfg.Listen, err)
		}
		number, err := net.LookupPort("tcp", port)
		if err != nil {
			return nil, fmt.Errorf("the management port %q: %w", cfg.Listen, err)
		}
		k.Outbound = k.Outbound.Listening(uint16(number))
	}
	return k, nil
}
