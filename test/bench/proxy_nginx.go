package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// nginx is the peer: a server block for each domain, and a reload for each change.
type nginx struct {
	dir, address string
	process      *process
	domains      int
	generation   int
}

const nginxProgram = "/usr/sbin/nginx"

// peer is the time that nginx takes for one more site.
func (p *proxyBench) peer(ctx context.Context, domains int) (float64, error) {
	n := p.peers[domains]
	if n == nil {
		var err error
		if n, err = startNginx(filepath.Join(p.dir, fmt.Sprintf("nginx%d", domains)), domains); err != nil {
			return 0, fmt.Errorf("nginx: %w", err)
		}
		p.peers[domains] = n
	}
	times, err := inTurns(settings{rounds: 5}, func(time.Duration) (float64, error) { return n.another(ctx) })
	if err != nil {
		return 0, fmt.Errorf("nginx: %w", err)
	}
	return times[0], nil
}

func startNginx(dir string, domains int) (*nginx, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &nginx{dir: dir, address: l.Addr().String(), domains: domains}
	l.Close()
	if err := n.write(); err != nil {
		return nil, err
	}
	if n.process, err = start(append([]string{nginxProgram}, n.arguments("-g", "daemon off;")...)...); err != nil {
		return nil, err
	}
	return n, n.wait(context.Background())
}

func (n *nginx) arguments(more ...string) []string {
	return append([]string{"-p", n.dir, "-c", "nginx.conf", "-e", "error.log"}, more...)
}

// write writes the configuration, whose first site identifies it.
func (n *nginx) write() error {
	n.generation++
	var b strings.Builder
	fmt.Fprintf(&b, `pid nginx.pid;
error_log error.log;
events { worker_connections 512; }
http {
	access_log off;
	server_names_hash_max_size 65536;
	server_names_hash_bucket_size 128;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	server { listen %s default_server; location / { return 200 "%d"; } }
`, n.address, n.generation)
	for i := range n.domains + n.generation {
		fmt.Fprintf(&b, "\tserver { listen %s; server_name %s; location / { proxy_pass http://%s:%d; proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr; } }\n", n.address, siteName(i), originTarget, originPort)
	}
	b.WriteString("}\n")
	return os.WriteFile(filepath.Join(n.dir, "nginx.conf"), []byte(b.String()), 0o600)
}

// another is the time from the written configuration to an answer of a worker that has it.
func (n *nginx) another(ctx context.Context) (float64, error) {
	if err := n.write(); err != nil {
		return 0, err
	}
	return seconds(func() error {
		for _, more := range [][]string{{"-t", "-q"}, {"-s", "reload"}} {
			if out, err := exec.CommandContext(ctx, nginxProgram, n.arguments(more...)...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", more, err, out)
			}
		}
		return n.wait(ctx)
	})
}

func (n *nginx) wait(ctx context.Context) error {
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(time.Millisecond) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.address, nil)
		if err != nil {
			return err
		}
		res, err := fresh.Do(req)
		if err != nil {
			continue // it does not listen yet
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil && string(body) == fmt.Sprint(n.generation) {
			return nil
		}
	}
	return errors.New("it does not answer with its configuration")
}

func (n *nginx) stop() { n.process.stop() }
