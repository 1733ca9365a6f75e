// Package hostile collects the daemons' hostile files: configurations that would make a daemon run, load, read or write something
// as root for an attacker. The guard must refuse all of them.
package hostile

import (
	"maps"
	"slices"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/chrony/chronytest"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec/crowdsectest"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius/freeradiustest"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy/haproxytest"
	"edge.internal/gateway/internal/kit/host/daemon/kea/keatest"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived/keepalivedtest"
	"edge.internal/gateway/internal/kit/host/daemon/nftables/nftablestest"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql/postgresqltest"
	"edge.internal/gateway/internal/kit/host/daemon/squid/squidtest"
	"edge.internal/gateway/internal/kit/host/daemon/unbound/unboundtest"
)

var daemons = []map[daemon.Place][]string{
	chronytest.Hostile, haproxytest.Hostile, nftablestest.Hostile, unboundtest.Hostile, squidtest.Hostile, keatest.Hostile, freeradiustest.Hostile,
	crowdsectest.Hostile, keepalivedtest.Hostile, postgresqltest.Hostile, own,
}

var own = map[daemon.Place][]string{
	host.MasterKey: {"short"},
	host.NodeFile:  {"ROLE=$(id)", "ROLE=`id`", "ROLE=a;id", "ROLE=a b", "PATH=/tmp", "ROLE"},
}

func Files() (files []daemon.File) {
	for _, of := range daemons {
		for _, place := range slices.Sorted(maps.Keys(of)) {
			for _, text := range of[place] {
				files = append(files, daemon.File{Place: place, Content: []byte(text + "\n")})
			}
		}
	}
	return files
}
