package main

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // numbers rows, and keeps nothing secret
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/lab"
)

const (
	originPort   = 8081
	originTarget = "10.10.0.2"
	proxyTarget  = "198.51.100.1:80"
)

// measureProxy compares the time of a change with that of HAProxy alone, and of nginx.
func measureProxy(ctx context.Context, s settings) ([]goal, error) {
	goals, err := inProxy(ctx, s, (*proxyBench).liveChanges, (*proxyBench).reloads)
	if err != nil {
		return goals, err
	}
	got, err := measureContinuity(ctx)
	return append(goals, got...), err
}

// measureRequests compares the cost of a request with that on a few plain sites.
func measureRequests(ctx context.Context, s settings) ([]goal, error) {
	return inProxy(ctx, s, (*proxyBench).requests)
}

// measureCertificates compares the time for certificates with that of HAProxy alone.
func measureCertificates(ctx context.Context, s settings) ([]goal, error) {
	return inProxy(ctx, s, (*proxyBench).certificates)
}

// inProxy measures several things in one lab.
func inProxy(ctx context.Context, s settings, list ...func(*proxyBench, context.Context, settings) ([]goal, error)) (goals []goal, err error) {
	fmt.Println("a lab, with HAProxy")
	p, err := newProxyBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer p.close()
	for _, measure := range list {
		got, err := measure(p, ctx, s)
		goals = append(goals, got...)
		if err != nil {
			return goals, err
		}
	}
	return goals, nil
}

// proxyBench is a lab with an origin on its lan side.
type proxyBench struct {
	*bench
	origin net.Listener
	// peers are the nginx instances to compare with, by their number of sites.
	peers map[int]*nginx
}

func newProxyBench(ctx context.Context, s settings) (*proxyBench, error) {
	r, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	p := &proxyBench{bench: r, peers: map[int]*nginx{}}
	if err := p.lab.Within(lab.Lan, func() (err error) {
		p.origin, err = net.Listen("tcp", fmt.Sprintf("%s:%d", originTarget, originPort))
		return err
	}); err != nil {
		return nil, err
	}
	go http.Serve(p.origin, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:errcheck,gosec // ends with the bench
		_, _ = io.WriteString(w, r.URL.Path)
	}))
	return p, nil
}

func (p *proxyBench) close() {
	for _, n := range p.peers {
		n.stop()
	}
	p.origin.Close()
	p.bench.close()
}

// rowID is the id of a row that fill has stored.
func rowID(kind string, i int) uuid.UUID { return rowIDText(fmt.Sprintf("%s%d", kind, i)) }

func rowIDText(text string) uuid.UUID { return md5.Sum([]byte(text)) } //nolint:gosec // see the import

// siteName is the name of a domain that fill has stored.
func siteName(i int) string { return fmt.Sprintf("d%d.example.net", i) }

// sites are what fill stores.
type sites struct {
	domains, backends int
	// full turns every feature of every domain on; otherwise each has a header and a routing rule if hung is set.
	full, hung bool
}

// fill stores sites in the place of all others, and has HAProxy take them.
func (p *proxyBench) fill(ctx context.Context, x sites) error {
	if err := p.storeSites(ctx, x); err != nil {
		return err
	}
	return p.takeAll()
}

// storeSites stores sites in the place of all others.
func (b *bench) storeSites(ctx context.Context, x sites) error {
	headers, rules := 0, 0
	switch {
	case x.full:
		headers, rules = 3, 1
	case x.hung:
		headers, rules = 1, 1
	}
	_, err := b.pool.Exec(ctx, `TRUNCATE waf_configs, proxy_domains, proxy_domain_headers, proxy_routing_rules, proxy_backends, proxy_servers, certificate_certificates`)
	for _, statement := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO proxy_backends (id, created_at, updated_at, name, scheme, lb_algorithm, websocket, force_http1, active, health_check_enabled, health_check_path,
				health_check_method, health_check_host, health_check_expect, health_check_interval_seconds, verify_tls)
			SELECT md5('backend' || i)::uuid, now(), now(), 'backend ' || i, 'http', 'roundrobin', false, false, true, false, '/', 'GET', '', '200-399', 5, false
			FROM generate_series(0, $1 - 1) i`, []any{x.backends}},
		{`INSERT INTO proxy_servers (id, created_at, updated_at, backend_id, name, address, port, weight, backup, active)
			SELECT md5('server' || i)::uuid, now(), now(), md5('backend' || i)::uuid, 'first', $2, $3, 100, false, true FROM generate_series(0, $1 - 1) i`,
			[]any{x.backends, originTarget, originPort}},
		{`INSERT INTO proxy_domains (id, created_at, updated_at, name, backend_id, active, http_to_https, disable_h3, hsts_enabled, hsts_max_age, hsts_include_subdomains,
				hsts_preload, rate_limit_enabled, rate_limit_requests, rate_limit_period_seconds, maintenance, max_body_size_bytes, www_redirect, notes)
			SELECT md5('domain' || i)::uuid, now(), now(), 'd' || i || '.example.net', md5('backend' || i % $2)::uuid, true, false, $3, $3, 31536000, $3,
				false, $3, 1000000, 60, false, CASE WHEN $3 THEN 1000000 ELSE 0 END, 'none', '' FROM generate_series(0, $1 - 1) i`, []any{x.domains, x.backends, x.full}},
		{`INSERT INTO proxy_domain_headers (id, created_at, updated_at, domain_id, name, value, operation)
			SELECT md5('header' || i || '.' || n)::uuid, now(), now(), md5('domain' || i)::uuid, 'X-Bench-' || n, 'value of ' || i, 'set'
			FROM generate_series(0, $1 - 1) i, generate_series(0, $2 - 1) n`, []any{x.domains, headers}},
		{`INSERT INTO proxy_routing_rules (id, created_at, updated_at, domain_id, path_prefix, backend_id, priority, active, strip_prefix)
			SELECT md5('rule' || i)::uuid, now(), now(), md5('domain' || i)::uuid, '/app', md5('backend' || (i + 1) % $2)::uuid, i * 10, true, $4
			FROM generate_series(0, $1 - 1) i, generate_series(0, $3 - 1) n`, []any{x.domains, x.backends, rules, x.full}},
		{`ANALYZE`, nil},
	} {
		if err == nil {
			_, err = b.pool.Exec(ctx, statement.sql, statement.args...)
		}
	}
	if err != nil {
		return fmt.Errorf("storing sites: %w", err)
	}
	return nil
}

// takeAll applies all that is stored to HAProxy, however long that takes.
func (p *proxyBench) takeAll() error {
	_, before, err := p.state()
	if err != nil {
		return err
	}
	_, body, err := p.api.do(http.MethodPost, "/system/proxy-reload", nil)
	if err != nil {
		return err
	}
	for begun := time.Now(); time.Since(begun) < 2*time.Minute; time.Sleep(20 * time.Millisecond) {
		if state, applied, err := p.state(); err != nil || state == "live" && applied != before {
			return err
		}
	}
	return fmt.Errorf("the proxy does not take what is stored: %s", body)
}

// state is how far the proxy is, and since when.
func (p *proxyBench) state() (state, applied string, err error) {
	var all struct {
		Data []struct {
			Name, State   string
			LastAppliedAt string `json:"last_applied_at"`
		}
	}
	if err := p.get("/system/components", &all); err != nil {
		return "", "", err
	}
	for _, c := range all.Data {
		if c.Name == "reverse-proxy" {
			return c.State, c.LastAppliedAt, nil
		}
	}
	return "", "", errors.New("there is no reverse proxy")
}

func (p *proxyBench) get(path string, out any) error {
	res, body, err := p.api.do(http.MethodGet, path, nil)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s answers %d: %s", path, res.StatusCode, body)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, out)
}

// counts are the reloads, and the changes without one, since the service started.
func (p *proxyBench) counts() (reloads, changes int, err error) {
	var status struct {
		Data struct {
			Reloads        int
			RuntimeChanges int `json:"runtime_changes"`
		}
	}
	err = p.get("/proxy/status", &status)
	return status.Data.Reloads, status.Data.RuntimeChanges, err
}

// change makes a change, which must be live when it is answered.
func (p *proxyBench) change(method, path string, body any) error {
	return p.bench.change("reverse-proxy", method, path, body, nil)
}

// Where HAProxy answers in the lab.
const (
	workerSocket = "/run/haproxy/admin.sock"
	masterSocket = "/run/gateway-haproxy/master.sock"
)

// tell sends a command to HAProxy and returns its answer.
func (p *proxyBench) tell(socket, text string) (string, error) {
	conn, err := net.Dial("unix", p.lab.Path(socket))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text+"\n"); err != nil {
		return "", err
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(bytes.TrimSpace(answer)), err
}

// order sends a command to HAProxy, which must confirm it with a part of its answer, or with silence.
func (p *proxyBench) order(text, done string) error {
	said, err := p.tell(workerSocket, text)
	if err == nil && (done == "" && said != "" || !strings.Contains(said, done)) {
		err = fmt.Errorf("haproxy answers %q to %.80s", said, text)
	}
	return err
}

// loadAverage is how busy the machine is.
func loadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(string(content))[:3], " ")
}

// milliseconds shows times for people.
func milliseconds(times ...float64) string {
	parts := make([]string, len(times))
	for i, t := range times {
		parts[i] = fmt.Sprintf("%.2f ms", t*1000)
	}
	return strings.Join(parts, ", ")
}
