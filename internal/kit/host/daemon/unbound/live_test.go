package unbound_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/child"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/waittest"
)

type machine struct {
	*files.Files
	unbound.Resolver
}

// at returns a machine with its files below root; the real one if root is empty.
func at(root string) machine {
	h := home.Home{Root: root, Foreign: root != ""}
	f := files.New(h)
	return machine{f, unbound.New(h)}
}

// startUnbound runs a real unbound below a temporary root. It serves on loopback.
func startUnbound(t *testing.T) (s machine, stop func()) {
	t.Helper()
	root, err := os.MkdirTemp("", "unbound-") // short, because the path of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	s = at(root)
	if err := os.MkdirAll(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(root, unbound.Socket)
	if err := s.Install(unbound.Main, []byte(fmt.Sprintf(`server:
  interface: 127.0.0.1@18053
  username: ""
  chroot: ""
  use-syslog: no
  local-zone: "lan." transparent
remote-control:
  control-enable: yes
  control-interface: %s
  control-use-cert: no
`, socket))); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/usr/sbin/unbound", "-d", "-p", "-c", s.Path(unbound.Main))
	ended, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	gone := false
	stop = func() {
		if !gone {
			gone = true
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	t.Cleanup(stop)
	waittest.UntilNil(t, "unbound listens", func() error { _, err := os.Stat(socket); return err })
	return s, stop
}

func TestResolverAsk(t *testing.T) {
	s, stop := startUnbound(t)
	const record = `a.lan. 60 IN TXT "two words; \034 and \092" "more"`
	answers, err := s.ResolverAsk(t.Context(), unbound.Question{"local_data", record}, unbound.Question{"list_local_data"}, unbound.Question{"local_data", "a.lan. 60 IN A x"}, unbound.Question{"surprise"})
	if err != nil {
		t.Fatal(err)
	}
	if answers[0] != "ok" || !strings.Contains(answers[1], "a.lan.\t60\tIN\tTXT\t\"two words; \\\" and \\\\\" \"more\"\n") {
		t.Errorf("%q", answers[:2])
	}
	for _, refusal := range answers[2:] {
		if !strings.HasPrefix(refusal, "error") {
			t.Errorf("not refused: %q", refusal)
		}
	}
	long := unbound.Question{"local_data", "a.lan. 60 IN TXT"}
	for len(strings.Join(long, " ")) < unbound.QuestionLimit-210 {
		long[1] += ` "` + strings.Repeat("x", 200) + `"`
	}
	if answers, err := s.ResolverAsk(t.Context(), long); err != nil || answers[0] != "ok" {
		t.Errorf("a long question: %q, %v", answers, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := s.ResolverAsk(ctx, unbound.Question{"status"}); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("after its context ended: %v", err)
	}
	stop()
	if _, err := s.ResolverAsk(t.Context(), unbound.Question{"status"}); !errors.Is(err, host.ErrNotRunning) {
		t.Errorf("without unbound: %v", err)
	}
}

func TestInvalidQuestionsAreNotSent(t *testing.T) {
	s := at(t.TempDir())
	for _, q := range []unbound.Question{
		nil, {""}, {"local_data", ""}, {"local_data", "a\nreload"}, {"local_data", "a\x00"}, {"local_data", "ä"}, {"local_data", " a"}, {"local_data", "a "}, {"local_data", "\t"},
		{"local_zone", "a b", "deny"}, {"local_data", strings.Repeat("a", unbound.QuestionLimit)},
	} {
		if _, err := s.ResolverAsk(t.Context(), q); err == nil || errors.Is(err, host.ErrNotRunning) {
			t.Errorf("%q was sent: %v", q, err)
		}
	}
}
