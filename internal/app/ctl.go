package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/account"
	"edge.internal/gateway/internal/app/start"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/schema"
	"edge.internal/gateway/internal/setup"
	"edge.internal/gateway/internal/system"
	"edge.internal/gateway/internal/tunnel"
)

// Ctl is the command line of gateway-ctl.
func Ctl() *cobra.Command {
	var cfg Config
	root := &cobra.Command{
		Use: "gateway-ctl", Short: "Manage the gateway on the machine itself, as root", Version: Version,
		SilenceUsage: true, SilenceErrors: true, CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	f := root.PersistentFlags()
	f.StringVar(&cfg.Root, "root", "", "folder that is put before every path")
	f.StringVar(&cfg.DB, "db", start.Setting("GATEWAY_DB", start.DefaultDB), "where PostgreSQL is (GATEWAY_DB)")
	f.StringVar(&cfg.Units, "units", "systemd", "what runs the daemons: systemd, lab, or none:REASON")
	f.StringVar(&cfg.Helper, "helper", host.HelperSocket, "where gateway-helper listens")

	root.AddCommand(
		resetPassword(&cfg),
		&cobra.Command{
			Use: "setup-token", Short: "Print the setup token", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				token, err := setup.Token(kit.Paths{Root: cfg.Root})
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
		idsUnban(&cfg),
		licenseCommand(&cfg),
		upgradeCommand(&cfg),
		backupCommand(&cfg),
		backupsCommand(&cfg),
		restoreCommand(&cfg),
		offsiteCommand(),
		changesCommand(&cfg),
		confirmCommand(&cfg),
		revertCommand(&cfg),
		exportCommand(&cfg),
		documentCommand(&cfg, "plan", "Show what applying a document would change"),
		documentCommand(&cfg, "apply", "Make the configuration what a document says"),
		importCommand(),
		clusterJoin(&cfg),
		clusterInit(&cfg),
		clusterStandby(&cfg),
		promote(&cfg),
		rollingUpdate(&cfg),
	)
	root.SetOut(os.Stdout)
	return root
}

// becomeGateway makes root the gateway's user, so that what it writes is the gateway's. Where there is no such user, and below a root
// folder, everything belongs to who runs it.
func becomeGateway(root string) error {
	if root != "" || os.Geteuid() != 0 {
		return nil
	}
	ids, err := memberships()
	if err != nil {
		return err
	}
	uid, gid, err := files.LookupOwner(host.User, host.User)
	if err != nil {
		return err
	}
	var groups []int
	for _, id := range ids {
		groups = append(groups, int(id))
	}
	return errors.Join(syscall.Setgroups(groups), syscall.Setresgid(gid, gid, gid), syscall.Setresuid(uid, uid, uid))
}

// memberships are the groups of the gateway's user.
func memberships() (groups []uint32, err error) {
	u, err := user.Lookup(host.User)
	if err != nil {
		return nil, fmt.Errorf("the gateway is not installed here: %w", err)
	}
	names, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		id, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			return nil, err
		}
		groups = append(groups, uint32(id))
	}
	return groups, nil
}

func resetPassword(cfg *Config) *cobra.Command {
	var keeps bool
	cmd := &cobra.Command{
		Use: "reset-password", Short: "Print a token to set a new password for the administrator, valid for 30 minutes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := becomeGateway(cfg.Root); err != nil {
				return err
			}
			token, err := account.CreateResetToken(kit.Paths{Root: cfg.Root}, clock.Real, keeps)
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

// renderConfig asks gateway-api to render, and does it itself when gateway-api is down.
func renderConfig(ctx context.Context, cfg Config) (system.Rendered, error) {
	out, err := askAPI[system.Rendered](ctx, kit.Paths{Root: cfg.Root}, http.MethodPost, "/system/render-configs", nil)
	if isDown(err) {
		return renderHere(ctx, cfg)
	}
	return out, err
}

// importTunnels has gateway-api take over configuration files of WireGuard, and says what became of each.
func importTunnels(cmd *cobra.Command, cfg Config, names []string) error {
	body, err := json.Marshal(map[string]any{"names": names})
	if err != nil {
		return err
	}
	list, err := askAPI[[]tunnel.Imported](cmd.Context(), kit.Paths{Root: cfg.Root}, http.MethodPost, "/tunnel/import", body)
	if isDown(err) {
		return errDown
	}
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
		return fmt.Errorf("%d of %d were not taken over", failed, len(list))
	}
	return nil
}

// errDown is for what gateway-api alone can do.
var errDown = errors.New("gateway-api does not run: start it first")

// isDown tells whether a request did not get through to gateway-api.
func isDown(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// controlSocket is gateway-api's, which root and the gateway's user alone may open.
func controlSocket(paths kit.Paths) string { return paths.Run("control.sock") }

// askAPI makes a request to gateway-api.
func askAPI[T any](ctx context.Context, paths kit.Paths, method, path string, body []byte) (T, error) {
	return askAPIWithin[T](ctx, paths, time.Minute, method, path, body)
}

// askAPIWithin is askAPI for what may take longer.
func askAPIWithin[T any](ctx context.Context, paths kit.Paths, within time.Duration, method, path string, body []byte) (T, error) {
	return sendAPI[T](ctx, paths, within, method, path, "", bytes.NewReader(body))
}

// sendAPI makes a request with a body of a type, which is JSON where that is not said.
func sendAPI[T any](ctx context.Context, paths kit.Paths, within time.Duration, method, path, mime string, body io.Reader) (out T, err error) {
	client := httpd.SocketClient(controlSocket(paths), within)
	req, err := http.NewRequestWithContext(ctx, method, "http://gateway"+httpd.Prefix+path, body)
	if err != nil {
		return out, err
	}
	if mime != "" {
		req.Header.Set("Content-Type", mime)
	}
	res, err := client.Do(req)
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err != nil {
		return out, err
	}
	out, refused, err := httpd.Open[T](said)
	if err != nil {
		return out, fmt.Errorf("gateway-api answered %s: %w", res.Status, err)
	}
	if refused != nil {
		message := refused.Message
		for _, field := range slices.Sorted(maps.Keys(refused.Fields)) {
			message += " " + field + ": " + refused.Fields[field]
		}
		f := &fault.Error{Message: message}
		f.Kind, _ = fault.KindOf(refused.Code)
		if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
			f.RetryAfter = time.Duration(seconds) * time.Second
		}
		return out, f
	}
	return out, nil
}

// renderHere does what gateway-api would do, under the lock that keeps it from starting meanwhile.
func renderHere(ctx context.Context, cfg Config) (system.Rendered, error) {
	if err := becomeGateway(cfg.Root); err != nil {
		return system.Rendered{}, err
	}
	k, err := newKit(cfg, slog.LevelError)
	if err != nil {
		return system.Rendered{}, err
	}
	defer k.DB.Close()
	release, err := holdEngine(k)
	if err != nil {
		return system.Rendered{}, err
	}
	defer release()
	store, err := setup.OpenStore(k.Paths)
	if err != nil {
		return system.Rendered{}, err
	}
	if _, err := Build(k, store, password.New(password.Cost)); err != nil {
		return system.Rendered{}, err
	}
	if err := k.DB.Attach(ctx, schema.Migrations); err != nil {
		return system.Rendered{}, err
	}
	out := system.Rendered{Errors: map[string]string{}}
	for _, id := range k.Engine.Components() {
		k.Engine.Pass(ctx, id)
	}
	k.Engine.Pass(ctx, apply.Network) // once more, for it forwards packets only when the packet filter is loaded
	for _, s := range k.Engine.Statuses() {
		if s.State == apply.Live {
			out.Rendered = append(out.Rendered, string(s.Name))
		} else {
			out.Errors[string(s.Name)] = s.LastError
		}
	}
	out.OK = len(out.Errors) == 0
	return out, k.Audit.Record(actor.With(ctx, actor.System("gateway-ctl")), "system.render-configs", "gateway-ctl", out)
}

const callWithin = 10 * time.Minute

// callAPI makes a request to gateway-api, which alone can do it, for a command. It has the time that the longest one may take: a node that joins
// copies all of the cluster's rows.
func callAPI[T any](cmd *cobra.Command, cfg *Config, method, path string, in any) (out T, err error) {
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return out, err
		}
	}
	if out, err = askAPIWithin[T](cmd.Context(), kit.Paths{Root: cfg.Root}, callWithin, method, path, body); isDown(err) {
		err = errDown
	}
	return out, err
}
