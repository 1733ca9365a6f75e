package httpd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/network"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/waittest"
)

// neighbour listens on the address of a Port, and answers with its name.
func neighbour(t *testing.T, address, name string) {
	t.Helper()
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	}}
	l, err := shared.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, name)
}

// serve answers with a name, after a pause if the client asks for one.
func serve(t *testing.T, l net.Listener, name string) {
	t.Helper()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			io.WriteString(w, "slow ")
			w.(http.Flusher).Flush()
			time.Sleep(2 * letGo)
		}
		io.WriteString(w, name)
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// letGo is longer than a released port continues to listen.
const letGo = 700 * time.Millisecond

func ask(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

// TestPortChangesHands has clients connect all the time while the port goes to a neighbour and back. None may notice.
func TestPortChangesHands(t *testing.T) {
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := reserved.Addr().String()
	reserved.Close()
	port := httpd.NewPort(network.New(home.Home{}), address)
	serve(t, port, "port")
	hold := func() {
		t.Helper()
		for range 2 {
			if err := port.Hold(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
	}
	release := func() {
		t.Helper()
		for range 2 {
			if err := port.Release(); err != nil {
				t.Fatal(err)
			}
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	url := "http://" + address
	if _, err := ask(t.Context(), client, url); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("it listens before it is told to: %v", err)
	}
	hold()
	ctx, cancel := context.WithCancel(t.Context())
	var asked, port1, port2 atomic.Int64
	failed := make(chan error, 100)
	var clients [4]chan struct{}
	for i := range clients {
		clients[i] = make(chan struct{})
		go func() {
			defer close(clients[i])
			for ctx.Err() == nil {
				who, err := ask(t.Context(), client, url)
				asked.Add(1)
				switch {
				case err != nil:
					failed <- err
					return
				case who == "port":
					port1.Add(1)
				default:
					port2.Add(1)
				}
			}
		}()
	}
	slow := make(chan string, 1)
	go func() {
		answer, err := ask(t.Context(), client, url+"/slow")
		if err != nil {
			answer = err.Error()
		}
		slow <- answer
	}()
	waittest.Until(t, "a hundred answers", func() bool { return port1.Load() >= 100 })
	neighbour(t, address, "neighbour")
	for range 3 {
		release()
		// It continues to listen for a moment, and has stopped when the neighbour answers twenty in a row.
		before, last := port1.Load(), port2.Load()
		waittest.Until(t, "a released port is not served", func() bool {
			if now := port1.Load(); now != before {
				before, last = now, port2.Load()
			}
			return port2.Load() >= last+20 || len(failed) > 0
		})
		hold()
		waittest.Until(t, "a port that is held is served", func() bool { return port1.Load() >= before+20 || len(failed) > 0 })
	}
	cancel()
	for _, done := range clients {
		<-done
	}
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	if port2.Load() == 0 {
		t.Error("the neighbour was never asked")
	}
	if answer := <-slow; answer != "slow port" {
		t.Errorf("what was under way ended with %q", answer)
	}
	t.Logf("%d connections, %d to the neighbour", asked.Load(), port2.Load())
}

// TestPortWithoutIPv6: with IPv6 off nobody is served over it, and the port can be switched while it is held.
func TestPortWithoutIPv6(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	number := free.Addr().(*net.TCPAddr).Port
	free.Close()
	port := httpd.NewPort(network.New(home.Home{}), fmt.Sprintf(":%d", number))
	defer port.Close()
	go func() {
		for {
			conn, err := port.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	answers := func(host string) bool {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, fmt.Sprint(number)), 10*time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	for _, ipv6 := range []bool{false, true, false} {
		if err := port.Hold(t.Context(), ipv6); err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, fmt.Sprintf("IPv6 is %t", ipv6), func() bool { return answers("::1") == ipv6 })
		if !answers("127.0.0.1") {
			t.Fatalf("no IPv4 with IPv6 %t", ipv6)
		}
	}
}
