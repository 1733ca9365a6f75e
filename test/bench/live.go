package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/firewall"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/host"
)

const (
	liveClients = 50
	liveBatch   = 256
	// liveWindow is how many events the slowest client may be behind: fewer than a client may be before it loses some.
	liveWindow = 8192
)

// audience are the clients of one server.
type audience struct {
	publish func(batch []host.LoggedPacket)
	around  int64 // objects in a frame that are no events
	got     [liveClients]atomic.Int64
	sent    int64
	failure atomic.Pointer[error]
	events  int64 // in all rounds
	cpu     time.Duration
}

// measureLive compares the live log for many clients with a server that sends each event to each client in a frame of its
// own, which it encodes for each.
func measureLive(ctx context.Context, s settings) ([]goal, error) {
	fmt.Printf("the live log for %d clients\n", liveClients)
	rule := uuid.New()
	l := firewall.NewLog(nil, func() map[uint32]string { return map[uint32]string{2: "lan0", 3: "wan0"} }, firewall.LogTable{Action: func(uuid.UUID) string { return "drop" }}, clock.Real, slog.New(slog.DiscardHandler))
	server := httptest.NewServer(logRoutes(l))
	defer server.Close()
	ours := &audience{publish: func(batch []host.LoggedPacket) { l.Ingest(batch, 0) }, around: 1}
	leave, err := ours.watch(ctx, server.URL+"/api/v1/firewall/log/live")
	if err != nil {
		return nil, err
	}
	defer leave()
	naive := &naiveLive{}
	other := httptest.NewServer(naive)
	defer other.Close()
	theirs := &audience{publish: naive.publish}
	leave, err = theirs.watch(ctx, other.URL)
	if err != nil {
		return nil, err
	}
	defer leave()
	for naive.joined.Load() < liveClients {
		time.Sleep(time.Millisecond)
	}

	batch := make([]host.LoggedPacket, liveBatch)
	for i := range batch {
		batch[i] = host.LoggedPacket{
			Time: time.Now(), Prefix: "gateway:" + rule.String(), InIndex: 2, OutIndex: 3, Proto: 17,
			Src: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), Dst: netip.MustParseAddr("198.51.100.7"), SrcPort: uint16(4000 + i), DstPort: 53, Size: 60,
		}
	}
	rates, err := inTurns(s,
		func(d time.Duration) (float64, error) { return ours.rate(d, batch) },
		func(d time.Duration) (float64, error) { return theirs.rate(d, batch) })
	if err != nil {
		return nil, err
	}
	return []goal{
		{fmt.Sprintf("L2 live log to %d clients / a frame per event", liveClients), rates[0] / rates[1], "x", 10, true, perSecond(rates)},
		{"   CPU per event and client, clients included", ours.cost(), "us", 0, true, fmt.Sprintf("%.2f us with a frame per event", theirs.cost())},
	}, nil
}

// watch has all clients connect and count the events that they get.
func (a *audience) watch(ctx context.Context, url string) (leave func(), err error) {
	ctx, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	leave = func() { stop(); clients.Wait() }
	for i := range liveClients {
		conn, _, err := websocket.Dial(ctx, url, nil)
		if err != nil {
			leave()
			return nil, err
		}
		conn.SetReadLimit(1 << 20)
		clients.Go(func() {
			defer conn.CloseNow()
			if err := a.count(ctx, conn, &a.got[i]); ctx.Err() == nil {
				a.failure.Store(&err)
			}
		})
	}
	return leave, nil
}

func (a *audience) count(ctx context.Context, conn *websocket.Conn, got *atomic.Int64) error {
	var frame bytes.Buffer
	for {
		_, r, err := conn.Reader(ctx)
		if err != nil {
			return err
		}
		frame.Reset()
		if _, err := io.Copy(&frame, r); err != nil {
			return err
		}
		// The client's own work must not affect the result: counting bytes is fast.
		got.Add(int64(bytes.Count(frame.Bytes(), []byte{'{'})) - a.around)
	}
}

// behind is how many events the slowest client has not got yet.
func (a *audience) behind() (n int64) {
	for i := range a.got {
		n = max(n, a.sent-a.got[i].Load())
	}
	return n
}

// rate publishes events as fast as the slowest client gets them, and answers how many a second all clients got.
func (a *audience) rate(d time.Duration, batch []host.LoggedPacket) (float64, error) {
	before, cpu, start := a.sent, cpuTime(syscall.RUSAGE_SELF), time.Now()
	wait := func(behind int64) error {
		for a.behind() > behind {
			if failure := a.failure.Load(); failure != nil {
				return *failure
			}
			if time.Since(start) > d+30*time.Second {
				return errors.New("a client has lost events")
			}
			time.Sleep(200 * time.Microsecond)
		}
		return nil
	}
	for time.Since(start) < d {
		if err := wait(liveWindow - liveBatch); err != nil {
			return 0, err
		}
		a.publish(batch)
		a.sent += liveBatch
	}
	if err := wait(0); err != nil {
		return 0, err
	}
	events := a.sent - before
	a.events += events
	a.cpu += cpuTime(syscall.RUSAGE_SELF) - cpu
	return float64(events) / time.Since(start).Seconds(), nil
}

// cost is how many microseconds of CPU an event cost for each client.
func (a *audience) cost() float64 {
	return float64(a.cpu.Nanoseconds()) / 1000 / float64(a.events) / liveClients
}

// naiveLive is a server that sends each event to each client in a separate frame.
type naiveLive struct {
	mu      sync.Mutex
	clients []chan firewall.LogEvent
	joined  atomic.Int64
}

func (n *naiveLive) publish(batch []host.LoggedPacket) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range batch {
		e := firewall.LogEvent{
			Timestamp: p.Time, RuleID: uuid.MustParse(p.Prefix[len("gateway:"):]), Action: "drop", Proto: "udp", Source: p.Src.String(), Destination: p.Dst.String(),
			SourcePort: p.SrcPort, DestinationPort: p.DstPort, Interface: "lan0", OutInterface: "wan0", Size: p.Size,
		}
		for _, c := range n.clients {
			c <- e // has room for the window
		}
	}
}

func (n *naiveLive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	ctx := conn.CloseRead(r.Context())
	events := make(chan firewall.LogEvent, liveWindow)
	n.mu.Lock()
	n.clients = append(n.clients, events)
	n.mu.Unlock()
	n.joined.Add(1)
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			b, err := json.Marshal(e)
			if err != nil || conn.Write(ctx, websocket.MessageText, b) != nil {
				return
			}
		}
	}
}
