package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/watch"
)

var (
	nodeOffline = &alarm.Kind{
		Name: "node.offline", Severity: alarm.Critical, Mutable: true, Meaning: "A node of the cluster cannot be reached.",
	}
	lagging = &alarm.Kind{
		Name: "replication.lag", Severity: alarm.Warning, Mutable: true, Meaning: "The database of a node lags behind.",
	}
	drifted = &alarm.Kind{
		Name: "replication.drift", Severity: alarm.Error, Mutable: true, Meaning: "A node's configuration differs from that of the others.",
	}
	slotLost = &alarm.Kind{
		Name: "replication.slot_lost", Severity: alarm.Error, Mutable: true,
		Meaning: "A node was away for too long to catch up, and has to be repaired.",
	}
	splitBrain = &alarm.Kind{
		Name: "cluster.split_brain", Severity: alarm.Critical, Mutable: true,
		Meaning: "Two nodes were the primary at the same time. Neither accepts changes.",
	}
)

// Check finds problems of the other nodes.
var Check = watch.Check{
	Name: "watch.cluster", Title: "Check the other nodes of the cluster", Every: 30 * time.Second,
	Kinds: []*alarm.Kind{nodeOffline, lagging, drifted, slotLost, splitBrain}, Conditions: conditions,
}

func conditions(ctx context.Context, s *watch.Scene) (found []alarm.Alarm, err error) {
	x, err := watch.Get[ClusterStatus](ctx, s, "/cluster/status")
	if err != nil {
		return nil, err
	}
	if x.Health == "split-brain" {
		found = append(found, alarm.Alarm{Kind: splitBrain, Subject: "Cluster", Message: "Two nodes were the primary at the same time. Neither accepts changes. Promote the one with the changes that you want to keep; the other one keeps its own in a file."})
	}
	for _, n := range x.Peers {
		if n.Status == Pending || n.Status == Joining || n.Status == Unknown {
			continue
		}
		found = append(found, n.conditions(s)...)
	}
	return found, nil
}

// conditions returns the alarms of another node that has joined.
func (n *NodeStatus) conditions(s *watch.Scene) (found []alarm.Alarm) {
	raise := func(kind *alarm.Kind, severity alarm.Severity, message string) {
		found = append(found, alarm.Alarm{Kind: kind, Key: n.ID, Severity: severity, Subject: "Node " + n.FQDN, Message: message})
	}
	if n.SlotLost {
		raise(slotLost, "", "It was away for longer than the primary keeps changes for it. Repair its replication.")
	}
	if n.Status != Online {
		raise(nodeOffline, "", "It cannot be reached.")
		return found
	}
	switch {
	case n.Repair != nil && n.Repair.TooMuch():
		raise(drifted, "", "It is not synchronised with the primary, because it would lose more than half of its data. Check that the primary is the right one, then repair the node with force.")
	case len(n.Drift) > 0:
		raise(drifted, "", "Its configuration differs from this node's, in "+strings.Join(n.Drift, ", ")+". Repair its replication.")
	}
	var behind time.Duration
	if n.Lag != nil {
		behind = time.Duration(*n.Lag * float64(time.Second))
	}
	// A standby that does not replicate falls behind from the time it stopped.
	if n.Role == Standby && !n.Streaming && n.Error == "" {
		behind = max(behind, s.Now.Sub(s.Since(lagging, "stopped "+n.ID)))
	}
	switch limit := time.Duration(s.ReplicationLag) * time.Second; {
	case behind >= 10*limit:
		raise(lagging, alarm.Error, fmt.Sprintf("Its database is more than %d seconds behind.", 10*s.ReplicationLag))
	case behind >= limit:
		raise(lagging, alarm.Warning, fmt.Sprintf("Its database is more than %d seconds behind.", s.ReplicationLag))
	}
	return found
}
