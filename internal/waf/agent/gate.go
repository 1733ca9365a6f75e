package agent

import (
	"container/list"
	"context"
	"strings"
	"sync"
	"time"

	"edge.internal/gateway/internal/waf/engine"
)

// The cost of an inspection per byte on an idle core, as measured at the first paranoia level. The values are between those of harmless
// text, for which most rules are spared, and text with the characters of attacks. They need not be exact: it matters that cheap and
// expensive requests are told apart, and that an idle machine turns none away at first. The gate learns the factor by which they are
// wrong.
const (
	costBase      = 500 * time.Microsecond // for any request
	costHeader    = time.Microsecond
	costCookie    = 3 * time.Microsecond
	costArguments = 3 * time.Microsecond // a body that is split into arguments, and also the URI
	costText      = 2 * time.Microsecond // any other body
	costFiles     = time.Microsecond     // a body whose files are not inspected
	costResponse  = time.Microsecond

	// lightest is where expensive requests begin.
	lightest = 10 * time.Millisecond
)

// expected returns the expected cost of an inspection, and whether the request is expensive. To decide that, a body counts as arguments,
// whatever its declared type: a lie must not move it into the line of the cheap ones.
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
	level := time.Duration(2 + max(1, with.Paranoia)) // the fourth level costs twice as much as the first
	heavy = (cost+costArguments*time.Duration(body))*level/3 > lightest
	return (cost + perByte*time.Duration(body)) * level / 3, heavy
}

// costOf returns the cost per byte of a body of this type.
func costOf(contentType string) time.Duration {
	switch kind := strings.ToLower(contentType); {
	case strings.Contains(kind, "json"), strings.Contains(kind, "urlencoded"):
		return costArguments
	case strings.HasPrefix(kind, "multipart/"):
		return costFiles
	}
	return costText
}

// gate admits as many requests at once as there are cores. The others wait in two lines, by their expected cost. The cheap ones go first,
// and always have a core that no expensive one takes. A request that cannot be done in time is turned away at once, because it would take
// the time of others.
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
	// heavyTurn is how often an expensive request goes first if one waits, so that cheap ones alone cannot keep it out.
	heavyTurn = 8

	// hope is the part of its expected cost that must fit into a request's time. HAProxy waits a little longer than the deadline says.
	hope = 0.8
	// learn is the weight of one inspection against the previous ones.
	learn = 1.0 / 8
	// outlier limits how much more expensive than the previous ones an inspection counts: the machine may have stalled for a moment.
	outlier = 4
	// forgive lowers the factor a little with every request that was turned away only because of its cost. Otherwise the gate would never
	// find out that the machine is fast again.
	forgive = 0.98
	// tryAfter is how long the gate trusts what it has learned. After that it tries one expensive request whatever it may cost, unless
	// another one has been tried: where large requests are rare, forgiving takes too long.
	tryAfter = 5 * time.Second

	leastFactor, mostFactor = 1.0 / 64, 16
)

// line holds the waiting requests of one kind.
type line struct {
	slots   int // that the line may use
	room    int
	running int
	waiting list.List     // of *ticket
	ahead   time.Duration // the expected cost of those that wait, before the factor
	factor  float64       // how much more than expected inspections cost
	learned time.Time     // when an inspection last told, or was tried to find out
}

// ticket is a waiting request.
type ticket struct {
	cost time.Duration
	last time.Time // the latest time to begin
	turn chan bool // whether it may enter; sent once
}

func newGate(cores int) *gate {
	slots, now := max(2, cores), time.Now() // on a single core a cheap request shares it with an expensive one
	return &gate{slots: slots, light: line{slots: slots, room: maxLight, factor: 1, learned: now}, heavy: line{slots: slots - 1, room: maxHeavy, factor: 1, learned: now}}
}

// enter waits until a request of this cost may be inspected; the caller then calls leave. It returns false as soon as it knows that there
// is no time before the deadline.
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

// giveUp takes a waiting request out of the line. It returns true if its turn came first: then it is admitted.
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

// free reports whether the line could enter a request.
func (g *gate) free(l *line) bool { return g.running < g.slots && l.running < l.slots }

func (g *gate) begin(l *line) {
	g.running++
	l.running++
}

// leave learns from an inspection with the given weight, and admits waiting requests.
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

// next admits the first of a line that still has the time.
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
