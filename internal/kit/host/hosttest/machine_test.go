package hosttest_test

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/hosttest"
)

func TestMachine(t *testing.T) {
	ctx, m := t.Context(), hosttest.New()

	m.FailInstall(chrony.DropIn, syscall.ENOSPC)
	if err := m.Install(chrony.DropIn, []byte("a")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("install: %v", err)
	}
	if _, err := m.Read(chrony.DropIn); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read: %v", err)
	}
	if err := m.Install(chrony.DropIn, []byte("a")); err != nil || m.Installs(chrony.DropIn) != 1 {
		t.Errorf("install: %v, %d", err, m.Installs(chrony.DropIn))
	}

	refusal := errors.New("bad line 3")
	m.Refuse(chrony.Unit, refusal)
	if err := m.Start(ctx, chrony.Unit); !errors.Is(err, refusal) {
		t.Errorf("start: %v", err)
	}
	if s, _ := m.State(ctx, chrony.Unit); s.Active != "failed" || s.Detail != "bad line 3" {
		t.Errorf("state: %+v", s)
	}
	m.Refuse(chrony.Unit, nil)
	if err := m.Restart(ctx, chrony.Unit); err != nil || m.Starts(chrony.Unit) != 1 || m.Restarts(chrony.Unit) != 1 {
		t.Errorf("restart: %v", err)
	}
	m.Uninstall(chrony.Unit)
	if s, err := m.State(ctx, chrony.Unit); err != nil || s.Installed || s.Active != "" {
		t.Errorf("state: %+v, %v", s, err)
	}
	if err := m.Start(ctx, chrony.Unit); !errors.Is(err, host.ErrNotInstalled) {
		t.Errorf("start: %v", err)
	}

	m.Reject(chrony.Check, "2026-01-01T00:00:00Z bad")
	var exit *host.ExitError
	if _, err := m.Run(ctx, chrony.Check, host.Input{}); !errors.As(err, &exit) || err.Error() != "chronyd: bad" {
		t.Errorf("check: %v", err)
	}
	m.Missing(chrony.Check)
	if _, err := m.Run(ctx, chrony.Check, host.Input{}); !errors.Is(err, host.ErrNotInstalled) {
		t.Errorf("check: %v", err)
	}
	m.Script(chrony.Check, func(_ context.Context, in host.Input) (host.Output, error) {
		return host.Output{Stdout: string(in.Staged[0].Content)}, nil
	})
	out, err := m.Run(ctx, chrony.Check, host.Input{Staged: []host.File{{Place: chrony.DropIn, Content: []byte("x")}}})
	if err != nil || out.Stdout != "x" || m.Runs(chrony.Check) != 3 {
		t.Errorf("check: %+v, %v, %d", out, err, m.Runs(chrony.Check))
	}
}

func TestFilter(t *testing.T) {
	m := hosttest.New()
	m.SetFilter(host.FilterState{Present: true, Generation: 7}, "digest")
	m.SetCounters("one", host.FilterCounter{Tag: "a", Packets: 1, Bytes: 2})
	state, err := m.FilterState(t.Context())
	if err != nil || state.Generation != 7 || m.Asked(hosttest.FilterState) != 1 || m.Asked(hosttest.FilterDigest) != 0 {
		t.Errorf("state: %+v, %v", state, err)
	}
	if digest, err := m.FilterDigest(t.Context()); err != nil || digest != "digest" {
		t.Errorf("digest: %q, %v", digest, err)
	}
	m.FailFilter(syscall.EPERM)
	if _, err := m.FilterCounters(t.Context()); !errors.Is(err, syscall.EPERM) {
		t.Errorf("counters: %v", err)
	}

	m.FailPacketLog(syscall.EBUSY)
	if err := m.PacketLog(t.Context(), nil); !errors.Is(err, syscall.EBUSY) || m.LogPackets() {
		t.Errorf("log: %v", err)
	}
	m.FailPacketLog(nil)
	ctx, cancel := context.WithCancel(t.Context())
	batches, done := make(chan []host.LoggedPacket, 2), make(chan error)
	go func() { done <- m.PacketLog(ctx, func(b []host.LoggedPacket, _ uint64) { batches <- b }) }()
	if b := <-batches; len(b) != 0 {
		t.Errorf("the first batch is not empty: %v", b)
	}
	if !m.LogPackets(host.LoggedPacket{Prefix: "p"}) || (<-batches)[0].Prefix != "p" {
		t.Error("the packet did not arrive")
	}
	if err := m.PacketLog(t.Context(), nil); err == nil {
		t.Error("the log has two readers")
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || m.LogPackets() {
		t.Errorf("log: %v", err)
	}
}

func TestProxyRunsWithItsUnit(t *testing.T) {
	m := hosttest.New()
	show := haproxy.Question{Words: strings.Fields("show info")}
	if _, err := m.ProxyAsk(t.Context(), show); !errors.Is(err, host.ErrNotRunning) {
		t.Errorf("before the start: %v", err)
	}
	if err := m.Start(t.Context(), haproxy.Unit); err != nil {
		t.Fatal(err)
	}
	m.AnswerProxy(func(q haproxy.Question) (string, error) { return "to " + strings.Join(q.Words, " "), nil })
	if answers, err := m.ProxyAsk(t.Context(), show, show); err != nil || len(answers) != 2 || answers[1] != "to show info" || len(m.ProxyAsked()) != 2 {
		t.Errorf("%q, %v", answers, err)
	}
	was, _ := m.ProxyProcess(t.Context())
	refused := &haproxy.ReloadRefused{}
	m.FailProxyReload(refused)
	if _, err := m.ProxyReload(t.Context()); !errors.Is(err, refused) {
		t.Errorf("the reload was not refused: %v", err)
	}
	if now, err := m.ProxyProcess(t.Context()); err != nil || now.PID != was.PID {
		t.Errorf("%+v, %v; it was %+v", now, err, was)
	}
	if now, err := m.ProxyReload(t.Context()); err != nil || now.PID == was.PID || m.ProxyReloads() != 2 {
		t.Errorf("%+v, %v", now, err)
	}
}

func TestTunnels(t *testing.T) {
	m, ctx := hosttest.New(), t.Context()
	if err := m.CreateTunnel(ctx, "wg0", host.OwnTunnel+"x"); err != nil {
		t.Fatal(err)
	}
	if err := m.CreateTunnel(ctx, "wg0", host.OwnTunnel+"x"); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("created twice: %v", err)
	}
	a, b := host.TunnelKey{1}, host.TunnelKey{2}
	one := []netip.Prefix{netip.MustParsePrefix("10.8.0.2/32")}
	if err := m.ChangeTunnel(ctx, "wg0", host.TunnelChange{PrivateKey: &a, Peers: []host.TunnelPeerChange{{PublicKey: a, AllowedIPs: &one}, {PublicKey: b, AllowedIPs: &one}}}); err != nil {
		t.Fatal(err)
	}
	devices, err := m.TunnelDevices(ctx)
	if err != nil || len(devices) != 1 || devices[0].PublicKey != a.PublicKey() || len(devices[0].Peers) != 2 || len(devices[0].Peers[0].AllowedIPs) != 0 || len(devices[0].Peers[1].AllowedIPs) != 1 {
		t.Errorf("%+v, %v", devices, err)
	}
	if err := m.ChangeTunnel(ctx, "wg0", host.TunnelChange{Peers: []host.TunnelPeerChange{{PublicKey: a, Remove: true}}}); err != nil {
		t.Fatal(err)
	}
	if err := m.ChangeTunnel(ctx, "wg1", host.TunnelChange{}); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("without a link: %v", err)
	}
	rule := host.Rule{Family: "inet", Priority: 5, Table: 254}
	if err := errors.Join(m.AddRule(ctx, rule), m.AddRule(ctx, rule)); err != nil {
		t.Fatal(err)
	}
	if rules, _ := m.Rules(ctx); len(rules) != 1 {
		t.Errorf("%+v", rules)
	}
	if err := errors.Join(m.RemoveRule(ctx, rule), m.RemoveTunnel(ctx, "wg0"), m.RemoveTunnel(ctx, "wg0")); err != nil {
		t.Fatal(err)
	}
	if rules, _ := m.Rules(ctx); len(rules) != 0 || len(m.TunnelChanges()) != 3 {
		t.Errorf("%+v, %d", rules, len(m.TunnelChanges()))
	}
}
