package httpd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

// letGo is how long clients that have begun to connect may finish when a port is released. It is less than the second after which
// a client repeats an unanswered connection attempt.
const letGo = 500 * time.Millisecond

// Port is a TCP port that the gateway holds at times, and leaves to another program at others. Both may hold it at once, if the
// other program allows that, so that the port is always served. To a server it looks like one permanent listener.
type Port struct {
	host     host.Ports
	address  string
	accepted chan accepted
	closed   chan struct{}
	work     sync.WaitGroup

	mu   sync.Mutex
	held *net.TCPListener // nil while it is left to others
	ipv6 bool             // also held for IPv6
}

type accepted struct {
	conn net.Conn
	err  error
}

// NewPort returns a port that is not held yet.
func NewPort(h host.Ports, address string) *Port {
	return &Port{host: h, address: address, accepted: make(chan accepted), closed: make(chan struct{})}
}

// Hold starts to listen, unless it does already; also on IPv6 if ipv6 is set.
func (p *Port) Hold(ctx context.Context, ipv6 bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil && p.ipv6 == ipv6 || p.isClosed() {
		return nil
	}
	network := "tcp4"
	if ipv6 {
		network = "tcp"
	}
	file, err := p.host.Listen(ctx, network, p.address)
	if err != nil {
		return err
	}
	defer file.Close()
	l, err := net.FileListener(file)
	if err != nil {
		return err
	}
	was := p.held
	p.held, p.ipv6 = l.(*net.TCPListener), ipv6
	p.work.Go(func() { p.accept(l) })
	if was != nil {
		return p.leave(was)
	}
	return nil
}

// Release stops listening. Existing connections continue, and those being established are still served.
func (p *Port) Release() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.held
	if l == nil {
		return nil
	}
	p.held = nil
	return p.leave(l)
}

// leave closes a listener after its pending clients have connected.
func (p *Port) leave(l *net.TCPListener) error {
	// When a listener closes, the kernel resets connections that are being established. The listener therefore stops accepting
	// new clients first: these retry, and find the other listener.
	file, err := l.File()
	if err == nil {
		err = errors.Join(p.host.DrainListener(context.Background(), file), file.Close())
	}
	p.work.Go(func() {
		select {
		case <-p.closed:
		case <-time.After(letGo):
		}
		_ = l.Close()
	})
	if err != nil {
		return fmt.Errorf("releasing %s: %w", p.address, err)
	}
	return nil
}

// accept passes on connections until the listener is closed.
func (p *Port) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil && p.left(l) {
			return
		}
		select {
		case p.accepted <- accepted{conn, err}:
		case <-p.closed:
			if err == nil {
				conn.Close()
			}
			return
		}
	}
}

// left reports whether the listener was released, or closed with the port.
func (p *Port) left(l net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held != l || p.isClosed()
}

func (p *Port) Accept() (net.Conn, error) {
	select {
	case a := <-p.accepted:
		return a.conn, a.err
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *Port) Close() error {
	p.mu.Lock()
	defer p.work.Wait()
	defer p.mu.Unlock()
	if p.isClosed() {
		return nil
	}
	close(p.closed)
	if p.held == nil {
		return nil
	}
	return p.held.Close()
}

func (p *Port) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

func (p *Port) Addr() net.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		return p.held.Addr()
	}
	return portAddr(p.address)
}

// portAddr is the address of a port that is not held.
type portAddr string

func (portAddr) Network() string  { return "tcp" }
func (a portAddr) String() string { return string(a) }
