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
	// unit is the daemon behind the room.
	unit = kea.Unit
	// startWithin is how long Kea may take until it answers, and startAgain how often we ask.
	startWithin = 15 * time.Second
	startAgain  = 10 * time.Millisecond
)

// reload makes Kea read its file, or starts it. A refused reload leaves Kea without ears until it is given a file that it takes:
// the engine puts the last good one back at once.
func (r *Room) reload(ctx context.Context, _ Config, _ []host.File) error {
	err := kea.Ask(ctx, r.Host, kea.Reload, nil, nil)
	if !r.needsStart(ctx, err) {
		return err
	}
	if err := r.Host.Restart(ctx, unit); err != nil { // one that does not answer may be there all the same
		return err
	}
	return r.awake(ctx)
}

// needsStart tells whether a start does what a reload could not: Kea does not run, or does not know a link that is there. For one
// that is not there a start would be worse than the refusal: Kea would end.
func (r *Room) needsStart(ctx context.Context, err error) bool {
	refused, ok := errors.AsType[*kea.Refused](err)
	if !ok {
		return errors.Is(err, host.ErrNotRunning)
	}
	links, err := r.Host.Links(ctx)
	return err == nil && slices.ContainsFunc(links, func(l host.Link) bool { return l.Name == refused.UnknownLink() })
}

// awake waits until Kea answers: systemd takes it for started before it has read its file.
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

// mark asks Kea which file it has.
func (r *Room) mark(ctx context.Context) (string, error) {
	var said struct {
		Mark string `json:"server-tag"`
	}
	err := kea.Ask(ctx, r.Host, kea.Mark, nil, &said)
	return said.Mark, err
}

// verify says whether Kea runs with the file, and listens wherever it shall.
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
	var said struct {
		Sockets struct {
			Errors []string `json:"errors"`
		} `json:"sockets"`
	}
	if err := kea.Ask(ctx, r.Host, kea.Status, nil, &said); err != nil {
		return err
	}
	problems := slices.Clone(c.Left)
	for _, e := range said.Sockets.Errors {
		// Where no cable is plugged in, there is nobody to serve; Kea looks again by itself.
		if !strings.HasSuffix(e, noCarrier) {
			problems = append(problems, "Kea does not listen: "+e)
		}
	}
	if len(problems) > 0 {
		return &apply.Partial{Problems: problems}
	}
	return nil
}

// noCarrier is how Kea's words about a link without a carrier end.
const noCarrier = " is not running"
