package spoe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/waittest"
)

// long is longer than anything takes on the slowest machine. A test that waits this long has failed.
const long = time.Minute

// start runs a server until the test ends, or stop is called. It fails the test if the server does not end then.
func start(t *testing.T, s *Server) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Handler == nil {
		s.Handler = func(_ context.Context, _ *Notify, a *Answer) { a.SetText(Transaction, "verdict", "pass") }
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(long):
			t.Error("the server does not end")
		}
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// peer talks to a server like HAProxy, or as HAProxy never would.
type peer struct {
	t testing.TB
	net.Conn
}

func connect(t testing.TB, address string) *peer {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(long))
	return &peer{t, c}
}

// greet connects and says hello.
func greet(t testing.TB, address string) *peer {
	t.Helper()
	p := connect(t, address)
	p.send(greeting(text("supported-versions", "2.0"), size(1<<20), text("capabilities", "pipelining,async")))
	if b := p.receive(); b[0] != frameAgentHello {
		t.Fatalf("hello answered with %q", b)
	}
	return p
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	if _, err := p.Write(seal(b)); err != nil {
		p.t.Fatal(err)
	}
}

// next returns the next frame, or why there is none.
func (p *peer) next() ([]byte, error) {
	var head [lengthSize]byte
	if _, err := io.ReadFull(p, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(p, b)
	return b, err
}

func (p *peer) receive() []byte {
	p.t.Helper()
	b, err := p.next()
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// acknowledged reads an answer: its numbers, and the actions as on the wire.
func (p *peer) acknowledged() (stream, id uint64, actions string) {
	p.t.Helper()
	f, err := parseFrame(p.receive())
	if err != nil || f.kind != frameAck {
		p.t.Fatalf("no answer but %+v, %v", f, err)
	}
	return f.stream, f.frame, string(f.payload)
}

// notified sends a notification and expects an answer with a verdict.
func (p *peer) notified(stream uint64) {
	p.t.Helper()
	p.send(notifyFrame(stream, 1))
	if got, id, actions := p.acknowledged(); got != stream || id != 1 || !strings.Contains(actions, "verdict") {
		p.t.Fatalf("stream %d, frame %d: %q", got, id, actions)
	}
}

// disconnected expects that the server ends the connection, with the reason if it had the chance.
func (p *peer) disconnected(want status) {
	p.t.Helper()
	b, err := p.next()
	if err != nil {
		p.t.Fatalf("no reason was given: %v", err)
	}
	f, err := parseFrame(b)
	if err != nil || f.kind != frameAgentDisconnect {
		p.t.Fatalf("%+v, %v", f, err)
	}
	name, v, rest, err := item(f.payload)
	if err != nil || string(name) != "status-code" || status(v.Int()) != want {
		p.t.Errorf("%s: %d, %v", name, v.Int(), err)
	}
	if name, v, _, err = item(rest); err != nil || string(name) != "message" || len(v.Bytes()) == 0 {
		p.t.Errorf("%s: %q, %v", name, v.Bytes(), err)
	}
	p.gone()
}

// gone expects that the connection has ended.
func (p *peer) gone() {
	p.t.Helper()
	var timeout net.Error
	if b, err := p.next(); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		p.t.Fatalf("still there: %q, %v", b, err)
	}
}

func TestTheAgentSaysHello(t *testing.T) {
	address, _ := start(t, &Server{MaxFrame: 1000})
	for name, c := range map[string]struct {
		size         uint64
		capabilities string
		want         []byte
	}{
		"ours is smaller":   {131064, "pipelining,async,fragmentation", append(size(1000), text("capabilities", "pipelining")...)},
		"theirs is smaller": {512, "async", append(size(512), text("capabilities", "")...)},
	} {
		p := connect(t, address)
		p.send(greeting(text("supported-versions", "2.0"), size(c.size), text("capabilities", c.capabilities)))
		f, err := parseFrame(p.receive())
		if want := append(text("version", "2.0"), c.want...); err != nil || f.kind != frameAgentHello || !bytes.Equal(f.payload, want) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
		p.notified(3)
	}
}

func TestAHealthCheckIsAnsweredAndClosed(t *testing.T) {
	address, _ := start(t, &Server{})
	p := connect(t, address)
	p.send(append(greeting(text("supported-versions", "2.0"), size(1000), text("capabilities", "")), append(AppendText([]byte(nil), "healthcheck"), 0x11)...))
	if b := p.receive(); b[0] != frameAgentHello {
		t.Errorf("%q", b)
	}
	p.gone()
}

func TestADisconnectIsAnswered(t *testing.T) {
	address, _ := start(t, &Server{})
	p := greet(t, address)
	p.notified(1)
	p.send(appendHead(nil, frameDisconnect, 0, 0))
	p.disconnected(statusNormal)
}

func TestAnswers(t *testing.T) {
	address, _ := start(t, &Server{Handler: func(_ context.Context, n *Notify, a *Answer) {
		a.SetText(Session, "discarded", "x")
		a.Clear()
		for m := range n.Messages() {
			a.SetText(Transaction, "name", string(m.Name()))
		}
		a.SetInt(Process, "n", -1)
		a.SetBool(Session, "yes", true)
		a.SetBool(Request, "no", false)
		a.SetAddr(Response, "v4", netip.MustParseAddr("192.0.2.1"))
		a.SetAddr(Transaction, "v6", netip.MustParseAddr("2001:db8::1"))
		a.SetAddr(Transaction, "none", netip.Addr{})
	}})
	p := greet(t, address)
	for stream := uint64(1); stream < 4; stream++ { // the memory is reused
		p.send(notifyFrame(stream<<20, 7))
		got, id, actions := p.acknowledged()
		want := "\x01\x03\x02\x04name\x08\x09all-types" + "\x01\x03\x00\x01n\x04" + string(AppendVarint(nil, 1<<64-1)) +
			"\x01\x03\x01\x03yes\x11" + "\x01\x03\x03\x02no\x01" + "\x01\x03\x04\x02v4\x06\xc0\x00\x02\x01" +
			"\x01\x03\x02\x02v6\x07\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01" + "\x01\x03\x02\x04none\x00"
		if got != stream<<20 || id != 7 || actions != want {
			t.Fatalf("stream %d, frame %d: %q", got, id, actions)
		}
	}
}

func TestAnswersComeInAnyOrder(t *testing.T) {
	slow := make(chan struct{})
	address, _ := start(t, &Server{Handler: func(_ context.Context, n *Notify, _ *Answer) {
		if n.stream == 1 {
			<-slow
		}
	}})
	p := greet(t, address)
	p.send(notifyFrame(1, 1))
	p.send(notifyFrame(2, 1))
	if stream, _, _ := p.acknowledged(); stream != 2 {
		t.Errorf("stream %d", stream)
	}
	close(slow)
	if stream, _, _ := p.acknowledged(); stream != 1 {
		t.Errorf("stream %d", stream)
	}
}

// Quick answers do not wait for others that arrived with them, and what has no quick answer goes to the handler, with nothing set.
func TestQuickAnswers(t *testing.T) {
	slow := make(chan struct{})
	address, _ := start(t, &Server{
		Quick: func(n *Notify, a *Answer) bool {
			a.SetText(Transaction, "quick", "yes")
			if n.stream == 5 {
				panic("index out of range")
			}
			return n.stream != 3
		},
		Handler: func(_ context.Context, n *Notify, a *Answer) {
			if a.SetText(Transaction, "verdict", "pass"); n.stream == 3 {
				<-slow
			}
		},
	})
	p := greet(t, address)
	var together []byte
	for stream := range uint64(5) {
		together = append(together, seal(notifyFrame(stream+1, 1))...)
	}
	if _, err := p.Write(together); err != nil {
		t.Fatal(err)
	}
	answers := map[uint64]string{}
	next := func() {
		t.Helper()
		stream, _, actions := p.acknowledged()
		answers[stream] = actions
	}
	for range 4 {
		next()
	}
	if _, early := answers[3]; early || len(answers) != 4 {
		t.Errorf("%v", answers)
	}
	close(slow)
	next()
	for stream, actions := range answers {
		handled := stream == 3 || stream == 5
		if strings.Contains(actions, "quick") == handled || strings.Contains(actions, "verdict") != handled {
			t.Errorf("stream %d: %q", stream, actions)
		}
	}
}

// buffer is a log with several writers.
type buffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.String()
}

func TestAHandlerThatPanicsSetsNothing(t *testing.T) {
	var logs buffer
	address, _ := start(t, &Server{Log: slog.New(slog.NewTextHandler(&logs, nil)), Handler: func(_ context.Context, n *Notify, a *Answer) {
		a.SetText(Transaction, "verdict", "pass")
		if n.stream == 1 {
			panic("index out of range")
		}
	}})
	p := greet(t, address)
	p.send(notifyFrame(1, 9))
	if stream, id, actions := p.acknowledged(); stream != 1 || id != 9 || actions != "" {
		t.Errorf("stream %d, frame %d: %q", stream, id, actions)
	}
	if s := logs.String(); !strings.Contains(s, "index out of range") || !strings.Contains(s, "server_test.go") {
		t.Errorf("the log: %s", s)
	}
	p.notified(2)
}

func TestAnAnswerLongerThanAFrameSetsNothing(t *testing.T) {
	address, _ := start(t, &Server{MaxFrame: 1000, Handler: func(_ context.Context, n *Notify, a *Answer) {
		a.SetText(Transaction, "verdict", "pass")
		if n.stream == 1 {
			a.SetText(Transaction, "long", strings.Repeat("x", 1000))
		}
	}})
	p := greet(t, address)
	p.send(notifyFrame(1, 1))
	if _, _, actions := p.acknowledged(); actions != "" {
		t.Errorf("%q", actions)
	}
	p.notified(2)
}

func TestAnExchangeAllocatesLittle(t *testing.T) {
	address, _ := start(t, &Server{})
	p := greet(t, address)
	question, answer := seal(notifyFrame(1, 1)), make([]byte, 1000)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := p.Write(question); err != nil {
			t.Fatal(err)
		}
		if n, err := p.Read(answer); err != nil || n < 20 {
			t.Fatal(n, err)
		}
	}); n > 3 {
		t.Errorf("%v allocations", n)
	}
}

func TestHostileFramesEndTheirConnectionAlone(t *testing.T) {
	address, _ := start(t, &Server{})
	good := greet(t, address)
	for name, b := range hostile() {
		t.Run(name, func(t *testing.T) {
			p := greet(t, address)
			p.send(append(make([]byte, lengthSize), b...))
			b, err := p.next()
			if err != nil || b[0] != frameAgentDisconnect {
				t.Errorf("%q, %v", b, err)
			}
			p.gone()
		})
		good.notified(7)
	}
	// Before the hello, too.
	for name, b := range hostile() {
		if name == "another hello" {
			continue
		}
		p := connect(t, address)
		p.send(append(make([]byte, lengthSize), b...))
		if b, err := p.next(); err != nil || b[0] != frameAgentDisconnect {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		p.gone()
		good.notified(8)
	}
}

func TestAFrameLongerThanAgreedIsNotRead(t *testing.T) {
	address, _ := start(t, &Server{MaxFrame: 1000})
	for _, length := range []uint32{1001, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		p := greet(t, address)
		if _, err := p.Write(binary.BigEndian.AppendUint32(nil, length)); err != nil {
			t.Fatal(err)
		}
		p.disconnected(statusTooBig)
	}
	// The agreed size is not too long.
	b := AppendText(appendHead(nil, frameNotify, 1, 1), "m")
	b = AppendText(append(b, 1), "arg")
	b = append(b, byte(Binary))
	filler := 1000 - (len(b) - lengthSize) - len(AppendVarint(nil, 900))
	b = AppendText(b, strings.Repeat("x", filler))
	if len(b)-lengthSize != 1000 {
		t.Fatalf("%d bytes", len(b)-lengthSize)
	}
	p := greet(t, address)
	p.send(b)
	if _, _, actions := p.acknowledged(); actions == "" {
		t.Error("no answer to the longest frame")
	}
}

func TestALengthAloneTakesNoMemory(t *testing.T) {
	const conns, claim = 100, 8 << 20
	address, _ := start(t, &Server{MaxFrame: claim, MaxConns: conns + 1})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var peers []*peer
	for range conns {
		p := greet(t, address)
		if _, err := p.Write(append(binary.BigEndian.AppendUint32(nil, 1<<20), frameNotify)); err != nil {
			t.Fatal(err)
		}
		peers = append(peers, p)
	}
	greet(t, address).notified(1) // the others are served, and what came before has been read
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > conns<<20/4 {
		t.Errorf("%d bytes for %d lengths", took, len(peers))
	}
}

func TestHalfAFrameIsNotWaitedForLong(t *testing.T) {
	address, _ := start(t, &Server{Frame: 20 * time.Millisecond, Idle: long})
	for _, n := range []int{1, 3, 4, 5, 30} {
		p := greet(t, address)
		if _, err := p.Write(seal(notifyFrame(1, 1))[:n]); err != nil {
			t.Fatal(err)
		}
		p.disconnected(statusTimeout)
	}
	// A frame that arrives slowly, byte by byte, has no more time than others.
	p := greet(t, address)
	go func() {
		for _, b := range seal(notifyFrame(1, 1)) {
			if _, err := p.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	p.disconnected(statusTimeout)
}

func TestSilenceEndsAConnection(t *testing.T) {
	address, _ := start(t, &Server{Hello: 20 * time.Millisecond})
	connect(t, address).disconnected(statusTimeout)
	address, _ = start(t, &Server{Idle: 20 * time.Millisecond})
	greet(t, address).disconnected(statusTimeout)
}

func TestOneConnectionTooMany(t *testing.T) {
	address, _ := start(t, &Server{MaxConns: 2})
	first, second := greet(t, address), greet(t, address)
	connect(t, address).gone()
	first.notified(1)
	second.Close()
	waittest.Until(t, "the place of a closed connection is free", func() bool {
		p := connect(t, address)
		_, err := p.Write(seal(greeting(text("supported-versions", "2.0"), size(1000), text("capabilities", ""))))
		b, errRead := p.next()
		if err != nil || errRead != nil || b[0] != frameAgentHello {
			return false
		}
		p.notified(2)
		return true
	})
}

func TestOneNotificationTooManyIsAnsweredAtOnce(t *testing.T) {
	release, running := make(chan struct{}), make(chan struct{}, 8)
	address, _ := start(t, &Server{MaxPending: 8, Handler: func(_ context.Context, _ *Notify, a *Answer) {
		running <- struct{}{}
		<-release
		a.SetText(Transaction, "verdict", "pass")
	}})
	// One connection has a quarter.
	greedy := greet(t, address)
	for stream := range uint64(3) {
		greedy.send(notifyFrame(stream, 1))
	}
	if stream, _, actions := greedy.acknowledged(); stream != 2 || actions != "" {
		t.Errorf("stream %d: %q", stream, actions)
	}
	// All together have eight.
	peers := []*peer{greedy}
	for range 3 {
		p := greet(t, address)
		p.send(notifyFrame(0, 1))
		p.send(notifyFrame(1, 1))
		peers = append(peers, p)
	}
	for range 8 {
		<-running
	}
	last := greet(t, address)
	last.send(notifyFrame(9, 1))
	if stream, _, actions := last.acknowledged(); stream != 9 || actions != "" {
		t.Errorf("stream %d: %q", stream, actions)
	}
	close(release)
	for _, p := range peers {
		for range 2 {
			if _, _, actions := p.acknowledged(); !strings.Contains(actions, "verdict") {
				t.Errorf("%q", actions)
			}
		}
	}
	last.notified(10)
}

func TestAFloodIsBorne(t *testing.T) {
	address, _ := start(t, &Server{MaxPending: 16, Write: 2 * time.Second})
	// A peer that floods and does not read is cut off: writing to it eventually fails.
	deaf := greet(t, address)
	_ = deaf.SetWriteDeadline(time.Now().Add(long))
	flooded := make(chan error, 1)
	go func() {
		many := bytes.Repeat(seal(notifyFrame(1, 1)), 100)
		for {
			if _, err := deaf.Write(many); err != nil {
				flooded <- err
				return
			}
		}
	}()
	good := greet(t, address)
	for {
		select {
		case err := <-flooded:
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("a connection whose answers are not read goes on")
			}
			good.notified(1)
			return
		default:
			good.send(notifyFrame(1, 1))
			good.acknowledged() // with or without a verdict: the flood takes places, too
		}
	}
}

func TestAHandlerHearsThatTheConnectionEnded(t *testing.T) {
	running, heard := make(chan struct{}), make(chan struct{})
	address, _ := start(t, &Server{Handler: func(ctx context.Context, _ *Notify, _ *Answer) {
		close(running)
		<-ctx.Done()
		close(heard)
	}})
	p := greet(t, address)
	p.send(notifyFrame(1, 1))
	<-running
	p.Close()
	select {
	case <-heard:
	case <-time.After(long):
		t.Error("the handler goes on")
	}
}

func TestTheEndLetsAnswersOut(t *testing.T) {
	running, release := make(chan struct{}), make(chan struct{})
	address, stop := start(t, &Server{Grace: long, Handler: func(_ context.Context, n *Notify, a *Answer) {
		if n.stream == 1 {
			close(running)
			<-release
		}
		a.SetText(Transaction, "verdict", "pass")
	}})
	busy, idle := greet(t, address), greet(t, address)
	busy.send(notifyFrame(1, 1))
	<-running
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	idle.disconnected(statusNormal)
	idle.Close()
	busy.notified(2) // what HAProxy sent before it knew
	close(release)
	if stream, _, actions := busy.acknowledged(); stream != 1 || !strings.Contains(actions, "verdict") {
		t.Errorf("stream %d: %q", stream, actions)
	}
	busy.disconnected(statusNormal)
	busy.Close()
	<-stopped
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("it still listens")
	}
}

func TestTheEndDoesNotWaitForever(t *testing.T) {
	running := make(chan struct{})
	address, stop := start(t, &Server{Grace: 20 * time.Millisecond, Handler: func(ctx context.Context, _ *Notify, a *Answer) {
		close(running)
		<-ctx.Done()
		a.SetText(Transaction, "verdict", "late")
	}})
	p := greet(t, address)
	p.send(notifyFrame(1, 1))
	<-running
	go stop()
	if _, _, actions := p.acknowledged(); !strings.Contains(actions, "late") {
		t.Errorf("%q", actions)
	}
	p.disconnected(statusNormal)
}

func TestFaultsDoNotFillTheLog(t *testing.T) {
	var logs buffer
	address, _ := start(t, &Server{Log: slog.New(slog.NewTextHandler(&logs, nil))})
	began := time.Now()
	const faults = 50
	for range faults {
		p := connect(t, address)
		p.send(notifyFrame(1, 1))
		p.disconnected(statusInvalid)
	}
	if lines, most := strings.Count(logs.String(), "\n"), 1+int(time.Since(began)/warnEvery); lines == 0 || lines > most {
		t.Errorf("%d lines for %d faults", lines, faults)
	}
}

func TestStrangersAreNotHeard(t *testing.T) {
	var friend atomic.Bool
	address, _ := start(t, &Server{Admit: func(net.Conn) bool { return friend.Load() }})
	stranger := connect(t, address)
	if n, err := stranger.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("%d bytes, %v", n, err)
	}
	friend.Store(true)
	greet(t, address)
}
