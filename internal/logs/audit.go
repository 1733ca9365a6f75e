package logs

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/host"
)

// auditPage is how many entries of the audit log are read at once.
const auditPage = 250

// readAudit reads the audit log by time.
func (r *Room) readAudit(ctx context.Context, f filter, who actor.Actor, from string, emit func(step)) error {
	before, id := f.until, uuid.Max
	if from != "" {
		at, text, _ := strings.Cut(from, "/")
		var err, bad error
		before, err = time.Parse(time.RFC3339Nano, at)
		id, bad = uuid.Parse(text)
		if err != nil || bad != nil {
			return errPlace
		}
	}
	for {
		entries, err := r.Audit.Backward(ctx, f.since, before, id, auditPage)
		if err != nil {
			return err
		}
		s := step{}
		for _, e := range entries {
			before, id = e.CreatedAt, e.ID
			s.at, s.place = e.CreatedAt, e.CreatedAt.UTC().Format(time.RFC3339Nano)+"/"+e.ID.String()
			if entry, level := done(r.Audit.VisibleTo(who, e)); f.wants(entry.Text, level) {
				s.entries = append(s.entries, found{entry, s.place})
			}
		}
		if len(entries) > 0 {
			emit(s)
		}
		if len(entries) < auditPage || ctx.Err() != nil {
			return nil
		}
	}
}

func done(e audit.Entry) (Entry, host.Level) {
	level := host.LevelInfo
	if strings.HasSuffix(e.Action, ".failed") {
		level = host.LevelWarn
	}
	entry := Entry{
		ID: "audit/" + e.ID.String(), Time: e.CreatedAt.UTC(), Source: "audit", Level: levels[level],
		Text:   host.Readable([]byte(strings.TrimSpace(e.Actor + " " + e.Action + " " + e.Subject))),
		Fields: map[string]string{"audit_id": e.ID.String()},
	}
	for name, value := range map[string]string{"actor": e.Actor, "action": e.Action, "subject": e.Subject, "request_id": e.RequestID, "node": e.NodeID} {
		if value != "" {
			entry.Fields[name] = host.Readable([]byte(value))
		}
	}
	return entry, level
}

func (f filter) wants(text string, level host.Level) bool {
	if level > f.level {
		return false
	}
	for _, w := range f.words {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(w)) {
			return false
		}
	}
	return true
}

// auditRetry is how long a stream waits for the database.
const auditRetry = 2 * time.Second

// followAudit sends new audit entries. While the database is away, the stream continues without them.
func (r *Room) followAudit(ctx context.Context, f filter, who actor.Actor, emit func(Entry)) error {
	// Sent entries come again when the database is back.
	sent, last := map[uuid.UUID]bool{}, make([]uuid.UUID, 0, 2*liveLimit)
	for ctx.Err() == nil {
		_ = r.Audit.Follow(ctx, liveLimit, func(e audit.Entry) error {
			if e.CreatedAt.Before(f.since) || sent[e.ID] {
				return nil
			}
			if len(last) == cap(last) {
				delete(sent, last[0])
				last = append(last[:0], last[1:]...)
			}
			sent[e.ID], last = true, append(last, e.ID)
			if entry, level := done(r.Audit.VisibleTo(who, e)); f.wants(entry.Text, level) {
				emit(entry)
			}
			return nil
		})
		select {
		case <-ctx.Done():
		case <-r.Clock.After(auditRetry):
		}
	}
	return nil
}
