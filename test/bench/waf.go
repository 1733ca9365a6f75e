package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/corazawaf/coraza/v3/experimental/plugins"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/lab"
	wafagent "edge.internal/gateway/internal/waf/agent"
	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/rx"
	"edge.internal/gateway/internal/waf/spoe"
)

const (
	// wafDomains is how many domains have settings of their own.
	wafDomains = 1000
	// wafConns is how many clients ask at once, and wafPosters how many of them when each request takes a core for long.
	wafConns, wafPosters = 8, 2
	// besideRate is how many requests a second there are beside besidePosters with large bodies, for besideFor.
	besideRate, besidePosters, besideFor = 100, 4, 8 * time.Second
)

// servePlain is an agent on the same protocol with Coraza as it comes, which listens on a socket that it inherits.
func servePlain() error {
	plugins.RegisterOperator("rx", rx.Ungated)
	set, err := engine.NewStock()
	if err != nil {
		return err
	}
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	all := &wafagent.Domain{Name: "all", Settings: engine.Settings{Blocking: true, Paranoia: 1}}
	a := wafagent.New(set, func([]byte) *wafagent.Domain { return all })
	fmt.Println("ready")
	return (&spoe.Server{Handler: a.Handle, Log: slog.New(slog.DiscardHandler)}).Serve(context.Background(), l)
}

// wafBench is a gateway with a domain that is inspected, by the gateway's agent or by the plain one.
type wafBench struct {
	*proxyBench
	plain *process // nil while the gateway's agent is there
	asked atomic.Int64
}

// measureWAF compares the web application firewall with a plain agent, and with itself under a load of large requests.
func measureWAF(ctx context.Context, s settings) (goals []goal, err error) {
	fmt.Println("a lab, with HAProxy and the web application firewall")
	p, err := newProxyBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer p.close()
	domains := wafDomains / s.shrink
	if err := p.fill(ctx, sites{domains: domains + 1, backends: 1}); err != nil {
		return nil, err
	}
	w := &wafBench{proxyBench: p}
	defer w.stopPlain()
	for _, measure := range []func(context.Context, settings, int) ([]goal, error){w.unaffected, w.compared, w.beside, w.many} {
		got, err := measure(ctx, s, domains)
		if err != nil {
			return nil, err
		}
		goals = append(goals, got...)
	}
	return goals, nil
}

// guard changes the settings of a domain.
func (w *wafBench) guard(domain int, body map[string]any) error {
	return w.change(http.MethodPut, "/waf/configs/"+rowID("domain", domain).String(), body)
}

// unaffected compares a domain that is not inspected while another one is, with the same while none is.
func (w *wafBench) unaffected(_ context.Context, s settings, _ int) ([]goal, error) {
	cost := func(on bool) func(time.Duration) (float64, error) {
		return func(d time.Duration) (float64, error) {
			if err := w.guard(0, map[string]any{"enabled": on, "mode": "blocking"}); err != nil {
				return 0, err
			}
			cost, err := w.costOf(1, d)
			for tries := 0; err != nil && tries < 3; tries++ { // another reload was to come
				time.Sleep(time.Second)
				cost, err = w.costOf(1, d)
			}
			return cost, err
		}
	}
	costs, err := inTurns(s, cost(false), cost(true))
	if err != nil {
		return nil, err
	}
	return []goal{{"W0 CPU of a request to a domain without the WAF: others have it / none", costs[1] / costs[0], "x", 1.1, false, fmt.Sprintf("%.1f us, %.1f us", costs[1]*1e6, costs[0]*1e6)}}, nil
}

// costOf is the CPU that a request to a domain costs HAProxy.
func (w *wafBench) costOf(domain int, d time.Duration) (float64, error) {
	pid, err := w.worker()
	if err != nil {
		return 0, err
	}
	var answered atomic.Int64
	before, err := cpuOf(pid)
	if err != nil {
		return 0, err
	}
	err = w.clients(wafConns, d, func(c *asker) error {
		answered.Add(1)
		return c.ask(siteName(domain))
	})
	if err != nil {
		return 0, err
	}
	after, err := cpuOf(pid)
	return (after - before).Seconds() / float64(answered.Load()), err
}

// clients ask at once for a time, each on a connection that it keeps.
func (w *wafBench) clients(n int, d time.Duration, ask func(*asker) error) error {
	var all sync.WaitGroup
	failures := make([]error, n)
	start := time.Now()
	for i := range n {
		c, err := w.client()
		if err != nil {
			return err
		}
		all.Go(func() {
			defer func() { c.conn.Close() }()
			for time.Since(start) < d && failures[i] == nil {
				if failures[i] = ask(c); errors.Is(failures[i], io.ErrUnexpectedEOF) || errors.Is(failures[i], syscall.ECONNRESET) {
					// A worker that is being replaced ends its connections after an answer.
					c.conn.Close()
					c, failures[i] = w.client()
				}
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

func (w *wafBench) client() (*asker, error) {
	var conn net.Conn
	err := w.lab.Within(lab.Wan, func() (err error) { conn, err = net.Dial("tcp", proxyTarget); return err })
	if err != nil {
		return nil, err
	}
	return &asker{conn: conn, answers: bufio.NewReader(conn)}, nil
}

// send sends a request to the first domain, and answers the status.
func (a *asker) send(method, uri, body string) (int, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: Mozilla/5.0\r\nAccept: */*\r\n", method, uri, siteName(0))
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	if _, err := a.conn.Write(b.Bytes()); err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(a.answers, nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// other is a request that was not there before.
func (w *wafBench) other() string {
	return fmt.Sprintf("/products/list?page=%d&sort=name&color=blue", w.asked.Add(1))
}

// large is a JSON text of 10 KiB that was not there before.
func (w *wafBench) large() string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"order":%d,"items":[`, w.asked.Add(1))
	for i := range 72 {
		fmt.Fprintf(&b, `{"id":%d,"name":"Product number %d","price":%d.99,"color":"blue","in_stock":true,"note":"Ships within %d days from our warehouse"},`, 1000+i, i, i*3, i%9)
	}
	return b.String() + `{}]}`
}

// rate is how many requests a second are served.
func (w *wafBench) rate(n int, request func() (method, uri, body string)) func(time.Duration) (float64, error) {
	return func(d time.Duration) (float64, error) {
		var served atomic.Int64
		start := time.Now()
		err := w.clients(n, d, func(c *asker) error {
			status, err := c.send(request())
			if status == http.StatusOK {
				served.Add(1)
			}
			return err
		})
		return float64(served.Load()) / time.Since(start).Seconds(), err
	}
}

// compared measures both agents in turns.
func (w *wafBench) compared(_ context.Context, s settings, _ int) (goals []goal, err error) {
	fmt.Println("the agent beside a plain one; load", loadAverage())
	if err := w.guard(0, map[string]any{"enabled": true, "mode": "blocking", "paranoia_level": 1}); err != nil {
		return nil, err
	}
	s.round *= 2
	for _, x := range []struct {
		name    string
		bar     float64
		clients int
		request func() (string, string, string)
	}{
		{"W1 requests a second, GET: agent / plain agent", 1.5, wafConns, func() (string, string, string) { return http.MethodGet, w.other(), "" }},
		{"W1 requests a second, 10 KiB of JSON: agent / plain agent", 2.2, wafPosters, func() (string, string, string) { return http.MethodPost, "/orders", w.large() }},
		{"W2 requests a second, the same GET: agent / plain agent", 15, wafConns, func() (string, string, string) { return http.MethodGet, "/products/list?page=1", "" }},
	} {
		side := func(plain bool) func(time.Duration) (float64, error) {
			return func(d time.Duration) (float64, error) {
				if err := w.turn(plain); err != nil {
					return 0, err
				}
				return w.rate(x.clients, x.request)(d)
			}
		}
		rates, err := inTurns(s, side(false), side(true))
		if err != nil {
			return nil, err
		}
		goals = append(goals, goal{x.name, rates[0] / rates[1], "x", x.bar, true, fmt.Sprintf("%.0f/s, %.0f/s", rates[0], rates[1])})
	}
	return goals, w.turn(false)
}

// turn has one of the agents inspect, and waits until it does.
func (w *wafBench) turn(plain bool) error {
	if plain == (w.plain != nil) {
		return nil
	}
	if plain {
		if err := w.bench.change("", http.MethodPost, "/system/service-toggle", map[string]any{"service": "waf", "enabled": false}, nil); err != nil {
			return err
		}
		if err := w.startPlain(); err != nil {
			return err
		}
	} else {
		w.stopPlain()
		if err := w.bench.change("", http.MethodPost, "/system/service-toggle", map[string]any{"service": "waf", "enabled": true}, nil); err != nil {
			return err
		}
	}
	_, err := w.until("/search?q="+url.QueryEscape("1' or '1'='1"), http.StatusForbidden)
	return err
}

// until asks until a request gets a status, and answers how long that took.
func (w *wafBench) until(uri string, status int) (time.Duration, error) {
	start, last := time.Now(), 0
	for time.Since(start) < time.Minute {
		c, err := w.client()
		if err != nil {
			return 0, err
		}
		for err == nil && last != status && time.Since(start) < time.Minute {
			last, err = c.send(http.MethodGet, uri, "")
		}
		c.conn.Close()
		if last == status {
			return time.Since(start), nil
		}
	}
	return 0, fmt.Errorf("%s gets %d, and not %d", uri, last, status)
}

func (w *wafBench) startPlain() error {
	var file *os.File
	err := w.lab.Within(lab.Gateway, func() error {
		l, err := net.Listen("tcp", "127.0.0.1:9000")
		if err != nil {
			return err
		}
		defer l.Close()
		file, err = l.(*net.TCPListener).File()
		return err
	})
	if err != nil {
		return err
	}
	defer file.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "waf-peer")
	cmd.ExtraFiles = []*os.File{file}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if w.plain, err = launch(cmd); err != nil {
		return err
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	return err
}

func (w *wafBench) stopPlain() {
	if w.plain != nil {
		w.plain.stop()
		w.plain = nil
	}
}

// beside measures small requests beside clients that post large ones, and without these.
func (w *wafBench) beside(context.Context, settings, int) ([]goal, error) {
	fmt.Println("small requests beside large ones; load", loadAverage())
	alone, _, err := w.steady(besideFor)
	if err != nil {
		return nil, err
	}
	stop := make(chan struct{})
	var posters sync.WaitGroup
	for range besidePosters {
		c, err := w.client()
		if err != nil {
			return nil, err
		}
		posters.Go(func() {
			defer c.conn.Close()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := c.send(http.MethodPost, "/orders", w.large()); err != nil {
					return
				}
			}
		})
	}
	busy, served, err := w.steady(besideFor)
	close(stop)
	posters.Wait()
	if err != nil {
		return nil, err
	}
	return []goal{
		{"W3 GETs served beside posts of 10 KiB", served * 100, "%", 98, true, fmt.Sprintf("%d a second, beside %d posters", besideRate, besidePosters)},
		{"   p99 of these: beside the posts / alone", busy / alone, "x", 30, false, milliseconds(busy, alone)},
	}, nil
}

// steady asks at a steady rate, and answers the p99 and the part that was served.
func (w *wafBench) steady(d time.Duration) (p99, served float64, err error) {
	var mu sync.Mutex
	var times []float64
	var all sync.WaitGroup
	var failed error
	idle := make(chan *asker, besideRate)
	offered := 0
	tick := time.NewTicker(time.Second / besideRate)
	defer tick.Stop()
	for start := time.Now(); time.Since(start) < d; offered++ {
		<-tick.C
		begun := time.Now()
		all.Go(func() {
			var c *asker
			var err error
			select {
			case c = <-idle:
			default:
				c, err = w.client()
			}
			status := 0
			if err == nil {
				status, err = c.send(http.MethodGet, w.other(), "")
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			if status == http.StatusOK {
				times = append(times, time.Since(begun).Seconds())
			}
			select {
			case idle <- c:
			default:
				c.conn.Close()
			}
		})
	}
	all.Wait()
	close(idle)
	for c := range idle {
		c.conn.Close()
	}
	if failed != nil || len(times) == 0 {
		return 0, 0, errors.Join(failed, fmt.Errorf("%d of %d requests were served", len(times), offered))
	}
	slices.Sort(times)
	return times[len(times)*99/100], float64(len(times)) / float64(offered), nil
}

// many measures the memory of many domains with settings of their own, and how soon a changed one has an effect.
func (w *wafBench) many(ctx context.Context, s settings, domains int) ([]goal, error) {
	fmt.Println(domains, "domains with settings of their own; load", loadAverage())
	if err := w.turn(true); err != nil {
		return nil, err
	}
	if _, err := w.rate(wafConns, func() (string, string, string) { return http.MethodGet, w.other(), "" })(s.round); err != nil {
		return nil, err
	}
	one, err := resident(w.plain.Pid)
	if err != nil {
		return nil, err
	}
	_, err = w.pool.Exec(ctx, `INSERT INTO waf_configs (domain_id, enabled, mode, paranoia_level, rule_exclusions, exclusions)
		SELECT md5('domain' || i)::uuid, true, CASE WHEN i % 2 = 0 THEN 'blocking' ELSE 'detection' END, 1 + i % 4, ARRAY[942100 + 10 * (i % 3)],
			jsonb_build_array(jsonb_build_object('rule_id', 941100, 'path', '/' || i, 'variable', '', 'parameter', '', 'note', ''))
		FROM generate_series(1, $1) i ON CONFLICT DO NOTHING`, domains)
	if err != nil {
		return nil, err
	}
	if err := w.takeAll(); err != nil {
		return nil, err
	}
	if err := w.turn(false); err != nil {
		return nil, err
	}
	var before, after struct{ Data struct{ Builds, Domains int } }
	for start := time.Now(); before.Data.Domains <= domains && time.Since(start) < time.Minute; time.Sleep(100 * time.Millisecond) {
		if err := w.get("/waf/status", &before); err != nil {
			return nil, err
		}
	}
	if _, err := w.rate(wafConns, func() (string, string, string) { return http.MethodGet, w.other(), "" })(s.round); err != nil {
		return nil, err
	}
	unit, err := w.lab.Units().State(ctx, host.WAF)
	if err != nil {
		return nil, err
	}
	pid, err := w.outside(unit.PID)
	if err != nil {
		return nil, err
	}
	all, err := resident(pid)
	if err != nil {
		return nil, err
	}
	var took []float64
	for i := range 20 {
		status, body := http.StatusOK, map[string]any{"mode": "detection"}
		if i%2 == 1 {
			status, body = http.StatusForbidden, map[string]any{"mode": "blocking"}
		}
		if err := w.guard(0, body); err != nil {
			return nil, err
		}
		effect, err := w.until("/search?q="+url.QueryEscape("1' or '1'='1"), status)
		if err != nil {
			return nil, err
		}
		took = append(took, effect.Seconds()*1000)
	}
	if err := w.get("/waf/status", &after); err != nil {
		return nil, err
	}
	return []goal{
		{fmt.Sprintf("W4 memory, %d domains / a plain agent with one engine", domains), all / one, "x", 1.5, false, fmt.Sprintf("%.0f MiB, %.0f MiB; %d domains", all/(1<<20), one/(1<<20), before.Data.Domains)},
		{"   a changed setting has an effect after its answer", median(took), "ms", 50, false, fmt.Sprintf("up to %.0f ms", slices.Max(took))},
		{"   engines that were built for that", float64(after.Data.Builds - before.Data.Builds), "", 0, false, ""},
	}, nil
}
