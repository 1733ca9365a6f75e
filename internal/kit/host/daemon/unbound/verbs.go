package unbound

import (
	"context"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Socket is where unbound takes commands. Its AppArmor profile allows no other path.
const Socket = "/run/unbound.ctl"

// QuestionLimit is how long a question to unbound may be: it reads a line into a buffer of 1024 bytes.
const QuestionLimit = 1000

// Resolver is the running unbound.
type Resolver interface {
	// ResolverAsk puts questions to unbound's control socket, one after the other, and returns the answers without the newlines
	// around them. It stops at the first that gets none. A refusal is an answer, too: unbound begins it with the word error. An
	// unbound that does not run is daemon.ErrNotRunning.
	ResolverAsk(ctx context.Context, questions ...Question) ([]string, error)
}

// Question is a command of unbound and its arguments. The last one may have blanks in it, because some commands take the
// rest of the line.
type Question []string

var verbs = daemon.Verbs{"ResolverAsk": daemon.Local}
