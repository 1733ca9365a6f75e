// Package ctl has the commands of gateway-ctl. Most use gateway-api; those that are needed when it is down work without it.
package ctl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/account"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/setup"
	"edge.internal/gateway/internal/start"
	"edge.internal/gateway/internal/system"
	"edge.internal/gateway/internal/tunnel"
)

// Deps are functions of the app that involve all rooms.
type Deps struct {
	Version string
	// Kit builds the kit on this machine.
	Kit func(cfg start.Config, level slog.Level) (*kit.Kit, error)
	// Render renders and applies the stored configuration, as gateway-api does. It is for when that is down.
	Render func(ctx context.Context, cfg start.Config) (system.Rendered, error)
}

// config is the configuration of a command, and its dependencies.
type config struct {
	start.Config
	Deps
}

func (c *config) paths() kit.Paths { return kit.Paths{Root: c.Root} }

// New returns the command line of gateway-ctl.
func New(d Deps) *cobra.Command {
	cfg := &config{Deps: d}
	root := &cobra.Command{
		Use: "gateway-ctl", Short: "Manage the gateway on the machine itself, as root", Version: d.Version,
		SilenceUsage: true, SilenceErrors: true, CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	f := root.PersistentFlags()
	f.StringVar(&cfg.Root, "root", "", "prefix of every path")
	f.StringVar(&cfg.DB, "db", start.Setting("GATEWAY_DB", start.DefaultDB), "where PostgreSQL is (GATEWAY_DB)")
	f.StringVar(&cfg.Units, "units", "systemd", "what runs the daemons: systemd, lab, or none:REASON")
	f.StringVar(&cfg.Helper, "helper", host.HelperSocket, "where gateway-helper listens")

	root.AddCommand(
		resetPassword(cfg),
		&cobra.Command{
			Use: "setup-token", Short: "Print the setup token", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				token, err := setup.Token(cfg.paths())
				if err != nil {
					return err
				}
				cmd.Println(token)
				return nil
			},
		},
		&cobra.Command{
			Use: "render-config", Short: "Render and apply the saved configuration of all components", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				out, err := renderConfig(cmd.Context(), cfg)
				if err != nil {
					return err
				}
				for _, name := range out.Rendered {
					cmd.Println(name, "live")
				}
				for name, why := range out.Errors {
					cmd.Println(name, "not live:", why)
				}
				if !out.OK {
					return errors.New("not everything is live")
				}
				return nil
			},
		},
		&cobra.Command{
			Use: "tunnel-import [interface...]", Short: "Import tunnels from /etc/wireguard: the named ones, or all that are not imported yet",
			RunE: func(cmd *cobra.Command, names []string) error { return importTunnels(cmd, cfg, names) },
		},
		idsUnban(cfg),
		licenseCommand(cfg),
		upgradeCommand(cfg),
		backupCommand(cfg),
		backupsCommand(cfg),
		restoreCommand(cfg),
		offsiteCommand(),
		changesCommand(cfg),
		confirmCommand(cfg),
		revertCommand(cfg),
		exportCommand(cfg),
		documentCommand(cfg, "plan", "Show what applying a document would change"),
		documentCommand(cfg, "apply", "Make the configuration what a document says"),
		importCommand(),
		clusterJoin(cfg),
		clusterInit(cfg),
		clusterStandby(cfg),
		promote(cfg),
		rollingUpdate(cfg),
	)
	root.SetOut(os.Stdout)
	return root
}

func resetPassword(cfg *config) *cobra.Command {
	var keeps bool
	cmd := &cobra.Command{
		Use: "reset-password", Short: "Print a token to set a new password for the administrator, valid for 30 minutes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := start.BecomeGateway(cfg.Root); err != nil {
				return err
			}
			token, err := account.CreateResetToken(cfg.paths(), clock.Real, keeps)
			if err != nil {
				return err
			}
			cmd.Println(token)
			cmd.PrintErrln("Enter it at /reset-password within 30 minutes. It works once.")
			if keeps {
				cmd.PrintErrln("The reset ends the administrator's sessions. API tokens and passkeys are kept.")
			} else {
				cmd.PrintErrln("The reset ends the administrator's sessions and deletes API tokens and passkeys. The authenticator app is kept.")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&keeps, "keep-tokens", false, "keep the admin's API tokens and passkeys")
	return cmd
}

// renderConfig asks gateway-api to render, or does it itself if that is down.
func renderConfig(ctx context.Context, cfg *config) (system.Rendered, error) {
	out, err := control.Ask[system.Rendered](ctx, cfg.paths(), http.MethodPost, "/system/render-configs", nil)
	if control.IsDown(err) {
		return cfg.Render(ctx, cfg.Config)
	}
	return out, err
}

// importTunnels makes gateway-api import WireGuard configuration files, and prints the result for each.
func importTunnels(cmd *cobra.Command, cfg *config, names []string) error {
	list, err := callAPI[[]tunnel.Imported](cmd, cfg, http.MethodPost, "/tunnel/import", map[string]any{"names": names})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		cmd.Println("Nothing to import.")
	}
	failed := 0
	for _, x := range list {
		if x.Imported {
			cmd.Printf("%s imported with %d peers\n", x.Name, x.Peers)
		} else {
			failed++
			cmd.Printf("%s not imported: %s\n", x.Name, x.Error)
		}
		for _, note := range x.Notes {
			cmd.Println("  " + note)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d were not imported", failed, len(list))
	}
	return nil
}

// errDown is for what only gateway-api can do.
var errDown = errors.New("gateway-api does not run: start it first")

const callWithin = 10 * time.Minute

// callAPI makes a request to gateway-api on behalf of a command. Its time limit is that of the slowest request: a joining node
// copies all of the cluster's rows.
func callAPI[T any](cmd *cobra.Command, cfg *config, method, path string, in any) (out T, err error) {
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return out, err
		}
	}
	if out, err = control.AskWithin[T](cmd.Context(), cfg.paths(), callWithin, method, path, body); control.IsDown(err) {
		err = errDown
	}
	return out, err
}
