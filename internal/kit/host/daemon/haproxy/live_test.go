package haproxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy/proxytest"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/command"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/waittest"
)

type machine struct {
	*files.Files
	*command.Commands
	haproxy.Proxy
}

// at returns a machine with its files below root; the real one if root is empty.
func at(root string) machine {
	h := home.Home{Root: root, Foreign: root != ""}
	f := files.New(h)
	c := command.New(h, f)
	return machine{f, c, haproxy.New(h)}
}

// proxyConfig is a small configuration with a map. Its sockets are below root, and it listens on loopback.
func proxyConfig(root string) string {
	return fmt.Sprintf(`global
	default-path config
	stats socket %s mode 600 level admin
defaults
	mode http
	timeout connect 1s
	timeout client 1m
	timeout server 5s
frontend web
	bind 127.0.0.1:18080
	http-request return status 200 content-type text/plain lf-string "%%[path,map(maps/hosts.map,none)]"
`, filepath.Join(root, haproxy.AdminSocket))
}

// onEachHAProxy runs a test with the machine's own HAProxy, and with the next Debian's.
func onEachHAProxy(t *testing.T, test func(t *testing.T, s machine, root string)) {
	for name, program := range map[string]string{"own": proxytest.Own, "next": proxytest.Next(t)} {
		t.Run(name, func(t *testing.T) {
			root := proxytest.Root(t)
			s := at(root)
			install(t, s, haproxy.Config, proxyConfig(root))
			install(t, s, haproxy.Hosts, "/a first\n")
			proxytest.Start(t, program, root)
			test(t, s, root)
		})
	}
}

func install(t *testing.T, s machine, p host.Place, content string) {
	t.Helper()
	if err := s.Install(p, []byte(content)); err != nil {
		t.Fatal(err)
	}
}

func askProxy(t *testing.T, s machine, questions ...haproxy.Question) []string {
	t.Helper()
	answers, err := s.ProxyAsk(t.Context(), questions...)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

func infoPID(t *testing.T, s machine) (pid int) {
	t.Helper()
	for line := range strings.Lines(askProxy(t, s, haproxy.Question{Words: strings.Fields("show info")})[0]) {
		if n, _ := fmt.Sscanf(line, "Pid: %d", &pid); n == 1 {
			return pid
		}
	}
	t.Fatal("no pid in show info")
	return 0
}

func TestProxyAnswers(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, s machine, _ string) {
		answers := askProxy(t, s,
			haproxy.Question{Words: strings.Fields("add map maps/hosts.map"), Payload: "/b second\n/c third\n"},
			haproxy.Question{Words: strings.Fields("get map maps/hosts.map /c")},
			haproxy.Question{Words: strings.Fields("frobnicate")})
		if answers[0] != "" || !strings.Contains(answers[1], `value="third"`) || !strings.HasPrefix(answers[2], "Unknown command") {
			t.Errorf("%q", answers)
		}
		now, err := s.ProxyProcess(t.Context())
		if err != nil || now.PID != infoPID(t, s) || !strings.Contains(now.Version, ".") || now.Reloads != 0 || now.OldWorkers != 0 {
			t.Errorf("%+v, %v", now, err)
		}
	})
}

func TestProxyQuestionsHoldOneCommand(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, s machine, _ string) {
		add := []string{"add", "map", "maps/hosts.map"}
		for _, q := range []haproxy.Question{
			{},
			{Words: []string{""}},
			{Words: []string{"show", "info\ndisable frontend web"}},
			{Words: []string{"show", "info\rdisable frontend web"}},
			{Words: []string{"add", "map", "maps/hosts.map", "<<"}},
			{Words: []string{"show", "info\x00"}},
			{Words: add, Payload: "/x y\n\ndisable frontend web\n"},
			{Words: add, Payload: "\n"},
			{Words: add, Payload: "\ndisable frontend web"},
			{Words: add, Payload: "/x y\n\n"},
			{Words: add, Payload: "/x y\r\n\r\ndisable frontend web"},
			{Words: add, Payload: strings.Repeat("/x y\n", 4000)},
		} {
			if answers, err := s.ProxyAsk(t.Context(), q); err == nil {
				t.Errorf("%q was sent: %q", q, answers)
			}
		}
		if list := askProxy(t, s, haproxy.Question{Words: strings.Fields("show map maps/hosts.map")})[0]; strings.Count(list, "\n") != 0 {
			t.Errorf("the map was changed: %q", list)
		}
		// A word stays one word, whatever it contains.
		for _, word := range []string{"a b", "a;disable frontend web", `a\`, `\`, `a"b'c`, "#1", "-m", "a\x1fb", "%[env(PATH)]", "é"} {
			answers := askProxy(t, s, haproxy.Question{Words: []string{"set", "map", "maps/hosts.map", "/a", word}}, haproxy.Question{Words: strings.Fields("get map maps/hosts.map /a")})
			if answers[0] != "" || !strings.Contains(answers[1], `value="`+word+`"`) {
				t.Errorf("%q: %q", word, answers)
			}
		}
		// A payload just below the limit arrives completely.
		var payload strings.Builder
		for n := 0; payload.Len() < haproxy.QuestionLimit-100; n++ {
			fmt.Fprintf(&payload, "/%d y\n", n)
		}
		askProxy(t, s, haproxy.Question{Words: strings.Fields("add map maps/hosts.map"), Payload: payload.String()})
		list := askProxy(t, s, haproxy.Question{Words: strings.Fields("show map maps/hosts.map")})[0]
		if got, want := strings.Count(list, "\n"), strings.Count(payload.String(), "\n"); got != want {
			t.Errorf("%d entries arrived of %d", got, want)
		}
	})
}

// HAProxy 2.6 loses some reloads that follow each other this fast. Each must still end with a new worker, which answers the next
// question and has read the file installed before.
func TestEveryReloadIsConfirmed(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, s machine, _ string) {
		was, err := s.ProxyProcess(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for n := range 40 {
			install(t, s, haproxy.Hosts, fmt.Sprintf("/a number-%d\n", n))
			now, err := s.ProxyReload(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if now.PID == was.PID || now.Reloads <= was.Reloads {
				t.Fatalf("reload %d: %+v after %+v", n, now, was)
			}
			if pid := infoPID(t, s); pid != now.PID {
				t.Fatalf("reload %d: worker %d answers, not %d", n, pid, now.PID)
			}
			if answer := askProxy(t, s, haproxy.Question{Words: strings.Fields("get map maps/hosts.map /a")})[0]; !strings.Contains(answer, fmt.Sprintf(`value="number-%d"`, n)) {
				t.Fatalf("reload %d: %s", n, answer)
			}
			was = now
		}
	})
}

// An old worker keeps serving its connections however often it is checked, and an idle one is killed. The race in which a worker of
// HAProxy 2.6 hangs cannot be provoked, so its parts are tested one by one.
func TestOldWorkers(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, s machine, _ string) {
		halfway := func() net.Conn {
			conn, err := net.Dial("tcp", "127.0.0.1:18080")
			if err == nil {
				t.Cleanup(func() { conn.Close() })
				_, err = conn.Write([]byte("GET /a HTTP/1.0\r\n"))
			}
			if err != nil {
				t.Fatal(err)
			}
			waittest.Until(t, "the connection is counted", func() bool {
				return strings.Contains(askProxy(t, s, haproxy.Question{Words: strings.Fields("show info")})[0], "\nCurrConns: 1\n")
			})
			return conn
		}
		reload := func() (old int) {
			was, err := s.ProxyProcess(t.Context())
			if err == nil {
				_, err = s.ProxyReload(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			return was.PID
		}
		left := func() int {
			now, err := s.ProxyProcess(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return now.OldWorkers
		}
		conn := halfway()
		reload()
		for end := time.Now().Add(2*haproxy.IdleFor + time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if n := left(); n != 1 {
				t.Fatalf("%d old workers", n)
			}
		}
		if _, err := conn.Write([]byte("\r\n")); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(answer), "first") {
			t.Errorf("%s, %v", answer, err)
		}
		waittest.Until(t, "the worker exits with its connection", func() bool { return left() == 0 })

		halfway()
		haproxy.End(t.Context(), s.Proxy, reload())
		waittest.Until(t, "the worker is killed", func() bool { return left() == 0 })
	})
	for info, want := range map[string]bool{
		"Stopping: 1\nJobs: 2\nUnstoppable Jobs: 1\n": true,
		"Stopping: 1\nJobs: 3\nUnstoppable Jobs: 1\n": false,
		"Stopping: 0\nJobs: 2\nUnstoppable Jobs: 1\n": false,
		"Stopping: 1\n": false,
		"":              false,
	} {
		if haproxy.IsIdle(info) != want {
			t.Errorf("%q: not %v", info, want)
		}
	}
}

func TestRefusedReload(t *testing.T) {
	onEachHAProxy(t, func(t *testing.T, s machine, root string) {
		was, err := s.ProxyProcess(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			install(t, s, haproxy.Config, proxyConfig(root)+"frobnicate\n")
			_, err := s.ProxyReload(t.Context())
			if refused, ok := errors.AsType[*haproxy.ReloadRefused](err); !ok || strings.Contains(refused.Log, "NOTICE") != strings.HasPrefix(was.Version, "3.") {
				t.Fatalf("err = %v", err)
			}
			if now, err := s.ProxyProcess(t.Context()); err != nil || now.PID != was.PID {
				t.Errorf("%+v, %v; it was %+v", now, err, was)
			}
			install(t, s, haproxy.Config, proxyConfig(root))
			if was, err = s.ProxyReload(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestReloadRefusedText(t *testing.T) {
	for log, want := range map[string]string{
		"": "HAProxy refused the reload and keeps its configuration; its log has the reason",
		"[NOTICE]   (1) : haproxy version is 3.0.11\n[ALERT]    (1) : config : parsing [/etc/haproxy/gateway/haproxy.cfg:3] : unknown keyword 'x' in 'global' section\n": "HAProxy refused the reload and keeps its configuration: parsing [/etc/haproxy/gateway/haproxy.cfg:3] : unknown keyword 'x' in 'global' section",
	} {
		if got := (&haproxy.ReloadRefused{Log: log}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestProxyIsNotRunning(t *testing.T) {
	root := t.TempDir()
	s := at(root)
	check := func(when string) {
		t.Helper()
		_, asked := s.ProxyAsk(t.Context(), haproxy.Question{Words: strings.Fields("show info")})
		_, reloaded := s.ProxyReload(t.Context())
		_, process := s.ProxyProcess(t.Context())
		for verb, err := range map[string]error{"ask": asked, "reload": reloaded, "process": process} {
			if !errors.Is(err, host.ErrNotRunning) {
				t.Errorf("%s, %s: %v", when, verb, err)
			}
		}
	}
	check("never started")
	// A process that died leaves its sockets behind, and a pid file whose number another process may have by now.
	for _, socket := range []string{haproxy.MasterSocket, haproxy.AdminSocket} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(socket)), 0o755); err != nil {
			t.Fatal(err)
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(root, socket), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	if err := os.WriteFile(filepath.Join(root, haproxy.PIDFile), fmt.Appendln(nil, os.Getpid()), 0o644); err != nil {
		t.Fatal(err)
	}
	check("died")
}

func TestAskEndsWithItsContext(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(root, haproxy.AdminSocket)), 0o755); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("unix", filepath.Join(root, haproxy.AdminSocket))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = at(root).ProxyAsk(ctx, haproxy.Question{Words: strings.Fields("show info")})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "asking haproxy to show info: ") {
		t.Errorf("err = %v", err)
	}
}

func checkProxy(t *testing.T, config string, more ...host.File) error {
	t.Helper()
	_, err := at("").Run(t.Context(), haproxy.Check, host.Input{Staged: append(more, host.File{Place: haproxy.Config, Content: []byte(config)})})
	return err
}

func TestProxyCheck(t *testing.T) {
	hosts := host.File{Place: haproxy.Hosts, Content: []byte("/a b\n")}
	if err := checkProxy(t, proxyConfig(""), hosts); err != nil {
		t.Error(err)
	}
	err := checkProxy(t, proxyConfig("")+"frobnicate\n", hosts)
	if want := "haproxy: parsing [/etc/haproxy/gateway/haproxy.cfg:12] : unknown keyword 'frobnicate' in 'frontend' section"; err == nil || err.Error() != want {
		t.Errorf("error says %q, want %q", err, want)
	}
	err = checkProxy(t, proxyConfig(""))
	if err == nil || !strings.Contains(err.Error(), "maps/hosts.map") || strings.Contains(err.Error(), "[NOTICE]") {
		t.Errorf("without its map: %v", err)
	}
}

func TestProxyVersion(t *testing.T) {
	out, err := at("").Run(t.Context(), haproxy.Version, host.Input{})
	if err != nil || !strings.HasPrefix(out.Stdout, "HAProxy version ") || !strings.Contains(out.Stdout, "QUIC") {
		t.Errorf("%q, %v", out.Stdout, err)
	}
}

func TestCertificatesAreClosed(t *testing.T) {
	root := t.TempDir()
	s, id := at(root), uuid.New()
	install(t, s, haproxy.Certificate(id), "key")
	if got := haproxy.Certificate(id).Path(); got != "/etc/haproxy/gateway/certificates/"+id.String()+".pem" {
		t.Errorf("its path is %s", got)
	}
	file := s.Path(haproxy.Certificate(id))
	for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): os.ModeDir | 0o700, filepath.Dir(filepath.Dir(file)): os.ModeDir | 0o755} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	staged := filepath.Join(filepath.Dir(file), "."+id.String()+".pem4711")
	if err := os.WriteFile(staged, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	install(t, at(root), haproxy.DefaultCertificate, "key")
	if _, err := os.Stat(staged); err == nil {
		t.Error("a staged file of a dead process was not removed")
	}
	for _, p := range []host.Place{
		"haproxy.certificate/", "haproxy.certificate/default", "haproxy.certificate/../default",
		host.Place("haproxy.certificate/urn:uuid:" + id.String()), host.Place("haproxy.certificate/{" + id.String() + "}"),
		host.Place("haproxy.certificate/" + strings.ToUpper(id.String())), host.Place(string(haproxy.Certificate(id)) + "/../../x"),
		host.Place("haproxy.certificate/" + strings.ReplaceAll(id.String(), "-", "")),
	} {
		if err := s.Install(p, nil); err == nil || p.Path() != "" {
			t.Errorf("%s is a place: %s", p, p.Path())
		}
	}
}
