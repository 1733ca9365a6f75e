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
	// managementFrontend is the part of the reverse proxy that carries the management port.
	managementFrontend = "gateway_management"
	// lookEvery is how often the reverse proxy is asked whether it does.
	lookEvery = 500 * time.Millisecond
)

// Management serves the management port while the reverse proxy does not. There is no moment without anybody: the service lets go
// when the proxy says that it listens, and takes the port again when the proxy does not say so any more. In between both hold it,
// and either answers.
type Management struct {
	proxy  haproxy.Proxy
	log    *slog.Logger
	ipv6   func() bool // whether the port is served on IPv6 too
	lost   func()      // hears that the proxy has the port no more
	port   *httpd.Port // nil where the service has no port of its own
	holder atomic.Pointer[string]
	failed string // why the port could not be had, for not saying it twice
}

// Who holds the management port.
const (
	holderProxy   = "proxy"
	holderService = "service"
	holderNobody  = "nobody"
)

// NewManagement returns one that has no port yet. When the proxy has lost the port, lost is called.
func NewManagement(proxy haproxy.Proxy, log *slog.Logger, ipv6 func() bool, lost func()) *Management {
	m := &Management{proxy: proxy, log: log, ipv6: ipv6, lost: lost}
	m.hold(holderNobody)
	return m
}

// Holder tells who serves the management port: "proxy", "service" or "nobody".
func (m *Management) Holder() string { return *m.holder.Load() }

func (m *Management) hold(who string) { m.holder.Store(&who) }

// Open takes the port, unless the reverse proxy has it. Somebody else who has it is no reason not to start.
func (m *Management) Open(ctx context.Context, port *httpd.Port) error {
	m.port = port
	err := m.look(ctx)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil
	}
	return err
}

// Run watches the reverse proxy until the context ends.
func (m *Management) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = m.look(ctx) // it has said what is wrong, and will try again
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
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != m.failed {
		m.failed = said
		if err != nil {
			m.log.Warn("the management port is not as it should be", "err", err)
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

// proxied tells whether the reverse proxy serves the port. One that does not answer in time may be busy: that both hold the port
// for a while does no harm.
func (m *Management) proxied(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	answers, err := m.proxy.ProxyAsk(ctx, haproxy.Question{Words: []string{"show", "stat", managementFrontend, "1", "-1"}})
	if err != nil {
		return false
	}
	// A table with a head; without such a frontend it is a line that says so.
	table, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(answers[0], "# "))).ReadAll()
	if err != nil || len(table) < 2 {
		return false
	}
	status := slices.Index(table[0], "status")
	return status >= 0 && table[1][status] == "OPEN"
}
