package kea

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/talk"
)

type live struct{ home home.Home }

func New(h home.Home) Leases { return &live{h} }

// askWithin bounds one answer: a reload reads all reservations and all leases.
const askWithin = 30 * time.Second

// Kea's result codes; every other one is a refusal.
const (
	done  = 0
	empty = 3 // done, without a result
)

// LeaseServerAsk uses a new connection for each command.
func (s *live) LeaseServerAsk(ctx context.Context, c Command, arguments json.RawMessage) (json.RawMessage, error) {
	if err := c.Known(); err != nil {
		return nil, err
	}
	return s.ask(ctx, c, arguments)
}

func (s *live) ask(ctx context.Context, c Command, arguments json.RawMessage) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askWithin, fmt.Errorf("kea did not answer within %s: %w", askWithin, context.DeadlineExceeded))
	defer cancel()
	question, err := json.Marshal(struct {
		Command   Command         `json:"command"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}{c, arguments})
	if err != nil {
		return nil, fmt.Errorf("asking kea for %s: %w", c, err)
	}
	reply, err := talk.Ask(ctx, s.home.Path(Where().Control), string(question))
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("kea: %w", daemon.ErrNotRunning)
	case err == nil && reply == "":
		err = errors.New("kea closed the connection")
	}
	var answer struct {
		Result    int             `json:"result"`
		Text      string          `json:"text"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(reply), &answer)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking kea for %s: %w", c, err)
	case answer.Result != done && answer.Result != empty:
		return nil, &Refused{Command: c, Text: answer.Text}
	}
	return answer.Arguments, nil
}
