package haproxy

import (
	"context"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Where HAProxy answers: its master process, and the worker that it has started last.
const (
	MasterSocket = "/run/gateway-haproxy/master.sock"
	AdminSocket  = "/run/haproxy/admin.sock"
	PIDFile      = "/run/gateway-haproxy/haproxy.pid"
)

// QuestionLimit is how long a question to HAProxy may be with its payload: it has to fit into one of HAProxy's
// buffers, which drops the connection otherwise.
const QuestionLimit = 15 << 10

// Proxy is the running HAProxy.
type Proxy interface {
	// ProxyAsk puts questions to the current worker's admin socket, one after the other, and returns the answers without
	// the newlines around them. It stops at the first that gets none. What HAProxy answers is up to the caller to judge:
	// a refusal is an answer too. A HAProxy that does not run is daemon.ErrNotRunning.
	ProxyAsk(ctx context.Context, questions ...Question) ([]string, error)
	// ProxyReload makes a new worker read the installed files, and returns when that worker has taken over and the former one
	// accepts nothing any more. A configuration that HAProxy refuses is a *ReloadRefused, and the former worker goes on. A
	// HAProxy that does not run is daemon.ErrNotRunning.
	ProxyReload(ctx context.Context) (Process, error)
	// ProxyProcess tells who serves. A HAProxy that does not run is daemon.ErrNotRunning.
	ProxyProcess(ctx context.Context) (Process, error)
}

var verbs = daemon.Verbs{"ProxyAsk": daemon.Local, "ProxyReload": daemon.Served, "ProxyProcess": daemon.Repeatable}

// ServedProxy is the running HAProxy, by way of the helper.
type ServedProxy struct{ Helper daemon.Helper }

func (s ServedProxy) ProxyReload(ctx context.Context) (Process, error) {
	return daemon.Ask[Process](ctx, s.Helper, "ProxyReload")
}

func (s ServedProxy) ProxyProcess(ctx context.Context) (Process, error) {
	return daemon.Ask[Process](ctx, s.Helper, "ProxyProcess")
}

// Question is one command of HAProxy's runtime interface.
type Question struct {
	// Words are the command and its arguments. Whatever a word holds, it stays one word.
	Words []string
	// Payload follows the command, for those that take lines: entries of a map, a certificate. It has no empty lines.
	Payload string
}

// Process is the HAProxy that serves.
type Process struct {
	// PID is the current worker.
	PID int
	// Version is the worker's.
	Version string
	// Reloads counts the reloads since HAProxy was started, also those that were refused.
	Reloads int
	// OldWorkers still serve connections that they had before a reload.
	OldWorkers int
}

// ReloadRefused is a reload that HAProxy refused.
type ReloadRefused struct {
	// Log is what HAProxy said, where it tells: from version 2.7 on.
	Log string
}

func (e *ReloadRefused) Error() string {
	if said := daemon.FirstLines(alerts(e.Log)); said != "" {
		return "HAProxy refused the reload and keeps its configuration: " + said
	}
	return "HAProxy refused the reload and keeps its configuration; its log has the reason"
}

// alerts keeps the alerts of what HAProxy said about its configuration, without what it puts before each. Text without any
// stays as it is.
func alerts(text string) string {
	var kept, closing []string
	alert := false
	for line := range strings.Lines(text) {
		level, rest, ok := strings.Cut(strings.TrimPrefix(line, "["), "]")
		if ok && strings.HasPrefix(line, "[") && slices.Contains([]string{"ALERT", "WARNING", "NOTICE", "DIAG"}, level) {
			alert = level == "ALERT"
			_, line, _ = strings.Cut(rest, ") : ") // behind the number of the process
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
