package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/test/traffic"
)

const (
	// clusterRows is how many API tokens the nodes share, which no daemon is configured by, and clusterAudit how many audit entries.
	clusterRows  = 15000
	clusterAudit = 50000
	// clusterChanges is how many changes are followed to the standby.
	clusterChanges = 200
	// following returns whether a node is a standby that replicates.
	following = "SELECT role = 'standby' AND EXISTS (SELECT FROM pg_stat_subscription WHERE pid IS NOT NULL) FROM ha_state"
)

// clusterNode is a node of the lab with its API and its database.
type clusterNode struct {
	*bench
	conn *pgx.Conn
}

func newClusterNode(ctx context.Context, l *lab.Lab) (*clusterNode, error) {
	n := &clusterNode{bench: &bench{lab: l, api: newClient(l.Path("/run/gateway/control.sock"), "http://gateway/api/v1", "")}}
	if err := n.api.waitReady(); err != nil {
		return nil, err
	}
	var err error
	n.conn, err = pgx.Connect(ctx, private.URL(l.Path("/run/postgresql"), "gateway"))
	return n, err
}

// until waits for a condition of the node's database.
func (n *clusterNode) until(ctx context.Context, sql string, args ...any) error {
	for is := false; !is; time.Sleep(5 * time.Millisecond) {
		if err := n.conn.QueryRow(ctx, sql, args...).Scan(&is); err != nil {
			return err
		}
	}
	return nil
}

// measureCluster measures two nodes. The virtual address without the rest of a gateway is measured by the part vrrp, what forwarding costs by forward, and the guard by api.
func measureCluster(ctx context.Context, s settings) ([]goal, error) {
	s.nodes = 2
	b, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer b.close()
	var nodes []*clusterNode
	for _, l := range b.lab.All() {
		n, err := newClusterNode(ctx, l)
		if err != nil {
			return nil, err
		}
		defer n.conn.Close(context.WithoutCancel(ctx))
		nodes = append(nodes, n)
	}
	primary, standby := nodes[0], nodes[1]
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO account_api_tokens (id, created_at, user_id, name, role, hash)
			SELECT gen_random_uuid(), now(), u.id, 'n' || n, 'viewer', sha256(n::text::bytea) FROM account_users u, generate_series(1, %d) n`, clusterRows/s.shrink),
		fmt.Sprintf(`INSERT INTO audit_entries (id, created_at, actor, action, subject, node_id)
			SELECT gen_random_uuid(), now(), 'bench', 'bench.fill', n::text, '' FROM generate_series(1, %d) n`, clusterAudit/s.shrink),
	} {
		if _, err := primary.conn.Exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	if err := primary.change("ntp", http.MethodPost, "/ntp/pools", map[string]any{"address": "first.example.net"}, nil); err != nil {
		return nil, err
	}
	if err := standby.until(ctx, "SELECT count(*) >= $1 FROM audit_entries WHERE action = 'bench.fill'", clusterAudit/s.shrink); err != nil {
		return nil, err
	}
	fmt.Printf("two nodes with %d API tokens and %d audit entries; load %s\n", clusterRows/s.shrink, clusterAudit/s.shrink, loadAverage())
	var goals []goal
	for _, measure := range []func(context.Context, settings, *clusterNode, *clusterNode) ([]goal, error){arrives, hashes, syncs, promotes, hangs, served} {
		got, err := measure(ctx, s, primary, standby)
		if err != nil {
			return nil, err
		}
		goals = append(goals, got...)
	}
	return goals, nil
}

// arrives measures from the answer to a commit until the standby's lanes are woken.
func arrives(ctx context.Context, _ settings, primary, standby *clusterNode) ([]goal, error) {
	if _, err := standby.conn.Exec(ctx, "LISTEN gateway_revision"); err != nil {
		return nil, err
	}
	var took []float64
	for range clusterChanges {
		if _, err := primary.conn.Exec(ctx, "UPDATE apply_revisions SET revision = revision + 1 WHERE component = 'ntp'"); err != nil {
			return nil, err
		}
		began := time.Now()
		if _, err := standby.conn.WaitForNotification(ctx); err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
		time.Sleep(10 * time.Millisecond)
	}
	_, err := standby.conn.Exec(ctx, "UNLISTEN *")
	return []goal{{"K1 commit to the standby's lane, p95", quantile(took, 95), "ms", 20, false, fmt.Sprintf("median %.1f ms, %d changes", median(took), len(took))}}, err
}

func hashes(ctx context.Context, s settings, primary, _ *clusterNode) ([]goal, error) {
	var took []float64
	for range 3 * s.rounds {
		began := time.Now()
		if _, err := replica.HashOf(ctx, primary.conn, []string{"audit_entries", "apply_revisions", "certificate_challenges"}); err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
	}
	return []goal{{"K2 hash of the configuration", median(took), "ms", 50, false, fmt.Sprintf("up to %.1f ms", slices.Max(took))}}, nil
}

// syncs repairs a standby with deleted and changed rows, while a reader checks that no other rows are missing.
func syncs(ctx context.Context, s settings, _, standby *clusterNode) ([]goal, error) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var lacking, reads atomic.Int64
	var all sync.WaitGroup
	reader, err := pgx.Connect(ctx, private.URL(standby.lab.Path("/run/postgresql"), "gateway"))
	if err != nil {
		return nil, err
	}
	defer reader.Close(context.WithoutCancel(ctx))
	const kept = "SELECT count(*) FROM account_api_tokens WHERE name NOT LIKE 'n11%'"
	var rows int
	if err := reader.QueryRow(ctx, kept).Scan(&rows); err != nil {
		return nil, err
	}
	all.Go(func() {
		for reading.Err() == nil {
			var n int
			if reader.QueryRow(ctx, kept).Scan(&n) == nil {
				if reads.Add(1); n != rows {
					lacking.Add(1)
				}
			}
		}
	})
	var took []float64
	for range min(s.rounds, 5) {
		time.Sleep(time.Second) // the previous sync informs the members when it has succeeded
		for _, sql := range []string{"SET session_replication_role = replica", "DELETE FROM account_api_tokens WHERE name LIKE 'n11%'", "UPDATE account_api_tokens SET role = 'admin' WHERE name LIKE 'n12%'", "RESET session_replication_role"} {
			if _, err := standby.conn.Exec(ctx, sql); err != nil {
				return nil, err
			}
		}
		began := time.Now()
		if err := standby.change("", http.MethodPost, "/cluster/repair-replication", map[string]any{}, nil); err != nil {
			return nil, err
		}
		for {
			var now struct{ State, Error string }
			if err := standby.change("", http.MethodGet, "/cluster/repair-replication", nil, &now); err != nil {
				return nil, err
			}
			if now.State == "failed" {
				return nil, errors.New(now.Error)
			}
			if now.State == "succeeded" {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		took = append(took, time.Since(began).Seconds())
	}
	stop()
	all.Wait()
	return []goal{
		{"K3 sync", median(took), "s", 3, false, inSeconds(took)},
		{"   reads during it that lacked rows", float64(lacking.Load()), "", 0, false, fmt.Sprintf("of %d", reads.Load())},
	}, nil
}

// promotes switches the roles of the nodes during changes, and counts lost changes.
func promotes(ctx context.Context, s settings, one, other *clusterNode) ([]goal, error) {
	var took []float64
	lost, stored := 0, 0
	for n := range 2 * (min(s.rounds, 5) / 2) {
		writing, stop := context.WithCancel(ctx)
		var names []string
		var all sync.WaitGroup
		all.Go(func() {
			for k := 0; writing.Err() == nil; k++ {
				name := fmt.Sprintf("p%d-%d.example.net", n, k)
				body, _ := json.Marshal(map[string]any{"address": name})
				res, _, err := one.api.do(http.MethodPost, "/ntp/pools", body)
				if err != nil || res.StatusCode != http.StatusCreated {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				names = append(names, name)
			}
		})
		time.Sleep(time.Second)
		began := time.Now()
		err := other.change("", http.MethodPost, "/cluster/promote", map[string]any{}, nil)
		took = append(took, time.Since(began).Seconds())
		stop()
		all.Wait()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			var has bool
			if err := other.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM ntp_pools WHERE address = $1)", name).Scan(&has); err != nil {
				return nil, err
			}
			if stored++; !has {
				lost++
			}
		}
		one, other = other, one
		if err := other.until(ctx, following); err != nil {
			return nil, err
		}
	}
	return []goal{
		{"K4 planned promotion", median(took), "s", 2, false, inSeconds(took)},
		{"   acknowledged changes that it lost", float64(lost), "", 0, false, fmt.Sprintf("of %d", stored)},
	}, nil
}

// hangs measures what the standby answers while the primary hangs, and has the nodes change places then, again and again.
func hangs(ctx context.Context, s settings, primary, standby *clusterNode) ([]goal, error) {
	var asked, forced []float64
	for range min(s.rounds, 4) / 2 * 2 { // so that both are what they were
		if err := primary.lab.Signal(ctx, host.API, lab.Pause); err != nil {
			return nil, err
		}
		status, err := seconds(func() error { return standby.change("", http.MethodGet, "/cluster/status", nil, nil) })
		promoted, promote := seconds(func() error {
			return standby.change("", http.MethodPost, "/cluster/promote", map[string]any{"force": true}, nil)
		})
		if err := errors.Join(err, promote, primary.lab.Signal(ctx, host.API, lab.Resume)); err != nil {
			return nil, err
		}
		asked, forced = append(asked, status), append(forced, promoted)
		primary, standby = standby, primary
		if err := standby.until(ctx, following); err != nil {
			return nil, err
		}
	}
	return []goal{
		{"K5 status with a node that hangs", median(asked), "s", 2.5, false, inSeconds(asked)},
		{"K4 forced promotion then", median(forced), "s", 2, false, inSeconds(forced)},
	}, nil
}

// clusterVIP is the virtual address on the lab's wan.
const clusterVIP = "198.51.100.9"

// patient is a client's timeout for a connection and for an answer: longer than the second after which a kernel retransmits the first packet of a connection. Clients that measure
// how long no one gets an answer are hasty.
const (
	patient = 5 * time.Second
	hasty   = time.Second / 4
)

// publish has the nodes publish a site at a virtual address, which the first one has.
func publish(ctx context.Context, primary, standby *clusterNode) (site traffic.Site, stop func() error, err error) {
	var l net.Listener
	if err := primary.lab.Within(lab.Lan, func() (err error) { l, err = net.Listen("tcp", "10.10.0.2:8080"); return err }); err != nil {
		return site, nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "origin") })}
	go func() { _ = server.Serve(l) }()
	var backend struct{ ID string }
	err = primary.change("", http.MethodPost, "/backends", map[string]any{"name": "origin", "health_check_enabled": false}, &backend)
	err = errors.Join(err, primary.change("", http.MethodPost, "/backends/"+backend.ID+"/servers", map[string]any{"name": "one", "address": "10.10.0.2", "port": 8080}, nil),
		primary.change("reverse-proxy", http.MethodPost, "/domains", map[string]any{"name": "www.example.net", "backend_id": backend.ID, "http_to_https": false}, nil))
	for _, n := range []*clusterNode{primary, standby} {
		err = errors.Join(err, n.change("", http.MethodPut, "/cluster/vip-settings", map[string]any{"vip_address": clusterVIP, "vip_interface": "wan0"}, nil))
	}
	site = traffic.Site{Address: clusterVIP + ":80", Name: "www.example.net", Says: "origin", Within: patient, Enter: func(f func() error) error { return primary.lab.Within(lab.Wan, f) }}
	if err != nil {
		return site, server.Close, err
	}
	// Both have the site, and the address moves.
	err = standby.until(ctx, "SELECT EXISTS (SELECT FROM proxy_domains)")
	for _, at := range [][2]*clusterNode{{standby, primary}, {primary, standby}} {
		if err == nil {
			err = moveVIP(ctx, at[0], at[1])
		}
		for err == nil && site.Enter(site.Ask) != nil {
			err = ctx.Err()
		}
	}
	return site, server.Close, err
}

// holds reports whether a node has the virtual address.
func (n *clusterNode) holds() (has bool) {
	_ = n.lab.Within(lab.Gateway, func() error {
		list, err := net.InterfaceAddrs()
		has = slices.ContainsFunc(list, func(a net.Addr) bool { return strings.HasPrefix(a.String(), clusterVIP+"/") })
		return err
	})
	return has
}

func (n *clusterNode) drain(on string) error {
	return os.WriteFile(n.lab.Path(keepalived.Drain.Path()), []byte(on+"\n"), 0o644)
}

// give has a node that is drained give the virtual address to another one.
func (n *clusterNode) give(ctx context.Context, to *clusterNode) error {
	err := n.drain("1")
	for ; err == nil && (!to.holds() || n.holds()); time.Sleep(10 * time.Millisecond) {
		err = ctx.Err()
	}
	return err
}

// moveVIP has the virtual address be on a node.
func moveVIP(ctx context.Context, to, from *clusterNode) error {
	return errors.Join(from.give(ctx, to), from.drain("0"))
}

// fakeUpgrade does what clients notice of an upgrade: the node releases its virtual address, and its programs are replaced. A lab has no apt.
func (n *clusterNode) fakeUpgrade(ctx context.Context, other *clusterNode) error {
	if err := n.give(ctx, other); err != nil {
		return err
	}
	for _, unit := range []host.Unit{host.Scheduler, host.API, host.Helper} {
		if err := n.lab.Units().Restart(ctx, unit); err != nil {
			return err
		}
	}
	return errors.Join(n.api.waitReady(), n.drain("0"))
}

// served measures what the users of a site notice while the nodes switch roles, and at the end while the primary loses its power.
func served(ctx context.Context, s settings, primary, standby *clusterNode) (goals []goal, err error) {
	site, stop, err := publish(ctx, primary, standby)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	notice := func(rate int, do func() error) (traffic.Result, error) {
		x := traffic.Offer(site, rate)
		time.Sleep(time.Second)
		err := do()
		time.Sleep(time.Second)
		return x.End(), err
	}
	for _, what := range []struct {
		name string
		rate int
		gap  float64
		do   func() error
	}{
		{"drain", 200, noGap, func() error { return errors.Join(moveVIP(ctx, standby, primary), moveVIP(ctx, primary, standby)) }},
		{"planned promotion with the address", 200, noGap, func() error {
			err := errors.Join(standby.change("", http.MethodPost, "/cluster/promote", nil, nil), moveVIP(ctx, standby, primary), primary.until(ctx, following))
			primary, standby = standby, primary
			return err
		}},
		{"fake rolling update", 50, 1, func() error { return errors.Join(standby.fakeUpgrade(ctx, primary), primary.fakeUpgrade(ctx, standby)) }},
	} {
		var failed, asked int
		var gaps []float64
		why := map[string]int{}
		for range min(s.rounds, 3) {
			r, err := notice(what.rate, what.do)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", what.name, err)
			}
			failed, asked, gaps = failed+r.Failed, asked+r.Asked, append(gaps, r.Longest.Seconds())
			for name, n := range r.Why {
				why[name] += n
			}
		}
		goals = append(goals, goal{"K6 requests that fail: " + what.name, float64(failed), "", 0, false, fmt.Sprintf("of %d, %d a second %v", asked, what.rate, why)},
			goal{"   without an answer", slices.Max(gaps), "s", what.gap, false, inSeconds(gaps)})
	}

	// Clients arrive at any moment, but the kernel retransmits the first packet of an earlier one only after a second.
	site.Within = hasty
	var gaps []float64
	for range min(s.rounds, 3) {
		if err := moveVIP(ctx, primary, standby); err != nil {
			return nil, err
		}
		r, err := notice(200, func() error {
			err := primary.lab.Crash()
			for ; err == nil && !standby.holds(); time.Sleep(10 * time.Millisecond) {
				err = ctx.Err()
			}
			return err
		})
		if err := errors.Join(err, primary.lab.Boot(ctx)); err != nil {
			return nil, err
		}
		gaps = append(gaps, r.Longest.Seconds())
	}
	return append(goals, goal{"K7 without an answer: the primary has lost its power", slices.Max(gaps), "s", 4, false, inSeconds(gaps)}), nil
}
