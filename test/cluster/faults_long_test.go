//go:build long

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
)

// always is a time server that no one removes.
const always = "always.example.net"

// TestFaults is the property test of internal/cluster with whole gateways: all programs are killed, cables and power fail, nodes are promoted and repaired during changes
// on both. When all faults are over, both have the same rows, each acknowledged change is in the cluster or in a difference file, no file ever lacked what must always be
// in it, and only one node has the virtual address.
func TestFaults(t *testing.T) {
	runs, seed := longtest.Number(t, "GATEWAY_CLUSTER_LABS", 1, 1), uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		runs, seed = 1, n
	}
	f := &faults{nodes: up(t, 2), down: map[string]bool{}}
	share(t, f.nodes)
	f.nodes[0].add(t, always)
	for _, n := range f.nodes {
		waittest.Until(t, "what is always there is in the daemon", func() bool { return n.applied(t, always) })
	}
	for n := range uint64(runs) {
		f.run(t, seed+n)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d changes were acknowledged; the virtual address was on both nodes for at most %s after all was whole", len(f.acknowledged), f.twice)
}

// faults is what may happen to two nodes.
type faults struct {
	nodes        []node
	down         map[string]bool
	mu           sync.Mutex
	acknowledged []string
	number       int
	twice        time.Duration
}

func (f *faults) run(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
	t.Logf("SEED=%d", seed)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, n := range f.nodes {
		all.Go(func() { f.write(ctx, n) })
		all.Go(func() { f.watch(ctx, t, n) })
	}
	for range 4 + random.IntN(4) {
		t.Log(f.step(t, random))
		time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
	}
	for _, n := range f.nodes {
		for _, side := range []lab.Side{lab.Cluster, lab.Wan} {
			if !f.down[n.Name()] {
				n.do(t, n.Heal(side))
			}
		}
		if f.down[n.Name()] {
			n.do(t, n.Boot(t.Context()))
			f.down[n.Name()] = false
		}
	}
	f.alone(t)
	f.settle(t)
	stop()
	all.Wait()
	one, two := f.nodes[0], f.nodes[1]
	same(t, one, two)
	kept := strings.Join(append(one.differences(t), two.differences(t)...), "\n")
	for _, name := range f.acknowledged {
		if !one.has(t, name) && !strings.Contains(kept, `"`+name+`"`) {
			t.Errorf("%s was acknowledged and is nowhere", name)
		}
	}
	for _, n := range f.nodes {
		n.WaitState(t, "ntp", "live", time.Minute)
	}
}

// step is one of the things that happen.
func (f *faults) step(t *testing.T, random *rand.Rand) string {
	t.Helper()
	n := f.nodes[random.IntN(2)]
	programs := []host.Unit{host.API, lab.PostgreSQL, haproxy.Unit, keepalived.Unit, host.Helper, host.Scheduler, chrony.Unit}
	program, force, what := programs[random.IntN(len(programs))], random.IntN(2) == 0, random.IntN(8)
	if f.down[n.Name()] {
		n.do(t, n.Boot(t.Context()))
		f.down[n.Name()] = false
		return n.Name() + ": boot"
	}
	ask := func(path string, body any) string {
		a, err := n.Do(t.Context(), http.MethodPost, path, body)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(a.Status)
	}
	switch what {
	case 0, 1, 2:
		return fmt.Sprintf("%s: kill %s %v", n.Name(), program, n.Signal(t.Context(), program, lab.Kill)) // it may not run at the moment
	case 3:
		side := []lab.Side{lab.Cluster, lab.Wan}[random.IntN(2)]
		n.do(t, n.Cut(side))
		return fmt.Sprintf("%s: cut %s", n.Name(), side)
	case 4:
		for _, side := range []lab.Side{lab.Cluster, lab.Wan} {
			n.do(t, n.Heal(side))
		}
		return n.Name() + ": heal"
	case 5:
		return fmt.Sprintf("%s: promote, force %t: %s", n.Name(), force, ask("/cluster/promote", fields{"force": force}))
	case 6:
		return fmt.Sprintf("%s: repair: %s", n.Name(), ask("/cluster/repair-replication", fields{}))
	}
	n.do(t, n.Crash())
	f.down[n.Name()] = true
	return n.Name() + ": power fails"
}

// write sends changes to a node. If it is not the primary, it refuses them or forwards them to the primary.
func (f *faults) write(ctx context.Context, n node) {
	for ctx.Err() == nil {
		f.mu.Lock()
		f.number++
		name := fmt.Sprintf("n%d.example.net", f.number)
		f.mu.Unlock()
		asking, cancel := context.WithTimeout(ctx, 10*time.Second)
		if a, err := n.Do(asking, http.MethodPost, "/ntp/pools", fields{"address": name}); err == nil && a.Status == 201 {
			f.mu.Lock()
			f.acknowledged = append(f.acknowledged, name)
			f.mu.Unlock()
		}
		cancel()
		time.Sleep(200 * time.Millisecond)
	}
}

// watch reads the file of a node's daemon continuously.
func (f *faults) watch(ctx context.Context, t *testing.T, n node) {
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		b, err := os.ReadFile(n.Path(chrony.DropIn.Path()))
		if err == nil && !bytes.Contains(b, []byte("pool "+always+" ")) {
			t.Errorf("%s has rendered a file without what is always there:\n%s", n.Name(), b)
			return
		}
	}
}

// alone waits until only one node has the virtual address after all cables are connected, and records how long both had it. The bench has the limit.
func (f *faults) alone(t *testing.T) {
	t.Helper()
	one, two := f.nodes[0], f.nodes[1]
	began, both := time.Now(), time.Duration(0)
	waittest.Until(t, "one node has the virtual address, and keeps it", func() bool {
		if one.holds() && two.holds() {
			both = time.Since(began)
		}
		return one.holds() != two.holds() && time.Since(began)-both > 2*time.Second
	})
	f.twice = max(f.twice, both)
}

// settle waits until one is the primary and the other one follows, and decides as a person would where no one is.
func (f *faults) settle(t *testing.T) {
	t.Helper()
	role := func(n node) (is string) {
		waittest.UntilNil(t, "the database of "+n.Name()+" answers", func() (err error) { is, err = n.roleNow(t.Context()); return err })
		return is
	}
	decided := time.Now()
	waittest.Until(t, "one is the primary and the other one follows", func() bool {
		a, b := role(f.nodes[0]), role(f.nodes[1])
		if a != "primary" && b != "primary" && a != "stepping-down" && b != "stepping-down" && time.Since(decided) > 15*time.Second {
			decided = time.Now()
			_, _ = f.nodes[0].Do(t.Context(), http.MethodPost, "/cluster/promote", fields{"force": true})
		}
		return a == "primary" && b == "standby" || a == "standby" && b == "primary"
	})
}
