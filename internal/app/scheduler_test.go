package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/start"
)

// The scheduler, which may start before gateway-api, waits for the master key and never creates one.
func TestSchedulerWaitsForTheMasterKey(t *testing.T) {
	cfg := Config{Root: t.TempDir(), Units: "none:a test", DB: "postgres:///none?host=/nowhere"}
	path := start.MasterKey(kit.Paths{Root: cfg.Root})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := RunScheduler(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Fatalf("it went on without a key: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("there is a key: %v", err)
	}
	waits := make(chan error, 1)
	go func() { waits <- awaitKey(t.Context(), cfg) }()
	if _, err := secret.Make(path); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err != nil {
		t.Error(err)
	}
}
