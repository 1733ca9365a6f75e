package app

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/start"
	"edge.internal/gateway/internal/waf/agent"
	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/spoe"
)

// WAFConfig is the configuration of gateway-waf.
type WAFConfig struct {
	Config
	// Peers are the users whose connections are accepted.
	Peers string
}

// defaultWAFDB is the address of Debian's PostgreSQL, for the role of gateway-waf.
const defaultWAFDB = "postgres:///gateway?host=/run/postgresql&user=" + host.WAFUser

// Flags binds the configuration to the program's flags.
func (c *WAFConfig) Flags(f *flag.FlagSet) {
	f.StringVar(&c.DB, "db", start.Setting("GATEWAY_WAF_DB", defaultWAFDB), "where PostgreSQL is (GATEWAY_WAF_DB)")
	f.StringVar(&c.Root, "root", "", "prefix of every path")
	f.StringVar(&c.Listen, "listen", "127.0.0.1:9000", "address for HAProxy; empty for none")
	f.StringVar(&c.Peers, "peers", "haproxy,root", "users whose connections are accepted, by name or number")
	c.LevelFlag(f)
}

// RunWAF runs gateway-waf until ctx ends.
func RunWAF(ctx context.Context, cfg WAFConfig) error {
	// Inspections produce much garbage, while the engines stay: every collection scans them. Half again as much garbage between
	// collections saves a third of the collector's share.
	debug.SetGCPercent(150)
	level, err := cfg.Level()
	if err != nil {
		return err
	}
	log := start.NewLog(level)
	path := func(inside string) string { return filepath.Join(cfg.Root, inside) }

	// The status must be available before anything else.
	socket := path(host.WAFSocket)
	status, err := httpd.ListenUnix(socket, 0o660, host.WAFUser)
	if err != nil {
		return fmt.Errorf("status socket: %w", err)
	}
	var reporter atomic.Pointer[agent.Reporter]
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		if now := reporter.Load(); now != nil {
			now.ServeHTTP(w, r)
			return
		}
		http.Error(w, "the engines are being built", http.StatusServiceUnavailable)
	})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return (&httpd.Server{Handler: mux, Log: log}).Serve(ctx, status) })
	group.Go(func() error {
		return watchdog(ctx, log, func(ctx context.Context) error { return answers(ctx, socket) })
	})
	group.Go(func() error {
		since := clock.Real.Now()
		set := engine.Later()
		defer func() { _ = set.Close() }()
		d, err := db.Open(cfg.DB)
		if err != nil {
			return err
		}
		defer d.Close()
		source := agent.NewSource(d, set, path("/var/lib/gateway-waf/config.json"), log)
		recorder := agent.NewRecorder(d, clock.Real, agent.NewLines(path("/var/log/gateway-waf/alerts.json"), log), log)
		a := agent.New(set, source.Domain)
		a.Soon = source.Soon
		a.Record = recorder.Record
		report := &agent.Reporter{Version: Version, Since: since, Agent: a, Source: source, Recorder: recorder}
		peers := &agent.Peers{Users: strings.Split(cfg.Peers, ","), Log: log}
		server := &spoe.Server{Handler: a.Handle, Quick: a.Quick, Log: log, Admit: peers.Admit}

		// Both continue until the last request has its verdict: they are needed to judge and to record it.
		behind, end := context.WithCancel(context.WithoutCancel(ctx))
		var helpers errgroup.Group
		helpers.Go(func() error { source.Run(behind); return nil })
		helpers.Go(func() error { recorder.Run(behind); return nil })
		defer func() { end(); _ = helpers.Wait() }()

		select {
		case <-ctx.Done():
			return nil
		case <-source.Ready():
		}
		reporter.Store(report)
		if cfg.Listen == "" {
			log.Warn("gateway-waf is ready without a listener")
			<-ctx.Done()
			return nil
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
		if err != nil {
			return err
		}
		log.Info("gateway-waf is ready", "version", Version, "listen", cfg.Listen)
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
		return server.Serve(ctx, l)
	})
	return group.Wait()
}
