package lab_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
)

// upHelper makes the test binary run a lab in the folder until it is terminated, as gateway-lab does.
const upHelper = "LAB_TEST_UP"

// notMain is the result of a check that was started on the main thread, where TestMain begins.
var notMain error

func onMainThread() error {
	if syscall.Gettid() == syscall.Getpid() {
		return errors.New("this is the main thread")
	}
	return nil
}

// The main thread represents the namespaces of the process to others: it must stay in its own.
func TestTheMainThreadStays(t *testing.T) {
	if notMain != nil {
		t.Error(notMain)
	}
}

func TestMain(m *testing.M) {
	lab.Init()
	switch filepath.Base(os.Args[0]) {
	case "gateway-helper", "gateway-api", "gateway-scheduler", "gateway-waf":
		stub()
		return
	}
	if dir := os.Getenv(upHelper); dir != "" {
		if err := keepUp(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if os.Geteuid() != 0 {
		fmt.Println("FAIL: a lab needs namespaces, mounts and network links: run these tests as root")
		os.Exit(1)
	}
	notMain = lab.OnThread(onMainThread)
	goleak.VerifyTestMain(m)
}

// keepUp is the body of the helper.
func keepUp(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := lab.Up(ctx, lab.Options{Dir: dir, UI: "127.0.0.1:0", Volatile: true, Programs: os.Getenv("LAB_TEST_PROGRAMS")})
	if err != nil {
		return err
	}
	fmt.Println("up")
	select {
	case <-ctx.Done():
	case <-l.Done():
	}
	return l.Down()
}

// programs returns a folder in which the gateway's programs are this test binary.
var programs = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(self), "lab-programs")
	for _, name := range []string{"gateway-helper", "gateway-api", "gateway-scheduler", "gateway-waf"} {
		// The gateway's user has no access to the target of a symbolic link.
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Link(self, filepath.Join(dir, name))); err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	return dir, nil
})

// front is a client of the console's port, whose certificate is self-signed.
var front = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// stateDir returns a new state folder that PostgreSQL can reach.
func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lab-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func up(t *testing.T, opts lab.Options) *lab.Lab {
	t.Helper()
	var err error
	if opts.Programs, err = programs(); err != nil {
		t.Fatal(err)
	}
	if opts.Dir == "" {
		opts.Dir = stateDir(t)
	}
	opts.UI, opts.Volatile = "127.0.0.1:0", true
	opts.Progress = func(step string) { t.Log(step) }
	l, err := lab.Up(t.Context(), opts)
	if err != nil {
		logs, _ := filepath.Glob(filepath.Join(opts.Dir, "log", "*"))
		for _, log := range logs {
			content, _ := os.ReadFile(log)
			t.Logf("%s:\n%s", log, content)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// sh runs a command on a side of the lab and returns its output.
func sh(t *testing.T, l *lab.Lab, side lab.Side, argv ...string) string {
	t.Helper()
	cmd, err := l.Command(t.Context(), side, argv...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %q: %v: %s", side, argv, err, out)
	}
	return strings.TrimSpace(string(out))
}

// namespaces lists those of a lab.
func namespaces(t *testing.T, l *lab.Lab) (all []string) {
	t.Helper()
	for _, kind := range []string{"pid", "net", "mnt", "uts", "ipc"} {
		name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", l.Init.PID, kind))
		if err != nil {
			t.Fatal(err)
		}
		if own, _ := os.Readlink("/proc/self/ns/" + kind); name == own {
			t.Errorf("the lab has no %s namespace of its own", kind)
		}
		all = append(all, name)
	}
	return all
}

// remains lists what is left of a lab: its processes, and mounts and links that it may have created in our namespaces.
func remains(t *testing.T, dir string, namespaces []string) (found []string) {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range entries {
		line, _ := os.ReadFile(p + "/cmdline")
		ns, _ := os.Readlink(p + "/ns/pid")
		if bytes.Contains(line, []byte(dir)) || slices.Contains(namespaces, ns) {
			found = append(found, "process "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) || strings.Contains(line, "gateway-lab") {
			found = append(found, "mount "+line)
		}
	}
	for _, link := range []string{"wan0", "lan0"} {
		if exec.Command("ip", "link", "show", link).Run() == nil {
			found = append(found, "link "+link)
		}
	}
	return found
}

// gone waits until nothing of a lab remains: the kernel takes a moment to kill it.
func gone(t *testing.T, dir string, namespaces []string) {
	t.Helper()
	waittest.UntilNil(t, "the lab is gone", func() error {
		if left := remains(t, dir, namespaces); len(left) > 0 {
			return fmt.Errorf("left behind: %q", left)
		}
		return nil
	})
}

func TestLab(t *testing.T) {
	dir := stateDir(t)
	machine := map[string]string{}
	for _, path := range []string{"/etc/machine-id", "/etc/hosts", "/etc/hostname"} {
		content, _ := os.ReadFile(path)
		machine[path] = string(content)
	}
	l := up(t, lab.Options{Dir: dir, AdminEmail: "admin@example.com", AdminPassword: "correct horse battery"})
	if !l.Isolated() {
		t.Fatalf("no namespaces: %s", l.Reason)
	}
	inside := namespaces(t, l)

	t.Run("sides", func(t *testing.T) {
		for side, want := range map[lab.Side]string{lab.Gateway: "lan0 lo wan0", lab.Wan: "eth0 lo", lab.Lan: "eth0 lo"} {
			// Not from sysfs, which shows the gateway's links on all sides.
			names := strings.Fields(sh(t, l, side, "sh", "-c", "ip -o link | cut -d: -f2 | cut -d@ -f1"))
			names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, "ifb") })
			slices.Sort(names)
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%s has links %q, want %q", side, got, want)
			}
		}
		if _, err := l.Command(t.Context(), "moon", "true"); err == nil {
			t.Error("there is a moon side")
		}
		if err := l.Within("moon", func() error { return nil }); err == nil {
			t.Error("there is a moon side to be on")
		}
		before, err := os.Readlink("/proc/self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if err := l.Within(lab.Wan, func() error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if after, err := os.Readlink("/proc/self/ns/net"); err != nil || after != before {
			t.Errorf("the process itself went from %s to %s: %v", before, after, err)
		}
		for side, address := range map[lab.Side]string{lab.Wan: "198.51.100.2:0", lab.Lan: "10.10.0.2:0", lab.Gateway: "10.10.0.1:0"} {
			err := l.Within(side, func() error {
				socket, err := net.Listen("tcp", address)
				if err == nil {
					socket.Close()
				}
				return err
			})
			if err != nil {
				t.Errorf("on the %s side: %v", side, err)
			}
		}
	})
	t.Run("ping", func(t *testing.T) {
		for _, c := range []struct {
			from lab.Side
			to   string
		}{
			{lab.Wan, "198.51.100.1"}, {lab.Wan, "2001:db8:1::1"}, {lab.Lan, "10.10.0.1"}, {lab.Lan, "fd00:10::1"},
			{lab.Lan, "198.51.100.2"}, {lab.Lan, "2001:db8:1::2"}, {lab.Wan, "10.10.0.2"}, {lab.Wan, "fd00:10::2"},
			{lab.Gateway, "198.51.100.2"}, {lab.Gateway, "fd00:10::2"}, {lab.Gateway, "127.0.0.1"}, {lab.Gateway, "::1"},
		} {
			sh(t, l, c.from, os.Args[0], "-test.run=^TestPing$", "-ping", c.to)
		}
	})
	t.Run("exit code and streams", func(t *testing.T) {
		cmd, err := l.Command(t.Context(), lab.Gateway, "sh", "-c", "cat; echo oops >&2; exit 7")
		if err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("hello"), &stdout, &stderr
		var exit *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 7 || stdout.String() != "hello" || stderr.String() != "oops\n" {
			t.Errorf("%v, %q, %q", err, &stdout, &stderr)
		}
	})
	t.Run("mounts", func(t *testing.T) {
		if got := sh(t, l, lab.Gateway, "hostname"); got != "gateway" {
			t.Errorf("hostname %q", got)
		}
		sh(t, l, lab.Gateway, "sh", "-c", "echo bound > /etc/gateway/x; echo lost > /etc/lost; echo lost > /var/lib/lost; echo lost > /run/lost")
		if content, err := os.ReadFile(filepath.Join(dir, "root/etc/gateway/x")); err != nil || string(content) != "bound\n" {
			t.Errorf("%q, %v", content, err)
		}
		for _, path := range []string{"/etc/gateway/x", "/etc/lost", "/var/lib/lost", "/run/lost"} {
			if _, err := os.Stat(path); err == nil {
				t.Errorf("the lab wrote %s on the machine", path)
			}
		}
		for path, want := range machine {
			if content, _ := os.ReadFile(path); string(content) != want {
				t.Errorf("the lab changed %s", path)
			}
		}
		if id := sh(t, l, lab.Gateway, "cat", "/etc/machine-id"); id == strings.TrimSpace(machine["/etc/machine-id"]) || len(id) != 32 {
			t.Errorf("machine id %q", id)
		}
		if got := sh(t, l, lab.Gateway, "stat", "-c", "%U:%G %a", "/run/chrony"); got != "_chrony:_chrony 750" {
			t.Errorf("/run/chrony is %s", got)
		}
		if got := sh(t, l, lab.Gateway, "ls", "-A", "/etc/chrony"); got != "conf.d" {
			t.Errorf("/etc/chrony has %q", got)
		}
	})
	t.Run("ui", func(t *testing.T) {
		resp, err := front.Get(l.URL() + "/api/v1/system/health")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		front.CloseIdleConnections()
		var answer struct {
			Data struct{ Client, Units, Root string }
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if !strings.HasPrefix(answer.Data.Client, "127.0.0.1:") || answer.Data.Units != "lab" || answer.Data.Root != "" {
			t.Errorf("%s", body)
		}
	})
	t.Run("setup", func(t *testing.T) {
		content, err := os.ReadFile(l.Path("/var/lib/gateway/setup.json"))
		if err != nil || !strings.Contains(string(content), `"setup_token":"stub-token"`) || !strings.Contains(string(content), "admin@example.com") {
			t.Errorf("%s, %v", content, err)
		}
	})
	t.Run("adoption", func(t *testing.T) {
		content, err := os.ReadFile(l.Path("/var/lib/gateway/networks.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"Bearer stub-session ", `"name":"wan0","role":"wan"`, `"name":"lan0","role":"lan"`, `"198.51.100.1/24"`, `"10.10.0.1/24"`} {
			if !strings.Contains(string(content), text) {
				t.Errorf("no %s in %s", text, content)
			}
		}
	})
	t.Run("time", func(t *testing.T) { testTime(t, l) })
	t.Run("units", func(t *testing.T) { testUnits(t, l) })
	t.Run("second lab in the same folder", func(t *testing.T) {
		_, err := lab.Up(t.Context(), lab.Options{Dir: dir, UI: "127.0.0.1:0"})
		if err == nil || !strings.Contains(err.Error(), "a lab already runs in "+dir) {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("find", func(t *testing.T) {
		found, err := lab.Find(dir)
		if err != nil || found.URL() != l.URL() {
			t.Fatalf("%+v, %v", found, err)
		}
		sh(t, found, lab.Lan, "true")
	})

	began := time.Now()
	if err := l.Down(); err != nil {
		t.Fatal(err)
	}
	t.Logf("down in %s", time.Since(began))
	gone(t, dir, inside)
	if _, err := lab.Find(dir); !errors.Is(err, lab.ErrNotRunning) {
		t.Errorf("find after down: %v", err)
	}
}

// testTime synchronises the gateway's chronyd with the wan's.
func testTime(t *testing.T, l *lab.Lab) {
	ctx, units := t.Context(), l.Units()
	if err := units.Start(ctx, chrony.Unit); err == nil || !strings.Contains(err.Error(), "/etc/chrony/gateway.conf") {
		t.Errorf("chrony without a configuration: %v", err)
	}
	if s, err := units.State(ctx, chrony.Unit); err != nil || s.Active != "failed" || !s.Installed || s.Detail == "" {
		t.Errorf("%+v, %v", s, err)
	}
	sh(t, l, lab.Gateway, "sh", "-c", "echo 'server 198.51.100.2 iburst minpoll -2 maxpoll -2' > /etc/chrony/gateway.conf")
	if err := errors.Join(units.Start(ctx, chrony.Unit), units.Enable(ctx, chrony.Unit, true)); err != nil {
		t.Fatal(err)
	}
	sh(t, l, lab.Gateway, "chronyc", "waitsync", "100", "0", "0", "0.1")
	if got := sh(t, l, lab.Gateway, "chronyc", "-c", "-n", "tracking"); !strings.Contains(got, ",198.51.100.2,9,") {
		t.Errorf("tracking %s", got)
	}
	sh(t, l, lab.Gateway, "chronyc", "burst", "4/4")
}

func testUnits(t *testing.T, l *lab.Lab) {
	ctx, units := t.Context(), l.Units()
	states, err := units.States(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// These have no configuration.
	idle := []host.Unit{haproxy.Unit, unbound.Unit, squid.Unit, kea.Unit, freeradius.Unit, crowdsec.Unit, crowdsec.Bouncer, keepalived.Unit}
	want := []host.Unit{lab.PostgreSQL, lab.WanTime, chrony.Unit}
	want = slices.Concat(want, idle, []host.Unit{host.Helper, host.API, host.Scheduler, host.WAF})
	var names []host.Unit
	for _, s := range states {
		names = append(names, s.Unit)
		if slices.Contains(idle, s.Unit) {
			if s.Active != "inactive" {
				t.Errorf("%+v", s)
			}
			continue
		}
		if s.Active != "active" || s.PID == 0 || s.Since.IsZero() {
			t.Errorf("%+v", s)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("units %q, want %q", names, want)
	}
	if err := units.Stop(ctx, chrony.Unit); err != nil {
		t.Fatal(err)
	}
	if s, _ := units.State(ctx, chrony.Unit); s.Active != "inactive" || s.PID != 0 {
		t.Errorf("%+v", s)
	}
	if err := units.Reload(ctx, chrony.Unit); err == nil {
		t.Error("chrony reloaded")
	}
	if err := units.Restart(ctx, chrony.Unit); err != nil {
		t.Error(err)
	}
	if _, err := units.State(ctx, "unknown"); err == nil {
		t.Error("there is an unknown unit")
	}

	// A program that dies comes back; a daemon that dies says why.
	kill := func(u host.Unit) host.UnitState {
		t.Helper()
		s, err := units.State(ctx, u)
		if err != nil {
			t.Fatal(err)
		}
		sh(t, l, lab.Gateway, "kill", "-9", strconv.Itoa(s.PID))
		var now host.UnitState
		waittest.UntilNil(t, fmt.Sprintf("%s has come back or ended", u), func() error {
			if now, err = units.State(ctx, u); err != nil {
				t.Fatal(err)
			}
			if now.PID == s.PID || now.Active == "activating" || u != chrony.Unit && now.Active != "active" {
				return fmt.Errorf("%+v", now)
			}
			return nil
		})
		return now
	}
	kill(host.API)
	kill(lab.PostgreSQL)
	if s := kill(chrony.Unit); s.Active != "failed" || !strings.HasPrefix(s.Detail, "signal: killed") {
		t.Errorf("%+v", s)
	}
	if err := units.Start(ctx, chrony.Unit); err != nil {
		t.Error(err)
	}
	for _, u := range []host.Unit{host.API, lab.PostgreSQL, lab.WanTime, chrony.Unit} {
		if content, err := os.ReadFile(l.Log(u)); err != nil || len(content) == 0 {
			t.Errorf("log of %s: %q, %v", u, content, err)
		}
	}
	// Orphans are reaped.
	sh(t, l, lab.Gateway, "sh", "-c", "sh -c 'sleep 0.01 & exec true' & wait")
	waittest.UntilNil(t, "there are no zombies", func() error {
		if zombies := sh(t, l, lab.Gateway, "sh", "-c", "grep -l '^State:.Z' /proc/[0-9]*/status || true"); zombies != "" {
			return errors.New(zombies)
		}
		return nil
	})
}

func TestTwoLabsSideBySide(t *testing.T) {
	one, two := up(t, lab.Options{}), up(t, lab.Options{})
	if one.URL() == two.URL() {
		t.Error("both are at " + one.URL())
	}
	if a, b := sh(t, one, lab.Gateway, "cat", "/etc/machine-id"), sh(t, two, lab.Gateway, "cat", "/etc/machine-id"); a == b {
		t.Error("both are machine " + a)
	}
	sh(t, one, lab.Lan, os.Args[0], "-test.run=^TestPing$", "-ping", "198.51.100.2")
	if err := one.Down(); err != nil {
		t.Fatal(err)
	}
	sh(t, two, lab.Lan, os.Args[0], "-test.run=^TestPing$", "-ping", "198.51.100.2")
}

func TestTwoSites(t *testing.T) {
	one, two := up(t, lab.Options{}), up(t, lab.Options{Site: 1})
	ping := func(from *lab.Lab, side lab.Side, address string) {
		t.Helper()
		sh(t, from, side, os.Args[0], "-test.run=^TestPing$", "-ping", address)
	}
	ping(two, lab.Lan, "10.20.0.1")
	if hosts := sh(t, two, lab.Gateway, "cat", "/etc/hosts"); !strings.Contains(hosts, "\n203.0.113.2 wan.lab.internal wan\n") {
		t.Error(hosts)
	}
	for range 2 { // the second time replaces the first
		if err := one.Join(two); err != nil {
			t.Fatal(err)
		}
	}
	// A router that still performs duplicate address detection on its link-local address drops packets instead of forwarding
	// them.
	for _, l := range []*lab.Lab{one, two} {
		if looks := sh(t, l, lab.Wan, "cat", "/proc/sys/net/ipv6/conf/internet/accept_dad"); looks != "0" {
			t.Errorf("the cable is not usable at once: accept_dad is %s", looks)
		}
	}
	for l, isp := range map[*lab.Lab][2]string{one: {"198.51.100.2", "2001:db8:1::2"}, two: {"203.0.113.2", "2001:db8:2::2"}} {
		for _, address := range isp {
			sh(t, l, lab.Gateway, "ip", "route", "add", "default", "via", address)
		}
	}
	for _, address := range []string{"203.0.113.1", "203.0.113.2", "2001:db8:2::1", "2001:db8:2::2"} {
		ping(one, lab.Gateway, address)
	}
	ping(two, lab.Gateway, "198.51.100.1")
	sh(t, two, lab.Wan, "ip", "netns", "add", "elsewhere")
	if links := sh(t, two, "elsewhere", "ip", "-brief", "link"); strings.Contains(links, "eth0") {
		t.Error(links)
	}
	if _, err := two.Command(t.Context(), "nowhere", "true"); err == nil {
		t.Error("a side that nobody made")
	}
	if err := one.Join(one); err == nil {
		t.Error("joined with itself")
	}
}

// TestAlone runs a lab whose API does everything itself, and one whose API has a helper.
func TestAlone(t *testing.T) {
	for _, x := range []struct {
		alone  bool
		user   string
		helper string
	}{{false, "gateway", "active"}, {true, "root", "gone"}} {
		l := up(t, lab.Options{Alone: x.alone})
		api, err := l.Units().State(t.Context(), host.API)
		if err != nil {
			t.Fatal(err)
		}
		if user := sh(t, l, lab.Gateway, "stat", "-c", "%U", fmt.Sprintf("/proc/%d", api.PID)); user != x.user {
			t.Errorf("gateway-api runs as %q, want %q", user, x.user)
		}
		if argv := sh(t, l, lab.Gateway, "cat", fmt.Sprintf("/proc/%d/cmdline", api.PID)); strings.Contains(argv, "--helper\x00\x00") != x.alone {
			t.Errorf("gateway-api is told of its helper: %q", argv)
		}
		helper := "gone"
		if state, err := l.Units().State(t.Context(), host.Helper); err == nil {
			helper = state.Active
		}
		if helper != x.helper {
			t.Errorf("the helper is %s, want %s", helper, x.helper)
		}
	}
}

func TestKilledLabLeavesNothing(t *testing.T) {
	dir := stateDir(t)
	for range 2 { // the second time in the folder that the first has left
		cmd := helperUp(t, dir)
		l, err := lab.Find(dir)
		if err != nil {
			t.Fatal(err)
		}
		sh(t, l, lab.Gateway, "true")
		inside := namespaces(t, l)
		if all := remains(t, dir, inside); len(all) < 5 {
			t.Errorf("only %q", all)
		}
		cmd.Process.Kill()
		cmd.Wait()
		gone(t, dir, inside)
		if _, err := lab.Find(dir); !errors.Is(err, lab.ErrNotRunning) {
			t.Errorf("find after the kill: %v", err)
		}
	}
	// The next one works immediately, without waiting for the remains.
	cmd := helperUp(t, dir)
	cmd.Process.Kill()
	cmd.Wait()
	l := up(t, lab.Options{Dir: dir})
	inside := namespaces(t, l)
	if err := l.Down(); err != nil {
		t.Fatal(err)
	}
	gone(t, dir, inside)
}

func TestDownFromAnotherProcess(t *testing.T) {
	dir := stateDir(t)
	cmd := helperUp(t, dir)
	l, err := lab.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	inside := namespaces(t, l)
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	if err := l.Down(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	gone(t, dir, inside)
	if log, err := os.ReadFile(l.Log(lab.PostgreSQL)); err != nil || !bytes.Contains(log, []byte("database system is shut down")) {
		t.Errorf("the database was not shut down: %s, %v", log, err)
	}
}

// helperUp runs a lab in another process.
func helperUp(t *testing.T, dir string, wrap ...string) *exec.Cmd {
	t.Helper()
	p, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	argv := append(wrap, os.Args[0])
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), upHelper+"="+dir, "LAB_TEST_PROGRAMS="+p)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	line := make([]byte, 4096)
	n, _ := out.Read(line)
	if string(line[:n]) != "up\n" {
		t.Fatalf("up: %s", line[:n])
	}
	return cmd
}

// TestWithoutNamespaces runs a lab without the privilege to create any.
func TestWithoutNamespaces(t *testing.T) {
	dir := stateDir(t)
	cmd := helperUp(t, dir, "setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
	l, err := lab.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if l.Isolated() || !strings.Contains(l.Reason, "operation not permitted") {
		t.Errorf("reason %q", l.Reason)
	}
	resp, err := front.Get(l.URL() + "/api/v1/system/health")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	front.CloseIdleConnections()
	var answer struct {
		Data struct{ Client, Units, Root string }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if answer.Data.Units != "lab:"+l.Path(units.SupervisorSocket) || answer.Data.Root != filepath.Join(dir, "root") || !strings.HasPrefix(answer.Data.Client, "127.0.0.1:") {
		t.Errorf("%s", body)
	}
	unable, err := l.Unable(t.Context())
	if err != nil || len(unable) != len(host.UnitSpecs())-4 || unable[0].Unit != chrony.Unit || unable[0].Detail != "cannot run here: "+l.Reason {
		t.Errorf("%+v, %v", unable, err)
	}
	if err := l.Units().Start(t.Context(), chrony.Unit); err == nil || err.Error() != "chrony cannot run here: "+l.Reason {
		t.Errorf("chrony: %v", err)
	}
	if s, err := l.Units().State(t.Context(), host.API); err != nil || s.Active != "active" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := l.Command(t.Context(), lab.Gateway, "true"); err == nil || !strings.Contains(err.Error(), l.Reason) {
		t.Errorf("exec: %v", err)
	}
	if token, err := l.SetupToken(); err != nil || token != "stub-token" {
		t.Errorf("token %q, %v", token, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	gone(t, dir, nil)
	again := helperUp(t, dir, "setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
	go again.Wait()
	if l, err = lab.Find(dir); err != nil {
		t.Fatal(err)
	}
	if err := l.Down(); err != nil {
		t.Fatal(err)
	}
	gone(t, dir, nil)
}

func TestUpSaysWhyItFails(t *testing.T) {
	dir := stateDir(t)
	_, err := lab.Up(t.Context(), lab.Options{Dir: dir, UI: "127.0.0.1:0", Programs: t.TempDir()})
	if !strings.Contains(fmt.Sprint(err), "gateway-helper: not installed") {
		t.Errorf("without programs: %v", err)
	}
	gone(t, dir, nil)
	if _, err := lab.Up(t.Context(), lab.Options{Dir: dir, UI: "192.0.2.99:1"}); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("with a foreign address: %v", err)
	}
	if _, err := lab.Up(t.Context(), lab.Options{Dir: dir, UI: "127.0.0.1:0", HAProxy: "no-such-program"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("with an HAProxy that is not there: %v", err)
	}
}
