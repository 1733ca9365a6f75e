package helper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/hosttest"
	"edge.internal/gateway/internal/kit/waittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// started runs a helper that executes verbs with do, and returns a client of it.
func started(t *testing.T, do doer) (c *Client, socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := Listen(socket, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, 0, slog.New(slog.DiscardHandler), served, do) }()
	c = New(hosttest.New(), socket)
	t.Cleanup(func() {
		c.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c, socket
}

// sample returns a random value of a type. Zero values, empty and large ones are frequent, because encodings lose those.
func sample(r *rand.Rand, t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t {
	case reflect.TypeFor[time.Time]():
		if r.IntN(2) == 0 {
			v.Set(reflect.ValueOf(time.Unix(r.Int64N(1<<33), r.Int64N(1e9)).UTC()))
		}
		return v
	case reflect.TypeFor[netip.Addr]():
		v.Set(reflect.ValueOf([]netip.Addr{{}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fe80::1%lan0"), netip.MustParseAddr("::ffff:192.0.2.1")}[r.IntN(4)]))
		return v
	case reflect.TypeFor[netip.Prefix]():
		v.Set(reflect.ValueOf([]netip.Prefix{{}, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("10.1.2.3/24"), netip.MustParsePrefix("2001:db8::1/64")}[r.IntN(4)]))
		return v
	case reflect.TypeFor[netip.AddrPort]():
		v.Set(reflect.ValueOf([]netip.AddrPort{{}, netip.MustParseAddrPort("192.0.2.1:0"), netip.MustParseAddrPort("[2001:db8::1]:51820")}[r.IntN(3)]))
		return v
	}
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt([]int64{0, 1, -1, r.Int64N(1 << 31)}[r.IntN(4)])
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		v.SetUint(r.Uint64N(256))
	case reflect.Float64:
		v.SetFloat(r.Float64())
	case reflect.String:
		v.SetString([]string{"", "x", "a\x00b\n\"'", "Ünïcode"}[r.IntN(4)])
	case reflect.Pointer:
		if r.IntN(3) > 0 {
			v.Set(reflect.New(t.Elem()))
			v.Elem().Set(sample(r, t.Elem()))
		}
	case reflect.Slice:
		if n := []int{-1, 0, 1, 3}[r.IntN(4)]; n >= 0 {
			v.Set(reflect.MakeSlice(t, n, n))
			for i := range n {
				v.Index(i).Set(sample(r, t.Elem()))
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		for range r.IntN(3) {
			v.SetMapIndex(sample(r, t.Key()), sample(r, t.Elem()))
		}
	case reflect.Array:
		for i := range t.Len() {
			v.Index(i).Set(sample(r, t.Elem()))
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).Tag.Get("cbor") != "-" {
				v.Field(i).Set(sample(r, t.Field(i).Type))
			}
		}
	default:
		panic("no sample of " + t.String())
	}
	return v
}

var compare = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), cmpopts.IgnoreFields(host.File{}, "Redact", "Parts"), cmpopts.EquateEmpty(),
}

// Arguments and results of every served verb cross the socket unchanged.
func TestEveryVerbArrives(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	var verb string
	var got, give []reflect.Value
	c, _ := started(t, func(name string, args []reflect.Value) []reflect.Value {
		mu.Lock()
		defer mu.Unlock()
		verb, got = name, args
		return give
	})
	for i := range machineType.NumMethod() {
		method := machineType.Method(i)
		if !served[method.Name] || method.Name == "Listen" || method.Name == "DrainListener" { // see TestDescriptors
			continue
		}
		for range 200 {
			var want []reflect.Value
			for n := range method.Type.NumIn() {
				switch in := method.Type.In(n); {
				case in == contextType:
					want = append(want, reflect.ValueOf(t.Context()))
				case in.Kind() == reflect.Func:
					want = append(want, reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value { return nil }))
				default:
					want = append(want, sample(r, in))
				}
			}
			mu.Lock()
			give = nil
			for n := range method.Type.NumOut() {
				if out := method.Type.Out(n); out == errorType {
					give = append(give, reflect.Zero(errorType))
				} else {
					give = append(give, sample(r, out))
				}
			}
			mu.Unlock()
			results := reflect.ValueOf(c).MethodByName(method.Name).Call(want)
			if verb != method.Name {
				t.Fatalf("%s arrived as %s", method.Name, verb)
			}
			for n, w := range want {
				if in := method.Type.In(n); in == contextType || in.Kind() == reflect.Func {
					continue
				}
				if diff := cmp.Diff(w.Interface(), got[n].Interface(), compare); diff != "" {
					t.Fatalf("%s, argument %d:\n%s", method.Name, n, diff)
				}
			}
			for n, g := range give {
				if diff := cmp.Diff(g.Interface(), results[n].Interface(), compare); diff != "" {
					t.Fatalf("%s, result %d:\n%s", method.Name, n, diff)
				}
			}
		}
	}
}

// An error keeps its text, and stays what errors.Is and errors.As found in it.
func TestErrorsStayWhatTheyAre(t *testing.T) {
	var fails error
	c, _ := started(t, func(string, []reflect.Value) []reflect.Value { return []reflect.Value{reflect.ValueOf(&fails).Elem()} })
	exit := &host.ExitError{Command: chrony.Check, Output: host.Output{Stderr: "bad line 3", ExitCode: 1}}
	for _, want := range []error{
		host.ErrNotInstalled, host.ErrNotRunning, fs.ErrNotExist, unix.ENOSPC, unix.EEXIST, context.DeadlineExceeded,
		&fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES},
	} {
		fails = fmt.Errorf("doing it: %w", want)
		err := c.Start(t.Context(), chrony.Unit)
		if err == nil || err.Error() != fails.Error() {
			t.Errorf("%v became %v", fails, err)
		}
		for _, k := range append(known, unix.ENOSPC, unix.EEXIST, unix.EACCES) {
			if errors.Is(err, k) != errors.Is(fails, k) {
				t.Errorf("%v is %v: %t", err, k, errors.Is(err, k))
			}
		}
	}
	fails = fmt.Errorf("checking: %w", exit)
	got, ok := errors.AsType[*host.ExitError](c.Start(t.Context(), chrony.Unit))
	if diff := cmp.Diff(exit, got); !ok || diff != "" {
		t.Error(diff)
	}
	fails = &haproxy.ReloadRefused{Log: "[ALERT] (1) : no"}
	if err, ok := errors.AsType[*haproxy.ReloadRefused](c.Start(t.Context(), chrony.Unit)); !ok || err.Error() != fails.Error() {
		t.Errorf("%v", err)
	}
	fails = &kea.Refused{Command: kea.Reload, Text: "no"}
	if err, ok := errors.AsType[*kea.Refused](c.Start(t.Context(), chrony.Unit)); !ok || err.Error() != fails.Error() {
		t.Errorf("%v", err)
	}
	fails = nil
	if err := c.Start(t.Context(), chrony.Unit); err != nil {
		t.Error(err)
	}
}

// Verbs that are not served fail and end the connection.
func TestOtherVerbsAreRefused(t *testing.T) {
	did := false
	c, _ := started(t, func(string, []reflect.Value) []reflect.Value { did = true; return nil })
	for _, verb := range []string{"Links", "Facts", "Serve", "", "close"} {
		if err := daemon.Do(t.Context(), c, verb); err == nil {
			t.Errorf("%q was done", verb)
		}
	}
	if did {
		t.Error("something was done")
	}
}

// Only root and the gateway's user are served. The kernel tells who calls.
func TestOtherUsersAreRejected(t *testing.T) {
	c, _ := started(t, func(string, []reflect.Value) []reflect.Value { return []reflect.Value{reflect.Zero(errorType)} })
	if err := c.Stop(t.Context(), chrony.Unit); err != nil {
		t.Fatal(err)
	}
	c.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with its changed user
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), nobody, ^uintptr(0)); errno != 0 {
			done <- nil
			return
		}
		conn, err := net.Dial("unix", c.socket)
		if err == nil {
			conn.Write([]byte{0xa0})
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		done <- err
	}()
	if err := <-done; err == nil {
		t.Error("another user was served")
	}
}

// A verb's context ends when the caller hangs up.
func TestHangingUpEndsTheVerb(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	c, _ := started(t, func(_ string, args []reflect.Value) []reflect.Value {
		close(begun)
		<-args[0].Interface().(context.Context).Done()
		close(ended)
		return []reflect.Value{reflect.Zero(errorType)}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the operator has left")
	go func() {
		<-begun
		cancel(gone)
	}()
	if err := c.Restart(ctx, haproxy.Unit); !errors.Is(err, gone) {
		t.Errorf("err = %v", err)
	}
	<-ended
}

// Batches arrive in order until the caller has enough.
func TestStreams(t *testing.T) {
	const batches = 1000
	c, _ := started(t, func(_ string, args []reflect.Value) []reflect.Value {
		ctx, sink := args[0].Interface().(context.Context), args[1].Interface().(func([]host.LoggedPacket, uint64))
		sink(nil, 0)
		batch := make([]host.LoggedPacket, 1)
		for i := 0; ctx.Err() == nil; i++ {
			batch[0].Prefix = fmt.Sprint(i)
			sink(batch, uint64(i))
		}
		return []reflect.Value{reflect.Zero(errorType)}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := -1
	err := c.PacketLog(ctx, func(batch []host.LoggedPacket, lost uint64) {
		if n >= 0 && n < batches && (len(batch) != 1 || batch[0].Prefix != fmt.Sprint(n) || lost != uint64(n)) {
			t.Errorf("batch %d: %+v, %d", n, batch, lost)
		}
		if n++; n == batches {
			cancel()
		}
	})
	if err != nil || n < batches {
		t.Errorf("%d batches, %v", n, err)
	}
}

// If the helper dies during a verb, a repeatable verb is sent again to its successor; any other fails.
func TestHelperThatDies(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	c := New(hosttest.New(), socket)
	defer c.Close()
	for name, ask := range map[string]func() error{
		"Install": func() error { return c.Install(chrony.DropIn, nil) },
		"Restart": func() error { return c.Restart(t.Context(), chrony.Unit) },
	} {
		dies, err := Listen(socket, 0)
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan error)
		go func() { asked <- ask() }()
		conn, err := dies.AcceptUnix()
		if err == nil {
			_, err = conn.Read(make([]byte, 100))
		}
		if err != nil {
			t.Fatal(err)
		}
		dies.Close()
		conn.Close()
		back, err := Listen(socket, 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, back, hosttest.New(), 0, slog.New(slog.DiscardHandler)) }()
		if err := <-asked; (err == nil) != repeatable[name] {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		<-ended
	}
}

// The caller owns the file that it gets, and the helper keeps no copy.
func TestDescriptors(t *testing.T) {
	c, _ := started(t, func(_ string, args []reflect.Value) []reflect.Value {
		file, err := hosttest.New().Listen(args[0].Interface().(context.Context), args[1].String(), args[2].String())
		return []reflect.Value{reflect.ValueOf(file), reflect.ValueOf(&err).Elem()}
	})
	for range 3 {
		file, err := c.Listen(t.Context(), "tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.FileListener(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		l.Close()
		waittest.Until(t, "the helper closes its own copy", func() bool {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
	}
	if file, err := c.Listen(t.Context(), "tcp4", "192.0.2.1:1"); err == nil || file != nil {
		t.Errorf("%v, %v", file, err)
	}
}

// A listener stays in non-blocking mode when a copy goes to the helper. Otherwise it would block in the kernel until its next
// client, and could not be closed.
func TestSentListenerStaysNonBlocking(t *testing.T) {
	c, _ := started(t, func(string, []reflect.Value) []reflect.Value { return []reflect.Value{reflect.Zero(errorType)} })
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lent, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer lent.Close()
	if err := c.DrainListener(t.Context(), lent); err != nil {
		t.Fatal(err)
	}
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var flags int
	failed := raw.Control(func(fd uintptr) { flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0) })
	if failed != nil || err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("its flags are %#x, %v, %v", flags, failed, err)
	}
}

// The client reconnects to a helper that has restarted, and fails if none runs.
func TestHelperThatComesBack(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	c := New(hosttest.New(), socket)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Start(ctx, chrony.Unit); err == nil {
		t.Error("the verb succeeded without a helper")
	}
	for range 3 {
		l, err := Listen(socket, 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, l, hosttest.New(), 0, slog.New(slog.DiscardHandler)) }()
		for range 3 {
			if err := c.Install(chrony.DropIn, []byte("x")); err != nil {
				t.Error(err)
			}
		}
		if content, err := c.Read(chrony.DropIn); err != nil || string(content) != "x" {
			t.Errorf("%q, %v", content, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	socket := filepath.Join(b.TempDir(), "s")
	l, err := Listen(socket, 0)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() { _ = Serve(ctx, l, hosttest.New(), 0, slog.New(slog.DiscardHandler)) }()
	c := New(hosttest.New(), socket)
	defer c.Close()
	for _, size := range []int{100, 20_000, 1 << 20} {
		content := make([]byte, size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for b.Loop() {
				if err := c.Install(chrony.DropIn, content); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// probing runs a server of probes, and returns a client of it.
func probing(t *testing.T, m *hosttest.Machine) *Client {
	t.Helper()
	folder := t.TempDir()
	l, err := Listen(filepath.Join(folder, "probe.sock"), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ServeProbes(ctx, l, m, 0, slog.New(slog.DiscardHandler)) }()
	c := New(hosttest.New(), filepath.Join(folder, "helper.sock"))
	t.Cleanup(func() {
		c.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

// Probes have their own socket, which serves nothing else.
func TestProbes(t *testing.T) {
	m := hosttest.New()
	gone := make(chan struct{})
	m.ScriptProbes(func(ctx context.Context, p host.Probe, sink func([]byte)) (host.ProbeEnd, error) {
		sink([]byte("one"))
		sink([]byte("two"))
		if p.Target == "forever.example" {
			<-ctx.Done()
			close(gone)
			return host.ProbeEnd{}, ctx.Err()
		}
		return host.ProbeEnd{ExitStatus: 2, Duration: time.Second, Truncated: true}, nil
	})
	c := probing(t, m)
	output := ""
	end, err := c.Probe(t.Context(), host.Probe{Tool: host.ProbePing, Target: "a.example"}, func(b []byte) { output += string(b) + "." })
	if err != nil || output != "one.two." || end != (host.ProbeEnd{ExitStatus: 2, Duration: time.Second, Truncated: true}) {
		t.Errorf("%q, %+v, %v", output, end, err)
	}
	if _, err := c.Probe(t.Context(), host.Probe{Tool: host.ProbePing, Target: "-f"}, nil); err == nil {
		t.Error("an option was accepted as a target")
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := c.Probe(ctx, host.Probe{Tool: host.ProbePing, Target: "forever.example"}, func([]byte) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	<-gone // hanging up ends the program
	if err := daemon.Do(t.Context(), c.probes, "Sweep"); err == nil {
		t.Error("a verb of the helper is served")
	}
}

// Every verb is executed by exactly one of helper, probe server and caller.
func TestEveryVerbHasItsPlace(t *testing.T) {
	all := map[string]bool{}
	for i := range machineType.NumMethod() {
		name := machineType.Method(i).Name
		all[name] = true
		places := 0
		for _, list := range []map[string]bool{served, probes, local} {
			if list[name] {
				places++
			}
		}
		if places != 1 {
			t.Errorf("%s is in %d lists", name, places)
		}
	}
	for _, list := range []map[string]bool{served, probes, local, repeatable} {
		for name := range list {
			if !all[name] {
				t.Errorf("%s is not a verb", name)
			}
		}
	}
	for name := range repeatable {
		if !served[name] {
			t.Errorf("%s is not served", name)
		}
	}
}

// A verb that panics has failed, but the connection still works.
func TestAPanicIsAnError(t *testing.T) {
	c, _ := started(t, func(verb string, args []reflect.Value) []reflect.Value {
		if verb == "Read" {
			var nothing map[string][]int
			_ = nothing["x"][7]
		}
		return []reflect.Value{reflect.Zero(errorType)}
	})
	for range 2 {
		if _, err := c.Read(haproxy.Config); err == nil || !strings.Contains(err.Error(), "Read failed") {
			t.Fatal(err)
		}
		if err := c.Sweep(); err != nil {
			t.Fatal(err)
		}
	}
}

// Messages that are larger than any file are refused, and the next verb works.
func TestMessagesAreBounded(t *testing.T) {
	c, _ := started(t, func(string, []reflect.Value) []reflect.Value { return []reflect.Value{reflect.Zero(errorType)} })
	if err := c.Install(haproxy.Hosts, make([]byte, 64<<20)); err != nil {
		t.Error(err)
	}
	if err := c.Install(haproxy.Hosts, make([]byte, messageLimit)); err == nil {
		t.Error("an oversized message was accepted")
	}
	if err := c.Sweep(); err != nil {
		t.Error(err)
	}
}

// Large messages take turns, and small ones do not wait for them.
func TestLargeMessagesTakeTurns(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	c, _ := started(t, func(verb string, _ []reflect.Value) []reflect.Value {
		if verb == "Install" {
			inside <- struct{}{}
			<-leave
		}
		return []reflect.Value{reflect.Zero(errorType)}
	})
	var asked sync.WaitGroup
	for range largeMessages + 1 {
		asked.Go(func() {
			if err := c.Install(haproxy.Hosts, make([]byte, 2*smallMessage)); err != nil {
				t.Error(err)
			}
		})
	}
	for range largeMessages {
		<-inside
	}
	if err := c.Sweep(); err != nil {
		t.Error(err)
	}
	select {
	case <-inside:
		t.Error("too many large messages at once")
	default:
	}
	leave <- struct{}{}
	<-inside
	for range largeMessages {
		leave <- struct{}{}
	}
	asked.Wait()
}

// Callers beyond the limit wait until another one hangs up. All are served in the end, but never more than the limit at once.
func TestConnectionsAreBounded(t *testing.T) {
	const late = 64
	var mu sync.Mutex
	inside, most, leave := 0, 0, make(chan struct{})
	_, socket := started(t, func(string, []reflect.Value) []reflect.Value {
		mu.Lock()
		inside++
		most = max(most, inside)
		mu.Unlock()
		<-leave
		mu.Lock()
		inside--
		mu.Unlock()
		return []reflect.Value{reflect.Zero(errorType)}
	})
	dialed, answered := make(chan struct{}), make(chan error)
	for range connectionLimit + late {
		go func() {
			c := New(hosttest.New(), socket)
			defer c.Close()
			conn, err := c.connect(t.Context())
			if err == nil {
				c.keep(conn)
			}
			dialed <- struct{}{}
			answered <- errors.Join(err, c.Sweep())
		}()
	}
	for range connectionLimit + late {
		<-dialed
	}
	waittest.Until(t, "the limit is reached", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return inside >= connectionLimit
	})
	for range connectionLimit + late {
		leave <- struct{}{}
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	if most != connectionLimit {
		t.Errorf("%d were served at once", most)
	}
}
