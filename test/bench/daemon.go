package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/lab"
)

// measureDaemon compares a change that reaches chronyd with the sum of its parts: the transaction, chronyd's own check
// and its restart until it answers.
func measureDaemon(ctx context.Context, s settings) ([]goal, error) {
	fmt.Println("a lab, with chronyd")
	dir, err := os.MkdirTemp("", "gateway-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	l, err := lab.Up(ctx, lab.Options{Dir: dir, UI: "127.0.0.1:0", Programs: s.programs, AdminEmail: email, AdminPassword: secret})
	if err != nil {
		return nil, err
	}
	defer l.Down() //nolint:errcheck // the bench is over
	pool, err := pgxpool.New(ctx, private.URL(l.Path("/run/postgresql"), "gateway"))
	if err != nil {
		return nil, err
	}
	defer pool.Close()

	n := 0
	change := func() error {
		n++
		verb, path := http.MethodPost, "/ntp/pools"
		body := fmt.Sprintf(`{"kind":"server","address":"10.7.%d.%d"}`, n>>8, n&255)
		req, err := http.NewRequestWithContext(ctx, verb, "http://gateway/api/v1"+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		res, err := l.Client().Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != 201 || res.Header.Get("Gateway-Apply") != "ntp=live" {
			return fmt.Errorf("the change answers %d, %s", res.StatusCode, res.Header.Get("Gateway-Apply"))
		}
		return nil
	}
	if _, err := pool.Exec(ctx, `SELECT 1`); err != nil {
		return nil, err
	}
	machine, err := host.New(host.Options{Units: l.Units()})
	if err != nil {
		return nil, err
	}
	parts := func() error {
		if err := bareTransaction(ctx, pool); err != nil {
			return err
		}
		file, err := os.ReadFile(l.Path("/etc/chrony/conf.d/gateway.conf"))
		if err != nil {
			return err
		}
		if _, err := machine.Run(ctx, host.ChronyCheck, host.Input{Staged: []host.File{{Place: host.ChronyDropIn, Content: file}}}); err != nil {
			return err
		}
		return l.Units().Restart(ctx, host.Chrony)
	}
	times, err := inTurns(settings{rounds: 15},
		func(time.Duration) (float64, error) { return seconds(change) },
		func(time.Duration) (float64, error) { return seconds(parts) })
	if err != nil {
		return nil, err
	}
	return []goal{{"change that is live in chronyd / sum of its parts", times[0] / times[1], "x", 1.5, false, fmt.Sprintf("%.1f ms, %.1f ms", times[0]*1000, times[1]*1000)}}, nil
}

func bareTransaction(ctx context.Context, pool *pgxpool.Pool) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // does nothing after the commit
	if _, err := tx.Exec(ctx, `UPDATE ntp_settings SET updated_at = now()`); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO audit_entries VALUES (gen_random_uuid(), now(), 'bench', 'bench', '', '', '{}')`); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
