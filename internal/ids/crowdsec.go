package ids

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/secret"
)

const (
	// startWithin is how long CrowdSec may take until it answers, because it compiles hundreds of patterns; startAgain is how often we
	// ask.
	startWithin = 90 * time.Second
	startAgain  = 50 * time.Millisecond
)

// installed records since when which files are on disk. CrowdSec does not report what it has read, but if it was started later it has
// read these files.
type installed struct {
	Digest string    `json:"digest"`
	At     time.Time `json:"at"`
}

func (r *Room) installedPath() string { return r.Paths.State("ids-installed.json") }

func digest(files []host.File) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s %d\n", f.Place, len(f.Content))
		h.Write(f.Content)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// restart makes CrowdSec read its files. A reload would take as long, and loses as many lines.
func (r *Room) restart(ctx context.Context, _ Config, files []host.File) error {
	content, err := json.Marshal(installed{digest(files), time.Now()})
	if err != nil {
		return err
	}
	if err := secret.Save(r.installedPath(), content); err != nil {
		return err
	}
	if err := r.Host.Restart(ctx, unit); err != nil {
		return err
	}
	if err := r.awake(ctx, "failed", "inactive"); err != nil {
		return err
	}
	return r.ensure(ctx)
}

// awake waits until CrowdSec answers: systemd reports it as started before its API listens. It gives up if CrowdSec is in one of the
// given states.
func (r *Room) awake(ctx context.Context, ended ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("CrowdSec does not answer within %s of its start", startWithin))
	defer cancel()
	return until(ctx, startAgain, func() (bool, error) {
		_, err := r.Host.DetectionAsk(ctx, crowdsec.Question{Verb: crowdsec.Decisions, Query: harmless})
		if err == nil || unknown(err) {
			return true, nil
		}
		if !errors.Is(err, host.ErrNotRunning) {
			return false, err
		}
		state, err := r.Host.State(ctx, unit)
		if err == nil && slices.Contains(ended, state.Active) {
			err = fmt.Errorf("%s is %s: %s", unit, state.Active, state.Detail)
		}
		return false, err
	})
}

// until polls until ask returns true or an error.
func until(ctx context.Context, every time.Duration, ask func() (yes bool, err error)) error {
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(every):
		}
	}
}

// verify checks that CrowdSec runs, was started with these files, and knows the gateway.
func (r *Room) verify(ctx context.Context, _ Config, files []host.File) error {
	state, err := r.Host.State(ctx, unit)
	if err != nil {
		return err
	}
	if state.Active != "active" {
		return fmt.Errorf("crowdsec is %s: %s", state.Active, state.Detail)
	}
	var was installed
	content, err := os.ReadFile(r.installedPath())
	if err == nil {
		err = json.Unmarshal(content, &was)
	}
	if err != nil || was.Digest != digest(files) || state.Since.Before(was.At) {
		return errors.New("CrowdSec runs with another configuration")
	}
	return r.ensure(ctx)
}

// restartBouncer makes the bouncer read its file. The bouncer exits if CrowdSec does not answer, so it waits for CrowdSec, whose own lane
// may be starting it just now.
func (r *Room) restartBouncer(ctx context.Context, _ BouncerConfig, _ []host.File) error {
	if err := r.awake(ctx, "failed"); err != nil {
		return err
	}
	if err := r.Host.Restart(ctx, bouncer); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("the firewall bouncer has no tables within %s of its start", startWithin))
	defer cancel()
	return until(ctx, startAgain, func() (bool, error) {
		_, err := r.guard(ctx)
		if errors.Is(err, host.ErrNotRunning) || unknown(err) {
			return false, nil // CrowdSec may still have to learn the account that asks it about administrators
		}
		return err == nil, err
	})
}

// verifyBouncer checks that the bouncer runs, and that the kernel drops the packets of banned addresses. The bouncer exits if CrowdSec
// refuses its key.
func (r *Room) verifyBouncer(ctx context.Context, _ BouncerConfig, _ []host.File) error {
	state, err := r.Host.State(ctx, bouncer)
	if err != nil {
		return err
	}
	if state.Active != "active" {
		return fmt.Errorf("crowdsec-firewall-bouncer is %s: %s", state.Active, state.Detail)
	}
	if _, err := r.guard(ctx); gone(err) != nil && !unknown(err) {
		return err
	}
	if _, err := r.Host.DetectionDropped(ctx, nil); err != nil {
		return fmt.Errorf("packets of banned addresses are not dropped: %w", err)
	}
	return nil
}
