package unbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/talk"
)

const (
	// askWithin is how long unbound may take for one answer.
	askWithin = 10 * time.Second
	// magic precedes every question: the protocol and its version.
	magic = "UBCT1 "
	// begins is how long unbound may take from making its socket to listening on it, and retry how often to look.
	begins = 200 * time.Millisecond
	retry  = 5 * time.Millisecond
)

// live is the unbound of a machine.
type live struct{ home home.Home }

// New returns the unbound of a machine.
func New(h home.Home) Resolver { return &live{h} }

var errNotRunning = fmt.Errorf("unbound: %w", daemon.ErrNotRunning)

func (s *live) ResolverAsk(ctx context.Context, questions ...Question) ([]string, error) {
	answers := make([]string, 0, len(questions))
	for _, q := range questions {
		text, err := text(q)
		if err != nil {
			return answers, err
		}
		answer, err := s.ask(ctx, text)
		if err != nil {
			return answers, fmt.Errorf("asking unbound to %s: %w", q[0], err)
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// text is the question as it is sent.
func text(q Question) (string, error) {
	if len(q) == 0 {
		return "", errors.New("a question to unbound without words")
	}
	for i, word := range q {
		outside := func(r rune) bool { return r < ' ' || r > '~' || r == ' ' && i < len(q)-1 }
		if strings.TrimSpace(word) != word || word == "" || strings.ContainsFunc(word, outside) {
			return "", fmt.Errorf("%q cannot be a word of a question to unbound", word)
		}
	}
	text := strings.Join(q, " ")
	if len(text) > QuestionLimit {
		return "", fmt.Errorf("a question to unbound is too long: %d of %d bytes", len(text), QuestionLimit)
	}
	return text, nil
}

// ask sends one line and returns all that comes back: unbound closes the connection behind its answer.
func (s *live) ask(ctx context.Context, text string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askWithin, fmt.Errorf("unbound did not answer within %s: %w", askWithin, context.DeadlineExceeded))
	defer cancel()
	conn, err := s.dial(ctx)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		return "", errNotRunning
	case err != nil:
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	_, err = io.WriteString(conn, magic+text+"\n")
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(conn)
	}
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", err
	}
	return strings.Trim(string(answer), "\n"), nil
}

// dial reaches the control socket. One that is there and refuses is about to be listened on, or was left by an unbound that
// is gone.
func (s *live) dial(ctx context.Context) (net.Conn, error) {
	for begun := time.Now(); ; talk.Pause(ctx, retry) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", s.home.Path(Socket))
		if !errors.Is(err, syscall.ECONNREFUSED) || ctx.Err() != nil || time.Since(begun) > begins {
			return conn, err
		}
	}
}
