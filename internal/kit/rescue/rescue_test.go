package rescue_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/rescue"
)

func TestIntoNamesThePartAndLogsTheStack(t *testing.T) {
	var logs bytes.Buffer
	fall := func() (err error) {
		defer rescue.Into(&err, slog.New(slog.NewTextHandler(&logs, nil)), "dns")
		panic("index out of range")
	}
	if err := fall(); err == nil || err.Error() != "the gateway's own code for dns failed: index out of range" {
		t.Fatal(err)
	}
	if !strings.Contains(logs.String(), "component=dns") || !strings.Contains(logs.String(), "rescue_test.go") {
		t.Fatalf("no stack: %s", &logs)
	}
}

func TestLoopGoesOnAfterAPanic(t *testing.T) {
	now := clock.NewFake(time.Now())
	turns, done := make(chan int), make(chan struct{})
	go func() {
		defer close(done)
		turn := 0
		rescue.Loop(t.Context(), now, slog.New(slog.DiscardHandler), "dns", func(context.Context) {
			turn++
			turns <- turn
			if turn < 3 {
				panic("again")
			}
		})
	}()
	<-turns
	for want := 2; want <= 3; {
		select {
		case <-turns:
			want++
		case <-time.After(time.Millisecond):
			now.Move(rescue.Pause)
		}
	}
	<-done
}

func TestLoopEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	rescue.Loop(ctx, clock.Real, slog.New(slog.DiscardHandler), "dns", func(context.Context) {
		cancel()
		panic("at the end")
	})
}
