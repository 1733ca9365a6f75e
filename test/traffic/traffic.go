// Package traffic simulates users of a site at a fixed rate, for tests and measurements of what they notice.
package traffic

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Site is the requested site.
type Site struct {
	// Address is its address with the port, and Name its host name.
	Address, Name string
	// Says is a text that each answer must contain.
	Says string
	// Within is how long a connection may take, and then an answer.
	Within time.Duration
	// Enter calls a function on a thread that is, and remains, in the clients' network.
	Enter func(func() error) error
}

// Callers is how many requests are under way at most. Every other caller keeps its connection for the next request, as browsers do, and the others make one for each.
const Callers = 16

// errCut is the error of a connection that was accepted and lost before a byte of the answer arrived.
var errCut = errors.New("cut off")

// Ask makes one request on a new connection, in the network of this thread.
func (s Site) Ask() error {
	_, err := (&caller{site: s}).ask()
	return err
}

// caller is one client.
type caller struct {
	site  Site
	keeps bool
	conn  net.Conn // from the last request; nil for none
	reads *bufio.Reader
}

// ask makes a request. If its kept connection was closed, it repeats it once on another one, like every HTTP client (RFC 9112, section 9.3.1): the connection was closed between
// two requests, while no one was waiting. That is not a failure, and is reported as again.
func (c *caller) ask() (again bool, err error) {
	if c.conn != nil {
		if err = c.request(); !errors.Is(err, errCut) {
			return false, err
		}
		again = true
	}
	if c.conn, err = net.DialTimeout("tcp", c.site.Address, c.site.Within); err != nil {
		c.conn = nil // and not a typed nil
		return again, err
	}
	c.reads = bufio.NewReader(c.conn)
	return again, c.request()
}

// request makes a request on the current connection, and closes it if no other one follows.
func (c *caller) request() (err error) {
	ends := "\r\nConnection: close"
	if c.keeps {
		ends = ""
	}
	kept := false
	defer func() {
		if !kept {
			c.conn.Close()
			c.conn = nil
		}
	}()
	_ = c.conn.SetDeadline(time.Now().Add(c.site.Within))
	if _, err = io.WriteString(c.conn, "GET / HTTP/1.1\r\nHost: "+c.site.Name+ends+"\r\n\r\n"); err == nil {
		_, err = c.reads.Peek(1)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("no answer in time")
	case err != nil:
		return errors.Join(errCut, err)
	}
	res, err := http.ReadResponse(c.reads, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || !strings.Contains(string(body), c.site.Says)) {
		err = fmt.Errorf("the answer is %s: %.60q", res.Status, body)
	}
	kept = err == nil && c.keeps && !res.Close
	return err
}

// Result is the outcome.
type Result struct {
	Asked int
	// Again is how many found that their kept connection had been closed between two requests, and were answered on another one.
	Again int
	// Failed is the number of requests without a correct answer, including those cut off while they waited for it, and Why has the reasons.
	Failed int
	Why    map[string]int
	// Longest is the longest time from one answer to the next.
	Longest time.Duration
}

// Cut is how many of those that failed were cut off while they waited for their answer.
func (r Result) Cut() int { return r.Why[errCut.Error()] }

func (r Result) String() string {
	return fmt.Sprintf("%d requests, %d failed %v, %d found their idle connection closed, no answer for at most %s", r.Asked, r.Failed, r.Why, r.Again, r.Longest.Round(time.Millisecond))
}

// Traffic is under way.
type Traffic struct {
	stop chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex
	last time.Time
	sum  Result
}

// Offer starts making this many requests a second. There are fewer while all callers are waiting.
func Offer(s Site, rate int) *Traffic {
	x := &Traffic{stop: make(chan struct{}), last: time.Now(), sum: Result{Why: map[string]int{}}}
	due := make(chan struct{})
	x.done.Go(func() {
		defer close(due)
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for {
			select {
			case <-x.stop:
				return
			case <-tick.C:
			}
			select {
			case <-x.stop:
				return
			case due <- struct{}{}:
			}
		}
	})
	for n := range Callers {
		x.done.Go(func() {
			c := &caller{site: s, keeps: n%2 == 0}
			if err := s.Enter(func() error {
				for range due {
					x.count(c.ask())
				}
				if c.conn != nil {
					c.conn.Close()
				}
				return nil
			}); err != nil {
				x.count(false, err)
			}
		})
	}
	return x
}

func (x *Traffic) count(again bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sum.Asked++
	if err != nil {
		x.sum.Failed++
		x.sum.Why[plain(err)]++
		return
	}
	if again {
		x.sum.Again++
	}
	now := time.Now()
	x.sum.Longest, x.last = max(x.sum.Longest, now.Sub(x.last)), now
}

// plain is an error without the client's port.
func plain(err error) string {
	if errors.Is(err, errCut) {
		return errCut.Error()
	}
	if op, is := errors.AsType[*net.OpError](err); is {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// Asked is the number of requests so far.
func (x *Traffic) Asked() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sum.Asked
}

func (x *Traffic) End() Result {
	close(x.stop)
	x.done.Wait()
	r := x.sum
	r.Longest, r.Why = max(r.Longest, time.Since(x.last)), maps.Clone(r.Why)
	return r
}
