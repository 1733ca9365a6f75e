package traffic_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/test/traffic"
)

// serve has a listener do something with each connection, by its number.
func serve(t *testing.T, do func(n int, c net.Conn)) traffic.Site {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); do(n, c) }()
		}
	}()
	return traffic.Site{
		Address: l.Addr().String(), Name: "www.example.net", Says: "origin", Within: time.Minute, Enter: func(f func() error) error { return f() },
	}
}

// answer answers this many requests of a connection, unless it is to be closed before.
func answer(c net.Conn, status, requests int) {
	reads := bufio.NewReader(c)
	for range requests {
		req, err := http.ReadRequest(reads)
		if err != nil {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Length: 6\r\n\r\norigin", status, http.StatusText(status))
		if req.Close {
			return
		}
	}
}

// A request fails if it is cut off, gets a wrong answer or reaches no one. It does not fail if its kept connection was closed.
func TestWhatFails(t *testing.T) {
	t.Parallel()
	some := func(x *traffic.Traffic) traffic.Result {
		waittest.Until(t, "some requests", func() bool { return x.Asked() >= 20*traffic.Callers/4 })
		return x.End()
	}
	if r := some(traffic.Offer(serve(t, func(_ int, c net.Conn) { answer(c, 200, 1000) }), 200)); r.Again > 0 || r.Failed > 0 || r.Longest == 0 {
		t.Errorf("all are answered: %s", r)
	}
	if r := some(traffic.Offer(serve(t, func(_ int, c net.Conn) { answer(c, 200, 2) }), 200)); r.Again == 0 || r.Failed > 0 || r.Again > r.Asked/2 {
		t.Errorf("kept connections are closed after two requests: %s", r)
	}
	cut := serve(t, func(n int, c net.Conn) {
		if n%4 != 0 {
			answer(c, 200, 1000)
		}
	})
	if r := some(traffic.Offer(cut, 200)); r.Failed == 0 || r.Failed > r.Asked/2 || r.Cut() != r.Failed {
		t.Errorf("every fourth is cut off: %s", r)
	}
	if r := some(traffic.Offer(serve(t, func(_ int, c net.Conn) { answer(c, 503, 1000) }), 200)); r.Failed != r.Asked {
		t.Errorf("all are answered wrong: %s", r)
	}
	nobody := serve(t, nil)
	nobody.Address = "127.0.0.1:1"
	if r := some(traffic.Offer(nobody, 200)); r.Failed != r.Asked || r.Why["dial: connect: connection refused"] != r.Failed {
		t.Errorf("no one is there: %s", r)
	}
	nobody.Enter = func(func() error) error { return errors.New("no network") }
	x := traffic.Offer(nobody, 200)
	waittest.Until(t, "all have failed", func() bool { return x.Asked() == traffic.Callers })
	if r := x.End(); r.Failed != traffic.Callers {
		t.Errorf("no one is in the network: %s", r)
	}
}
