package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"edge.internal/gateway/internal/lab"
)

const (
	// requestConns is the number of concurrent clients, each on one connection.
	requestConns = 8
	// requestMoments is how often the cost is measured in one turn.
	requestMoments = 10
)

// requests compares the CPU that HAProxy spends on a request with few and with many domains.
func (p *proxyBench) requests(ctx context.Context, s settings) ([]goal, error) {
	many := 10000 / s.shrink
	fmt.Println("requests to 10 and to", many, "domains; load", loadAverage())
	cost := func(x sites) func(time.Duration) (float64, error) {
		return func(d time.Duration) (float64, error) {
			if err := p.fill(ctx, x); err != nil {
				return 0, err
			}
			return p.requestCost(x.domains, d)
		}
	}
	s.round *= 2
	costs, err := inTurns(s,
		cost(sites{domains: 10, backends: 10}),
		cost(sites{domains: many, backends: 10}),
		cost(sites{domains: many, backends: 10, full: true}),
		cost(sites{domains: 10, backends: 10, full: true}))
	if err != nil {
		return nil, err
	}
	micros := func(i int) string { return fmt.Sprintf("%.1f us, %.1f us", costs[i]*1e6, costs[0]*1e6) }
	return []goal{
		{fmt.Sprintf("P1 CPU of a request, %d domains / 10 domains", many), costs[1] / costs[0], "x", 1.15, false, micros(1)},
		{"P1 with every feature of a domain / 10 plain ones", costs[2] / costs[0], "x", 1.3, false, micros(2)},
		{"   of that, the features alone: 10 domains / 10 plain ones", costs[3] / costs[0], "x", 0, true, micros(3)},
	}, nil
}

// requestCost is the CPU that a request to one of the first domains costs HAProxy.
func (p *proxyBench) requestCost(domains int, d time.Duration) (float64, error) {
	pid, err := p.worker()
	if err != nil {
		return 0, err
	}
	conns := make(chan *asker, requestConns)
	for range requestConns {
		var conn net.Conn
		if err := p.lab.Within(lab.Wan, func() (err error) { conn, err = net.Dial("tcp", proxyTarget); return err }); err != nil {
			return 0, err
		}
		defer conn.Close()
		conns <- &asker{conn: conn, answers: bufio.NewReader(conn)}
	}
	var asked atomic.Int64
	ask := func(domain int) error {
		a := <-conns
		defer func() { conns <- a }()
		asked.Add(1)
		return a.ask(siteName(domain))
	}
	// One-time costs per connection, or per client of a site, are not part of the cost of a request.
	for i := range domains {
		if err := ask(i); err != nil {
			return 0, err
		}
	}
	// Other processes can only increase the measured cost: the lowest of several moments is the closest to the truth.
	least := math.Inf(1)
	for range requestMoments {
		asked.Store(0)
		before, err := cpuOf(pid)
		if err != nil {
			return 0, err
		}
		if _, err := load(requestConns, d/requestMoments, func() error { return ask(rand.IntN(domains)) }); err != nil {
			return 0, err
		}
		after, err := cpuOf(pid)
		if err != nil {
			return 0, err
		}
		least = min(least, (after-before).Seconds()/float64(asked.Load()))
	}
	return least, nil
}

// asker is a client on a connection that is kept.
type asker struct {
	conn    net.Conn
	answers *bufio.Reader
}

func (a *asker) ask(host string) error {
	if _, err := io.WriteString(a.conn, "GET /app/page HTTP/1.1\r\nHost: "+host+"\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"); err != nil {
		return err
	}
	res, err := http.ReadResponse(a.answers, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d", host, res.StatusCode)
	}
	return err
}

// worker is the number of the process that serves, as this process sees it.
func (p *proxyBench) worker() (int, error) {
	info, err := p.tell(workerSocket, "show info")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(info, "\nPid: ")
	inside, _, _ := strings.Cut(rest, "\n")
	number, err := strconv.Atoi(inside)
	if err != nil {
		return 0, err
	}
	return p.outside(number)
}

// cpuOf is the CPU time that the threads of a process have had.
func cpuOf(pid int) (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("process %d has no threads: %w", pid, err)
	}
	for _, file := range threads {
		content, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return 0, err
		}
		var ran int64
		if _, err := fmt.Sscan(string(content), &ran); err != nil {
			return 0, err
		}
		sum += time.Duration(ran)
	}
	return sum, nil
}
