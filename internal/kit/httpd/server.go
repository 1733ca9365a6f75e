package httpd

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"
	"golang.org/x/sync/errgroup"
)

// Server serves one handler on several listeners.
type Server struct {
	Handler http.Handler
	Log     *slog.Logger
	// Local marks the control socket of the machine's root, whose callers need no session.
	Local bool
}

// Serve serves until ctx ends, and then waits for requests in flight.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	// Streams end with this context, so that they do not delay the shutdown.
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	if s.Local {
		streams = local(streams)
	}
	server := &http.Server{
		Handler:           unhurried(s.Handler, takeWithin),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return streams },
		ConnContext:       Arrived,
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		group.Go(func() error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serving %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		endStreams()
		stopping, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		return server.Shutdown(stopping)
	})
	return group.Wait()
}

const (
	// takeWithin is how long a reader may take for one piece of an answer. The whole answer may take as long as necessary: some
	// are long, and some readers are slow.
	takeWithin = 30 * time.Second
	pieceSize  = 64 << 10
)

// unhurried serves slow readers, but not those that stop reading.
func unhurried(h http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&pieces{w, http.NewResponseController(w), within}, r)
	})
}

// pieces writes an answer in pieces, each with its own deadline.
type pieces struct {
	http.ResponseWriter
	control *http.ResponseController
	within  time.Duration
}

func (w *pieces) WriteHeader(code int) {
	w.begin()
	w.ResponseWriter.WriteHeader(code)
}

func (w *pieces) Write(b []byte) (n int, err error) {
	for {
		w.begin()
		piece := b[n:min(len(b), n+pieceSize)]
		written, err := w.ResponseWriter.Write(piece)
		if n += written; err != nil || n == len(b) {
			return n, err
		}
	}
}

func (w *pieces) begin() { _ = w.control.SetWriteDeadline(time.Now().Add(w.within)) }

// Unwrap lets a WebSocket reach the connection.
func (w *pieces) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// SocketClient returns a client for plain HTTP to a server behind a unix socket. The host in its URLs is ignored.
func SocketClient(path string, within time.Duration) *http.Client {
	return &http.Client{Timeout: within, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
}

// ListenUnix listens on a unix socket, replacing one that an earlier run left, and creates its folder if necessary. If the group
// exists, it becomes the socket's group.
func ListenUnix(path string, mode os.FileMode, group string) (net.Listener, error) {
	if err := vacate(path); err != nil {
		return nil, err
	}
	l, err := bindUnix(path, mode)
	if err != nil {
		return nil, err
	}
	return l, errors.Join(give(path, group), os.Chmod(path, mode))
}

// ListenDatagrams is ListenUnix for datagrams.
func ListenDatagrams(path string, mode os.FileMode, group string) (net.PacketConn, error) {
	if err := vacate(path); err != nil {
		return nil, err
	}
	narrow := narrowed(mode)
	l, err := narrow.ListenPacket(context.Background(), "unixgram", path)
	if err != nil {
		return nil, err
	}
	return l, errors.Join(give(path, group), os.Chmod(path, mode))
}

// vacate creates the socket's folder, and removes an old socket.
func vacate(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// bindUnix creates a unix socket that never has wider permissions than mode.
func bindUnix(path string, mode os.FileMode) (net.Listener, error) {
	narrow := narrowed(mode)
	return narrow.Listen(context.Background(), "unix", path)
}

// narrowed creates unix sockets with a mode, whatever the umask: the file gets the mode that the socket has when it is bound.
func narrowed(mode os.FileMode) net.ListenConfig {
	return net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), uint32(mode.Perm())) })
		return errors.Join(err, failed)
	}}
}

func give(path, group string) error {
	g, err := user.LookupGroup(group)
	if err != nil {
		return nil // the group comes with the daemon's package, without which it is not needed
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return err
	}
	if err := os.Chown(path, -1, gid); os.Geteuid() == 0 || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil // a user who is not in the group runs no HAProxy of that group either
}

// ListenProxied listens on a unix socket whose clients send the address of their own client in a PROXY header. TLS or plain HTTP
// follows: a forwarder passes the browser's TLS through, while HAProxy terminates it.
func ListenProxied(path string, mode os.FileMode, group string, cfg *tls.Config) (net.Listener, error) {
	l, err := ListenUnix(path, mode, group)
	if err != nil {
		return nil, err
	}
	proxied := &proxyproto.Listener{Listener: l, ReadHeaderTimeout: 5 * time.Second, ConnPolicy: func(proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
		return proxyproto.REQUIRE, nil
	}}
	return sniffer{proxied, cfg}, nil
}

// sniffer wraps connections that may start with TLS.
type sniffer struct {
	net.Listener
	cfg *tls.Config
}

func (s sniffer) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &sniffed{Conn: conn, cfg: s.cfg}, nil
}

// sniffed inspects the first byte on the first read, so that a silent client does not block the listener.
type sniffed struct {
	net.Conn
	cfg    *tls.Config
	inner  net.Conn
	failed error
}

const tlsHandshake = 0x16

func (c *sniffed) Read(p []byte) (int, error) {
	if c.inner == nil && c.failed == nil {
		r := bufio.NewReaderSize(c.Conn, 4096)
		first, err := r.Peek(1)
		if err != nil {
			c.failed = err
			return 0, err
		}
		c.inner = peeked{c.Conn, r}
		if first[0] == tlsHandshake {
			c.inner = tls.Server(c.inner, c.cfg)
		}
	}
	if c.failed != nil {
		return 0, c.failed
	}
	return c.inner.Read(p)
}

// encrypted reports whether the client uses TLS. That is known only after the first read.
func (c *sniffed) encrypted() bool {
	_, is := c.inner.(*tls.Conn)
	return is
}

func (c *sniffed) Write(p []byte) (int, error) {
	if c.inner == nil {
		return c.Conn.Write(p)
	}
	return c.inner.Write(p)
}

func (c *sniffed) Close() error {
	if c.inner == nil {
		return c.Conn.Close()
	}
	return c.inner.Close()
}

type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.r.Read(b) }
