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

// Client is a machine for a program that is not root. What needs no privilege, or one that a group gives, is done in this process by
// the machine that it embeds; the rest is asked of the helper.
type Client struct {
	here
	haproxy.ServedProxy
	kea.ServedLeases
	crowdsec.ServedBans
	keepalived.ServedRouter
	postgresql.ServedDatabase

	socket string
	does   string  // what its other end does, for people
	probes *Client // to who looks at the network for it

	mu   sync.Mutex
	idle []*connection // under mu
}

// here is the machine as this process may use it. What is served is done by Client's other methods, which hide those of the same names.
type here struct{ host.Machine }

// keepIdle is how many quiet connections are kept.
const keepIdle = 8

// New returns a machine whose helper listens at the socket.
func New(local host.Machine, socket string) *Client {
	beside := filepath.Join(filepath.Dir(socket), filepath.Base(host.ProbeSocket))
	c := &Client{
		here: here{local}, socket: socket, does: "gateway-helper, which does what needs root",
		probes: &Client{socket: beside, does: "gateway-probe, which looks at the network"},
	}
	a := asker{c}
	c.ServedProxy, c.ServedLeases = haproxy.ServedProxy{Helper: a}, kea.ServedLeases{Helper: a}
	c.ServedBans, c.ServedRouter = crowdsec.ServedBans{Helper: a}, keepalived.ServedRouter{Helper: a}
	c.ServedDatabase = postgresql.ServedDatabase{Helper: a}
	return c
}

// connection is one to the helper, on which one verb runs at a time.
type connection struct {
	*socket
	in *cbor.Decoder
}

// connect takes a quiet connection, or makes one.
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
		_ = conn.Close() // the helper was started again
	}
	dialed, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s, does not run: %w", c.does, err)
	}
	s := &socket{UnixConn: dialed.(*net.UnixConn)}
	return &connection{socket: s, in: decoding.NewDecoder(bufio.NewReaderSize(s, readSize))}, nil
}

// startsWithin is how long a helper that has died may take to be there again.
const startsWithin = 3 * time.Second

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	for begun := time.Now(); ; talk.Pause(ctx, 5*time.Millisecond) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
		absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
		if !absent || ctx.Err() != nil || time.Since(begun) > startsWithin {
			return conn, err
		}
	}
}

// quiet tells whether a connection is alive and says nothing.
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

// Close ends the quiet connections.
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

// exchange asks for a verb, decodes its results into pointers, and returns how it failed. called reads the arguments of a callback
// and calls it; it is nil for verbs without one.
func (c *Client) exchange(ctx context.Context, verb string, args []any, called func(in *cbor.Decoder) error, results ...any) error {
	failed, err := c.try(ctx, verb, args, called, results)
	if err != nil && repeatable[verb] && ctx.Err() == nil {
		failed, err = c.try(ctx, verb, args, called, results) // the helper has died in the middle of it
	}
	switch {
	case err == nil:
		return failed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	program, _, _ := strings.Cut(c.does, ",")
	return fmt.Errorf("asking %s to %s: %w", program, verb, err)
}

// try is one attempt: failed is how the verb failed, and err how asking for it did.
func (c *Client) try(ctx context.Context, verb string, args []any, called func(in *cbor.Decoder) error, results []any) (failed, err error) {
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

// exchange is the conversation: failed is how the verb failed, and err how the conversation did.
func (c *connection) exchange(verb string, args []any, called func(in *cbor.Decoder) error, results []any) (failed, err error) {
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
				return nil, errors.New("it calls back where nothing is to be called")
			}
			if err := called(c.in); err != nil {
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

// asker is the helper as the daemons' folders know it.
type asker struct{ c *Client }

func (a asker) Ask(ctx context.Context, verb string, args []any, called func(decode func(any) error) error, results ...any) error {
	var read func(in *cbor.Decoder) error
	if called != nil {
		read = func(in *cbor.Decoder) error { return called(in.Decode) }
	}
	return a.c.exchange(ctx, verb, args, read, results...)
}

// ask asks for a verb with one result.
func ask[T any](ctx context.Context, c *Client, verb string, args ...any) (result T, err error) {
	err = c.exchange(ctx, verb, args, nil, &result)
	return result, err
}

// do asks for a verb without one.
func (c *Client) do(ctx context.Context, verb string, args ...any) error {
	return c.exchange(ctx, verb, args, nil)
}
