package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/firewall"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/host/nettest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

const (
	// logRate is how many packets a second must be logged without a loss, and logFor how long.
	logRate = 100000
	logFor  = 5 * time.Second
	// logFlatOut is how long as many packets are sent as can be.
	logFlatOut = 3 * time.Second
)

// logged is what came of packets that were all to be logged.
type logged struct {
	Took     float64 // seconds
	Sent     int     // by the sender
	Counted  int     // by the rule that logs
	Read     int     // by the log
	Gaps     int     // packets that the kernel's numbers show to be missing
	InOrder  bool    // the newest events are the last packets sent, unless some were lost
	ReadCost float64 // microseconds of CPU that an event cost the reader
}

func (l logged) lost() int { return l.Counted - l.Read }

// measureLog compares what the packet filter's log receives and returns with what was sent.
func measureLog(ctx context.Context, s settings) ([]goal, error) {
	fmt.Println("packets into the log")
	// A separate program, because it runs in a separate network.
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "packetlog")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the packet log: %w: %s", err, out)
	}
	var rounds [2]logged
	if err := json.Unmarshal(out, &rounds); err != nil {
		return nil, err
	}
	paced, flatOut := rounds[0], rounds[1]
	if !paced.InOrder || paced.Read > paced.Counted {
		return nil, fmt.Errorf("the log does not hold what was sent: %+v", paced)
	}
	goals := []goal{
		{"L1 packets lost by the log at 100,000/s", float64(paced.lost()), "", 0, false,
			fmt.Sprintf("%d sent, %d logged in %.1f s, %d seen missing; %.2f us of CPU an event", paced.Sent, paced.Counted, paced.Took, paced.Gaps, paced.ReadCost)},
		{"   rate at which packets were logged then", float64(paced.Counted) / paced.Took / 1000, "k/s", 0.95 * logRate / 1000, true, "less would say little about the loss"},
		{"   events read with the sender flat out", float64(flatOut.Read) / flatOut.Took / 1000, "k/s", 0, true,
			fmt.Sprintf("%d of %d lost; %.2f us of CPU an event", flatOut.lost(), flatOut.Counted, flatOut.ReadCost)},
	}
	live, err := measureLive(ctx, s)
	return append(goals, live...), err
}

// anybody may read.
type anybody struct{}

func (anybody) Authenticate(*http.Request) (actor.Actor, error) {
	return actor.Actor{Name: "bench", Role: actor.Viewer}, nil
}

// logRoutes are the routes of a log as the gateway has them.
func logRoutes(l *firewall.Log) http.Handler {
	r := httpd.NewRouter(slog.New(slog.DiscardHandler))
	r.Sessions, r.SetupDone = anybody{}, func() bool { return true }
	l.Mount(r)
	return r.Handler(http.NotFoundHandler())
}

// countedFilter counts the packets passed to the log.
type countedFilter struct {
	host.Filter
	read, gaps atomic.Int64
}

func (f *countedFilter) PacketLog(ctx context.Context, sink func([]host.LoggedPacket, uint64)) error {
	return f.Filter.PacketLog(ctx, func(batch []host.LoggedPacket, lost uint64) {
		sink(batch, lost)
		f.gaps.Add(int64(lost))
		f.read.Add(int64(len(batch)))
	})
}

// logPackets is the program in the separate network: it sends packets that a rule of the gateway logs, from one end of
// a veth pair to the other, follows the log, and prints the results.
func logPackets() error {
	nettest.Enter()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	machine, err := machine.New(machine.Options{Units: units.None{Reason: "the bench has no daemons"}})
	if err != nil {
		return err
	}
	s, err := newSender()
	if err != nil {
		return err
	}
	rule := firewall.Rule{SrcZone: zone(0), DstZone: value.Must[value.Zone]("self"), SrcKind: "any", DstKind: "any", Action: "drop", Log: true, Enabled: true}
	rule.ID = uuid.New()
	table, err := firewall.Render(firewall.Config{Interfaces: map[value.Zone][]value.IfName{zone(0): {value.Must[value.IfName](logLink)}}, Rules: []*firewall.Rule{&rule}})
	if err != nil {
		return err
	}
	if _, err := machine.Run(ctx, nftables.Load, host.Input{Staged: table}); err != nil {
		return err
	}
	filter := &countedFilter{Filter: machine}
	names := func() map[uint32]string { return map[uint32]string{uint32(s.index): logLink} }
	l := firewall.NewLog(filter, names, firewall.LogTable{Action: func(uuid.UUID) string { return rule.Action }}, clock.Real, slog.New(slog.DiscardHandler))
	routes := logRoutes(l)
	go l.Run(ctx)
	for range 500 {
		if newest(routes).Error == "" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}

	var before logged
	round := func(d time.Duration, rate int) (got logged, err error) {
		cpu := -cpuTime(unix.RUSAGE_SELF)
		took, sending, err := s.send(d, rate)
		if err != nil {
			return got, err
		}
		counters, err := machine.FilterCounters(ctx)
		if err != nil || len(counters.List) != 1 {
			return got, fmt.Errorf("%d counters: %w", len(counters.List), err)
		}
		now := logged{Sent: s.sent, Counted: int(counters.List[0].Packets)}
		// The kernel delays packets for a moment; lost ones never arrive.
		for range 200 {
			now.Read, now.Gaps = int(filter.read.Load()), int(filter.gaps.Load())
			if now.Read+now.Gaps == now.Counted {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		cpu += cpuTime(unix.RUSAGE_SELF)
		got = logged{Took: took.Seconds(), Sent: now.Sent - before.Sent, Counted: now.Counted - before.Counted, Read: now.Read - before.Read, Gaps: now.Gaps - before.Gaps, InOrder: true}
		got.ReadCost = float64((cpu - sending).Nanoseconds()) / 1000 / float64(got.Read)
		before = now
		events := newest(routes).Events
		got.InOrder = got.lost() > 0 || got.Sent != got.Counted || len(events) == 1000
		for i, e := range events {
			if got.lost() == 0 && got.Sent == got.Counted && e.SourcePort != s.port(s.sent-1-i) {
				got.InOrder = false
			}
		}
		return got, nil
	}
	paced, err := round(logFor, logRate)
	if err != nil {
		return err
	}
	flatOut, err := round(logFlatOut, 0)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode([]logged{paced, flatOut})
}

// newest is what the route answers.
func newest(routes http.Handler) firewall.LogPage {
	answer := httptest.NewRecorder()
	routes.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/api/v1/firewall/log", nil))
	var page struct{ Data firewall.LogPage }
	if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil {
		page.Data.Error = err.Error()
	}
	return page.Data
}

func cpuTime(who int) time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// logLink is the interface on which the packets arrive.
const logLink = "in0"

// sender sends packets to the gateway by a link whose other end is the gateway's.
type sender struct {
	socket int
	index  int // of the gateway's end
	frame  []byte
	sent   int
}

func newSender() (*sender, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = logLink
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "out0"}); err != nil {
		return nil, err
	}
	in, err := netlink.LinkByName(logLink)
	if err != nil {
		return nil, err
	}
	out, err := netlink.LinkByName("out0")
	if err != nil {
		return nil, err
	}
	from, to := netip.MustParseAddr("10.9.0.2").As4(), netip.MustParseAddr("10.9.0.1").As4()
	if err := netlink.AddrAdd(in, &netlink.Addr{IPNet: &net.IPNet{IP: to[:], Mask: net.CIDRMask(24, 32)}}); err != nil {
		return nil, err
	}
	for _, l := range []netlink.Link{in, out} {
		if err := netlink.LinkSetUp(l); err != nil {
			return nil, err
		}
	}
	// A raw socket, so that a packet costs the sender little.
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(socket, &unix.SockaddrLinklayer{Ifindex: out.Attrs().Index}); err != nil {
		return nil, err
	}
	const payload = 18
	b := append(append([]byte{}, in.Attrs().HardwareAddr...), out.Attrs().HardwareAddr...)
	b = append(b, 8, 0) // IPv4
	ip := len(b)
	b = append(b, 0x45, 0, 0, 20+8+payload, 0, 0, 0x40, 0, 64, unix.IPPROTO_UDP, 0, 0)
	b = append(append(b, from[:]...), to[:]...)
	sum := uint32(0)
	for i := ip; i < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	sum = ^(sum>>16 + sum&0xffff)
	b[ip+10], b[ip+11] = byte(sum>>8), byte(sum)
	b = append(b, 0, 0, 4000>>8, 4000&255, 0, 8+payload, 0, 0) // without a checksum
	return &sender{socket: socket, index: in.Attrs().Index, frame: append(b, make([]byte, payload)...)}, nil
}

// port is the source port of packet n, which identifies it.
func (s *sender) port(n int) uint16 { return uint16(n%50000 + 1) }

// send sends for a while at a rate, or as fast as it can with none, and returns the elapsed time and the CPU time. The
// kernel logs a packet while it is being sent, so that is included.
func (s *sender) send(d time.Duration, rate int) (took, cpu time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu = -cpuTime(unix.RUSAGE_THREAD)
	const burst = 100
	source := s.frame[34:36]
	start := time.Now()
	for n := 0; ; {
		took = time.Since(start)
		if took >= d {
			return took, cpu + cpuTime(unix.RUSAGE_THREAD), nil
		}
		if rate > 0 && float64(n) > took.Seconds()*float64(rate) {
			time.Sleep(500 * time.Microsecond)
			continue
		}
		for range burst {
			p := s.port(s.sent)
			source[0], source[1] = byte(p>>8), byte(p)
			if _, err := unix.Write(s.socket, s.frame); err != nil {
				return took, cpu, fmt.Errorf("sending: %w", err)
			}
			s.sent++
			n++
		}
	}
}
