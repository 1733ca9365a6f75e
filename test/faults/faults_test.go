// Package faults kills the gateway at every point of a change and checks the result.
package faults

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m) }

const failpoints = "/run/gateway/failpoints"

type pool struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

// death is a point at which the gateway is killed while a change of a component is under way.
type death struct{ component, point string }

// deaths are all of them, a selection in a short run, or as many as make faults requests.
func deaths(t *testing.T) []death {
	t.Helper()
	var all []death
	// The packet filter's table is in the kernel before the change is committed.
	for _, component := range []string{"ntp", "packet-filter"} {
		for _, point := range failpoint.All() {
			all = append(all, death{component, point})
		}
	}
	n, err := strconv.Atoi(os.Getenv("GATEWAY_FAULT_CYCLES"))
	if err != nil {
		return longtest.Some(t, 5, all)
	}
	return slices.Repeat(all, n/len(all)+1)[:n]
}

func upArmed(t *testing.T) *labtest.Lab {
	t.Helper()
	l := labtest.UpAsAdmin(t, lab.Options{Env: []string{"GATEWAY_FAILPOINTS=" + failpoints}})
	// The gateway's user and root both use its files up.
	if err := errors.Join(os.MkdirAll(l.Path(failpoints), 0o777), os.Chmod(l.Path(failpoints), 0o777)); err != nil {
		t.Fatal(err)
	}
	l.WaitState(t, "ntp", "live", 10*time.Second)
	return l
}

// whole checks what must hold after every death: the stored rows, the files and the running daemon are the same, and
// the files are whole.
func whole(t *testing.T, l *labtest.Lab) []pool {
	t.Helper()
	l.WaitState(t, "ntp", "live", 20*time.Second)
	var stored []pool
	l.Must(t, http.MethodGet, "/ntp/pools", nil, 200, &stored)
	var preview struct{ Diff string }
	l.Must(t, http.MethodGet, "/system/config-preview?generator=ntp", nil, 200, &preview)
	if preview.Diff != "" {
		t.Fatalf("what is live is not what is stored:\n%s", preview.Diff)
	}
	var want, got []string
	for _, p := range stored {
		if strings.HasPrefix(p.Address, "10.") {
			want = append(want, p.Address)
		}
	}
	for line := range strings.Lines(l.Run(t, lab.Gateway, "chronyc", "-c", "-n", "sources")) {
		if fields := strings.Split(line, ","); len(fields) > 2 && strings.HasPrefix(fields[2], "10.") {
			got = append(got, fields[2])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Fatalf("stored %v, chronyd has %v", want, got)
	}
	left, err := filepath.Glob(l.Path("/etc/chrony/conf.d/*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("files beside the drop-in: %v %v", left, err)
	}
	return stored
}

// ready waits until the API answers again, and returns how long it was unavailable.
func ready(t *testing.T, l *labtest.Lab, since time.Time) time.Duration {
	t.Helper()
	waittest.UntilNil(t, "the API is back", func() error {
		a, err := l.Do(t.Context(), http.MethodGet, "/ntp/pools", nil)
		if err == nil && a.Status != 200 {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return err
	})
	return time.Since(since)
}

// committed reports whether the point is after the commit.
func committed(point string) bool {
	return point != failpoint.TxWritten && point != failpoint.TxChecked
}

// All tests share a lab: each starts with what the previous one has left.
func TestFaults(t *testing.T) {
	l := upArmed(t)
	for _, x := range []struct {
		name string
		test func(*testing.T, *labtest.Lab)
	}{
		{"OthersGoOn", othersGoOn},
		{"KillAtEveryFailpoint", killAtEveryFailpoint},
		{"KillAroundHeldChange", killAroundHeldChange},
		{"AcknowledgedWritesSurvive", acknowledgedWritesSurvive},
		{"DatabaseGoesAndReturns", databaseGoesAndReturns},
		{"DaemonGoesAndReturns", daemonGoesAndReturns},
		{"DaemonThatRefusesToStart", daemonThatRefusesToStart},
		{"DaemonThatIsMissing", daemonThatIsMissing},
		{"FullDisk", fullDisk},
		{"AU09SessionSurvivesRestart", sessionSurvivesRestart},
	} {
		t.Run(x.name, func(t *testing.T) { x.test(t, l) })
	}
}

// filterWhole checks the same for the packet filter: the kernel has exactly what is stored. It returns the ids of the
// rules with the name.
func filterWhole(t *testing.T, l *labtest.Lab, name string) (ids []string) {
	t.Helper()
	l.WaitState(t, "packet-filter", "live", 20*time.Second)
	var preview struct{ Diff string }
	l.Must(t, http.MethodGet, "/system/config-preview?generator=packet-filter", nil, 200, &preview)
	if preview.Diff != "" {
		t.Fatalf("the table on disk is not what is stored:\n%s", preview.Diff)
	}
	var stored []struct{ ID, Name string }
	l.Must(t, http.MethodGet, "/firewall/rules", nil, 200, &stored)
	table := l.Run(t, lab.Gateway, "nft", "list", "table", "inet", "gateway")
	natted := strings.Count(l.Run(t, lab.Gateway, "nft", "list", "chain", "inet", "gateway", "postrouting"), "gid:")
	for _, r := range stored {
		if !strings.Contains(table, "gid:"+r.ID) {
			t.Fatalf("the rule %s is stored and not in the kernel", r.Name)
		}
		if r.Name == name {
			ids = append(ids, r.ID)
		}
	}
	if n := strings.Count(table, "gid:") - natted; n != len(stored) {
		t.Fatalf("%d rules are stored, the kernel has %d", len(stored), n)
	}
	return ids
}

// files is where a component's configuration is.
var files = map[string]string{"ntp": chrony.DropIn.Path(), "packet-filter": nftables.Table.Path()}

// arm arms a point for the next change of one component only: others do not reach it in the meantime.
func arm(t *testing.T, l *labtest.Lab, d death) {
	t.Helper()
	of := d.component
	if failpoint.InHelper(d.point) {
		of = files[of]
	}
	l.WaitState(t, d.component, "live", 20*time.Second)
	l.WaitSettled(t)
	if err := failpoint.Arm(l.Path(failpoints), d.point, "kill", of); err != nil {
		t.Fatal(err)
	}
}

// struck reports whether a point was reached.
func struck(l *labtest.Lab, point string) bool {
	_, err := os.Stat(filepath.Join(l.Path(failpoints), point))
	return errors.Is(err, fs.ErrNotExist)
}

// restart is the longest time that the API may be unavailable after a kill.
const restart = labtest.Slow * 3 * time.Second

func killAtEveryFailpoint(t *testing.T, l *labtest.Lab) {
	var longest time.Duration
	list := deaths(t)
	for i, d := range list {
		arm(t, l, d)
		gone := dies(t, l, i, d)
		if longest = max(longest, gone); gone > restart {
			t.Errorf("cycle %d: ready %s after the death at %s", i, gone, d.point)
		}
	}
	t.Logf("%d deaths, ready again after at most %s", len(list), longest.Round(time.Millisecond))
}

// dies changes a component, which reaches an armed point, and returns how long the API was unavailable.
func dies(t *testing.T, l *labtest.Lab, cycle int, d death) time.Duration {
	t.Helper()
	name, path, body := d.change(cycle)
	died := time.Now()
	a, err := l.Do(t.Context(), http.MethodPost, path, body)
	if (err == nil) != failpoint.InHelper(d.point) || err == nil && a.Status != 201 || !struck(l, d.point) {
		t.Fatalf("cycle %d: the failpoint %s: %v, %+v", cycle, d.point, err, a)
	}
	gone := ready(t, l, died)
	ids := d.stored(t, l, name)
	if (len(ids) > 0) != committed(d.point) {
		t.Fatalf("cycle %d: after a death at %s the row is stored: %v", cycle, d.point, len(ids) > 0)
	}
	for _, id := range ids {
		l.Must(t, http.MethodDelete, path+"/"+id, nil, 200, nil)
	}
	return gone
}

// change returns a change of the component, and the name of the row that it creates.
func (d death) change(cycle int) (name, path string, body map[string]any) {
	if d.component == "ntp" {
		name = fmt.Sprintf("10.%d.%d.%d", cycle>>16&255, cycle>>8&255, cycle&255)
		return name, "/ntp/pools", map[string]any{"kind": "server", "address": name}
	}
	name = fmt.Sprintf("cycle %d", cycle)
	return name, "/firewall/rules", map[string]any{"name": name, "src_zone": "any", "dst_zone": "self", "action": "drop"}
}

// stored are the rows of that name, in the database and in what runs.
func (d death) stored(t *testing.T, l *labtest.Lab, name string) (ids []string) {
	t.Helper()
	if d.component != "ntp" {
		return filterWhole(t, l, name)
	}
	for _, p := range whole(t, l) {
		if p.Address == name {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// A point that is armed for one component is not met by another one.
func othersGoOn(t *testing.T, l *labtest.Lab) {
	for _, point := range []string{failpoint.TxWritten, failpoint.Staged, failpoint.ApplyVerified} {
		d := death{"ntp", point}
		arm(t, l, d)
		var rule struct{ ID string }
		l.Must(t, http.MethodPost, "/firewall/rules", map[string]any{"name": "other", "src_zone": "any", "dst_zone": "self", "action": "drop"}, 201, &rule)
		l.Must(t, http.MethodDelete, "/firewall/rules/"+rule.ID, nil, 200, nil)
		if struck(l, point) {
			t.Fatalf("a change of the packet filter has met %s, which waits for ntp", point)
		}
		if err := os.Remove(filepath.Join(l.Path(failpoints), point)); err != nil {
			t.Fatal(err)
		}
	}
}

// Acknowledged writes survive, whenever the process is killed.
func acknowledgedWritesSurvive(t *testing.T, l *labtest.Lab) {
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	next := 0
	write := func() {
		mu.Lock()
		next++
		address := fmt.Sprintf("10.200.%d.%d", next>>8&255, next&255)
		mu.Unlock()
		a, err := l.Do(t.Context(), http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": address})
		if err == nil && a.Status == 201 {
			mu.Lock()
			acknowledged[address] = true
			mu.Unlock()
		}
	}
	for round := range max(2, len(deaths(t))/4) {
		stop := make(chan struct{})
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						write()
					}
				}
			})
		}
		// The kill comes at a random moment, but only after there are acknowledged writes that could be lost.
		for want := 3 * (round + 1); ; {
			mu.Lock()
			n := len(acknowledged)
			mu.Unlock()
			if n >= want {
				break
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(round*7%40) * time.Millisecond)
		state, err := l.Units().State(t.Context(), host.API)
		if err != nil {
			t.Fatal(err)
		}
		// The pid is the lab's own: the signal is sent from inside.
		l.Run(t, lab.Gateway, "kill", "-KILL", strconv.Itoa(state.PID))
		close(stop)
		writers.Wait()
		ready(t, l, time.Now())
		stored := whole(t, l)
		for address := range acknowledged {
			if !slices.ContainsFunc(stored, func(p pool) bool { return p.Address == address }) {
				t.Fatalf("round %d: %s was acknowledged and is lost", round, address)
			}
		}
	}
	t.Logf("%d acknowledged writes survived", len(acknowledged))
}

func databaseGoesAndReturns(t *testing.T, l *labtest.Lab) {
	if err := l.Units().Stop(t.Context(), lab.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	if a, err := l.Do(t.Context(), http.MethodGet, "/ntp/pools", nil); err != nil || a.Status != 503 {
		t.Fatalf("%+v %v", a, err)
	}
	l.Must(t, http.MethodGet, "/system/health", nil, 200, nil)
	if err := l.Units().Start(t.Context(), lab.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	if d := ready(t, l, time.Now()); d > labtest.Slow*10*time.Second {
		t.Errorf("resources answer %s after the database", d)
	}
	l.Must(t, http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": "10.9.9.9"}, 201, nil)
	whole(t, l)
}

func daemonGoesAndReturns(t *testing.T, l *labtest.Lab) {
	state, err := l.Units().State(t.Context(), chrony.Unit)
	if err != nil {
		t.Fatal(err)
	}
	l.Run(t, lab.Gateway, "kill", "-KILL", strconv.Itoa(state.PID))
	l.Must(t, http.MethodPost, "/system/render-configs", nil, 200, nil)
	whole(t, l)
	if after, err := l.Units().State(t.Context(), chrony.Unit); err != nil || after.PID == state.PID || after.Active != "active" {
		t.Fatalf("%+v %v", after, err)
	}
}

func daemonThatRefusesToStart(t *testing.T, l *labtest.Lab) {
	// chronyd refuses a command socket in a folder that others can write, and a pid file that it cannot.
	const pidFile = "/run/chrony/chronyd.pid"
	// The gateway restarts the daemon as soon as it has ended, so the obstacle is created first.
	l.Run(t, lab.Gateway, "sh", "-c", "rm -f "+pidFile+" && mkdir -p "+pidFile+"/x")
	if err := l.Units().Stop(t.Context(), chrony.Unit); err != nil {
		t.Fatal(err)
	}
	a := l.Must(t, http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": "10.8.8.8"}, 201, nil)
	if got := a.Header.Get("Gateway-Apply"); got != "ntp=degraded" {
		t.Fatalf("Gateway-Apply: %s", got)
	}
	if c := l.WaitState(t, "ntp", "degraded", time.Second); c.LastError == "" {
		t.Fatalf("%+v", c)
	}
	l.Must(t, http.MethodGet, "/system/health", nil, 200, nil)
	l.Run(t, lab.Gateway, "rm", "-rf", pidFile)
	whole(t, l) // automatically
}

func daemonThatIsMissing(t *testing.T, l *labtest.Lab) {
	l.Run(t, lab.Gateway, "mount", "-t", "tmpfs", "none", "/usr/sbin")
	a := l.Must(t, http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": "10.8.8.9"}, 201, nil)
	if got := a.Header.Get("Gateway-Apply"); got != "ntp=not_installed" {
		t.Fatalf("Gateway-Apply: %s", got)
	}
	var preview struct{ Diff string }
	l.Must(t, http.MethodGet, "/system/config-preview?generator=ntp", nil, 200, &preview)
	if !strings.Contains(preview.Diff, "+server 10.8.8.9") {
		t.Fatalf("no preview: %s", preview.Diff)
	}
	l.Run(t, lab.Gateway, "umount", "/usr/sbin")
	l.Must(t, http.MethodPost, "/system/render-configs", nil, 200, nil)
	whole(t, l)
}

func fullDisk(t *testing.T, l *labtest.Lab) {
	const dir = "/etc/chrony/conf.d"
	live := l.Run(t, lab.Gateway, "cat", dir+"/gateway.conf")
	// Without the filler there is room for the file and for its successor.
	size := strconv.Itoa(2*len(live) + 1<<16)
	l.Run(t, lab.Gateway, "cp", dir+"/gateway.conf", "/run/kept.conf")
	l.Run(t, lab.Gateway, "mount", "-t", "tmpfs", "-o", "size="+size, "full", dir)
	l.Run(t, lab.Gateway, "cp", "/run/kept.conf", dir+"/gateway.conf")
	l.Run(t, lab.Gateway, "sh", "-c", "head -c "+size+" /dev/zero > "+dir+"/filler || true")
	a := l.Must(t, http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": "10.8.8.10"}, 201, nil)
	if got := a.Header.Get("Gateway-Apply"); got != "ntp=degraded" {
		t.Fatalf("Gateway-Apply: %s", got)
	}
	if c := l.WaitState(t, "ntp", "degraded", time.Second); !strings.Contains(c.LastError, "no space left") {
		t.Fatalf("%+v", c)
	}
	if now := l.Run(t, lab.Gateway, "cat", dir+"/gateway.conf"); now != live {
		t.Fatalf("the file is not whole:\n%s", now)
	}
	l.Run(t, lab.Gateway, "rm", dir+"/filler")
	l.WaitState(t, "ntp", "live", 20*time.Second) // automatically
	l.Run(t, lab.Gateway, "umount", dir)
	l.Must(t, http.MethodPost, "/system/render-configs", nil, 200, nil)
	whole(t, l)
}

// The session's secret and row outlive the process.
func sessionSurvivesRestart(t *testing.T, l *labtest.Lab) {
	if err := l.Units().Restart(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	ready(t, l, time.Now())
	l.Must(t, http.MethodGet, "/auth/me", nil, 200, nil)
	info, err := os.Stat(l.Path("/var/lib/gateway/jwt-secret"))
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() < 32 {
		t.Fatalf("%v %v", info, err)
	}
	if id := strings.TrimSpace(l.Run(t, lab.Gateway, "id", "-u", host.User)); fmt.Sprint(info.Sys().(*syscall.Stat_t).Uid) != id {
		t.Fatal("someone else than the gateway owns the secret")
	}
}
