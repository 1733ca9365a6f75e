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
	userAgent := ""
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		userAgent = r.Header.Get("User-Agent")
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
		{host.Probe{Tool: host.ProbeDig, Target: "a.example", Type: "SOA", Server: netip.MustParseAddr("127.0.0.1")},
			"no servers could be reached", 9},
		{host.Probe{Tool: host.ProbeCurl, Target: "http://" + l.Addr().String() + "/a"}, "< X-Hello: there", 0},
		{host.Probe{Tool: host.ProbeCurl, Target: "http://127.0.0.1:1/"}, "status 000", 7},
	} {
		out, end := probe(t, x.probe)
		if !strings.Contains(out, x.prints) || end.ExitStatus != x.status || end.TimedOut || end.Truncated || end.Duration <= 0 {
			t.Errorf("%+v: %+v\n%s", x.probe, end, out)
		}
		if strings.Contains(out, "the page itself") {
			t.Errorf("the page was printed:\n%s", out)
		}
	}
	if !strings.HasPrefix(userAgent, "curl/") {
		t.Errorf("requested by %q", userAgent)
	}
}

// DG-04: curl requests the given address, and no other.
func TestCurlFollowsNoRedirect(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to, requests := "", 0
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	})}
	go server.Serve(l)
	defer server.Close()
	at := "http://" + l.Addr().String()
	address := l.Addr().String()
	for i, target := range []string{"file:///etc/passwd", "gopher://" + address + "/x", "ftp://" + address + "/", at + "/again"} {
		to = target
		out, end := probe(t, host.Probe{Tool: host.ProbeCurl, Target: at})
		if end.ExitStatus != 0 || !strings.Contains(out, "status 302") || strings.Contains(out, "root:") || requests != i+1 {
			t.Errorf("%s: %+v, %d requests\n%s", target, end, requests, out)
		}
	}
}

// Output arrives before the program has ended.
func TestOutputComesWhileItRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan string, 1000)
	ended := make(chan error, 1)
	go func() {
		_, err := New(home.Home{}).Probe(ctx, host.Probe{Tool: host.ProbePing, Target: "127.0.0.1"}, func(b []byte) { first <- string(b) })
		ended <- err
	}()
	output := ""
	for !strings.Contains(output, "icmp_seq=1") {
		select {
		case b := <-first:
			output += b
		case err := <-ended:
			t.Fatalf("it ended, %v, after %q", err, output)
		}
	}
	if strings.Contains(output, "statistics") {
		t.Errorf("all output came at once: %s", output)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// spec runs a program that no probe uses, because those do not misbehave.
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
	output := ""
	end, err := run(t.Context(), slow, func(b []byte) { output += string(b) })
	if err != nil || !end.TimedOut || end.Truncated || output != "begun\n" {
		t.Errorf("%q, %+v, %v", output, end, err)
	}
}

// open returns a folder that every user may use.
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

// Canceling kills the program and its children, even one that holds the output open.
func TestCancelKillsTheChildren(t *testing.T) {
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
		// The process that adopts it may leave it a zombie for a while.
		content, err := os.ReadFile(stat)
		return err != nil || strings.Contains(string(content), ") Z ")
	})
}

// Programs have no capability but the one that they need, and see none of the gateway's environment.
func TestRights(t *testing.T) {
	t.Setenv("GATEWAY_SECRET", "x")
	if err := checkRights(t.Context()); err != nil {
		t.Error(err)
	}
}

func checkRights(ctx context.Context) error {
	for raw, caps := range map[bool]string{false: "0000000000000000", true: "0000000000002000"} {
		output := ""
		s := spec("/bin/sh", "-c", "id -u; id -G; grep -E 'Cap(Eff|Prm|Amb)' /proc/self/status; env")
		s.Raw = raw
		if end, err := run(ctx, s, func(b []byte) { output += string(b) }); err != nil || end.ExitStatus != 0 {
			return fmt.Errorf("%+v, %w", end, err)
		}
		if !strings.HasPrefix(output, "65534\n65534\n") || strings.Count(output, caps) != 3 || strings.Contains(output, "GATEWAY_SECRET") {
			return fmt.Errorf("raw %v: %s", raw, output)
		}
	}
	return nil
}

// gateway-probe is not root, either, and has one capability to pass on.
func TestWithoutRoot(t *testing.T) {
	program := filepath.Join(open(t), "probe.test")
	content, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, content, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all,+net_raw",
		"--ambient-caps=-all,+net_raw", "--bounding-set=-all,+net_raw", "--no-new-privs", "--", program)
	cmd.Env = append(os.Environ(), unprivileged+"=1", "GATEWAY_SECRET=x")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// probeUnprivileged runs in that process.
func probeUnprivileged() error {
	if err := Disarm(); err != nil {
		return err
	}
	ctx := context.Background()
	if err := checkRights(ctx); err != nil {
		return err
	}
	for _, p := range []host.Probe{{Tool: host.ProbePing, Target: "127.0.0.1"}, {Tool: host.ProbeTraceroute, Target: "127.0.0.1"}} {
		output := ""
		if end, err := New(home.Home{}).Probe(ctx, p, func(b []byte) { output += string(b) }); err != nil || end.ExitStatus != 0 {
			return fmt.Errorf("%+v: %+v, %w: %s", p, end, err, output)
		}
	}
	end, err := New(home.Home{}).Probe(ctx, captureLoopback, func([]byte) {})
	if err != nil || !end.TimedOut {
		return fmt.Errorf("capturing: %+v, %w", end, err)
	}
	return nil
}

var captureLoopback = host.Probe{
	Tool: host.ProbeCapture, Capture: host.Capture{Interface: "lo", Packets: 1, Bytes: 1 << 20, Within: time.Second},
}

func TestMissingProgramIsNotInstalled(t *testing.T) {
	_, err := run(t.Context(), spec("/usr/bin/no-such-tool"), func([]byte) {})
	if !errors.Is(err, host.ErrNotInstalled) || err.Error() != "no-such-tool: not installed" {
		t.Errorf("err = %v", err)
	}
}

func TestForeignPacketsAreNotCaptured(t *testing.T) {
	_, err := New(home.Home{Foreign: true}).Probe(t.Context(), captureLoopback, func([]byte) {})
	if !errors.Is(err, host.ErrNotInstalled) {
		t.Errorf("err = %v", err)
	}
}
