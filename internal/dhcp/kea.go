package dhcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
)

const (
	unit = kea.Unit
	// startWithin is how long Kea may take until it answers, and startAgain how often we ask.
	startWithin = 15 * time.Second
	startAgain  = 10 * time.Millisecond
)

// reload makes Kea read its file, or starts it. After a refused reload Kea listens nowhere until it gets a file that it accepts, so the
// engine restores the last good one at once.
func (r *Room) reload(ctx context.Context, _ Config, _ []host.File) error {
	err := kea.Ask(ctx, r.Host, kea.Reload, nil, nil)
	if !r.needsStart(ctx, err) {
		return err
	}
	if err := r.Host.Restart(ctx, unit); err != nil { // it may be running without answering
		return err
	}
	return r.awake(ctx)
}

// needsStart reports whether a start does what a reload could not: Kea does not run, or does not know an existing link. For a missing
// link a start would be worse than the refusal, because Kea would exit.
func (r *Room) needsStart(ctx context.Context, err error) bool {
	refused, ok := errors.AsType[*kea.Refused](err)
	if !ok {
		return errors.Is(err, host.ErrNotRunning)
	}
	links, err := r.Host.Links(ctx)
	return err == nil && slices.ContainsFunc(links, func(l host.Link) bool { return l.Name == refused.UnknownLink() })
}

// awake waits until Kea answers: systemd considers it started before it has read its file.
func (r *Room) awake(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("Kea does not answer within %s of its start", startWithin))
	defer cancel()
	for {
		_, err := r.mark(ctx)
		if !errors.Is(err, host.ErrNotRunning) {
			return err
		}
		state, err := r.Host.State(ctx, unit)
		switch {
		case err != nil:
			return err
		case state.Active == "failed" || state.Active == "inactive":
			return fmt.Errorf("Kea is %s: %s", state.Active, state.Detail)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(startAgain):
		}
	}
}

// mark asks Kea which file it has read.
func (r *Room) mark(ctx context.Context) (string, error) {
	var answer struct {
		Mark string `json:"server-tag"`
	}
	err := kea.Ask(ctx, r.Host, kea.Mark, nil, &answer)
	return answer.Mark, err
}

// verify checks that Kea runs with the file, and listens everywhere it should.
func (r *Room) verify(ctx context.Context, c Config, files []host.File) error {
	want, err := markOf(files)
	if err != nil {
		return err
	}
	got, err := r.mark(ctx)
	if err != nil {
		return err
	}
	if got != want {
		return errors.New("Kea runs with another configuration")
	}
	var answer struct {
		Sockets struct {
			Errors []string `json:"errors"`
		} `json:"sockets"`
	}
	if err := kea.Ask(ctx, r.Host, kea.Status, nil, &answer); err != nil {
		return err
	}
	problems := slices.Clone(c.Left)
	for _, e := range answer.Sockets.Errors {
		// Without a cable there are no clients; Kea retries on its own.
		if !strings.HasSuffix(e, noCarrier) {
			problems = append(problems, "Kea does not listen: "+e)
		}
	}
	if len(problems) > 0 {
		return &apply.Partial{Problems: problems}
	}
	return nil
}

// noCarrier ends Kea's message about a link without a carrier.
const noCarrier = " is not running"
