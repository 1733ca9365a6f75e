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
	// Local serves the machine's root: its callers need no session.
	Local bool
}

// Serve serves until the context ends, and then lets requests in flight finish.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	// Streams end when this context does, so that they do not hold up the stop.
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
	// takeWithin is how long a reader may take for one piece of an answer before it is given up. A whole answer may take as
	// long as it does: some are long, and some readers slow.
	takeWithin = 30 * time.Second
	pieceSize  = 64 << 10
)

// unhurried serves readers who take their time, but not those who take nothing.
func unhurried(h http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&pieces{w, http.NewResponseController(w), within}, r)
	})
}

// pieces writes an answer in pieces, each of which has a deadline of its own.
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

// SocketClient speaks plain HTTP to a server behind a unix socket. The host of its URLs does not matter.
func SocketClient(path string, within time.Duration) *http.Client {
	return &http.Client{Timeout: within, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
}

// ListenUnix listens on a unix socket that replaces what an earlier run left. The folder is made when it is missing. The socket is
// given to the group, if one is named and the machine has it.
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

// ListenDatagrams is ListenUnix for single messages.
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

// vacate makes room for a socket.
func vacate(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// bindUnix makes a unix socket that at no moment is open to more than the mode says.
func bindUnix(path string, mode os.FileMode) (net.Listener, error) {
	narrow := narrowed(mode)
	return narrow.Listen(context.Background(), "unix", path)
}

// narrowed makes unix sockets with a mode, whatever the umask is: the file gets the mode that the socket has when it is bound.
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
		return nil // the group comes with the daemon's package: not there, not needed
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return err
	}
	if err := os.Chown(path, -1, gid); os.Geteuid() == 0 || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil // a user who is not a member runs no HAProxy of that group either
}

// ListenProxied listens on a unix socket whose clients say in a PROXY header for whom they speak. What follows is TLS
// or plain HTTP: a forwarder passes the browser's TLS through, HAProxy has ended it already.
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

// sniffer wraps connections that begin with a TLS record.
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

// sniffed looks at the first byte when the server first reads, so that a silent client does not hold up the listener.
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

// encrypted tells whether the client speaks TLS. It is known once something was read.
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
