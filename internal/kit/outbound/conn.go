package outbound

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits bound a connection that may carry much data.
type Limits struct {
	// Internal allows connections to the machine itself and its links.
	Internal bool
	// Dial is how long the other side may take to accept the connection.
	Dial time.Duration
	// Stall is how long the connection may be idle in both directions.
	Stall time.Duration
	// Answer is the maximum number of bytes read; 0 for no limit.
	Answer int64
}

// Dial connects to a TCP address, for any protocol. The connection ends with the context.
func (d *Door) Dial(ctx context.Context, address string, l Limits) (net.Conn, error) {
	s, err := d.dial(ctx, address, l)
	if err != nil {
		return nil, err
	}
	s.release = context.AfterFunc(ctx, func() { _ = s.Conn.Close() })
	return s, nil
}

func (d *Door) dial(ctx context.Context, address string, l Limits) (*steady, error) {
	conn, err := d.dialer(l.Internal, l.Dial).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &steady{Conn: conn, Limits: l, release: func() bool { return false }}
	s.moved()
	return s, nil
}

// Transport is for HTTP requests and answers of any length. Unlike with Client, the URL alone decides about TLS.
func (d *Door) Transport(l Limits) *http.Transport {
	return &http.Transport{
		// Not bound to the context, which is that of the first request: others reuse the connection.
		DialContext:         func(ctx context.Context, _, address string) (net.Conn, error) { return d.dial(ctx, address, l) },
		TLSHandshakeTimeout: l.Dial, ResponseHeaderTimeout: l.Stall, MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: l.Stall,
		DisableCompression: true, TLSClientConfig: &tls.Config{RootCAs: d.roots},
	}
}

// steady is a connection that ends when it is idle, or when the other side sends too much.
type steady struct {
	net.Conn
	Limits
	release func() bool

	mu   sync.Mutex
	read int64
}

// moved restarts the timeout for both directions: no answer is expected while something is still being sent.
func (s *steady) moved() { _ = s.Conn.SetDeadline(time.Now().Add(s.Stall)) }

func (s *steady) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.moved()
		s.mu.Lock()
		s.read += int64(n)
		over := s.Answer > 0 && s.read > s.Answer
		s.mu.Unlock()
		if over {
			return 0, errTooLong
		}
	}
	return n, err
}

func (s *steady) Write(b []byte) (n int, err error) {
	// In pieces, so that a large write counts as activity before it is complete.
	for n < len(b) && err == nil {
		var written int
		written, err = s.Conn.Write(b[n:min(len(b), n+piece)])
		if n += written; written > 0 {
			s.moved()
		}
	}
	return n, err
}

const piece = 32 << 10

func (s *steady) Close() error {
	s.release()
	return s.Conn.Close()
}

func (s *steady) SetDeadline(time.Time) error      { return nil }
func (s *steady) SetReadDeadline(time.Time) error  { return nil }
func (s *steady) SetWriteDeadline(time.Time) error { return nil }
