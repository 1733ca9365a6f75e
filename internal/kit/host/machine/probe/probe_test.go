package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/waittest"
)

// probe runs a probe and answers what it printed.
func probe(t *testing.T, p host.Probe) (string, host.ProbeEnd) {
	t.Helper()
	var out bytes.Buffer
	end, err := New(home.Home{}).Probe(t.Context(), p, func(b []byte) { out.Write(b) })
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	return out.String(), end
}

func TestEveryTool(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := ""
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("User-Agent")
		w.Header().Set("X-Hello", "there")
		fmt.Fprint(w, "the page itself")
	})}
	go server.Serve(l)
	defer server.Close()
	for _, x := range []struct {
		probe  host.Probe
		prints string
		status int
	}{
		{host.Probe{Tool: host.ProbePing, Target: "127.0.0.1"}, "4 packets transmitted, 4 received", 0},
		{host.Probe{Tool: host.ProbePing, Target: "::1"}, "4 packets transmitted, 4 received", 0},
		{host.Probe{Tool: host.ProbeTraceroute, Target: "127.0.0.1"}, "20 hops max", 0},
		{host.Probe{Tool: host.ProbeDig, Target: "a.example", Type: "SOA", Server: netip.MustParseAddr("127.0.0.1")}, "no servers could be reached", 9},
		{host.Probe{Tool: host.ProbeCurl, Target: "http://" + l.Addr().String() + "/a"}, "< X-Hello: there", 0},
		{host.Probe{Tool: host.ProbeCurl, Target: "http://127.0.0.1:1/"}, "status 000", 7},
	} {
		out, end := probe(t, x.probe)
		if !strings.Contains(out, x.prints) || end.ExitStatus != x.status || end.TimedOut || end.Truncated || end.Duration <= 0 {
			t.Errorf("%+v: %+v\n%s", x.probe, end, out)
		}
		if strings.Contains(out, "the page itself") {
			t.Errorf("the page is shown:\n%s", out)
		}
	}
	if !strings.HasPrefix(asked, "curl/") {
		t.Errorf("asked by %q", asked)
	}
}

// DG-04: curl goes where it is told to, and nowhere else.
func TestCurlFollowsNoRedirect(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to, asked := "", 0
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	})}
	go server.Serve(l)
	defer server.Close()
	at := "http://" + l.Addr().String()
	for i, target := range []string{"file:///etc/passwd", "gopher://" + l.Addr().String() + "/x", "ftp://" + l.Addr().String() + "/", at + "/again"} {
		to = target
		out, end := probe(t, host.Probe{Tool: host.ProbeCurl, Target: at})
		if end.ExitStatus != 0 || !strings.Contains(out, "status 302") || strings.Contains(out, "root:") || asked != i+1 {
			t.Errorf("%s: %+v, asked %d times\n%s", target, end, asked, out)
		}
	}
}

// What is printed is there before the program has ended.
func TestOutputComesWhileItRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan string, 1000)
	ended := make(chan error, 1)
	go func() {
		_, err := New(home.Home{}).Probe(ctx, host.Probe{Tool: host.ProbePing, Target: "127.0.0.1"}, func(b []byte) { first <- string(b) })
		ended <- err
	}()
	said := ""
	for !strings.Contains(said, "icmp_seq=1") {
		select {
		case b := <-first:
			said += b
		case err := <-ended:
			t.Fatalf("it ended, %v, and had said %q", err, said)
		}
	}
	if strings.Contains(said, "statistics") {
		t.Errorf("all came at once: %s", said)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// spec runs a program that is in no list, because none of the list misbehaves.
func spec(argv ...string) host.ProbeSpec {
	return host.ProbeSpec{Argv: argv, Within: time.Minute, Most: 1 << 20}
}

func TestFloodIsBounded(t *testing.T) {
	got := 0
	end, err := run(t.Context(), spec("/usr/bin/yes"), func(b []byte) { got += len(b) })
	if err != nil || !end.Truncated || got != 1<<20 || end.ExitStatus != 128+9 {
		t.Errorf("%d bytes, %+v, %v", got, end, err)
	}
}

func TestTimeIsBounded(t *testing.T) {
	slow := spec("/bin/sh", "-c", "echo begun; sleep 10000")
	slow.Within = time.Second
	said := ""
	end, err := run(t.Context(), slow, func(b []byte) { said += string(b) })
	if err != nil || !end.TimedOut || end.Truncated || said != "begun\n" {
		t.Errorf("%q, %+v, %v", said, end, err)
	}
}

// open is a folder that everyone may use.
func open(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for up := filepath.Dir(dir); up != "/"; up = filepath.Dir(up) {
		if info, err := os.Stat(up); err == nil && info.Mode()&0o001 == 0 {
			if err := os.Chmod(up, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// A hang-up ends the program and what it has started, also when that holds the output open.
func TestHangUpEndsTheChildren(t *testing.T) {
	file := filepath.Join(open(t), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end, err := run(ctx, spec("/bin/sh", "-c", "sleep 10000 & echo $! > "+file+"; echo begun; wait"), func([]byte) { cancel() })
	if !errors.Is(err, context.Canceled) || end.ExitStatus != 128+9 {
		t.Errorf("%+v, %v", end, err)
	}
	pid, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stat := "/proc/" + strings.TrimSpace(string(pid)) + "/stat"
	waittest.Until(t, "the child ends", func() bool {
		// The process that adopts it may let it be a zombie for a while.
		content, err := os.ReadFile(stat)
		return err != nil || strings.Contains(string(content), ") Z ")
	})
}

// The programs have no right but the one that they need, and see nothing of ours.
func TestRights(t *testing.T) {
	t.Setenv("GATEWAY_SECRET", "x")
	if err := lookAtRights(t.Context()); err != nil {
		t.Error(err)
	}
}

func lookAtRights(ctx context.Context) error {
	for raw, caps := range map[bool]string{false: "0000000000000000", true: "0000000000002000"} {
		said := ""
		s := spec("/bin/sh", "-c", "id -u; id -G; grep -E 'Cap(Eff|Prm|Amb)' /proc/self/status; env")
		s.Raw = raw
		if end, err := run(ctx, s, func(b []byte) { said += string(b) }); err != nil || end.ExitStatus != 0 {
			return fmt.Errorf("%+v, %w", end, err)
		}
		if !strings.HasPrefix(said, "65534\n65534\n") || strings.Count(said, caps) != 3 || strings.Contains(said, "GATEWAY_SECRET") {
			return fmt.Errorf("raw %v: %s", raw, said)
		}
	}
	return nil
}

// As the package runs it, the process is not root either, and has the one right to give.
func TestWithoutRoot(t *testing.T) {
	program := filepath.Join(open(t), "probe.test")
	content, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, content, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all,+net_raw", "--ambient-caps=-all,+net_raw", "--bounding-set=-all,+net_raw", "--no-new-privs", "--", program)
	cmd.Env = append(os.Environ(), apart+"=1", "GATEWAY_SECRET=x")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// lookApart is the body of that process.
func lookApart() error {
	if err := Disarm(); err != nil {
		return err
	}
	ctx := context.Background()
	if err := lookAtRights(ctx); err != nil {
		return err
	}
	for _, p := range []host.Probe{{Tool: host.ProbePing, Target: "127.0.0.1"}, {Tool: host.ProbeTraceroute, Target: "127.0.0.1"}} {
		said := ""
		if end, err := New(home.Home{}).Probe(ctx, p, func(b []byte) { said += string(b) }); err != nil || end.ExitStatus != 0 {
			return fmt.Errorf("%+v: %+v, %w: %s", p, end, err, said)
		}
	}
	end, err := New(home.Home{}).Probe(ctx, host.Probe{Tool: host.ProbeCapture, Capture: host.Capture{Interface: "lo", Packets: 1, Bytes: 1 << 20, Within: time.Second}}, func([]byte) {})
	if err != nil || !end.TimedOut {
		return fmt.Errorf("capturing: %+v, %w", end, err)
	}
	return nil
}

func TestMissingProgramIsNotInstalled(t *testing.T) {
	if _, err := run(t.Context(), spec("/usr/bin/no-such-tool"), func([]byte) {}); !errors.Is(err, host.ErrNotInstalled) || err.Error() != "no-such-tool: not installed" {
		t.Errorf("err = %v", err)
	}
}

func TestForeignPacketsAreNotCaptured(t *testing.T) {
	_, err := New(home.Home{Foreign: true}).Probe(t.Context(), host.Probe{Tool: host.ProbeCapture, Capture: host.Capture{Interface: "lo", Packets: 1, Bytes: 1 << 20, Within: time.Second}}, func([]byte) {})
	if !errors.Is(err, host.ErrNotInstalled) {
		t.Errorf("err = %v", err)
	}
}
