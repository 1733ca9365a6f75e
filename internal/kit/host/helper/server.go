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
	// messageLimit is the largest call of a verb: a file as large as the guard accepts, and some overhead.
	messageLimit = 65 << 20
	// Calls up to smallMessage are not limited in number; largeMessages is how many larger ones may run at once.
	smallMessage  = 1 << 20
	largeMessages = 4
	// connectionLimit is how many callers are served at once. Others wait until one hangs up.
	connectionLimit = 512
)

// Serve serves Client's verbs until the context ends, and then waits for those that run. It serves root and the user uid.
func Serve(ctx context.Context, l *net.UnixListener, m host.Machine, uid int, log *slog.Logger) error {
	return serve(ctx, l, uid, log, served, methods(m))
}

// ServeProbes does the same, but serves only probes.
func ServeProbes(ctx context.Context, l *net.UnixListener, p host.Probes, uid int, log *slog.Logger) error {
	return serve(ctx, l, uid, log, probes, methods(p))
}

// methods executes verbs by calling the methods of the same name.
func methods(of any) doer {
	v := reflect.ValueOf(of)
	return func(verb string, args []reflect.Value) []reflect.Value { return v.MethodByName(verb).Call(args) }
}

type doer func(verb string, args []reflect.Value) []reflect.Value

// serve serves these verbs, which do executes.
func serve(ctx context.Context, l *net.UnixListener, uid int, log *slog.Logger, verbs map[string]bool, do doer) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close() // otherwise the close above may remove the path when a successor already listens there
	slots, large := make(chan struct{}, connectionLimit), make(chan struct{}, largeMessages)
	for {
		select {
		case slots <- struct{}{}:
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
			log.Warn("rejected a caller", "err", err)
			_ = conn.Close()
			<-slots
			continue
		}
		serving.Go(func() {
			defer func() { _ = conn.Close(); <-slots }()
			if err := converse(ctx, conn, large, verbs, rescued(do, log)); err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
				log.Warn("serving a caller failed", "err", err)
			}
		})
	}
}

// permitted asks the kernel who the caller is.
func permitted(conn *net.UnixConn, uid int) error {
	peer, err := talk.Peer(conn)
	if err != nil {
		return err
	}
	if peer.Uid != 0 && int(peer.Uid) != uid {
		return fmt.Errorf("user %d (process %d) may not call the helper", peer.Uid, peer.Pid)
	}
	return nil
}

// converse runs one verb after another. While a verb runs the caller sends nothing, so anything readable then is its hang-up.
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

// bounded limits the size of calls. A large one waits for its turn before it is read further.
type bounded struct {
	from  io.Reader
	ended <-chan struct{} // closed when the helper stops
	large chan struct{}
	read  int64 // bytes of this message
	turn  bool  // whether it holds a turn in large
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

// end resets the limit after a verb, and gives back the turn.
func (b *bounded) end() {
	if b.turn {
		<-b.large
	}
	b.read, b.turn = 0, false
}

// rescued turns a panic into an error of the verb.
func rescued(do doer, log *slog.Logger) doer {
	return func(verb string, args []reflect.Value) (results []reflect.Value) {
		defer func() {
			reason := recover()
			if reason == nil {
				return
			}
			log.Error("a verb panicked", "verb", verb, "reason", reason, "stack", string(debug.Stack()))
			method, _ := machineType.MethodByName(verb)
			results = make([]reflect.Value, method.Type.NumOut())
			for i := range results {
				results[i] = reflect.New(method.Type.Out(i)).Elem()
				if method.Type.Out(i) == errorType {
					results[i].Set(reflect.ValueOf(fmt.Errorf("%s failed inside the helper: see its log", verb)))
				}
			}
		}()
		return do(verb, args)
	}
}

func verb(name string, verbs map[string]bool) (reflect.Method, error) {
	method, ok := machineType.MethodByName(name)
	if !ok || !verbs[name] {
		return method, fmt.Errorf("unknown verb %q", name)
	}
	return method, nil
}

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

// watch calls left if the caller hangs up. The function that it returns ends the watch, and reports whether the caller has hung up.
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

// Listen creates the helper's socket, which the group may use, or takes over the one that systemd passes. Calls that arrive while
// no helper runs wait in systemd's socket.
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
