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
	// askWithin is how long HAProxy may take for one answer.
	askWithin = 10 * time.Second
	// reloadWithin is how long a new worker may take to read its files.
	reloadWithin = 2 * time.Minute
	// retry is how long to wait for a master that does not listen because it is restarting itself.
	retry = 5 * time.Millisecond
	// letGo is how long former workers may take to hear that they are former ones.
	letGo = 10 * time.Second
	// goneAfter is how long no master may be seen before it counts as gone: a restart rewrites the file with its number.
	goneAfter = 500 * time.Millisecond
	// idleFor is how long a former worker may have nothing left to do before it is ended, and seeOff how long one look at all of them may take.
	idleFor = 3 * time.Second
	seeOff  = time.Second
)

// live is the HAProxy of a machine.
type live struct {
	home home.Home

	mu     sync.Mutex
	looked time.Time // when former workers were last looked at
	idle   []int     // those of them that had nothing left to do
}

// New returns the HAProxy of a machine.
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

// escape keeps what has a meaning on HAProxy's command line from having one.
var escape = strings.NewReplacer(`\`, `\\`, " ", `\ `, ";", `\;`)

// text is the question as it is sent.
func text(q Question) (string, error) {
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
	if len(text) > QuestionLimit {
		return "", fmt.Errorf("the payload of %q is too long for haproxy: %d of %d bytes", command, len(text), QuestionLimit)
	}
	return text, nil
}

// errNoAnswer is a connection that HAProxy closed without a word: the process went away.
var errNoAnswer = errors.New("haproxy went away")

// tell sends a text to one of HAProxy's sockets.
func (s *live) tell(ctx context.Context, socket, text string) (string, error) {
	return talk.Tell(ctx, s.home.Path(socket), text)
}

// ask asks on one of HAProxy's sockets. Every answer has at least a newline.
func (s *live) ask(ctx context.Context, socket, text string) (string, error) {
	ctx, cancel := asking(ctx)
	defer cancel()
	answer, err := s.tell(ctx, socket, text)
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

// asking bounds the time for one answer.
func asking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, askWithin, fmt.Errorf("haproxy did not answer within %s: %w", askWithin, context.DeadlineExceeded))
}

// ProxyProcess tells who serves, and ends former workers that have not noticed that they are done.
func (s *live) ProxyProcess(ctx context.Context) (Process, error) {
	ctx, cancel := asking(ctx)
	defer cancel()
	p, err := s.processes(ctx)
	if err == nil {
		s.endIdle(ctx, p.old)
	}
	return p.current(), err
}

// endIdle ends former workers that serve nothing and still do not exit, when two looks in a row find them so. The threads of HAProxy 2.6 exit one
// by one. A thread that checks after another one has exited never sees that all are done: it spins and uses a whole core, and hard-stop-after
// does not end it. Every runtime change asks who serves, so most calls look at nothing.
func (s *live) endIdle(ctx context.Context, workers []int) {
	if !s.mu.TryLock() {
		return // another call looks already
	}
	defer s.mu.Unlock()
	if time.Since(s.looked) < idleFor {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, seeOff)
	defer cancel()
	var idle []int
	for _, pid := range workers {
		if said, err := s.about(ctx, pid); err != nil || !servesNothing(said) {
			continue
		}
		if slices.Contains(s.idle, pid) {
			s.end(ctx, pid)
		}
		idle = append(idle, pid)
	}
	s.looked, s.idle = time.Now(), idle
}

// about is what a worker says about itself.
func (s *live) about(ctx context.Context, pid int) (string, error) {
	return s.tell(ctx, MasterSocket, fmt.Sprintf("@!%d show info\n", pid))
}

// end ends a worker at once. That is its answer.
func (s *live) end(ctx context.Context, pid int) {
	_, _ = s.tell(ctx, MasterSocket, fmt.Sprintf("expert-mode on; @!%d debug dev exit 0\n", pid))
}

// servesNothing tells from what a worker says about itself whether it ends, and has nothing to do but to answer this question.
func servesNothing(said string) bool {
	values := map[string]string{}
	for line := range strings.Lines(said) {
		name, value, _ := strings.Cut(line, ":")
		values[name] = strings.TrimSpace(value)
	}
	jobs, err := strconv.Atoi(values["Jobs"])
	lasting, err2 := strconv.Atoi(values["Unstoppable Jobs"])
	return err == nil && err2 == nil && values["Stopping"] == "1" && jobs-lasting <= 1
}

// ProxyReload makes a new worker read the installed files.
//
// A master of HAProxy 2.6 restarts itself to reload. What it is told in that moment is lost, without a word. So the reload is
// confirmed by the master's own count, and sent again while that does not move. The count is raised when the master starts
// itself again, before it reads the files, no matter what made it do so.
func (s *live) ProxyReload(ctx context.Context) (Process, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reloadWithin, fmt.Errorf("haproxy did not reload within %s: %w", reloadWithin, context.DeadlineExceeded))
	defer cancel()
	was, err := s.processes(ctx)
	if err != nil {
		return Process{}, err
	}
	for {
		// From 2.7 on the master answers when it is done. A 2.6 closes the connection as it restarts itself, so that
		// the one that answers the next question has reloaded, or has not heard of it: an error says no more than that.
		said, _ := s.tell(ctx, MasterSocket, "reload\n")
		if ctx.Err() != nil {
			return Process{}, context.Cause(ctx)
		}
		if strings.HasPrefix(said, "Success=0") {
			_, log, _ := strings.Cut(said, "\n--\n")
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
		s.waitLetGo(ctx, now.old)
		return now.current(), nil
	}
}

// waitLetGo waits until former workers accept no new connections. They share their listeners with the new worker until they have
// heard the signal that ends them, and might take what is meant for it. One that does not answer takes nothing either.
func (s *live) waitLetGo(ctx context.Context, workers []int) {
	ctx, cancel := context.WithTimeout(ctx, letGo)
	defer cancel()
	for _, pid := range workers {
		for ctx.Err() == nil {
			// The answer is about the process, or that there is no such process any more.
			said, err := s.about(ctx, pid)
			if err == nil && !strings.Contains(said, "\nStopping: 0\n") {
				break
			}
			talk.Pause(ctx, retry)
		}
	}
}

// processes are HAProxy's processes, as its master knows them.
type processes struct {
	master, reloads, failed int
	worker                  int
	version                 string
	old                     []int
}

func (p processes) current() Process {
	return Process{PID: p.worker, Version: p.version, Reloads: p.reloads, OldWorkers: len(p.old)}
}

// processes asks the master, and waits for it while it restarts itself.
func (s *live) processes(ctx context.Context) (processes, error) {
	seen := time.Now()
	for {
		said, err := s.tell(ctx, MasterSocket, "show proc\n")
		switch {
		case ctx.Err() != nil:
			return processes{}, context.Cause(ctx)
		case err == nil && said != "":
			return parseProcesses(said)
		case s.masterLives():
			seen = time.Now()
		case time.Since(seen) > goneAfter || errors.Is(err, fs.ErrNotExist) && !s.hasBegun():
			return processes{}, errNotRunning
		}
		talk.Pause(ctx, retry)
	}
}

// masterLives tells whether a master is there, though it may not listen at the moment.
func (s *live) masterLives() bool {
	content, err := os.ReadFile(s.home.Path(PIDFile))
	if err != nil {
		return false
	}
	name, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(content)), "comm"))
	return err == nil && strings.TrimSpace(string(name)) == "haproxy"
}

// hasBegun tells whether a worker's socket is there: those of the master are made in the same moment.
func (s *live) hasBegun() bool {
	_, err := os.Stat(s.home.Path(AdminSocket))
	return err == nil
}

// parseProcesses reads what the master says to show proc: a table of the master, then the current worker, then the old ones,
// each part after a line that begins with #.
func parseProcesses(said string) (p processes, err error) {
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
