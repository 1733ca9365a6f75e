package alert

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

// historyLimit is how many events the history returns at most.
const historyLimit = 200

// liveSnapshot is how many past events a stream begins with.
const liveSnapshot = 20

// Event is something that happened, with the channels it was sent to.
type Event struct {
	ID        uuid.UUID      `json:"id" doc:"Id of the event; later events have greater ids."`
	CreatedAt time.Time      `json:"created_at" doc:"When it happened."`
	Kind      alarm.Name     `json:"kind" doc:"What happened; see /alerts/kinds."`
	Severity  alarm.Severity `json:"severity" enum:"info,warning,error,critical" doc:"Severity."`
	Subject   string         `json:"subject" doc:"What it is about."`
	Message   string         `json:"message" doc:"What happened, in words."`
	Resolved  bool           `json:"resolved" doc:"Whether it reports that something is resolved."`
	Resolves  *uuid.UUID     `json:"resolves" doc:"The event that reported its start; null otherwise."`
	Muted     bool           `json:"muted" doc:"Whether it was sent to no channel because its kind was muted."`
	SentTo    []Delivery     `json:"sent_to" doc:"Result at each channel."`
}

// Delivery is the state of an event at one channel.
type Delivery struct {
	ChannelID uuid.UUID  `json:"channel_id" doc:"Id of the channel; it may be deleted by now."`
	Channel   string     `json:"channel" doc:"Its name."`
	Result    string     `json:"result" enum:"ok,error,waiting,skipped" doc:"Whether it was sent. skipped: the channel was switched off, the gateway was restored from a backup, or the start was not sent and so the end is not either."`
	Error     string     `json:"error" doc:"Why it was not; empty otherwise."`
	Attempts  int        `json:"attempts" doc:"How often it was tried."`
	Digest    bool       `json:"digest" doc:"Whether it was one of many in a message."`
	EndedAt   *time.Time `json:"ended_at" doc:"When it was sent or given up."`
}

type eventFilter struct {
	Severity string    `query:"severity" doc:"Only this severity: info, warning, error or critical."`
	Kind     string    `query:"kind" doc:"Only this kind."`
	Text     string    `query:"text" doc:"Only those with this text in the subject or the message; case does not matter."`
	Before   uuid.UUID `query:"before" doc:"Only events before the one with this id, to read on."`
	Limit    int       `query:"limit" doc:"How many, at most 200."`
}

func (r *Room) mountEvents() {
	httpd.Handle(r.Router, http.MethodGet, "/alerts/events", httpd.Read, tag.Doc("alert.events", "The latest events, newest first"),
		func(c *httpd.Call, in eventFilter) ([]Event, error) { return r.events(c, in) })
	httpd.Stream(r.Router, "/alerts/events/live", httpd.Read, tag.Doc("alert.events.live", "The latest events, oldest first, and then each new one"),
		func(ctx context.Context, _ struct{}, send func(Event) error) error {
			return r.live.Follow(ctx, liveSnapshot, send)
		})
}

func (r *Room) events(ctx context.Context, f eventFilter) ([]Event, error) {
	if f.Limit == 0 {
		f.Limit = historyLimit
	}
	switch {
	case f.Severity != "" && !slices.Contains(alarm.Severities, alarm.Severity(f.Severity)):
		return nil, fault.Field("severity", "must be one of info, warning, error, critical")
	case f.Limit < 1 || f.Limit > historyLimit:
		return nil, fault.Field("limit", "must be between 1 and %d", historyLimit)
	}
	before := uuid.Max
	if f.Before != uuid.Nil {
		before = f.Before
	}
	return readEvents(ctx, r.DB, `WHERE ($2 = '' OR severity = $2) AND ($3 = '' OR kind = $3)
		AND ($4 = '' OR position($4 IN lower(subject)) > 0 OR position($4 IN lower(message)) > 0) AND id < $5
		ORDER BY id DESC LIMIT $1`, f.Limit, f.Severity, f.Kind, strings.ToLower(f.Text), before)
}

func (r *Room) newest(ctx context.Context, n int) ([]Event, error) {
	return readEvents(ctx, r.DB, `ORDER BY id DESC LIMIT $1`, n)
}

func (r *Room) announced(ctx context.Context, payload string) ([]Event, error) {
	id, err := uuid.Parse(payload)
	if err != nil {
		return nil, err
	}
	return readEvents(ctx, r.DB, `WHERE id = $1`, id)
}

// readEvents reads events with their deliveries. The deliveries of an event are in the order in which the channels were created.
func readEvents(ctx context.Context, q db.Querier, where string, args ...any) ([]Event, error) {
	rows, err := q.Query(ctx, `SELECT id, created_at, kind, severity, subject, message, resolves, muted,
			(SELECT coalesce(json_agg(json_build_object('channel_id', d.channel_id, 'channel', d.channel, 'result', d.state, 'error', d.error,
				'attempts', d.attempts, 'digest', d.digest, 'ended_at', d.ended_at) ORDER BY d.channel_id), '[]') FROM alert_deliveries d WHERE d.event_id = e.id)
		FROM alarm_events e `+where, args...)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Event, err error) {
		var sent []byte
		if err := row.Scan(&e.ID, &e.CreatedAt, &e.Kind, &e.Severity, &e.Subject, &e.Message, &e.Resolves, &e.Muted, &sent); err != nil {
			return e, err
		}
		e.Resolved = e.Resolves != nil
		return e, json.Unmarshal(sent, &e.SentTo)
	})
	return list, err
}

// Prune deletes mutes that are over and events older than the retention time. It returns the number of deleted events.
func (r *Room) Prune(ctx context.Context) (int64, error) {
	s, err := r.settings.Load(ctx, r.DB)
	if err != nil {
		return 0, err
	}
	now := r.Clock.Now()
	err = r.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue(`DELETE FROM alert_mutes WHERE until < $1`, now)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return r.Alarms.Prune(ctx, now.AddDate(0, 0, -s.HistoryDays))
}
