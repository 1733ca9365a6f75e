package helper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fxamacker/cbor/v2"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
	"edge.internal/gateway/internal/kit/host/daemon/talk"
)

// Client is the host.Machine of a program that is not root. Verbs that need no privilege, or one that comes with a group, run in
// this process on the embedded machine; for the rest it calls the helper.
type Client struct {
	here
	haproxy.ServedProxy
	kea.ServedLeases
	crowdsec.ServedBans
	keepalived.ServedRouter
	postgresql.ServedDatabase

	socket string
	serves string  // describes the server, for error messages
	probes *Client // to gateway-probe

	mu   sync.Mutex
	idle []*connection // under mu
}

// here puts the machine's methods one level deeper, so that those of Client and of the embedded clients hide them.
type here struct{ host.Machine }

// keepIdle is how many idle connections are kept open.
const keepIdle = 8

// New returns a machine that calls the helper on this socket.
func New(local host.Machine, socket string) *Client {
	probeSocket := filepath.Join(filepath.Dir(socket), filepath.Base(host.ProbeSocket))
	c := &Client{
		here: here{local}, socket: socket, serves: "gateway-helper, which does what needs root",
		probes: &Client{socket: probeSocket, serves: "gateway-probe, which runs network diagnostics"},
	}
	c.ServedProxy, c.ServedLeases = haproxy.ServedProxy{Helper: c}, kea.ServedLeases{Helper: c}
	c.ServedBans, c.ServedRouter = crowdsec.ServedBans{Helper: c}, keepalived.ServedRouter{Helper: c}
	c.ServedDatabase = postgresql.ServedDatabase{Helper: c}
	return c
}

// connection runs one verb at a time.
type connection struct {
	*socket
	in *cbor.Decoder
}

func (c *Client) connect(ctx context.Context) (*connection, error) {
	for {
		c.mu.Lock()
		n := len(c.idle)
		if n == 0 {
			c.mu.Unlock()
			break
		}
		conn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		if quiet(conn.UnixConn) {
			return conn, nil
		}
		_ = conn.Close() // the helper has restarted
	}
	dialed, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s, is not running: %w", c.serves, err)
	}
	s := &socket{UnixConn: dialed.(*net.UnixConn)}
	return &connection{socket: s, in: decoding.NewDecoder(bufio.NewReaderSize(s, readSize))}, nil
}

// startsWithin is how long we wait for a helper that has died to be restarted.
const startsWithin = 3 * time.Second

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	for start := time.Now(); ; talk.Pause(ctx, 5*time.Millisecond) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
		absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
		if !absent || ctx.Err() != nil || time.Since(start) > startsWithin {
			return conn, err
		}
	}
}

// quiet reports whether a connection is open and has nothing to read.
func quiet(conn *net.UnixConn) (is bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		is = errors.Is(err, unix.EAGAIN)
	})
	return is && err == nil
}

func (c *Client) keep(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) == keepIdle {
		_ = conn.Close()
		return
	}
	c.idle = append(c.idle, conn)
}

func (c *Client) Close() {
	if c.probes != nil {
		c.probes.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		_ = conn.Close()
	}
	c.idle = nil
}

// Ask implements daemon.Helper.
func (c *Client) Ask(ctx context.Context, verb string, args []any, called func(decode func(any) error) error, results ...any) error {
	failed, err := c.try(ctx, verb, args, called, results)
	if err != nil && repeatable[verb] && ctx.Err() == nil {
		failed, err = c.try(ctx, verb, args, called, results) // the helper died during the verb
	}
	switch {
	case err == nil:
		return failed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	program, _, _ := strings.Cut(c.serves, ",")
	return fmt.Errorf("asking %s to %s: %w", program, verb, err)
}

// try is one attempt. failed is the verb's own error, and err that of the call.
func (c *Client) try(ctx context.Context, verb string, args []any, called func(func(any) error) error, results []any) (failed, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	failed, err = conn.exchange(verb, args, called, results)
	if stop() && err == nil {
		c.keep(conn)
	} else {
		_ = conn.Close()
	}
	return failed, err
}

// exchange runs the protocol. failed is the verb's own error, and err that of the protocol.
func (c *connection) exchange(verb string, args []any, called func(decode func(any) error) error, results []any) (failed, err error) {
	if err := c.send(call{Verb: verb}, args); err != nil {
		return nil, err
	}
	for {
		var f frame
		if err := c.in.Decode(&f); err != nil {
			return nil, err
		}
		if f.Call {
			if called == nil {
				return nil, errors.New("unexpected callback")
			}
			if err := called(c.in.Decode); err != nil {
				return nil, err
			}
			continue
		}
		for _, r := range results {
			if file, ok := r.(**os.File); ok {
				*file = c.take()
				continue
			}
			if err := c.in.Decode(r); err != nil {
				return nil, err
			}
		}
		return f.Failure.unpack(), nil
	}
}
