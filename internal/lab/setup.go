package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

func (l *Lab) FQDN() string { return nodeName(l.Node, l.Nodes) + ".lab.internal" }

// waitHealthy waits until the API answers and has its database: earlier sessions can use only system routes.
func (l *Lab) waitHealthy(ctx context.Context) error {
	for {
		var health struct {
			Database string `json:"database"`
		}
		err := l.call(ctx, http.MethodGet, "/api/v1/system/health", nil, &health)
		if _, answered := errors.AsType[*refusal](err); answered || err == nil && health.Database == "up" {
			return nil
		}
		if err == nil {
			err = errors.New("it has no database")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API is not ready: %w (see %s)", err, l.Log(host.API))
		case <-l.up.done:
			return fmt.Errorf("the lab's init died, see %s", logFile(l.dir, "lab"))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// SetupComplete reports whether the gateway has been set up.
func (l *Lab) SetupComplete(ctx context.Context) (bool, error) {
	var status struct {
		Completed bool `json:"completed"`
	}
	err := l.call(ctx, http.MethodGet, "/api/v1/setup/status", nil, &status)
	return status.Completed, err
}

// ensureSetup completes the setup and declares the links, unless the setup is complete.
func (l *Lab) ensureSetup(ctx context.Context) error {
	opts := l.up.opts
	complete, err := l.SetupComplete(ctx)
	if err != nil {
		return fmt.Errorf("asking for the setup: %w", err)
	}
	if complete {
		opts.Progress("The setup is already complete.")
		return nil
	}
	if l.Node > 1 {
		return l.join(ctx)
	}
	token, err := l.SetupToken()
	if err != nil {
		return fmt.Errorf("reading the setup token: %w", err)
	}
	err = l.call(ctx, http.MethodPost, "/api/v1/setup/complete", map[string]any{
		"admin_email":    opts.AdminEmail,
		"admin_password": opts.AdminPassword,
		"fqdn":           l.FQDN(),
		"acme_email":     opts.AdminEmail,
		"acme_enabled":   false,
		"ipv6_enabled":   true,
		"setup_token":    token,
	}, nil)
	if err != nil {
		return fmt.Errorf("completing the setup: %w", err)
	}
	opts.Progress("setup complete, administrator " + opts.AdminEmail)
	if err := os.WriteFile(l.administratorFile(), []byte(opts.AdminEmail+"\n"+opts.AdminPassword+"\n"), 0o600); err != nil {
		return err
	}
	if err := l.adopt(ctx); err != nil {
		return fmt.Errorf("declaring the gateway's links: %w", err)
	}
	if l.Isolated() {
		opts.Progress("its links are declared, and the lan may reach the wan")
	}
	return nil
}

func (l *Lab) administratorFile() string { return filepath.Join(l.dir, "administrator") }

// Administrator returns the credentials with which the lab has completed the setup; empty if it was completed in the console.
func (l *Lab) Administrator() (email, password string) {
	content, _ := os.ReadFile(l.administratorFile())
	email, password, _ = strings.Cut(strings.TrimSpace(string(content)), "\n")
	return email, password
}

// join adds a node to the cluster of the first one, and declares its links.
func (l *Lab) join(ctx context.Context) error {
	var ticket struct {
		Token string `json:"token"`
	}
	first := l.up.first
	if err := first.call(ctx, http.MethodPost, "/api/v1/cluster/join-tokens", map[string]any{"node_fqdn": l.FQDN()}, &ticket); err != nil {
		return fmt.Errorf("asking for a join token: %w", err)
	}
	if err := l.call(ctx, http.MethodPost, "/api/v1/setup/join-cluster", map[string]any{"primary_fqdn": first.FQDN(), "join_token": ticket.Token}, nil); err != nil {
		return fmt.Errorf("joining: %w", err)
	}
	if err := l.call(ctx, http.MethodPost, "/api/v1/setup/complete-node", map[string]any{"fqdn": l.FQDN(), "acme_enabled": false, "ipv6_enabled": true}, nil); err != nil {
		return fmt.Errorf("completing the setup: %w", err)
	}
	l.up.opts.Progress("joined the cluster")
	if err := l.adopt(ctx); err != nil {
		return fmt.Errorf("declaring the gateway's links: %w", err)
	}
	return nil
}

// refusal is an answer of the API that is not a success.
type refusal struct {
	status int
	body   string
}

func (r *refusal) Error() string { return fmt.Sprintf("the API answers %d: %s", r.status, r.body) }

// call makes a request on the API's control socket and decodes the data of its answer.
func (l *Lab) call(ctx context.Context, method, path string, in, out any) error {
	return ask(ctx, l.Client(), "http://"+l.FQDN(), "", method, path, in, out)
}

// ask makes a request to the API, with a session's token if given, and decodes the data of its answer. It retries while the API
// is unavailable: on a busy machine the database may be silent for seconds, and the first node's reverse proxy may not have the
// certificate for joining nodes yet.
func ask(ctx context.Context, client *http.Client, base, token, method, path string, in, out any) error {
	for {
		err := askOnce(ctx, client, base, token, method, path, in, out)
		if no, answered := errors.AsType[*refusal](err); !answered || no.status != http.StatusServiceUnavailable {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func askOnce(ctx context.Context, client *http.Client, base, token, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, &body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
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
