package haproxy

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
	"sync"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/talk"
)

const (
	askWithin = 10 * time.Second
	// reloadWithin is how long a new worker may take to read its files.
	reloadWithin = 2 * time.Minute
	// retry is the poll interval while the master does not listen because it is re-executing itself.
	retry = 5 * time.Millisecond
	// releaseWithin is how long old workers may take to stop accepting connections after a reload.
	releaseWithin = 10 * time.Second
	// goneAfter is how long the master may be missing before it counts as not running: a re-exec rewrites the pid file.
	goneAfter = 500 * time.Millisecond
	// idleFor is how long an old worker may be idle before it is killed; checkWithin bounds one check of all old workers.
	idleFor     = 3 * time.Second
	checkWithin = time.Second
)

type live struct {
	home home.Home

	mu      sync.Mutex
	checked time.Time // last check of the old workers
	idle    []int     // those that were idle then
}

func New(h home.Home) Proxy { return &live{home: h} }

var errNotRunning = fmt.Errorf("haproxy: %w", daemon.ErrNotRunning)

func (s *live) ProxyAsk(ctx context.Context, questions ...Question) ([]string, error) {
	var answers []string
	for _, q := range questions {
		text, err := text(q)
		if err != nil {
			return answers, err
		}
		answer, err := s.ask(ctx, AdminSocket, text)
		if err != nil {
			return answers, err
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// escape quotes the special characters of HAProxy's command line.
var escape = strings.NewReplacer(`\`, `\\`, " ", `\ `, ";", `\;`)

func text(q Question) (string, error) {
	words := make([]string, len(q.Words))
	for i, word := range q.Words {
		if word == "" || word == "<<" || strings.ContainsFunc(word, func(r rune) bool { return r < ' ' && r != '\x1f' || r == 0x7f }) {
			return "", fmt.Errorf("%q is not allowed in a question to haproxy", word)
		}
		words[i] = escape.Replace(word)
	}
	command := strings.Join(words, " ")
	switch {
	case command == "":
		return "", errors.New("empty question to haproxy")
	case q.Payload == "":
		return command + "\n", nil
	case strings.ContainsAny(q.Payload, "\x00\r"):
		return "", fmt.Errorf("the payload of %q is not text", command)
	}
	payload := strings.TrimSuffix(q.Payload, "\n")
	if slices.Contains(strings.Split(payload, "\n"), "") {
		return "", fmt.Errorf("the payload of %q has an empty line, which would end the payload", command)
	}
	text := command + " <<\n" + payload + "\n\n"
	if len(text) > QuestionLimit {
		return "", fmt.Errorf("the payload of %q is too long for haproxy: %d of %d bytes", command, len(text), QuestionLimit)
	}
	return text, nil
}

// errNoAnswer means that HAProxy closed the connection without an answer, because the process exited.
var errNoAnswer = errors.New("haproxy closed the connection")

func (s *live) send(ctx context.Context, socket, text string) (string, error) {
	return talk.Ask(ctx, s.home.Path(socket), text)
}

// ask sends a command and returns the answer. Every answer has at least a newline, so an empty one means that the process is gone.
func (s *live) ask(ctx context.Context, socket, text string) (string, error) {
	ctx, cancel := asking(ctx)
	defer cancel()
	answer, err := s.send(ctx, socket, text)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		return "", errNotRunning
	case err == nil && answer == "":
		err = errNoAnswer
	}
	if err != nil {
		command, _, _ := strings.Cut(text, "\n")
		return "", fmt.Errorf("asking haproxy to %s: %w", strings.TrimSuffix(command, " <<"), err)
	}
	return strings.Trim(answer, "\n"), nil
}

func asking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, askWithin, fmt.Errorf("haproxy did not answer within %s: %w", askWithin, context.DeadlineExceeded))
}

// ProxyProcess also kills old workers that hang, because it is called often enough.
func (s *live) ProxyProcess(ctx context.Context) (Process, error) {
	ctx, cancel := asking(ctx)
	defer cancel()
	p, err := s.processes(ctx)
	if err == nil {
		s.endIdle(ctx, p.old)
	}
	return p.current(), err
}

// endIdle kills old workers that two checks in a row found idle and still running. The threads of HAProxy 2.6 exit one by one. A
// thread that checks after another one has exited never sees that all are done: it spins at 100 % of a core, and hard-stop-after
// does not end it. ProxyProcess runs at every runtime change, so most calls return without a check.
func (s *live) endIdle(ctx context.Context, workers []int) {
	if !s.mu.TryLock() {
		return // another call is checking
	}
	defer s.mu.Unlock()
	if time.Since(s.checked) < idleFor {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	var idle []int
	for _, pid := range workers {
		if info, err := s.info(ctx, pid); err != nil || !isIdle(info) {
			continue
		}
		if slices.Contains(s.idle, pid) {
			s.end(ctx, pid)
		}
		idle = append(idle, pid)
	}
	s.checked, s.idle = time.Now(), idle
}

func (s *live) info(ctx context.Context, pid int) (string, error) {
	return s.send(ctx, MasterSocket, fmt.Sprintf("@!%d show info\n", pid))
}

// end kills a worker. It exits without an answer.
func (s *live) end(ctx context.Context, pid int) {
	_, _ = s.send(ctx, MasterSocket, fmt.Sprintf("expert-mode on; @!%d debug dev exit 0\n", pid))
}

// isIdle reports whether a worker is stopping and has no job left but the answer to this command.
func isIdle(info string) bool {
	values := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(line, ":")
		values[name] = strings.TrimSpace(value)
	}
	jobs, err := strconv.Atoi(values["Jobs"])
	lasting, err2 := strconv.Atoi(values["Unstoppable Jobs"])
	return err == nil && err2 == nil && values["Stopping"] == "1" && jobs-lasting <= 1
}

// A master of HAProxy 2.6 re-executes itself to reload, and silently loses commands that arrive at that moment. So we confirm the
// reload by the master's own counter, and send it again while the counter stays the same. The master raises it when it re-executes,
// before it reads the files, whatever made it do so.
func (s *live) ProxyReload(ctx context.Context) (Process, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reloadWithin, fmt.Errorf("haproxy did not reload within %s: %w", reloadWithin, context.DeadlineExceeded))
	defer cancel()
	was, err := s.processes(ctx)
	if err != nil {
		return Process{}, err
	}
	for {
		// From 2.7 on the master answers when it is done. 2.6 closes the connection when it re-executes, so an error only means
		// that the reload may or may not have happened.
		answer, _ := s.send(ctx, MasterSocket, "reload\n")
		if ctx.Err() != nil {
			return Process{}, context.Cause(ctx)
		}
		if strings.HasPrefix(answer, "Success=0") {
			_, log, _ := strings.Cut(answer, "\n--\n")
			return Process{}, &ReloadRefused{Log: log}
		}
		now, err := s.processes(ctx)
		switch {
		case err != nil:
			return Process{}, fmt.Errorf("waiting for the new worker: %w", err)
		case now.master == was.master && now.reloads == was.reloads:
			continue // it was lost
		case now.failed > 0:
			return Process{}, &ReloadRefused{}
		}
		s.waitReleased(ctx, now.old)
		return now.current(), nil
	}
}

// waitReleased waits until old workers accept no new connections. They share their listeners with the new worker until they have
// handled the signal to stop, and could take connections meant for it. A worker that does not answer accepts none either.
func (s *live) waitReleased(ctx context.Context, workers []int) {
	ctx, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	for _, pid := range workers {
		for ctx.Err() == nil {
			// The answer is either statistics or an error that this process no longer exists.
			info, err := s.info(ctx, pid)
			if err == nil && !strings.Contains(info, "\nStopping: 0\n") {
				break
			}
			talk.Pause(ctx, retry)
		}
	}
}

// processes is the master's view of HAProxy's processes.
type processes struct {
	master, reloads, failed int
	worker                  int
	version                 string
	old                     []int
}

func (p processes) current() Process {
	return Process{PID: p.worker, Version: p.version, Reloads: p.reloads, OldWorkers: len(p.old)}
}

// processes queries the master, and waits while it re-executes itself.
func (s *live) processes(ctx context.Context) (processes, error) {
	seen := time.Now()
	for {
		table, err := s.send(ctx, MasterSocket, "show proc\n")
		switch {
		case ctx.Err() != nil:
			return processes{}, context.Cause(ctx)
		case err == nil && table != "":
			return parseProcesses(table)
		case s.masterRuns():
			seen = time.Now()
		case time.Since(seen) > goneAfter || errors.Is(err, fs.ErrNotExist) && !s.workerSocketExists():
			return processes{}, errNotRunning
		}
		talk.Pause(ctx, retry)
	}
}

// masterRuns reports whether the master is running, even if it does not listen at the moment.
func (s *live) masterRuns() bool {
	content, err := os.ReadFile(s.home.Path(PIDFile))
	if err != nil {
		return false
	}
	name, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(content)), "comm"))
	return err == nil && strings.TrimSpace(string(name)) == "haproxy"
}

// workerSocketExists tells a master that is re-executing from a HAProxy that has never started: the sockets of master and worker
// are created together.
func (s *live) workerSocketExists() bool {
	_, err := os.Stat(s.home.Path(AdminSocket))
	return err == nil
}

// parseProcesses parses the answer to show proc: the master, the current worker and the old ones, each part after a line that
// begins with #.
func parseProcesses(table string) (p processes, err error) {
	part := ""
	for line := range strings.Lines(table) {
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
			return p, fmt.Errorf("unexpected line from show proc: %q", line)
		}
		switch {
		case fields[1] == "master":
			p.master = pid
			if _, err := fmt.Sscanf(strings.Join(fields[2:], " "), "%d [failed: %d]", &p.reloads, &p.failed); err != nil {
				return p, fmt.Errorf("unexpected master line from show proc: %q", line)
			}
		case fields[1] == "worker" && part == "workers":
			p.worker, p.version = pid, fields[len(fields)-1]
		case fields[1] == "worker" && part == "old workers":
			p.old = append(p.old, pid)
		}
	}
	if p.master == 0 || p.worker == 0 {
		return p, fmt.Errorf("show proc lists no master or no worker: %q", table)
	}
	return p, nil
}
