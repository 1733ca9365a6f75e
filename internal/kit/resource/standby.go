package resource

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/httpd"
)

// caughtUp records when the components of this node had applied what waits at its primary.
type caughtUp struct {
	mu   sync.Mutex
	list map[uuid.UUID]time.Time
}

// waitingAtPrimary lists the change sets that wait at the primary of this standby. They count as applied only once this node's
// own components have applied them as well: whoever reconnects through this node then proves that it is reachable with them.
func (r *Registry) waitingAtPrimary(ctx context.Context) ([]WaitingSet, error) {
	sets, err := r.Changes.Unsettled(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	own := r.Engine.Waiting()
	sets = slices.DeleteFunc(sets, func(s changes.Set) bool {
		return s.Local || slices.ContainsFunc(own, func(w apply.Waiting) bool { return w.ID == s.ID })
	})
	if len(sets) == 0 || r.AtPrimary == nil {
		return nil, nil
	}
	found, err := r.AtPrimary(ctx)
	if err != nil {
		// The change itself may have cut the connection between the nodes.
		r.Log.Warn("the primary does not list its waiting changes", "err", err)
		for _, s := range sets {
			found = append(found, WaitingSet{ID: s.ID, Actor: s.Actor, ConfirmBy: *s.ConfirmBy, Components: []apply.ID{}})
		}
	}
	found = slices.DeleteFunc(found, func(w WaitingSet) bool {
		return !slices.ContainsFunc(sets, func(s changes.Set) bool { return s.ID == w.ID }) // sets that are local to the primary
	})
	for i := range found {
		found[i].AppliedAt = r.follow(ctx, found[i])
	}
	return found, nil
}

// follow makes the components of this node apply what has been replicated of a set that the primary has applied. It returns when
// they were done; nil before that.
func (r *Registry) follow(ctx context.Context, w WaitingSet) *time.Time {
	f := &r.caughtUp
	f.mu.Lock()
	defer f.mu.Unlock()
	if at, known := f.list[w.ID]; known {
		return &at
	}
	if w.AppliedAt == nil {
		return nil
	}
	for _, id := range w.Components {
		if r.Engine.Refresh(ctx, id, false).State == apply.Pending {
			return nil
		}
	}
	if f.list == nil {
		f.list = map[uuid.UUID]time.Time{}
	}
	at := r.Clock.Now()
	for id, then := range f.list {
		if at.Sub(then) > httpd.MaxConfirm {
			delete(f.list, id)
		}
	}
	f.list[w.ID] = at
	return &at
}
