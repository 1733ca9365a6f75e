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
	askWithin = 10 * time.Second
	// magic starts every request: the protocol and its version.
	magic = "UBCT1 "
	// listensWithin is how long unbound may take from creating its socket to listening on it; retry is the poll interval.
	listensWithin = 200 * time.Millisecond
	retry         = 5 * time.Millisecond
)

type live struct{ home home.Home }

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

func text(q Question) (string, error) {
	if len(q) == 0 {
		return "", errors.New("empty question to unbound")
	}
	for i, word := range q {
		outside := func(r rune) bool { return r < ' ' || r > '~' || r == ' ' && i < len(q)-1 }
		if strings.TrimSpace(word) != word || word == "" || strings.ContainsFunc(word, outside) {
			return "", fmt.Errorf("%q is not allowed in a question to unbound", word)
		}
	}
	text := strings.Join(q, " ")
	if len(text) > QuestionLimit {
		return "", fmt.Errorf("a question to unbound is too long: %d of %d bytes", len(text), QuestionLimit)
	}
	return text, nil
}

// ask sends one line and reads until unbound closes the connection.
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

// dial connects to the control socket. If the socket exists but refuses, unbound is either about to listen or has crashed.
func (s *live) dial(ctx context.Context) (net.Conn, error) {
	for start := time.Now(); ; talk.Pause(ctx, retry) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", s.home.Path(Socket))
		if !errors.Is(err, syscall.ECONNREFUSED) || ctx.Err() != nil || time.Since(start) > listensWithin {
			return conn, err
		}
	}
}
