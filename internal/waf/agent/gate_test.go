package agent

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edge.internal/gateway/internal/waf/engine"
)

func TestExpectedCost(t *testing.T) {
	get := &engine.Request{URI: "/index.html?a=b", Header: []engine.Field{{Name: "host", Value: "example.net"}, {Name: "user-agent", Value: strings.Repeat("x", 120)}, {Name: "cookie", Value: strings.Repeat("x", 300)}}}
	with := func(kind string, size int) *engine.Request {
		return &engine.Request{URI: "/", Header: []engine.Field{{Name: "Content-Type", Value: kind}}, Body: make([]byte, size)}
	}
	level1 := engine.Settings{Paranoia: 1}
	for name, c := range map[string]struct {
		r     *engine.Request
		with  engine.Settings
		heavy bool
	}{
		"a page":                    {get, level1, false},
		"a page at the fourth":      {get, engine.Settings{Paranoia: 4}, false},
		"a form":                    {with("application/x-www-form-urlencoded", 300), level1, false},
		"JSON":                      {with("Application/JSON; charset=utf-8", 10<<10), level1, true},
		"the beginning of it":       {with("application/json", 10<<10), engine.Settings{Paranoia: 1, MaxBody: 500}, false},
		"what claims to be a file":  {with("multipart/form-data; boundary=x", 10<<10), level1, true},
		"no type":                   {&engine.Request{URI: "/", Body: make([]byte, 10<<10)}, level1, true},
		"all of it in the URI":      {&engine.Request{URI: strings.Repeat("/", 4000)}, level1, true},
		"all of it in the cookie":   {&engine.Request{URI: "/", Header: []engine.Field{{Name: "Cookie", Value: strings.Repeat("x", 8000)}}}, level1, true},
		"all of it in other fields": {&engine.Request{URI: "/", Header: []engine.Field{{Name: "x", Value: strings.Repeat("x", 32000)}}}, level1, true},
	} {
		cost, heavy := expected(c.r, c.with)
		if heavy != c.heavy || cost < costBase || cost > time.Minute {
			t.Errorf("%s: %s, heavy: %v", name, cost, heavy)
		}
	}
	// Whatever fits into HAProxy's buffer is admitted at first.
	for _, kind := range []string{"application/json", "text/plain", "multipart/form-data"} {
		cost, heavy := expected(with(kind, 128<<10), engine.Settings{Paranoia: 4})
		if leave, ok := newGate(2).enter(t.Context(), cost, heavy, time.Now().Add(Within)); !ok {
			t.Errorf("%s: %s", kind, cost)
		} else {
			leave()
		}
	}
	// A file is admitted for its actual cost.
	file, _ := expected(with("multipart/form-data", 100<<10), level1)
	if json, _ := expected(with("application/json", 100<<10), level1); file > Within || json < 2*file {
		t.Errorf("a file %s, JSON %s", file, json)
	}
}

const (
	light = time.Millisecond
	heavy = 200 * time.Millisecond
)

// visit goes through a gate and stays inside for its cost. It reports whether it was admitted.
func visit(g *gate, cost time.Duration) bool { return visitFor(g, cost, cost) }

func visitFor(g *gate, cost, stay time.Duration) bool {
	leave, ok := g.enter(context.Background(), cost, cost > lightest, time.Now().Add(Within))
	if ok {
		time.Sleep(stay)
		leave()
	}
	return ok
}

// empty checks that a gate has no one inside or waiting.
func empty(t *testing.T, g *gate) {
	t.Helper()
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running != 0 || g.light.running != 0 || g.heavy.running != 0 || g.light.waiting.Len() != 0 || g.heavy.waiting.Len() != 0 || g.light.ahead != 0 || g.heavy.ahead != 0 {
		t.Errorf("left behind: %+v", g)
	}
}

func TestNoMoreAtOnceThanThereAreCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(4)
		var count sync.Mutex
		var inside, most, dears, mostDears int
		step := func(by int, dear bool) {
			count.Lock()
			defer count.Unlock()
			inside += by
			if dear {
				dears += by
			}
			most, mostDears = max(most, inside), max(mostDears, dears)
		}
		for n := range 60 {
			cost, dear := 5*time.Millisecond, n%10 == 0
			if dear {
				cost = 40 * time.Millisecond
			}
			go func() {
				leave, ok := g.enter(t.Context(), cost, dear, time.Now().Add(Within))
				if !ok {
					t.Error("turned away")
					return
				}
				step(1, dear)
				time.Sleep(cost)
				step(-1, dear)
				leave()
			}()
		}
		time.Sleep(Within)
		empty(t, g)
		if most != 4 || mostDears == 0 || mostDears > 3 {
			t.Errorf("%d at once, %d dear ones", most, mostDears)
		}
	})
}

func TestCheapRequestsDoNotWaitForDearOnes(t *testing.T) {
	for _, cores := range []int{1, 2, 8} {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(cores)
			var served, refused atomic.Int64
			stop := time.Now().Add(10 * time.Second)
			for range 16 { // who post as fast as they are answered
				go func() {
					for time.Now().Before(stop) {
						if visit(g, heavy) {
							served.Add(1)
						} else {
							refused.Add(1)
							time.Sleep(10 * time.Millisecond)
						}
					}
				}()
			}
			var longest time.Duration
			for time.Now().Before(stop) {
				time.Sleep(10 * time.Millisecond)
				before := time.Now()
				if !visit(g, light) {
					t.Fatal("a cheap request was turned away")
				}
				longest = max(longest, time.Since(before))
			}
			time.Sleep(time.Minute)
			empty(t, g)
			if longest > light {
				t.Errorf("%d cores: a cheap request took %s", cores, longest)
			}
			// The expensive ones get the rest of the time, without waste.
			if want := int64(10 * time.Second / heavy * time.Duration(max(2, cores)-1)); served.Load() < want || refused.Load() == 0 && cores < 8 {
				t.Errorf("%d cores: %d dear requests served, %d refused", cores, served.Load(), refused.Load())
			}
		})
	}
}

func TestCheapRequestsAloneDoNotKeepADearOneOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2)
		stop := time.Now().Add(5 * time.Second)
		for range 20 {
			go func() {
				for time.Now().Before(stop) {
					visit(g, 5*time.Millisecond)
				}
			}()
		}
		for time.Now().Before(stop) {
			synctest.Wait()
			if !visit(g, heavy) {
				t.Error("a dear request was turned away")
			}
		}
		time.Sleep(time.Minute)
		empty(t, g)
	})
}

func TestWhatCannotBeDoneInTimeIsTurnedAwayAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2)
		began := time.Now()
		if visit(g, 2*Within) {
			t.Error("a request that takes longer than it may got in")
		}
		// One after the other: 0.8 s have room for four of these. The gate hopes for two more.
		results := make(chan bool, 20)
		for range 20 {
			go func() { results <- visit(g, heavy) }()
			synctest.Wait()
		}
		if refused := len(results); refused != 14 || time.Since(began) != 0 {
			t.Errorf("%d refused after %s", refused, time.Since(began))
		}
		time.Sleep(time.Minute)
		empty(t, g)
		// Those that waited and then found no time were not inspected.
		var served int
		for range 20 {
			if <-results {
				served++
			}
		}
		if served != 4 {
			t.Errorf("%d served", served)
		}
	})
}

func TestALineHasItsLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2)
		results := make(chan bool, 300)
		for range 300 { // they cost next to nothing, but stay
			go func() { results <- visitFor(g, time.Microsecond, Within/2) }()
			synctest.Wait()
		}
		if refused := len(results); refused != 300-2-maxLight {
			t.Errorf("%d refused", refused)
		}
		time.Sleep(time.Minute)
		empty(t, g)
	})
}

func TestWhoWaitsLeavesWhenTheAnswerIsNotWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2)
		go visit(g, heavy)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan bool)
		go func() {
			_, ok := g.enter(ctx, heavy, true, time.Now().Add(Within))
			left <- ok
		}()
		synctest.Wait()
		began := time.Now()
		cancel()
		if <-left || time.Since(began) != 0 {
			t.Error("it waits on")
		}
		time.Sleep(time.Minute)
		empty(t, g)
	})
}

func TestWhoWaitsIsToldWhenItIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2)
		go visitFor(g, heavy, time.Minute) // it takes far longer than expected
		synctest.Wait()
		began := time.Now()
		if visit(g, heavy) {
			t.Error("it got in")
		}
		if waited := time.Since(began); waited > Within || waited < Within/2 {
			t.Errorf("answered after %s", waited)
		}
		time.Sleep(2 * time.Minute)
		empty(t, g)
	})
}

func TestAMachineThatStoodStillIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2)
		visitFor(g, heavy, time.Hour)
		if !visit(g, heavy) || !visit(g, 2*heavy) {
			t.Error("turned away because of one that took an hour")
		}
		empty(t, g)
	})
}

// Rare large requests are not turned away for long after the machine was busy.
func TestWhoComesBackIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2)
		const big = 350 * time.Millisecond // a form of 115 KB
		for range 40 {
			visitFor(g, 100*time.Millisecond, 800*time.Millisecond)
		}
		if visitFor(g, big, big) {
			t.Error("the gate has not learned")
		}
		time.Sleep(tryAfter)
		for range 2 {
			if !visitFor(g, big, big) {
				t.Error("turned away when it came back")
			}
		}
		// While the machine is slow, only one is tried.
		for range 40 {
			visitFor(g, 100*time.Millisecond, 800*time.Millisecond)
		}
		time.Sleep(tryAfter)
		if !visitFor(g, big, 8*big) || visitFor(g, big, 8*big) {
			t.Error("one was to be tried")
		}
		empty(t, g)
	})
}

func TestTheGateLearns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2)
		const big = 600 * time.Millisecond
		// The machine is four times slower than expected: what would take far too long is no longer started.
		for range 40 {
			visitFor(g, 100*time.Millisecond, 400*time.Millisecond)
		}
		if math.Abs(g.heavy.factor-4) > 0.1 {
			t.Errorf("a factor of %v", g.heavy.factor)
		}
		if visit(g, big) {
			t.Error("a request that takes 2.4 s got in")
		}
		// It becomes fast again, and only big requests arrive: eventually one is tried, and then all are served.
		tried := slices.IndexFunc(make([]struct{}, 200), func(struct{}) bool { return visitFor(g, big, big/4) })
		if tried < 1 {
			t.Errorf("tried at %d", tried)
		}
		for range 20 {
			if !visitFor(g, big, big/4) {
				t.Error("turned away again")
			}
		}
		empty(t, g)
	})
}
