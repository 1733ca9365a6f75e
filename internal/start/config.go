// Package start has what every program begins with: its configuration, its log, and its end.
package start

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/host"
)

// Config is the configuration of a program.
type Config struct {
	// DB is the address of PostgreSQL.
	DB string
	// Units says what runs the daemons: systemd, lab, or none:REASON.
	Units string
	// Helper is the socket of gateway-helper. Below a root folder, or if this is empty, there is none, and everything is done in
	// this process; the latter is for measuring the cost of the helper.
	Helper string
	// Probes makes gateway-helper also do the work of gateway-probe: in a lab, where nothing restricts its access to the network.
	Probes bool
	// Root is the prefix of every path, if the machine's own files must not be touched.
	Root string
	// Listen is the management port. The helper opens only this port and Agents.
	Listen string
	// Agents is the port for other nodes of the cluster.
	Agents string
	// Metrics is the address for Prometheus.
	Metrics string
	// UpdateWithin limits the time of a standby in a rolling update; 0 for the default.
	UpdateWithin time.Duration
	// LogLevel is the lowest level that is logged: debug, info, warn or error.
	LogLevel string
}

// Flags binds the configuration to a program's flags. Their defaults come from the environment, which the package's units read
// from SettingsFile.
func (c *Config) Flags(f *flag.FlagSet) {
	c.HelperFlags(f)
	c.databaseFlag(f)
	f.StringVar(&c.Root, "root", "", "prefix of every path")
	f.DurationVar(&c.UpdateWithin, "update-within", 0, "how long a standby may take to run its new version in a rolling update; 0 for 10 minutes")
	f.StringVar(&c.Metrics, "metrics", "127.0.0.1:9464", "address for Prometheus; empty for none")
}

// HelperFlags binds those that gateway-helper has, too.
func (c *Config) HelperFlags(f *flag.FlagSet) {
	c.unitsFlag(f)
	c.helperFlag(f)
	f.StringVar(&c.Listen, "listen", Setting("GATEWAY_LISTEN", ":3443"), "management port; empty for the unix sockets only (GATEWAY_LISTEN)")
	f.StringVar(&c.Agents, "agents", ":8443", "port for other nodes of the cluster")
	c.LevelFlag(f)
}

// UpgradeFlags binds those of gateway-upgrade.
func (c *Config) UpgradeFlags(f *flag.FlagSet) {
	c.databaseFlag(f)
	c.LevelFlag(f)
}

// RestoreFlags binds those of gateway-restore.
func (c *Config) RestoreFlags(f *flag.FlagSet) {
	c.databaseFlag(f)
	c.LevelFlag(f)
	c.unitsFlag(f)
}

// RepairFlags binds those of gateway-repair.
func (c *Config) RepairFlags(f *flag.FlagSet) {
	c.databaseFlag(f)
	c.LevelFlag(f)
	c.unitsFlag(f)
	c.helperFlag(f)
}

func (c *Config) helperFlag(f *flag.FlagSet) {
	f.StringVar(&c.Helper, "helper", host.HelperSocket, "where gateway-helper listens")
}

func (c *Config) unitsFlag(f *flag.FlagSet) {
	f.StringVar(&c.Units, "units", "systemd", "what runs the daemons: systemd, lab, or none:REASON")
}

// Alone reports whether there is no helper: everything is done in this process.
func (c *Config) Alone() bool { return c.Root != "" || c.Helper == "" }

func (c *Config) databaseFlag(f *flag.FlagSet) {
	f.StringVar(&c.DB, "db", Setting("GATEWAY_DB", DefaultDB), "where PostgreSQL is (GATEWAY_DB)")
}

func (c *Config) LevelFlag(f *flag.FlagSet) {
	f.StringVar(&c.LogLevel, "log-level", Setting("GATEWAY_LOG_LEVEL", "info"), "lowest level to log: debug, info, warn or error (GATEWAY_LOG_LEVEL)")
}

// Level parses LogLevel.
func (c *Config) Level() (level slog.Level, err error) {
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return level, fmt.Errorf("the log level %q must be debug, info, warn or error", c.LogLevel)
	}
	return level, nil
}

// SettingsFile has settings that the programs need before they can query the database.
const SettingsFile = "/etc/gateway/gateway.conf"

// DefaultDB is the address of Debian's PostgreSQL.
const DefaultDB = "postgres:///gateway?host=/run/postgresql&user=gateway"

// Setting returns an environment variable, or otherwise if it is not set.
func Setting(name, otherwise string) string {
	if value, ok := os.LookupEnv(name); ok {
		return value
	}
	return otherwise
}

// ReadSettings sets environment variables from the lines NAME=value of a file, as systemd does for the units. It does not
// override existing ones.
func ReadSettings(file string) error {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // not installed as a package, or not for this user
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("%s: %q must be NAME=value", file, line)
		}
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		if _, set := os.LookupEnv(name); !set {
			if err := os.Setenv(name, value); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

// MasterKey returns the path of the key for sealed secrets.
func MasterKey(paths kit.Paths) string { return paths.Config("master.key") }

// ExitCode ends a program without a further message.
type ExitCode int

func (c ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// Main runs a program's body until it returns or the program is asked to stop, and exits.
func Main(run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if code, isCode := errors.AsType[ExitCode](err); isCode {
		os.Exit(int(code))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
