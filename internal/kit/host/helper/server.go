package helper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"reflect"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/fxamacker/cbor/v2"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/talk"
)

const (
	// messageLimit is how much one verb may send: a file as large as the guard admits, and a little.
	messageLimit = 65 << 20
	// smallMessage is how much any number of verbs may send; largeMessages is how many may send more at once.
	smallMessage  = 1 << 20
	largeMessages = 4
	// connectionLimit is how many callers are served at once. Others wait until one hangs up.
	connectionLimit = 512
)

// Serve answers Client on the listener until the context ends, and then waits for the verbs under way. It serves root and the user
// with the id.
func Serve(ctx context.Context, l *net.UnixListener, m host.Machine, uid int, log *slog.Logger) error {
	return serve(ctx, l, uid, log, served, methods(m))
}

// ServeProbes answers Client in the same way, but does nothing but look at the network.
func ServeProbes(ctx context.Context, l *net.UnixListener, p host.Probes, uid int, log *slog.Logger) error {
	return serve(ctx, l, uid, log, probes, methods(p))
}

// methods does verbs by the methods of the same names.
func methods(of any) doer {
	v := reflect.ValueOf(of)
	return func(verb string, args []reflect.Value) []reflect.Value { return v.MethodByName(verb).Call(args) }
}

type doer func(verb string, args []reflect.Value) []reflect.Value

// serve serves some verbs, which are done by a function.
func serve(ctx context.Context, l *net.UnixListener, uid int, log *slog.Logger, verbs map[string]bool, do doer) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close() // or it may still be about to remove its path, which the next one has by then
	places, large := make(chan struct{}, connectionLimit), make(chan struct{}, largeMessages)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := l.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accepting on the helper's socket: %w", err)
		}
		if err := permitted(conn, uid); err != nil {
			log.Warn("a caller was turned away", "err", err)
			_ = conn.Close()
			<-places
			continue
		}
		serving.Go(func() {
			defer func() { _ = conn.Close(); <-places }()
			if err := converse(ctx, conn, large, verbs, rescued(do, log)); err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
				log.Warn("serving a caller", "err", err)
			}
		})
	}
}

// permitted asks the kernel who is at the other end.
func permitted(conn *net.UnixConn, uid int) error {
	peer, err := talk.Peer(conn)
	if err != nil {
		return err
	}
	if peer.Uid != 0 && int(peer.Uid) != uid {
		return fmt.Errorf("user %d, process %d, may not ask for anything", peer.Uid, peer.Pid)
	}
	return nil
}

// converse does one verb after the other. Between two of them the connection is quiet; while one runs, the caller says nothing, so
// that what can be read then is that it has gone.
func converse(ctx context.Context, conn *net.UnixConn, large chan struct{}, verbs map[string]bool, do doer) error {
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	s := &socket{UnixConn: conn}
	message := &bounded{from: bufio.NewReaderSize(s, readSize), ended: ctx.Done(), large: large}
	defer message.end()
	in := decoding.NewDecoder(message)
	for {
		message.end()
		var c call
		if err := in.Decode(&c); err != nil {
			return err
		}
		method, err := verb(c.Verb, verbs)
		if err != nil {
			return err
		}
		err = run(ctx, s, in, method, do)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.Verb, err)
		}
	}
}

// bounded reads messages. One that is large waits for its turn before more of it is read.
type bounded struct {
	from  io.Reader
	ended <-chan struct{} // the helper does
	large chan struct{}
	read  int64 // of this message
	turn  bool  // is one of large
}

func (b *bounded) Read(p []byte) (int, error) {
	switch {
	case b.read >= messageLimit:
		return 0, fmt.Errorf("a message is longer than %d MiB", messageLimit>>20)
	case b.read >= smallMessage && !b.turn:
		select {
		case b.large <- struct{}{}:
			b.turn = true
		case <-b.ended:
			return 0, context.Canceled
		}
	}
	n, err := b.from.Read(p[:min(int64(len(p)), messageLimit-b.read)])
	b.read += int64(n)
	return n, err
}

// end is the end of a message, with what was done about it.
func (b *bounded) end() {
	if b.turn {
		<-b.large
	}
	b.read, b.turn = 0, false
}

// rescued is a doer whose panics are errors of the verb: the others go on.
func rescued(do doer, log *slog.Logger) doer {
	return func(verb string, args []reflect.Value) (results []reflect.Value) {
		defer func() {
			reason := recover()
			if reason == nil {
				return
			}
			log.Error("a verb has failed", "verb", verb, "reason", reason, "stack", string(debug.Stack()))
			method, _ := machineType.MethodByName(verb)
			results = make([]reflect.Value, method.Type.NumOut())
			for i := range results {
				results[i] = reflect.New(method.Type.Out(i)).Elem()
				if method.Type.Out(i) == errorType {
					results[i].Set(reflect.ValueOf(fmt.Errorf("%s has failed within the helper, see its log", verb)))
				}
			}
		}()
		return do(verb, args)
	}
}

// verb finds a verb that is served.
func verb(name string, verbs map[string]bool) (reflect.Method, error) {
	method, ok := machineType.MethodByName(name)
	if !ok || !verbs[name] {
		return method, fmt.Errorf("there is no verb %q", name)
	}
	return method, nil
}

// run reads the arguments of a verb, does it, and sends what comes of it.
func run(ctx context.Context, s *socket, in *cbor.Decoder, method reflect.Method, do doer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sending error
	args := make([]reflect.Value, method.Type.NumIn())
	for i := range args {
		switch t := method.Type.In(i); {
		case t == contextType:
			args[i] = reflect.ValueOf(ctx)
		case t == fileType:
			file := s.take()
			defer file.Close()
			args[i] = reflect.ValueOf(file)
		case t.Kind() == reflect.Func:
			args[i] = reflect.MakeFunc(t, func(values []reflect.Value) []reflect.Value {
				if sending = errors.Join(sending, s.send(frame{Call: true}, interfaces(values))); sending != nil {
					cancel()
				}
				return nil
			})
		default:
			v := reflect.New(t)
			if err := in.Decode(v.Interface()); err != nil {
				return err
			}
			args[i] = v.Elem()
		}
	}
	gone := watch(s.UnixConn, cancel)
	results := do(method.Name, args)
	if gone() {
		return io.EOF
	}
	last := len(results) - 1
	var failed error
	if last >= 0 && method.Type.Out(last) == errorType {
		failed, _ = results[last].Interface().(error)
		results = results[:last]
	}
	for _, r := range results {
		if file, ok := r.Interface().(*os.File); ok {
			defer file.Close()
		}
	}
	return errors.Join(sending, s.send(frame{Failure: pack(failed)}, interfaces(results)))
}

func interfaces(values []reflect.Value) []any {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v.Interface()
	}
	return list
}

// watch calls left when the caller hangs up. What it returns ends the watch, and tells whether the caller is gone.
func watch(conn *net.UnixConn, left func()) (gone func() bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return func() bool { return true }
	}
	hungUp, done := false, make(chan struct{})
	go func() {
		defer close(done)
		_ = raw.Read(func(fd uintptr) bool {
			n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
			if errors.Is(err, unix.EAGAIN) {
				return false
			}
			hungUp = n == 0 || err != nil
			if hungUp {
				left()
			}
			return true
		})
	}()
	return func() bool {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		<-done
		return hungUp || conn.SetReadDeadline(time.Time{}) != nil
	}
}

// Listen makes the helper's socket, which the group may use, or takes the one that systemd has made: a question that came while
// there was no helper waits in it.
func Listen(path string, gid int) (*net.UnixListener, error) {
	made, err := activation.Listeners()
	if err != nil {
		return nil, err
	}
	if len(made) > 0 {
		l, ok := made[0].(*net.UnixListener)
		if !ok || len(made) > 1 {
			return nil, fmt.Errorf("systemd passes %d sockets, of which the first is a %T: want one unix socket", len(made), made[0])
		}
		return l, nil
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Chown(path, 0, gid), os.Chmod(path, 0o660)); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
