package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// proxyChange is a change that HAProxy applies while it runs. The bare side changes its own rows and
// HAProxy, so that both remain consistent.
type proxyChange struct {
	name string
	// through the API
	method string
	path   string
	body   func(i int) any
	// bare
	sql    string
	args   func(i int) []any
	orders func(i int) string
	done   string
}

// backendWord is a backend as HAProxy names it.
func backendWord(i int) string { return "gateway_backend_" + rowID("backend", i).String() }

// entry is what HAProxy has for a key of a map.
func (p *proxyBench) entry(file, key string) (string, error) {
	said, err := p.tell(workerSocket, "get map "+file+" "+key)
	_, rest, ok := strings.Cut(said, `value="`)
	value, _, _ := strings.Cut(rest, `"`)
	if err == nil && !ok {
		err = fmt.Errorf("haproxy has no %s in %s: %s", key, file, said)
	}
	return value, err
}

// runtimeChanges are the changes that need no reload.
func (p *proxyBench) runtimeChanges() ([]proxyChange, error) {
	const ours, theirs = 0, 1 // the rows of the API, and those of the bare side
	site, err := p.entry("maps/hosts.map", siteName(theirs))
	if err != nil {
		return nil, err
	}
	flags, rest, _ := strings.Cut(site, "|")
	id := rowID("domain", theirs)
	made, _ := strings.CutPrefix(rest, id.String()) // what follows a domain's id
	return []proxyChange{
		{
			name: "weight of a server", method: http.MethodPut, path: "/backend-servers/" + rowID("server", ours).String(),
			body: func(i int) any { return map[string]any{"weight": 1 + i%200} },
			sql:  `UPDATE proxy_servers SET weight = $2, updated_at = now() WHERE id = $1`, args: func(i int) []any { return []any{rowID("server", theirs), 1 + i%200} },
			orders: func(i int) string { return fmt.Sprintf("set server %s/first weight %d", backendWord(theirs), 1+i%200) },
		},
		{
			name: "new server", method: http.MethodPost, path: "/backends/" + rowID("backend", ours).String() + "/servers",
			body: func(i int) any {
				return map[string]any{"name": fmt.Sprintf("made-%d", i), "address": originTarget, "port": originPort}
			},
			sql: `INSERT INTO proxy_servers (id, created_at, updated_at, backend_id, name, address, port, weight, backup, active) VALUES ($1, now(), now(), $2, $3, $4, $5, 100, false, true)`,
			args: func(i int) []any {
				return []any{uuid.New(), rowID("backend", theirs), fmt.Sprintf("made-%d", i), originTarget, originPort}
			},
			orders: func(i int) string {
				key := fmt.Sprintf("%s/made-%d", backendWord(theirs), i)
				return fmt.Sprintf("add server %s %s:%d weight 100;enable server %s", key, originTarget, originPort, key)
			},
			done: "New server registered.",
		},
		{
			name: "flag of a domain", method: http.MethodPut, path: "/domains/" + rowID("domain", ours).String(),
			body: func(i int) any { return map[string]any{"disable_h3": i%2 == 0} },
			sql:  `UPDATE proxy_domains SET disable_h3 = $2, updated_at = now() WHERE id = $1`, args: func(i int) []any { return []any{id, i%2 == 0} },
			orders: func(i int) string {
				word := flags
				if i%2 == 0 {
					word = flags[:1] + "n" + flags[1:]
				}
				return "set map maps/hosts.map " + siteName(theirs) + " " + word + "|" + rest
			},
		},
		{
			name: "value of a header", method: http.MethodPut, path: fmt.Sprintf("/domains/%s/headers/%s", rowID("domain", ours), headerID(ours)),
			body: func(i int) any { return map[string]any{"value": fmt.Sprintf("value-%d", i)} },
			sql:  `UPDATE proxy_domain_headers SET value = $2, updated_at = now() WHERE id = $1`, args: func(i int) []any { return []any{headerID(theirs), fmt.Sprintf("value-%d", i)} },
			orders: func(i int) string { return fmt.Sprintf("set map maps/headers.map %s value-%d", id, i) },
		},
		{
			name: "new routing rule", method: http.MethodPost, path: "/routing-rules",
			body: func(i int) any {
				return map[string]any{"domain_id": rowID("domain", ours), "path_prefix": fmt.Sprintf("/made/%d/", i), "backend_id": rowID("backend", ours)}
			},
			sql:  `INSERT INTO proxy_routing_rules (id, created_at, updated_at, domain_id, path_prefix, backend_id, priority, active, strip_prefix) VALUES ($1, now(), now(), $2, $3, $4, 1, true, false)`,
			args: func(i int) []any { return []any{uuid.New(), id, fmt.Sprintf("/made/%d/", i), rowID("backend", theirs)} },
			orders: func(i int) string {
				return fmt.Sprintf("add map maps/routes.map %s/made/%d/ %s|", id, i, backendWord(theirs))
			},
		},
		{
			name: "new domain", method: http.MethodPost, path: "/domains",
			body: func(i int) any {
				return map[string]any{"name": fmt.Sprintf("made-%d.example.net", i), "backend_id": rowID("backend", ours), "http_to_https": false}
			},
			sql: `INSERT INTO proxy_domains (id, created_at, updated_at, name, backend_id, active, http_to_https, disable_h3, hsts_enabled, hsts_max_age, hsts_include_subdomains,
				hsts_preload, rate_limit_enabled, rate_limit_requests, rate_limit_period_seconds, maintenance, max_body_size_bytes, www_redirect, notes)
				VALUES ($1, now(), now(), $2, $3, true, false, false, false, 31536000, false, false, false, 100, 60, false, 0, 'none', '')`,
			args: func(i int) []any { return []any{rowID("bare", i), bareName(i), rowID("backend", theirs)} },
			orders: func(i int) string {
				return fmt.Sprintf("add map maps/hosts.map %s p|%s%s", bareName(i), rowID("bare", i), made)
			},
		},
	}, nil
}

func headerID(i int) uuid.UUID { return rowIDText(fmt.Sprintf("header%d.0", i)) }

func bareName(i int) string { return fmt.Sprintf("bare-%d.example.net", i) }

// bareChange is the commit of the same row with its audit entry, and the bare orders to HAProxy.
func (p *proxyBench) bareChange(ctx context.Context, sql string, args []any, orders func() error) error {
	if err := bareTransaction(ctx, p.pool, sql, args...); err != nil {
		return err
	}
	return orders()
}

// liveChanges compares changes that need no reload with their bare parts.
func (p *proxyBench) liveChanges(ctx context.Context, s settings) (goals []goal, err error) {
	for _, n := range []int{1000 / s.shrink, 10000 / s.shrink} {
		fmt.Println("changes of one of", n, "domains; load", loadAverage())
		if err := p.fill(ctx, sites{domains: n, backends: n / 10, hung: true}); err != nil {
			return nil, err
		}
		got, err := p.changesAmong(ctx, n)
		if err != nil {
			return nil, err
		}
		goals = append(goals, got...)
	}
	return goals, nil
}

func (p *proxyBench) changesAmong(ctx context.Context, n int) (goals []goal, err error) {
	list, err := p.runtimeChanges()
	if err != nil {
		return nil, err
	}
	reloads, before, err := p.counts()
	if err != nil {
		return nil, err
	}
	made, slowest := 0, 0.0
	for _, c := range list {
		var sides [2][]float64
		for i := range 60 {
			ours, err := seconds(func() error { return p.change(c.method, c.path, c.body(i)) })
			if err != nil {
				return nil, err
			}
			bare, err := seconds(func() error {
				return p.bareChange(ctx, c.sql, c.args(i), func() error { return p.order(c.orders(i), c.done) })
			})
			if err != nil {
				return nil, err
			}
			made++
			if i < 5 {
				continue // the first prepare their statements
			}
			sides[0], sides[1] = append(sides[0], ours), append(sides[1], bare)
		}
		ours, bare := median(sides[0]), median(sides[1])
		slowest = max(slowest, ours)
		goals = append(goals, goal{fmt.Sprintf("P2 %s / commit + order, %d domains", c.name, n), ours / bare, "x", 3, false,
			milliseconds(ours, bare) + "; p95 " + milliseconds(p95(sides[0]), p95(sides[1]))})
	}
	follow, err := p.followed()
	if err != nil {
		return nil, err
	}
	after, changes, err := p.counts()
	if err != nil {
		return nil, err
	}
	peer, err := p.peer(ctx, n)
	return append(goals,
		goal{fmt.Sprintf("   reloads in these %d changes", made), float64(after - reloads), "", 0, false, fmt.Sprintf("%d changes at run time", changes-before)},
		goal{"   until the files follow", follow, "s", 0, true, "for scale"},
		goal{fmt.Sprintf("   nginx's way / the slowest of these, %d", n), peer / slowest, "x", 1, true, milliseconds(peer, slowest)}), err
}

func p95(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)*95/100]
}

// followed is how long after a change, which is live, the files have it.
func (p *proxyBench) followed() (float64, error) {
	var times []float64
	for i := range 3 {
		word := fmt.Sprintf("followed-%d", i)
		if err := p.change(http.MethodPut, fmt.Sprintf("/domains/%s/headers/%s", rowID("domain", 0), headerID(0)), map[string]any{"value": word}); err != nil {
			return 0, err
		}
		took, err := seconds(func() error {
			for range 3000 {
				content, err := os.ReadFile(p.lab.Path("/etc/haproxy/gateway/maps/headers.map"))
				if err != nil || strings.Contains(string(content), word) {
					return err
				}
				time.Sleep(10 * time.Millisecond)
			}
			return errors.New("the files do not follow")
		})
		if err != nil {
			return 0, err
		}
		times = append(times, took)
		time.Sleep(time.Second)
	}
	return median(times), nil
}

// reloads compares a change that needs a reload with the bare reload of the same files, and with their check besides. The bars are for as many
// backends as domains; fewer make HAProxy faster and nothing else, and are shown for scale.
func (p *proxyBench) reloads(ctx context.Context, s settings) (goals []goal, err error) {
	made := 0
	backend := func() any {
		made++
		return map[string]any{"name": fmt.Sprintf("made %d", made), "health_check_enabled": false}
	}
	for _, x := range []struct {
		domains, backends int
		bar               float64
		atLeast           bool
	}{{domains: 1000, backends: 1000, bar: 1.2}, {domains: 10000, backends: 1000, atLeast: true}, {domains: 10000, backends: 10000, bar: 1.2}} {
		n, backends := x.domains/s.shrink, x.backends/s.shrink
		fmt.Println("new backends beside", backends, "others and", n, "domains; load", loadAverage())
		if err := p.fill(ctx, sites{domains: n, backends: backends, hung: true}); err != nil {
			return nil, err
		}
		peer, err := p.peer(ctx, n)
		if err != nil {
			return nil, err
		}
		times, err := inTurns(settings{rounds: 11},
			func(time.Duration) (float64, error) {
				return seconds(func() error { return p.change(http.MethodPost, "/backends", backend()) })
			},
			func(time.Duration) (float64, error) { return seconds(p.bareReload) },
			func(time.Duration) (float64, error) { return seconds(p.bareCheck) })
		if err != nil {
			return nil, err
		}
		goals = append(goals,
			goal{fmt.Sprintf("P3 new backend / reload, %d of %d", backends, n), times[0] / times[1], "x", x.bar, x.atLeast, milliseconds(times[:2]...)},
			goal{fmt.Sprintf("   new backend / haproxy -c + reload, %d of %d", backends, n), times[0] / (times[1] + times[2]), "x", 0, true, milliseconds(times[0], times[1]+times[2])},
			goal{fmt.Sprintf("   nginx's way / this, %d", n), peer / times[0], "x", 0, true, milliseconds(peer, times[0])})
	}
	usual, err := p.usualBackends(ctx)
	if err != nil {
		return goals, err
	}
	goals = append(goals, usual...)
	before, _, err := p.counts()
	if err != nil {
		return goals, err
	}
	var failed atomic.Int64
	took, err := seconds(func() error {
		var all sync.WaitGroup
		for range 100 {
			body := backend()
			all.Go(func() {
				if p.change(http.MethodPost, "/backends", body) != nil {
					failed.Add(1)
				}
			})
		}
		all.Wait()
		return nil
	})
	if err != nil {
		return goals, err
	}
	after, _, err := p.counts()
	return append(goals,
		goal{"   reloads for 100 new backends at once", float64(after - before), "", 5, false, fmt.Sprintf("%.2f s", took)},
		goal{"   of these without an answer within 30 s", float64(failed.Load()), "", 0, false, "they are checked one by one"}), err
}

// usualBackends makes backends of the usual form, which take a spare one of HAProxy's. The bare side is the commit of the row alone.
func (p *proxyBench) usualBackends(ctx context.Context) ([]goal, error) {
	var sides [2][]float64
	reloads := 0
	for i := range 33 {
		before, _, err := p.counts()
		if err != nil {
			return nil, err
		}
		ours, err := seconds(func() error {
			return p.change(http.MethodPost, "/backends", map[string]any{"name": fmt.Sprint("usual ", i)})
		})
		if err != nil {
			return nil, err
		}
		after, _, err := p.counts()
		if err != nil {
			return nil, err
		}
		reloads += after - before
		bare, err := seconds(func() error { return bareTransaction(ctx, p.pool, touchSettings) })
		if err != nil {
			return nil, err
		}
		sides[0], sides[1] = append(sides[0], ours), append(sides[1], bare)
	}
	return []goal{
		{"P3 new backend of the usual form / commit", median(sides[0]) / median(sides[1]), "x", 3, false, milliseconds(median(sides[0]), median(sides[1]))},
		{"   reloads for 33 of them", float64(reloads), "", 5, false, "one brings 8 spare backends"},
	}, nil
}

// bareCheck checks the installed files.
func (p *proxyBench) bareCheck() error {
	if out, err := exec.Command("/usr/sbin/haproxy", "-c", "-q", "-f", p.lab.Path("/etc/haproxy/gateway/haproxy.cfg")).CombinedOutput(); err != nil {
		return fmt.Errorf("haproxy -c: %w: %s", err, out)
	}
	return nil
}

// bareReload reloads HAProxy until another worker serves.
func (p *proxyBench) bareReload() error {
	worker := func() string {
		said, err := p.tell(masterSocket, "show proc")
		_, rest, _ := strings.Cut(said, "# workers\n")
		pid, _, _ := strings.Cut(rest, " ")
		if err != nil {
			return "" // it restarts itself
		}
		return pid
	}
	was := worker()
	for begun := time.Now(); time.Since(begun) < time.Minute; {
		_, _ = p.tell(masterSocket, "reload") // a 2.6 closes the connection
		for range 20000 {
			if now := worker(); now == was && was != "" {
				break // it was lost
			} else if now != "" {
				return nil
			}
			time.Sleep(time.Millisecond)
		}
	}
	return errors.New("haproxy does not reload")
}

// measureContinuity runs the tests that count lost requests while HAProxy is reloaded under load.
func measureContinuity(ctx context.Context) ([]goal, error) {
	fmt.Println("requests while the proxy changes; load", loadAverage())
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=20m", "-json", "-run=Continuity/(Hitless|Reloads)", "./test/machine")
	cmd.Env = append(os.Environ(), "GATEWAY_APPLIES=500", "GATEWAY_RELOADS=100")
	out, err := cmd.Output()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) { // a failed test is reported below
		return nil, err
	}
	passed, broken := 0, 0
	var said []string
	for line := range strings.Lines(string(out)) {
		var event struct{ Action, Test, Output string }
		if err := json.Unmarshal([]byte(line), &event); err != nil || !strings.Contains(event.Test, "/") {
			continue
		}
		switch {
		case event.Action == "pass":
			passed++
		case event.Action == "fail":
			broken++
		case event.Action == "output" && strings.Contains(event.Output, "_test.go:"):
			_, text, _ := strings.Cut(strings.TrimSpace(event.Output), ": ")
			said = append(said, filepath.Base(event.Test)+": "+text)
		}
	}
	return []goal{{"P4 and P5: tests passed, of 500 applies and 100 reloads", float64(passed), "", float64(max(1, passed+broken)), true, strings.Join(said, "; ")}}, nil
}
