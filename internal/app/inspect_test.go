package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/schema"
	"edge.internal/gateway/internal/waf/agent"
)

// HAProxy gets only the WAF settings of a domain that it needs, and reloads only when the first domain has any.
func TestWAFChangesWhileTheProxyRuns(t *testing.T) {
	b := kittest.New(t)
	var mu sync.Mutex
	var commands []string
	b.Machine.SetUnit(host.UnitState{Unit: haproxy.Unit, Installed: true, Active: "active"})
	b.Machine.AnswerProxy(func(q haproxy.Question) (string, error) {
		words := strings.Join(q.Words, " ")
		if words == "show info" {
			config, err := b.Machine.Read(haproxy.Config)
			_, mark, _ := strings.Cut(string(config), "\n  description ")
			return "description: " + strings.TrimSpace(mark), err
		}
		if q.Words[0] != "show" {
			mu.Lock()
			commands = append(commands, words)
			mu.Unlock()
		}
		return "", nil
	})
	// A fake agent that has always loaded what is stored.
	b.FakeDaemon(t, host.WAFSocket, func(w http.ResponseWriter, req *http.Request) {
		var s agent.Status
		if err := b.DB.QueryRow(req.Context(), agent.Fingerprint).Scan(&s.Configuration); err == nil {
			_ = json.NewEncoder(w).Encode(s)
		}
	})
	h := build(t, b)
	admin := h.setUp(t)
	var backend, one, two struct{ ID string }
	h.call(t, admin, http.MethodPost, "/backends", `{"name":"app"}`).Want(t, 201).Into(t, &backend)
	h.call(t, admin, http.MethodPost, "/domains", `{"name":"one.example.net","backend_id":"`+backend.ID+`"}`).Want(t, 201).Into(t, &one)
	h.call(t, admin, http.MethodPost, "/domains", `{"name":"two.example.net","backend_id":"`+backend.ID+`"}`).Want(t, 201).Into(t, &two)
	for _, x := range []struct {
		name, domain, body string
		reloads            int
		commands           string
	}{
		{"stored, but off", one.ID, `{"mode":"blocking"}`, 0, ""},
		{"the first", one.ID, `{"enabled":true}`, 1, ""},
		{"paranoia", one.ID, `{"paranoia_level":2}`, 0, ""},
		{"exclusions", one.ID, `{"exclusions":[{"rule_id":942100,"path":"/a"}],"trusted_proxies":["192.0.2.1"],"rule_exclusions":[941100]}`, 0, ""},
		{"custom rules", one.ID, `{"custom_rules":"SecAction \"id:1,phase:1,pass\""}`, 0, ""},
		{"the second", two.ID, `{"enabled":true}`, 0, "set map maps/hosts.map two.example.net fdoi||||131072||" + two.ID},
		{"fail open", one.ID, `{"fail_open":true}`, 0, "set map maps/hosts.map one.example.net fo||||131072||" + one.ID},
		{"large bodies", one.ID, `{"oversized":"inspect"}`, 0, "set map maps/hosts.map one.example.net foi||||131072||" + one.ID},
		{"blocking", two.ID, `{"mode":"blocking"}`, 0, "set map maps/hosts.map two.example.net f||||131072||" + two.ID},
	} {
		mu.Lock()
		commands = nil
		mu.Unlock()
		before := b.Machine.ProxyReloads()
		a := h.call(t, admin, http.MethodPut, "/waf/configs/"+x.domain, x.body).Want(t, 200)
		mu.Lock()
		sent := strings.Join(commands, "\n")
		mu.Unlock()
		if got := a.Header.Get("Gateway-Apply"); got != "ids=live, reverse-proxy=live, waf=live" || b.Machine.ProxyReloads()-before != x.reloads || !strings.HasPrefix(sent, x.commands) || x.commands == "" && sent != "" {
			t.Errorf("%s: %s after %d reloads and %q", x.name, got, b.Machine.ProxyReloads()-before, sent)
		}
	}
}

// The agent's role may read its configuration and insert its findings, and nothing else.
func TestRightsOfTheAgent(t *testing.T) {
	d := dbtest.New(t)
	dbtest.Exec(t, d, `DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gateway-waf') THEN CREATE ROLE "gateway-waf"; END IF; END $$`)
	dbtest.Exec(t, d, schema.Grants)
	dbtest.Exec(t, d, schema.Grants)
	rows, err := d.Query(t.Context(), `
		SELECT c.relname || ' ' || p FROM pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) p
		WHERE c.relkind IN ('r', 'S', 'v') AND c.relnamespace = 'public'::regnamespace AND (c.relkind = 'r' OR p IN ('SELECT', 'UPDATE')) AND has_table_privilege('gateway-waf', c.oid, p) ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	has, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if want := "[waf_alerts INSERT waf_configs SELECT waf_requests INSERT]"; err != nil || fmt.Sprint(has) != want {
		t.Errorf("%v, %v", has, err)
	}
}
