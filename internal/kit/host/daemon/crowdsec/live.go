package crowdsec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

const (
	// askWithin bounds one answer: CrowdSec's community blocklist has tens of thousands of entries.
	askWithin = 10 * time.Second
	// answerLimit is in bytes.
	answerLimit = 64 << 20
)

type live struct {
	home   home.Home
	client *http.Client
}

func New(h home.Home) Detection {
	// Requests to loopback must not use a proxy of the environment, and a redirect must not send credentials elsewhere.
	return &live{h, &http.Client{
		Transport:     &http.Transport{MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (s *live) DetectionAsk(ctx context.Context, q Question) (json.RawMessage, error) {
	method, path, err := q.Request()
	if err != nil {
		return nil, err
	}
	if err := s.home.Here(string(Unit)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askWithin, fmt.Errorf("CrowdSec did not answer within %s: %w", askWithin, context.DeadlineExceeded))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d%s", Port, path), bytes.NewReader(q.Body))
	if err != nil {
		return nil, fmt.Errorf("asking CrowdSec: %w", err)
	}
	req.Header.Set("User-Agent", "gateway/1") // CrowdSec refuses machines without a version
	if len(q.Body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if q.Token != "" {
		req.Header.Set("Authorization", "Bearer "+q.Token)
	}
	if q.Key != "" {
		req.Header.Set("X-Api-Key", q.Key)
	}
	res, err := s.client.Do(req)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("CrowdSec: %w", daemon.ErrNotRunning)
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("asking CrowdSec: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerLimit))
	if err != nil {
		return nil, fmt.Errorf("reading CrowdSec's answer: %w", err)
	}
	if res.StatusCode >= 300 {
		return nil, &Refused{Status: res.StatusCode, Text: message(answer)}
	}
	return answer, nil
}

func message(body []byte) string {
	var answer struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Message == "" {
		return string(body)
	}
	return answer.Message
}
