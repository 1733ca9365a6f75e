package alert

import (
	"context"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
)

// longestMute is the maximum duration of a mute.
const longestMute = 366 * 24 * time.Hour

// Mute silences a kind of alert for a time. Its events still appear in the history.
type Mute struct {
	resource.Meta
	Kind   alarm.Name `json:"kind" required:"true" maxLength:"100" doc:"Which kind; see /alerts/kinds."`
	Until  time.Time  `json:"until" given:"true" doc:"Until when, at most a year ahead. An alert that is still open then is sent with its next reminder."`
	Reason string     `json:"reason" maxLength:"500" doc:"Why, for other administrators."`
}

func (m *Mute) Label() string { return string(m.Kind) }

func (m *Mute) Validate() error {
	var c check.List
	c.That(!m.Until.IsZero(), "until", "must be a time, for example 2026-01-31T08:00:00Z")
	return c.Err()
}

func (r *Room) muteKind() resource.Kind[Mute] {
	return resource.Kind[Mute]{
		Name: "alert.mute", Title: "muted kind of alert", Path: "/alert-mutes", Table: "alert_mutes", Order: "kind",
		Passing: func(m *Mute) bool { return !m.Until.After(r.Clock.Now()) },
		Check: func(_ context.Context, _ *db.Tx, was, now *Mute) error {
			if now == nil {
				return nil
			}
			i := slices.IndexFunc(r.deps.Kinds, func(k *alarm.Kind) bool { return k.Name == now.Kind })
			switch {
			case i < 0:
				return fault.Field("kind", "is not a kind of alert. See /alerts/kinds")
			case !r.deps.Kinds[i].Mutable:
				return fault.Field("kind", "cannot be muted")
			case was != nil && was.Until.Equal(now.Until):
				return nil
			}
			switch left := now.Until.Sub(r.Clock.Now()); {
			case left <= 0:
				return fault.Field("until", "must be in the future")
			case left > longestMute:
				return fault.Field("until", "must be within a year")
			}
			return nil
		},
	}
}
