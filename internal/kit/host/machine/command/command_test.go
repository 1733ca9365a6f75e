package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/waittest"
)

// at returns the commands with their files below a root, or the real ones.
func at(root string) *Commands {
	h := home.Home{Root: root, Foreign: root != ""}
	return New(h, files.New(h))
}

func checkChrony(t *testing.T, config string) (host.Output, error) {
	t.Helper()
	s := at("")
	return s.Run(t.Context(), chrony.Check, host.Input{Staged: []host.File{{Place: chrony.DropIn, Content: []byte(config)}}})
}

func TestChronyAcceptsAGoodFile(t *testing.T) {
	out, err := checkChrony(t, "server 198.51.100.2 iburst\nallow 10.0.0.0/8\n")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.Stdout, "server 198.51.100.2") || out.Duration <= 0 {
		t.Errorf("out = %+v", out)
	}
}

func TestChronyRefusesABadFile(t *testing.T) {
	_, err := checkChrony(t, "server 198.51.100.2 iburst\nfrobnicate\n")
	var exit *host.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("err = %v", err)
	}
	want := "chronyd: Fatal error : Invalid directive at line 2 in file /etc/chrony/conf.d/gateway.conf"
	if err.Error() != want {
		t.Errorf("error says %q, want %q", err, want)
	}
}

func TestChronycWithoutADaemon(t *testing.T) {
	s := at(t.TempDir()) // with a root folder, no daemon may be reached
	if _, err := s.Run(t.Context(), chrony.Tracking, host.Input{}); err == nil || err.Error() != "chrony does not run here" {
		t.Errorf("err = %v", err)
	}
}

func TestRunRefusesBadInput(t *testing.T) {
	s := at("")
	if _, err := s.Run(t.Context(), chrony.Check, host.Input{}); err == nil || !strings.Contains(err.Error(), "no staged file") {
		t.Errorf("without the staged file: %v", err)
	}
	if _, err := s.Run(t.Context(), chrony.Tracking, host.Input{Args: []string{"-h", "elsewhere"}}); err == nil {
		t.Error("operands were accepted")
	}
}

func TestStagedFilesAreRemoved(t *testing.T) {
	tmp := t.TempDir()
	if err := errors.Join(os.Chmod(tmp, 0o711), os.Chmod(filepath.Dir(tmp), 0o711)); err != nil { // the checker is not root
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	if _, err := checkChrony(t, "port 0\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := at("").Run(t.Context(), chrony.Check, host.Input{Staged: []host.File{{Place: "x"}}}); err == nil {
		t.Error("an unknown place was staged")
	}
	if left, _ := os.ReadDir(tmp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestUnknownCommandIsRefused(t *testing.T) {
	if _, err := at(t.TempDir()).Run(t.Context(), "x", host.Input{}); err == nil {
		t.Error("it was run")
	}
}

func TestMissingProgramIsNotInstalled(t *testing.T) {
	_, err := Exec(t.Context(), []string{"/usr/sbin/no-such-daemon"}, time.Second)
	if !errors.Is(err, host.ErrNotInstalled) || err.Error() != "no-such-daemon: not installed" {
		t.Errorf("err = %v", err)
	}
}

func TestOutputIsCapped(t *testing.T) {
	out, err := Exec(t.Context(), []string{"/usr/bin/head", "-c", "3000000", "/dev/zero"}, 10*time.Second)
	if err != nil || out.ExitCode != 0 {
		t.Fatalf("%d, %v", out.ExitCode, err)
	}
	if len(out.Stdout) != outputLimit {
		t.Errorf("kept %d bytes", len(out.Stdout))
	}
}

func TestEnvironmentIsFixed(t *testing.T) {
	t.Setenv("GATEWAY_SECRET", "x")
	out, err := Exec(t.Context(), []string{"/usr/bin/env"}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(environment, "\n") + "\n"; out.Stdout != want {
		t.Errorf("environment %q, want %q", out.Stdout, want)
	}
}

// The shell's child would outlive the shell.
func TestTimeoutKillsTheGroup(t *testing.T) {
	for name, limit := range map[string]struct{ context, command time.Duration }{
		"timeout": {time.Hour, time.Second}, "cancel": {time.Second, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit.context)
			defer cancel()
			file := filepath.Join(t.TempDir(), "pid")
			_, err := Exec(ctx, []string{"/bin/sh", "-c", "sleep 10000 & echo $! > " + file + "; wait"}, limit.command)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("err = %v", err)
			}
			if name == "timeout" && !strings.HasPrefix(err.Error(), "sh took longer than 1s") {
				t.Errorf("err = %v", err)
			}
			pid, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// The process that adopts it may leave it a zombie for a while.
			stat := "/proc/" + strings.TrimSpace(string(pid)) + "/stat"
			waittest.Until(t, "the child ends", func() bool {
				content, err := os.ReadFile(stat)
				return err != nil || strings.Contains(string(content), ") Z ")
			})
		})
	}
}

// A program runs at most atOnce times at a time. Further callers wait, but not for other programs.
func TestProgramsTakeTurns(t *testing.T) {
	s := at("")
	var last func()
	for range atOnce {
		done, err := s.turn(t.Context(), "/usr/bin/cscli")
		if err != nil {
			t.Fatal(err)
		}
		last = done
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.turn(gone, "/usr/bin/cscli"); !errors.Is(err, context.Canceled) {
		t.Errorf("one more than atOnce runs: %v", err)
	}
	if done, err := s.turn(t.Context(), "/usr/sbin/haproxy"); err != nil {
		t.Error(err)
	} else {
		done()
	}
	last()
	if _, err := s.turn(t.Context(), "/usr/bin/cscli"); err != nil {
		t.Error(err)
	}
}
