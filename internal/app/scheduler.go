package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/go-co-op/gocron/v2"

	"edge.internal/gateway/internal/account"
	"edge.internal/gateway/internal/certificate"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/schema"
	"edge.internal/gateway/internal/setup"
	"edge.internal/gateway/internal/waf"
)

// job is something that the scheduler does again and again. One that still runs is not started a second time.
type job struct {
	name  string
	every time.Duration
	// jitter is how much earlier or later it may be, so that not every gateway comes at the same time.
	jitter time.Duration
	do     func(ctx context.Context) error
}

// nightly is how often something is done that is done at night. When exactly, the start of the program decides by chance.
const nightly = 24 * time.Hour

// The hours of the night, by the machine's clock.
const nightBegins, nightEnds = 1, 5

func (j job) timing() gocron.JobDefinition {
	switch {
	case j.every == nightly:
		minute := rand.UintN((nightEnds - nightBegins) * 60)
		return gocron.DailyJob(1, gocron.NewAtTimes(gocron.NewAtTime(nightBegins+minute/60, minute%60, rand.UintN(60))))
	case j.jitter == 0:
		return gocron.DurationJob(j.every)
	}
	return gocron.DurationRandomJob(j.every-j.jitter, j.every+j.jitter)
}

func (j job) options() []gocron.JobOption {
	options := []gocron.JobOption{gocron.WithName(j.name), gocron.WithSingletonMode(gocron.LimitModeReschedule)}
	if j.every != nightly {
		options = append(options, gocron.WithStartAt(gocron.WithStartImmediately()))
	}
	return options
}

func jobs(k *kit.Kit, store *setup.Store) []job {
	return []job{
		{"audit.prune", time.Hour, 0, func(ctx context.Context) error { return pruneAudit(ctx, k, store) }},
		{"sessions.prune", time.Hour, 0, func(ctx context.Context) error { return account.Prune(ctx, k.DB, k.Clock) }},
		{"waf.prune", time.Hour, 0, func(ctx context.Context) error { return pruneAlerts(ctx, k) }},
		{"certificates.renew", time.Hour, 10 * time.Minute, func(ctx context.Context) error { return renewCertificates(ctx, k) }},
		{"auto-update", nightly, 0, func(ctx context.Context) error { return autoUpdate(ctx, k, store) }},
	}
}

// RunScheduler runs gateway-scheduler until the context ends.
func RunScheduler(ctx context.Context, cfg Config) error {
	if err := awaitKey(ctx, cfg); err != nil {
		return err
	}
	level, err := cfg.level()
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
	s, err := gocron.NewScheduler(gocron.WithStopTimeout(10 * time.Second))
	if err != nil {
		return err
	}
	for _, j := range jobs(k, store) {
		_, err := s.NewJob(j.timing(), gocron.NewTask(func() { run(ctx, k, j) }), j.options()...)
		if err != nil {
			return fmt.Errorf("job %s: %w", j.name, err)
		}
	}
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return err
	}
	if within > 0 {
		alive := gocron.NewTask(func() { _, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog) })
		if _, err := s.NewJob(gocron.DurationJob(within/3), alive); err != nil {
			return fmt.Errorf("telling systemd that the scheduler lives: %w", err)
		}
	}
	s.Start()
	k.Log.Info("gateway-scheduler is ready", "version", Version)
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	<-ctx.Done()
	return s.Shutdown()
}

// awaitKey waits until gateway-api has made the master key: on a fresh machine both programs start together.
func awaitKey(ctx context.Context, cfg Config) error {
	path := masterKey(kit.Paths{Root: cfg.Root})
	for waits := false; ; waits = true {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !waits {
			newLog(slog.LevelInfo).Info("waiting for gateway-api to make the master key")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(attachEvery):
		}
	}
}

// run runs a job once the database is there; a job that fails has its next turn.
func run(ctx context.Context, k *kit.Kit, j job) {
	for !k.DB.Attached() {
		if err := k.DB.Attach(ctx, schema.Migrations); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(attachEvery):
		}
	}
	if err := j.do(ctx); err != nil {
		k.Log.Error("job failed", "job", j.name, "err", err)
	}
}

// renewCertificates asks gateway-api, who alone applies, to order what is due.
func renewCertificates(ctx context.Context, k *kit.Kit) error {
	due, err := askAPI[certificate.Due](ctx, k.Paths, http.MethodPost, "/certificates/renew-due", nil)
	if isDown(err) {
		return nil // it starts, and looks by itself then
	}
	if due.Ordered > 0 {
		k.Log.Info("certificates are ordered", "certificates", due.Ordered)
	}
	return err
}

// pruneAlerts deletes what the web application firewall found longer ago than is kept.
func pruneAlerts(ctx context.Context, k *kit.Kit) error {
	n, err := waf.Prune(ctx, k.DB, k.Clock)
	if n > 0 {
		k.Log.Info("WAF alerts pruned", "alerts", n)
	}
	return err
}

// pruneAudit deletes audit entries that are older than the operator wants to keep.
func pruneAudit(ctx context.Context, k *kit.Kit, store *setup.Store) error {
	days := store.View().Retention.AuditDays
	if days == 0 {
		return nil
	}
	n, err := k.Audit.Prune(ctx, k.Clock.Now().AddDate(0, 0, -days))
	if n > 0 {
		k.Log.Info("audit entries pruned", "entries", n)
	}
	return err
}
