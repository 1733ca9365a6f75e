package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"edge.internal/gateway/internal/account"
	"edge.internal/gateway/internal/alert"
	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/internal/backup/remote"
	"edge.internal/gateway/internal/certificate"
	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/rescue"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/scheduler"
	"edge.internal/gateway/internal/kit/watch"
	"edge.internal/gateway/internal/license"
	"edge.internal/gateway/internal/ntp"
	"edge.internal/gateway/internal/proxy"
	"edge.internal/gateway/internal/schema"
	"edge.internal/gateway/internal/setup"
	"edge.internal/gateway/internal/start"
	"edge.internal/gateway/internal/system"
	"edge.internal/gateway/internal/tunnel"
	"edge.internal/gateway/internal/waf"
)

// periodic returns all periodic jobs. gateway-scheduler runs them; gateway-api shows their results.
func periodic(k *kit.Kit, store *setup.Store, alerts *alert.Room) []scheduler.Job {
	// asking wraps jobs that need the API of a gateway that is set up.
	asking := func(at func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			if !store.View().Completed {
				return fault.New(fault.Unavailable, "The gateway is not set up yet.")
			}
			err := at(ctx)
			if control.IsDown(err) {
				return fault.Wrap(fault.Unavailable, err, "The program gateway-api does not answer.")
			}
			return err
		}
	}
	pruned := func(what string, prune func(context.Context) (int64, error)) func(context.Context) error {
		return func(ctx context.Context) error {
			n, err := prune(ctx)
			if n > 0 {
				k.Log.Info(what+" pruned", "rows", n)
			}
			return err
		}
	}
	oldAudit := func(ctx context.Context) (int64, error) {
		if days := store.View().Retention.AuditDays; days > 0 {
			return k.Audit.Prune(ctx, k.Clock.Now().AddDate(0, 0, -days))
		}
		return 0, nil
	}
	oldSets := func(ctx context.Context) (int64, error) {
		keep := store.View().Retention
		return k.Changes.Prune(ctx, k.Clock.Now().AddDate(0, 0, -keep.HistoryDays), keep.HistorySets)
	}
	oldFound := func(ctx context.Context) (int64, error) { return waf.Prune(ctx, k.DB, k.Clock) }
	jobs := []scheduler.Job{
		{Name: "audit.prune", Title: "Delete old audit entries", Where: scheduler.Primary, Every: time.Hour, Do: pruned("audit entries", oldAudit)},
		{Name: "history.prune", Title: "Delete old change sets", Where: scheduler.EveryNode, Every: time.Hour, Do: pruned("change sets", oldSets)},
		{Name: "sessions.prune", Title: "Delete expired sessions", Where: scheduler.EveryNode, Every: time.Hour, Do: func(ctx context.Context) error { return account.Prune(ctx, k.DB, k.Clock) }},
		{Name: "waf.prune", Title: "Delete old WAF alerts", Where: scheduler.EveryNode, Every: time.Hour, Do: pruned("WAF alerts", oldFound)},
		{Name: "alerts.prune", Title: "Delete old alerts", Where: scheduler.EveryNode, Every: time.Hour, Do: pruned("alert events", alerts.Prune)},
		{Name: "certificates.renew", Title: "Renew certificates", Where: scheduler.Primary, Every: time.Hour, Jitter: 10 * time.Minute, Do: asking(func(ctx context.Context) error { return renewCertificates(ctx, k) })},
		{Name: "backup", Title: "Back up the gateway and test that it can be restored", Where: scheduler.EveryNode, Every: 24 * time.Hour, FromBoot: true, Within: backup.Within, Do: func(ctx context.Context) error { return scheduledBackup(ctx, k, store) }},
		{Name: "auto-update", Title: "Upgrade the gateway, if automatic updates are on", Where: scheduler.EveryNode, Night: true, Within: 30 * time.Minute, Do: func(ctx context.Context) error { return autoUpdate(ctx, k, store) }},
	}
	for _, c := range checks {
		j := c.For(k, alerts.Limits)
		j.Do = asking(j.Do)
		jobs = append(jobs, j)
	}
	return jobs
}

// checks are the checks of all rooms.
var checks = []watch.Check{
	certificate.Check, license.Check, system.MachineCheck, system.ComponentCheck, proxy.Check, waf.Check, cluster.Check, account.Check, tunnel.Check, ntp.Check,
}

// kinds are all kinds of alarms: those that the checks find, and those that rooms and the kit report themselves.
var kinds = func() (list []*alarm.Kind) {
	for _, c := range checks {
		list = append(list, c.Kinds...)
	}
	list = slices.Concat(list, certificate.Alarms, backup.Alarms, remote.Alarms, alert.Alarms)
	return append(list, scheduler.JobFailed, resource.ChangeStays)
}()

// RunScheduler runs gateway-scheduler until ctx ends.
func RunScheduler(ctx context.Context, cfg Config) error {
	if err := awaitKey(ctx, cfg); err != nil {
		return err
	}
	level, err := cfg.Level()
	if err != nil {
		return err
	}
	k, err := newKit(cfg, level)
	if err != nil {
		return err
	}
	defer k.DB.Close()
	store, err := setup.OpenStore(k.Paths)
	if err != nil {
		return err
	}
	ctx = actor.With(ctx, actor.System("gateway-scheduler"))
	alerts := alert.New(k, alertDeps(store))
	alerts.Mount() // its routes are not served here
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return err
	}
	attach := func(ctx context.Context) error { return k.DB.Attach(ctx, schema.Migrations) }
	s := scheduler.New(k, periodic(k, store, alerts), attach)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return s.Run(ctx, func() {
			k.Log.Info("gateway-scheduler is ready", "version", Version)
			_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
		})
	})
	group.Go(func() error { rescue.Loop(ctx, k.Clock, k.Log, "alerts", alerts.Deliver); return nil })
	if within > 0 {
		group.Go(func() error { stayAlive(ctx, within/3); return nil })
	}
	return group.Wait()
}

// stayAlive notifies systemd's watchdog.
func stayAlive(ctx context.Context, every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// awaitKey waits until gateway-helper has created the master key: on a fresh machine all programs start together.
func awaitKey(ctx context.Context, cfg Config) error {
	path := start.MasterKey(kit.Paths{Root: cfg.Root})
	for waits := false; ; waits = true {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !waits {
			start.NewLog(slog.LevelInfo).Info("waiting for the master key")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(attachEvery):
		}
	}
}

// renewCertificates asks gateway-api, the only program that applies, to order what is due.
func renewCertificates(ctx context.Context, k *kit.Kit) error {
	due, err := control.Ask[certificate.Due](ctx, k.Paths, http.MethodPost, "/certificates/renew-due", nil)
	if due.Ordered > 0 {
		k.Log.Info("certificates were ordered", "certificates", due.Ordered)
	}
	return err
}
