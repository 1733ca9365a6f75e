package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/command"
)

// checkedChanges are changes of daemons whose checkers are not root, and what the checkers read.
var checkedChanges = []struct {
	name, component, path string
	body                  func(n int) any
	check                 host.Command
	reads                 []host.Place
	aside                 bool // a change need not run the checker: that is measured separately
}{
	{name: "chronyd", component: "ntp", path: "/ntp/pools", check: chrony.Check, reads: []host.Place{chrony.DropIn}, body: func(n int) any {
		return map[string]any{"kind": "server", "address": fmt.Sprintf("10.7.%d.%d", n>>8, n&255)}
	}},
	{name: "HAProxy", component: "reverse-proxy", path: "/backends", check: haproxy.Check, reads: []host.Place{
		haproxy.Config, haproxy.Inspection, haproxy.CertificateList, haproxy.ManagementList, haproxy.DefaultCertificate, haproxy.BlockedPage, haproxy.MaintenancePage,
		haproxy.Hosts, haproxy.Wildcards, haproxy.Routes, haproxy.Headers, haproxy.Switches,
	}, body: func(n int) any {
		return map[string]any{"name": fmt.Sprintf("made-%d", n), "health_check_enabled": false}
	}},
	{name: "nft", component: "packet-filter", path: "/firewall/rules", check: nftables.Check, reads: []host.Place{nftables.Table}, aside: true, body: func(n int) any {
		return map[string]any{"name": fmt.Sprintf("made %d", n), "src_zone": "lan", "dst_zone": "wan", "src_kind": "cidr", "src_cidr": fmt.Sprintf("192.168.%d.0/24", n), "action": "accept"}
	}},
}

// measureDaemon compares a change that reaches chronyd with the sum of its parts: the transaction, chronyd's own check
// and its restart until it answers. Then, changes whose checks are not root with what they would take if these were.
func measureDaemon(ctx context.Context, s settings) (goals []goal, err error) {
	fmt.Println("a lab, with chronyd, HAProxy and the packet filter")
	b, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer b.close()
	if _, err := b.pool.Exec(ctx, `SELECT 1`); err != nil {
		return nil, err
	}
	machine, err := machine.New(machine.Options{Units: b.lab.Units()})
	if err != nil {
		return nil, err
	}
	for _, c := range checkedChanges {
		n := 0
		change := func() error {
			n++
			return b.change(c.component, http.MethodPost, c.path, c.body(n), nil)
		}
		check := func() error {
			var in host.Input
			for _, p := range c.reads {
				content, err := os.ReadFile(b.lab.Path(p.Path()))
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return err
				}
				in.Staged = append(in.Staged, host.File{Place: p, Content: content})
			}
			_, err := machine.Run(ctx, c.check, in)
			return err
		}
		spec, err := c.check.Spec()
		if err != nil {
			return nil, err
		}
		argv := slices.Clone(spec.Argv)
		for i, arg := range argv {
			if place, is := strings.CutPrefix(arg, "{"); is {
				argv[i] = b.lab.Path(host.Place(strings.TrimSuffix(place, "}")).Path())
			}
		}
		asRoot := func() error {
			out, err := command.Exec(ctx, argv, spec.Timeout)
			if err == nil && out.ExitCode != 0 {
				err = fmt.Errorf("%s, as root: %s", c.check, out.Stderr)
			}
			return err
		}
		parts := func() error {
			if err := bareTransaction(ctx, b.pool, touchSettings); err != nil {
				return err
			}
			if err := check(); err != nil {
				return err
			}
			return b.lab.Units().Restart(ctx, chrony.Unit)
		}
		all := []func() error{change, check, asRoot}
		if c.check == chrony.Check {
			all = append(all, parts)
		}
		var turns []func(time.Duration) (float64, error)
		for _, do := range all {
			turns = append(turns, func(time.Duration) (float64, error) { return seconds(do) })
		}
		times, err := inTurns(settings{rounds: 15}, turns...)
		if err != nil {
			return nil, err
		}
		if len(times) > 3 {
			goals = append(goals, goal{"change that is live in chronyd / sum of its parts", times[0] / times[3], "x", 1.5, false, fmt.Sprintf("%.1f ms, %.1f ms", times[0]*1000, times[3]*1000)})
		}
		whole := times[0]
		if c.aside {
			whole += times[1]
		}
		goals = append(goals, goal{"change of " + c.name + " with a check that is not root / with one that is", whole / (whole - times[1] + times[2]), "x", 1.2, false,
			fmt.Sprintf("the check %.1f ms, %.1f ms", times[1]*1000, times[2]*1000)})
	}
	return goals, nil
}

// touchSettings changes a row that every gateway has.
const touchSettings = `UPDATE ntp_settings SET updated_at = now()`

// bareTransaction commits a statement with an audit entry.
func bareTransaction(ctx context.Context, pool *pgxpool.Pool, statement string, args ...any) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, statement, args...); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO audit_entries VALUES (gen_random_uuid(), now(), 'bench', 'bench', '', '', '{}')`); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
