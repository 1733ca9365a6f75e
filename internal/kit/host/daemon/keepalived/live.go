package keepalived

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/talk"
)

// live is the keepalived of a machine.
type live struct{ home home.Home }

// New returns the keepalived of a machine.
func New(h home.Home) VirtualRouter { return &live{h} }

// lookEvery is how often we look for a keepalived that does not run.
const lookEvery = 200 * time.Millisecond

// FollowRouter reads the pipe that keepalived makes when it starts, and removes when it ends.
func (r *live) FollowRouter(ctx context.Context, told func(State)) error {
	if err := r.home.Here(string(Unit)); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := follow(ctx, r.home.Path(States), told); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("hearing keepalived: %w", err)
		}
		talk.Pause(ctx, lookEvery)
	}
	return nil
}

// follow reads until keepalived has closed the pipe, or the context ends.
func follow(ctx context.Context, path string, told func(State)) error {
	pipe, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer pipe.Close()
	if info, err := pipe.Stat(); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		return fmt.Errorf("%s is no pipe", path)
	}
	defer context.AfterFunc(ctx, func() { _ = pipe.SetReadDeadline(time.Unix(1, 0)) })()
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		if m := entered.FindStringSubmatch(lines.Text()); m != nil {
			told(State(strings.ToLower(m[1])))
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

var entered = regexp.MustCompile(`^INSTANCE "gateway" (MASTER|BACKUP|FAULT|STOP)\b`)
