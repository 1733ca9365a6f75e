package unbound

import (
	"context"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Socket is unbound's control socket. Its AppArmor profile allows no other path.
const Socket = "/run/unbound.ctl"

// QuestionLimit is the maximum length of a question in bytes: unbound reads the line into a buffer of 1024.
const QuestionLimit = 1000

type Resolver interface {
	// ResolverAsk sends the questions one by one to the control socket, and returns the answers without surrounding newlines. It
	// stops at the first question that gets no answer. A refusal is an answer, too: it begins with the word error. If unbound does
	// not run, it is daemon.ErrNotRunning.
	ResolverAsk(ctx context.Context, questions ...Question) ([]string, error)
}

// Question is a command and its arguments. The last one may contain spaces, because some commands take the rest of the line.
type Question []string

var verbs = daemon.Verbs{"ResolverAsk": daemon.Local}
