package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"edge.internal/gateway/internal/lab"
)

const (
	forwardOurs, forwardBare = "10.10.0.1:3128", "10.10.0.1:3130"
	forwardTarget            = "http://198.51.100.2/bench"
	// forwardKnockers make new connections all the time.
	forwardKnockers = 2
)

// forwardBench is a lab with a server on its wan side, the gateway's squid, and a bare one.
type forwardBench struct {
	*bench
	entries int
	flip    string // id of the entry that is changed
}

// measureForwardProxy counts the connections that a change of the access list refuses, and measures the time until requests are
// decided by it, compared with squid's own way: access lists in its configuration, and a reconfigure.
func measureForwardProxy(ctx context.Context, s settings) (goals []goal, err error) {
	fmt.Println("a lab, with squid")
	r, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer r.close()
	b := &forwardBench{bench: r}
	server, err := b.serve()
	if err != nil {
		return nil, err
	}
	defer server.Close() //nolint:errcheck // the bench is over
	if err := b.change("forward-proxy", http.MethodPut, "/forward-proxy/settings", map[string]any{"enabled": true}, nil); err != nil {
		return nil, err
	}
	var row struct{ ID string }
	if err := b.change("forward-proxy", http.MethodPost, "/forward-proxy/acls", map[string]any{"name": "flip", "type": "url_regex", "value": "^" + forwardTarget, "action": "deny"}, &row); err != nil {
		return nil, err
	}
	b.flip = row.ID
	for _, n := range []int{200, 20_000} {
		got, err := b.measure(ctx, s, max(10, n/s.shrink))
		if err != nil {
			return nil, err
		}
		goals = append(goals, got...)
	}
	return goals, nil
}

// serve answers on the wan side.
func (b *forwardBench) serve() (*http.Server, error) {
	var l net.Listener
	err := b.lab.Within(lab.Wan, func() (err error) {
		l, err = net.Listen("tcp", "198.51.100.2:80")
		return err
	})
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })}
	go server.Serve(l) //nolint:errcheck // until it is closed
	return server, nil
}

// fill brings the gateway's list to a number of entries.
func (b *forwardBench) fill(entries int) error {
	var operations []map[string]any
	for ; b.entries < entries; b.entries++ {
		operations = append(operations, map[string]any{"kind": "forward-proxy.acl", "verb": "create", "body": map[string]any{
			"name": fmt.Sprintf("entry %d", b.entries), "type": "dstdomain", "value": fmt.Sprintf(".host%d.example", b.entries), "action": "deny",
		}})
	}
	for some := range slices.Chunk(operations, 1000) {
		if err := b.change("forward-proxy", http.MethodPost, "/change-sets", map[string]any{"operations": some}, nil); err != nil {
			return err
		}
	}
	return nil
}

// measure measures both ways with so many entries.
func (b *forwardBench) measure(ctx context.Context, s settings, entries int) ([]goal, error) {
	if err := b.fill(entries); err != nil {
		return nil, err
	}
	bare, err := b.startBare(ctx, entries)
	if err != nil {
		return nil, err
	}
	defer bare.stop()
	var ours, theirs []float64
	var refused, total, bareRefused, bareTotal int64
	for i := range 2 * s.rounds {
		deny := i%2 == 1
		action := map[bool]string{true: "deny", false: "allow"}[deny]
		k, took, err := b.during(ctx, forwardOurs, deny, func() error {
			return b.change("forward-proxy", http.MethodPut, "/forward-proxy/acls/"+b.flip, map[string]any{"action": action}, nil)
		})
		if err != nil {
			return nil, err
		}
		ours, refused, total = append(ours, took), refused+k.refused.Load(), total+k.connections.Load()
		if k, took, err = b.during(ctx, forwardBare, deny, func() error { return bare.change(deny) }); err != nil {
			return nil, err
		}
		theirs, bareRefused, bareTotal = append(theirs, took), bareRefused+k.refused.Load(), bareTotal+k.connections.Load()
	}
	detail := fmt.Sprintf("%.0f ms; squid -k reconfigure: %.0f ms, %d of %d refused", median(ours), median(theirs), bareRefused, bareTotal)
	return []goal{
		{name: fmt.Sprintf("connections refused by %d changes, %d entries", 2*s.rounds, entries), measured: float64(refused), unit: "", bar: 0, detail: fmt.Sprintf("of %d", total)},
		{name: fmt.Sprintf("change of the access list, %d entries", entries), measured: median(ours) / median(theirs), unit: "x", bar: 1, detail: detail},
	}, nil
}

type knocks struct{ connections, refused atomic.Int64 }

// during makes a change while connections are opened, and returns the time in milliseconds until a request was decided by it.
func (b *forwardBench) during(ctx context.Context, proxy string, deny bool, change func() error) (*knocks, float64, error) {
	k, stop := &knocks{}, make(chan struct{})
	var work sync.WaitGroup
	for range forwardKnockers {
		work.Go(func() {
			_ = b.lab.Within(lab.Gateway, func() error {
				for {
					select {
					case <-stop:
						return nil
					default:
						k.knock(proxy)
					}
				}
			})
		})
	}
	time.Sleep(100 * time.Millisecond)
	want := http.StatusOK
	if deny {
		want = http.StatusForbidden
	}
	start := time.Now()
	err := change()
	for err == nil && ctx.Err() == nil {
		status := 0
		_ = b.lab.Within(lab.Gateway, func() error { status = k.knock(proxy); return nil })
		if status == want {
			break
		}
	}
	took := float64(time.Since(start).Microseconds()) / 1000
	time.Sleep(100 * time.Millisecond)
	close(stop)
	work.Wait()
	return k, took, errors.Join(err, ctx.Err())
}

// knock opens one connection for one request, and returns its status.
func (k *knocks) knock(proxy string) int {
	k.connections.Add(1)
	conn, err := net.DialTimeout("tcp", proxy, 5*time.Second)
	if err != nil {
		k.refused.Add(1)
		return 0
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 198.51.100.2\r\nConnection: close\r\n\r\n", forwardTarget)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		k.refused.Add(1)
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// bareSquid is a squid with the entries in its own configuration, in the way that it reads fastest: as one list, which it can do as
// long as all of them deny.
type bareSquid struct {
	config string // where its configuration is, as we see it
	text   string // the configuration behind the entry that is changed
	lab    *lab.Lab
	ctx    context.Context
	cmd    *exec.Cmd
}

// bareConfig is its path in the lab.
const bareConfig = "/etc/squid/bare.conf"

func (b *forwardBench) startBare(ctx context.Context, entries int) (*bareSquid, error) {
	var text strings.Builder
	for i := range entries {
		fmt.Fprintf(&text, "acl entries dstdomain .host%d.example\n", i)
	}
	text.WriteString("http_access deny entries\nhttp_access allow all\nhttp_port " + forwardBare + "\nvisible_hostname bare\npid_filename /run/squid/bare.pid\ncache_log /var/log/squid/bare-cache.log\n" +
		"access_log stdio:/var/log/squid/bare.log\ncache_mem 64 MB\npinger_enable off\nshutdown_lifetime 1 second\ncoredump_dir /var/spool/squid\n")
	s := &bareSquid{config: b.lab.Path(bareConfig), text: text.String(), lab: b.lab, ctx: ctx}
	if err := s.write(true); err != nil {
		return nil, err
	}
	var err error
	if s.cmd, err = b.lab.Command(ctx, lab.Gateway, "squid", "-n", "bare", "--foreground", "-f", bareConfig); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 1000 {
		status := 0
		_ = b.lab.Within(lab.Gateway, func() error { status = new(knocks).knock(forwardBare); return nil })
		if status == http.StatusForbidden {
			return s, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.stop()
	return nil, errors.New("the bare squid does not listen")
}

func (s *bareSquid) write(deny bool) error {
	action := map[bool]string{true: "deny", false: "allow"}[deny]
	return os.WriteFile(s.config, []byte("acl flip url_regex ^"+forwardTarget+"\nhttp_access "+action+" flip\n"+s.text), 0o644)
}

// change writes the configuration and reconfigures squid.
func (s *bareSquid) change(deny bool) error {
	if err := s.write(deny); err != nil {
		return err
	}
	cmd, err := s.lab.Command(s.ctx, lab.Gateway, "squid", "-n", "bare", "-k", "reconfigure", "-f", bareConfig)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (s *bareSquid) stop() {
	if cmd, err := s.lab.Command(context.WithoutCancel(s.ctx), lab.Gateway, "squid", "-n", "bare", "-k", "shutdown", "-f", bareConfig); err == nil {
		_ = cmd.Run()
	}
	_ = s.cmd.Wait()
	_ = os.Remove(s.config)
}
