// Package cluster tests gateways that are the nodes of a cluster, in a lab.
package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m) }

// fields are those of a request or an answer.
type fields = map[string]any

// node is a gateway of the cluster.
type node struct{ *labtest.Lab }

// up runs a cluster of several nodes; the first one is the primary.
func up(t *testing.T, nodes int) []node {
	t.Helper()
	var all []node
	// Not volatile: what was acknowledged must be there after a crash.
	for _, l := range labtest.UpNodes(t, lab.Options{Nodes: nodes}) {
		all = append(all, node{l})
	}
	return all
}

// ask queries the node's database.
func ask[T any](t *testing.T, n node, sql string, args ...any) (is T) {
	t.Helper()
	err := n.withDatabase(t.Context(), func(c *pgx.Conn) error { return c.QueryRow(t.Context(), sql, args...).Scan(&is) })
	if err != nil {
		t.Fatalf("%s: %s: %v", n.Name(), sql, err)
	}
	return is
}

func (n node) withDatabase(ctx context.Context, do func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, private.URL(n.Path("/run/postgresql"), "gateway"))
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	return do(c)
}

// hash is that of all that the nodes share.
func (n node) hash(t *testing.T) (h replica.Hash) {
	t.Helper()
	err := n.withDatabase(t.Context(), func(c *pgx.Conn) (err error) {
		h, err = replica.HashOf(t.Context(), c, []string{"audit_entries", "apply_revisions", "certificate_challenges"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// same waits until two nodes have the same.
func same(t *testing.T, one, two node) {
	t.Helper()
	waittest.Until(t, "the nodes have the same", func() bool { return maps.Equal(one.hash(t), two.hash(t)) })
}

// add stores a time server, which all nodes share.
func (n node) add(t *testing.T, name string) {
	t.Helper()
	n.Must(t, http.MethodPost, "/ntp/pools", fields{"address": name}, 201, nil)
}

func (n node) has(t *testing.T, name string) bool {
	t.Helper()
	return ask[bool](t, n, "SELECT EXISTS (SELECT FROM ntp_pools WHERE address = $1)", name)
}

// applied reports whether chronyd has a time server in its configuration.
func (n node) applied(t *testing.T, name string) bool {
	t.Helper()
	content, err := os.ReadFile(n.Path(chrony.DropIn.Path()))
	return err == nil && bytes.Contains(content, []byte("pool "+name+" "))
}

func (n node) role(t *testing.T) string {
	t.Helper()
	return ask[string](t, n, "SELECT role FROM ha_state")
}

// roleNow is role for one whose database may be away.
func (n node) roleNow(ctx context.Context) (is string, err error) {
	err = n.withDatabase(ctx, func(c *pgx.Conn) error { return c.QueryRow(ctx, "SELECT role FROM ha_state").Scan(&is) })
	return is, err
}

func (n node) do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", n.Name(), err)
	}
}

// TestCluster follows two nodes through changes, a virtual address that moves, a repair, a cut link, the loss of the primary and its return.
func TestCluster(t *testing.T) {
	nodes := up(t, 2)
	one, two := nodes[0], nodes[1]
	if a, b := one.role(t), two.role(t); a != "primary" || b != "standby" {
		t.Fatalf("the nodes are %s and %s", a, b)
	}

	one.add(t, "first.example.net")
	waittest.Until(t, "a change of the primary is in the standby's daemon", func() bool { return two.applied(t, "first.example.net") })
	two.WaitState(t, "ntp", "live", 30*time.Second)

	// A change at the standby is executed by the primary, can be read where it was made, and is applied to the daemons of both.
	two.add(t, "passed.example.net")
	if !two.has(t, "passed.example.net") || !one.has(t, "passed.example.net") {
		t.Error("a change that was made at the standby is not there")
	}
	for _, n := range []node{one, two} {
		waittest.Until(t, "a change at the standby is in the daemons of both", func() bool { return n.applied(t, "passed.example.net") })
	}

	strangers(t, one, two)
	virtualAddress(t, one, two)
	repaired(t, one, two)

	two.do(t, two.Cut(lab.Cluster))
	one.add(t, "cut.example.net")
	if two.has(t, "cut.example.net") {
		t.Error("a change has arrived over a link that was cut")
	}
	two.do(t, two.Heal(lab.Cluster))
	waittest.Until(t, "what was changed meanwhile arrives when the link is back", func() bool { return two.applied(t, "cut.example.net") })
	same(t, one, two)

	// Changes that the primary accepts while it is isolated, before it is lost, are on it only.
	two.do(t, two.Cut(lab.Cluster))
	one.add(t, "alone.example.net")
	one.do(t, one.Crash())
	two.do(t, two.Heal(lab.Cluster))
	if a := two.Must(t, http.MethodPost, "/ntp/pools", fields{"address": "nowhere.example.net"}, 503, nil); !bytes.Contains(a.Body, []byte(`"details":{"primary":"`+one.FQDN()+`"}`)) {
		t.Errorf("without a primary: %s", a.Body)
	}
	two.Must(t, http.MethodPost, "/cluster/promote", fields{"force": true}, 200, nil)
	two.add(t, "promoted.example.net")
	waittest.Until(t, "the promoted node applies its changes", func() bool { return two.applied(t, "promoted.example.net") })

	one.do(t, one.Boot(t.Context()))
	waittest.Until(t, "the former primary follows the new one", func() bool { return one.role(t) == "standby" })
	waittest.Until(t, "the former primary has the new one's changes", func() bool { return one.applied(t, "promoted.example.net") })
	if one.has(t, "alone.example.net") {
		t.Error("a change that the new primary does not know is still there")
	}
	if !slices.ContainsFunc(one.differences(t), func(line string) bool { return strings.Contains(line, `"alone.example.net"`) }) {
		t.Error("what the former primary alone had is in no file")
	}
	one.Login(t) // it was the first node, which has a different administrator
	one.add(t, "again.example.net")
	two.add(t, "after.example.net")
	waittest.Until(t, "changes arrive at the former primary", func() bool { return one.applied(t, "after.example.net") })
	same(t, one, two)
	waittest.Until(t, "it keeps no slots for others", func() bool { return ask[int](t, one, "SELECT count(*) FROM pg_replication_slots") == 0 })
	leaves(t, two, one)
}

// repaired repairs a standby that has lost a row. Its API and the repair are killed in the middle of it, and continue.
func repaired(t *testing.T, primary, standby node) {
	t.Helper()
	standby.do(t, standby.withDatabase(t.Context(), func(c *pgx.Conn) error {
		_, err := c.Exec(t.Context(), "BEGIN; SET LOCAL session_replication_role = replica; DELETE FROM ntp_pools WHERE address = 'passed.example.net'; COMMIT")
		return err
	}))
	if standby.has(t, "passed.example.net") {
		t.Fatal("the row is still there")
	}
	var last struct{ State, Error string }
	show := func() error {
		a, err := standby.Do(t.Context(), http.MethodGet, "/cluster/repair-replication", nil)
		if err == nil && (a.Status != 200 || json.Unmarshal(a.Data, &last) != nil) {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return err
	}
	// A slot, which it begins with, waits for the changes that are under way.
	primary.do(t, primary.withDatabase(t.Context(), func(c *pgx.Conn) error {
		if _, err := c.Exec(t.Context(), "BEGIN; SELECT pg_current_xact_id()"); err != nil {
			return err
		}
		standby.Must(t, http.MethodPost, "/cluster/repair-replication", fields{}, 200, nil)
		for _, unit := range []host.Unit{host.API, host.Unit(job.Repair)} {
			before := standby.pid(t, unit)
			standby.do(t, standby.Signal(t.Context(), unit, lab.Kill))
			waittest.Until(t, string(unit)+" runs again", func() bool { now := standby.pid(t, unit); return now != 0 && now != before })
		}
		waittest.UntilNil(t, "the API answers again", show)
		if last.State != "running" {
			t.Errorf("nothing could be repaired yet: %+v", last)
		}
		standby.Must(t, http.MethodPost, "/cluster/repair-replication", fields{}, 409, nil)
		_, err := c.Exec(t.Context(), "COMMIT")
		return err
	}))
	waittest.UntilNil(t, "the repair ends", func() error {
		if err := show(); err != nil || last.State != "running" {
			return err
		}
		return errors.New("it runs")
	})
	if last.State != "succeeded" || !standby.has(t, "passed.example.net") {
		t.Errorf("%+v", last)
	}
	same(t, primary, standby)
}

// pid is the process of a unit, if it runs.
func (n node) pid(t *testing.T, unit host.Unit) int {
	t.Helper()
	s, err := n.Units().State(t.Context(), unit)
	n.do(t, err)
	return s.PID
}

// leaves has a node leave: the primary keeps nothing for it, and lets it in no more.
func leaves(t *testing.T, primary, peer node) {
	t.Helper()
	id := ask[string](t, primary, "SELECT id FROM ha_nodes WHERE fqdn = $1", peer.FQDN())
	identity, err := os.ReadFile(peer.Path(postgresql.Identity.Path()))
	peer.do(t, err)
	primary.Must(t, http.MethodPost, "/cluster/nodes/"+id+"/leave", nil, 200, nil)
	if slots := ask[int](t, primary, "SELECT count(*) FROM pg_replication_slots"); slots != 0 {
		t.Errorf("the primary keeps %d slots for a node that left", slots)
	}
	if sessions := ask[int](t, primary, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'gateway_repl'"); sessions != 0 {
		t.Errorf("%d sessions of a node that left are still there", sessions)
	}
	for _, place := range []host.Place{postgresql.Access, postgresql.Members} {
		content, err := os.ReadFile(primary.Path(place.Path()))
		if err != nil || bytes.Contains(content, []byte("gateway_repl")) {
			t.Errorf("%s: %v\n%s", place, err, content)
		}
	}
	waittest.Until(t, "the virtual addresses stay with the cluster", func() bool { return primary.binds(inner) && !peer.binds(inner) && !peer.binds(vip) })
	// A node that does not know that it was removed, or ignores it, still has its certificate.
	file := peer.Path("/var/lib/postgresql/left.pem")
	peer.do(t, os.WriteFile(file, identity, 0o600))
	if out, err := peer.connect(t, primary, "dbname=gateway user=gateway_repl sslmode=require sslcert=/var/lib/postgresql/left.pem sslkey=/var/lib/postgresql/left.pem", "root"); err == nil {
		t.Errorf("a node that left is let in: %s", out)
	}
}

// connect connects to the database of another node with PostgreSQL's own program.
func (n node) connect(t *testing.T, to node, conninfo, user string) (string, error) {
	t.Helper()
	cmd, err := n.Command(t.Context(), lab.Gateway, "setpriv", "--reuid="+user, "--regid="+user, "--init-groups", "psql", "-XAtqw", "-c", "SELECT 1",
		"host="+to.FQDN()+" connect_timeout=10 "+conninfo)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// differences are the lines of all difference files.
func (n node) differences(t *testing.T) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(n.Path("/var/lib/gateway/cluster/differences-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Split(strings.TrimSpace(string(content)), "\n")...)
	}
	return lines
}

// strangers are refused by the primary's database, also where a peer is.
func strangers(t *testing.T, primary, peer node) {
	t.Helper()
	own := " sslrootcert=/etc/postgresql/gateway/authority.pem sslcert=/etc/postgresql/gateway/node.pem sslkey=/etc/postgresql/gateway/node.pem"
	connect := func(conninfo string) (string, error) { return peer.connect(t, primary, conninfo, "postgres") }
	if out, err := connect("dbname=gateway user=gateway_repl sslmode=verify-full" + own); err != nil {
		t.Fatalf("the peer itself: %s", out)
	}
	for what, conninfo := range map[string]string{
		"no certificate":    "dbname=gateway user=gateway_repl sslmode=require sslcert=/nowhere",
		"no TLS":            "dbname=gateway user=gateway_repl sslmode=disable",
		"another role":      "dbname=gateway user=gateway sslmode=require" + own,
		"another database":  "dbname=postgres user=gateway_repl sslmode=require" + own,
		"an older protocol": "dbname=gateway user=gateway_repl sslmode=require ssl_max_protocol_version=TLSv1.2" + own,
	} {
		if out, err := connect(conninfo); err == nil {
			t.Errorf("%s is let in: %s", what, out)
		}
	}
	for _, table := range []string{"account_sessions", "ha_join_tokens"} {
		if ask[bool](t, primary, "SELECT has_table_privilege('gateway_repl', $1, 'SELECT')", table) {
			t.Errorf("other nodes can read %s", table)
		}
	}
}
