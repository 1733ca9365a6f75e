package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/rescue"
	"edge.internal/gateway/internal/waf/engine"
)

const (
	// maxRecords is how many records may wait for the database, and maxWaiting their maximum size in bytes, including their requests.
	maxRecords = 2048
	maxWaiting = 16 << 20
	// perWrite is the number of records per transaction.
	perWrite = 200
	// keptPerMinute limits the requests kept per rule and domain, so that a scan cannot fill the table.
	keptPerMinute = 20
	// writeAgain is the pause after a failure, and tries how often the writer tries a record that the database, although available, does
	// not accept.
	writeAgain = time.Second
	tries      = 5
	// lastWrite is how long the writer continues when the program ends.
	lastWrite = 3 * time.Second

	// alertChannel is where new records are announced, with their ids unless there are too many.
	alertChannel = "waf_alerts"
	announced    = 50
)

// Actions taken on a request.
const (
	Detected = "detected"
	Blocked  = "blocked"
)

// event is a request to be recorded.
type event struct {
	at      time.Time
	request engine.Request // without header and body unless it is kept
	host    string
	verdict engine.Verdict
	kept    bool
	size    int // in memory
	failed  int // how often writing it failed
	ids     []uuid.UUID
}

// quota identifies a counter of the requests kept for a rule of a domain.
type quota struct {
	domain string
	rule   int
}

// Recorder stores what the engine found. Nothing waits for it: what it cannot take is dropped and counted.
type Recorder struct {
	db    *db.DB
	clock clock.Clock
	log   *slog.Logger
	lines *Lines

	mu      sync.Mutex
	queue   []*event
	records int
	waiting int
	minute  time.Time
	kept    map[quota]int

	wake    chan struct{}
	dropped atomic.Uint64
	away    bool // the log already says that nothing can be written
}

// NewRecorder returns a recorder that also adds blocked requests to the lines.
func NewRecorder(d *db.DB, c clock.Clock, lines *Lines, log *slog.Logger) *Recorder {
	return &Recorder{db: d, clock: c, lines: lines, log: log, kept: map[quota]int{}, wake: make(chan struct{}, 1)}
}

// Dropped returns how many records were lost.
func (r *Recorder) Dropped() uint64 { return r.dropped.Load() }

// Record takes a verdict. It does not keep the request.
func (r *Recorder) Record(request *engine.Request, v *engine.Verdict) {
	e := &event{at: r.clock.Now(), host: strings.Clone(host(request.Header)), verdict: *v, ids: make([]uuid.UUID, len(v.Matches))}
	for i := range e.ids {
		e.ids[i] = uuid.Must(uuid.NewV7())
	}
	if v.Deny && !v.Response { // what a server leaks is not its client's fault
		r.lines.Add(Line{Time: e.at, Client: request.Source.Addr(), Action: Blocked, ID: request.ID, Domain: e.host, Rule: v.Rule})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.records+len(v.Matches) > maxRecords {
		r.dropped.Add(uint64(len(v.Matches)))
		return
	}
	e.size = size(request, v)
	if !v.Response && r.waiting+e.size <= maxWaiting && r.wanted(e.at, request.Domain, v.Matches) {
		e.kept, e.request = true, clone(request)
		r.waiting += e.size
	} else {
		e.request = outline(request)
		if e.size = size(&e.request, v) + len(e.host); r.waiting+e.size > maxWaiting {
			r.dropped.Add(uint64(len(v.Matches)))
			return
		}
		r.waiting += e.size
	}
	r.records += len(v.Matches)
	r.queue = append(r.queue, e)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// size returns the memory used by a waiting request and its findings.
func size(r *engine.Request, v *engine.Verdict) int {
	n := len(r.URI) + min(len(r.Body), keptBody)
	for _, f := range r.Header {
		n += len(f.Name) + len(f.Value)
	}
	for _, m := range v.Matches {
		for _, d := range m.Data {
			n += len(d.Key) + len(d.Value)
		}
	}
	return n
}

// wanted reports whether to keep a request, and counts it for the rule with the fewest. The caller holds the lock.
func (r *Recorder) wanted(now time.Time, domain string, matches []engine.Match) bool {
	if minute := now.Truncate(time.Minute); !minute.Equal(r.minute) {
		r.minute = minute
		clear(r.kept)
	}
	fewest := quota{}
	for _, m := range matches {
		if q := (quota{domain, m.Rule}); fewest.domain == "" || r.kept[q] < r.kept[fewest] {
			fewest = q
		}
	}
	if len(matches) == 0 || r.kept[fewest] >= keptPerMinute {
		return false
	}
	r.kept[fewest]++
	return true
}

// Run writes until the context ends, and then the rest if that does not take long.
func (r *Recorder) Run(ctx context.Context) {
	telling := make(chan struct{})
	go func() {
		defer close(telling)
		r.lines.run(ctx)
	}()
	defer func() { <-telling }()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
			defer cancel()
			for r.write(last) && last.Err() == nil {
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.records > 0 {
				r.log.Error("records are lost because they could not be written before the program ended", "records", r.records)
			}
			return
		case <-r.wake:
		}
		for ctx.Err() == nil && r.left() {
			if !r.write(ctx) {
				select {
				case <-ctx.Done():
				case <-r.clock.After(writeAgain):
				}
			}
		}
	}
}

func (r *Recorder) left() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue) > 0
}

// write stores the oldest events in one transaction. It returns false if there is nothing to write, or no point in continuing at once.
func (r *Recorder) write(ctx context.Context) (ok bool) {
	r.mu.Lock()
	n, records := 0, 0
	for n < len(r.queue) && (n == 0 || records+len(r.queue[n].verdict.Matches) <= perWrite) {
		records += len(r.queue[n].verdict.Matches)
		n++
	}
	batch := r.queue[:n:n]
	r.mu.Unlock()
	if n == 0 {
		return false
	}
	err := r.store(ctx, batch)
	if err == nil {
		r.done(batch, batch)
		if r.away {
			r.away = false
			r.log.Info("records are written again")
		}
		return true
	}
	if !r.away {
		r.away = true
		r.log.Warn("records cannot be written", "err", err)
	}
	if db.Away(err) || db.Unknown(err) || db.Stalled(err) || ctx.Err() != nil {
		return false
	}
	// One of them may be to blame: the others must not be lost with it.
	var gone []*event
	for _, e := range batch {
		if err := r.store(ctx, []*event{e}); err == nil {
			gone = append(gone, e)
		} else if e.failed++; e.failed >= tries {
			r.log.Error("records cannot be written and are dropped", "request", e.request.ID, "err", err)
			r.dropped.Add(uint64(len(e.verdict.Matches)))
			gone = append(gone, e)
		}
	}
	r.done(batch, gone)
	return false
}

// done removes events from the queue: those of the batch, its beginning, that are gone.
func (r *Recorder) done(batch, gone []*event) {
	over := make(map[*event]bool, len(gone))
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range gone {
		over[e] = true
		r.records -= len(e.verdict.Matches)
		r.waiting -= e.size
	}
	var next []*event
	for _, e := range batch {
		if !over[e] {
			next = append(next, e)
		}
	}
	r.queue = append(next, r.queue[len(batch):]...)
}

// store writes and announces events in one transaction. Events that were stored although it did not seem so are not stored again.
func (r *Recorder) store(ctx context.Context, batch []*event) (err error) {
	defer rescue.Into(&err, r.log, "waf")
	return r.db.Write(ctx, func(tx *db.Tx) error {
		var ids []string
		for _, e := range batch {
			domain, uri := domainID(e.request.Domain), recordURI(e.request.URI)
			for i, m := range e.verdict.Matches {
				id := e.ids[i]
				ids = append(ids, id.String())
				data, err := json.Marshal(found(m.Data))
				if err != nil {
					return err
				}
				action := Detected
				if e.verdict.Deny {
					action = Blocked
				}
				tags := m.Tags
				if tags == nil {
					tags = []string{}
				}
				tx.Queue(`INSERT INTO waf_alerts (id, created_at, request_id, domain_id, domain, rule_id, severity, action, message, method, uri,
					client_ip, score, paranoia, tags, data, partial, deciding)
					VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16::jsonb, $17, $18) ON CONFLICT DO NOTHING`,
					id, e.at, plain(e.request.ID, recordedName), domain, e.host, m.Rule, m.Severity, action, m.Message, plain(e.request.Method, recordedName), uri,
					e.request.Source.Addr(), e.verdict.Score, m.Paranoia, tags, string(data), e.verdict.Partial, m.Deciding)
			}
			if !e.kept {
				continue
			}
			k := keep(&e.request)
			tx.Queue(`INSERT INTO waf_requests (request_id, created_at, domain_id, method, uri, version, headers, body, body_truncated, masked)
				VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb, $8, $9, $10) ON CONFLICT DO NOTHING`,
				plain(e.request.ID, recordedName), e.at, domain, k.method, k.uri, k.version, string(k.header), k.body, k.cut, k.masked)
		}
		payload := ""
		if len(ids) <= announced {
			payload = strings.Join(ids, ",")
		}
		if len(ids) > 0 {
			tx.Queue("SELECT pg_notify($1, $2)", alertChannel, payload)
		}
		return nil
	})
}

// domainID returns a domain's id for the database; null if it has none.
func domainID(name string) *uuid.UUID {
	id, err := uuid.Parse(name)
	if err != nil {
		return nil
	}
	return &id
}

func host(header []engine.Field) string {
	for _, f := range header {
		if strings.EqualFold(f.Name, "host") {
			return plain(f.Value, recordedName)
		}
	}
	return ""
}

// datum is a matched part of a request, as stored.
type datum struct {
	Variable string `json:"variable"`
	Key      string `json:"key"`
	Value    string `json:"value"`
	Masked   bool   `json:"masked"`
}

func found(data []engine.Datum) []datum {
	list := make([]datum, len(data))
	for i, d := range data {
		list[i] = datum(d)
	}
	return list
}
