package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

// fqdn is the name of a gateway in a lab.
const fqdn = "gateway.lab.internal"

// waitHealthy waits until the API answers at all.
func (l *Lab) waitHealthy(ctx context.Context) error {
	for {
		err := l.call(ctx, http.MethodGet, "/api/v1/system/health", nil, nil)
		if _, answered := errors.AsType[*refusal](err); err == nil || answered {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API does not answer: %w (see %s)", err, l.Log(host.API))
		case <-l.up.done:
			return fmt.Errorf("the lab's init died, see %s", logFile(l.dir, "lab"))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// SetupComplete tells whether the gateway has been set up.
func (l *Lab) SetupComplete(ctx context.Context) (bool, error) {
	var status struct {
		Completed bool `json:"completed"`
	}
	err := l.call(ctx, http.MethodGet, "/api/v1/setup/status", nil, &status)
	return status.Completed, err
}

// ensureSetup completes the setup unless it is complete.
func (l *Lab) ensureSetup(ctx context.Context, opts Options) error {
	complete, err := l.SetupComplete(ctx)
	if err != nil {
		return fmt.Errorf("asking for the setup: %w", err)
	}
	if complete {
		opts.Progress("the setup is complete already")
		return nil
	}
	token, err := l.SetupToken()
	if err != nil {
		return fmt.Errorf("reading the setup token: %w", err)
	}
	err = l.call(ctx, http.MethodPost, "/api/v1/setup/complete", map[string]any{
		"admin_email":    opts.AdminEmail,
		"admin_password": opts.AdminPassword,
		"fqdn":           fqdn,
		"acme_email":     opts.AdminEmail,
		"acme_enabled":   false,
		"ipv6_enabled":   true,
		"setup_token":    token,
	}, nil)
	if err != nil {
		return fmt.Errorf("completing the setup: %w", err)
	}
	opts.Progress("setup complete, administrator " + opts.AdminEmail)
	return nil
}

// refusal is an answer of the API that is not a success.
type refusal struct {
	status int
	body   string
}

func (r *refusal) Error() string { return fmt.Sprintf("the API answers %d: %s", r.status, r.body) }

// call asks the API on its control socket and decodes the data of its answer.
func (l *Lab) call(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+fqdn+path, &body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := l.Client().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return &refusal{resp.StatusCode, string(content)}
	}
	if out == nil {
		return nil
	}
	envelope := struct{ Data any }{out}
	return json.Unmarshal(content, &envelope)
}
