package app_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/waittest"
)

// A cluster is made, repaired and led by another node with gateway-ctl. What joins is tested with whole machines.
func TestCtlCluster(t *testing.T) {
	t.Parallel()
	one, other := dbtest.Pair(t, dbtest.Server(t))
	var databases sync.Map
	primary, standby := newBox(t, one, &databases), newBox(t, other, &databases)
	admin := primary.setUp(t)
	at := map[*box]func(stdin string, args ...string) (string, error){primary: primary.root(t), standby: standby.root(t)}
	says := func(b *box, want string, args ...string) {
		t.Helper()
		if said, err := at[b]("", args...); err != nil || said != want {
			t.Errorf("%q: %q, %v", args, said, err)
		}
	}
	refuses := func(b *box, word string, args ...string) {
		t.Helper()
		if said, err := at[b]("", args...); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %q, %v", args, said, err)
		}
	}
	health := func(b *box, role string) {
		t.Helper()
		var now struct{ Role string }
		if b.call(t, "", http.MethodGet, "/system/health", nil).Want(t, 200).Into(t, &now); now.Role != role {
			t.Errorf("health says %s instead of %s", now.Role, role)
		}
	}
	refuses(primary, "not in a cluster", "promote")
	refuses(primary, "not in a cluster", "cluster-setup-standby")
	for range 2 { // what is there already stays
		says(primary, "gateway.example.net is the primary. Make a join token for each other node.\n", "cluster-init-replication")
	}
	refuses(primary, "no standby", "cluster-setup-standby")
	refuses(primary, "the primary", "promote", "--force")

	var token cluster.Token
	primary.call(t, admin, http.MethodPost, "/cluster/join-tokens", `{"node_fqdn":"node.example.net"}`).Want(t, 201).Into(t, &token)
	standby.whole.Cluster.Manage(func(string) string { return primary.api.Listener.Addr().String() })
	says(standby, "node.example.net is a node of the cluster.\n", "cluster-join", "--primary", "gateway.example.net", "--token", token.Token)
	refuses(standby, "a standby", "cluster-init-replication")
	primary.call(t, admin, http.MethodPost, "/ntp/pools", `{"address":"kept.example.net"}`).Want(t, 201)

	there := standby.login(t, adminEmail)
	repairs := func() (last cluster.Repairing) {
		standby.call(t, there, http.MethodGet, "/cluster/repair-replication", nil).Want(t, 200).Into(t, &last)
		return last
	}
	joined := repairs()
	says(primary, "This is the primary. These nodes do it: node.example.net\n", "cluster-setup-standby")
	waittest.Until(t, "the standby has done it", func() bool {
		now := repairs()
		return now.State == "succeeded" && !now.StartedAt.Equal(*joined.StartedAt)
	})
	repaired := func(tables string) {
		t.Helper()
		says(standby, "This node is the same as the primary. Tables that differed: "+tables+"\n", "cluster-setup-standby")
	}
	dbtest.Exec(t, standby.DB, `BEGIN; SET LOCAL session_replication_role = replica; DELETE FROM ntp_pools; COMMIT`)
	repaired("1")
	if n := standby.Rows(t, "ntp_pools WHERE address = 'kept.example.net'"); n != 1 {
		t.Errorf("%d rows", n)
	}
	repaired("0")
	health(primary, "primary")
	health(standby, "standby")
	says(standby, "node.example.net is the primary, of the epoch 2.\n", "promote")
	if role := texts(t, primary.house, "SELECT role FROM ha_state")[0]; role != "stepping-down" {
		t.Errorf("the former primary is %s", role)
	}
	health(primary, "stepping-down")
	health(standby, "primary")
	refuses(standby, "the primary", "promote")
}
