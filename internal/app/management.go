package app

import (
	"context"
	"encoding/csv"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/httpd"
)

const (
	// managementFrontend is the frontend of the reverse proxy for the management port.
	managementFrontend = "gateway_management"
	// lookEvery is how often the reverse proxy is polled.
	lookEvery = 500 * time.Millisecond
)

// Management serves the management port while the reverse proxy does not. The port is always served: the service releases it once
// the proxy listens, and takes it again once the proxy does not. In between both hold it, and either may answer.
type Management struct {
	proxy  haproxy.Proxy
	log    *slog.Logger
	ipv6   func() bool // whether to serve the port on IPv6 too
	lost   func()      // called when the proxy has lost the port
	port   *httpd.Port // nil if the service has no port of its own
	holder atomic.Pointer[string]
	failed string // the last error, so that it is logged only once
}

// Holders of the management port.
const (
	holderProxy   = "proxy"
	holderService = "service"
	holderNobody  = "nobody"
)

// NewManagement returns a Management without a port. It calls lost when the proxy has lost the port.
func NewManagement(proxy haproxy.Proxy, log *slog.Logger, ipv6 func() bool, lost func()) *Management {
	m := &Management{proxy: proxy, log: log, ipv6: ipv6, lost: lost}
	m.hold(holderNobody)
	return m
}

// Holder returns who serves the management port: "proxy", "service" or "nobody".
func (m *Management) Holder() string { return *m.holder.Load() }

func (m *Management) hold(who string) { m.holder.Store(&who) }

// Open takes the port, unless the reverse proxy has it. That another program has it does not prevent the start.
func (m *Management) Open(ctx context.Context, port *httpd.Port) error {
	m.port = port
	err := m.look(ctx)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil
	}
	return err
}

// Run watches the reverse proxy until ctx ends.
func (m *Management) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = m.look(ctx) // it logs the error, and is retried
		}
	}
}

// look decides who has the port.
func (m *Management) look(ctx context.Context) error {
	who, err := holderProxy, error(nil)
	switch proxied := m.proxied(ctx); {
	case m.port == nil && !proxied:
		who = holderNobody
	case m.port == nil:
	case proxied:
		err = m.port.Release()
	default:
		who = holderService
		if err = m.port.Hold(ctx, m.ipv6()); err != nil {
			who = holderNobody
		}
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != m.failed {
		m.failed = text
		if err != nil {
			m.log.Warn("taking or releasing the management port failed", "err", err)
		}
	}
	if who != m.Holder() {
		m.log.Info("the management port has changed hands", "holder", who)
		if m.Holder() == holderProxy {
			m.lost()
		}
		m.hold(who)
	}
	return err
}

// proxied reports whether the reverse proxy serves the port. If it does not answer in time, it may be busy, but it does no harm
// if both hold the port for a while.
func (m *Management) proxied(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	answers, err := m.proxy.ProxyAsk(ctx, haproxy.Question{Words: []string{"show", "stat", managementFrontend, "1", "-1"}})
	if err != nil {
		return false
	}
	// A table with a header; if there is no such frontend, a single line that says so.
	table, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(answers[0], "# "))).ReadAll()
	if err != nil || len(table) < 2 {
		return false
	}
	status := slices.Index(table[0], "status")
	return status >= 0 && table[1][status] == "OPEN"
}
