package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/wire"
)

// spares returns the stored spare backends.
func spares(t *testing.T, b *kittest.Bench) []uuid.UUID {
	t.Helper()
	ids, err := loadSpares(t.Context(), b.DB)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// New backends of the usual form need no reload until the spare ones are used up.
func TestNewBackendsTakeSpareOnes(t *testing.T) {
	_, b := running(t, func(string) string { return "" })
	made := 0
	create := func(body map[string]any, reloads int) (id uuid.UUID) {
		t.Helper()
		made++
		body["name"] = fmt.Sprint("backend ", made)
		before := b.Machine.ProxyReloads()
		var row struct{ ID uuid.UUID }
		a := b.Do(t, "admin", http.MethodPost, "/backends", body).Want(t, 201)
		a.Into(t, &row)
		if got := b.Machine.ProxyReloads() - before; got != reloads || a.Header.Get("Gateway-Apply") != "reverse-proxy=live" {
			t.Errorf("%v: %d reloads instead of %d, %s", body, got, reloads, a.Header.Get("Gateway-Apply"))
		}
		if config, err := b.Machine.Read(haproxy.Config); err != nil || strings.Count(string(config), "backend "+backendName(row.ID).String()+"\n") != 1 {
			t.Errorf("haproxy has no such backend: %v\n%s", err, config)
		}
		return row.ID
	}
	b.Do(t, "admin", http.MethodPost, "/backends", map[string]any{"name": "the first one, which starts HAProxy"}).Want(t, 201)
	for n := range spareCount {
		ready := spares(t, b)
		if len(ready) != spareCount-n {
			t.Fatalf("%d spare backends instead of %d", len(ready), spareCount-n)
		}
		// What only concerns its servers is not part of the form.
		id := create(map[string]any{"scheme": []string{"http", "https"}[n%2], "verify_tls": n%2 == 1, "health_check_interval_seconds": 1 + n}, 0)
		if !slices.Contains(ready, id) || slices.Contains(spares(t, b), id) {
			t.Errorf("%s was not taken from the spare ones: %v", id, ready)
		}
	}
	create(map[string]any{}, 1)
	for _, other := range []map[string]any{
		{"lb_algorithm": "leastconn"}, {"websocket": true}, {"health_check_enabled": false}, {"health_check_path": "/up"}, {"health_check_host": "a.example.net"}, {"health_check_expect": "200"},
	} {
		create(other, 1)
	}
	if n := len(spares(t, b)); n != spareCount {
		t.Errorf("backends of another form have taken spare ones: %d are left", n)
	}
	b.Do(t, "admin", http.MethodPost, "/backends", map[string]any{"name": "off", "active": false}).Want(t, 201)
	if n := len(spares(t, b)); n != spareCount {
		t.Errorf("a backend that is off has taken a spare one: %d are left", n)
	}
}

// A preview takes nothing, and neither does a row whose creator has chosen its id, even that of a spare backend.
func TestSpareBackendsStay(t *testing.T) {
	_, b := running(t, func(string) string { return "" })
	set := func(name string, id *uuid.UUID) resource.Set {
		return resource.Set{Operations: []resource.Operation{{Kind: "proxy.backend", Verb: "create", ID: id, Body: wire.Raw(`{"name":"` + name + `"}`)}}}
	}
	ctx := actor.With(t.Context(), actor.Actor{Name: "admin@example.net", Role: actor.Admin})
	if _, _, err := b.Resources.Commit(ctx, set("first", nil)); err != nil {
		t.Fatal(err)
	}
	before := spares(t, b)
	if _, err := b.Resources.Preview(ctx, set("supposed", nil), false); err != nil {
		t.Fatal(err)
	}
	id := uuid.New()
	for name, id := range map[string]*uuid.UUID{"chosen": &id, "chosen from the spare ones": &before[0]} {
		list, _, err := b.Resources.Commit(ctx, set(name, id))
		if err != nil || list[0].ID != id.String() {
			t.Errorf("%s: %+v %v", name, list, err)
		}
	}
	if after := spares(t, b); !slices.Equal(before, after) {
		t.Errorf("%v are left of %v", after, before)
	}
	config, err := b.Machine.Read(haproxy.Config)
	if err != nil || strings.Count(string(config), backendName(before[0]).String()+"\n") != 1 {
		t.Errorf("%v\n%s", err, config)
	}
	if list, _, err := b.Resources.Commit(ctx, set("next", nil)); err != nil || list[0].ID != before[1].String() {
		t.Errorf("the next one is %+v instead of %s: %v", list, before[1], err)
	}
}

// A site with its backend and server, in one change set, needs no reload if the id of the backend is provisional.
func TestNewSiteTakesSpareBackend(t *testing.T) {
	_, b := running(t, func(q string) string {
		if strings.HasPrefix(q, "add server") {
			return "New server registered."
		}
		return ""
	})
	b.Do(t, "admin", http.MethodPost, "/backends", map[string]any{"name": "the first one, which starts HAProxy"}).Want(t, 201)
	ctx := actor.With(t.Context(), actor.Actor{Name: "admin@example.net", Role: actor.Admin})
	commit := func(list ...resource.Operation) []resource.Change {
		t.Helper()
		changes, _, err := b.Resources.Commit(ctx, resource.Set{Operations: list})
		if err != nil {
			t.Fatal(err)
		}
		return changes
	}
	ready, before, id := spares(t, b), b.Machine.ProxyReloads(), uuid.New()
	backend := resource.Operation{Kind: "proxy.backend", Verb: "create", ID: &id, Provisional: true, Body: wire.Raw(`{"name":"shop"}`)}
	refer := func(body string) wire.Raw { return wire.Raw(`{"backend_id":"` + id.String() + `",` + body + `}`) }
	site := commit(backend,
		resource.Operation{Kind: "proxy.server", Verb: "create", Body: refer(`"name":"server-1","address":"192.0.2.1","port":80`)},
		resource.Operation{Kind: "proxy.domain", Verb: "create", Body: refer(`"name":"shop.example.net"`)})
	if got := b.Machine.ProxyReloads() - before; got != 0 || site[0].ID != ready[0].String() {
		t.Errorf("%d reloads, and the backend is %s instead of %s", got, site[0].ID, ready[0])
	}
	var users int
	err := b.DB.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM proxy_servers WHERE backend_id = $1) + (SELECT count(*) FROM proxy_domains WHERE backend_id = $1)", ready[0]).Scan(&users)
	if err != nil || users != 2 {
		t.Errorf("%d servers and domains belong to it: %v", users, err)
	}
	backend.Body = wire.Raw(`{"name":"mail"}`)
	change := resource.Operation{Kind: "proxy.backend", Verb: "update", ID: &id, Body: wire.Raw(`{"name":"office"}`)}
	if list := commit(backend, change); list[0].ID != ready[1].String() || list[1].ID != list[0].ID {
		t.Errorf("%+v instead of changes of %s", list, ready[1])
	}
	change.ID, change.Provisional = &ready[1], true
	if _, _, err := b.Resources.Commit(ctx, resource.Set{Operations: []resource.Operation{change}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("the id of a row that exists is provisional: %v", err)
	}
}

// Statistics show a backend from the moment that it is no spare one any more.
func TestStatisticsLeaveSpareBackendsOut(t *testing.T) {
	var b *kittest.Bench
	_, b = running(t, func(q string) string {
		if q != "show stat" {
			return ""
		}
		config, err := b.Machine.Read(haproxy.Config)
		if err != nil {
			return err.Error()
		}
		table := "# pxname,svname,status,\n"
		for line := range strings.Lines(string(config)) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "backend "); ok {
				table += name + ",BACKEND,UP,\n"
			}
		}
		return table
	})
	var ids []string
	for n := range 3 {
		var row struct{ ID string }
		b.Do(t, "admin", http.MethodPost, "/backends", map[string]any{"name": fmt.Sprint("backend ", n)}).Want(t, 201).Into(t, &row)
		ids = append(ids, row.ID)
		var stats Stats
		b.Get(t, "/proxy/stats").Want(t, 200).Into(t, &stats)
		var shown []string
		for _, x := range stats.Backends {
			shown = append(shown, x.BackendID)
		}
		slices.Sort(ids)
		slices.Sort(shown)
		if !slices.Equal(ids, shown) {
			t.Errorf("statistics of %v instead of %v", shown, ids)
		}
	}
}
