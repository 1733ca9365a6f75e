package appliance

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/waittest"
)

// database tests how the package sets up PostgreSQL: whenever the API starts, even if PostgreSQL starts later, and when the gateway becomes the primary of
// a cluster.
func database(t *testing.T, g *appliance) {
	show := func(property string) string {
		return strings.TrimSpace(g.sh(t, "systemctl show --value --property="+property+" gateway-database"))
	}
	ran := func(after string) (invocation string) {
		t.Helper()
		waittest.Until(t, "gateway-database has run again", func() bool {
			invocation = show("InvocationID")
			return invocation != after && show("ActiveState") == "inactive" && show("Result") == "success"
		})
		return invocation
	}
	before := ran("")
	g.sh(t, "systemctl restart gateway-api")
	before = ran(before)
	g.waitUp(t)

	g.sh(t, "systemctl stop 'postgresql@*'; systemctl restart gateway-api")
	waittest.Until(t, "gateway-database waits for PostgreSQL", func() bool {
		return show("InvocationID") != before && show("ActiveState") == "active"
	})
	g.sh(t, "systemctl start postgresql; for c in /etc/postgresql/[0-9]*/*; do systemctl start postgresql@$(echo ${c#/etc/postgresql/} | tr / -); done")
	ran(before)
	g.waitUp(t)

	sql := func(query string) string {
		return strings.TrimSpace(g.sh(t, `setpriv --reuid=postgres --regid=postgres --init-groups psql -XAtq -d gateway -c "`+query+`"`))
	}
	if got := sql("SHOW wal_level"); got != "logical" {
		t.Errorf("wal_level is %s", got)
	}
	if got := sql("SHOW listen_addresses"); got != "localhost" {
		t.Errorf("a node without a cluster listens on %s", got)
	}
	// A PostgreSQL that does not start with the settings for other nodes has its former ones back.
	g.sh(t, `for c in /etc/postgresql/[0-9]*/*/conf.d; do echo "ssl_max_protocol_version = 'TLSv1.2'" >$c/zz-test.conf; done`)
	if a := g.Must(t, http.MethodPost, "/cluster/initialise", nil, 503, nil); !strings.Contains(string(a.Body), "does not start with the settings") {
		t.Errorf("%s", a.Body)
	}
	if got := sql("SHOW listen_addresses"); got != "localhost" {
		t.Errorf("PostgreSQL listens on %s", got)
	}
	g.sh(t, "rm /etc/postgresql/[0-9]*/*/conf.d/zz-test.conf")
	g.waitUp(t)
	g.Must(t, http.MethodPost, "/cluster/initialise", nil, 200, nil)
	for setting, want := range map[string]string{
		"listen_addresses": "*", "ssl": "on", "ssl_min_protocol_version": "TLSv1.3", "hba_file": "/etc/postgresql/gateway/hba.conf", "max_slot_wal_keep_size": "1GB",
	} {
		if got := sql("SHOW " + setting); got != want {
			t.Errorf("%s is %s", setting, got)
		}
	}
	if key := g.sh(t, "stat -c '%U:%G %a' /etc/postgresql/gateway/node.pem"); strings.TrimSpace(key) != "postgres:postgres 600" {
		t.Errorf("the key belongs to %s", key)
	}
	// Unchanged files are not written again at each check of the other nodes.
	before = ran("")
	time.Sleep(15 * time.Second)
	if now := show("InvocationID"); now != before {
		t.Errorf("gateway-database ran again: %s", g.sh(t, "journalctl --no-pager --since=-1min -u gateway-database"))
	}
	if said, err := g.Run(t.Context(), "psql", "-XAtqw", "-c", "SELECT 1", "host=198.51.100.2 dbname=gateway user=gateway_repl sslmode=require"); err == nil {
		t.Errorf("who has no certificate is let in: %s", said)
	}
	g.waitUp(t)
	g.allLive(t)
}
