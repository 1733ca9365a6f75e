package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
)

// foreign is a table of another program, with a counter.
const foreign = `table inet foreign { chain input { type filter hook input priority -10; policy accept; counter comment "all" ; } ; }`

// foreignCount is how many packets the foreign table has counted.
func (r *rig) foreignCount(t *testing.T) (packets int64) {
	t.Helper()
	var listing struct {
		Nftables []struct {
			Rule struct {
				Expr []struct{ Counter struct{ Packets int64 } }
			}
		}
	}
	if err := json.Unmarshal([]byte(r.Run(t, lab.Gateway, "nft", "-j", "list", "table", "inet", "foreign")), &listing); err != nil {
		t.Fatal(err)
	}
	for _, x := range listing.Nftables {
		for _, e := range x.Rule.Expr {
			packets += e.Counter.Packets
		}
	}
	return packets
}

// Through many applies a port that rules drop never opens, a connection that they accept is never disturbed, and the tables of
// other programs are unchanged.
func manyApplies(t *testing.T, r *rig) {
	applies := longtest.Number(t, "GATEWAY_FILTER_APPLIES", 40, 200)
	r.Run(t, lab.Gateway, "nft", foreign)
	defer r.Run(t, lab.Gateway, "nft", "delete", "table", "inet", "foreign")
	ids := r.rules(t,
		fields{"service_object_id": r.service(t, "tcp+udp", 7001), "action": "drop"},
		fields{"src_zone": "lan", "dst_zone": "wan"},
		fields{"service_object_id": r.service(t, "tcp", 7002)},
		fields{"src_zone": "wan", "dst_zone": "self", "service_object_id": r.service(t, "tcp+udp", 7004)})
	r.expect(t, probe{lab.Wan, "tcp", gwWan4, 7001, silent}, probe{lab.Wan, "udp", gwWan6, 7001, silent},
		// The same attempts are seen where they are accepted.
		probe{lab.Wan, "tcp", gwWan4, 7004, open}, probe{lab.Wan, "udp", gwWan6, 7004, open})
	held := r.hold(t, lab.Lan, net.JoinHostPort(wan4, "7003"))

	stop := make(chan struct{})
	var work sync.WaitGroup
	var datagrams, connections, accepted, lines atomic.Int64
	var longest time.Duration
	arrived := r.arrived[slices.Index(sides, lab.Gateway)].Load()
	work.Go(func() {
		if err := r.Within(lab.Wan, func() error { return flood(stop, &datagrams) }); err != nil {
			t.Error(err)
		}
	})
	for _, address := range []string{gwWan4, gwWan6} {
		for range 4 {
			work.Go(func() {
				err := r.Within(lab.Wan, func() error { return knock(stop, net.JoinHostPort(address, "7001"), &connections, &accepted) })
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	work.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			began := time.Now()
			if _, err := say(held, patience); err != nil {
				t.Errorf("the connection that was open: %v", err)
				return
			}
			longest = max(longest, time.Since(began))
			lines.Add(1)
		}
	})

	count := r.foreignCount(t)
	began := time.Now()
	for n := range applies {
		tried := [...]int64{datagrams.Load(), connections.Load(), lines.Load()}
		// Each apply renders something else: the accepting rule is turned on and off, and logs or not.
		a := r.Must(t, http.MethodPut, "/firewall/rules/"+ids[2], fields{"enabled": n%2 == 0, "log": n%4 < 2}, 200, nil)
		if got := a.Header.Get("Gateway-Apply"); got != "packet-filter=live" {
			t.Errorf("apply %d: %s", n, got)
			break
		}
		waittest.Until(t, "something is tried meanwhile", func() bool {
			return datagrams.Load() > tried[0] && connections.Load() > tried[1] && lines.Load() > tried[2] || t.Failed()
		})
		if n%20 == 0 {
			now := r.foreignCount(t)
			if now <= count {
				t.Errorf("apply %d: the foreign counter goes from %d to %d", n, count, now)
			}
			count = now
		}
	}
	took := time.Since(began)
	close(stop)
	work.Wait()
	if n := r.arrived[slices.Index(sides, lab.Gateway)].Load() - arrived; n != 0 || accepted.Load() != 0 {
		t.Errorf("%d packets arrived and %d connections were accepted at a port that is dropped", n, accepted.Load())
	}
	t.Logf("%d applies in %s: %d datagrams and %d connections tried, %d accepted; %d lines over an open connection, the longest %s",
		applies, took.Round(time.Millisecond), datagrams.Load(), connections.Load(), accepted.Load(), lines.Load(), longest.Round(time.Millisecond))

	if err := r.Units().Restart(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	r.back(t)
	r.WaitState(t, "packet-filter", "live", patience)
	if now := r.foreignCount(t); now < count {
		t.Errorf("across a restart the foreign counter goes from %d to %d", count, now)
	}
}

// flood sends datagrams to the dropped port of the gateway, by both families.
func flood(stop <-chan struct{}, sent *atomic.Int64) error {
	var conns []net.Conn
	for _, address := range []string{gwWan4, gwWan6} {
		conn, err := net.Dial("udp", net.JoinHostPort(address, "7001"))
		if err != nil {
			return err
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	for {
		select {
		case <-stop:
			return nil
		case <-time.After(200 * time.Microsecond):
		}
		for _, conn := range conns {
			if _, err := conn.Write([]byte("x")); err != nil {
				return err
			}
			sent.Add(1)
		}
	}
}

// knock connects repeatedly, and counts accepted connections.
func knock(stop <-chan struct{}, address string, tried, accepted *atomic.Int64) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		tried.Add(1)
		conn, err := net.DialTimeout("tcp", address, 20*time.Millisecond)
		switch {
		case err == nil:
			accepted.Add(1)
			conn.Close()
		case !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded):
			return err
		}
	}
}

// Whenever the API is killed, the kernel has the table from before or the one after, and then the stored one.
func killDuringApply(t *testing.T, r *rig) {
	r.rules(t, fields{"service_object_id": r.service(t, "tcp", 7001), "action": "drop"}, fields{"service_object_id": r.service(t, "tcp", 7003)})
	rule := r.rules(t, fields{"service_object_id": r.service(t, "tcp", 7002), "enabled": false})[0]
	set := func(enabled bool) (*http.Header, error) {
		a, err := r.Do(t.Context(), http.MethodPut, "/firewall/rules/"+rule, fields{"enabled": enabled})
		if err != nil {
			return nil, err
		}
		if a.Status != 200 {
			return nil, fmt.Errorf("%d: %s", a.Status, a.Body)
		}
		return &a.Header, nil
	}
	switched := func(enabled bool) string {
		t.Helper()
		if _, err := set(enabled); err != nil {
			t.Fatal(err)
		}
		return r.table(t)
	}
	after := switched(true)
	before := switched(false)
	if after == before || before == "" {
		t.Fatal("the tables do not differ")
	}
	arm := func(point, action string) {
		t.Helper()
		r.WaitSettled(t)
		of := "packet-filter"
		if failpoint.InHelper(point) {
			of = nftables.Table.Path()
		}
		if err := failpoint.Arm(r.Path(failpoints), point, action, of); err != nil {
			t.Fatal(err)
		}
	}
	stored := func(is string, port string) {
		t.Helper()
		r.WaitState(t, "packet-filter", "live", 10*time.Second)
		if got := r.table(t); got != is {
			t.Fatalf("the kernel does not have what is stored:\n%s\n%s", got, is)
		}
		r.expect(t, probe{lab.Wan, "tcp", gwWan4, 7001, silent}, probe{lab.Wan, "tcp", gwWan4, 7002, port}, probe{lab.Wan, "tcp", gwWan4, 7003, open})
	}
	var looks int
	points := longtest.Some(t, 4, failpoint.All())
	for _, point := range points {
		// Every reader of the kernel, at any time, sees one of the two.
		done, looked := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			defer func() { looked <- n }()
			for {
				select {
				case <-done:
					return
				default:
				}
				if got := r.table(t); got != before && got != after {
					t.Errorf("%s: the kernel has neither table: %q", point, got)
					return
				}
				n++
			}
		}()
		arm(point, "kill")
		_, err := set(true)
		if _, armed := os.Stat(filepath.Join(r.Path(failpoints), point)); armed == nil || isGone(err) == failpoint.InHelper(point) {
			t.Errorf("the failpoint %s: %v, %v", point, err, armed)
		}
		r.back(t)
		close(done)
		looks += <-looked
		if point == failpoint.TxWritten || point == failpoint.TxChecked {
			stored(before, silent)
		} else {
			stored(after, open)
		}
		if t.Failed() {
			t.FailNow()
		}
		if _, err := set(false); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d deaths, the kernel's table was whole at each of %d looks", len(points), looks)

	// A table that was applied before a commit that then fails is reverted.
	arm(failpoint.TxChecked, "error")
	if h, err := set(true); err == nil {
		t.Fatalf("the commit did not fail: %v", h)
	}
	waittest.Until(t, "the table is taken back", func() bool { return r.table(t) == before })
	stored(before, silent)
	// A table that cannot be saved on disk does not stay in the kernel unnoticed either: the component converges automatically.
	arm(failpoint.Staged, "error")
	if _, err := set(true); err != nil {
		t.Fatal(err)
	}
	stored(after, open)
}

// isGone reports whether a request ended because the API was killed.
func isGone(err error) bool {
	netErr := (net.Error)(nil)
	return err != nil && (errors.As(err, &netErr) || errors.Is(err, syscall.ECONNRESET))
}

// filterState is what the services say about the packet filter.
func (r *rig) filterState(t *testing.T) string {
	t.Helper()
	var list struct {
		Services []struct{ Name, Active string }
	}
	r.Must(t, http.MethodGet, "/system/services", nil, 200, &list)
	for _, s := range list.Services {
		if s.Name == "packet-filter" {
			return s.Active
		}
	}
	return ""
}

const keptTable = "/var/lib/gateway-helper/packet-filter.nft"

// After a death and an empty kernel, as at a boot, what was kept is loaded before there is a database.
func keptTableWithoutDatabase(t *testing.T, r *rig) {
	r.rules(t, fields{"service_object_id": r.service(t, "tcp", 7001), "action": "drop"}, fields{})
	probes := []probe{{lab.Wan, "tcp", gwWan4, 7001, silent}, {lab.Wan, "tcp", lan6, 7002, open}}
	r.expect(t, probes...)
	want := r.table(t)

	listing := r.Run(t, lab.Gateway, "unshare", "--net", "sh", "-c", "nft -f "+keptTable+" && nft -j list table inet gateway")
	if got := normal(t, []byte(listing)); got != want {
		t.Errorf("by hand, in a namespace of its own:\n%s\n%s", got, want)
	}

	if err := r.Units().Stop(t.Context(), lab.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	state, err := r.Units().State(t.Context(), host.API)
	if err != nil {
		t.Fatal(err)
	}
	r.Run(t, lab.Gateway, "sh", "-c", "kill -KILL "+strconv.Itoa(state.PID)+" && nft delete table inet gateway")
	// Sessions are in the database. The control socket is root's, and needs none.
	var answer []byte
	waittest.UntilNil(t, "the API answers", func() error {
		res, err := r.Client().Get("http://gateway/api/v1/system/services")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if answer, err = io.ReadAll(res.Body); err == nil && res.StatusCode != 200 {
			err = errors.New(res.Status)
		}
		return err
	})
	if !strings.Contains(string(answer), `"name":"packet-filter","active":"kernel-loaded"`) {
		t.Errorf("the services: %s", answer)
	}
	if got := r.table(t); got != want {
		t.Errorf("without a database:\n%s\n%s", got, want)
	}
	for _, p := range probes { // the explanation needs the database
		wait := patience
		if p.want == silent {
			wait = silence
		}
		if got, _ := r.attempt(p, wait); !matches(p.want, got) {
			t.Errorf("%s: %s instead of %s", p, got, p.want)
		}
	}
	var health struct{ Database string }
	if r.Must(t, http.MethodGet, "/system/health", nil, 200, &health); health.Database != "away" {
		t.Errorf("the database is %s", health.Database)
	}
	if err := r.Units().Start(t.Context(), lab.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	r.back(t)
	r.WaitState(t, "packet-filter", "live", 10*time.Second)
	r.expect(t, probes...)
	if got := r.table(t); got != want {
		t.Errorf("with the database:\n%s\n%s", got, want)
	}
}

func tableDeletedByHand(t *testing.T, r *rig) {
	r.rules(t, fields{"service_object_id": r.service(t, "tcp", 7001), "action": "drop"}, fields{"service_object_id": r.service(t, "tcp", 7002)})
	r.expect(t, probe{lab.Wan, "tcp", gwWan4, 7001, silent}, probe{lab.Wan, "tcp", gwWan4, 7002, open})
	want := r.table(t)
	if got := r.filterState(t); got != "kernel-loaded" {
		t.Fatalf("the packet filter is %s", got)
	}
	// The kernel announces the removal, and the table is restored at once.
	r.Run(t, lab.Gateway, "nft", "delete", "table", "inet", "gateway")
	waittest.Until(t, "the table is back", func() bool { return r.filterState(t) == "kernel-loaded" })
	r.WaitState(t, "packet-filter", "live", 10*time.Second)
	if got := r.table(t); got != want {
		t.Errorf("after it was deleted:\n%s\n%s", got, want)
	}

	// Without the API it is not restored. It was this table that dropped.
	if err := r.Units().Stop(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	r.Run(t, lab.Gateway, "nft", "delete", "table", "inet", "gateway")
	if got, _ := r.attempt(probe{lab.Wan, "tcp", gwWan4, 7001, open}, patience); !strings.HasPrefix(got, open) {
		t.Errorf("without a table the port is %s", got)
	}
	if err := r.Units().Start(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	r.back(t)
	r.WaitState(t, "packet-filter", "live", 10*time.Second)
	if got := r.table(t); got != want {
		t.Errorf("after the restart:\n%s\n%s", got, want)
	}
	r.expect(t, probe{lab.Wan, "tcp", gwWan4, 7001, silent}, probe{lab.Wan, "tcp", gwWan4, 7002, open})
}
