//go:build long

package cluster

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

const (
	// rate is how many requests are offered in a second, on as many connections at once as there are callers.
	rate    = 200
	callers = 32
)

// traffic is requests at a fixed rate to the virtual address, from the lab's wan.
type traffic struct {
	mu                   sync.Mutex
	asked, again, failed int
	last                 time.Time
	longest              time.Duration // for which there was no answer
	within               time.Duration
	stop                 chan struct{}
	done                 sync.WaitGroup
	errors               map[string]int
}

// offer begins it.
func offer(t *testing.T, n node, within time.Duration) *traffic {
	t.Helper()
	x := &traffic{stop: make(chan struct{}), errors: map[string]int{}, last: time.Now(), within: within}
	due := make(chan struct{}, callers)
	x.done.Go(func() {
		defer close(due)
		tick := time.NewTicker(time.Second / rate)
		defer tick.Stop()
		for {
			select {
			case <-x.stop:
				return
			case <-tick.C:
				due <- struct{}{}
			}
		}
	})
	for range callers {
		x.done.Go(func() {
			_ = n.Within(lab.Wan, func() error { // this thread is there until it ends
				for range due {
					x.ask()
				}
				return nil
			})
		})
	}
	return x
}

func (x *traffic) ask() {
	err := request(x.within)
	again := err != nil
	if again {
		err = request(x.within)
	}
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked++
	if again {
		x.again++
	}
	if err != nil {
		x.failed++
		x.errors[plain(err)]++
		return
	}
	x.longest, x.last = max(x.longest, now.Sub(x.last)), now
}

// plain is an error without the port of the one who asked.
func plain(err error) string {
	if op, is := errors.AsType[*net.OpError](err); is {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// end ends it, and says what has come of it.
func (x *traffic) end(t *testing.T, what string) {
	t.Helper()
	close(x.stop)
	x.done.Wait()
	x.longest = max(x.longest, time.Since(x.last))
	t.Logf("%s: %d requests, %d asked again, %d failed %v, no answer for at most %s", what, x.asked, x.again, x.failed, x.errors, x.longest.Round(time.Millisecond))
	if x.asked < rate/2 {
		t.Errorf("%s: only %d requests", what, x.asked)
	}
}

// during has traffic while something is done, and before and after it. None of the requests fails.
func during(t *testing.T, n node, what string, do func()) {
	t.Helper()
	x := offer(t, n, answerWithin)
	time.Sleep(time.Second)
	do()
	time.Sleep(time.Second)
	x.end(t, what)
	if x.failed > 0 {
		t.Errorf("%s: %d of %d requests failed", what, x.failed, x.asked)
	}
}

// TestTraffic has people use a site that the cluster publishes while its nodes change places.
func TestTraffic(t *testing.T) {
	nodes := up(t, 2)
	one, two := nodes[0], nodes[1]
	virtualAddress(t, one, two)

	during(t, one, "drain", func() { moveTo(t, two, one) })
	during(t, one, "drain of the other node", func() { moveTo(t, one, two) })
	during(t, one, "planned switchover", func() {
		two.Must(t, http.MethodPost, "/cluster/promote", nil, 200, nil)
		waittest.Until(t, "the former primary follows", func() bool { return one.role(t) == "standby" })
	})
	during(t, one, "loss of the node without the address", func() {
		two.do(t, two.Crash())
		time.Sleep(2 * time.Second)
	})
	two.do(t, two.Boot(t.Context()))
	waittest.Until(t, "the nodes know each other", func() bool { return one.role(t) == "standby" && two.role(t) == "primary" })
	two.WaitState(t, "vrrp", "live", 30*time.Second)
	moveTo(t, two, one)

	x := offer(t, one, answerWithin/8) // so that the gap is not longer for those who wait
	time.Sleep(time.Second)
	two.do(t, two.Crash())
	waittest.Until(t, "the other node has the address", one.holds)
	time.Sleep(2 * time.Second)
	x.end(t, "loss of the primary, which has the address")
	if limit := labtest.Slow * 4 * time.Second; x.longest > limit {
		t.Errorf("no answer for %s", x.longest)
	}
	one.Must(t, http.MethodPost, "/cluster/promote", fields{"force": true}, 200, nil)
	two.do(t, two.Boot(t.Context()))
	waittest.Until(t, "the former primary follows", func() bool { return two.role(t) == "standby" })
	same(t, one, two)
	waittest.Until(t, "one node has the virtual address", func() bool { return one.holds() != two.holds() })
}
