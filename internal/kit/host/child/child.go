// Package child starts processes that die with this one, and reaps orphans that this process inherits.
package child

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// own has the running processes that Start has started. Reap must not touch them.
var own = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// Start starts the command so that the kernel sends it the signal when this process dies, however it dies. The channel delivers the
// result of cmd.Wait once; nobody else may call cmd.Wait.
func Start(cmd *exec.Cmd, onDeath syscall.Signal) (<-chan error, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = onDeath
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel sends the signal when the thread that forked exits, not the process, so keep that thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		own.Lock()
		err := cmd.Start()
		if err == nil {
			own.pids[cmd.Process.Pid] = true
		}
		own.Unlock()
		started <- err
		if err != nil {
			return
		}
		err = cmd.Wait()
		own.Lock()
		delete(own.pids, cmd.Process.Pid)
		own.Unlock()
		ended <- err
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return ended, nil
}

// Run starts the command as Start does, with SIGKILL, and waits for it.
func Run(cmd *exec.Cmd) error {
	ended, err := Start(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	return <-ended
}

// Reap reaps dead children that Start has not started: orphans that the kernel gave to this process as the init of its PID
// namespace. Call it on SIGCHLD. A process that does so must start all its children with Start or Run.
func Reap() {
	own.Lock()
	defer own.Unlock()
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		content, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has exited
		}
		for field := range strings.FieldsSeq(string(content)) {
			if pid, err := strconv.Atoi(field); err == nil && !own.pids[pid] {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}
	}
}
