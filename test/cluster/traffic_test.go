package cluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// vip is the virtual address of the cluster, on the lab's wan.
const vip = "198.51.100.9"

// origin serves a site on the lan, which the nodes publish.
func origin(t *testing.T, n node) {
	t.Helper()
	const at = "10.10.0.2:8080"
	var l net.Listener
	n.do(t, n.Within(lab.Lan, func() (err error) { l, err = net.Listen("tcp", at); return err }))
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "origin") })}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	var backend struct{ ID string }
	n.Must(t, http.MethodPost, "/backends", fields{"name": "origin", "health_check_enabled": false}, 201, &backend)
	n.Must(t, http.MethodPost, "/backends/"+backend.ID+"/servers", fields{"name": "one", "address": "10.10.0.2", "port": 8080}, 201, nil)
	n.Must(t, http.MethodPost, "/domains", fields{"name": "www.example.net", "backend_id": backend.ID, "http_to_https": false}, 201, nil)
}

// share has the nodes share the virtual address.
func share(t *testing.T, nodes []node) {
	t.Helper()
	for _, n := range nodes {
		n.Must(t, http.MethodPut, "/cluster/vip-settings", fields{"vip_address": vip, "vip_interface": "wan0"}, 200, nil)
		n.WaitState(t, "vrrp", "live", 30*time.Second)
	}
	eventually(t, "one node has the virtual address", func() bool { return nodes[0].holds() != nodes[1].holds() })
}

// holds tells whether a node has the virtual address.
func (n node) holds() bool {
	found := false
	_ = n.Within(lab.Gateway, func() error {
		addresses, err := net.InterfaceAddrs()
		for _, a := range addresses {
			found = found || strings.HasPrefix(a.String(), vip+"/")
		}
		return err
	})
	return found
}

// drain has a node give the virtual address away, or ends that.
func (n node) drain(t *testing.T, on bool) {
	t.Helper()
	content := "0\n"
	if on {
		content = "1\n"
	}
	n.do(t, os.WriteFile(n.Path(host.VRRPDrain.Path()), []byte(content), 0o644))
}

// moveTo has the virtual address be on a node.
func moveTo(t *testing.T, to, from node) {
	t.Helper()
	from.drain(t, true)
	eventually(t, "the virtual address is on "+to.Name(), func() bool { return to.holds() && !from.holds() })
	from.drain(t, false)
}

const (
	// rate is how many requests are offered in a second, on as many connections at once as there are callers.
	rate    = 200
	callers = 32
	// answerWithin is how long an answer may take. Who gets none asks once more, as browsers do.
	answerWithin = 2 * time.Second
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

// request makes one on a connection of its own, in the network of this thread.
func request(within time.Duration) error {
	conn, err := net.DialTimeout("tcp", vip+":80", within)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(within))
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: www.example.net\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	b, err := io.ReadAll(conn)
	if err == nil && (!strings.HasPrefix(string(b), "HTTP/1.1 200 ") || !strings.Contains(string(b), "origin")) {
		err = fmt.Errorf("the answer is %.60q", b)
	}
	return err
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
	origin(t, one)
	share(t, nodes)
	eventually(t, "the other node knows the site, too", func() bool { return ask[bool](t, two, "SELECT EXISTS (SELECT FROM proxy_domains)") })
	two.WaitSettled(t)
	moveTo(t, two, one)
	moveTo(t, one, two)
	eventually(t, "the site answers", func() bool {
		var err error
		one.do(t, one.Within(lab.Wan, func() error { err = request(answerWithin); return nil }))
		return err == nil
	})

	during(t, one, "drain", func() { moveTo(t, two, one) })
	during(t, one, "drain of the other node", func() { moveTo(t, one, two) })
	during(t, one, "planned switchover", func() {
		two.Must(t, http.MethodPost, "/cluster/promote", nil, 200, nil)
		eventually(t, "the former primary follows", func() bool { return one.role(t) == "standby" })
	})
	during(t, one, "loss of the node without the address", func() {
		two.do(t, two.Crash())
		time.Sleep(2 * time.Second)
	})
	two.do(t, two.Boot(t.Context()))
	eventually(t, "the nodes know each other", func() bool { return one.role(t) == "standby" && two.role(t) == "primary" })
	two.WaitState(t, "vrrp", "live", 30*time.Second)
	moveTo(t, two, one)

	x := offer(t, one, answerWithin/8) // so that the gap is not longer for those who wait
	time.Sleep(time.Second)
	two.do(t, two.Crash())
	eventually(t, "the other node has the address", one.holds)
	time.Sleep(2 * time.Second)
	x.end(t, "loss of the primary, which has the address")
	if limit := labtest.Slow * 4 * time.Second; x.longest > limit {
		t.Errorf("no answer for %s", x.longest)
	}
	one.Must(t, http.MethodPost, "/cluster/promote", fields{"force": true}, 200, nil)
	two.do(t, two.Boot(t.Context()))
	eventually(t, "the former primary follows", func() bool { return two.role(t) == "standby" })
	same(t, one, two)
	eventually(t, "one node has the virtual address", func() bool { return one.holds() != two.holds() })
}
