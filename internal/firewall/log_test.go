package firewall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/hosttest"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/kit/wire"
)

var (
	ruleAccept = uuid.MustParse("01890000-0000-7000-8000-00000000000a")
	ruleReject = uuid.MustParse("01890000-0000-7000-8000-00000000000b")
	ruleGone   = uuid.MustParse("01890000-0000-7000-8000-00000000000c")
	logStart   = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
)

// logBench is a log on a machine in memory, with its routes.
type logBench struct {
	*Log
	machine *hosttest.Machine
	clock   *clock.Fake
	handler http.Handler
	logs    *bytes.Buffer
}

// logActions is a table whose rules have the given actions. One of them has a name, and the zone wan an interface.
func logActions(action func(rule uuid.UUID) string) LogTable {
	return LogTable{
		Action: action,
		Named: func(word string) map[uuid.UUID]bool {
			return map[uuid.UUID]bool{ruleAccept: strings.Contains("guests to the internet", word)}
		},
		Members: func(zone value.Zone) []value.IfName {
			if zone.String() == "wan" {
				return []value.IfName{value.Must[value.IfName]("wan0")}
			}
			return nil
		},
	}
}

// newLogBench returns a logBench that checks for leaked goroutines at the end of the test.
func newLogBench(t testing.TB) *logBench {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	b := &logBench{machine: hosttest.New(), clock: clock.NewFake(logStart), logs: new(bytes.Buffer)}
	actions := map[uuid.UUID]string{ruleAccept: "accept", ruleReject: "reject"}
	b.Log = NewLog(b.machine,
		func() map[uint32]string { return map[uint32]string{1: "lo", 2: "lan0", 3: "wan0", 4: "a\"\xff\u2028"} },
		logActions(func(rule uuid.UUID) string { return actions[rule] }), b.clock, slog.New(slog.NewTextHandler(b.logs, nil)))
	r := httpd.NewRouter(slog.New(slog.DiscardHandler))
	r.Sessions, r.SetupDone = kittest.Roles{}, func() bool { return true }
	b.Mount(r)
	b.handler = r.Handler(http.NotFoundHandler())
	return b
}

// packet is one logged packet; its size identifies it.
func packet(size int, prefix string, change ...func(*host.LoggedPacket)) host.LoggedPacket {
	p := host.LoggedPacket{
		Time: logStart.Add(time.Duration(size) * time.Second), Prefix: prefix, InIndex: 2, Proto: 17, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("198.51.100.7"),
		SrcPort: 4000, DstPort: 53, Size: size,
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func prefixOf(rule uuid.UUID) string { return "gateway:" + rule.String() }

// numbered returns n packets with consecutive sizes.
func numbered(from, n int) []host.LoggedPacket {
	list := make([]host.LoggedPacket, n)
	for i := range list {
		list[i] = packet(from+i, prefixOf(ruleAccept))
	}
	return list
}

func (b *logBench) get(t testing.TB, query string) *kittest.Answer {
	t.Helper()
	return kittest.Call(t, b.handler, http.MethodGet, "/firewall/log"+query, nil, "Authorization", "Bearer viewer")
}

func (b *logBench) read(t testing.TB, query string) LogPage {
	t.Helper()
	var page LogPage
	b.get(t, query).Want(t, 200).Into(t, &page)
	return page
}

func sizes(events []LogEvent) []int {
	list := make([]int, len(events))
	for i, e := range events {
		list[i] = e.Size
	}
	return list
}

func TestLogFiltersCombine(t *testing.T) {
	b := newLogBench(t)
	v6 := func(p *host.LoggedPacket) {
		p.Src, p.Dst = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8:1::2")
	}
	proto := func(n uint8) func(*host.LoggedPacket) {
		return func(p *host.LoggedPacket) { p.Proto, p.SrcPort, p.DstPort = n, 0, 0 }
	}
	b.Ingest([]host.LoggedPacket{
		packet(1, prefixOf(ruleAccept)),
		packet(2, prefixOf(ruleReject), func(p *host.LoggedPacket) { p.Proto = 6 }),
		packet(3, "gateway:drop-input", v6),
		packet(4, "gateway:drop-forward", proto(1), func(p *host.LoggedPacket) { p.OutIndex = 3 }),
		packet(5, prefixOf(ruleAccept), v6, proto(58)),
		packet(6, prefixOf(ruleGone), proto(47), func(p *host.LoggedPacket) { p.Src = netip.MustParseAddr("192.0.3.1") }),
	}, 0)
	at := func(second int) string {
		return url.QueryEscape(logStart.Add(time.Duration(second) * time.Second).Format(time.RFC3339Nano))
	}
	for query, want := range map[string][]int{
		"":                                      {6, 5, 4, 3, 2, 1},
		"limit=2":                               {6, 5},
		"since=" + at(5):                        {6, 5},
		"until=" + at(2):                        {2, 1},
		"since=" + at(2) + "&until=" + at(3):    {3, 2},
		"since=2026-01-31T13:00:04%2B01:00":     {6, 5, 4},
		"since=0001-01-02T00:00:00Z":            {6, 5, 4, 3, 2, 1},
		"since=9999-01-01T00:00:00Z":            {},
		"until=9999-01-01T00:00:00Z":            {6, 5, 4, 3, 2, 1},
		"until=1000-01-01T00:00:00Z":            {},
		"rule_id=" + ruleAccept.String():        {5, 1},
		"rule_id=" + ruleGone.String():          {6},
		"rule_id=" + uuid.NewString():           {},
		"src=192.0.2.1":                         {4, 2, 1},
		"src=192.0.2.0/23":                      {6, 4, 2, 1},
		"src=2001:db8::/32":                     {5, 3},
		"src=::ffff:192.0.2.1":                  {4, 2, 1},
		"dst=2001:db8:1::2":                     {5, 3},
		"dst=192.0.2.1":                         {},
		"src=0.0.0.0/0&dst=198.51.100.0/24":     {6, 4, 2, 1},
		"proto=udp":                             {3, 1},
		"proto=17":                              {3, 1},
		"proto=tcp":                             {2},
		"proto=icmp":                            {4},
		"proto=icmpv6":                          {5},
		"proto=47":                              {6},
		"proto=0":                               {},
		"port=53":                               {3, 2, 1},
		"port=4000":                             {3, 2, 1},
		"port=54":                               {},
		"interface=lan0":                        {6, 5, 4, 3, 2, 1},
		"interface=wan0":                        {4},
		"port=53&interface=lan0&proto=tcp":      {2},
		"zone=wan":                              {4},
		"zone=nowhere":                          {},
		"q=198.51":                              {6, 4, 2, 1},
		"q=2001:DB8:1:":                         {5, 3},
		"q=wan0":                                {4},
		"q=4000":                                {3, 2, 1},
		"q=ICMP":                                {5, 4},
		"q=Guests":                              {5, 1},
		"q=guests+udp":                          {1},
		"q=guests+tcp":                          {},
		"q=reject&proto=tcp":                    {2},
		"action=accept":                         {5, 1},
		"action=reject":                         {2},
		"action=drop":                           {4, 3},
		"action=drop&proto=icmp":                {4},
		"action=drop&src=192.0.2.1&limit=1":     {4},
		"action=accept&src=2001:db8::1&limit=9": {5},
		"action=accept&proto=tcp":               {},
		"rule_id=" + ruleAccept.String() + "&proto=udp&action=accept&src=192.0.2.1&dst=198.51.100.7&since=" + at(1) + "&until=" + at(1): {1},
	} {
		if got := sizes(b.read(t, "?"+query).Events); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
		// A stream begins with the same events, in reverse order.
		live := b.follow(t, "?"+query)
		if slices.Reverse(want); len(want) > 0 {
			if got := sizes(live.want(t, len(want))); !slices.Equal(got, want) {
				t.Errorf("%s: the stream has %v, want %v", query, got, want)
			}
		}
		live.close()
	}
}

func TestLogRefusesBadFilters(t *testing.T) {
	b := newLogBench(t)
	upgrade := []string{"Authorization", "Bearer viewer", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg=="}
	for _, query := range []string{
		"since=yesterday", "until=1769860800", "rule_id=7", "rule_id=drop-input", "src=nowhere", "src=192.0.2.1/33", "src=fe80::1%25eth0", "dst=192.0.2.1-192.0.2.9", "dst=lan0",
		"proto=gre", "proto=256", "proto=-1", "proto=TCP", "port=0", "port=65536", "port=http", "action=allow", "action=DROP", "limit=0", "limit=1001", "limit=-1", "limit=many", "limit=1.5",
	} {
		field, _, _ := strings.Cut(query, "=")
		b.get(t, "?"+query).WantField(t, field)
		a := kittest.Call(t, b.handler, http.MethodGet, "/firewall/log/live?"+query, nil, upgrade...).WantField(t, field)
		if len(a.Error.Fields) != 1 {
			t.Errorf("%s: complaints %v", query, a.Error.Fields)
		}
	}
	a := b.get(t, "?src=x&proto=x&limit=0").WantField(t, "src").WantField(t, "proto").WantField(t, "limit")
	if len(a.Error.Fields) != 3 {
		t.Errorf("complaints %v", a.Error.Fields)
	}
	kittest.Call(t, b.handler, http.MethodGet, "/firewall/log", nil).Want(t, 401)
}

func TestLogEventsLookAsDocumented(t *testing.T) {
	b := newLogBench(t)
	b.Ingest([]host.LoggedPacket{
		packet(60, "gateway:drop-input", func(p *host.LoggedPacket) { p.Proto = 6; p.Time = time.UnixMicro(1769860800000120) }),
		packet(61, "gateway:drop-forward", func(p *host.LoggedPacket) { p.OutIndex = 3; p.Proto = 1; p.SrcPort, p.DstPort = 0, 0 }),
		packet(62, prefixOf(ruleReject)),
		packet(63, prefixOf(ruleGone), func(p *host.LoggedPacket) { p.InIndex, p.OutIndex = 4, 99; p.Proto = 132 }),
		packet(64, prefixOf(ruleAccept), func(p *host.LoggedPacket) { p.InIndex = 0; p.Src, p.Dst = netip.Addr{}, netip.Addr{} }),
	}, 0)
	var page struct{ Events []json.RawMessage }
	b.get(t, "").Want(t, 200).Into(t, &page)
	slices.Reverse(page.Events)
	if want := `{"timestamp":"2026-01-31T12:00:00.000120Z","action":"drop","chain":"input","proto":"tcp","source":"192.0.2.1","destination":"198.51.100.7",` +
		`"source_port":4000,"destination_port":53,"interface":"lan0","size":60}`; string(page.Events[0]) != want {
		t.Errorf("default drop:\n%s, want\n%s", page.Events[0], want)
	}
	at := func(size int) time.Time { return logStart.Add(time.Duration(size) * time.Second) }
	for i, want := range []LogEvent{
		{Timestamp: time.UnixMicro(1769860800000120).UTC(), Action: "drop", Chain: "input", Proto: "tcp", Source: "192.0.2.1", Destination: "198.51.100.7", SourcePort: 4000, DestinationPort: 53, Interface: "lan0", Size: 60},
		{Timestamp: at(61), Action: "drop", Chain: "forward", Proto: "icmp", Source: "192.0.2.1", Destination: "198.51.100.7", Interface: "lan0", OutInterface: "wan0", Size: 61},
		{Timestamp: at(62), RuleID: ruleReject, Action: "reject", Proto: "udp", Source: "192.0.2.1", Destination: "198.51.100.7", SourcePort: 4000, DestinationPort: 53, Interface: "lan0", Size: 62},
		{Timestamp: at(63), RuleID: ruleGone, Proto: "132", Source: "192.0.2.1", Destination: "198.51.100.7", SourcePort: 4000, DestinationPort: 53, Interface: "a\"?\u2028", OutInterface: "#99", Size: 63},
		{Timestamp: at(64), RuleID: ruleAccept, Action: "accept", Proto: "udp", SourcePort: 4000, DestinationPort: 53, Size: 64},
	} {
		var got LogEvent
		strict := json.NewDecoder(bytes.NewReader(page.Events[i]))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&got); err != nil {
			t.Fatalf("%s: %v", page.Events[i], err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("event %d:\n%s", i, diff)
		}
		// The handwritten JSON has the same fields, in the same order, as the documented type.
		documented, err := wire.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(keys(t, documented), keys(t, page.Events[i])); diff != "" {
			t.Errorf("event %d has other fields:\n%s", i, diff)
		}
	}
}

// keys lists the names of an object in their order.
func keys(t *testing.T, object []byte) (names []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(object))
	for i := 0; ; i++ {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 && token != json.Delim('}') {
			names = append(names, token.(string))
		}
	}
}

func TestLogHoldsTheNewest(t *testing.T) {
	b := newLogBench(t)
	const n = logBacklog + 2345
	for i := 0; i < n; i += 335 {
		b.Ingest(numbered(i, min(335, n-i)), 0)
	}
	got := sizes(b.read(t, "").Events)
	if len(got) != 1000 || got[0] != n-1 || got[999] != n-1000 || !slices.IsSortedFunc(got, func(a, b int) int { return b - a }) {
		t.Errorf("%d events, %d to %d", len(got), got[0], got[len(got)-1])
	}
	if got := sizes(b.read(t, "?limit=3").Events); !slices.Equal(got, []int{n - 1, n - 2, n - 3}) {
		t.Errorf("the newest three are %v", got)
	}
}

func TestLogKeepsTheActionOfItsTime(t *testing.T) {
	action := "accept"
	l := NewLog(hosttest.New(), func() map[uint32]string { return nil }, logActions(func(uuid.UUID) string { return action }), clock.NewFake(logStart), slog.New(slog.DiscardHandler))
	for i, now := range []string{"accept", "drop", ""} { // changed, and then deleted
		action = now
		l.Ingest(numbered(i, 2), 0)
	}
	for query, want := range map[string]int{"accept": 2, "drop": 4} {
		f := LogFilter{Action: query}
		if found, _ := l.search(f.matcher(l.table)); len(found) != want {
			t.Errorf("%s: %d events, want %d", query, len(found), want)
		}
	}
}

func TestLogReadsTheNamesAgainOnlyWhenItMust(t *testing.T) {
	asked := 0
	c := clock.NewFake(logStart)
	links := map[uint32]string{2: "lan0"}
	l := NewLog(hosttest.New(), func() map[uint32]string { asked++; return links }, logActions(func(uuid.UUID) string { return "drop" }), c, slog.New(slog.DiscardHandler))
	newest := func(index uint32) string {
		l.Ingest([]host.LoggedPacket{packet(1, "gateway:drop-input", func(p *host.LoggedPacket) { p.InIndex = index })}, 0)
		return l.ring[l.next-1].in
	}
	step := func(what string, index uint32, name string, times int) {
		t.Helper()
		if got := newest(index); got != name || asked != times {
			t.Errorf("%s: %s, asked %d times; want %s and %d", what, got, asked, name, times)
		}
	}
	step("first", 2, `"lan0"`, 1)
	step("known", 2, `"lan0"`, 1)
	step("unknown at once", 7, `"#7"`, 1)
	c.Move(time.Second)
	step("unknown later", 7, `"#7"`, 2)
	step("unknown again", 7, `"#7"`, 2)
	links = map[uint32]string{2: "renamed", 7: "new"}
	c.Move(time.Second)
	step("there now", 7, `"new"`, 3)
	c.Move(time.Second)
	step("known again", 2, `"renamed"`, 3)
	c.Move(time.Minute)
	step("old", 2, `"renamed"`, 4)
}

func TestLogTakesNoHarmFromHostilePrefixes(t *testing.T) {
	b := newLogBench(t)
	id := ruleAccept.String()
	for i, prefix := range []string{
		"", "gateway", "gateway:", "gateway: ", "gateway:drop", "gateway:drop-output", "gateway:drop-input ", "gateway:DROP-INPUT", "gateway:\x00", "gateway:\xff\xfe",
		"gateway:" + strings.Repeat("x", 36), "gateway:" + strings.Repeat("-", 36), "gateway:" + strings.Repeat("a", 32), "gateway:" + strings.Repeat("z", 10000),
		"gateway:{" + id + "}", "gateway:urn:uuid:" + id, "gateway:" + strings.ReplaceAll(id, "-", ""), "gateway:" + id + "x", "gateway:" + id[:35], "gateway:" + id[:35] + "\"",
		"gateway:" + uuid.Nil.String(), "Gateway:" + id, " gateway:" + id, id, "[UFW BLOCK] ", `gateway:","x":"`,
	} {
		b.Ingest([]host.LoggedPacket{packet(i, prefix)}, 0)
	}
	if got := b.read(t, "").Events; len(got) != 0 {
		t.Errorf("not ours: %+v", got)
	}
	// Incomplete data from the kernel does no harm.
	b.Ingest([]host.LoggedPacket{{Prefix: "gateway:drop-input", Time: logStart}, {Prefix: prefixOf(ruleAccept), Time: logStart, InIndex: 1<<32 - 1, Size: -1}}, 1<<63)
	if got := b.read(t, "").Events; len(got) != 2 || got[1].Source != "" || got[1].Proto != "0" || got[0].Interface != "#4294967295" {
		t.Errorf("events %+v", got)
	}
	// An endless number of prefixes does not fill the memory.
	for i := range logOrigins + 10 {
		b.Ingest([]host.LoggedPacket{{Prefix: fmt.Sprintf("gateway:%d", i)}}, 0)
	}
	if len(b.origins) > logOrigins {
		t.Errorf("%d prefixes are remembered", len(b.origins))
	}
}

func TestLogIsEncodedOnce(t *testing.T) {
	b := newLogBench(t)
	b.Ingest(numbered(0, 3), 0)
	if b.encoded.slots != nil {
		t.Error("encoded before anybody read")
	}
	b.read(t, "?limit=1")
	if b.encoded.slots[2].json == nil || b.encoded.slots[1].json != nil {
		t.Error("encoded what nobody read")
	}
	b.encoded.slots[2].json = []byte(`{"size":4711}`)
	if got := sizes(b.read(t, "").Events); !slices.Equal(got, []int{4711, 1, 0}) {
		t.Errorf("the second reader got %v", got)
	}
}

func TestIngestAllocatesNothing(t *testing.T) {
	b := newLogBench(t)
	batch := numbered(0, 400)
	b.Ingest(batch, 0)
	if n := testing.AllocsPerRun(100, func() { b.Ingest(batch, 0) }); n > 0 {
		t.Errorf("%v allocations for a batch of %d", n, len(batch))
	}
}

func TestLogSaysWhyItCannotBeReadAndTriesAgain(t *testing.T) {
	b := newLogBench(t)
	if got := b.read(t, ""); got.Error == "" {
		t.Error("nobody reads the log, and the answer does not say so")
	}
	b.machine.FailPacketLog(errors.New("another program reads \"group\" 0"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { b.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	waittest.Until(t, "the error shows", func() bool { return b.read(t, "").Error == "another program reads \"group\" 0" })
	waittest.Until(t, "it is tried again", func() bool { b.clock.Move(logRetry); return b.machine.Asked(hosttest.PacketLog) >= 3 })
	b.machine.FailPacketLog(nil)
	waittest.Until(t, "it works again", func() bool { b.clock.Move(logRetry); return b.read(t, "").Error == "" })
	if !b.machine.LogPackets(packet(7, "gateway:drop-input")) {
		t.Fatal("nobody reads the log")
	}
	a := b.get(t, "").Want(t, 200)
	if strings.Contains(string(a.Data), `"error"`) || !strings.Contains(string(a.Data), `"size":7`) {
		t.Errorf("%s", a.Data)
	}
	cancel()
	<-done
	if n := strings.Count(b.logs.String(), "the packet log cannot be read"); n != 1 {
		t.Errorf("the same trouble is logged %d times", n)
	}
}

// readerOf returns the only reader.
func (b *logBench) readerOf() *logReader {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for r := range b.readers {
		return r
	}
	return nil
}

// watcher is a client of the live log.
type watcher struct {
	frames chan LogFrame
	held   []LogEvent
	last   LogFrame
	close  func()
}

// follow opens a stream with a query, and reads it in the background.
func (b *logBench) follow(t testing.TB, query string) *watcher {
	t.Helper()
	server := httptest.NewServer(b.handler)
	conn, _, err := websocket.Dial(t.Context(), server.URL+"/api/v1/firewall/log/live"+query, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer viewer"}}})
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(1 << 20)
	w := &watcher{frames: make(chan LogFrame, 1024)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, frame, err := conn.Read(context.Background())
			if err != nil {
				return
			}
			var f LogFrame
			if err := json.Unmarshal(frame, &f); err != nil {
				t.Errorf("%s: %v", frame, err)
				return
			}
			w.frames <- f
		}
	}()
	w.close = sync.OnceFunc(func() { conn.CloseNow(); <-done; server.Close() })
	t.Cleanup(w.close)
	// The stream gathers on the clock of the test, which nobody else moves in the meantime.
	waittest.Until(t, "the stream is there", func() bool { b.mu.RLock(); defer b.mu.RUnlock(); return len(b.readers) > 0 })
	ticker := make(chan struct{})
	ticking := make(chan struct{})
	go func() {
		defer close(ticking)
		for {
			select {
			case <-ticker:
				return
			case <-time.After(time.Millisecond):
				b.clock.Move(logGather)
			}
		}
	}()
	closing := w.close
	w.close = sync.OnceFunc(func() { close(ticker); <-ticking; closing() })
	t.Cleanup(w.close)
	return w
}

// want waits for n events.
func (w *watcher) want(t testing.TB, n int) []LogEvent {
	t.Helper()
	for timeout := time.After(time.Minute); len(w.held) < n; {
		select {
		case w.last = <-w.frames:
			w.held = append(w.held, w.last.Events...)
		case <-timeout:
			t.Fatalf("%d events instead of %d", len(w.held), n)
		}
	}
	events := w.held
	w.held = nil
	return events
}

func TestLiveSnapshotThenStreamWithoutGap(t *testing.T) {
	b := newLogBench(t)
	b.Ingest(numbered(0, 1500), 0)
	stop, done := make(chan struct{}), make(chan struct{})
	var sent atomic.Int64
	sent.Store(1500)
	go func() { // events keep coming while readers come
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
				n := int(sent.Load())
				b.Ingest(numbered(n, 7), 0)
				sent.Store(int64(n + 7))
			}
		}
	}()
	var readers sync.WaitGroup
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		before := int(sent.Load())
		next, first := -1, true
		readers.Go(func() {
			err := b.Follow(ctx, LogFilter{}, func(f wire.Encoded[LogFrame]) error {
				var frame LogFrame
				if err := json.Unmarshal(f, &frame); err != nil {
					return err
				}
				for _, e := range frame.Events {
					if first {
						first = false
						if e.Size > before || e.Size < before-1000 {
							t.Errorf("the snapshot of %d events begins with %d", before, e.Size)
						}
						next = e.Size
					}
					if e.Size != next {
						return fmt.Errorf("event %d instead of %d", e.Size, next)
					}
					next++
				}
				if frame.Dropped > 0 {
					return fmt.Errorf("dropped %d", frame.Dropped)
				}
				if next > before+500 {
					cancel()
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	close(stop)
	<-done
}

func TestLiveFramesAreFilledOrWait(t *testing.T) {
	b := newLogBench(t)
	frames := make(chan LogFrame)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- b.Follow(ctx, LogFilter{Action: "accept"}, func(f wire.Encoded[LogFrame]) error {
			var frame LogFrame
			if err := json.Unmarshal(f, &frame); err != nil {
				return err
			}
			frames <- frame
			return nil
		})
	}()
	waittest.Until(t, "the reader is there", func() bool { b.mu.RLock(); defer b.mu.RUnlock(); return len(b.readers) == 1 })
	// The clock stands still: nothing is sent before the frame is full, and then everything at once. Excluded events do not fill a frame.
	for i := range 64 {
		b.Ingest([]host.LoggedPacket{packet(1000+i, "gateway:drop-input"), packet(i, prefixOf(ruleAccept))}, 0)
	}
	if f := <-frames; len(f.Events) != 64 || f.Events[0].Size != 0 || f.Events[63].Size != 63 || f.Dropped != 0 {
		t.Fatalf("frame of %d events: %v", len(f.Events), sizes(f.Events))
	}
	// More than one frame is sent at once, too; the rest waits for the clock.
	b.Ingest(numbered(64, 130), 0)
	for i := range 2 {
		if f := <-frames; len(f.Events) != 64 || f.Events[0].Size != 64+i*64 {
			t.Fatalf("frame of %d events: %v", len(f.Events), sizes(f.Events))
		}
	}
	b.Ingest(numbered(194, 1), 0)
	waittest.Until(t, "the reader has seen it", func() bool { return len(b.readerOf().wake) == 0 })
	for rest := (LogFrame{}); rest.Events == nil; {
		b.clock.Move(logGather)
		select {
		case rest = <-frames:
			if got := sizes(rest.Events); !slices.Equal(got, []int{192, 193, 194}) {
				t.Fatalf("the rest is %v", got)
			}
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(b.readers) != 0 {
		t.Error("the reader is still there")
	}
}

func TestLiveSlowReaderLosesAndAFastOneDoesNot(t *testing.T) {
	b := newLogBench(t)
	fast := b.follow(t, "")
	var slow []LogFrame
	held, free := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	const total = 3 * logBacklog
	go func() {
		done <- b.Follow(ctx, LogFilter{}, func(f wire.Encoded[LogFrame]) error {
			var frame LogFrame
			if err := json.Unmarshal(f, &frame); err != nil {
				return err
			}
			if len(slow) == 0 {
				close(held)
				<-free // a connection that is stuck
			}
			slow = append(slow, frame)
			if last := frame.Events[len(frame.Events)-1]; last.Size == total-1 {
				cancel()
			}
			return nil
		})
	}()
	waittest.Until(t, "both are there", func() bool { b.mu.RLock(); defer b.mu.RUnlock(); return len(b.readers) == 2 })
	const step = 512
	for n := 0; n < total; n += step {
		b.Ingest(numbered(n, step), 0)
		for i, e := range fast.want(t, step) {
			if e.Size != n+i {
				t.Fatalf("the fast reader got %d instead of %d", e.Size, n+i)
			}
		}
	}
	if fast.last.Dropped != 0 {
		t.Errorf("the fast reader lost %d", fast.last.Dropped)
	}
	<-held
	close(free)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	got, next := 0, 0
	for _, f := range slow {
		if len(f.Events) > logFrame {
			t.Errorf("a frame of %d events", len(f.Events))
		}
		got += len(f.Events)
		for _, e := range f.Events {
			if e.Size < next {
				t.Fatalf("event %d after %d", e.Size, next)
			}
			next = e.Size + 1
		}
	}
	if dropped := int(slow[len(slow)-1].Dropped); dropped != total-logFrame-logBacklog || got+dropped != total {
		t.Errorf("the slow reader got %d and was told that it lost %d of %d", got, dropped, total)
	}
}

// TestLogOfRealPackets covers the whole path: kernel rules, packets, the API.
func TestLogOfRealPackets(t *testing.T) {
	machine, err := machine.New(machine.Options{Units: units.None{Reason: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	table := host.Input{Staged: []host.File{{Place: nftables.Table, Content: []byte(`
table inet gateway
delete table inet gateway
table inet gateway {
	chain input {
		type filter hook input priority 0; policy accept;
		udp dport 4001 log prefix "` + prefixOf(ruleAccept) + `" group 0 accept
		tcp dport 4002 log prefix "` + prefixOf(ruleReject) + `" group 0 reject with tcp reset
		udp dport 4003 log prefix "gateway:drop-input" group 0 drop
	}
}
`)}}}
	if _, err := machine.Run(t.Context(), nftables.Load, table); err != nil {
		t.Fatal(err)
	}
	names := func() map[uint32]string {
		links, err := machine.Links(t.Context())
		if err != nil {
			t.Error(err)
		}
		byIndex := map[uint32]string{}
		for _, l := range links {
			byIndex[uint32(l.Index)] = l.Name
		}
		return byIndex
	}
	actions := map[uuid.UUID]string{ruleAccept: "accept", ruleReject: "reject"}
	b := kittest.New(t)
	l := NewLog(machine, names, logActions(func(rule uuid.UUID) string { return actions[rule] }), clock.Real, b.Kit.Log)
	l.Mount(b.Router)
	b.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { l.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	read := func() (page LogPage) {
		b.Do(t, "viewer", http.MethodGet, "/firewall/log", nil).Want(t, 200).Into(t, &page)
		return page
	}
	waittest.Until(t, "the log is open", func() bool { return read().Error == "" })

	server := httptest.NewServer(b.Handler())
	t.Cleanup(server.Close)
	conn, _, err := websocket.Dial(t.Context(), server.URL+"/api/v1/firewall/log/live?action=drop", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer viewer"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()

	for _, addr := range []string{"127.0.0.1:4001", "[::1]:4003"} {
		c, err := net.Dial("udp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("hello")); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatal(err)
		}
		c.Close()
	}
	if c, err := net.Dial("tcp", "127.0.0.1:4002"); err == nil {
		c.Close()
		t.Fatal("the connection was not rejected")
	}
	reading, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	_, frame, err := conn.Read(reading)
	if err != nil {
		t.Fatal(err)
	}
	var live LogFrame
	if err := json.Unmarshal(frame, &live); err != nil || len(live.Events) != 1 || live.Events[0].Source != "::1" || live.Events[0].Action != "drop" {
		t.Errorf("live: %s, %v", frame, err)
	}
	waittest.Until(t, "three events", func() bool { return len(read().Events) == 3 })
	events := read().Events
	slices.Reverse(events)
	for i, e := range events {
		if time.Since(e.Timestamp).Abs() > time.Minute || e.SourcePort == 0 {
			t.Errorf("%+v", e)
		}
		events[i].Timestamp, events[i].SourcePort = time.Time{}, 0
	}
	want := []LogEvent{
		{RuleID: ruleAccept, Action: "accept", Proto: "udp", Source: "127.0.0.1", Destination: "127.0.0.1", DestinationPort: 4001, Interface: "lo", Size: 33},
		{Action: "drop", Chain: "input", Proto: "udp", Source: "::1", Destination: "::1", DestinationPort: 4003, Interface: "lo", Size: 53},
		{RuleID: ruleReject, Action: "reject", Proto: "tcp", Source: "127.0.0.1", Destination: "127.0.0.1", DestinationPort: 4002, Interface: "lo", Size: 60},
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkIngest(b *testing.B) {
	bench := newLogBench(b)
	batch := numbered(0, 400)
	b.ReportAllocs()
	for b.Loop() {
		bench.Ingest(batch, 0)
	}
	b.ReportMetric(float64(b.N)*400/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkEncode(b *testing.B) {
	bench := newLogBench(b)
	bench.Ingest(numbered(0, 1), 0)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = bench.ring[0].append(buf[:0])
	}
}
