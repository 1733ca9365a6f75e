package app_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/waittest"
)

// gateway-ctl founds a cluster, repairs it, and promotes another node. Joining is tested with whole machines.
func TestCtlCluster(t *testing.T) {
	t.Parallel()
	one, other := dbtest.Pair(t, dbtest.Server(t))
	var databases sync.Map
	primary, standby := newBox(t, one, &databases), newBox(t, other, &databases)
	admin := primary.setUp(t)
	// away is the number of requests for a repair to cut off, as if the API restarted; back is called with the last one.
	away, back := 0, func() {}
	api := standby.Handler()
	restarted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away > 0 && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/cluster/repair-replication") {
			if away--; away == 0 {
				back()
			}
			panic(http.ErrAbortHandler)
		}
		api.ServeHTTP(w, r)
	})
	at := map[*box]func(stdin string, args ...string) (string, error){primary: primary.root(t), standby: standby.rootBy(t, restarted)}
	says := func(b *box, want string, args ...string) {
		t.Helper()
		if output, err := at[b]("", args...); err != nil || output != want {
			t.Errorf("%q: %q, %v", args, output, err)
		}
	}
	refuses := func(b *box, word string, args ...string) {
		t.Helper()
		if output, err := at[b]("", args...); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %q, %v", args, output, err)
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
	for range 2 { // what exists already stays
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

	// The repair, which waits for a change in progress, continues while the API is restarted, and its result is reported.
	change, err := primary.DB.Server().Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer change.Close(context.WithoutCancel(t.Context()))
	if _, err := change.Exec(t.Context(), "BEGIN; SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	away, back = 2, func() {
		if _, err := change.Exec(context.WithoutCancel(t.Context()), "COMMIT"); err != nil {
			t.Error(err)
		}
	}
	repaired("0")
	if away != 0 {
		t.Error("the API was not asked while it was away")
	}
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
