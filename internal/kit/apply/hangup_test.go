package apply_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
)

// A checker that was cancelled because the caller hung up has accepted nothing.
func TestHangingUpDuringTheCheckStoresNothing(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	ctx, hangUp := context.WithCancel(t.Context())
	x.Machine.Script(chrony.Check, func(ctx context.Context, _ host.Input) (host.Output, error) {
		hangUp()
		<-ctx.Done()
		return host.Output{}, context.Cause(ctx)
	})
	if _, err := x.addAs(ctx, "b"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if x.Rows(t, "toy_lines") != 1 || x.status().State != apply.Live || x.status().Revision != 1 {
		t.Fatalf("%+v", x.status())
	}
}

// A checker that takes too long by itself locks nobody out.
func TestCheckerThatTakesTooLongDoesNotLockOut(t *testing.T) {
	t.Parallel()
	x := newToy(t, nil)
	x.want(t, "a", apply.Live)
	x.Machine.Script(chrony.Check, func(context.Context, host.Input) (host.Output, error) {
		return host.Output{}, fmt.Errorf("chronyd took longer than 10s: %w", context.DeadlineExceeded)
	})
	x.want(t, "b", apply.Degraded)
	if x.Rows(t, "toy_lines") != 2 {
		t.Fatal("it was not stored")
	}
}

// Exactly the accepted changes are stored, despite concurrent writers and hang-ups: every change that the checker refuses gets an
// error, and no other one does.
func TestStoredIsWhatWasAccepted(t *testing.T) {
	t.Parallel()
	t.Run("checked", func(t *testing.T) {
		x := newToy(t, nil)
		x.Machine.Script(chrony.Check, func(ctx context.Context, in host.Input) (host.Output, error) {
			select {
			case <-ctx.Done():
				return host.Output{}, context.Cause(ctx)
			case <-time.After(time.Millisecond):
			}
			if strings.Contains(string(in.Staged[0].Content), "bad") {
				return host.Output{Stderr: "bad line", ExitCode: 1}, nil
			}
			return host.Output{}, nil
		})
		writers(t, x.DB, x.addAs, func() string { return x.file(t) })
	})
	t.Run("applied ahead", func(t *testing.T) {
		x := newSwitchboard(t)
		x.mu.Lock()
		x.late = func(ctx context.Context, _ string) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Millisecond):
				return nil
			}
		}
		x.mu.Unlock()
		add := func(ctx context.Context, line string) (apply.Outcome, error) { return x.addAs(ctx, line) }
		writers(t, x.DB, add, func() string { live, _, _ := x.counts(); return live })
	})
}

// writers runs eight concurrent writers. Every tenth change is bad, and every fourth writer hangs up early.
func writers(t *testing.T, d *db.DB, add func(ctx context.Context, line string) (apply.Outcome, error), live func() string) {
	var (
		group    sync.WaitGroup
		mu       sync.Mutex
		accepted []string
		hangUps  int
	)
	n := longtest.Number(t, "GATEWAY_CHANGES", 200, 200)
	for w := range 8 {
		group.Go(func() {
			for i := w; i < n; i += 8 {
				line := fmt.Sprintf("line %04d", i)
				if i%10 == 3 {
					line += " bad"
				}
				ctx, hangUp := context.WithCancel(t.Context())
				impatient := rand.IntN(4) == 0
				if impatient {
					time.AfterFunc(time.Duration(rand.IntN(30_000))*time.Microsecond, hangUp)
				}
				_, err := add(ctx, line)
				gone := ctx.Err() != nil
				hangUp()
				mu.Lock()
				bad := strings.HasSuffix(line, "bad")
				switch {
				case err == nil:
					accepted = append(accepted, line)
					if bad {
						t.Errorf("%s was accepted", line)
					}
				case fault.Is(err, fault.Invalid):
					if !bad {
						t.Errorf("%s was refused: %v", line, err)
					}
				case gone:
					hangUps++
				default:
					t.Errorf("%s: %v", line, err)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	slices.Sort(accepted)
	stored, err := (&toy{}).load(t.Context(), d)
	if err != nil || !slices.Equal(stored, accepted) {
		t.Fatalf("%d lines are stored, %d were accepted: %v", len(stored), len(accepted), err)
	}
	want := strings.Join(accepted, "\n") + "\n"
	waittest.Until(t, "all of it is live", func() bool { return live() == want })
	t.Logf("%d changes: %d accepted, %d hung up", n, len(accepted), hangUps)
}
