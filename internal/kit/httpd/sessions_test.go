package httpd

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
)

// doorman counts the checks of each session, and answers as the test says.
type doorman struct {
	mu    sync.Mutex
	asked map[string]int
	role  actor.Role
	err   error
}

func (d *doorman) Authenticate(r *http.Request) (actor.Actor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[r.Header.Get("Authorization")]++
	if err := r.Context().Err(); err != nil {
		return actor.Actor{}, err
	}
	return actor.Actor{Role: d.role}, d.err
}

func (d *doorman) says(role actor.Role, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.role, d.err = role, err
}

// opened is a stream as far as its session is concerned.
type opened struct {
	context.Context
	leave func()
}

func (r *Router) opens(t *testing.T, caller string, p Policy) opened {
	t.Helper()
	request, over := context.WithCancel(t.Context())
	req := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(request)
	req.Header.Set("Authorization", caller)
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := r.streams.watch(r, req, p, cancel)
	return opened{ctx, func() { stop(); over() }}
}

func doors() (*Router, *doorman) {
	d := &doorman{asked: map[string]int{}, role: actor.Admin}
	r := NewRouter(slog.New(slog.DiscardHandler))
	r.Sessions = d
	return r, d
}

// However many streams a session has, they share its checks; and the remaining streams are watched when the first is gone.
func TestSessionIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := doors()
		first := r.opens(t, "a", Read)
		var rest []opened
		for range 9 {
			rest = append(rest, r.opens(t, "a", Read))
		}
		other := r.opens(t, "b", Read)
		first.leave()
		time.Sleep(10*sessionEvery + time.Millisecond)
		if d.asked["a"] != 10 || d.asked["b"] != 10 {
			t.Errorf("asked %v", d.asked)
		}
		admin := r.opens(t, "a", AdminRead)
		d.says(actor.Viewer, nil)
		time.Sleep(sessionEvery)
		if !errors.Is(context.Cause(admin), errSessionOver) || rest[0].Err() != nil {
			t.Errorf("an admin's stream: %v, a viewer's: %v", context.Cause(admin), rest[0].Err())
		}
		d.says("", fault.New(fault.Unauthenticated, "over"))
		time.Sleep(sessionEvery)
		for _, x := range append(rest, other) {
			if !errors.Is(context.Cause(x), errSessionOver) {
				t.Errorf("a stream of a session that is over: %v", context.Cause(x))
			}
		}
		for _, x := range append(rest, other, admin) {
			x.leave()
		}
		asked := d.asked["a"]
		time.Sleep(time.Hour)
		if d.asked["a"] != asked || len(r.streams.sessions) != 0 {
			t.Error("a session without streams is asked for")
		}
	})
}

// While a session cannot be checked, its streams continue, but not for long.
func TestUnjudgedStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := doors()
		x := r.opens(t, "a", Read)
		defer x.leave()
		time.Sleep(time.Millisecond) // between the checks
		for range 3 {
			d.says("", fault.New(fault.Unavailable, "away"))
			time.Sleep(unjudgedFor - sessionEvery)
			d.says(actor.Viewer, nil)
			time.Sleep(sessionEvery)
		}
		if x.Err() != nil {
			t.Fatal("a stream ends although its session is good")
		}
		d.says("", fault.New(fault.Unavailable, "away"))
		time.Sleep(unjudgedFor + 2*sessionEvery)
		if !errors.Is(context.Cause(x), errUnjudged) {
			t.Errorf("%v", context.Cause(x))
		}
	})
}

func TestStreamsAreCounted(t *testing.T) {
	var s streams
	var leave []func()
	open := func(user uuid.UUID, n int) (err error) {
		for range n {
			var out func()
			if out, err = s.enter(user); err != nil {
				return err
			}
			leave = append(leave, out)
		}
		return nil
	}
	user := uuid.New()
	if err := open(user, streamsPerUser); err != nil {
		t.Fatal(err)
	}
	if err := open(user, 1); !fault.Is(err, fault.TooMany) {
		t.Errorf("one more of a user: %v", err)
	}
	for s.all < streamsInAll {
		if err := open(uuid.New(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(uuid.New(), 1); !fault.Is(err, fault.TooMany) {
		t.Errorf("one more in all: %v", err)
	}
	for _, f := range leave {
		f()
	}
	if err := open(user, 1); err != nil || s.all != 1 || len(s.users) != 1 {
		t.Errorf("%v, %d, %v", err, s.all, s.users)
	}
}
