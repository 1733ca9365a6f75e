package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

const (
	forwardPath = "/agent/forward"
	waitingPath = "/agent/change-sets/waiting"
	// doubtAfter is how long the primary may work on a request before it is polled whether it is still alive, and aliveWithin how long it
	// may take to answer that. Together they are how long a caller waits for a dead primary.
	doubtAfter  = time.Second
	aliveWithin = 1500 * time.Millisecond
	// relayLimit is the maximum size of the answer to a forwarded request.
	relayLimit = 64 << 20
	// visibleWithin is how long an answer waits for its change to arrive here, so that the next read sees it.
	visibleWithin = time.Second
)

// line keeps connections to the primary.
type line struct {
	identity *identity
	id, url  string
	client   *http.Client
}

// lineTo returns the client for a node that is asked often.
func (r *Room) lineTo(i *identity, to Member) *http.Client {
	was := r.line.Load()
	if was != nil && was.identity == i && was.id == to.ID && was.url == to.APIURL {
		return was.client
	}
	now := &line{identity: i, id: to.ID, url: to.APIURL, client: &http.Client{CheckRedirect: noRedirect, Transport: &http.Transport{
		DialContext:     (&net.Dialer{Timeout: askWithin}).DialContext,
		TLSClientConfig: i.clientTLS(to.node(), r.Clock.Now), TLSHandshakeTimeout: askWithin,
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
	}}}
	if r.line.CompareAndSwap(was, now) && was != nil {
		was.client.CloseIdleConnections()
	}
	return now.client
}

// forward passes a request on this standby to the primary, which checks the user's rights. Requests without a user are not passed on: the
// database refuses their changes.
func (r *Room) forward(c *httpd.Call, refusal error) (done bool, err error) {
	i := r.identity.Load()
	if i == nil {
		return false, nil
	}
	s, err := Load(c, r.DB)
	if err != nil || s.Role != Standby {
		return false, err
	}
	if refusal != nil {
		return false, refusal
	}
	primary, err := r.primaryOf(c, s)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(c)
	defer cancel()
	var sent atomic.Bool
	req, ok, err := c.Onward(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}), primary.APIURL+httpd.Prefix+forwardPath)
	if err != nil || !ok {
		return false, err
	}
	c.Unhurried()
	answer := make(chan relayed, 1)
	client := r.lineTo(i, primary)
	if c.NeedsNewConnection() {
		client = r.once(i, primary)
	}
	go func() { answer <- relay(client, req) }()
	a := r.patient(ctx, primary, answer)
	if a.err == nil && a.Header[httpd.DoneHeader] == nil {
		a.err = fmt.Errorf("it takes no requests from here: %s %.200s", a.Status, a.body)
		sent.Store(false)
	}
	switch {
	case a.err != nil && c.Err() != nil:
		return false, c.Err()
	case a.err != nil:
		return false, gone(s, sent.Load(), a.err)
	}
	if id, err := uuid.Parse(a.Header.Get(httpd.DoneHeader)); err == nil {
		if _, err := r.arrived(c, id, visibleWithin); err != nil {
			r.Log.Warn("a change made by the primary has not arrived here yet", "err", err)
		}
		r.DB.Forget() // it may have ended a session
	}
	c.Relay(a.Response, a.body)
	return true, nil
}

// gone returns the error for a primary that does not answer. If the request was sent, the primary may have carried it out.
func gone(s State, sent bool, why error) error {
	f := fault.Wrap(fault.Unavailable, why, "The primary of the cluster, %s, does not answer. Nothing was changed.", s.PrimaryName)
	if sent {
		f = fault.Wrap(fault.Unavailable, why, "The primary of the cluster, %s, no longer answers. Check later whether the change was made.", s.PrimaryName)
	}
	f.Details = db.Primary{Primary: s.PrimaryName}
	return f
}

// relayed is the primary's answer.
type relayed struct {
	*http.Response
	body []byte
	err  error
}

func relay(client *http.Client, req *http.Request) relayed {
	res, err := client.Do(req)
	if err != nil {
		return relayed{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, relayLimit+1))
	if err == nil && len(body) > relayLimit {
		err = errors.New("the answer is too long")
	}
	return relayed{res, body, err}
}

// patient waits for an answer as long as the primary is alive.
func (r *Room) patient(ctx context.Context, primary Member, answer <-chan relayed) relayed {
	for {
		select {
		case a := <-answer:
			return a
		case <-time.After(doubtAfter):
		}
		asking, done := context.WithTimeout(ctx, aliveWithin)
		_, err := Ask[struct{ Version string }](asking, r, primary, http.MethodGet, "/agent/cluster/version", nil)
		done()
		if err == nil {
			continue
		}
		select {
		case a := <-answer:
			return a
		default:
			return relayed{err: err}
		}
	}
}

// mountForward adds the routes for forwarded requests.
func (r *Room) mountForward() {
	r.Router.Forward = r.forward
	r.Resources.AtPrimary = r.waitingThere
	httpd.Handle(r.agents, http.MethodGet, waitingPath, httpd.Own, httpd.Doc{ID: "agent.waiting", Tag: "cluster", Summary: "What waits to be confirmed on this node"},
		func(*httpd.Call, struct{}) ([]resource.WaitingSet, error) { return r.Resources.Waiting(), nil })
	r.agents.Add(httpd.Route{
		Doc:    httpd.Doc{ID: "agent.forward", Tag: "cluster", Summary: "Do what a user has asked another node for"},
		Method: http.MethodPost, Path: forwardPath, Policy: httpd.Own.Here(), In: reflect.TypeFor[struct{}](), Takes: httpd.ForwardType,
	}, func(c *httpd.Call) error {
		s, err := Load(c, r.DB)
		if err != nil {
			return err
		}
		if s.Role != Primary {
			return elsewhere(s)
		}
		return c.Passed(r.Router, r.api())
	})
}

// waitingThere returns the changes that wait for confirmation on the primary of this standby.
func (r *Room) waitingThere(ctx context.Context) ([]resource.WaitingSet, error) {
	s, err := Load(ctx, r.DB)
	if err != nil || s.Role != Standby {
		return nil, err
	}
	primary, err := r.primaryOf(ctx, s)
	if err != nil {
		return nil, err
	}
	return Ask[[]resource.WaitingSet](ctx, r, primary, http.MethodGet, waitingPath, nil)
}

// arrived waits for an audit entry of the primary, which arrives together with everything committed before it. It polls often at first,
// so that the answer to a change that takes milliseconds is only delayed by a fraction of that.
func (r *Room) arrived(ctx context.Context, id uuid.UUID, within time.Duration) (has bool, err error) {
	began := time.Now()
	for {
		err := r.DB.QueryRow(ctx, "SELECT EXISTS (SELECT FROM audit_entries WHERE id = $1)", id).Scan(&has)
		took := time.Since(began)
		if err != nil || has || took > within {
			return has, err
		}
		time.Sleep(min(max(took/8, time.Millisecond), arrivesEvery))
	}
}
