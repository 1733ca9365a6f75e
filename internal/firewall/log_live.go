package firewall

import (
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/wire"
)

const (
	// logFrame is the maximum number of events in a frame: one frame per event would cost a reader ten times as much.
	logFrame = 64
	// logGather is how long an event waits for others to fill its frame.
	logGather = 50 * time.Millisecond
	// logScan is how many events a reader checks before it lets the ingest continue.
	logScan = 512
)

// LogFrame is one message of the live log.
type LogFrame struct {
	Events  []LogEvent `json:"events" doc:"Up to 64 events that match, oldest first."`
	Dropped uint64     `json:"dropped" doc:"How many events this reader was too slow for since the stream began; with a filter, they might not all have matched."`
}

// logReader is a live reader. It walks the ring at its own pace, and only it misses what the ring overwrites before it gets there.
// Snapshot and stream are one walk, so there is no gap and no duplicate between them.
type logReader struct {
	wake     chan struct{}
	matcher  logMatcher
	next     uint64          // the next event to check
	waiting  []numberedEvent // for their frame
	dropped  uint64
	reported uint64 // how many dropped events the reader was told about
	frame    []byte
}

// Follow sends the matching events of the history, oldest first, and then each new one, until the context ends or send fails.
func (l *Log) Follow(ctx context.Context, f LogFilter, send func(wire.Encoded[LogFrame]) error) error {
	r := l.subscribe(f.matcher(l.table))
	defer l.unsubscribe(r)
	var due <-chan time.Time
	for {
		l.gather(r)
		if len(r.waiting) == logFrame {
			due = nil
			if err := send(l.pack(r)); err != nil {
				return err
			}
			continue
		}
		if due == nil && (len(r.waiting) > 0 || r.dropped > r.reported) {
			due = l.clock.After(logGather)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.wake:
		case <-due:
			due = nil
			if err := send(l.pack(r)); err != nil {
				return err
			}
		}
	}
}

// Drops passes on the packets that were dropped and logged, like Follow, until the context ends.
func (r *Room) Drops(ctx context.Context, send func([]LogEvent)) error {
	return r.log.Follow(ctx, LogFilter{Action: "drop"}, func(f wire.Encoded[LogFrame]) error {
		var frame LogFrame
		if err := json.Unmarshal(f, &frame); err != nil {
			return err
		}
		send(frame.Events)
		return nil
	})
}

// subscribe starts a reader at the first event of its snapshot.
func (l *Log) subscribe(m logMatcher) *logReader {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &logReader{wake: make(chan struct{}, 1), matcher: m, next: l.next, waiting: make([]numberedEvent, 0, logFrame)}
	for n, found := l.next, 0; n > l.history() && found < m.limit; n-- {
		if m.matches(&l.ring[(n-1)%logBacklog]) {
			r.next = n - 1
			found++
		}
	}
	l.readers[r] = struct{}{}
	return r
}

func (l *Log) unsubscribe(r *logReader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.readers, r)
}

// gather walks on until a frame is full or the reader is up to date.
func (l *Log) gather(r *logReader) {
	for more := true; more && len(r.waiting) < logFrame; {
		more = l.walk(r)
	}
}

// walk lets the reader check some events, and reports whether there are more.
func (l *Log) walk(r *logReader) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if oldest := l.oldest(); r.next < oldest {
		r.dropped += oldest - r.next
		r.next = oldest
	}
	for end := min(l.next, r.next+logScan); r.next < end && len(r.waiting) < logFrame; r.next++ {
		if e := &l.ring[r.next%logBacklog]; r.matcher.matches(e) {
			r.waiting = append(r.waiting, numberedEvent{r.next, *e})
		}
	}
	return r.next < l.next
}

// pack encodes the waiting events as a frame, which is valid until the next call.
func (l *Log) pack(r *logReader) wire.Encoded[LogFrame] {
	r.frame = append(r.frame[:0], `{"events":[`...)
	r.frame = l.encoded.append(r.frame, r.waiting)
	r.frame = strconv.AppendUint(append(r.frame, `],"dropped":`...), r.dropped, 10)
	r.frame = append(r.frame, '}')
	r.waiting, r.reported = r.waiting[:0], r.dropped
	return r.frame
}
