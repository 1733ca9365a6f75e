package diag

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

const (
	atOnce = 4
	// beginsWithin is how long a follower waits for the run to begin.
	beginsWithin = 30 * time.Second
)

// Event is sent to the follower of a run.
type Event struct {
	Output string `json:"output,omitzero" doc:"What the tool printed since the last event."`
	Step   *Step  `json:"step,omitzero" doc:"A step of a path that is decided."`
	Over   bool   `json:"over,omitzero" doc:"Whether the run has ended. It is the last event; the answer to the request has the result."`
}

// runs tracks the running tools and their followers.
type runs struct {
	mu       sync.Mutex
	busy     int
	meetings map[uuid.UUID]*meeting
}

// meeting brings a run and its followers together, in whichever order they come.
type meeting struct {
	id   uuid.UUID
	here int // under runs.mu: number of users

	mu      sync.Mutex
	owner   string // who runs it; empty until it has begun
	over    bool
	end     context.CancelCauseFunc
	events  []Event
	changed chan struct{} // closed at the next change
}

func (r *runs) meet(id uuid.UUID) *meeting {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.meetings[id]
	if m == nil {
		m = &meeting{id: id, changed: make(chan struct{})}
		r.meetings[id] = m
	}
	m.here++
	return m
}

func (r *runs) part(m *meeting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.here--; m.here == 0 {
		delete(r.meetings, m.id)
	}
}

// change changes a meeting, and wakes those who wait for it.
func (m *meeting) change(to func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	to()
	close(m.changed)
	m.changed = make(chan struct{})
}

var errHungUp = errors.New("the follower of the run has hung up")

// run is one running tool.
type run struct {
	context.Context
	meeting *meeting // nil without a follower
}

// publish sends an event to the follower.
func (r *run) publish(e Event) {
	if r.meeting != nil {
		r.meeting.change(func() { r.meeting.events = append(r.meeting.events, e) })
	}
}

// begin takes a turn for a run; the caller must call over when it ends.
func (r *Room) begin(c *httpd.Call, id *uuid.UUID) (_ *run, over func(), err error) {
	r.runs.mu.Lock()
	if r.runs.busy == atOnce {
		r.runs.mu.Unlock()
		busy := fault.New(fault.TooMany, "%d diagnostic tools are already running. Wait until one has finished.", atOnce)
		busy.RetryAfter = 5 * time.Second
		return nil, nil, busy
	}
	r.runs.busy++
	r.runs.mu.Unlock()
	leave := func() {
		r.runs.mu.Lock()
		r.runs.busy--
		r.runs.mu.Unlock()
	}
	if id == nil {
		return &run{Context: c}, leave, nil
	}
	m := r.runs.meet(*id)
	ctx, cancel := context.WithCancelCause(c)
	taken := false
	m.change(func() {
		if taken = m.owner != ""; !taken {
			m.owner, m.end = c.Actor.ID(), cancel
		}
	})
	if taken {
		cancel(nil)
		r.runs.part(m)
		leave()
		return nil, nil, fault.Field("run", "must be new for each run, and another run has this one")
	}
	return &run{ctx, m}, func() {
		m.change(func() { m.over = true })
		cancel(nil)
		r.runs.part(m)
		leave()
	}, nil
}

type following struct {
	Run uuid.UUID `query:"run" doc:"The id in the request that starts the run. You can follow before the run starts."`
}

func (f *following) Validate() error {
	if f.Run == uuid.Nil {
		return fault.Field("run", "is required")
	}
	return nil
}

// follow streams the caller's own run from its beginning. Closing the stream stops the run.
func (r *Room) follow(ctx context.Context, in following, send func(Event) error) error {
	m := r.runs.meet(in.Run)
	defer r.runs.part(m)
	late := time.NewTimer(beginsWithin)
	defer late.Stop()
	own := actor.From(ctx).ID()
	for sent := 0; ; {
		m.mu.Lock()
		owner, events, over, changed := m.owner, m.events[sent:], m.over, m.changed
		m.mu.Unlock()
		begun := owner != ""
		if begun && owner != own {
			return nil // someone else's run
		}
		for _, e := range events {
			if err := send(e); err != nil {
				m.hangUp()
				return err
			}
		}
		if sent += len(events); over {
			return send(Event{Over: true})
		}
		select {
		case <-changed:
		case <-ctx.Done():
			m.hangUp()
			return ctx.Err()
		case <-late.C:
			if !begun {
				return nil
			}
		}
	}
}

// hangUp ends the run.
func (m *meeting) hangUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.end != nil {
		m.end(errHungUp)
	}
}

// turn admits one at a time.
type turn struct {
	mu    sync.Mutex
	taken bool
}

func (t *turn) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken {
		return false
	}
	t.taken = true
	return true
}

func (t *turn) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = false
}
