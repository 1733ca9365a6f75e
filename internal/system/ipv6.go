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

const (
	// changed is where the database announces changes of the settings.
	changed = "system_settings"
	// listenEvery is the pause before listening again.
	listenEvery = 500 * time.Millisecond
)

// Settings are global settings that can lock people out: they are stored like other settings, so that a change can be confirmed or
// reverted. The setup decides about IPv6 when there may be no database, and the management port needs it without one, so the setup store
// has it, too.
type Settings struct {
	resource.Meta
	IPv6Enabled bool `json:"ipv6_enabled" doc:"Whether the gateway listens on IPv6."`
}

func (*Settings) Label() string { return "gateway settings" }

var settings = resource.Singleton[Settings]{
	Name: "system.settings", Title: "gateway settings", Path: "/system/settings", Table: "system_settings", Feeds: []apply.ID{apply.ReverseProxy}, Local: true,
}

func (r *Room) mountIPv6() {
	// The setup's decision is stored before the setting is changed.
	r.settings.Prepare = func(ctx context.Context, _, _ *Settings) (func(*Settings), error) { return nil, r.takeIPv6(ctx) }
	r.settings.Mount(r.Resources)
	httpd.Handle(r.Router, http.MethodGet, "/system/ipv6", httpd.Read.Offline(), tag.Doc("system.ipv6.get", "Whether the gateway listens on IPv6"), func(c *httpd.Call, _ struct{}) (Flag, error) {
		on, err := r.IPv6(c, r.DB)
		if db.Away(err) {
			return Flag{r.deps.Flags().IPv6}, nil
		}
		return Flag{on}, err
	})
	change := tag.Audited("system.ipv6", "Set: Whether the gateway listens on IPv6. It changes the settings")
	change.Feeds = []string{string(apply.ReverseProxy)}
	httpd.Handle(r.Router, http.MethodPost, "/system/ipv6", httpd.Write.Here(), change, func(c *httpd.Call, in struct{ Body Flag }) (Flag, error) {
		as := resource.Alias{Action: change.Audit, Subject: "ipv6"}
		return in.Body, r.Resources.Switch(c, as, settings.Name, "ipv6_enabled", in.Body.Enabled)
	})
}

// untouched is true as long as nobody has changed the settings: then the setup's decision applies.
const untouched = "updated_at = created_at"

// IPv6 reports whether the gateway listens on IPv6.
func (r *Room) IPv6(ctx context.Context, q db.Querier) (on bool, err error) {
	f := r.deps.Flags()
	err = q.QueryRow(ctx, "SELECT CASE WHEN "+untouched+" AND NOT $1 THEN $2 ELSE ipv6_enabled END FROM system_settings", f.IPv6Kept, f.IPv6).Scan(&on)
	return on, err
}

// KeepIPv6 keeps the setup store and the database in sync until the context ends.
func (r *Room) KeepIPv6(ctx context.Context) {
	for {
		listening, stop := context.WithCancel(ctx)
		_ = r.DB.Listen(listening, changed, func() {
			if r.TakeIPv6(listening) != nil {
				stop() // and again
			}
		}, func(string) error { return r.TakeIPv6(listening) })
		stop()
		select {
		case <-ctx.Done():
			return
		case <-time.After(listenEvery):
		}
	}
}

// TakeIPv6 stores the setup's decision in the database, and the database's setting in the setup store, whichever is missing. A failure is
// logged, and retried when the settings are changed or the database is back.
func (r *Room) TakeIPv6(ctx context.Context) error {
	err := r.takeIPv6(ctx)
	if err != nil && !db.Away(err) && ctx.Err() == nil {
		r.Log.Warn("the IPv6 setting is not kept for a start without a database", "err", err)
	}
	return err
}

func (r *Room) takeIPv6(ctx context.Context) error {
	r.taking.Lock() // or what was read earlier could be stored later
	defer r.taking.Unlock()
	for {
		f := r.deps.Flags()
		if !f.IPv6Kept {
			err := r.DB.Write(ctx, func(tx *db.Tx) error {
				tx.Queue("UPDATE system_settings SET ipv6_enabled = $1 WHERE "+untouched, f.IPv6)
				return nil
			})
			if err != nil {
				return err
			}
		}
		s, err := r.settings.Load(ctx, r.DB)
		if err != nil || f.IPv6Kept && s.IPv6Enabled == f.IPv6 {
			return err
		}
		decided := false // by the setup, in the meantime
		err = r.deps.SetFlags(func(now *Flags) {
			if decided = now.IPv6 != f.IPv6 || now.IPv6Kept != f.IPv6Kept; !decided {
				now.IPv6, now.IPv6Kept = s.IPv6Enabled, true
			}
		})
		if err != nil || !decided {
			return err
		}
	}
}
