package main

import (
	"bufio"
	"bytes"
	"cmp"
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
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/lab"
	wafagent "edge.internal/gateway/internal/waf/agent"
	"edge.internal/gateway/internal/waf/engine"
	"edge.internal/gateway/internal/waf/rx"
	"edge.internal/gateway/internal/waf/spoe"
)

const (
	// wafDomains is the number of domains with their own settings.
	wafDomains = 1000
	// wafConns is the number of concurrent clients, and wafPosters the number when each request uses a core for long.
	wafConns, wafPosters = 8, 2
	// besideRate is the number of requests a second next to besidePosters with large bodies, for besideFor.
	besideRate, besidePosters, besideFor = 100, 4, 8 * time.Second
)

// The agents that are compared: the gateway's, one with the same protocol and unmodified Coraza, and one that accepts everything
// without inspection, which is the limit of HAProxy.
const ownAgent, plainAgent, ackAgent = "agent", "plain agent", "one that only acknowledges"

// serveWAF is one of the other agents, which listens on a socket that it inherits.
func serveWAF(kind string) error {
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	server := &spoe.Server{Log: slog.New(slog.DiscardHandler)}
	if kind == ackAgent {
		server.Quick = func(_ *spoe.Notify, a *spoe.Answer) bool {
			a.SetText(spoe.Transaction, wafagent.VarVerdict, wafagent.Pass)
			return true
		}
	} else {
		plugins.RegisterOperator("rx", rx.Ungated)
		set, err := engine.NewStock()
		if err != nil {
			return err
		}
		all := &wafagent.Domain{ID: "all", Settings: engine.Settings{Blocking: true, Paranoia: 1}}
		server.Handler = wafagent.New(set, func([]byte) *wafagent.Domain { return all }).Handle
	}
	fmt.Println("ready")
	return server.Serve(context.Background(), l)
}

// wafBench is a gateway with a domain that is inspected, by the gateway's agent or by another one.
type wafBench struct {
	*proxyBench
	kind  string   // of the agent
	other *process // nil while the gateway's agent runs
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
	w := &wafBench{proxyBench: p, kind: ownAgent}
	defer w.stopOther()
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
			for tries := 0; err != nil && tries < 3; tries++ { // another reload was pending
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

// clients send requests concurrently for a time, each on a kept connection.
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

// question is a request to the first domain.
type question struct{ method, uri, header, body string }

// send sends a request, and answers the status.
func (a *asker) send(q question) (int, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n%s", q.method, q.uri, siteName(0), cmp.Or(q.header, "User-Agent: Mozilla/5.0\r\nAccept: */*\r\n"))
	if q.body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(q.body))
	}
	b.WriteString("\r\n" + q.body)
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

// browserHeader is what a browser sends to a shop where its user is logged in.
const browserHeader = "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8\r\nAccept-Language: en-GB,en;q=0.9,de;q=0.8\r\nAccept-Encoding: gzip, deflate, br\r\n" +
	"Referer: https://d0.example.net/products/list?page=1&sort=name&color=blue\r\nUpgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-User: ?1\r\n" +
	"sec-ch-ua: \"Chromium\";v=\"131\", \"Not_A Brand\";v=\"24\"\r\nsec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Windows\"\r\n" +
	"Cookie: session=8f14e45fceea167a5a36dedd4bea2543; theme=light; _ga=GA1.2.1837465920.1731700000; basket=4711.2-815.1; consent=necessary.statistics; lang=en\r\n"

// anotherGET requests a new URL.
func (w *wafBench) anotherGET() question {
	return question{method: http.MethodGet, uri: fmt.Sprintf("/products/list?page=%d&sort=name&color=blue", w.asked.Add(1))}
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
func (w *wafBench) rate(n int, request func() question) func(time.Duration) (float64, error) {
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

// compared measures the agents in turns.
func (w *wafBench) compared(_ context.Context, s settings, _ int) (goals []goal, err error) {
	fmt.Println("the agent beside others; load", loadAverage())
	if err := w.guard(0, map[string]any{"enabled": true, "mode": "blocking", "paranoia_level": 1}); err != nil {
		return nil, err
	}
	s.round *= 2
	const again = "/products/list?page=1&sort=name&color=blue"
	for _, x := range []struct {
		name    string
		bar     float64
		clients int
		known   bool // the request is the same each time
		request func() question
	}{
		{"W1 requests a second, GET", 1.5, wafConns, false, w.anotherGET},
		{"W1 requests a second, 10 KiB of JSON", 2.2, wafPosters, false, func() question { return question{method: http.MethodPost, uri: "/orders", body: w.large()} }},
		{"W2 requests a second, the same GET", 15, wafConns, true, func() question { return question{method: http.MethodGet, uri: again} }},
		{"W2 requests a second, the same GET of a browser", 15, wafConns, true, func() question { return question{method: http.MethodGet, uri: again, header: browserHeader} }},
	} {
		side := func(kind string) func(time.Duration) (float64, error) {
			return func(d time.Duration) (float64, error) {
				if err := w.turn(kind); err != nil {
					return 0, err
				}
				return w.rate(x.clients, x.request)(d)
			}
		}
		sides := []func(time.Duration) (float64, error){side(ownAgent), side(plainAgent)}
		if x.known {
			sides = append(sides, side(ackAgent))
		}
		rates, err := inTurns(s, sides...)
		if err != nil {
			return nil, err
		}
		detail := fmt.Sprintf("%.0f/s, %.0f/s", rates[0], rates[1])
		if x.known && rates[2] < x.bar*rates[1] {
			detail += fmt.Sprintf("; out of reach: %s serves %.0f/s, %.1f x", ackAgent, rates[2], rates[2]/rates[1])
		}
		goals = append(goals, goal{x.name + ": agent / " + plainAgent, rates[0] / rates[1], "x", x.bar, true, detail})
		if !x.known {
			continue
		}
		goals = append(goals, goal{"   the same: agent / " + ackAgent, rates[0] / rates[2], "x", 0.8, true, fmt.Sprintf("%.0f/s, %.0f/s", rates[0], rates[2])})
		for _, kind := range []string{ownAgent, plainAgent, ackAgent} {
			if err := w.turn(kind); err != nil {
				return nil, err
			}
			if err := w.shares(x.name, w.rate(x.clients, x.request), s.round); err != nil {
				return nil, err
			}
		}
	}
	return goals, w.turn(ownAgent)
}

// shares prints the CPU time of each program per request.
func (w *wafBench) shares(name string, rate func(time.Duration) (float64, error), d time.Duration) error {
	worker, err := w.worker()
	if err != nil {
		return err
	}
	agent, err := w.agentPID()
	if err != nil {
		return err
	}
	// The threads of this process end, and with them the record of their CPU time.
	own := func() (time.Duration, error) {
		var used unix.Rusage
		err := unix.Getrusage(unix.RUSAGE_SELF, &used)
		return time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
	}
	who := [...]func() (time.Duration, error){func() (time.Duration, error) { return cpuOf(worker) }, func() (time.Duration, error) { return cpuOf(agent) }, own}
	var before [len(who)]time.Duration
	for i, spent := range who {
		if before[i], err = spent(); err != nil {
			return err
		}
	}
	served, err := rate(d)
	if err != nil {
		return err
	}
	var each [len(who)]float64
	for i, spent := range who {
		now, err := spent()
		if err != nil {
			return err
		}
		each[i] = (now - before[i]).Seconds() * 1e6 / (served * d.Seconds())
	}
	fmt.Printf("%s, %s: CPU of a request %.1f us in HAProxy, %.1f us in the agent, %.1f us in the clients and the origin\n", name, w.kind, each[0], each[1], each[2])
	return nil
}

// agentPID is the number of the agent that inspects, as this process sees it.
func (w *wafBench) agentPID() (int, error) {
	if w.other != nil {
		return w.other.Pid, nil
	}
	unit, err := w.lab.Units().State(context.Background(), host.WAF)
	if err != nil {
		return 0, err
	}
	return w.outside(unit.PID)
}

// turn has one of the agents inspect, and waits until it does.
func (w *wafBench) turn(kind string) error {
	if kind == w.kind {
		return nil
	}
	toggle := func(on bool) error {
		return w.bench.change("", http.MethodPost, "/system/service-toggle", map[string]any{"service": "waf", "enabled": on}, nil)
	}
	var err error
	if w.kind == ownAgent {
		err = toggle(false)
	}
	w.stopOther()
	if err == nil && kind == ownAgent {
		err = toggle(true)
	} else if err == nil {
		err = w.startOther(kind)
	}
	if err != nil {
		return err
	}
	w.kind = kind
	status := http.StatusForbidden
	if kind == ackAgent {
		status = http.StatusOK
	}
	_, err = w.until("/search?q="+url.QueryEscape("1' or '1'='1"), status)
	return err
}

// until makes requests until one gets a status, and returns how long that took.
func (w *wafBench) until(uri string, status int) (time.Duration, error) {
	start, last := time.Now(), 0
	for time.Since(start) < time.Minute {
		c, err := w.client()
		if err != nil {
			return 0, err
		}
		for err == nil && last != status && time.Since(start) < time.Minute {
			last, err = c.send(question{method: http.MethodGet, uri: uri})
		}
		c.conn.Close()
		if last == status {
			return time.Since(start), nil
		}
	}
	return 0, fmt.Errorf("%s gets %d, and not %d", uri, last, status)
}

func (w *wafBench) startOther(kind string) error {
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
	cmd := exec.Command(self, "waf-peer", kind)
	cmd.ExtraFiles = []*os.File{file}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if w.other, err = launch(cmd); err != nil {
		return err
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	return err
}

func (w *wafBench) stopOther() {
	if w.other != nil {
		w.other.stop()
		w.other = nil
	}
}

// beside measures small requests next to clients that post large ones, and without these.
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
				if _, err := c.send(question{method: http.MethodPost, uri: "/orders", body: w.large()}); err != nil {
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

// steady makes requests at a steady rate, and returns the p99 and the share that was served.
func (w *wafBench) steady(d time.Duration) (slow, served float64, err error) {
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
				status, err = c.send(w.anotherGET())
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
	return p99(times), float64(len(times)) / float64(offered), nil
}

// many measures the memory of many domains with their own settings, and how soon a changed one takes effect.
func (w *wafBench) many(ctx context.Context, s settings, domains int) ([]goal, error) {
	fmt.Println(domains, "domains with settings of their own; load", loadAverage())
	if err := w.turn(plainAgent); err != nil {
		return nil, err
	}
	if _, err := w.rate(wafConns, w.anotherGET)(s.round); err != nil {
		return nil, err
	}
	one, err := resident(w.other.Pid)
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
	if err := w.turn(ownAgent); err != nil {
		return nil, err
	}
	var before, after struct{ Data struct{ Builds, Domains int } }
	for start := time.Now(); before.Data.Domains <= domains && time.Since(start) < time.Minute; time.Sleep(100 * time.Millisecond) {
		if err := w.get("/waf/status", &before); err != nil {
			return nil, err
		}
	}
	if _, err := w.rate(wafConns, w.anotherGET)(s.round); err != nil {
		return nil, err
	}
	pid, err := w.agentPID()
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
