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

type live struct{ home home.Home }

func New(h home.Home) VirtualRouter { return &live{h} }

// retry is how often we look for the pipe of a keepalived that does not run.
const retry = 200 * time.Millisecond

// FollowRouter reads the pipe, which keepalived creates when it starts and removes when it ends.
func (r *live) FollowRouter(ctx context.Context, entered func(State)) error {
	if err := r.home.Here(string(Unit)); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := follow(ctx, r.home.Path(States), entered); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reading keepalived's states: %w", err)
		}
		talk.Pause(ctx, retry)
	}
	return nil
}

// follow reads until keepalived closes the pipe or the context ends.
func follow(ctx context.Context, path string, entered func(State)) error {
	pipe, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer pipe.Close()
	if info, err := pipe.Stat(); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		return fmt.Errorf("%s is not a pipe", path)
	}
	defer context.AfterFunc(ctx, func() { _ = pipe.SetReadDeadline(time.Unix(1, 0)) })()
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		if m := stateLine.FindStringSubmatch(lines.Text()); m != nil {
			entered(State(strings.ToLower(m[1])))
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

var stateLine = regexp.MustCompile(`^INSTANCE "gateway" (MASTER|BACKUP|FAULT|STOP)\b`)
