package app

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"edge.internal/gateway/internal/ctl"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/schema"
	"edge.internal/gateway/internal/setup"
	"edge.internal/gateway/internal/start"
	"edge.internal/gateway/internal/system"
)

// Ctl returns the command line of gateway-ctl.
func Ctl() *cobra.Command {
	return ctl.New(ctl.Deps{Version: Version, Kit: newKit, Render: renderHere})
}

// renderHere does what gateway-api would do, holding the lock that keeps it from starting in the meantime.
func renderHere(ctx context.Context, cfg Config) (system.Rendered, error) {
	if err := start.BecomeGateway(cfg.Root); err != nil {
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
	k.Engine.Pass(ctx, apply.Network) // again, because it forwards packets only once the packet filter is loaded
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
