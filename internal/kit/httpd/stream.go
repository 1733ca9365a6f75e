package httpd

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/coder/websocket"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/wire"
)

const (
	pingEvery = 30 * time.Second
	// sendWithin is how long a reader may take for one frame.
	sendWithin = 20 * time.Second
)

// Stream registers a WebSocket of events of one type. In is a struct of query parameters as for Handle; errors in them are
// answered before the upgrade. follow sends until its context ends, and may reuse an event once send has returned. An event of
// type wire.Encoded is sent unchanged. The stream ends with the session that opened it.
func Stream[In, E any](r *Router, path string, p Policy, d Doc, follow func(ctx context.Context, in In, send func(E) error) error) {
	plan := planFor(reflect.TypeFor[In]())
	route := Route{Doc: d, Method: http.MethodGet, Path: path, Policy: p, In: reflect.TypeFor[In](), Out: &SchemaSource{Type: reflect.TypeFor[E]()}, Status: http.StatusSwitchingProtocols, WebSock: true}
	r.Add(route, func(c *Call) error {
		if c.Request.Header.Get("Upgrade") == "" {
			return fault.New(fault.Invalid, "This route is a WebSocket.")
		}
		if !sameOrigin(c.Request) {
			return fault.New(fault.Forbidden, "This stream was opened by another site.")
		}
		var in In
		var alive heartbeat
		var complaints check.List
		err := complaints.Merge(plan.read(c.Request, reflect.ValueOf(&in).Elem()))
		if err == nil {
			err = complaints.Merge(heartbeatPlan.read(c.Request, reflect.ValueOf(&alive).Elem()))
		}
		if err == nil {
			err = complaints.Err()
		}
		if err != nil {
			return err
		}
		leave, err := r.streams.enter(c.Actor.UserID)
		if err != nil {
			return err
		}
		defer leave()
		// sameOrigin has checked the origin
		conn, err := websocket.Accept(c.response, c.Request, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return nil // Accept has answered
		}
		defer conn.CloseNow()
		// The stream never receives data; reading answers pings and detects a reader that is gone.
		ctx, cancel := context.WithCancelCause(conn.CloseRead(context.WithValue(c.Context, connectedKey{}, c.Connected())))
		defer cancel(nil)
		defer r.streams.watch(r, c.Request, p, cancel)()
		go ping(ctx, cancel, conn, pingEvery)
		if alive.Seconds != nil {
			go alive.run(ctx, conn)
		}
		err = follow(ctx, in, func(e E) error { return sendFrame(ctx, conn, e) })
		code, reason := websocket.StatusGoingAway, "the gateway is stopping"
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, errSessionOver):
			code, reason = websocket.StatusPolicyViolation, cause.Error()
		case errors.Is(cause, errUnjudged):
			code, reason = websocket.StatusTryAgainLater, cause.Error()
		case ctx.Err() == nil && err != nil:
			code, reason = websocket.StatusInternalError, "the stream has failed"
			r.Log.Warn("stream failed", "path", path, "err", err)
		}
		_ = conn.Close(code, reason)
		return nil
	})
}

// sendFrame sends one event. Concurrent senders do not mix their frames. A frame that is being sent when the stream ends is
// completed: cancelling a write closes the connection, and the reader would not learn why.
func sendFrame(ctx context.Context, conn *websocket.Conn, event any) error {
	b, err := wire.Encode(event)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	sending, done := context.WithTimeout(context.WithoutCancel(ctx), sendWithin)
	defer done()
	return conn.Write(sending, websocket.MessageText, b)
}

// heartbeat is a query parameter of every stream. Scripts in a browser do not see pings, and could not distinguish a stream
// without events from a dead one.
type heartbeat struct {
	Seconds *int `query:"heartbeat" doc:"Send a frame {\"heartbeat\": time} every this many seconds (1 to 60) in addition to the events. By default there are none."`
}

var heartbeatPlan = planFor(reflect.TypeFor[heartbeat]())

func (h *heartbeat) Validate() error {
	if h.Seconds != nil && (*h.Seconds < 1 || *h.Seconds > 60) {
		return fault.Field("heartbeat", "must be between 1 and 60")
	}
	return nil
}

// run sends the frames until the stream ends.
func (h *heartbeat) run(ctx context.Context, conn *websocket.Conn) {
	every := time.NewTicker(time.Duration(*h.Seconds) * time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			_ = sendFrame(ctx, conn, struct {
				Heartbeat time.Time `json:"heartbeat"`
			}{time.Now().UTC()}) // if this fails, the connection is closed, which ends the context
		}
	}
}

// ping ends the stream when the reader is gone.
func ping(ctx context.Context, cancel context.CancelCauseFunc, conn *websocket.Conn, interval time.Duration) {
	every := time.NewTicker(interval)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			// not cancelled, for the same reason as in sendFrame
			pinging, done := context.WithTimeout(context.WithoutCancel(ctx), interval)
			err := conn.Ping(pinging)
			done()
			if err != nil {
				cancel(err)
				return
			}
		}
	}
}
