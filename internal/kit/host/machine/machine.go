// Package machine implements host.Machine for the machine that this process runs on.
package machine

import (
	"fmt"
	"path/filepath"
	"syscall"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/machine/backups"
	"edge.internal/gateway/internal/kit/host/machine/bouncer"
	"edge.internal/gateway/internal/kit/host/machine/command"
	"edge.internal/gateway/internal/kit/host/machine/conntrack"
	"edge.internal/gateway/internal/kit/host/machine/facts"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/host/machine/filter"
	"edge.internal/gateway/internal/kit/host/machine/jobs"
	"edge.internal/gateway/internal/kit/host/machine/network"
	"edge.internal/gateway/internal/kit/host/machine/packages"
	"edge.internal/gateway/internal/kit/host/machine/probe"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/host/machine/wireguard"
)

type Options struct {
	// Root is put before every path. It is empty on a real gateway. Where the machine's own files must not be touched it is a folder;
	// calls to running daemons and to the packet filter then fail, unless OwnKernel is set.
	Root string
	// OwnKernel says that the kernel's network may be changed although Root is set: the network namespace of a test.
	OwnKernel bool
	Units     host.Units
	// Database is the address of the gateway's database. If it is empty, the database cannot be dumped.
	Database string
	// User is the user that runs PostgreSQL's programs; nil for the user of this process.
	User *syscall.Credential
}

// Machine combines the parts of host.Machine, each of which is a package of its own.
type Machine struct {
	host.Units
	host.Journal
	*files.Files
	*command.Commands
	*network.Network
	*filter.Filter
	haproxy.Proxy
	unbound.Resolver
	squid.ForwardProxy
	kea.Leases
	freeradius.Radius
	crowdsec.Detection
	*bouncer.Tables
	keepalived.VirtualRouter
	*wireguard.Tunnels
	*packages.Packages
	*probe.Probes
	*conntrack.Table
	*backups.Backups
	*jobs.Jobs
	*facts.Known
}

var _ host.Machine = (*Machine)(nil)

func New(opts Options) (*Machine, error) {
	if opts.Units == nil {
		return nil, fmt.Errorf("a machine needs Options.Units to run its daemons")
	}
	if opts.Root != "" && !filepath.IsAbs(opts.Root) {
		return nil, fmt.Errorf("root %q is not an absolute path", opts.Root)
	}
	h := home.Home{Root: opts.Root, Foreign: opts.Root != "" && !opts.OwnKernel}
	f := files.New(h)
	c := command.New(h, f)
	starts, _ := opts.Units.(jobs.Starter)
	journal, ok := opts.Units.(host.Journal)
	if !ok {
		journal = units.None{Reason: "nothing stores the output of daemons"}
	}
	return &Machine{
		Units: opts.Units, Journal: journal, Files: f, Commands: c, Network: network.New(h), Filter: filter.New(h, c), Proxy: haproxy.New(h),
		Resolver: unbound.New(h), ForwardProxy: squid.New(h), Leases: kea.New(h), Radius: freeradius.New(h),
		Detection: crowdsec.New(h), Tables: bouncer.New(h), VirtualRouter: keepalived.New(h), Tunnels: wireguard.New(h, c, opts.Units),
		Packages: packages.New(h, starts), Backups: backups.New(h, starts, opts.Database, opts.User), Jobs: jobs.New(h, starts),
		Probes: probe.New(h), Table: conntrack.New(h), Known: facts.New(h),
	}, nil
}
