package cluster_test

import (
	"testing"
	"time"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/watch/watchtest"
)

func TestNodesAreWatched(t *testing.T) {
	t.Parallel()
	w := watchtest.New(t, cluster.Check)
	expect := func(health string, nodes ...cluster.NodeStatus) {
		w.Answers["/cluster/status"] = cluster.ClusterStatus{Health: health, Peers: nodes}
	}
	healthy := func(id string) cluster.NodeStatus {
		return cluster.NodeStatus{ID: id, FQDN: id, Status: cluster.Online, Role: cluster.Standby, Streaming: true}
	}
	behind := func(id string, lag time.Duration) cluster.NodeStatus {
		n, seconds := healthy(id), lag.Seconds()
		n.Lag = &seconds
		return n
	}
	away := cluster.NodeStatus{ID: "away", FQDN: "away", Status: cluster.Offline, Role: cluster.Standby}
	expected := cluster.NodeStatus{ID: "expected", FQDN: "expected", Status: cluster.Pending}
	still, drift, lost, refused := healthy("still"), healthy("drift"), healthy("lost"), healthy("refused")
	still.Streaming, drift.Drift, lost.SlotLost = false, []string{"ntp_pools", "dns_zones"}, true
	refused.Repair = &cluster.Repairing{State: "failed", Error: replica.ErrTooMuch.Message}
	expect("degraded", behind("1", 59*time.Second), behind("2", time.Minute), behind("3", 10*time.Minute), away, expected, still, drift, lost, refused)
	w.Want(t, "node.offline critical away", "replication.drift error drift", "replication.drift error refused", "replication.lag error 3", "replication.lag warning 2", "replication.slot_lost error lost")
	// A standby that does not follow falls behind all the time.
	w.Clock.Move(time.Minute)
	w.Want(t, "node.offline critical away", "replication.drift error drift", "replication.drift error refused", "replication.lag error 3", "replication.lag warning 2", "replication.lag warning still", "replication.slot_lost error lost")
	expect("degraded", healthy("still"), away)
	w.Want(t, "node.offline critical away")
	expect("split-brain")
	w.Want(t, "cluster.split_brain critical")
	expect("OK")
	w.Want(t)

	// Each alarm was raised once and cleared once.
	raised := map[string]int{}
	rows, err := w.DB.Query(t.Context(), "SELECT kind || ' ' || key || CASE WHEN resolves IS NULL THEN '' ELSE ' is over' END FROM alarm_events")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var what string
		if err := rows.Scan(&what); err != nil {
			t.Fatal(err)
		}
		raised[what]++
	}
	for _, what := range []string{"node.offline away", "replication.drift drift", "replication.drift refused", "replication.lag 2", "replication.lag still", "replication.slot_lost lost", "cluster.split_brain "} {
		if raised[what] != 1 || raised[what+" is over"] != 1 {
			t.Errorf("%s: raised %d times, over %d times", what, raised[what], raised[what+" is over"])
		}
	}
}
