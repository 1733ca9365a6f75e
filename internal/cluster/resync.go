package cluster

import (
	"context"
	"errors"
	"maps"
	"time"

	"edge.internal/gateway/internal/kit/db/replica"
)

// lateLimit is how many seconds a node may be behind the primary, and lagLimit how many bytes.
const (
	lateLimit = 30
	lagLimit  = 16 << 20
)

// troubles is the state of replication from one check to the next: a standby's own, or a primary's view of its standbys.
type troubles struct {
	streamed time.Time // when replication was last seen running
	errors   int64     // how often it had failed
	failing  time.Time // since when it has failed more often at each check; zero if it has not
	marks    map[string]mark
	looking  bool // whether a standby is being compared with its primary
}

// mark is a position of the primary that a slot has not reached yet, and when the primary was there.
type mark struct {
	position int64
	at       time.Time
}

// slots reads this primary's replication slots, and how late they are.
func (r *Room) slots(ctx context.Context) ([]replica.Slot, error) {
	slots, err := replica.Slots(ctx, r.DB)
	if err != nil {
		return nil, err
	}
	now := r.Clock.Now()
	r.answers.mu.Lock()
	defer r.answers.mu.Unlock()
	was := r.answers.troubles.marks
	r.answers.troubles.marks = map[string]mark{}
	for i, s := range slots {
		m, known := was[s.Name]
		if !known || s.Position-s.Behind >= m.position {
			m = mark{s.Position, now}
		}
		slots[i].Late = now.Sub(m.at).Seconds()
		r.answers.troubles.marks[s.Name] = m
	}
	return slots, nil
}

// refused reports whether a synchronisation would have deleted more than half of this node's rows.
func (r *Room) refused() bool {
	s, err := r.repairing()
	return err == nil && s.TooMuch()
}

// heal compares a standby with its primary, and synchronises it if it does not follow correctly. It needs a primary that answers.
func (r *Room) heal(ctx context.Context, s State) {
	sub, err := replica.Look(ctx, r.DB)
	if err != nil {
		return
	}
	why := r.look(sub)
	primary := r.answers.last(s.PrimaryID)
	if primary.err != nil || primary.Role != Primary || primary.Epoch != s.Epoch {
		return
	}
	kept, stale := false, false
	for _, slot := range primary.Slots {
		kept = kept || slot.Name == s.Slot && !slot.Lost
		stale = stale || slot.Name != s.Slot && slot.Of(r.node().ID)
	}
	// A worker that starts and fails because its slot is gone may look running at each check.
	if !kept {
		why = "the primary no longer keeps its changes"
	}
	if s.SyncedAt == nil {
		why = "its database was replaced by an older one"
	}
	m, ok, err := member(ctx, r.DB, s.PrimaryID)
	if err != nil || !ok {
		return
	}
	mine, err := r.rehash(ctx)
	if err != nil {
		return
	}
	// Tables that are not in the publication are missing from the list that replication began with.
	if same := mine[""] == primary.Hashes[""]; why == "" && same && !sub.Whole {
		why = "the primary has tables that it does not follow"
	}
	differs := why == "" && mine[""] == primary.Hashes[""] && !maps.Equal(mine, primary.Hashes)
	switch {
	case why != "":
		r.resync(ctx, s, m, why)
	case differs || stale:
		r.compare(ctx, s, m, differs)
	}
}

// look returns what has been wrong with this node's replication for too long.
func (r *Room) look(sub replica.Subscription) (why string) {
	now := r.Clock.Now()
	r.answers.mu.Lock()
	defer r.answers.mu.Unlock()
	t := &r.answers.troubles
	if sub.Worker || t.streamed.IsZero() {
		t.streamed = now
	}
	switch {
	case sub.Errors <= t.errors:
		t.failing = time.Time{}
	case t.failing.IsZero():
		t.failing = now
	}
	t.errors = sub.Errors
	switch {
	case !t.failing.IsZero() && r.past(t.failing, r.deps.Pace.Stuck):
		return "replication fails again and again"
	case r.past(t.streamed, r.deps.Pace.Stray):
		return "replication is not under way"
	}
	return ""
}

// compare checks, in the background, a standby that differs from its primary, because the difference may be a change in transit. It also
// drops slots at the primary that a killed sync has left behind.
func (r *Room) compare(ctx context.Context, s State, primary Member, differs bool) {
	r.answers.mu.Lock()
	busy := r.answers.troubles.looking
	r.answers.troubles.looking = true
	r.answers.mu.Unlock()
	if busy {
		return
	}
	go func() {
		defer func() {
			r.answers.mu.Lock()
			r.answers.troubles.looking = false
			r.answers.mu.Unlock()
		}()
		conninfo, err := r.deps.Database(primary)
		if err != nil {
			return
		}
		if err := replica.Tidy(ctx, r.DB, conninfo, r.node().ID); err != nil && !errors.Is(err, replica.ErrRuns) {
			r.Log.Warn("slots of this node at the primary were not dropped", "err", err)
		}
		if !differs {
			return
		}
		if tables, err := r.Drift(ctx, conninfo); err == nil && len(tables) > 0 {
			r.Log.Warn("this node differs from the primary although it has all of its changes", "tables", tables)
			r.resync(ctx, s, primary, "it differs")
		}
	}()
}

// resync synchronises this standby with its primary again, unless that happened a short while ago.
func (r *Room) resync(ctx context.Context, s State, primary Member, why string) {
	if s.SyncedAt != nil && !r.past(*s.SyncedAt, r.deps.Pace.Resync) || r.refused() { // until a person has decided
		return
	}
	r.Log.Warn("synchronising this node with the primary", "primary", primary.FQDN, "why", why)
	r.followSoon(ctx, primary.ID)
}
