package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/rescue"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/schema"
	"edge.internal/gateway/internal/setup"
	"edge.internal/gateway/internal/start"
	"edge.internal/gateway/ui"
)

var noInput = reflect.TypeFor[struct{}]()

// proxyGroup is the group of HAProxy's workers, which connect to the service's sockets.
const proxyGroup = "haproxy"

// attachEvery is how often the service tries to attach the database.
const attachEvery = time.Second

// RunAPI runs gateway-api until ctx ends.
func RunAPI(ctx context.Context, cfg Config) error {
	// The live heap is a few MiB: letting it grow fivefold before a collection costs little memory, and saves the collector's
	// share of every request.
	debug.SetGCPercent(400)
	level, err := cfg.Level()
	if err != nil {
		return err
	}
	if cfg.Alone() {
		if _, err := secret.Make(start.MasterKey(kit.Paths{Root: cfg.Root})); err != nil {
			return err
		}
	}
	k, err := newKit(cfg, level)
	if err != nil {
		return err
	}
	defer k.DB.Close()
	release, err := holdEngine(k)
	if err != nil {
		return err
	}
	defer release()
	store, err := setup.OpenStore(k.Paths)
	if err != nil {
		return err
	}
	house, err := Build(k, store, password.New(password.Cost))
	if err != nil {
		return err
	}
	house.Cluster.UpdateWithin(cfg.UpdateWithin)
	if err := k.Engine.Recover(); err != nil {
		return fmt.Errorf("changes that are to be confirmed: %w", err)
	}
	house.Firewall.Boot(ctx)
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), componentMetrics{k.Engine})
	k.Router.Observe(metrics)

	// The sockets come before the database: health and setup answer while it is unavailable.
	own := house.SelfSigned.Config()
	proxied, err := httpd.ListenProxied(k.Paths.Run("api.sock"), 0o660, proxyGroup, own)
	if err != nil {
		return fmt.Errorf("API socket: %w", err)
	}
	socket, err := httpd.ListenUnix(control.Socket(k.Paths), 0o600, "")
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	challenges, err := httpd.ListenUnix(k.Paths.Run("acme.sock"), 0o660, proxyGroup)
	if err != nil {
		return fmt.Errorf("socket for challenges: %w", err)
	}
	uninspected, err := httpd.ListenDatagrams(k.Paths.Run("waf.sock"), 0o660, proxyGroup)
	if err != nil {
		return fmt.Errorf("socket for the reverse proxy's log: %w", err)
	}
	listeners := []net.Listener{proxied}
	if cfg.Listen != "" {
		port := httpd.NewPort(k.Host, cfg.Listen)
		if err := house.Management.Open(ctx, port); err != nil {
			return fmt.Errorf("management port: %w", err)
		}
		listeners = append(listeners, tls.NewListener(port, own))
	}
	handler := house.Router.Handler(house.Router.App(ui.Dist()))

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return (&httpd.Server{Handler: handler, Log: k.Log}).Serve(ctx, listeners...) })
	group.Go(func() error { return (&httpd.Server{Handler: handler, Log: k.Log, Local: true}).Serve(ctx, socket) })
	group.Go(func() error {
		return (&httpd.Server{Handler: house.Certificate.Challenges(), Log: k.Log}).Serve(ctx, challenges)
	})
	for name, run := range map[string]func(context.Context){
		"management":    house.Management.Run,
		"engine":        k.Engine.Run,
		"unconfirmed":   k.Resources.Guard,
		"audit":         func(ctx context.Context) { k.Audit.Run(ctx, k.Log) },
		"ipv6":          house.System.KeepIPv6,
		"packet-filter": house.Firewall.Run,
		"reverse-proxy": house.Proxy.Run,
		"load":          house.System.Run,
		"forward-proxy": house.ForwardProxy.Run,
		"dns":           house.DNS.Run,
		"certificates":  house.Certificate.Run,
		"radius":        house.RADIUS.Run,
		"waf":           func(ctx context.Context) { house.WAF.Run(ctx, uninspected) },
		"ids":           house.IDS.Run,
		"backups":       house.Backup.Run,
		"cluster":       house.Cluster.Run,
		"rolling":       house.Cluster.Roll,
		"outbox":        house.Cluster.Deliver,
		"vrrp":          house.VRRP.Run,
	} {
		group.Go(func() error { rescue.Loop(ctx, k.Clock, k.Log, name, run); return nil })
	}
	group.Go(func() error { attach(ctx, k); return nil })
	group.Go(func() error {
		return house.ServeAgents(ctx, cfg.Agents, func() bool { return store.View().IPv6Enabled })
	})
	group.Go(func() error { serveMetrics(ctx, cfg.Metrics, metrics, k); return nil })
	group.Go(func() error {
		return watchdog(ctx, k.Log, func(ctx context.Context) error { return answers(ctx, control.Socket(k.Paths)) })
	})
	k.Log.Info("gateway-api is ready", "version", Version, "listen", cfg.Listen)
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	return group.Wait()
}

// ServeAgents serves the other nodes of the cluster at an address, which is held while there is a cluster, until ctx ends.
func (h *House) ServeAgents(ctx context.Context, address string, ipv6 func() bool) error {
	port := httpd.NewPort(h.Host, address)
	return h.Cluster.Agents(ctx, port, func(ctx context.Context) error { return port.Hold(ctx, ipv6()) }, port.Release)
}

// attach waits for the database, migrates it, and lets the engine converge.
func attach(ctx context.Context, k *kit.Kit) {
	last := ""
	for n := 0; ; n++ {
		trying, cancel := context.WithTimeout(ctx, 2*time.Minute)
		all, err := false, k.DB.Attach(trying, schema.Migrations)
		if err == nil {
			all, err = grant(trying, k.DB)
		}
		cancel()
		if err == nil {
			k.Log.Info("database is attached")
			k.Engine.Converge()
			if !all {
				if err := grantLater(ctx, k.DB); err != nil && ctx.Err() == nil {
					k.Log.Warn("other programs have no privileges in the database", "err", err)
				}
			}
			return
		}
		if ctx.Err() != nil {
			return
		}
		if n == 0 {
			k.Engine.Boot(ctx)
		}
		if text := err.Error(); text != last {
			last = text
			level := k.Log.Warn
			if errors.Is(err, db.ErrNewerSchema) {
				level = k.Log.Error
			}
			level("database is not attached", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(attachEvery):
		}
	}
}

// grant grants privileges to the roles of other programs, and reports whether all roles exist. If the gateway's own role is a
// superuser, as in a lab, it first creates what the package creates on a machine.
func grant(ctx context.Context, d *db.DB) (all bool, err error) {
	var super bool
	if err := d.QueryRow(ctx, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&super); err != nil {
		return false, err
	}
	if super {
		conn, err := d.Server().Connect(ctx)
		if err != nil {
			return false, err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		if _, err := conn.Exec(ctx, schema.Cluster); err != nil {
			return false, err
		}
	}
	err = d.Write(ctx, func(tx *db.Tx) error {
		// A role that is created after this query gets its privileges the next time.
		if err := tx.QueryRow(ctx, schema.Grantees).Scan(&all); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, schema.Grants)
		return err
	})
	return all, err
}

// grantWithin is how long to wait for the roles of other programs, which gateway-database creates; it starts together with this
// program.
const grantWithin = 10 * time.Minute

// grantLater grants the privileges as soon as all roles exist. Only the owner may do this: a superuser that used the tables of a
// lesser role could be made to run that role's code.
func grantLater(ctx context.Context, d *db.DB) error {
	ctx, cancel := context.WithTimeoutCause(ctx, grantWithin, fmt.Errorf("their roles do not exist after %s", grantWithin))
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(attachEvery):
		}
		var all bool
		if err := d.QueryRow(ctx, schema.Grantees).Scan(&all); err != nil || !all {
			continue
		}
		if all, err := grant(ctx, d); err == nil && all {
			return nil
		}
	}
}

func serveMetrics(ctx context.Context, addr string, reg *prometheus.Registry, k *kit.Kit) {
	if addr == "" {
		return
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		k.Log.Warn("metrics are not served", "listen", addr, "err", err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	if err := (&httpd.Server{Handler: mux, Log: k.Log}).Serve(ctx, l); err != nil {
		k.Log.Warn("the metrics server ended", "err", err)
	}
}

// watchdog notifies systemd, if it asks for that, as long as the service answers requests. Otherwise systemd restarts it.
func watchdog(ctx context.Context, log *slog.Logger, answers func(ctx context.Context) error) error {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil || within == 0 {
		return err
	}
	for {
		asking, cancel := context.WithTimeout(ctx, within/3)
		err := answers(asking)
		cancel()
		if err == nil {
			_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			log.Warn("the service does not answer its own request", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(within / 3):
		}
	}
}

// answers makes a request without any effect or log line.
func answers(ctx context.Context, socket string) error {
	client := httpd.SocketClient(socket, time.Minute)
	req := (&http.Request{Method: http.MethodOptions, URL: &url.URL{Scheme: "http", Host: "gateway", Opaque: "*"}}).WithContext(ctx)
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// componentMetrics exports the state of each component.
type componentMetrics struct{ engine *apply.Engine }

var componentLive = prometheus.NewDesc("gateway_component_live", "Whether what is stored is what runs.", []string{"component", "state"}, nil)

func (componentMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- componentLive }

func (m componentMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, s := range m.engine.Statuses() {
		live := 0.0
		if s.State == apply.Live {
			live = 1
		}
		ch <- prometheus.MustNewConstMetric(componentLive, prometheus.GaugeValue, live, string(s.Name), string(s.State))
	}
}

// holdEngine makes sure that only one process applies configuration: gateway-api while it runs, otherwise gateway-ctl. It removes
// temporary files of the last one.
func holdEngine(k *kit.Kit) (release func(), err error) {
	if err := os.MkdirAll(k.Paths.Run(""), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(k.Paths.Run("engine.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another gateway program applies configuration here: %w", err)
	}
	if err := k.Host.Sweep(); err != nil {
		k.Log.Warn("files that were staged for a check are left behind", "err", err)
	}
	return func() { f.Close() }, nil
}
