package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	floodLogins    = 200
	floodAddresses = 20
	// floodFor is how long the rest of the API is watched.
	floodFor = 12 * time.Second
)

// proxyFrom is the PROXY header with the client's address.
func proxyFrom(addr string) string {
	return fmt.Sprintf("PROXY TCP4 %s 127.0.0.1 4711 3443\r\n", addr)
}

// measureFlood sends failing logins from several addresses concurrently, each for a different account, so that every one is hashed or refused after its wait.
// It measures the rest of the API at the same time, and logins from an address that has logged in before.
func measureFlood(ctx context.Context, socket string) ([]goal, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	health, right := newClient(socket, "http://gateway/api/v1", proxyFrom("203.0.113.1")), newClient(socket, "http://gateway/api/v1", proxyFrom("203.0.113.2"))
	if err := right.login(); err != nil {
		return nil, err
	}
	var flood sync.WaitGroup
	var refused, away, other atomic.Int64
	for i := range floodLogins {
		c := newClient(socket, "http://gateway/api/v1", proxyFrom(fmt.Sprintf("198.51.100.%d", i%floodAddresses+1)))
		body := fmt.Sprintf(`{"email":"nobody%d@example.net","password":"not the password"}`, i)
		flood.Go(func() {
			defer c.http.CloseIdleConnections()
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/auth/login", strings.NewReader(body))
				if err != nil {
					return
				}
				res, err := c.http.Do(req)
				if err != nil {
					return // it was still waiting when the measurement ended
				}
				res.Body.Close()
				switch res.StatusCode {
				case http.StatusUnauthorized:
					refused.Add(1)
				case http.StatusTooManyRequests: // it has waited for as long as a request may
					away.Add(1)
				default:
					other.Add(1)
				}
			}
		})
	}
	time.Sleep(500 * time.Millisecond)

	var slowest float64
	var failed error
	var logins sync.WaitGroup
	logins.Go(func() {
		for range 5 {
			took, err := seconds(right.login)
			if err != nil {
				failed = err
				return
			}
			slowest = max(slowest, took)
		}
	})
	var took []float64
	for start := time.Now(); time.Since(start) < floodFor; time.Sleep(2 * time.Millisecond) {
		one, err := seconds(func() error {
			res, b, err := health.do("GET", "/system/health", nil)
			if err == nil && res.StatusCode != http.StatusOK {
				err = fmt.Errorf("health: %d %s", res.StatusCode, b)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		took = append(took, one)
	}
	logins.Wait()
	judged, sent := refused.Load(), away.Load()
	stop()
	flood.Wait()
	switch {
	case failed != nil:
		return nil, failed
	case other.Load() > 0:
		return nil, fmt.Errorf("%d of the bad logins were answered with something else than 401 and 429", other.Load())
	}
	return []goal{
		{fmt.Sprintf("health p99 during %d bad logins at once", floodLogins), p99(took) * 1000, "ms", 500, false,
			fmt.Sprintf("median %.1f ms of %d; %d logins judged in the meantime, %d refused", median(took)*1000, len(took), judged, sent)},
		{"a right login from a known address, the slowest of 5", slowest, "s", 5, false, ""},
	}, nil
}
