package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/command"
)

// measureDaemon compares a change that reaches chronyd with the sum of its parts: the transaction, chronyd's own check
// and its restart until it answers.
func measureDaemon(ctx context.Context, s settings) ([]goal, error) {
	fmt.Println("a lab, with chronyd")
	b, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer b.close()

	n := 0
	change := func() error {
		n++
		return b.change("ntp", http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": fmt.Sprintf("10.7.%d.%d", n>>8, n&255)}, nil)
	}
	if _, err := b.pool.Exec(ctx, `SELECT 1`); err != nil {
		return nil, err
	}
	machine, err := machine.New(machine.Options{Units: b.lab.Units()})
	if err != nil {
		return nil, err
	}
	live := b.lab.Path(host.ChronyDropIn.Path())
	check := func() error {
		file, err := os.ReadFile(live)
		if err != nil {
			return err
		}
		_, err = machine.Run(ctx, host.ChronyCheck, host.Input{Staged: []host.File{{Place: host.ChronyDropIn, Content: file}}})
		return err
	}
	spec, err := host.ChronyCheck.Spec()
	if err != nil {
		return nil, err
	}
	asRoot := func() error {
		_, err := command.Exec(ctx, []string{spec.Argv[0], "-p", "-f", live}, spec.Timeout)
		return err
	}
	parts := func() error {
		if err := bareTransaction(ctx, b.pool, touchSettings); err != nil {
			return err
		}
		if err := check(); err != nil {
			return err
		}
		return b.lab.Units().Restart(ctx, host.Chrony)
	}
	var turns []func(time.Duration) (float64, error)
	for _, do := range []func() error{change, parts, check, asRoot} {
		turns = append(turns, func(time.Duration) (float64, error) { return seconds(do) })
	}
	times, err := inTurns(settings{rounds: 15}, turns...)
	if err != nil {
		return nil, err
	}
	return []goal{
		{"change that is live in chronyd / sum of its parts", times[0] / times[1], "x", 1.5, false, fmt.Sprintf("%.1f ms, %.1f ms", times[0]*1000, times[1]*1000)},
		{"change with a check that is not root / with one that is", times[0] / (times[0] - times[2] + times[3]), "x", 1.2, false, fmt.Sprintf("the check %.1f ms, %.1f ms", times[2]*1000, times[3]*1000)},
	}, nil
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
