package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func checkChrony(t *testing.T, config string) (Output, error) {
	t.Helper()
	s := newSystem(t, "")
	return s.Run(t.Context(), ChronyCheck, Input{Staged: []File{{Place: ChronyDropIn, Content: []byte(config)}}})
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
	var exit *ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("err = %v", err)
	}
	want := "chronyd: Fatal error : Invalid directive at line 2 in file /etc/chrony/conf.d/gateway.conf"
	if err.Error() != want {
		t.Errorf("error says %q, want %q", err, want)
	}
}

func TestChronycWithoutADaemon(t *testing.T) {
	// Its daemon does not answer in a folder that is not the machine's.
	s := newSystem(t, t.TempDir())
	if _, err := s.Run(t.Context(), ChronyTracking, Input{}); err == nil || err.Error() != "chrony does not run here" {
		t.Errorf("err = %v", err)
	}
}

func TestRunRefusesWhatIsNotInTheList(t *testing.T) {
	s := newSystem(t, "")
	if _, err := s.Run(t.Context(), ChronyCheck, Input{}); err == nil || !strings.Contains(err.Error(), "no staged file") {
		t.Errorf("without the staged file: %v", err)
	}
	if _, err := s.Run(t.Context(), ChronyTracking, Input{Args: []string{"-h", "elsewhere"}}); err == nil {
		t.Error("operands were accepted")
	}
}

func TestStagedFilesArePrivateAndGo(t *testing.T) {
	dir, err := stage(t.TempDir(), []File{{Place: ChronyDropIn, Content: []byte("secret")}})
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for path, want := range map[string]os.FileMode{dir: os.ModeDir | 0o700, filepath.Join(dir, ChronyDropIn.Path()): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	if _, err := checkChrony(t, "port 0\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := newSystem(t, "").Run(t.Context(), ChronyCheck, Input{Staged: []File{{Place: "x"}}}); err == nil {
		t.Error("an unknown place was staged")
	}
	if left, _ := os.ReadDir(tmp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What a killed process has staged is removed by the next one; nothing else is.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	s := newSystem(t, root)
	run := filepath.Join(root, "run/gateway")
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run, "engine.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := stage(s.stagingFolder(), []File{{Place: ChronyDropIn, Content: []byte("secret")}}); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(run); len(left) != 2 {
		t.Fatalf("nothing was staged there: %v", left)
	}
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(run); len(left) != 1 || left[0].Name() != "engine.lock" {
		t.Errorf("left: %v", left)
	}
}

func TestMissingProgramIsNotInstalled(t *testing.T) {
	_, err := run(t.Context(), []string{"/usr/sbin/no-such-daemon"}, time.Second)
	if !errors.Is(err, ErrNotInstalled) || err.Error() != "no-such-daemon: not installed" {
		t.Errorf("err = %v", err)
	}
}

func TestOutputIsCapped(t *testing.T) {
	out, err := run(t.Context(), []string{"/usr/bin/head", "-c", "3000000", "/dev/zero"}, 10*time.Second)
	if err != nil || out.ExitCode != 0 {
		t.Fatalf("%d, %v", out.ExitCode, err)
	}
	if len(out.Stdout) != outputLimit {
		t.Errorf("kept %d bytes", len(out.Stdout))
	}
}

func TestEnvironmentIsFixed(t *testing.T) {
	t.Setenv("GATEWAY_SECRET", "x")
	out, err := run(t.Context(), []string{"/usr/bin/env"}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(environment, "\n") + "\n"; out.Stdout != want {
		t.Errorf("environment %q, want %q", out.Stdout, want)
	}
}

// TestTimeoutKillsTheGroup has a shell start a child that would outlive it.
func TestTimeoutKillsTheGroup(t *testing.T) {
	for name, ctx := range map[string]func() (context.Context, context.CancelFunc){
		"timeout": func() (context.Context, context.CancelFunc) { return t.Context(), func() {} },
		"cancel": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 100*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			mark := filepath.Join(t.TempDir(), "alive")
			ctx, cancel := ctx()
			defer cancel()
			began := time.Now()
			_, err := run(ctx, []string{"/bin/sh", "-c", "(sleep 0.6; touch " + mark + ") & wait"}, 200*time.Millisecond)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("err = %v", err)
			}
			if name == "timeout" && !strings.HasPrefix(err.Error(), "sh took longer than 200ms") {
				t.Errorf("err = %v", err)
			}
			if took := time.Since(began); took > 500*time.Millisecond {
				t.Errorf("took %s", took)
			}
			time.Sleep(700 * time.Millisecond)
			if _, err := os.Stat(mark); err == nil {
				t.Error("the child lived on")
			}
		})
	}
}

func TestExitErrorText(t *testing.T) {
	for _, c := range []struct {
		out  Output
		want string
	}{
		{Output{ExitCode: 3}, "chronyc: ended with status 3"},
		{Output{ExitCode: 1, Stdout: "506 Cannot talk to daemon\n"}, "chronyc: 506 Cannot talk to daemon"},
		{Output{ExitCode: 1, Stdout: "noise", Stderr: "\na\n\n b \n"}, "chronyc: a; b"},
		{Output{ExitCode: 1, Stderr: "1\n2\n3\n4\n5\n6\n7\n"}, "chronyc: 1; 2; 3; 4; 5"},
		{Output{ExitCode: 1, Stderr: strings.Repeat("ä", 1000)}, "chronyc: " + strings.Repeat("ä", 250) + "…"},
	} {
		if got := (&ExitError{Command: ChronyTracking, Output: c.out}).Error(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.out, got, c.want)
		}
	}
}

func TestEveryCommandIsComplete(t *testing.T) {
	for c, spec := range commands {
		if !filepath.IsAbs(spec.argv[0]) || spec.timeout == 0 {
			t.Errorf("%s: %+v", c, spec)
		}
		for _, arg := range spec.argv {
			if name, ok := strings.CutPrefix(arg, "{"); ok {
				if Place(strings.TrimSuffix(strings.TrimSuffix(name, "/.."), "}")).Path() == "" {
					t.Errorf("%s: no place for %s", c, arg)
				}
			}
		}
	}
}
