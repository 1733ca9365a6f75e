// Package watch finds out what is wrong. Each room declares what it checks (Check) and what may be wrong (alarm kinds); this
// package runs the checks, tracks how long a condition has lasted, and reports it.
package watch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/scheduler"
)

// Check is a periodic check of a room.
type Check struct {
	// Name is the name of its job. Title says what it does, for people.
	Name, Title string
	Every       time.Duration
	// Primary is set if the check is about what all nodes of a cluster share.
	Primary bool
	// Later skips the run at program start.
	Later bool
	// Kinds are all kinds that it may find: a condition that is not found any more is over.
	Kinds []*alarm.Kind
	// Conditions returns what is wrong now. If it fails, the conditions it returns are reported nevertheless, but none is over.
	Conditions func(ctx context.Context, s *Scene) ([]alarm.Alarm, error)
}

// ErrTooEarly says that a check cannot know yet. No condition is reported then, and none is over.
var ErrTooEarly = errors.New("it is too early to know")

// Scene is what a check can use. Checks run in gateway-scheduler; only gateway-api knows the state of the machine, which Get asks
// for.
type Scene struct {
	*kit.Kit
	alarm.Limits
	Now   time.Time
	since map[condition]time.Time // current conditions, and when each began
	first map[condition]time.Time // those of the previous run
}

type condition struct {
	kind *alarm.Kind
	key  string
}

// Get reads from gateway-api.
func Get[T any](ctx context.Context, s *Scene, path string) (T, error) {
	return control.Get[T](ctx, s.Paths, path)
}

// Since records a condition, and returns when it began. A check calls it for conditions that it does not report, or combines into
// others; those that it returns are recorded anyway.
func (s *Scene) Since(kind *alarm.Kind, key string) time.Time {
	c := condition{kind, key}
	at, known := s.first[c]
	if !known {
		at = s.Now
	}
	s.since[c] = at
	return at
}

func (s *Scene) is(kind *alarm.Kind) bool {
	for c := range s.since {
		if c.kind == kind {
			return true
		}
	}
	return false
}

// For returns the job of a check. Its runs must not overlap.
func (c Check) For(k *kit.Kit, limits func(ctx context.Context) (alarm.Limits, error)) scheduler.Job {
	last := map[condition]time.Time{}
	where := scheduler.EveryNode
	if c.Primary {
		where = scheduler.Primary
	}
	return scheduler.Job{Name: c.Name, Title: c.Title, Every: c.Every, Later: c.Later, Where: where, Within: time.Minute, Do: func(ctx context.Context) error {
		now, err := limits(ctx)
		if err != nil {
			return err
		}
		s := &Scene{Kit: k, Limits: now, Now: k.Clock.Now(), since: map[condition]time.Time{}, first: last}
		found, err := c.Conditions(ctx, s)
		if errors.Is(err, ErrTooEarly) {
			return nil
		}
		found = slices.DeleteFunc(slices.Clone(found), func(a alarm.Alarm) bool { // cloned, because the list belongs to the room
			since := s.Since(a.Kind, a.Key)
			return a.Kind.After != nil && s.Now.Sub(since) < a.Kind.After(&s.Limits)
		})
		if err != nil {
			maps.Copy(last, s.since)
			for _, a := range found { // an alarm tells people what the error of the job would
				if err = k.Alarms.Raise(ctx, a); err != nil {
					break
				}
			}
			return err
		}
		last = s.since
		for _, kind := range c.Kinds {
			if kind.Unless != nil && s.is(kind.Unless) {
				continue
			}
			if err := k.Alarms.Settle(ctx, kind, slices.DeleteFunc(slices.Clone(found), func(a alarm.Alarm) bool { return a.Kind != kind })); err != nil {
				return err
			}
		}
		return nil
	}}
}
