package lab

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"

	"github.com/pires/go-proxyproto"
)

// forwarder forwards the UI's port on the machine to the API's socket inside the lab. It passes the client's address in a PROXY
// header and everything else unchanged, including TLS.
type forwarder struct {
	listener net.Listener
	socket   string

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
	work   sync.WaitGroup
}

func forward(l net.Listener, socket string) *forwarder {
	f := &forwarder{listener: l, socket: socket, open: map[net.Conn]struct{}{}}
	f.work.Go(f.accept)
	return f
}

// close ends all connections and returns when they are gone.
func (f *forwarder) close() {
	f.listener.Close()
	f.mu.Lock()
	f.closed = true
	for conn := range f.open {
		conn.Close()
	}
	f.mu.Unlock()
	f.work.Wait()
}

func (f *forwarder) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				slog.Error("the UI's forwarder ends", "err", err)
			}
			return
		}
		f.work.Go(func() {
			if err := f.carry(client); err != nil {
				slog.Debug("forwarding to the API", "err", err)
			}
		})
	}
}

func (f *forwarder) carry(client net.Conn) error {
	defer client.Close()
	api, err := net.Dial("unix", f.socket)
	if err != nil {
		return err
	}
	defer api.Close()
	if !f.hold(client, api) {
		return nil
	}
	defer f.release(client, api)
	header := proxyproto.HeaderProxyFromAddrs(2, client.RemoteAddr(), client.LocalAddr())
	if _, err := header.WriteTo(api); err != nil {
		return err
	}
	var ways sync.WaitGroup
	ways.Go(func() { pipe(api, client) })
	ways.Go(func() { pipe(client, api) })
	ways.Wait()
	return nil
}

// pipe copies in one direction, and propagates the end of the stream.
func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// hold registers connections that close must end; it returns false if close has been called.
func (f *forwarder) hold(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		f.open[c] = struct{}{}
	}
	return !f.closed
}

func (f *forwarder) release(conns ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		delete(f.open, c)
	}
}
