package agent

import (
	"container/list"
	"context"
	"strings"
	"sync"
	"time"

	"edge.internal/gateway/internal/waf/engine"
)

// What an inspection costs on an idle core, per byte, as measured at the first paranoia level: between what harmless values cost, for which
// most rules are spared, and those with the characters that attacks are made of. It need not be right: what matters is that cheap and
// dear requests are told apart, that on an idle machine none is turned away at first, and the gate learns by what factor it is wrong.
const (
	costBase      = 500 * time.Microsecond // whatever the request
	costHeader    = time.Microsecond
	costCookie    = 3 * time.Microsecond
	costArguments = 3 * time.Microsecond // a body that is taken apart into arguments, and so the URI
	costText      = 2 * time.Microsecond // a body that is not
	costFiles     = time.Microsecond     // a body whose files are not looked into
	costResponse  = time.Microsecond

	// lightest is where dear requests begin.
	lightest = 10 * time.Millisecond
)

// expected is what an inspection may cost, and whether the request is dear. A body is taken for arguments there, whatever it claims
// to be: a lie must not bring it into the line of the cheap ones.
func expected(r *engine.Request, with engine.Settings) (cost time.Duration, heavy bool) {
	cost, perByte := costBase+costArguments*time.Duration(len(r.URI)), costText
	for _, f := range r.Header {
		switch size := time.Duration(len(f.Name) + len(f.Value)); {
		case strings.EqualFold(f.Name, "cookie"):
			cost += costCookie * size
		case strings.EqualFold(f.Name, "content-type"):
			cost += costHeader * size
			perByte = costOf(f.Value)
		default:
			cost += costHeader * size
		}
	}
	body := len(r.Body)
	if with.MaxBody > 0 {
		body = min(body, with.MaxBody)
	}
	level := time.Duration(2 + max(1, with.Paranoia)) // the fourth costs twice as much as the first
	heavy = (cost+costArguments*time.Duration(body))*level/3 > lightest
	return (cost + perByte*time.Duration(body)) * level / 3, heavy
}

// costOf is what a byte of a body of this type costs.
func costOf(contentType string) time.Duration {
	switch kind := strings.ToLower(contentType); {
	case strings.Contains(kind, "json"), strings.Contains(kind, "urlencoded"):
		return costArguments
	case strings.HasPrefix(kind, "multipart/"):
		return costFiles
	}
	return costText
}

// gate lets so many requests in at once as there are cores, and the others wait in two lines, by what they may cost. The cheap ones
// go first, and always have a core that no dear one takes. A request that cannot be done in time is turned away at once: it would
// take the time of those that can.
type gate struct {
	mu      sync.Mutex
	slots   int
	running int
	light   line
	heavy   line
	turns   int
}

const (
	maxLight, maxHeavy = 256, 64
	// heavyTurn is every how many turns a dear request goes first, if one waits: cheap ones alone must not keep it out.
	heavyTurn = 8

	// hope is what part of its expected cost must fit into a request's time. HAProxy waits a little longer than the deadline says.
	hope = 0.8
	// learn is how much one inspection counts against those before.
	learn = 1.0 / 8
	// outlier is how many times dearer than those before one inspection counts, at most: the machine may have stood still for a
	// moment.
	outlier = 4
	// forgive makes the gate a little more hopeful with every request that it turns away because of its cost alone. Otherwise it
	// would never find out that the machine is fast again.
	forgive = 0.98
	// tryAfter is how long the gate believes what it has learned. One who was turned away is told to come back after this time, and is
	// then tried whatever it may cost, if no one else was: where large requests are rare, forgiving takes too long.
	tryAfter = 5 * time.Second

	leastFactor, mostFactor = 1.0 / 64, 16
)

// line is those that wait of one kind.
type line struct {
	slots   int // that those of the line may take
	room    int
	running int
	waiting list.List     // of *ticket
	ahead   time.Duration // what those that wait may cost, before the factor
	factor  float64       // by how much inspections cost more than expected
	learned time.Time     // when an inspection told so, or was begun to find out
}

// ticket is one who waits.
type ticket struct {
	cost time.Duration
	last time.Time // when it is too late to begin
	turn chan bool // whether it may go in; told once
}

func newGate(cores int) *gate {
	slots, now := max(2, cores), time.Now() // on a single core a cheap request shares it with a dear one
	return &gate{slots: slots, light: line{slots: slots, room: maxLight, factor: 1, learned: now}, heavy: line{slots: slots - 1, room: maxHeavy, factor: 1, learned: now}}
}

// enter waits until a request of this cost may be inspected. The caller calls leave when it is. It says false at once, or as soon as
// it knows, if there is no time for it before the deadline.
func (g *gate) enter(ctx context.Context, cost time.Duration, heavy bool, deadline time.Time) (leave func(), ok bool) {
	l := &g.light
	if heavy {
		l = &g.heavy
	}
	g.mu.Lock()
	now := time.Now()
	own := time.Duration(float64(cost) * l.factor * hope)
	queue := time.Duration(float64(l.ahead) * l.factor * hope / float64(l.slots))
	last := deadline.Add(-own)
	if now.Add(queue).After(last) {
		if queue == 0 && g.free(l) && now.Sub(l.learned) >= tryAfter {
			l.learned = now
			g.begin(l)
			g.mu.Unlock()
			return func() { g.leave(l, cost, now, 1) }, true
		}
		if queue == 0 {
			l.factor = max(leastFactor, l.factor*forgive)
		}
		g.mu.Unlock()
		return nil, false
	}
	if l.waiting.Len() == 0 && g.free(l) {
		g.begin(l)
		g.mu.Unlock()
		return func() { g.leave(l, cost, now, learn) }, true
	}
	if l.waiting.Len() >= l.room {
		g.mu.Unlock()
		return nil, false
	}
	t := &ticket{cost, last, make(chan bool, 1)}
	place := l.waiting.PushBack(t)
	l.ahead += cost
	g.mu.Unlock()

	timer := time.NewTimer(last.Sub(now))
	defer timer.Stop()
	select {
	case ok = <-t.turn:
	case <-timer.C:
		ok = g.giveUp(l, place)
	case <-ctx.Done():
		ok = g.giveUp(l, place)
	}
	if !ok {
		return nil, false
	}
	began := time.Now()
	return func() { g.leave(l, cost, began, learn) }, true
}

// giveUp takes one who waits out of the line. It says true if its turn came first: then it is in.
func (g *gate) giveUp(l *line, place *list.Element) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case ok := <-place.Value.(*ticket).turn:
		return ok
	default:
		l.take(place)
		return false
	}
}

func (l *line) take(place *list.Element) *ticket {
	t := l.waiting.Remove(place).(*ticket)
	l.ahead -= t.cost
	return t
}

// free says whether one of the line could go in.
func (g *gate) free(l *line) bool { return g.running < g.slots && l.running < l.slots }

func (g *gate) begin(l *line) {
	g.running++
	l.running++
}

// leave learns from an inspection, which counts for so much against those before, and lets in those who wait.
func (g *gate) leave(l *line, cost time.Duration, began time.Time, share float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	l.running--
	now := time.Now()
	found := min(float64(now.Sub(began))/float64(cost), outlier*l.factor)
	l.factor = min(max(l.factor+share*(found-l.factor), leastFactor), mostFactor)
	l.learned = now
	for {
		first, second := &g.light, &g.heavy
		if g.turns%heavyTurn == heavyTurn-1 {
			first, second = second, first
		}
		if !g.next(first, now) && !g.next(second, now) {
			return
		}
		g.turns++
	}
}

// next lets in the first of a line that still has the time.
func (g *gate) next(l *line, now time.Time) bool {
	for l.waiting.Len() > 0 && g.free(l) {
		t := l.take(l.waiting.Front())
		if now.After(t.last) {
			t.turn <- false
			continue
		}
		g.begin(l)
		t.turn <- true
		return true
	}
	return false
}
