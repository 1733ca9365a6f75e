package cluster_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/waittest"
)

type zone struct {
	resource.Meta
	Name        string   `json:"name" required:"true"`
	ForwardTo   []string `json:"forward_to"`
	Description string   `json:"description"`
	Active      bool     `json:"active"`
}

func (z *zone) Label() string { return z.Name }

type record struct {
	resource.Meta
	ZoneID uuid.UUID `json:"zone_id"`
	Name   string    `json:"name" required:"true" maxLength:"20"`
	Type   string    `json:"type" required:"true"`
	Value  string    `json:"value" required:"true"`
	TTL    int       `json:"ttl"`
}

type client struct {
	resource.Meta
	resource.Secrets
	Name    string      `json:"name" required:"true"`
	Address string      `json:"address" required:"true"`
	Secret  secret.Text `json:"secret,omitzero" required:"true"`
	Signed  bool        `json:"require_message_authenticator"`
}

func (c *client) Label() string { return c.Name }

// mountKinds gives a gateway rows to lose.
func (n *node) mountKinds() {
	(&resource.Kind[zone]{Name: "dns.zone", Title: "zone", Path: "/dns/zones", Table: "dns_zones"}).Mount(n.Resources)
	(&resource.Kind[record]{Name: "dns.record", Title: "record", Path: "/dns/records", Table: "dns_records"}).Mount(n.Resources)
	(&resource.Kind[client]{Name: "radius.client", Title: "client", Path: "/radius/clients", Table: "radius_clients"}).Mount(n.Resources)
}

func (g *gate) make(t *testing.T, path string, row map[string]any) string {
	t.Helper()
	var made struct{ ID string }
	g.Do(t, "admin", http.MethodPost, path, row).Want(t, 201).Into(t, &made)
	return made.ID
}

func (g *gate) files(t *testing.T) []cluster.DifferenceFile {
	t.Helper()
	var list cluster.Differences
	g.Get(t, "/cluster/differences").Want(t, 200).Into(t, &list)
	if len(list.Unasked) > 0 {
		t.Errorf("%+v", list)
	}
	return list.Files
}

// rows reads a whole file page by page.
func (g *gate) rows(t *testing.T, f cluster.DifferenceFile) map[string]cluster.DifferenceRow {
	t.Helper()
	all := map[string]cluster.DifferenceRow{}
	for next := 0; ; {
		var page cluster.DifferencePage
		g.Get(t, "/cluster/differences/"+f.NodeID+"/"+f.Name+"?offset="+strconv.Itoa(next)).Want(t, 200).Into(t, &page)
		for _, row := range page.Rows {
			all[row.Table+" "+row.Name] = row
		}
		if page.Next == nil {
			return all
		}
		next = *page.Next
	}
}

// A primary that was cut off accepts changes while another node is promoted. What only the former primary had is in a file. The new
// primary lists and reads the file, applies part of it by the kinds' own rules and with audit entries, and deletes it.
func TestDifferencesAreAppliedAgain(t *testing.T) {
	t.Parallel()
	other, one := joined(t) // one is promoted
	const many = `INSERT INTO dns_zones (id, created_at, updated_at, name, forward_to, description, active) SELECT gen_random_uuid(), now(), now(), '%s-' || n || '.example.net', '{}', '', true FROM generate_series(1, %d) n`
	dbtest.Exec(t, other.DB, fmt.Sprintf(many, "both", 400)) // or more than half would be deleted
	kept := other.make(t, "/dns/zones", map[string]any{"name": "kept.example.net", "description": "before"})
	waittest.Until(t, "the row arrives", func() bool {
		var n int
		err := one.DB.QueryRow(t.Context(), "SELECT count(*) FROM dns_zones WHERE id = $1", kept).Scan(&n)
		return err == nil && n == 1
	})
	dbtest.Exec(t, one.DB, "SET session_replication_role = replica; UPDATE ha_nodes SET api_url = 'https://127.0.0.1:1' WHERE id = '"+other.me.ID+"'")
	one.Do(t, "admin", http.MethodPost, "/cluster/promote", `{"force":true}`).Want(t, 200)
	alone := other.make(t, "/dns/zones", map[string]any{"name": "alone.example.net", "forward_to": []string{"192.0.2.53"}})
	other.make(t, "/dns/records", map[string]any{"zone_id": alone, "name": "www", "type": "A", "value": "192.0.2.80", "ttl": 300})
	other.make(t, "/radius/clients", map[string]any{"name": "switch", "address": "192.0.2.7", "secret": "a secret of the switch"})
	other.Do(t, "admin", http.MethodPut, "/dns/zones/"+kept, `{"description":"after"}`).Want(t, 200)
	if err := other.DB.Write(t.Context(), func(tx *db.Tx) error { // no rule of the kind allows it
		_, err := tx.Exec(t.Context(), `INSERT INTO dns_records (id, created_at, updated_at, zone_id, name, type, value, ttl) VALUES (gen_random_uuid(), now(), now(), $1, $2, 'A', '192.0.2.1', 1)`, alone, strings.Repeat("x", 30))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	dbtest.Exec(t, other.DB, fmt.Sprintf(many, "alone", 110)) // more than a page
	other.beat(t)
	waittest.Until(t, "the former primary follows", func() bool { return other.state(t).Role == cluster.Standby && other.state(t).Epoch == 2 })

	if list := other.files(t); len(list) != 1 || list[0].NodeID != other.me.ID {
		t.Fatalf("the standby lists %+v", list)
	}
	dbtest.Exec(t, one.DB, "UPDATE ha_nodes SET api_url = $2 WHERE id = $1", other.me.ID, "https://"+other.listener.Addr().String())
	list := one.files(t)
	if len(list) != 1 || list[0].NodeID != other.me.ID || list[0].Node != other.me.Name || list[0].Tables["dns_zones"] != 112 || list[0].Tables["radius_clients"] != 1 || list[0].Tables["audit_entries"] == 0 || list[0].CreatedAt.IsZero() {
		t.Fatalf("%+v", list)
	}
	file := list[0]
	at := "/cluster/differences/" + file.NodeID + "/" + file.Name
	rows := one.rows(t, file)
	for name, state := range map[string]string{"dns_zones alone.example.net": "missing", "dns_zones kept.example.net": "differs", "radius_clients switch": "missing"} {
		if rows[name].State != state {
			t.Errorf("%s: %+v", name, rows[name])
		}
	}
	if x := rows["dns_zones kept.example.net"]; !strings.Contains(string(x.Then), `"after"`) || !strings.Contains(string(x.Now), `"before"`) || x.ID != kept || x.Kind != "dns.zone" {
		t.Errorf("%+v", x)
	}
	if x := rows["radius_clients switch"]; strings.Contains(string(x.Then), "secret") {
		t.Errorf("%s", x.Then)
	}
	audited := false
	for name, x := range rows {
		audited = audited || x.State == "record" && name == "audit_entries dns.zone.create alone.example.net"
	}
	if !audited {
		t.Error("the audit entry has no name")
	}

	// Permissions, and invalid requests.
	one.Do(t, "viewer", http.MethodGet, "/cluster/differences", nil).Want(t, 403)
	one.Do(t, "viewer", http.MethodGet, at, nil).Want(t, 403)
	one.Do(t, "viewer", http.MethodPost, at+"/apply", `{"rows":[0]}`).Want(t, 403)
	one.Do(t, "viewer", http.MethodDelete, at, nil).Want(t, 403)
	one.Get(t, "/cluster/differences/"+file.NodeID+"/node.pem").Want(t, 404)
	one.Get(t, "/cluster/differences/nonsense/"+file.Name).Want(t, 404)
	one.Get(t, "/cluster/differences/"+one.me.ID+"/"+file.Name).Want(t, 404)
	one.Do(t, "admin", http.MethodPost, at+"/apply", map[string]any{"rows": []int{}}).WantField(t, "rows")
	one.Do(t, "admin", http.MethodPost, at+"/apply", map[string]any{"rows": []int{100000}}).WantField(t, "rows")
	one.Do(t, "admin", http.MethodPost, at+"/apply", map[string]any{"rows": []int{rows["audit_entries dns.zone.create alone.example.net"].Row}}).WantField(t, "rows")
	other.Do(t, "admin", http.MethodPost, at+"/apply", map[string]any{"rows": []int{0}}).Want(t, 503)

	// A record before its zone, and one that breaks a rule: neither is stored.
	var good, bad int
	var page cluster.DifferencePage
	one.Get(t, at+"?table=dns_records").Want(t, 200).Into(t, &page)
	if len(page.Rows) != 2 || page.Next != nil {
		t.Fatalf("%+v", page)
	}
	for _, x := range page.Rows {
		if strings.Contains(string(x.Then), `"www"`) {
			good = x.Row
		} else {
			bad = x.Row
		}
	}
	zoneRow, keptZone, switchRow := rows["dns_zones alone.example.net"].Row, rows["dns_zones kept.example.net"].Row, rows["radius_clients switch"].Row
	one.Do(t, "admin", http.MethodPost, at+"/apply", map[string]any{"rows": []int{good, bad, zoneRow}}).WantField(t, "rows.1.name")
	if one.rows(t, file)["dns_zones alone.example.net"].State != "missing" {
		t.Error("half of a change set is stored")
	}
	one.Do(t, "admin", http.MethodPost, at+"/apply", map[string]any{"rows": []int{good, zoneRow, keptZone, switchRow}}).Want(t, 200)
	rows = one.rows(t, file)
	for _, name := range []string{"dns_zones alone.example.net", "dns_zones kept.example.net", "radius_clients switch"} {
		if rows[name].State != "same" {
			t.Errorf("%s: %+v", name, rows[name])
		}
	}
	var sealed []byte
	if err := one.DB.QueryRow(t.Context(), "SELECT secret FROM radius_clients WHERE name = 'switch'").Scan(&sealed); err != nil {
		t.Fatal(err)
	}
	if plain, err := secret.FromSealed(sealed).Open(one.Secrets, "radius_clients", "secret", rows["radius_clients switch"].ID); err != nil || plain != "a secret of the switch" {
		t.Errorf("%q %v", plain, err)
	}
	for action, n := range map[string]int{"dns.zone.create": 1, "dns.zone.update": 1, "dns.record.create": 1, "radius.client.create": 1} {
		if got := one.Audited(t, action); got < n {
			t.Errorf("%s: %d", action, got)
		}
	}
	waittest.Until(t, "the standby has it", func() bool {
		var n int
		err := other.DB.QueryRow(t.Context(), "SELECT count(*) FROM dns_records WHERE name = 'www'").Scan(&n)
		return err == nil && n == 1
	})

	one.Do(t, "admin", http.MethodDelete, at, nil).Want(t, 200)
	one.Do(t, "admin", http.MethodDelete, at, nil).Want(t, 404)
	if list := slices.Concat(one.files(t), other.files(t)); len(list) > 0 {
		t.Errorf("%+v", list)
	}
	if n := one.Audited(t, "cluster.differences.delete"); n != 1 {
		t.Errorf("%d entries", n)
	}
}
