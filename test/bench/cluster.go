package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/lab"
)

const (
	// clusterRows is how many API tokens the nodes share, which no daemon is configured by, and clusterAudit how many audit entries.
	clusterRows  = 15000
	clusterAudit = 50000
	// clusterChanges is how many changes are followed to the standby.
	clusterChanges = 200
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

// measureCluster measures two nodes. What the virtual address does is measured by the part vrrp, and what the guard costs by api.
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
	for _, measure := range []func(context.Context, settings, *clusterNode, *clusterNode) ([]goal, error){arrives, hashes, syncs, promotes, diesAndIsAsked} {
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

// syncs repairs a standby that has lost and changed rows, while readers look for all of them.
func syncs(ctx context.Context, s settings, _, standby *clusterNode) ([]goal, error) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var empty, reads atomic.Int64
	var all sync.WaitGroup
	reader, err := pgx.Connect(ctx, private.URL(standby.lab.Path("/run/postgresql"), "gateway"))
	if err != nil {
		return nil, err
	}
	defer reader.Close(context.WithoutCancel(ctx))
	all.Go(func() {
		for reading.Err() == nil {
			var n int
			if reader.QueryRow(ctx, "SELECT count(*) FROM account_api_tokens").Scan(&n) == nil {
				if reads.Add(1); n < clusterRows/s.shrink/2 {
					empty.Add(1)
				}
			}
		}
	})
	var took []float64
	for range min(s.rounds, 5) {
		time.Sleep(time.Second) // the one before tells the members when it has succeeded
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
		{"   reads during it that lacked rows", float64(empty.Load()), "", 0, false, fmt.Sprintf("of %d", reads.Load())},
	}, nil
}

// promotes has the nodes change places while changes are made, and counts those that are lost.
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
		if err := other.until(ctx, "SELECT role = 'standby' AND EXISTS (SELECT FROM pg_stat_subscription WHERE pid IS NOT NULL) FROM ha_state"); err != nil {
			return nil, err
		}
	}
	return []goal{
		{"K4 planned promotion", median(took), "s", 2, false, inSeconds(took)},
		{"   acknowledged changes that it lost", float64(lost), "", 0, false, fmt.Sprintf("of %d", stored)},
	}, nil
}

// diesAndIsAsked measures what the other node answers while one hangs.
func diesAndIsAsked(ctx context.Context, s settings, primary, standby *clusterNode) (goals []goal, err error) {
	if err := primary.lab.Signal(ctx, host.API, lab.Pause); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, primary.lab.Signal(ctx, host.API, lab.Resume)) }()
	var took []float64
	for range min(s.rounds, 5) {
		began := time.Now()
		if err := standby.change("", http.MethodGet, "/cluster/status", nil, nil); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began).Seconds())
	}
	began := time.Now()
	if err := standby.change("", http.MethodPost, "/cluster/promote", map[string]any{"force": true}, nil); err != nil {
		return nil, err
	}
	forced := time.Since(began).Seconds()
	return []goal{
		{"K5 status with a node that hangs", median(took), "s", 2.5, false, inSeconds(took)},
		{"K4 forced promotion then, with the time that it is waited for", forced, "s", 2.5, false, ""},
	}, nil
}
