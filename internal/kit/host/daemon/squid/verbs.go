package squid

import (
	"context"

	"edge.internal/gateway/internal/kit/host/daemon"
)

const (
	// JudgeProgram is squid's external ACL helper. It is in squid's own folder for such programs, because AppArmor lets squid start
	// no others.
	JudgeProgram = "/usr/lib/squid/gateway-acl"
	// JudgeSocket is the judge's socket for the gateway.
	JudgeSocket = "/run/squid/gateway-acl.sock"
	// ManagerPort is the loopback port of squid's cache manager. Squid serves nothing else there.
	ManagerPort = 3127
)

// ForwardProxy is the client of a running squid and its judge.
type ForwardProxy interface {
	// SquidReport fetches a report from squid's cache manager. bytes is its size on the wire, because squid counts it as traffic.
	// If squid does not run, it is daemon.ErrNotRunning.
	SquidReport(ctx context.Context, r Report) (text string, bytes int64, err error)
	// SquidJudge returns what the judge has loaded. With reload it reads the installed AccessList first; if it refuses the list,
	// that is an error, and it keeps the old one. If the judge does not run, it is daemon.ErrNotRunning.
	SquidJudge(ctx context.Context, reload bool) (Judge, error)
}

var verbs = daemon.Verbs{"SquidReport": daemon.Local, "SquidJudge": daemon.Local}

type Report string

const (
	Counters    Report = "counters"
	Info        Report = "info"
	Descriptors Report = "filedescriptors"
)

// Judge is what the judge has loaded.
type Judge struct {
	// Configuration is the mark of the squid configuration that the judge was started with, so squid runs with that one.
	Configuration string
	// List is the digest of the access list; "-" if it has none.
	List string
}
