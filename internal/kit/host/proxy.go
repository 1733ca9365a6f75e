package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Where HAProxy answers: its master process, and the worker that it has started last.
const (
	proxyMaster = "/run/haproxy-master.sock"
	proxyAdmin  = "/run/haproxy/admin.sock"
	proxyPID    = "/run/haproxy.pid"
)

const (
	// ProxyQuestionLimit is how long a question to HAProxy may be with its payload: it has to fit into one of HAProxy's
	// buffers, which drops the connection otherwise.
	ProxyQuestionLimit = 15 << 10
	// proxyAskWithin is how long HAProxy may take for one answer.
	proxyAskWithin = 10 * time.Second
	// proxyReloadWithin is how long a new worker may take to read its files.
	proxyReloadWithin = 2 * time.Minute
	// proxyRetry is how long to wait for a master that does not listen because it starts itself anew.
	proxyRetry = 5 * time.Millisecond
	// proxyLetGo is how long former workers may take to hear that they are former ones.
	proxyLetGo = 10 * time.Second
	// proxyGone is how long no master may be seen before it counts as gone: it writes the file with its number anew.
	proxyGone = 500 * time.Millisecond
)

// Proxy is the running HAProxy.
type Proxy interface {
	// ProxyAsk puts questions to the current worker's admin socket, one after the other, and returns the answers without
	// the newlines around them. It stops at the first that gets none. What HAProxy answers is up to the caller to judge:
	// a refusal is an answer too. A HAProxy that does not run is ErrNotRunning.
	ProxyAsk(ctx context.Context, questions ...ProxyQuestion) ([]string, error)
	// ProxyReload makes a new worker read the installed files, and returns when that worker has taken over and the former one
	// accepts nothing any more. A configuration that HAProxy refuses is a *ReloadRefused, and the former worker goes on. A
	// HAProxy that does not run is ErrNotRunning.
	ProxyReload(ctx context.Context) (ProxyProcess, error)
	// ProxyProcess tells who serves. A HAProxy that does not run is ErrNotRunning.
	ProxyProcess(ctx context.Context) (ProxyProcess, error)
}

// ProxyQuestion is one command of HAProxy's runtime interface.
type ProxyQuestion struct {
	// Words are the command and its arguments. Whatever a word holds, it stays one word.
	Words []string
	// Payload follows the command, for those that take lines: entries of a map, a certificate. It has no empty lines.
	Payload string
}

// ProxyProcess is the HAProxy that serves.
type ProxyProcess struct {
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
	if said := firstLines(alerts(e.Log)); said != "" {
		return "haproxy refused the reload and goes on as it was: " + said
	}
	return "haproxy refused the reload and goes on as it was; its log says why"
}

var errNoProxy = fmt.Errorf("haproxy: %w", ErrNotRunning)

// ProxyAsk puts questions to the current worker.
func (s *System) ProxyAsk(ctx context.Context, questions ...ProxyQuestion) ([]string, error) {
	var answers []string
	for _, q := range questions {
		text, err := q.text()
		if err != nil {
			return answers, err
		}
		answer, err := s.askProxy(ctx, proxyAdmin, text)
		if err != nil {
			return answers, err
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// escape keeps what has a meaning on HAProxy's command line from having one.
var escape = strings.NewReplacer(`\`, `\\`, " ", `\ `, ";", `\;`)

// text is the question as it is sent.
func (q ProxyQuestion) text() (string, error) {
	words := make([]string, len(q.Words))
	for i, word := range q.Words {
		if word == "" || word == "<<" || strings.ContainsFunc(word, func(r rune) bool { return r < ' ' && r != '\x1f' || r == 0x7f }) {
			return "", fmt.Errorf("%q cannot be a word of a question to haproxy", word)
		}
		words[i] = escape.Replace(word)
	}
	command := strings.Join(words, " ")
	switch {
	case command == "":
		return "", errors.New("a question to haproxy without words")
	case q.Payload == "":
		return command + "\n", nil
	case strings.ContainsAny(q.Payload, "\x00\r"):
		return "", fmt.Errorf("the payload of %q is not text", command)
	}
	payload := strings.TrimSuffix(q.Payload, "\n")
	if slices.Contains(strings.Split(payload, "\n"), "") {
		return "", fmt.Errorf("the payload of %q has an empty line, which would end it", command)
	}
	text := command + " <<\n" + payload + "\n\n"
	if len(text) > ProxyQuestionLimit {
		return "", fmt.Errorf("the payload of %q is too long for haproxy: %d of %d bytes", command, len(text), ProxyQuestionLimit)
	}
	return text, nil
}

// errNoAnswer is a connection that HAProxy closed without a word: the process went away.
var errNoAnswer = errors.New("haproxy went away")

// askProxy asks on one of HAProxy's sockets. Every answer has at least a newline.
func (s *System) askProxy(ctx context.Context, socket, text string) (string, error) {
	ctx, cancel := askingProxy(ctx)
	defer cancel()
	answer, err := s.tell(ctx, socket, text)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		return "", errNoProxy
	case err == nil && answer == "":
		err = errNoAnswer
	}
	if err != nil {
		command, _, _ := strings.Cut(text, "\n")
		return "", fmt.Errorf("asking haproxy to %s: %w", strings.TrimSuffix(command, " <<"), err)
	}
	return strings.Trim(answer, "\n"), nil
}

// askingProxy bounds the time for one answer.
func askingProxy(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, proxyAskWithin, fmt.Errorf("haproxy did not answer within %s: %w", proxyAskWithin, context.DeadlineExceeded))
}

// ProxyProcess tells who serves.
func (s *System) ProxyProcess(ctx context.Context) (ProxyProcess, error) {
	ctx, cancel := askingProxy(ctx)
	defer cancel()
	p, err := s.proxyProcesses(ctx)
	return p.current(), err
}

// ProxyReload makes a new worker read the installed files.
//
// A master of HAProxy 2.6 starts itself anew to reload. What it is told in that moment is lost, without a word. So the reload is
// confirmed by the master's own count, and sent again while that does not move. The count is raised when the master starts
// itself anew, before it reads the files, whoever made it do so.
func (s *System) ProxyReload(ctx context.Context) (ProxyProcess, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, proxyReloadWithin, fmt.Errorf("haproxy did not reload within %s: %w", proxyReloadWithin, context.DeadlineExceeded))
	defer cancel()
	was, err := s.proxyProcesses(ctx)
	if err != nil {
		return ProxyProcess{}, err
	}
	for {
		// From 2.7 on the master answers when it is done. A 2.6 closes the connection as it starts itself anew, so that
		// whoever answers the next question has reloaded, or has not heard of it: an error says no more than that.
		said, _ := s.tell(ctx, proxyMaster, "reload\n")
		if ctx.Err() != nil {
			return ProxyProcess{}, context.Cause(ctx)
		}
		if strings.HasPrefix(said, "Success=0") {
			_, log, _ := strings.Cut(said, "\n--\n")
			return ProxyProcess{}, &ReloadRefused{Log: log}
		}
		now, err := s.proxyProcesses(ctx)
		switch {
		case err != nil:
			return ProxyProcess{}, fmt.Errorf("waiting for the new worker: %w", err)
		case now.master == was.master && now.reloads == was.reloads:
			continue // it was lost
		case now.failed > 0:
			return ProxyProcess{}, &ReloadRefused{}
		}
		s.waitLetGo(ctx, now.old)
		return now.current(), nil
	}
}

// waitLetGo waits until former workers accept no new connections. They share their listeners with the new worker until they have
// heard the signal that ends them, and might take what is meant for it. One that does not answer takes nothing either.
func (s *System) waitLetGo(ctx context.Context, workers []int) {
	ctx, cancel := context.WithTimeout(ctx, proxyLetGo)
	defer cancel()
	for _, pid := range workers {
		for ctx.Err() == nil {
			// The answer is about the process, or that there is no such process any more.
			said, err := s.tell(ctx, proxyMaster, fmt.Sprintf("@!%d show info\n", pid))
			if err == nil && !strings.Contains(said, "\nStopping: 0\n") {
				break
			}
			pause(ctx, proxyRetry)
		}
	}
}

// proxyProcesses are HAProxy's processes, as its master knows them.
type proxyProcesses struct {
	master, reloads, failed int
	worker                  int
	version                 string
	old                     []int
}

func (p proxyProcesses) current() ProxyProcess {
	return ProxyProcess{PID: p.worker, Version: p.version, Reloads: p.reloads, OldWorkers: len(p.old)}
}

// proxyProcesses asks the master, and waits for it while it starts itself anew.
func (s *System) proxyProcesses(ctx context.Context) (proxyProcesses, error) {
	seen := time.Now()
	for {
		said, err := s.tell(ctx, proxyMaster, "show proc\n")
		switch {
		case ctx.Err() != nil:
			return proxyProcesses{}, context.Cause(ctx)
		case err == nil && said != "":
			return parseProcesses(said)
		case s.proxyMasterLives():
			seen = time.Now()
		case time.Since(seen) > proxyGone || errors.Is(err, fs.ErrNotExist) && !s.proxyHasBegun():
			return proxyProcesses{}, errNoProxy
		}
		pause(ctx, proxyRetry)
	}
}

// proxyMasterLives tells whether a master is there, though it may not listen at the moment.
func (s *System) proxyMasterLives() bool {
	content, err := os.ReadFile(s.path(proxyPID))
	if err != nil {
		return false
	}
	name, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(content)), "comm"))
	return err == nil && strings.TrimSpace(string(name)) == "haproxy"
}

// proxyHasBegun tells whether a worker's socket is there: those of the master are made in the same moment.
func (s *System) proxyHasBegun() bool {
	_, err := os.Stat(s.path(proxyAdmin))
	return err == nil
}

// parseProcesses reads what the master says to show proc: a table of the master, then the current worker, then the old ones,
// each part after a line that begins with #.
func parseProcesses(said string) (p proxyProcesses, err error) {
	part := ""
	for line := range strings.Lines(said) {
		if name, ok := strings.CutPrefix(line, "# "); ok {
			part = strings.TrimSpace(name)
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 4 || strings.HasPrefix(line, "#") {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err != nil {
			return p, fmt.Errorf("unexpected process of haproxy: %q", line)
		}
		switch {
		case fields[1] == "master":
			p.master = pid
			if _, err := fmt.Sscanf(strings.Join(fields[2:], " "), "%d [failed: %d]", &p.reloads, &p.failed); err != nil {
				return p, fmt.Errorf("unexpected master of haproxy: %q", line)
			}
		case fields[1] == "worker" && part == "workers":
			p.worker, p.version = pid, fields[len(fields)-1]
		case fields[1] == "worker" && part == "old workers":
			p.old = append(p.old, pid)
		}
	}
	if p.master == 0 || p.worker == 0 {
		return p, fmt.Errorf("haproxy names no master or no worker: %q", said)
	}
	return p, nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
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
