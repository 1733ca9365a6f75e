package units

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/talk"
	"edge.internal/gateway/internal/kit/job"
)

// SupervisorSocket is the path of the supervisor's socket inside a lab.
const SupervisorSocket = "/run/gateway-lab/units.sock"

// Supervisor runs the units of a lab. It is a client of the lab's supervisor, over a unix socket: one connection per request, one line of
// JSON each for the request (unitRequest) and the reply (unitReply). A watch gets a reply per unit, and a search gets many. Closing the
// connection cancels the request.
type Supervisor struct{ Socket string }

// longestRequest is in bytes. The longest requests are searches for many words.
const longestRequest = 32 << 10

// unitRequest is a verb for a unit or for the journal.
type unitRequest struct {
	Verb string    `json:"verb"` // state, start, stop, restart, reload, enable, disable, begin, list, watch, search, follow
	Unit host.Unit `json:"unit,omitempty"`
	// Query is for search and follow.
	Query *host.JournalQuery `json:"query,omitempty"`
}

type unitReply struct {
	States       []host.UnitState `json:"states,omitempty"`
	Error        string           `json:"error,omitempty"`
	NotInstalled bool             `json:"not_installed,omitempty"`
	// Entries and Place are a batch of a search's result; Over marks the last reply.
	Entries []host.JournalEntry `json:"entries,omitempty"`
	Place   host.JournalPlace   `json:"place,omitzero"`
	Over    bool                `json:"over,omitempty"`
}

func (s Supervisor) State(ctx context.Context, u host.Unit) (host.UnitState, error) {
	states, err := s.ask(ctx, unitRequest{Verb: "state", Unit: u})
	if err != nil {
		return host.UnitState{}, err
	}
	if len(states) != 1 {
		return host.UnitState{}, fmt.Errorf("supervisor answered with %d states of %s", len(states), u)
	}
	return states[0], nil
}

func (s Supervisor) Start(ctx context.Context, u host.Unit) error   { return s.do(ctx, "start", u) }
func (s Supervisor) Stop(ctx context.Context, u host.Unit) error    { return s.do(ctx, "stop", u) }
func (s Supervisor) Restart(ctx context.Context, u host.Unit) error { return s.do(ctx, "restart", u) }
func (s Supervisor) Reload(ctx context.Context, u host.Unit) error  { return s.do(ctx, "reload", u) }

func (s Supervisor) Enable(ctx context.Context, u host.Unit, on bool) error {
	if on {
		return s.do(ctx, "enable", u)
	}
	return s.do(ctx, "disable", u)
}

// Begin starts a job without waiting for it.
func (s Supervisor) Begin(ctx context.Context, j job.Name) error {
	return s.do(ctx, "begin", host.Unit(j))
}

func (s Supervisor) Watch(ctx context.Context, changed func(host.Unit)) error {
	conn, err := s.send(ctx, unitRequest{Verb: "watch"})
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	for replies := json.NewDecoder(conn); ; {
		var reply unitReply
		if err := replies.Decode(&reply); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return fmt.Errorf("watching the units: %w", err)
		}
		for _, state := range reply.States {
			changed(state.Unit)
		}
	}
}

// SearchJournal searches the supervisor's journal: a lab has no journald.
func (s Supervisor) SearchJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry, host.JournalPlace)) error {
	return s.journal(ctx, unitRequest{Verb: "search", Query: &q}, sink)
}

func (s Supervisor) FollowJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry)) error {
	return s.journal(ctx, unitRequest{Verb: "follow", Query: &q}, func(batch []host.JournalEntry, _ host.JournalPlace) { sink(batch) })
}

func (s Supervisor) journal(ctx context.Context, req unitRequest, sink func([]host.JournalEntry, host.JournalPlace)) error {
	conn, err := s.send(ctx, req)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	for replies := json.NewDecoder(conn); ; {
		var reply unitReply
		switch err := replies.Decode(&reply); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("reading the lab's journal: %w", err)
		case reply.Error != "":
			return errors.New(reply.Error)
		case reply.Over:
			return nil
		}
		sink(reply.Entries, reply.Place)
	}
}

// States lists everything that the supervisor runs, in the order in which it was started.
func (s Supervisor) States(ctx context.Context) ([]host.UnitState, error) {
	return s.ask(ctx, unitRequest{Verb: "list"})
}

func (s Supervisor) do(ctx context.Context, verb string, u host.Unit) error {
	_, err := s.ask(ctx, unitRequest{Verb: verb, Unit: u})
	return err
}

func (s Supervisor) send(ctx context.Context, req unitRequest) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", s.Socket)
	if err != nil {
		return nil, fmt.Errorf("reaching the supervisor: %w", err)
	}
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		conn.Close()
		return nil, fmt.Errorf("asking the supervisor: %w", err)
	}
	return conn, nil
}

func (s Supervisor) ask(ctx context.Context, req unitRequest) ([]host.UnitState, error) {
	conn, err := s.send(ctx, req)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	var reply unitReply
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("waiting for the supervisor to %s %s: %w", req.Verb, req.Unit, err)
	}
	switch {
	case reply.NotInstalled:
		return nil, notInstalledReply{reply.Error}
	case reply.Error != "":
		return nil, errors.New(reply.Error)
	}
	return reply.States, nil
}

// notInstalledReply is ErrNotInstalled with the supervisor's text, which already ends with that of ErrNotInstalled.
type notInstalledReply struct{ text string }

func (e notInstalledReply) Error() string { return e.text }
func (e notInstalledReply) Unwrap() error { return host.ErrNotInstalled }

// Supervised is what Serve needs from the lab's supervisor.
type Supervised interface {
	host.Units
	host.Journal
	States(ctx context.Context) ([]host.UnitState, error)
	// Begin starts a job without waiting for it.
	Begin(ctx context.Context, j job.Name) error
}

// Serve answers a Supervisor's requests until the context ends; then it closes the listener, cancels running requests and waits for
// them.
func Serve(ctx context.Context, l net.Listener, units Supervised) error {
	var requests sync.WaitGroup
	defer requests.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accepting on the supervisor's socket: %w", err)
		}
		requests.Go(func() {
			defer conn.Close()
			if err := serveRequest(ctx, conn, units); err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
				slog.Warn("serving a supervisor's client", "err", err)
			}
		})
	}
}

func serveRequest(ctx context.Context, conn net.Conn, units Supervised) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })()
	line, err := bufio.NewReader(io.LimitReader(conn, longestRequest)).ReadBytes('\n')
	if err != nil {
		return err
	}
	var req unitRequest
	if err := json.Unmarshal(line, &req); err != nil {
		return err
	}
	if err := permitted(conn, req.Verb); err != nil {
		return json.NewEncoder(conn).Encode(unitReply{Error: err.Error()})
	}
	gone := make(chan struct{})
	go func() { // the client sends nothing more: Read returns when it closes the connection
		defer close(gone)
		defer cancel()
		_, _ = conn.Read(make([]byte, 1))
	}()
	if req.Verb == "watch" {
		replies := json.NewEncoder(conn)
		err := units.Watch(ctx, func(u host.Unit) {
			if replies.Encode(unitReply{States: []host.UnitState{{Unit: u}}}) != nil {
				cancel()
			}
		})
		cancel()
		<-gone
		return err
	}
	if req.Query != nil {
		err := serveJournal(ctx, cancel, conn, units, req)
		cancel()
		<-gone
		return err
	}
	states, err := dispatch(ctx, units, req)
	if ctx.Err() != nil { // the client is gone
		<-gone
		return nil
	}
	reply := unitReply{States: states}
	if err != nil {
		reply = unitReply{Error: err.Error(), NotInstalled: errors.Is(err, host.ErrNotInstalled)}
	}
	err = json.NewEncoder(conn).Encode(reply)
	cancel()
	<-gone
	return err
}

func serveJournal(ctx context.Context, cancel context.CancelFunc, conn net.Conn, units Supervised, req unitRequest) error {
	replies := json.NewEncoder(conn)
	send := func(batch []host.JournalEntry, at host.JournalPlace) {
		if replies.Encode(unitReply{Entries: batch, Place: at}) != nil {
			cancel()
		}
	}
	err := req.Query.Check()
	switch {
	case err != nil:
	case req.Verb == "follow":
		err = units.FollowJournal(ctx, *req.Query, func(batch []host.JournalEntry) { send(batch, host.JournalPlace{}) })
	default:
		err = units.SearchJournal(ctx, *req.Query, send)
	}
	if ctx.Err() != nil {
		return nil
	}
	last := unitReply{Over: true}
	if err != nil {
		last.Error = err.Error()
	}
	return replies.Encode(last)
}

// permitted lets every user read states. The rest is for root, as with systemd, and for the supervisor's own user.
func permitted(conn net.Conn, verb string) error {
	if slices.Contains([]string{"state", "list", "watch"}, verb) {
		return nil
	}
	peer, err := talk.Peer(conn.(*net.UnixConn))
	if err != nil {
		return err
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("user %d may not %s units", peer.Uid, verb)
	}
	return nil
}

func dispatch(ctx context.Context, units Supervised, req unitRequest) ([]host.UnitState, error) {
	switch req.Verb {
	case "list":
		return units.States(ctx)
	case "state":
		state, err := units.State(ctx, req.Unit)
		return []host.UnitState{state}, err
	case "start":
		return nil, units.Start(ctx, req.Unit)
	case "stop":
		return nil, units.Stop(ctx, req.Unit)
	case "restart":
		return nil, units.Restart(ctx, req.Unit)
	case "reload":
		return nil, units.Reload(ctx, req.Unit)
	case "begin":
		return nil, units.Begin(ctx, job.Name(req.Unit))
	case "enable":
		return nil, units.Enable(ctx, req.Unit, true)
	case "disable":
		return nil, units.Enable(ctx, req.Unit, false)
	}
	return nil, fmt.Errorf("no verb %q", req.Verb)
}
