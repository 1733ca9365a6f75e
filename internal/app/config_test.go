package app

import (
	"context"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/outbound"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/start"
)

func TestSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.conf")
	if err := start.ReadSettings(file); err != nil {
		t.Errorf("without a file: %v", err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"GATEWAY_DB", "GATEWAY_LISTEN", "GATEWAY_LOG_LEVEL"} {
		t.Setenv(name, "") // registers the variable to be restored after the test
		os.Unsetenv(name)
	}
	t.Setenv("GATEWAY_LISTEN", ":1")
	write("# where it is\n\nGATEWAY_DB=\"postgres://db.example.net/gateway?a=b\"\nGATEWAY_LISTEN=:2\n  GATEWAY_LOG_LEVEL=debug\n")
	if err := start.ReadSettings(file); err != nil {
		t.Fatal(err)
	}
	var cfg Config
	f := flag.NewFlagSet("", flag.ContinueOnError)
	cfg.Flags(f)
	if err := f.Parse(nil); err != nil {
		t.Fatal(err)
	}
	if cfg.DB != "postgres://db.example.net/gateway?a=b" || cfg.Listen != ":1" {
		t.Errorf("%+v", cfg)
	}
	if level, err := cfg.Level(); err != nil || level != slog.LevelDebug {
		t.Errorf("level %s, %v", level, err)
	}
	if db := Ctl().PersistentFlags().Lookup("db").Value.String(); db != cfg.DB {
		t.Errorf("gateway-ctl asks %s", db)
	}
	cfg.LogLevel = "loud"
	if _, err := cfg.Level(); err == nil || !strings.Contains(err.Error(), `"loud" must be debug, info, warn or error`) {
		t.Error(err)
	}
	write("GATEWAY_DB\n")
	if err := start.ReadSettings(file); err == nil || !strings.Contains(err.Error(), `"GATEWAY_DB" must be NAME=value`) {
		t.Error(err)
	}
}

// TestWatchdog checks that systemd is notified while the service answers requests, and not while it does not.
func TestWatchdog(t *testing.T) {
	root := t.TempDir()
	paths := kit.Paths{Root: root}
	if err := os.MkdirAll(paths.Run(""), 0o755); err != nil {
		t.Fatal(err)
	}
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(root, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", filepath.Join(root, "notify"))
	t.Setenv("WATCHDOG_USEC", "60000") // notifies every 20 ms
	t.Setenv("WATCHDOG_PID", "")
	os.Unsetenv("WATCHDOG_PID")

	complaints := make(chan struct{}, 1)
	log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		select {
		case complaints <- struct{}{}:
		default:
		}
		return len(p), nil
	}), nil))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- watchdog(ctx, log, func(ctx context.Context) error { return answers(ctx, control.Socket(paths)) })
	}()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	<-complaints // there is no service
	if err := systemd.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	received := make([]byte, 64)
	if n, err := systemd.Read(received); err == nil {
		t.Fatalf("systemd is told %q while nothing answers", received[:n])
	}
	control, err := net.Listen("unix", paths.Run("control.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	go server.Serve(control)
	defer server.Close()
	if err := systemd.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	n, err := systemd.Read(received)
	if err != nil || string(received[:n]) != "WATCHDOG=1" {
		t.Errorf("systemd is told %q, %v", received[:n], err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Alerts, backups and identity providers cannot connect to the API's own port.
func TestOwnPortIsNoTarget(t *testing.T) {
	cfg := Config{Root: t.TempDir(), Units: "none:a test", DB: "postgres:///none?host=/nowhere", Listen: "127.0.0.1:9443"}
	if _, err := secret.Make(start.MasterKey(kit.Paths{Root: cfg.Root})); err != nil {
		t.Fatal(err)
	}
	k, err := newKit(cfg, slog.LevelError)
	if err != nil {
		t.Fatal(err)
	}
	defer k.DB.Close()
	if want := outbound.New(k.Host).Listening(9443); *k.Outbound != *want {
		t.Errorf("%+v", k.Outbound)
	}
	cfg.Listen = "127.0.0.1"
	if _, err := newKit(cfg, slog.LevelError); err == nil {
		t.Error("there is no port, and nobody minds")
	}
}
