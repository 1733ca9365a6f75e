// Package spoe is the agent's side of HAProxy's Stream Processing Offload Protocol, version 2.0: it receives notifications and answers
// with variables to set. Every local user can reach its port, so it checks every length against the available bytes, only holds memory
// for bytes that have arrived, and ends only the connection that violates the protocol.
package spoe

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"edge.internal/gateway/internal/kit/rescue"
)

// Server answers HAProxy.
type Server struct {
	// Handler answers one notification. It is called concurrently, in any order. The context ends with the connection, after which the
	// answer is not needed. If a handler panics, nothing is set.
	Handler func(ctx context.Context, n *Notify, a *Answer)
	// Quick answers a notification if that takes next to no time, and reports whether it has; it may be nil. What it does not answer goes
	// to the Handler. Only one call runs per connection, and the next notification waits for it.
	Quick func(n *Notify, a *Answer) bool
	Log   *slog.Logger
	// Admit reports whether a connection is one of HAProxy's, before anything is read from it; nil admits all. It is called concurrently.
	Admit func(c net.Conn) bool

	// MaxFrame is the maximum size of a frame; 131064 if it is 0.
	MaxFrame int
	// MaxConns is the maximum number of connections; 1024 if it is 0. Further ones are closed at once.
	MaxConns int
	// MaxPending is the maximum number of notifications in handlers; 512 if it is 0. One connection can use a quarter of them. Further
	// ones are acknowledged at once, with nothing set.
	MaxPending int
	// Hello limits the time until a connection has said hello, Frame the time for the rest of a frame that has begun, and Write how long
	// HAProxy may take to read; 5 s if they are 0.
	Hello, Frame, Write time.Duration
	// Idle is how long a connection may be silent; 2 min if it is 0. It must be longer than HAProxy's own `timeout idle`, or a
	// notification may meet a connection that is just being closed.
	Idle time.Duration
	// Grace is how long running handlers may continue when the server ends, before their contexts do; 2 s if it is 0.
	Grace time.Duration

	pending atomic.Int64
	spare   sync.Pool // of *exchange
	warned  struct {
		sync.Mutex
		last       time.Time
		suppressed int
	}
}

func (s *Server) maxFrame() int        { return max(minFrame, cmp.Or(s.MaxFrame, 131064)) }
func (s *Server) maxConns() int        { return cmp.Or(s.MaxConns, 1024) }
func (s *Server) maxPending() int      { return cmp.Or(s.MaxPending, 512) }
func (s *Server) hello() time.Duration { return cmp.Or(s.Hello, 5*time.Second) }
func (s *Server) frame() time.Duration { return cmp.Or(s.Frame, 5*time.Second) }
func (s *Server) write() time.Duration { return cmp.Or(s.Write, 5*time.Second) }
func (s *Server) idle() time.Duration  { return cmp.Or(s.Idle, 2*time.Minute) }
func (s *Server) grace() time.Duration { return cmp.Or(s.Grace, 2*time.Second) }

const (
	// acceptPause is the pause after a temporary error, such as too many open files.
	acceptPause = 50 * time.Millisecond
	// warnEvery limits how often a peer's errors are logged: a local user who reaches the port must not fill the disk.
	warnEvery = time.Second
	// lingering is how long HAProxy may take to read the last frame of a connection.
	lingering = time.Second
	// readBuffer holds the frames of small requests; the rest of a larger one is read directly into place.
	readBuffer = 8 << 10
	// maxUnread is how many bytes of answers a connection may leave unread. HAProxy has at most twenty outstanding.
	maxUnread = 1 << 20
)

// Serve answers on a listener until the context ends, and closes it. It then accepts no more notifications, sends the remaining answers,
// and returns.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	var conns sync.WaitGroup
	defer conns.Wait()
	free := make(chan struct{}, s.maxConns())
	for {
		nc, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				nc.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			s.warn("accepting", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		select {
		case free <- struct{}{}:
			conns.Go(func() {
				defer func() { <-free }()
				var err error
				defer rescue.Into(&err, s.Log, "waf")
				if s.Admit != nil && !s.Admit(nc) {
					s.warn("a connection that is not HAProxy's is refused", "peer", nc.RemoteAddr().String())
					nc.Close()
					return
				}
				s.serve(ctx, nc)
			})
		default:
			s.warn("too many connections", "limit", cap(free))
			nc.Close()
		}
	}
}

// warn logs what a peer did, at most once per warnEvery.
func (s *Server) warn(what string, args ...any) {
	s.warned.Lock()
	defer s.warned.Unlock()
	if now := time.Now(); now.Sub(s.warned.last) >= warnEvery {
		s.Log.Warn("spoe: "+what, append(args, "more", s.warned.suppressed)...)
		s.warned.last, s.warned.suppressed = now, 0
		return
	}
	s.warned.suppressed++
}

// conn is one connection of HAProxy's.
type conn struct {
	s    *Server
	net  net.Conn
	r    *bufio.Reader
	size int // the agreed maximum size of a frame

	ctx     context.Context // of the handlers, which live as long as the connection
	cancel  context.CancelFunc
	running sync.WaitGroup // exchanges, and so everything that still writes

	mu      sync.Mutex
	pending int  // exchanges
	ending  bool // no more notifications are read once none is pending
	cut     bool // no more notifications are read
	midway  bool // a frame has begun to arrive
	out     []byte
	writing bool   // an exchange is writing, and will write what is put into out
	written []byte // what it writes; reused for the next out
	deaf    bool   // HAProxy does not read, or is gone
}

var (
	errEnded        = errors.New("the server ends")
	errDisconnected = errors.New("HAProxy disconnected")
	errChecked      = errors.New("HAProxy only looked")
)

func (s *Server) serve(ctx context.Context, nc net.Conn) {
	defer nc.Close()
	c := &conn{s: s, net: nc, r: bufio.NewReaderSize(nc, readBuffer)}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer c.cancel()
	defer context.AfterFunc(ctx, c.end)()

	err := c.read()
	if !errors.Is(err, errEnded) {
		c.cancel()
	}
	c.running.Wait()

	var b *breach
	switch {
	case errors.As(err, &b):
		s.warn("connection closed", "peer", nc.RemoteAddr().String(), "err", err)
		c.send(agentDisconnect(b.status, b.why))
	case errors.Is(err, errEnded), errors.Is(err, errDisconnected):
		c.send(agentDisconnect(statusNormal, "normal"))
	case errors.Is(err, errChecked):
	default:
		return
	}
	// Closing with unread input would reset the connection, and HAProxy could lose the last answers.
	if tcp, ok := nc.(interface{ CloseWrite() error }); ok && tcp.CloseWrite() == nil {
		_ = nc.SetReadDeadline(time.Now().Add(lingering))
		_, _ = io.CopyN(io.Discard, nc, maxUnread)
	}
}

// end lets the connection end when nothing is pending, and soon in any case.
func (c *conn) end() {
	c.mu.Lock()
	c.ending = true
	c.wake()
	c.mu.Unlock()
	time.AfterFunc(c.s.grace(), func() {
		c.mu.Lock()
		c.cut = true
		c.wake()
		c.mu.Unlock()
		c.cancel()
	})
}

// wake interrupts the wait for the next notification if it is no longer wanted. One that has begun to arrive is still read. The caller
// holds the lock.
func (c *conn) wake() {
	if !c.midway && c.over() {
		_ = c.net.SetReadDeadline(time.Unix(1, 0))
	}
}

// over reports whether no further notification is wanted. The caller holds the lock.
func (c *conn) over() bool { return c.cut || c.ending && c.pending == 0 }

// read reads frames until the connection ends, and returns why.
func (c *conn) read() error {
	x := c.s.exchange()
	if err := c.frame(x, c.s.hello(), helloFrame); err != nil {
		return err
	}
	h, err := parseHello(x.buf)
	if err != nil {
		return err
	}
	c.size = int(min(h.size, uint64(c.s.maxFrame())))
	c.send(agentHello(uint64(c.size), h.pipelining))
	if h.check {
		return errChecked
	}
	held := false // an answer is to be sent with the next one
	for {
		if err := c.frame(x, c.s.idle(), c.size); err != nil {
			return err
		}
		f, err := parseFrame(x.buf)
		if err != nil {
			return err
		}
		switch f.kind {
		case frameNotify:
			if x.n, err = parseNotify(f); err != nil {
				return err
			}
			x.n.Received = time.Now()
			x.a.begin(f.stream, f.frame)
			if c.s.quick(x) {
				// Quick answers to notifications that arrived together are sent together.
				held = c.another()
				c.put(x.a.end(), !held)
				continue
			}
			if held {
				held = false
				c.send(nil)
			}
			if !c.take() {
				c.s.warn("too many notifications", "peer", c.net.RemoteAddr().String())
				c.send(x.a.end())
				continue
			}
			x.c = c
			go x.answer()
			x = c.s.exchange()
		case frameDisconnect:
			return errDisconnected
		default:
			return &breach{statusInvalid, "a frame of this type has no place here"}
		}
	}
}

// next waits for the beginning of a frame.
func (c *conn) next(wait time.Duration) error {
	here := c.r.Buffered() > 0
	c.mu.Lock()
	c.midway = here
	over := c.cut || !here && c.over()
	if !over && !here {
		_ = c.net.SetReadDeadline(time.Now().Add(wait))
	}
	c.mu.Unlock()
	if over {
		return errEnded
	}
	if here {
		return nil
	}
	_, err := c.r.Peek(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.midway = true
		return nil
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case c.over():
		return errEnded
	}
	return &breach{statusTimeout, "silent for too long"}
}

// frame reads one frame. It waits for the beginning; the rest must follow soon.
func (c *conn) frame(x *exchange, wait time.Duration, most int) error {
	if err := c.next(wait); err != nil {
		return err
	}
	rest := false // whether the time for the rest is running
	hurry := func(n int) {
		if !rest && c.r.Buffered() < n {
			rest = true
			_ = c.net.SetReadDeadline(time.Now().Add(c.s.frame()))
		}
	}
	hurry(lengthSize)
	head, err := c.r.Peek(lengthSize)
	if err != nil {
		return half(err)
	}
	length := binary.BigEndian.Uint32(head)
	if uint64(length) > uint64(most) {
		return &breach{statusTooBig, "a frame is longer than agreed"}
	}
	_, _ = c.r.Discard(lengthSize)
	n := int(length)
	hurry(n)
	// The buffer grows with the received data: a length alone costs nothing.
	for x.buf = x.buf[:0]; len(x.buf) < n; {
		if len(x.buf) == cap(x.buf) {
			grown := make([]byte, len(x.buf), min(c.s.maxFrame(), max(2*cap(x.buf), readBuffer)))
			copy(grown, x.buf)
			x.buf = grown
		}
		got, err := c.r.Read(x.buf[len(x.buf):min(n, cap(x.buf))])
		x.buf = x.buf[:len(x.buf)+got]
		if err != nil {
			return half(err)
		}
	}
	return nil
}

// half explains why the rest of a frame could not be read.
func half(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &breach{statusTimeout, "half a frame"}
	}
	return err
}

// take counts a notification as pending, if there is room for it.
func (c *conn) take() bool {
	limit := c.s.maxPending()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending >= max(1, limit/4) {
		return false
	}
	if c.s.pending.Add(1) > int64(limit) {
		c.s.pending.Add(-1)
		return false
	}
	c.pending++
	c.running.Add(1)
	return true
}

// done ends what take began.
func (c *conn) done() {
	c.s.pending.Add(-1)
	c.mu.Lock()
	c.pending--
	c.wake()
	c.mu.Unlock()
	c.running.Done()
}

// another reports whether another complete frame has arrived.
func (c *conn) another() bool {
	here := c.r.Buffered() - lengthSize
	if here < 0 {
		return false
	}
	head, err := c.r.Peek(lengthSize)
	return err == nil && uint64(binary.BigEndian.Uint32(head)) <= uint64(here)
}

// send writes a frame, or leaves it to an exchange that is writing, so that simultaneous answers are sent together.
func (c *conn) send(frame []byte) { c.put(frame, true) }

// put is send, or leaves the frame for the next one that is sent.
func (c *conn) put(frame []byte, now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deaf {
		return
	}
	c.out = append(c.out, frame...)
	if !now {
		return
	}
	if c.writing {
		if len(c.out) > maxUnread {
			c.hangUp()
		}
		return
	}
	c.writing = true
	for len(c.out) > 0 && !c.deaf {
		c.out, c.written = c.written[:0], c.out
		c.mu.Unlock()
		_ = c.net.SetWriteDeadline(time.Now().Add(c.s.write()))
		_, err := c.net.Write(c.written)
		c.mu.Lock()
		if err != nil {
			c.hangUp()
		}
	}
	c.writing = false
}

// hangUp gives up on a peer that does not read. The caller holds the lock.
func (c *conn) hangUp() {
	c.deaf = true
	c.out = nil
	c.cancel()
	c.net.Close()
}

// exchange is a notification and its answer, with their memory.
type exchange struct {
	c   *conn
	buf []byte
	n   Notify
	a   Answer
}

func (s *Server) exchange() *exchange {
	if x, ok := s.spare.Get().(*exchange); ok {
		return x
	}
	return &exchange{}
}

// answer runs the handler and sends its answer.
func (x *exchange) answer() {
	c := x.c
	defer c.done()
	err := x.handle()
	if err != nil {
		x.a.Clear()
	}
	frame := x.a.end()
	if len(frame)-lengthSize > c.size {
		c.s.Log.Error("spoe: an answer is longer than a frame", "bytes", len(frame))
		x.a.Clear()
		frame = x.a.end()
	}
	c.send(frame)
	// A handler that failed may still share the memory.
	if err == nil {
		x.c = nil
		c.s.spare.Put(x)
	}
}

// quick reports whether there is a quick answer. If not, nothing is set.
func (s *Server) quick(x *exchange) (done bool) {
	if s.Quick == nil {
		return false
	}
	err := func() (err error) {
		defer rescue.Into(&err, s.Log, "waf")
		done = s.Quick(&x.n, &x.a)
		return nil
	}()
	if done = done && err == nil; !done {
		x.a.Clear()
	}
	return done
}

func (x *exchange) handle() (err error) {
	defer rescue.Into(&err, x.c.s.Log, "waf")
	x.c.s.Handler(x.c.ctx, &x.n, &x.a)
	return nil
}
