package resource

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

const (
	// guardEvery is how often the guard checks for sets that another process has left. tryBack is the delay before a failed
	// take-back is retried.
	guardEvery, tryBack = 10 * time.Second, time.Second
	// putBackAfter is how long a starting gateway waits for the database before it restores the files of an unconfirmed change
	// without it.
	putBackAfter = 5 * time.Second
	proofWithin  = time.Minute
	reachWithin  = time.Second
	// stuckAfter is the number of refused take-backs after which an alarm is raised, and the change may be confirmed late.
	stuckAfter = 5
	// alarmRows limits the rows that an alarm names.
	alarmRows = 20
)

// WaitingSet is a change set that is reverted unless it is confirmed.
type WaitingSet struct {
	ID         uuid.UUID  `json:"id" doc:"Id of the change set."`
	Actor      string     `json:"actor" doc:"Who made it."`
	ConfirmBy  time.Time  `json:"confirm_by" doc:"When it is reverted."`
	AppliedAt  *time.Time `json:"applied_at" doc:"When the components had taken it; null until then. It can be confirmed over connections that are newer."`
	Components []apply.ID `json:"components" doc:"Components that accept no other changes until then."`
}

type Confirmation struct {
	Proof string `json:"proof" doc:"What the probe answered, if the request itself does not come over a new connection."`
}

// Discarded is the answer to a take-back that a user asked for.
type Discarded struct {
	Stored
	Conflicts  []Conflict   `json:"conflicts" doc:"Later edits that the take-back met."`
	Unrestored []Unrestored `json:"unrestored" doc:"Rows that are not taken back, and why."`
	Stays      []Staying    `json:"stays" doc:"What the gateway makes itself: that of then does not come back."`
}

// Proof is the answer of the probe.
type Proof struct {
	Proof string `json:"proof" doc:"Shows that the gateway can be reached over a new connection. Send it with the confirmation within a minute."`
}

// proofs records which change sets were reached over a new connection.
type proofs struct {
	mu   sync.Mutex
	list map[string]proof
}

type proof struct {
	set       uuid.UUID
	user      uuid.UUID
	connected time.Time // when the connection was opened
	at        time.Time
}

func (p *proofs) give(set, user uuid.UUID, connected, now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list == nil {
		p.list = map[string]proof{}
	}
	for text, x := range p.list {
		if now.Sub(x.at) > proofWithin {
			delete(p.list, text)
		}
	}
	text := rand.Text()
	p.list[text] = proof{set, user, connected, now}
	return text
}

// take returns when the connection that earned the proof was opened.
func (p *proofs) take(text string, set, user uuid.UUID, now time.Time) (connected time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, there := p.list[text]
	return x.connected, there && x.set == set && x.user == user && now.Sub(x.at) <= proofWithin
}

var (
	errNotWaiting = fault.New(fault.Conflict, "This change is not waiting to be confirmed here. It may have been confirmed or reverted already.")
	errLate       = fault.New(fault.Conflict, "The time to confirm this change has run out. It is being reverted.")
	errApplying   = &fault.Error{Kind: fault.Conflict, Message: "This change is still being applied. Try again in a moment.", RetryAfter: time.Second}
	errConnection = fault.New(fault.Conflict, "A confirmation must come over a connection that was opened after the change was applied. Open a new connection, or use the probe.")
)

const unconfirmed = "It was not confirmed in time."

// Waiting lists the change sets that wait to be confirmed on this node.
func (r *Registry) Waiting() []WaitingSet {
	list := []WaitingSet{}
	for _, w := range r.Engine.Waiting() {
		x := WaitingSet{ID: w.ID, Actor: w.Actor, ConfirmBy: w.ConfirmBy, Components: w.Components}
		if !w.AppliedAt.IsZero() {
			x.AppliedAt = &w.AppliedAt
		}
		list = append(list, x)
	}
	return list
}

// waitingSet finds a set that waits on this node and either has been applied or cannot be taken back.
func (r *Registry) waitingSet(id uuid.UUID) (apply.Waiting, error) {
	list := r.Engine.Waiting()
	i := slices.IndexFunc(list, func(w apply.Waiting) bool { return w.ID == id })
	switch {
	case i < 0 && r.stuck(id):
		return apply.Waiting{ID: id}, nil
	case i < 0:
		return apply.Waiting{}, errNotWaiting
	case list[i].AppliedAt.IsZero() && !r.stuck(id):
		return list[i], errApplying
	}
	return list[i], nil
}

func (r *Registry) mountConfirm() {
	httpd.Handle(r.Router, http.MethodGet, "/change-sets/waiting", httpd.Read, httpd.Doc{ID: "change-set.waiting", Tag: "system", Summary: "Change sets that are waiting to be confirmed on this node, and on the primary of a standby"}, func(c *httpd.Call, _ struct{}) ([]WaitingSet, error) {
		there, err := r.waitingAtPrimary(c)
		if err != nil {
			r.Log.Warn("the waiting changes of other nodes are unknown", "err", err) // the list for this node needs no database
		}
		return append(r.Waiting(), there...), nil
	})
	httpd.Stream(r.Router, "/change-sets/probe", httpd.Read, httpd.Doc{ID: "change-set.probe", Tag: "system", Summary: "Show that the gateway can be reached over a new connection"}, func(ctx context.Context, in struct {
		ID uuid.UUID `query:"id" doc:"Id of the change set."`
	}, send func(Proof) error) error {
		applied, err := r.appliedAt(ctx, in.ID)
		if err != nil {
			return err
		}
		connected := httpd.Connected(ctx)
		if !connected.After(applied) {
			return errConnection
		}
		if err := send(Proof{r.proofs.give(in.ID, actor.From(ctx).UserID, connected, r.Clock.Now())}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	confirm := httpd.Doc{ID: "change-set.confirm", Tag: "system", Summary: "Keep a change set that is waiting to be confirmed", Audit: "change-set.confirm", OnPrimary: r.settleOnPrimary}
	httpd.Handle(r.Router, http.MethodPost, "/change-sets/{id}/confirm", httpd.Write, confirm, func(c *httpd.Call, in struct {
		ID   uuid.UUID `path:"id" doc:"Id of the change set."`
		Body *Confirmation
	}) (Stored, error) {
		r.taking.Lock()
		defer r.taking.Unlock()
		w, err := r.waitingSet(in.ID)
		if err != nil {
			return Stored{}, err
		}
		if r.Clock.Now().After(w.ConfirmBy) && !r.stuck(in.ID) {
			return Stored{}, errLate
		}
		if in.Body != nil {
			r.redeem(c, in.Body.Proof, in.ID)
		}
		if !c.Local() && !c.Connected().After(w.AppliedAt) {
			return Stored{}, errConnection
		}
		return r.settle(c, w, changes.Confirmed, "change-set.confirm")
	})
	discard := httpd.Doc{ID: "change-set.discard", Tag: "system", Summary: "Take back a change set that is waiting to be confirmed, without waiting", Audit: "<kind>.<verb>", OnPrimary: r.settleOnPrimary}
	httpd.Handle(r.Router, http.MethodPost, "/change-sets/{id}/discard", httpd.Write, discard, func(c *httpd.Call, in idInput) (Discarded, error) {
		list := r.Engine.Waiting()
		i := slices.IndexFunc(list, func(w apply.Waiting) bool { return w.ID == in.ID })
		switch {
		case i < 0:
			return Discarded{}, errNotWaiting
		case list[i].Storing:
			return Discarded{}, errApplying
		}
		out, err := r.takeBack(c, in.ID, "It was discarded.")
		if err != nil {
			return Discarded{}, err
		}
		set, err := r.Changes.Get(c, r.DB, in.ID)
		return Discarded{r.stored(set), out.Conflicts, out.Unrestored, out.Stays}, err
	})
}

// appliedAt returns when a set that waits here, or at the primary of this standby, was applied.
func (r *Registry) appliedAt(ctx context.Context, id uuid.UUID) (time.Time, error) {
	w, err := r.waitingSet(id)
	if !errors.Is(err, errNotWaiting) {
		return w.AppliedAt, err
	}
	list, failed := r.waitingAtPrimary(ctx)
	i := slices.IndexFunc(list, func(w WaitingSet) bool { return w.ID == id })
	switch {
	case failed != nil:
		return time.Time{}, failed
	case i < 0:
		return time.Time{}, err
	case list[i].AppliedAt == nil:
		return time.Time{}, errApplying
	}
	return *list[i].AppliedAt, nil
}

// redeem replaces the age of the request's connection with that of the connection that earned the proof.
func (r *Registry) redeem(c *httpd.Call, proof string, set uuid.UUID) {
	if connected, ok := r.proofs.take(proof, set, c.Actor.UserID, r.Clock.Now()); ok {
		c.Reached(connected)
	}
}

// settleOnPrimary reports whether the primary decides about a waiting set. Only sets that this node made for itself alone are
// decided here; a set that has not been replicated to this node belongs to another one.
func (r *Registry) settleOnPrimary(c *httpd.Call) (bool, error) {
	c.RequireNewConnection()
	id, err := httpd.PathID(c.Request, "id")
	if err != nil {
		return false, err
	}
	var body Confirmation
	if err := c.Peek(&body); err != nil {
		return false, err
	}
	r.redeem(c, body.Proof, id) // the primary does not know proofs that were given here
	set, err := r.Changes.Get(c, r.DB, id)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	return !set.Local, err
}

// settle records that a set is kept, and releases its components.
func (r *Registry) settle(ctx context.Context, w apply.Waiting, state, action string) (Stored, error) {
	err := r.DB.Write(ctx, func(tx *db.Tx) error {
		r.Changes.Settle(tx, w.ID, state)
		return r.Audit.Write(ctx, tx, action, w.ID.String(), map[string]any{"change_set": w.ID})
	})
	if err != nil {
		return Stored{}, err
	}
	if err := r.Engine.Release(w.ID, state == changes.Confirmed); err != nil {
		return Stored{}, err
	}
	if r.stuck(w.ID) {
		r.clearStays(ctx, w.ID)
	}
	set, err := r.Changes.Get(ctx, r.DB, w.ID)
	return r.stored(set), err
}

// takeBack reverts a set that was not confirmed. Later edits of other fields are kept.
func (r *Registry) takeBack(ctx context.Context, id uuid.UUID, why string) (out Reverted, err error) {
	r.taking.Lock()
	defer r.taking.Unlock()
	for range rehearsals {
		out, err = r.takeBackOnce(ctx, id, why)
		if !errors.Is(err, errMoved) && !db.Passing(err) {
			break
		}
	}
	switch {
	case err == nil && len(out.Unrestored) == 0:
		r.clearStays(ctx, id)
	case err == nil:
		r.refused.forget(id)
		r.raiseStays(ctx, id, "Some rows of an unconfirmed change are not taken back. Remove what is in the way, and revert the change set.", out.Unrestored)
	case !db.Away(err) && !errors.Is(err, errMoved) && !db.Passing(err) && context.Cause(ctx) == nil && r.refused.count(id) == stuckAfter:
		r.raiseStays(ctx, id, "An unconfirmed change cannot be taken back: "+fault.From(err).Message+" It is tried again. Change what is in the way, or confirm the change after all.", nil)
	}
	return out, err
}

func (r *Registry) takeBackOnce(ctx context.Context, id uuid.UUID, why string) (Reverted, error) {
	v := &inverse{RevertOptions: RevertOptions{Take: "now", Partial: true}, takesBack: true}
	v.out.Conflicts, v.out.Unrestored, v.out.Stays = []Conflict{}, []Unrestored{}, []Staying{}
	set, err := r.Changes.Get(ctx, r.DB, id)
	if fault.Is(err, fault.NotFound) || err == nil && set.State != changes.Waiting {
		return v.out, r.Engine.Release(id, set.State == changes.Confirmed) // it was never stored, or is settled already
	}
	if err != nil {
		return v.out, err
	}
	if err := r.DB.Snapshot(ctx, func(tx *db.Tx) error { return r.undo(ctx, tx, v, id) }); err != nil {
		return v.out, err
	}
	if err := r.rehearse(ctx, v); err != nil {
		return v.out, err
	}
	fresh, err := uuid.NewV7()
	if err != nil {
		return v.out, err
	}
	v.set.Reason = why
	v.set.first = func(tx *db.Tx) error { return r.checkBasis(ctx, tx, nil, v.rows) }
	intent := changes.Intent{Set: fresh, Reason: why, Reverts: id, TakesBack: true}
	if len(v.set.Operations) == 0 {
		err = r.DB.Write(ctx, func(tx *db.Tx) error { r.Changes.Settle(tx, id, changes.TakenBack); return nil })
	} else {
		_, _, err = r.Commit(changes.With(ctx, intent), v.set)
	}
	if err != nil {
		return v.out, err
	}
	return v.out, r.Engine.Release(id, false)
}

type refusals struct {
	mu   sync.Mutex
	sets map[uuid.UUID]int
}

func (x *refusals) count(id uuid.UUID) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sets == nil {
		x.sets = map[uuid.UUID]int{}
	}
	x.sets[id]++
	return x.sets[id]
}

func (x *refusals) of(id uuid.UUID) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sets[id]
}

func (x *refusals) forget(id uuid.UUID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.sets, id)
}

// stuck reports whether a set cannot be taken back.
func (r *Registry) stuck(id uuid.UUID) bool { return r.refused.of(id) >= stuckAfter }

// ChangeStays is raised when a take-back fails.
var ChangeStays = &alarm.Kind{
	Name: "change.stays", Severity: alarm.Error, Mutable: true, Meaning: "An unconfirmed change could not be taken back, or not all of it.",
}

// raiseStays raises an alarm about a set that was never confirmed and could not be taken back, or about some of its rows.
func (r *Registry) raiseStays(ctx context.Context, id uuid.UUID, message string, rows []Unrestored) {
	for i, x := range rows {
		if i == alarmRows {
			message += fmt.Sprintf("\nand %d more", len(rows)-i)
			break
		}
		message += fmt.Sprintf("\n%s %s: %s", x.Kind, x.Name, x.Reason)
	}
	r.Log.Error("an unconfirmed change could not be taken back", "change_set", id, "reason", message)
	a := alarm.Alarm{Kind: ChangeStays, Key: id.String(), Subject: "Change set " + id.String(), Message: message}
	if err := r.Alarms.Raise(context.WithoutCancel(ctx), a); err != nil {
		r.Log.Warn("raising the alarm about an unconfirmed change failed", "change_set", id, "err", err)
	}
}

func (r *Registry) clearStays(ctx context.Context, id uuid.UUID) {
	r.refused.forget(id)
	if err := r.Alarms.Clear(context.WithoutCancel(ctx), ChangeStays, id.String()); err != nil {
		r.Log.Warn("clearing the alarm about an unconfirmed change failed", "change_set", id, "err", err)
	}
}

// Guard takes back sets that are not confirmed in time, and those that an earlier process left unconfirmed, until ctx ends.
func (r *Registry) Guard(ctx context.Context) {
	ctx = actor.With(ctx, actor.System("gateway-api"))
	began := r.Clock.Now()
	put := map[uuid.UUID]bool{} // sets whose files were restored without the database
	for {
		looked, next := r.Clock.Now(), guardEvery
		for _, w := range r.Engine.Waiting() {
			if w.Storing {
				continue // Held signals when it is stored
			}
			if left := w.ConfirmBy.Sub(looked); left > 0 && !w.Left {
				next = min(next, left)
				continue
			}
			why := unconfirmed
			if w.Left {
				why = "The gateway was restarted before it was confirmed."
			}
			err := r.reachable(ctx)
			if err == nil {
				_, err = r.takeBack(ctx, w.ID, why)
			}
			if err == nil {
				r.Log.Info("an unconfirmed change was taken back", "change_set", w.ID)
				continue
			}
			next = min(next, r.tryAgain(w.ID))
			if put[w.ID] || w.Left && r.Clock.Now().Sub(began) < putBackAfter {
				continue
			}
			r.Log.Warn("an unconfirmed change cannot be taken back in the database yet", "change_set", w.ID, "err", err)
			if err := r.Engine.PutBack(ctx, w.ID); err != nil {
				r.Log.Error("restoring the configuration from before an unconfirmed change failed", "change_set", w.ID, "err", err)
				continue
			}
			put[w.ID] = true
		}
		next = min(next, r.adopt(ctx))
		select {
		case <-ctx.Done():
			return
		case <-r.Clock.At(looked.Add(next)):
		case <-r.Engine.Held():
		}
	}
}

// tryAgain returns the delay before a take-back is retried. A stuck one is retried rarely.
func (r *Registry) tryAgain(id uuid.UUID) time.Duration {
	if r.stuck(id) {
		return guardEvery
	}
	return tryBack
}

// reachable fails fast if the database does not answer: once a deadline has passed, there is no time to wait for it.
func (r *Registry) reachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	_, err := r.Changes.Newest(ctx, r.DB)
	return err
}

// adopt takes back the overdue unconfirmed sets of a primary that this node has replaced. It returns the delay until the next
// check.
func (r *Registry) adopt(ctx context.Context) time.Duration {
	var writable bool
	if err := r.DB.QueryRow(ctx, "SELECT ha_writable()").Scan(&writable); err != nil {
		return guardEvery
	}
	sets, err := r.Changes.Unsettled(ctx, r.DB)
	if err != nil {
		return guardEvery
	}
	next := guardEvery
	for _, s := range sets {
		mine := slices.ContainsFunc(r.Engine.Waiting(), func(w apply.Waiting) bool { return w.ID == s.ID })
		switch left := s.ConfirmBy.Sub(r.Clock.Now()); {
		case mine || !s.Local && !writable:
		case left > 0 && !r.Changes.Here(s):
			next = min(next, left)
		default:
			if _, err := r.takeBack(ctx, s.ID, unconfirmed); err != nil && !errors.Is(err, context.Canceled) {
				r.Log.Warn("an unconfirmed change cannot be taken back yet", "change_set", s.ID, "err", err)
				next = min(next, r.tryAgain(s.ID))
			}
		}
	}
	return next
}

// confirmWithin marks the changes of a request to be reverted unless they are confirmed in time.
func confirmWithin(c *httpd.Call, seconds int) error {
	if seconds == 0 {
		return nil
	}
	within, err := httpd.ConfirmWithin("confirm_within", seconds)
	i := changes.From(c)
	i.Within = within
	c.Context = changes.With(c.Context, i)
	return err
}
