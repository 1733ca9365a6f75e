// Package alarm is where rooms report problems. It decides which reports lead to a notification, and which conditions are over.
// It only writes rows, and waits for no receiver; the room of alerts delivers notifications.
package alarm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
)

type Alarm struct {
	Kind *Kind
	// Key identifies the thing among others of its kind, such as the id of a backend. It may be empty.
	Key string
	// Severity is that of the kind if empty.
	Severity         Severity
	Subject, Message string
}

const (
	// quiet is the time in which the same condition causes no further notification.
	quiet = 12 * time.Hour

	maxSubject, maxMessage = 200, 4000
)

// Channel is where the database announces events.
const Channel = "alarm_events"

// Port receives alarms.
type Port struct {
	db    *db.DB
	clock clock.Clock
}

func New(d *db.DB, c clock.Clock) *Port { return &Port{db: d, clock: c} }

// Event is a notification that was sent or will be, or an entry of the history.
type Event struct {
	ID        uuid.UUID
	CreatedAt time.Time
	Kind      Name
	Key       string
	Severity  Severity
	Subject   string
	Message   string
	// Resolves is the event whose condition is over.
	Resolves *uuid.UUID
}

// Condition is a current problem, as it was last reported.
type Condition struct {
	Kind     Name      `json:"kind" doc:"What has gone wrong."`
	Key      string    `json:"key" doc:"Identifies the thing among others of its kind."`
	Severity Severity  `json:"severity" enum:"info,warning,error,critical" doc:"Severity: the highest that was reported."`
	Subject  string    `json:"subject" doc:"What it is about."`
	Message  string    `json:"message" doc:"What was last known about it."`
	Since    time.Time `json:"since" doc:"When it began."`
	SeenAt   time.Time `json:"seen_at" doc:"When it was last seen."`
}

// state is a row of alarm_conditions.
type state struct {
	Severity   Severity
	Since      time.Time
	EndedAt    *time.Time
	NotifiedAt *time.Time
	Times      int
	EventID    *uuid.UUID
}

// Raise reports a problem. A condition that caused a notification within the last 12 hours causes no other, unless it has become
// worse. That it was over in the meantime is only in the history.
func (p *Port) Raise(ctx context.Context, a Alarm) error {
	if err := a.prepare(); err != nil {
		return err
	}
	return p.db.Write(ctx, func(tx *db.Tx) error {
		tx.Queue(soon)
		return p.raise(ctx, tx, a)
	})
}

// Clear reports that a condition does not exist, or no longer. If it caused a notification, so does its end.
func (p *Port) Clear(ctx context.Context, kind *Kind, key string) error {
	return p.db.Write(ctx, func(tx *db.Tx) error {
		tx.Queue(lockTimeout)
		return p.clear(ctx, tx, kind.Name, key)
	})
}

// Settle reports all problems of one kind: any other condition of that kind is over.
func (p *Port) Settle(ctx context.Context, kind *Kind, now []Alarm) error {
	for i := range now {
		if err := now[i].prepare(); err != nil {
			return err
		}
		if now[i].Kind != kind {
			return fmt.Errorf("an alarm %s among those of %s", now[i].Kind.Name, kind.Name)
		}
	}
	open, err := p.lasting(ctx, kind.Name)
	if err != nil {
		return err
	}
	var news []Alarm
	for _, a := range now {
		was, lasts := open[a.Key]
		delete(open, a.Key)
		if !lasts || !was.same(a, p.clock.Now()) {
			news = append(news, a)
		}
	}
	if len(news) == 0 && len(open) == 0 {
		return nil
	}
	return p.db.Write(ctx, func(tx *db.Tx) error {
		tx.Queue(lockTimeout)
		for _, a := range news {
			if err := p.raise(ctx, tx, a); err != nil {
				return err
			}
		}
		for _, key := range slices.Sorted(maps.Keys(open)) {
			if err := p.clear(ctx, tx, kind.Name, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// same reports whether reporting an alarm again would change nothing.
func (l *lasting) same(a Alarm, now time.Time) bool {
	return l.Subject == a.Subject && l.Message == a.Message && !a.Severity.Worse(l.Severity) && l.NotifiedAt != nil && now.Sub(*l.NotifiedAt) < quiet
}

// soon makes the commit not wait for the disk, which has it within a second. Commits that announce something are serialized, even
// changes of the configuration: in a flood of alarms they would wait for the disk once per alarm.
const soon = "SET LOCAL synchronous_commit = off"

// lockTimeout bounds the wait for another program that reports the same.
const lockTimeout = "SET LOCAL lock_timeout = '3s'"

// prepare fills in the severity, and removes characters that neither the database nor a message can hold.
func (a *Alarm) prepare() error {
	if a.Kind == nil || a.Kind.Name == "" {
		return errors.New("an alarm of no kind")
	}
	if a.Severity == "" {
		a.Severity = a.Kind.Severity
	}
	if !slices.Contains(Severities, a.Severity) {
		return fmt.Errorf("alarm %s: there is no severity %q", a.Kind.Name, a.Severity)
	}
	a.Key = strings.ReplaceAll(strings.ToValidUTF8(a.Key, "?"), "\x00", "?")
	a.Subject = strings.TrimSpace(cut(plain(strings.ReplaceAll(a.Subject, "\n", " ")), maxSubject))
	a.Message = strings.TrimSpace(cut(plain(a.Message), maxMessage))
	return nil
}

// plain replaces control characters other than newlines.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

func cut(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}

func (p *Port) raise(ctx context.Context, tx *db.Tx, a Alarm) error {
	now := p.clock.Now()
	tx.Queue(`INSERT INTO alarm_conditions (kind, key, severity, subject, message, since, seen_at) VALUES ($1, $2, $3, $4, $5, $6, $6) ON CONFLICT DO NOTHING`,
		a.Kind.Name, a.Key, a.Severity, a.Subject, a.Message, now)
	s, err := read(ctx, tx, a.Kind.Name, a.Key)
	if err != nil {
		return err
	}
	again, worse := s.EndedAt != nil, a.Severity.Worse(s.Severity)
	if again {
		s.Since, s.EndedAt, s.EventID = now, nil, nil
		s.Times++
	}
	if again || worse {
		s.Severity = a.Severity
	}
	notify := s.NotifiedAt == nil || now.Sub(*s.NotifiedAt) >= quiet
	if !notify && (again || worse) {
		last, err := worst(ctx, tx, a, now.Add(-quiet))
		if err != nil {
			return err
		}
		notify = a.Severity.Worse(last)
	}
	if notify || again || worse {
		e := Event{Kind: a.Kind.Name, Key: a.Key, Severity: a.Severity, Subject: a.Subject, Message: a.Message}
		if notify && s.Times > 1 {
			e.Message = strings.TrimSpace(fmt.Sprintf("%s\n\nIt has come and gone %d times since the last alert.", e.Message, s.Times))
		}
		if err := e.record(tx, now, notify); err != nil {
			return err
		}
		s.EventID = &e.ID
		if notify {
			s.NotifiedAt, s.Times = &now, 0
		}
	}
	tx.Queue(`UPDATE alarm_conditions SET severity = $3, subject = $4, message = $5, since = $6, seen_at = $7, ended_at = NULL, told_at = $8, times = $9, event_id = $10 WHERE kind = $1 AND key = $2`,
		a.Kind.Name, a.Key, s.Severity, a.Subject, a.Message, s.Since, now, s.NotifiedAt, s.Times, s.EventID)
	return nil
}

func (p *Port) clear(ctx context.Context, tx *db.Tx, kind Name, key string) error {
	s, err := read(ctx, tx, kind, key)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && s.EndedAt != nil {
		return nil
	}
	if err != nil {
		return err
	}
	now := p.clock.Now()
	tx.Queue(`UPDATE alarm_conditions SET ended_at = $3 WHERE kind = $1 AND key = $2`, kind, key, now)
	if s.EventID == nil {
		return nil
	}
	var end Event
	if err := tx.QueryRow(ctx, `SELECT subject FROM alarm_conditions WHERE kind = $1 AND key = $2`, kind, key).Scan(&end.Subject); err != nil {
		return err
	}
	end.Kind, end.Key, end.Severity, end.Resolves = kind, key, Info, s.EventID
	end.Message = fmt.Sprintf("This is resolved. It lasted %s.", lasted(now.Sub(s.Since)))
	return end.record(tx, now, s.NotifiedAt != nil && !s.NotifiedAt.Before(s.Since))
}

// worst returns the highest severity with which a condition was reported since a moment: a notification since then had at least
// that.
func worst(ctx context.Context, tx *db.Tx, a Alarm, since time.Time) (s Severity, err error) {
	err = tx.QueryRow(ctx, `SELECT coalesce((SELECT severity FROM alarm_events WHERE kind = $1 AND key = $2 AND resolves IS NULL AND created_at > $3
		ORDER BY array_position(ARRAY['critical', 'error', 'warning', 'info'], severity) LIMIT 1), '')`, a.Kind.Name, a.Key, since).Scan(&s)
	return s, err
}

// lasted formats a duration for people.
func lasted(d time.Duration) string {
	switch {
	case d < time.Second:
		return "less than a second"
	case d < 2*time.Second:
		return "1 second"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func read(ctx context.Context, tx *db.Tx, kind Name, key string) (s state, err error) {
	err = tx.QueryRow(ctx, `SELECT severity, since, ended_at, told_at, times, event_id FROM alarm_conditions WHERE kind = $1 AND key = $2 FOR UPDATE`, kind, key).
		Scan(&s.Severity, &s.Since, &s.EndedAt, &s.NotifiedAt, &s.Times, &s.EventID)
	return s, err
}

// record adds the event to the history and, with notify, to the outbox.
func (e *Event) record(tx *db.Tx, now time.Time, notify bool) error {
	e.CreatedAt = now
	if err := e.insert(tx); err != nil {
		return err
	}
	if notify {
		tx.Queue(`INSERT INTO alarm_outbox (event_id) VALUES ($1)`, e.ID)
	}
	return nil
}

// insert adds the event, and sets its id.
func (e *Event) insert(tx *db.Tx) (err error) {
	if e.ID, err = uuid.NewV7(); err != nil {
		return err
	}
	tx.Queue(`INSERT INTO alarm_events (id, created_at, kind, key, severity, subject, message, resolves) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		e.ID, e.CreatedAt, e.Kind, e.Key, e.Severity, e.Subject, e.Message, e.Resolves)
	return nil
}

// lasting is a current problem, as it was last reported.
type lasting struct {
	Key        string
	Severity   Severity
	Subject    string
	Message    string
	NotifiedAt *time.Time
}

func (p *Port) lasting(ctx context.Context, kind Name) (map[string]lasting, error) {
	rows, err := p.db.Query(ctx, `SELECT key, severity, subject, message, told_at FROM alarm_conditions WHERE kind = $1 AND ended_at IS NULL`, kind)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[lasting])
	byKey := make(map[string]lasting, len(list))
	for _, l := range list {
		byKey[l.Key] = l
	}
	return byKey, err
}

// Open lists the current problems, worst first, then oldest first.
func (p *Port) Open(ctx context.Context) ([]Condition, error) {
	rows, err := p.db.Query(ctx, `SELECT kind, key, severity, subject, message, since, seen_at FROM alarm_conditions WHERE ended_at IS NULL
		ORDER BY array_position(ARRAY['critical', 'error', 'warning', 'info'], severity), since LIMIT 1000`)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Condition])
	return list, err
}

// Take removes events from the outbox, oldest first. The caller must record in the same transaction what becomes of them.
func (p *Port) Take(ctx context.Context, tx *db.Tx, limit int) ([]Event, error) {
	rows, err := tx.Query(ctx, `WITH taken AS (
			DELETE FROM alarm_outbox WHERE event_id IN (SELECT event_id FROM alarm_outbox ORDER BY event_id LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING event_id
		) SELECT id, created_at, kind, key, severity, subject, message, resolves FROM alarm_events JOIN taken ON event_id = id ORDER BY id`, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Event])
}

// Mute records that nobody is notified of these events.
func (p *Port) Mute(tx *db.Tx, events []uuid.UUID) {
	if len(events) > 0 {
		tx.Queue(`UPDATE alarm_events SET muted = true WHERE id = ANY ($1)`, events)
	}
}

// Note adds an event that the caller delivers itself, such as a test. It has no condition.
func (p *Port) Note(tx *db.Tx, a Alarm) (Event, error) {
	if err := a.prepare(); err != nil {
		return Event{}, err
	}
	e := Event{CreatedAt: p.clock.Now(), Kind: a.Kind.Name, Key: a.Key, Severity: a.Severity, Subject: a.Subject, Message: a.Message}
	err := e.insert(tx)
	return e, err
}

// Prune deletes the events before a moment, and conditions that ended before it, and returns the number of events.
func (p *Port) Prune(ctx context.Context, before time.Time) (n int64, err error) {
	err = p.db.Write(ctx, func(tx *db.Tx) error {
		tx.Queue("SET LOCAL statement_timeout = 0")
		tx.Queue(`DELETE FROM alarm_conditions WHERE ended_at < $1`, before)
		tag, err := tx.Exec(ctx, `DELETE FROM alarm_events WHERE created_at < $1`, before)
		n = tag.RowsAffected()
		return err
	})
	return n, err
}
