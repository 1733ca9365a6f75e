// Package watch finds out what is wrong. Each room declares what it looks at (its Check) and what may be wrong with it (the kinds); this asks,
// counts for how long something has been wrong, and reports it.
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

// Check is what a room looks at again and again.
type Check struct {
	// Name is that of its job, and Title says what it does, for people.
	Name, Title string
	Every       time.Duration
	// Primary is for what all nodes of a cluster share.
	Primary bool
	// Later does without a look when the program starts.
	Later bool
	// Kinds are all that it may find: what it does not find is over.
	Kinds []*alarm.Kind
	// Conditions are what is wrong now. With an error they are what is known all the same, and nothing is over.
	Conditions func(ctx context.Context, s *Scene) ([]alarm.Alarm, error)
}

// ErrTooEarly says that a check cannot know yet. Nothing is found then, and nothing is over.
var ErrTooEarly = errors.New("it is too early to know")

// Scene is what a check knows. It is in gateway-scheduler: gateway-api alone knows how the machine is, and is asked (Get).
type Scene struct {
	*kit.Kit
	alarm.Limits
	Now   time.Time
	since map[condition]time.Time // what is so now, and since when
	first map[condition]time.Time // the same, when the check was last made
}

type condition struct {
	kind *alarm.Kind
	key  string
}

// Get reads from gateway-api.
func Get[T any](ctx context.Context, s *Scene, path string) (T, error) {
	return control.Get[T](ctx, s.Paths, path)
}

// Since notes that something is so, and returns since when. A check calls it for what is not to be told, or not alone; of what is found,
// it is noted anyway.
func (s *Scene) Since(kind *alarm.Kind, key string) time.Time {
	c := condition{kind, key}
	at, known := s.first[c]
	if !known {
		at = s.Now
	}
	s.since[c] = at
	return at
}

// is tells whether something of a kind is so.
func (s *Scene) is(kind *alarm.Kind) bool {
	for c := range s.since {
		if c.kind == kind {
			return true
		}
	}
	return false
}

// For is the job of a check. Its runs must follow one another.
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
		found = slices.DeleteFunc(slices.Clone(found), func(a alarm.Alarm) bool { // the list is the room's
			since := s.Since(a.Kind, a.Key)
			return a.Kind.After != nil && s.Now.Sub(since) < a.Kind.After(&s.Limits)
		})
		if err != nil {
			maps.Copy(last, s.since)
			for _, a := range found {
				err = errors.Join(err, k.Alarms.Raise(ctx, a))
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
