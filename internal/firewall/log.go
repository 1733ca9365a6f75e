package firewall

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/wire"
)

const (
	// logHistory is how many events a query can return.
	logHistory = 1000
	// logBacklog is how far a live reader may fall behind before it loses events. The ring includes the history.
	logBacklog = 1 << 14
	// logRetry is the pause before the log is read again after a failure.
	logRetry = 5 * time.Second
	// logOrigins limits the cache of prefixes; no table has that many logging rules.
	logOrigins = 1 << 16
	// linksFresh is the maximum age of the interface names, and linksUnknown their maximum age if one is missing: the packets of a
	// deleted interface must not each cause a read.
	linksFresh, linksUnknown = time.Minute, time.Second
	// lostEvery is how often a loss is reported.
	lostEvery = time.Minute
)

// Log is the log of the packet filter. It follows what rules log, and keeps the newest events for queries and live readers. Events arrive
// far faster than anybody reads, so taking one in allocates nothing, and its JSON is made once, when the first reader wants it.
type Log struct {
	source host.Filter
	names  func() map[uint32]string
	table  LogTable
	clock  clock.Clock
	log    *slog.Logger

	// ingesting guards the conversion of packets into events. No reader ever takes it.
	ingesting sync.Mutex
	events    []logEvent // of the current batch
	batches   uint64
	origins   map[string]*logPrefix
	links     map[uint32]logLink
	linksRead time.Time
	lost      uint64
	lostSaid  time.Time

	// mu guards the ring. Event n is at n % logBacklog; the newest is next-1.
	mu      sync.RWMutex
	ring    []logEvent
	next    uint64
	readers map[*logReader]struct{}
	failure string // why the log cannot be read; empty if it can

	encoded logEncoder
}

// LogTable describes the table whose rules log.
type LogTable struct {
	// Action returns what a rule does with a packet; empty if the rule is unknown. It is called once for many packets.
	Action func(rule uuid.UUID) string
	// Named returns the rules whose name contains a word in lower case.
	Named func(word string) map[uuid.UUID]bool
	// Members returns the interfaces of a zone.
	Members func(zone value.Zone) []value.IfName
}

// logPrefix caches a prefix of logged packets.
type logPrefix struct {
	origin *logOrigin // nil if it is not one of ours
	batch  uint64     // the batch for which the rule's action was last looked up
}

// logLink is the name of an interface as JSON.
type logLink struct {
	json  string
	known bool
}

// NewLog returns a log of the source. names returns the names of the interfaces by index, and is called once for many packets.
func NewLog(source host.Filter, names func() map[uint32]string, table LogTable, c clock.Clock, log *slog.Logger) *Log {
	return &Log{
		source: source, names: names, table: table, clock: c, log: log,
		origins: map[string]*logPrefix{}, ring: make([]logEvent, logBacklog), readers: map[*logReader]struct{}{},
		failure: "the packet log has not been opened yet",
	}
}

// Run follows the packet log until the context ends. If it cannot be read, readers learn why, and it tries again.
func (l *Log) Run(ctx context.Context) {
	for {
		err := l.source.PacketLog(ctx, l.Ingest)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the packet log has ended")
		}
		if l.setFailure(err.Error()) {
			l.log.Warn("the packet log cannot be read", "component", "packet-filter", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-l.clock.After(logRetry):
		}
	}
}

// setFailure stores why the log cannot be read, and reports whether that is news.
func (l *Log) setFailure(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	news := l.failure != text
	l.failure = text
	return news
}

// Ingest takes in a batch of logged packets without keeping it. lost is the number of packets lost before it. An empty batch means that
// the log is being read.
func (l *Log) Ingest(batch []host.LoggedPacket, lost uint64) {
	l.ingesting.Lock()
	defer l.ingesting.Unlock()
	now := l.clock.Now()
	l.batches++
	l.events = l.events[:0]
	for i := range batch {
		p := &batch[i]
		origin := l.origin(p.Prefix)
		if origin == nil {
			continue
		}
		l.events = append(l.events, logEvent{
			at: p.Time.UnixNano(), origin: origin, proto: p.Proto, src: p.Src, dst: p.Dst, srcPort: p.SrcPort, dstPort: p.DstPort,
			in: l.link(p.InIndex, now), out: l.link(p.OutIndex, now), size: p.Size,
		})
	}
	l.reportLoss(lost, now)
	l.publish()
}

// publish moves the current batch into the ring, and wakes the live readers.
func (l *Log) publish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = ""
	for i := range l.events {
		l.ring[l.next%logBacklog] = l.events[i]
		l.next++
	}
	if len(l.events) == 0 {
		return
	}
	for r := range l.readers {
		select {
		case r.wake <- struct{}{}:
		default: // already woken
		}
	}
}

// origin looks up a prefix. Other programs may log to the same group: their prefixes have a nil origin.
func (l *Log) origin(prefix string) *logOrigin {
	known := l.origins[prefix]
	if known == nil {
		if len(l.origins) >= logOrigins {
			clear(l.origins)
		}
		known = &logPrefix{origin: parseOrigin(prefix)}
		l.origins[strings.Clone(prefix)] = known
	}
	if o := known.origin; o != nil && o.rule != uuid.Nil && known.batch != l.batches {
		known.batch = l.batches
		// Packets of a rule that was just deleted may still arrive: they keep its last action.
		if now := l.table.Action(o.rule); now != "" && now != o.action {
			known.origin = newOrigin(o.rule, now, "")
		}
	}
	return known.origin
}

// link returns the name of an interface as JSON, empty if there is none; a deleted interface is named by its number.
func (l *Log) link(index uint32, now time.Time) string {
	if index == 0 {
		return ""
	}
	link, there := l.links[index]
	if age := now.Sub(l.linksRead); l.links == nil || age >= linksFresh || !link.known && age >= linksUnknown {
		l.links, l.linksRead = map[uint32]logLink{}, now
		for i, name := range l.names() {
			l.links[i] = logLink{json: quoted(name), known: true}
		}
		link, there = l.links[index]
	}
	if !there {
		link = logLink{json: quoted("#" + strconv.FormatUint(uint64(index), 10))}
		l.links[index] = link
	}
	return link.json
}

func (l *Log) reportLoss(lost uint64, now time.Time) {
	l.lost += lost
	if l.lost > 0 && now.Sub(l.lostSaid) >= lostEvery {
		l.log.Warn("logged packets were lost", "component", "packet-filter", "packets", l.lost)
		l.lost, l.lostSaid = 0, now
	}
}

type LogPage struct {
	Events []LogEvent `json:"events" doc:"The events that match, newest first."`
	Error  string     `json:"error,omitempty" doc:"Why the log cannot be read now; absent while it can."`
}

func (l *Log) Mount(r *httpd.Router) {
	httpd.Handle(r, http.MethodGet, "/firewall/log", httpd.Read, tag.Doc("firewall.log", "The latest 1000 matching events of the firewall log, newest first"),
		func(_ *httpd.Call, f LogFilter) (wire.Encoded[LogPage], error) { return l.page(f) })
	httpd.Stream(r, "/firewall/log/live", httpd.Read, tag.Doc("firewall.log.live", "The newest events of the packet filter's log that match, oldest first, and then each new one"), l.Follow)
}

// page encodes the newest matching events.
func (l *Log) page(f LogFilter) (wire.Encoded[LogPage], error) {
	found, failure := l.search(f.matcher(l.table))
	b := append(make([]byte, 0, 256*len(found)+64), `{"events":[`...)
	b = append(l.encoded.append(b, found), ']')
	if failure != "" {
		text, err := wire.Encode(failure)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"error":`...), text...)
	}
	return append(b, '}'), nil
}

// search returns the newest matching events, newest first, and why the log cannot be read.
func (l *Log) search(m logMatcher) (found []numberedEvent, failure string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for n := l.next; n > l.history() && len(found) < m.limit; n-- {
		if e := &l.ring[(n-1)%logBacklog]; m.matches(e) {
			found = append(found, numberedEvent{n - 1, *e})
		}
	}
	return found, l.failure
}

// history returns the number of the oldest event for queries; oldest that of the oldest event in the ring.
func (l *Log) history() uint64 { return l.next - min(l.next, logHistory) }
func (l *Log) oldest() uint64  { return l.next - min(l.next, logBacklog) }
