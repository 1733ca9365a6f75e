package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"edge.internal/gateway/internal/lab"
)

// forwards is the number of changes at each node.
const forwards = 300

// measureForward compares changes at a standby, which the primary executes, with changes at the primary itself, in turns.
func measureForward(ctx context.Context, s settings) ([]goal, error) {
	fmt.Println("a cluster of two nodes")
	dir, err := os.MkdirTemp("", "gateway-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	first, err := lab.Up(ctx, lab.Options{Dir: dir, UI: "127.0.0.1:0", Programs: s.programs, AdminEmail: email, AdminPassword: secret, Nodes: 2})
	if err != nil {
		return nil, err
	}
	defer func() { _ = first.Down() }()
	var nodes []*client
	for _, l := range first.All() {
		c := &client{base: l.URL() + "/api/v1", http: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // self-signed, and it is our own
		}}}
		if err := c.login(); err != nil {
			return nil, err
		}
		nodes = append(nodes, c)
	}
	var mute struct{ Data struct{ ID string } }
	until := time.Now().AddDate(0, 0, 7).UTC()
	body := func(n int) []byte {
		return []byte(fmt.Sprintf(`{"kind":"system.disk","until":%q}`, until.Add(time.Duration(n)*time.Second).Format(time.RFC3339)))
	}
	res, out, err := nodes[0].do(http.MethodPost, "/alert-mutes", body(0))
	if err == nil && res.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%d %s", res.StatusCode, out)
	}
	if err == nil {
		err = json.Unmarshal(out, &mute)
	}
	if err != nil {
		return nil, err
	}
	took := make([][]float64, len(nodes))
	for n := range forwards {
		for i, c := range nodes {
			began := time.Now()
			res, out, err := c.do(http.MethodPut, "/alert-mutes/"+mute.Data.ID, body(1+len(nodes)*n+i))
			if err == nil && res.StatusCode != http.StatusOK {
				err = fmt.Errorf("node %d: %d %s", i+1, res.StatusCode, out)
			}
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], float64(time.Since(began).Microseconds())/1000)
		}
	}
	direct, passed := quantile(took[0], 95), quantile(took[1], 95)
	return []goal{{name: "change at a standby, over one at the primary (p95)", measured: passed - direct, unit: "ms", bar: 15,
		detail: fmt.Sprintf("p95 %.1f and %.1f ms; medians %.1f and %.1f ms; %d each", passed, direct, quantile(took[1], 50), quantile(took[0], 50), forwards)}}, nil
}
