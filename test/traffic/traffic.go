// Package traffic is people who use a site at a fixed rate, for tests and measurements of what they notice.
package traffic

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"sync"
	"time"
)

// Site is what is asked for.
type Site struct {
	// Address is where it is, with its port, and Name its host name.
	Address, Name string
	// Says is what an answer has in it.
	Says string
	// Within is how long a connection may take, and then an answer.
	Within time.Duration
	// Enter calls a function on a thread that is in the network of those who ask, and stays there.
	Enter func(func() error) error
}

// Callers is how many requests are under way at most.
const Callers = 16

// errCut is that of a connection which was open and is lost.
var errCut = errors.New("cut off")

// Ask makes one request on a connection of its own, in the network of this thread.
func (s Site) Ask() error {
	conn, err := net.DialTimeout("tcp", s.Address, s.Within)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(s.Within))
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+s.Name+"\r\nConnection: close\r\n\r\n")
	var b []byte
	if err == nil {
		b, err = io.ReadAll(conn)
	}
	switch {
	case len(b) == 0:
		return errors.Join(errCut, err)
	case err == nil && (!strings.HasPrefix(string(b), "HTTP/1.1 200 ") || !strings.Contains(string(b), s.Says)):
		err = fmt.Errorf("the answer is %.60q", b)
	}
	return err
}

// Result is what has come of it.
type Result struct {
	Asked int
	// Cut is how many had a connection that was lost before a byte of the answer came, and were answered when they asked once more: a connection is lost with the
	// node that had it. No more than Callers can be cut off at once.
	Cut int
	// Failed is how many found nobody to connect to, got a wrong answer, or asked twice in vain, and Why says why.
	Failed int
	Why    map[string]int
	// Longest is the longest time from one answer to the next.
	Longest time.Duration
}

func (r Result) String() string {
	return fmt.Sprintf("%d requests, %d cut off and asked again, %d failed %v, no answer for at most %s", r.Asked, r.Cut, r.Failed, r.Why, r.Longest.Round(time.Millisecond))
}

// Traffic is under way.
type Traffic struct {
	site Site
	stop chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex
	last time.Time
	sum  Result
}

// Offer begins to make so many requests a second. Fewer are made while all callers wait.
func Offer(s Site, rate int) *Traffic {
	x := &Traffic{site: s, stop: make(chan struct{}), last: time.Now(), sum: Result{Why: map[string]int{}}}
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
	for range Callers {
		x.done.Go(func() {
			if err := s.Enter(func() error {
				for range due {
					x.ask()
				}
				return nil
			}); err != nil {
				x.count(false, err)
			}
		})
	}
	return x
}

func (x *Traffic) ask() {
	err := x.site.Ask()
	cut := errors.Is(err, errCut)
	if cut {
		err = x.site.Ask()
	}
	x.count(cut, err)
}

func (x *Traffic) count(cut bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sum.Asked++
	switch now := time.Now(); {
	case err != nil:
		x.sum.Failed++
		x.sum.Why[plain(err)]++
	case cut:
		x.sum.Cut++
		fallthrough
	default:
		x.sum.Longest, x.last = max(x.sum.Longest, now.Sub(x.last)), now
	}
}

// plain is an error without the port of the one who asked.
func plain(err error) string {
	if op, is := errors.AsType[*net.OpError](err); is {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// Asked is how many have been made so far.
func (x *Traffic) Asked() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sum.Asked
}

// End ends it.
func (x *Traffic) End() Result {
	close(x.stop)
	x.done.Wait()
	r := x.sum
	r.Longest, r.Why = max(r.Longest, time.Since(x.last)), maps.Clone(r.Why)
	return r
}
