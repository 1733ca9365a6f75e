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

// daemons are all that there are, in the order in which they start. Every closed list comes from this one.
var daemons = []daemon.Daemon{
	own, chrony.Daemon, haproxy.Daemon, nftables.Daemon, unbound.Daemon, squid.Daemon, kea.Daemon, freeradius.Daemon, crowdsec.Daemon,
	keepalived.Daemon, wireguard.Daemon, postgresql.Daemon, journald,
}

func init() { daemon.Know(daemons) }

// jobsVerbs are those of job.Machine.
var jobsVerbs = daemon.Verbs{"BeginJob": daemon.Served, "EndJob": daemon.Repeatable, "ReadJob": daemon.Local}

// Verbs are those of the whole machine, with the privilege that each needs.
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

// PackageNames returns the closed list of packages, the gateway's own first.
func PackageNames() (names []string) {
	for _, d := range daemons {
		names = append(names, d.Packages...)
	}
	return names
}

// Shown are the logs as people read them, in their order.
func Shown() (all []daemon.Shown) {
	for _, d := range daemons {
		all = append(all, d.Shown...)
	}
	slices.SortStableFunc(all, func(a, b daemon.Shown) int { return a.Order - b.Order })
	return all
}

// Refusals are the daemons' own errors that cross the helper's socket: a nil pointer of each type.
func Refusals() (all []error) {
	for _, d := range daemons {
		all = append(all, d.Refusals...)
	}
	return all
}
