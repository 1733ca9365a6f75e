package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/host/child"
)

const (
	email  = "admin@example.net"
	secret = "correct horse battery"
)

// client talks to one server over its unix socket.
type client struct {
	http   *http.Client
	base   string
	cookie string
}

func newClient(socket, base, greeting string) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil && greeting != "" {
			_, err = io.WriteString(conn, greeting)
		}
		return conn, err
	}
	return &client{http: &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second}, base: base}
}

func (c *client) do(method, path string, body []byte, headers ...string) (*http.Response, []byte, error) {
	req, err := http.NewRequest(method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if c.cookie != "" {
		req.Header.Set("Cookie", c.cookie)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, b, err
}

// rate is how many requests a second n connections get answered with the status.
func (c *client) rate(n, status int, d time.Duration, method string, path func() string, body []byte, headers ...string) (float64, error) {
	return load(n, d, func() error {
		path := path()
		res, b, err := c.do(method, path, body, headers...)
		if err == nil && res.StatusCode != status {
			err = fmt.Errorf("%s %s answers %d: %.200s", method, path, res.StatusCode, b)
		}
		return err
	})
}

// load calls f on n goroutines for a while and answers the rate.
func load(n int, d time.Duration, f func() error) (float64, error) {
	var done atomic.Int64
	var failed error
	var once sync.Once
	var workers sync.WaitGroup
	start := time.Now()
	for range n {
		workers.Go(func() {
			for time.Since(start) < d {
				if err := f(); err != nil {
					once.Do(func() { failed = err })
					return
				}
				done.Add(1)
			}
		})
	}
	workers.Wait()
	return float64(done.Load()) / time.Since(start).Seconds(), failed
}

type process struct {
	*os.Process
	ended <-chan error
}

func start(argv ...string) (*process, error) { return launch(exec.Command(argv[0], argv[1:]...)) }

func launch(cmd *exec.Cmd) (*process, error) {
	ended, err := child.Start(cmd, syscall.SIGKILL)
	return &process{cmd.Process, ended}, err
}

func (p *process) stop() {
	_ = p.Signal(syscall.SIGTERM)
	<-p.ended
}

// resident is how much memory a process has.
func resident(pid int) (float64, error) { return memory(pid, "VmRSS:") }

// peak is how much memory a process has had at most.
func peak(pid int) (float64, error) { return memory(pid, "VmHWM:") }

// forgetPeak has the peak begin here.
func forgetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// memory is a figure of a process's memory, by its name in the status.
func memory(pid int, name string) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(content), name)
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, fmt.Errorf("process %d has no %s", pid, name)
	}
	kilobytes, err := strconv.Atoi(fields[0])
	return float64(kilobytes) * 1024, err
}

func measureAPI(ctx context.Context, s settings) (goals []goal, err error) {
	dir, err := os.MkdirTemp("", "gateway-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	fmt.Println("a private PostgreSQL, with fsync")
	pg, err := private.Start(ctx, private.Options{Dir: filepath.Join(dir, "pg"), SocketDir: filepath.Join(dir, "pg", "run"), Fsync: true})
	if err != nil {
		return nil, err
	}
	defer pg.Stop() //nolint:errcheck // the bench is over
	pool, err := pgxpool.New(ctx, pg.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer pool.Close()

	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	api := func() (*process, error) {
		return start(filepath.Join(s.programs, "gateway-api"), "--db", pg.URL("postgres"), "--root", dir, "--units", "none:the bench has no daemons", "--listen", "", "--metrics", "")
	}
	gateway, err := api()
	if err != nil {
		return nil, err
	}
	defer func() { gateway.stop() }()
	socket := filepath.Join(dir, "run/gateway/api.sock")
	c := newClient(socket, "http://gateway/api/v1", proxyFrom("127.0.0.1"))
	if err := c.waitReady(); err != nil {
		return nil, err
	}
	setup := fmt.Sprintf(`{"admin_email":%q,"admin_password":%q,"fqdn":"gateway.example.net","acme_email":%q,"acme_enabled":false,"ipv6_enabled":true}`, email, secret, email)
	if res, b, err := c.do("POST", "/setup/complete", []byte(setup)); err != nil || res.StatusCode != 200 {
		return nil, fmt.Errorf("setup: %s %w", b, err)
	}
	if err := c.login(); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, `INSERT INTO account_users (id, created_at, updated_at, email, name, role, active, password, totp_enabled, oidc_subject)
		SELECT gen_random_uuid(), now(), now(), 'user' || n || '@example.net', 'User ' || n, 'viewer', true, '$2a$12$8Hn0rjLrWs0cqJcGkG3vXuR5pQ2mT7bZ1xY4wV9dF6sA3eKiOaNbC', false, '' FROM generate_series(1, 999) n`); err != nil {
		return nil, err
	}
	var ids []string
	if err := pool.QueryRow(ctx, `SELECT array_agg(id::text) FROM account_users WHERE role = 'viewer'`).Scan(&ids); err != nil {
		return nil, err
	}
	users := func() string { return "/users" }
	someID := func() string { return ids[rand.IntN(len(ids))] }
	someUser := func() string { return "/users/" + someID() }
	bareServer, err := start(self, "bare", filepath.Join(dir, "bare.sock"), pg.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer bareServer.stop()
	bare := newClient(filepath.Join(dir, "bare.sock"), "http://bare", "")
	for range 200 {
		if _, _, err = bare.do("GET", "/empty", nil); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return nil, err
	}

	fmt.Println("lists of 1,000 rows")
	encoded := func() string { return "/encoded" }
	lists, err := inTurns(s,
		func(d time.Duration) (float64, error) { return c.rate(8, 200, d, "GET", users, nil) },
		func(d time.Duration) (float64, error) { return bare.rate(8, 200, d, "GET", encoded, nil) },
		func(d time.Duration) (float64, error) { return bare.rate(8, 200, d, "GET", users, nil) })
	if err != nil {
		return goals, err
	}
	goals = append(goals,
		goal{"A2 list of 1,000 rows / bytes encoded before, in net/http", lists[0] / lists[1], "x", 0.5, true, perSecond(lists)},
		goal{"   list of 1,000 rows / bare net/http + pgx", lists[0] / lists[2], "x", 0.7, true, ""})

	res, _, err := c.do("GET", "/users", nil)
	if err != nil {
		return goals, err
	}
	empty := func() string { return "/empty" }
	unchanged, err := inTurns(s,
		func(d time.Duration) (float64, error) {
			return c.rate(8, 304, d, "GET", users, nil, "If-None-Match", res.Header.Get("ETag"))
		},
		func(d time.Duration) (float64, error) { return bare.rate(8, 304, d, "GET", empty, nil) })
	if err != nil {
		return goals, err
	}
	goals = append(goals, goal{"A2 unchanged list answers 304 / an empty handler", unchanged[0] / unchanged[1], "x", 0.7, true, perSecond(unchanged)})

	fmt.Println("mutations with audit, without a daemon")
	body := []byte(`{"name":"Another Name"}`)
	for _, n := range []int{1, 8} {
		rates, err := inTurns(s,
			func(d time.Duration) (float64, error) { return c.rate(n, 200, d, "PUT", someUser, body) },
			func(d time.Duration) (float64, error) { return bare.rate(n, 200, d, "PUT", someUser, body) },
			func(d time.Duration) (float64, error) {
				return load(n, d, func() error { return bareUpdate(ctx, pool, someID(), "Another Name") })
			})
		if err != nil {
			return goals, err
		}
		goals = append(goals,
			goal{fmt.Sprintf("A1 mutation at %d / two-row transaction in net/http", n), rates[0] / rates[1], "x", 0.8, true, perSecond(rates)},
			goal{fmt.Sprintf("   mutation at %d / two-row transaction alone", n), rates[0] / rates[2], "x", 0, true, "for scale"})
	}

	fmt.Println("what the guard of shared tables costs a node without a cluster")
	guard, err := newGuard(ctx, pool)
	if err != nil {
		return goals, err
	}
	var server struct{ Data struct{ ID string } }
	if _, b, err := c.do("POST", "/ntp/pools", []byte(`{"kind":"server","address":"192.0.2.1"}`)); err != nil || json.Unmarshal(b, &server) != nil {
		return nil, fmt.Errorf("a time server: %s %w", b, err)
	}
	var polls atomic.Int64
	feeding := func(d time.Duration) (float64, error) {
		return load(1, d, func() error {
			res, b, err := c.do("PUT", "/ntp/pools/"+server.Data.ID, fmt.Appendf(nil, `{"minpoll":%d}`, 4+polls.Add(1)%3))
			if err == nil && res.StatusCode != 200 {
				err = fmt.Errorf("PUT answers %d: %.200s", res.StatusCode, b)
			}
			return err
		})
	}
	for _, kind := range []struct {
		name   string
		mutate func(d time.Duration) (float64, error)
	}{
		{"mutation", func(d time.Duration) (float64, error) { return c.rate(1, 200, d, "PUT", someUser, body) }},
		{"mutation that feeds a component", feeding},
	} {
		guarded, err := inTurns(s,
			func(d time.Duration) (float64, error) {
				return guard.rate(ctx, true, func() (float64, error) { return kind.mutate(d) })
			},
			func(d time.Duration) (float64, error) {
				return guard.rate(ctx, false, func() (float64, error) { return kind.mutate(d) })
			})
		if err != nil {
			return goals, err
		}
		goals = append(goals, goal{"C1 " + kind.name + " with the guard / without", guarded[0] / guarded[1], "x", 0.95, true, perSecond(guarded)})
	}

	fmt.Println("what the history costs")
	history, err := newHistory(ctx, pool)
	if err != nil {
		return goals, err
	}
	var names atomic.Int64
	rename := func(d time.Duration) (float64, error) {
		return load(1, d, func() error {
			res, b, err := c.do("PUT", someUser(), fmt.Appendf(nil, `{"name":"Name %d"}`, names.Add(1)))
			if err == nil && res.StatusCode != 200 {
				err = fmt.Errorf("PUT answers %d: %.200s", res.StatusCode, b)
			}
			return err
		})
	}
	for _, kind := range []struct {
		name   string
		mutate func(d time.Duration) (float64, error)
	}{{"mutation", rename}, {"mutation that feeds a component", feeding}} {
		remembered, err := inTurns(s,
			func(d time.Duration) (float64, error) {
				return history.rate(ctx, true, func() (float64, error) { return kind.mutate(d) })
			},
			func(d time.Duration) (float64, error) {
				return history.rate(ctx, false, func() (float64, error) { return kind.mutate(d) })
			})
		if err != nil {
			return goals, err
		}
		goals = append(goals, goal{"H1 " + kind.name + " with the history / without", remembered[0] / remembered[1], "x", 0.9, true, perSecond(remembered)})
	}

	fmt.Println("logins")
	hash, err := bcrypt.GenerateFromPassword([]byte(secret), 12)
	if err != nil {
		return goals, err
	}
	logins, err := inTurns(settings{rounds: 7},
		func(time.Duration) (float64, error) { return seconds(c.login) },
		func(time.Duration) (float64, error) {
			return seconds(func() error { return bcrypt.CompareHashAndPassword(hash, []byte(secret)) })
		})
	if err != nil {
		return goals, err
	}
	goals = append(goals, goal{"A3 login / bare bcrypt at cost 12", logins[0] / logins[1], "x", 1.15, false, fmt.Sprintf("%.0f ms, %.0f ms", logins[0]*1000, logins[1]*1000)})

	fmt.Println("a flood of bad logins")
	flooded, err := measureFlood(ctx, socket)
	if err != nil {
		return goals, err
	}
	goals = append(goals, flooded...)

	fmt.Println("start and memory")
	time.Sleep(2 * time.Second)
	var starts []float64
	for range 5 {
		gateway.stop()
		took, err := seconds(func() error {
			if gateway, err = api(); err != nil {
				return err
			}
			return c.waitReady()
		})
		if err != nil {
			return goals, err
		}
		starts = append(starts, took)
	}
	time.Sleep(3 * time.Second)
	idle, err := resident(gateway.Pid)
	if err != nil {
		return goals, err
	}
	return append(goals,
		goal{"ready with the database up", median(starts), "s", 1, false, ""},
		goal{"idle memory (RSS)", idle / (1 << 20), "MiB", 60, false, ""}), nil
}

func seconds(f func() error) (float64, error) {
	start := time.Now()
	err := f()
	return time.Since(start).Seconds(), err
}

func perSecond(rates []float64) string {
	parts := make([]string, len(rates))
	for i, r := range rates {
		parts[i] = fmt.Sprintf("%.0f/s", r)
	}
	return strings.Join(parts, ", ")
}

// waitReady waits until the API has its database.
func (c *client) waitReady() error {
	for range 6000 {
		if _, b, err := c.do("GET", "/system/health", nil); err == nil && bytes.Contains(b, []byte(`"database":"up"`)) {
			return nil
		}
		c.http.CloseIdleConnections()
		time.Sleep(5 * time.Millisecond)
	}
	return errors.New("gateway-api does not get ready")
}

func (c *client) login() error {
	body, err := json.Marshal(map[string]string{"email": email, "password": secret})
	if err != nil {
		return err
	}
	res, b, err := c.do("POST", "/auth/login", body)
	if err != nil {
		return err
	}
	if len(res.Cookies()) == 0 {
		return fmt.Errorf("login: %d %s", res.StatusCode, b)
	}
	c.cookie = res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
	return nil
}
