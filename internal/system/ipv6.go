package system

import (
	"context"
	"net/http"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

// keepEvery is how often it is looked whether the setup store says what the database says.
const keepEvery = time.Second

// Settings are those of the gateway as a whole that can cut people off: they are stored as other settings are, so that a change can be confirmed
// and goes back. The setup decides about IPv6 while there may be no database, and the management port needs it without one: the setup store has it, too.
type Settings struct {
	resource.Meta
	IPv6Enabled bool `json:"ipv6_enabled" doc:"Whether the gateway listens on IPv6."`
}

// Label is how people know them.
func (*Settings) Label() string { return "gateway settings" }

var settings = resource.Singleton[Settings]{
	Name: "system.settings", Title: "gateway settings", Path: "/system/settings", Table: "system_settings", Feeds: []apply.ID{apply.ReverseProxy}, Local: true,
}

func (r *Room) mountIPv6() {
	r.settings.Mount(r.Resources)
	httpd.Handle(r.Router, http.MethodGet, "/system/ipv6", httpd.Read.Offline(), doc("system.ipv6.get", "Whether the gateway listens on IPv6"), func(c *httpd.Call, _ struct{}) (Flag, error) {
		on, err := r.IPv6(c, r.DB)
		if db.Away(err) {
			return Flag{r.deps.Flags().IPv6}, nil
		}
		return Flag{on}, err
	})
	change := audited("system.ipv6", "Set: Whether the gateway listens on IPv6. It changes the settings")
	change.Feeds = []string{string(apply.ReverseProxy)}
	httpd.Handle(r.Router, http.MethodPost, "/system/ipv6", httpd.Write.Here(), change, func(c *httpd.Call, in struct{ Body Flag }) (Flag, error) {
		if err := r.keepIPv6(c); err != nil {
			return Flag{}, err
		}
		if err := r.Resources.Switch(c, settings.Name, "ipv6_enabled", in.Body.Enabled); err != nil {
			return Flag{}, err
		}
		return in.Body, r.Audit.Record(c, "system.ipv6", "ipv6", in.Body)
	})
}

// IPv6 tells whether the gateway listens on IPv6.
func (r *Room) IPv6(ctx context.Context, q db.Querier) (bool, error) {
	if f := r.deps.Flags(); !f.IPv6Kept {
		return f.IPv6, nil
	}
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return false, err
	}
	return s.IPv6Enabled, nil
}

// KeepIPv6 keeps what the setup store and the database say the same until the context ends.
func (r *Room) KeepIPv6(ctx context.Context) {
	for {
		if err := r.keepIPv6(ctx); err != nil && !db.Away(err) && ctx.Err() == nil {
			r.Log.Warn("the IPv6 setting is not kept for a start without a database", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.Clock.After(keepEvery):
		}
	}
}

// keepIPv6 brings the database what the setup has decided, once, and the setup store what the database says from then on.
func (r *Room) keepIPv6(ctx context.Context) error {
	f := r.deps.Flags()
	if f.IPv6Kept {
		s, err := r.settings.Load(ctx, r.DB)
		if err != nil || s.IPv6Enabled == f.IPv6 {
			return err
		}
		return r.deps.SetFlags(func(f *Flags) { f.IPv6 = s.IPv6Enabled })
	}
	err := r.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue("UPDATE system_settings SET ipv6_enabled = $1", f.IPv6)
		return nil
	})
	if err != nil {
		return err
	}
	return r.deps.SetFlags(func(now *Flags) { now.IPv6Kept = now.IPv6 == f.IPv6 })
}
