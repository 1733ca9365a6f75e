//go:build long

package restore

import (
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/lab/labtest"
)

// manyRows is the number of rules, domains and records that are restored, each; GATEWAY_RESTORE_ROWS overrides it.
const manyRows = 500

// All rows are restored, whatever their number, and the API answers within a minute.
func TestManyRows(t *testing.T) {
	n := manyRows
	if text := os.Getenv("GATEWAY_RESTORE_ROWS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	g := up(t)
	s := g.server(t)
	pool, err := pgxpool.New(t.Context(), private.URL(g.Path("/run/postgresql"), "gateway"))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, sql := range []string{
		`INSERT INTO firewall_rules (id, created_at, updated_at, name, src_zone, src_kind, src_cidr, dst_zone, dst_kind, dst_cidr, service_object_id, action, log, priority, enabled, comment, note, labels)
			SELECT md5('rule' || i)::uuid, now(), now(), 'rule ' || i, 'lan', 'cidr', '10.' || i / 250 || '.' || i % 250 || '.0/24', 'wan', 'any', '',
				'00000000-0000-7000-8000-000000000202', 'accept', false, i * 10, true, '', '', '{}' FROM generate_series(1, $1::int) i`,
		`INSERT INTO proxy_backends (id, created_at, updated_at, name, scheme, lb_algorithm, websocket, force_http1, active, health_check_enabled, health_check_path,
				health_check_method, health_check_host, health_check_expect, health_check_interval_seconds, verify_tls)
			SELECT md5('backend' || i)::uuid, now(), now(), 'backend ' || i, 'http', 'roundrobin', false, false, true, false, '/', 'GET', '', '200-399', 5, false
			FROM generate_series(0, $1::int / 10) i`,
		`INSERT INTO proxy_domains (id, created_at, updated_at, name, backend_id, active, http_to_https, disable_h3, hsts_enabled, hsts_max_age, hsts_include_subdomains,
				hsts_preload, rate_limit_enabled, rate_limit_requests, rate_limit_period_seconds, maintenance, max_body_size_bytes, www_redirect, notes)
			SELECT md5('domain' || i)::uuid, now(), now(), 'd' || i || '.example.net', md5('backend' || i / 10)::uuid, true, false, false, false, 31536000, false,
				false, false, 1000, 60, false, 0, 'none', '' FROM generate_series(1, $1::int) i`,
		`WITH zone AS (INSERT INTO dns_zones (id, created_at, updated_at, name, forward_to, description, active) VALUES (gen_random_uuid(), now(), now(), 'many.lan', '{}', '', true) RETURNING id)
			INSERT INTO dns_records (id, created_at, updated_at, zone_id, name, type, value, ttl)
			SELECT md5('record' || i)::uuid, now(), now(), zone.id, 'host' || i, 'A', '10.1.' || i / 250 || '.' || i % 250, 3600 FROM zone, generate_series(1, $1::int) i`,
	} {
		if _, err := pool.Exec(t.Context(), sql, n); err != nil {
			t.Fatal(err)
		}
	}
	g.Must(t, http.MethodPost, "/system/render-configs", nil, 200, nil)
	g.WaitSettled(t)
	g.backup = g.back(t)
	before := contents(t, s)
	for _, name := range []string{"firewall_rules", "proxy_domains", "dns_records"} {
		if before[name].Rows < int64(n) {
			t.Fatalf("%s has %d rows", name, before[name].Rows)
		}
	}
	if _, err := pool.Exec(t.Context(), `DELETE FROM firewall_rules; DELETE FROM proxy_domains; DELETE FROM dns_records; UPDATE proxy_backends SET name = name || ' changed'`); err != nil {
		t.Fatal(err)
	}
	g.Must(t, http.MethodPost, "/backups/"+g.backup.ID+"/restore", nil, 200, nil)
	away := g.away(t)
	t.Logf("%d rules, domains and records: the API was away for %s", n, away)
	if away > labtest.Slow*time.Minute {
		t.Errorf("the API is back after %s", away)
	}
	if r := g.ended(t); r.State != "done" {
		t.Fatalf("%+v", r)
	}
	g.login(t)
	same(t, "after the restore", before, contents(t, s))
	g.beside(t, "after the restore", s)
	for _, component := range []string{"packet-filter", "reverse-proxy", "dns"} {
		g.WaitState(t, component, "live", time.Minute)
	}
}
