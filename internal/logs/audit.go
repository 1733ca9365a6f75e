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

// readAudit reads the audit log by the time of what was done.
func (r *Room) readAudit(ctx context.Context, f filter, who actor.Actor, from string, tell func(step)) error {
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
			if shown, level := done(r.Audit.Shown(who, e)); f.wants(shown.Text, level) {
				s.entries = append(s.entries, found{shown, s.place})
			}
		}
		if len(entries) > 0 {
			tell(s)
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

// wants tells whether a text of a level is asked for.
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

// followAudit tells what is done. While the database is away, the stream goes on without.
func (r *Room) followAudit(ctx context.Context, f filter, who actor.Actor, tell func(Entry)) error {
	// What it has told comes again when the database is back.
	told, last := map[uuid.UUID]bool{}, make([]uuid.UUID, 0, 2*liveLimit)
	for ctx.Err() == nil {
		_ = r.Audit.Follow(ctx, liveLimit, func(e audit.Entry) error {
			if e.CreatedAt.Before(f.since) || told[e.ID] {
				return nil
			}
			if len(last) == cap(last) {
				delete(told, last[0])
				last = append(last[:0], last[1:]...)
			}
			told[e.ID], last = true, append(last, e.ID)
			if shown, level := done(r.Audit.Shown(who, e)); f.wants(shown.Text, level) {
				tell(shown)
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
