package haproxy

import (
	"context"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Sockets of the master and of its latest worker, and the master's pid.
const (
	MasterSocket = "/run/gateway-haproxy/master.sock"
	AdminSocket  = "/run/haproxy/admin.sock"
	PIDFile      = "/run/gateway-haproxy/haproxy.pid"
)

// QuestionLimit is the maximum length of a question with its payload, in bytes. If it does not fit into HAProxy's buffer, HAProxy
// drops the connection.
const QuestionLimit = 15 << 10

type Proxy interface {
	// ProxyAsk sends the questions one by one to the current worker's admin socket, and returns the answers without surrounding
	// newlines. It stops at the first question that gets no answer. Callers must check the answers: a refusal is an answer, too. If
	// HAProxy does not run, it is daemon.ErrNotRunning.
	ProxyAsk(ctx context.Context, questions ...Question) ([]string, error)
	// ProxyReload starts a new worker with the installed files. It returns when that worker has taken over and the old one accepts
	// no more connections. If HAProxy refuses the configuration, it is a *ReloadRefused and the old worker continues. If HAProxy
	// does not run, it is daemon.ErrNotRunning.
	ProxyReload(ctx context.Context) (Process, error)
	// ProxyProcess returns the processes that serve. If HAProxy does not run, it is daemon.ErrNotRunning.
	ProxyProcess(ctx context.Context) (Process, error)
}

var verbs = daemon.Verbs{"ProxyAsk": daemon.Local, "ProxyReload": daemon.Served, "ProxyProcess": daemon.Repeatable}

// ServedProxy calls the verbs that the helper executes.
type ServedProxy struct{ Helper daemon.Helper }

func (s ServedProxy) ProxyReload(ctx context.Context) (Process, error) {
	return daemon.Ask[Process](ctx, s.Helper, "ProxyReload")
}

func (s ServedProxy) ProxyProcess(ctx context.Context) (Process, error) {
	return daemon.Ask[Process](ctx, s.Helper, "ProxyProcess")
}

type Question struct {
	// Words are the command and its arguments. They are escaped, so each stays one word whatever it contains.
	Words []string
	// Payload is the input of commands that take lines, such as map entries or a certificate. It must have no empty lines.
	Payload string
}

type Process struct {
	// PID is the current worker's.
	PID int
	// Version is the current worker's.
	Version string
	// Reloads counts reloads since the start, including refused ones.
	Reloads int
	// OldWorkers counts workers that still serve connections from before a reload.
	OldWorkers int
}

// ReloadRefused means that HAProxy kept its old configuration.
type ReloadRefused struct {
	// Log is HAProxy's output, from version 2.7 on; otherwise empty.
	Log string
}

func (e *ReloadRefused) Error() string {
	if reason := daemon.FirstLines(alerts(e.Log)); reason != "" {
		return "HAProxy refused the reload and keeps its configuration: " + reason
	}
	return "HAProxy refused the reload and keeps its configuration; its log has the reason"
}

// alerts returns only the alerts in HAProxy's output about its configuration, without prefixes. Text without alerts is returned
// unchanged.
func alerts(text string) string {
	var kept, closing []string
	alert := false
	for line := range strings.Lines(text) {
		level, rest, ok := strings.Cut(strings.TrimPrefix(line, "["), "]")
		if ok && strings.HasPrefix(line, "[") && slices.Contains([]string{"ALERT", "WARNING", "NOTICE", "DIAG"}, level) {
			alert = level == "ALERT"
			_, line, _ = strings.Cut(rest, ") : ") // after the pid
			line = strings.TrimPrefix(line, "config : ")
		}
		switch {
		case !alert:
		case strings.HasPrefix(line, "Error(s) found in configuration file") || strings.HasPrefix(line, "Fatal errors found in configuration"):
			closing = append(closing, line)
		default:
			kept = append(kept, line)
		}
	}
	switch {
	case len(kept) > 0:
		return strings.Join(kept, "")
	case len(closing) > 0:
		return strings.Join(closing, "")
	}
	return text
}
