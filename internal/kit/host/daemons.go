package host

import (
	"slices"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/daemon/wireguard"
)

// daemons lists every daemon in start order. All closed lists are built from it.
var daemons = []daemon.Daemon{
	own, chrony.Daemon, haproxy.Daemon, nftables.Daemon, unbound.Daemon, squid.Daemon, kea.Daemon, freeradius.Daemon, crowdsec.Daemon,
	keepalived.Daemon, wireguard.Daemon, postgresql.Daemon, journald,
}

func init() { daemon.Register(daemons) }

// They are declared here because package job must not depend on this package.
var jobsVerbs = daemon.Verbs{"BeginJob": daemon.Served, "EndJob": daemon.Repeatable, "ReadJob": daemon.Local}

// Verbs lists every method of Machine with the privilege that it needs.
var Verbs = func() daemon.Verbs {
	all := daemon.Verbs{}
	lists := []daemon.Verbs{
		machineVerbs, filesVerbs, unitsVerbs, logsVerbs, journalVerbs, networkVerbs, tunnelsVerbs, portsVerbs, filterVerbs,
		packagesVerbs, connectionsVerbs, backupsVerbs, probesVerbs, jobsVerbs,
	}
	for _, d := range daemons {
		lists = append(lists, d.Verbs)
	}
	for _, verbs := range lists {
		for name, privilege := range verbs {
			if all[name] != 0 {
				panic(name + " is declared twice")
			}
			all[name] = privilege
		}
	}
	return all
}()

func PackageNames() (names []string) {
	for _, d := range daemons {
		names = append(names, d.Packages...)
	}
	return names
}

// LogViews returns the logs that the UI offers, in its order.
func LogViews() (all []daemon.LogView) {
	for _, d := range daemons {
		all = append(all, d.LogViews...)
	}
	slices.SortStableFunc(all, func(a, b daemon.LogView) int { return a.Order - b.Order })
	return all
}

// Refusals returns a typed nil pointer for every error type that crosses the helper's socket.
func Refusals() (all []error) {
	for _, d := range daemons {
		all = append(all, d.Refusals...)
	}
	return all
}
