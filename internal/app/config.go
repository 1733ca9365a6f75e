// Package app builds the programs from the rooms: it is the only room that knows all rooms.
package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/helper"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/secret"
)

// Version is the version of the programs; the build sets it.
var Version = "1.0.0"

// LicensePublicKey is the public key that licenses are verified with: the base64 of its 32 bytes. The build sets it; one
// that does not accepts no license.
var LicensePublicKey = ""

// DefaultDB is where PostgreSQL is unless a program is told otherwise.
const DefaultDB = "postgres:///gateway?host=/run/postgresql&user=gateway"

// Config is what a program is told when it starts.
type Config struct {
	// DB is where PostgreSQL is.
	DB string
	// Units says who runs the daemons: systemd, lab, or none:REASON.
	Units string
	// Helper is the socket of gateway-helper. Below a root folder there is none: everything is done in this process.
	Helper string
	// Root stands before every path where the machine's own files must not be touched.
	Root string
	// Listen is the management port.
	Listen string
	// Metrics is where Prometheus asks.
	Metrics string
}

// Flags binds the configuration to a program's flags.
func (c *Config) Flags(f *flag.FlagSet) {
	c.HelperFlags(f)
	f.StringVar(&c.DB, "db", DefaultDB, "where PostgreSQL is")
	f.StringVar(&c.Root, "root", "", "folder that stands before every path")
	f.StringVar(&c.Listen, "listen", ":3443", "management port; empty for the unix sockets alone")
	f.StringVar(&c.Metrics, "metrics", "127.0.0.1:9464", "where Prometheus asks; empty for nowhere")
}

// HelperFlags are those that gateway-helper has, too.
func (c *Config) HelperFlags(f *flag.FlagSet) {
	f.StringVar(&c.Units, "units", "systemd", "who runs the daemons: systemd, lab, or none:REASON")
	f.StringVar(&c.Helper, "helper", host.HelperSocket, "where gateway-helper listens")
}

func newLog(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// masterKey is where the key of the sealed secrets is.
func masterKey(paths kit.Paths) string { return paths.Config("master.key") }

// newKit builds the kit on the real machine. It needs no database yet.
func newKit(cfg Config, level slog.Level) (*kit.Kit, error) {
	log := newLog(level)
	paths := kit.Paths{Root: cfg.Root}
	units, err := units.Parse(cfg.Units)
	if err != nil {
		return nil, err
	}
	local, err := machine.New(machine.Options{Root: cfg.Root, Units: units})
	if err != nil {
		return nil, err
	}
	var m host.Machine = local
	if cfg.Root == "" {
		m = helper.New(local, cfg.Helper)
	}
	key := secret.Open
	if cfg.Root != "" {
		key = secret.Make
	}
	box, err := key(masterKey(paths))
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
	return kit.New(d, m, clock.Real, log, box, paths, Version), nil
}

// Main runs a program's body until it ends or the program is told to stop, and exits.
func Main(run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
