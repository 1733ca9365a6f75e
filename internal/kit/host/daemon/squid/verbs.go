package squid

import (
	"context"

	"edge.internal/gateway/internal/kit/host/daemon"
)

const (
	// JudgeProgram is what squid asks about requests. It is in squid's own folder of such programs: AppArmor lets squid start
	// none elsewhere.
	JudgeProgram = "/usr/lib/squid/gateway-acl"
	// JudgeSocket is where it answers the gateway.
	JudgeSocket = "/run/squid/gateway-acl.sock"
	// ManagerPort is the port of the loopback where squid's cache manager answers, and nothing else.
	ManagerPort = 3127
)

// ForwardProxy is the running squid.
type ForwardProxy interface {
	// SquidReport asks squid's cache manager, and says how many bytes the answer took on the wire: squid counts them among those
	// that it has sent. A squid that does not run is daemon.ErrNotRunning.
	SquidReport(ctx context.Context, r Report) (text string, bytes int64, err error)
	// SquidJudge asks the judge what it has; with reload it reads the installed AccessList before that. A list that it
	// refuses is an error, and it goes on with the one that it has. A judge that does not run is daemon.ErrNotRunning.
	SquidJudge(ctx context.Context, reload bool) (Judge, error)
}

var verbs = daemon.Verbs{"SquidReport": daemon.Local, "SquidJudge": daemon.Local}

// Report is one of the cache manager's reports.
type Report string

// The reports.
const (
	Counters    Report = "counters"
	Info        Report = "info"
	Descriptors Report = "filedescriptors"
)

// Judge is what the judge has.
type Judge struct {
	// Configuration is the mark of squid's configuration that it was started with, and that squid runs with therefore.
	Configuration string
	// List is the digest of the access list; it is "-" when it has none.
	List string
}
