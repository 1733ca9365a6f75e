package httpd

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/fault"
)

const (
	// sessionEvery is how often a stream checks that its session is still valid.
	sessionEvery = 3 * time.Second
	// unjudgedFor is how long the streams of a session continue while it cannot be checked.
	unjudgedFor = time.Minute
	// Limits of streams, for one user and in total.
	streamsPerUser = 20
	streamsInAll   = 200
)

var (
	errSessionOver = errors.New("the session is over")
	errUnjudged    = errors.New("the session cannot be checked")
)

// streams holds the open streams. Streams of the same session share its checks.
type streams struct {
	mu       sync.Mutex
	users    map[uuid.UUID]int
	all      int
	sessions map[credential]*watched
}

// credential identifies a session or token.
type credential struct{ authorization, cookie string }

// watched is a session with streams, and the functions that end them.
type watched struct {
	streams map[*context.CancelCauseFunc]Policy
	stop    context.CancelFunc
}

// enter counts a stream, unless there are too many.
func (s *streams) enter(user uuid.UUID) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.users[user] >= streamsPerUser:
		return nil, fault.New(fault.TooMany, "You already have %d open streams. Close one first.", streamsPerUser)
	case s.all >= streamsInAll:
		return nil, fault.New(fault.TooMany, "The gateway already has %d open streams. Try again later.", streamsInAll)
	}
	if s.users == nil {
		s.users = map[uuid.UUID]int{}
	}
	s.users[user]++
	s.all++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.users[user]--; s.users[user] == 0 {
			delete(s.users, user)
		}
	}, nil
}

// watch ends a stream when its session ends. stop ends the watch.
func (s *streams) watch(r *Router, req *http.Request, p Policy, end context.CancelCauseFunc) (stop func()) {
	key := credential{authorization: req.Header.Get("Authorization")}
	if c, err := req.Cookie(SessionCookie); err == nil {
		key.cookie = c.Value
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.sessions[key]
	if w == nil {
		if s.sessions == nil {
			s.sessions = map[credential]*watched{}
		}
		// the first stream need not be the last
		ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
		w = &watched{streams: map[*context.CancelCauseFunc]Policy{}, stop: cancel}
		s.sessions[key] = w
		go s.judge(w, r, req.Clone(ctx))
	}
	w.streams[&end] = p
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(w.streams, &end); len(w.streams) == 0 {
			w.stop()
			if s.sessions[key] == w {
				delete(s.sessions, key)
			}
		}
	}
}

// judge checks a session as long as it has streams, and ends those that are no longer allowed.
func (s *streams) judge(w *watched, r *Router, req *http.Request) {
	every := time.NewTicker(sessionEvery)
	defer every.Stop()
	judged := time.Now()
	for {
		select {
		case <-req.Context().Done():
			return
		case <-every.C:
		}
		a, err := r.authenticate(req)
		if !fault.Is(err, fault.Unavailable) {
			judged = time.Now()
		}
		s.mu.Lock()
		for end, policy := range w.streams {
			why := err
			if why == nil {
				why = policy.allow(a)
			}
			switch {
			case why == nil:
			case !fault.Is(why, fault.Unavailable):
				(*end)(errSessionOver)
			case time.Since(judged) > unjudgedFor: // a database that is briefly unavailable does not end a session
				(*end)(errUnjudged)
			}
		}
		s.mu.Unlock()
	}
}
