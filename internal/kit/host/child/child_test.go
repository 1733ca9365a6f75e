package child_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host/child"
	"edge.internal/gateway/internal/kit/waittest"
)

// helper makes the test binary start a child, print its pid and wait to be killed.
const helper = "CHILD_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helper) != "" {
		cmd := exec.Command("/bin/sleep", "60")
		if _, err := child.Start(cmd, syscall.SIGKILL); err != nil {
			panic(err)
		}
		os.Stdout.WriteString(strconv.Itoa(cmd.Process.Pid) + "\n")
		select {}
	}
	goleak.VerifyTestMain(m)
}

func TestChildDiesWithItsParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helper+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	stat := "/proc/" + strings.TrimSpace(line) + "/stat"
	if !running(stat) {
		t.Fatal("the child is not running")
	}
	cmd.Process.Kill()
	cmd.Wait()
	waittest.Until(t, "the child ends", func() bool { return !running(stat) })
}

func running(stat string) bool {
	content, err := os.ReadFile(stat)
	return err == nil && !strings.Contains(string(content), ") Z ")
}

func TestWaitDeliversTheExitStatus(t *testing.T) {
	ended, err := child.Start(exec.Command("/bin/sh", "-c", "exit 7"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	if exit, ok := (<-ended).(*exec.ExitError); !ok || exit.ExitCode() != 7 {
		t.Errorf("exit = %v", exit)
	}
	if _, err := child.Start(exec.Command("/no/such/program"), syscall.SIGKILL); err == nil {
		t.Error("a missing program was started")
	}
}

// Reap reaps an orphan, and leaves the exit status of this process's own children to Start.
func TestReap(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	out, err := exec.Command("/bin/sh", "-c", "sleep 0.05 >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	orphan := "/proc/" + strings.TrimSpace(string(out))
	waittest.Until(t, "the orphan is reaped", func() bool {
		ended, err := child.Start(exec.Command("/bin/sh", "-c", "exit 7"), syscall.SIGKILL)
		if err != nil {
			t.Fatal(err)
		}
		child.Reap()
		if exit, ok := (<-ended).(*exec.ExitError); !ok || exit.ExitCode() != 7 {
			t.Fatalf("exit = %v", exit)
		}
		_, err = os.Stat(orphan)
		return err != nil
	})
}
