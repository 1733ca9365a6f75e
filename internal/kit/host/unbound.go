package host

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
)

// unboundControl is where unbound takes commands. Its AppArmor profile allows no other path.
const unboundControl = "/run/unbound.ctl"

const (
	// ResolverQuestionLimit is how long a question to unbound may be: it reads a line into a buffer of 1024 bytes.
	ResolverQuestionLimit = 1000
	// resolverAskWithin is how long unbound may take for one answer.
	resolverAskWithin = 10 * time.Second
	// resolverMagic precedes every question: the protocol and its version.
	resolverMagic = "UBCT1 "
	// resolverBegins is how long unbound may take from making its socket to listening on it, and resolverRetry how often to look.
	resolverBegins = 200 * time.Millisecond
	resolverRetry  = 5 * time.Millisecond
)

// Resolver is the running unbound.
type Resolver interface {
	// ResolverAsk puts questions to unbound's control socket, one after the other, and returns the answers without the newlines
	// around them. It stops at the first that gets none. A refusal is an answer, too: unbound begins it with the word error. An
	// unbound that does not run is ErrNotRunning.
	ResolverAsk(ctx context.Context, questions ...ResolverQuestion) ([]string, error)
}

// ResolverQuestion is a command of unbound and its arguments. The last one may have blanks in it, because some commands take the
// rest of the line.
type ResolverQuestion []string

var errNoResolver = fmt.Errorf("unbound: %w", ErrNotRunning)

// ResolverAsk puts questions to the running unbound.
func (s *System) ResolverAsk(ctx context.Context, questions ...ResolverQuestion) ([]string, error) {
	answers := make([]string, 0, len(questions))
	for _, q := range questions {
		text, err := q.text()
		if err != nil {
			return answers, err
		}
		answer, err := s.askResolver(ctx, text)
		if err != nil {
			return answers, fmt.Errorf("asking unbound to %s: %w", q[0], err)
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// text is the question as it is sent.
func (q ResolverQuestion) text() (string, error) {
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
	if len(text) > ResolverQuestionLimit {
		return "", fmt.Errorf("a question to unbound is too long: %d of %d bytes", len(text), ResolverQuestionLimit)
	}
	return text, nil
}

// askResolver sends one line and returns all that comes back: unbound closes the connection behind its answer.
func (s *System) askResolver(ctx context.Context, text string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, resolverAskWithin, fmt.Errorf("unbound did not answer within %s: %w", resolverAskWithin, context.DeadlineExceeded))
	defer cancel()
	conn, err := s.dialResolver(ctx)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		return "", errNoResolver
	case err != nil:
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	_, err = io.WriteString(conn, resolverMagic+text+"\n")
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

// dialResolver reaches the control socket. One that is there and refuses is about to be listened on, or was left by an unbound that
// is gone.
func (s *System) dialResolver(ctx context.Context) (net.Conn, error) {
	for begun := time.Now(); ; pause(ctx, resolverRetry) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", s.path(unboundControl))
		if !errors.Is(err, syscall.ECONNREFUSED) || ctx.Err() != nil || time.Since(begun) > resolverBegins {
			return conn, err
		}
	}
}
