// Package child starts processes that die with this one, and reaps the orphans that fall to it.
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

// own are the processes that Start has started and that have not been waited for. Reap must not touch them.
var own = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// Start starts the command so that the kernel sends it the signal when this process dies, however it dies. The channel
// delivers what cmd.Wait returned, once; nobody else may call cmd.Wait.
func Start(cmd *exec.Cmd, onDeath syscall.Signal) (<-chan error, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = onDeath
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel sends the signal when the thread that forked ends, not the process: keep that thread.
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

// Run starts the command as Start does and waits for it.
func Run(cmd *exec.Cmd) error {
	ended, err := Start(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	return <-ended
}

// Reap collects the dead children that Start has not started: orphans that the kernel gave to this process because it is
// the first of its process namespace. Call it on SIGCHLD; a process that does so must start its children with Start and Run.
func Reap() {
	own.Lock()
	defer own.Unlock()
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		content, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(content)) {
			if pid, err := strconv.Atoi(field); err == nil && !own.pids[pid] {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}
	}
}
