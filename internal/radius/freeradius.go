package radius

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
)

// unit is the daemon behind the room.
const unit = freeradius.Unit

// check asks FreeRADIUS whether it can read the staged files.
func (r *Room) check(ctx context.Context, files []host.File) error {
	_, err := r.Host.Run(ctx, freeradius.Check, host.Input{Staged: files})
	if exit, ok := errors.AsType[*host.ExitError](err); ok {
		return &host.ExitError{Command: exit.Command, Output: host.Output{Stdout: discreet(exit.Output.Stdout), ExitCode: exit.Output.ExitCode}}
	}
	return err
}

// complaint is a line of FreeRADIUS about one of its files.
var complaint = regexp.MustCompile(`Error: (/\S+?/([^/\[\s]+)\[\d+\]):? ?(.*)`)

// discreet keeps what FreeRADIUS complains about. About a file with secrets it is only told where: its words might be from there.
func discreet(said string) string {
	var kept []string
	for line := range strings.Lines(said) {
		switch m := complaint.FindStringSubmatch(strings.TrimSpace(line)); {
		case m == nil:
		case m[2] == "radiusd.conf":
			kept = append(kept, m[1]+": "+m[3])
		default:
			kept = append(kept, m[1]+" cannot be read")
		}
	}
	return strings.Join(kept, "\n")
}

// restart makes FreeRADIUS read its files. There is a signal for that, too, which is not heard within five seconds after the last
// one, and never about a file that has changed in the second in which it was read.
func (r *Room) restart(ctx context.Context, c Config, files []host.File) error {
	// What is left out makes the engine try again and again. Those who can log in shall not notice.
	if len(c.Problems) > 0 && r.runs(ctx, c, files) == nil {
		return nil
	}
	err := r.Host.Restart(ctx, unit)
	if err == nil {
		return nil
	}
	if why := r.notListening(); why != "" {
		return fmt.Errorf("%w: %s", err, why)
	}
	return err
}

// started is what FreeRADIUS logs before it begins to listen, and failedBinding what it logs when it cannot.
const started = "Loaded virtual server gateway"

var failedBinding = regexp.MustCompile(`Error: Failed binding to (?:auth|acct) address (\S+) port (\d+) .*: (.+?) *\n`)

// notListening says why FreeRADIUS could not listen when it was last started: it tells nobody but its log.
func (r *Room) notListening() string {
	said, err := r.Host.ReadLog(freeradius.ServerLog, 4<<10)
	if err != nil {
		return ""
	}
	m := failedBinding.FindSubmatch(said[max(0, bytes.LastIndex(said, []byte(started))):])
	if m == nil {
		return ""
	}
	return fmt.Sprintf("it cannot listen on %s port %s: %s", m[1], m[2], m[3])
}

// verify says whether FreeRADIUS runs with these files, and what they leave out.
func (r *Room) verify(ctx context.Context, c Config, files []host.File) error {
	err := r.runs(ctx, c, files)
	if err == nil && len(c.Problems) > 0 {
		return &apply.Partial{Problems: c.Problems}
	}
	return err
}

// runs says whether FreeRADIUS runs and has read these files: only then it knows the user who is named after them.
func (r *Room) runs(ctx context.Context, c Config, files []host.File) error {
	state, err := r.Host.State(ctx, unit)
	if err != nil {
		return err
	}
	if state.Active != "active" {
		return fmt.Errorf("freeradius is %s: %s", state.Active, state.Detail)
	}
	name, password := probe(files)
	answer, err := r.Host.RadiusLogin(ctx, freeradius.Login{Port: c.Settings.AuthPort, Secret: c.Own.String(), User: name, Password: password})
	switch {
	case err != nil:
		return fmt.Errorf("freeradius does not answer: %w", err)
	case !answer.Accepted:
		return errors.New("freeradius runs with another configuration")
	}
	return nil
}
