package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// JudgeProgram is what squid asks about requests. It is in squid's own folder of such programs: AppArmor lets squid start
	// none elsewhere.
	JudgeProgram = "/usr/lib/squid/gateway-acl"
	// JudgeSocket is where it answers the gateway.
	JudgeSocket = "/run/squid/gateway-acl.sock"
	// SquidManagerPort is the port of the loopback where squid's cache manager answers, and nothing else.
	SquidManagerPort = 3127

	// squidAskWithin is how long squid or the judge may take for one answer.
	squidAskWithin = 5 * time.Second
	// reportLimit is how long a report may be.
	reportLimit = 16 << 20
)

// ForwardProxy is the running squid.
type ForwardProxy interface {
	// SquidReport asks squid's cache manager, and says how many bytes the answer took on the wire: squid counts them among those
	// that it has sent. A squid that does not run is ErrNotRunning.
	SquidReport(ctx context.Context, r SquidReport) (text string, bytes int64, err error)
	// SquidJudge asks the judge what it has; with reload it reads the installed SquidAccessList before that. A list that it
	// refuses is an error, and it goes on with the one that it has. A judge that does not run is ErrNotRunning.
	SquidJudge(ctx context.Context, reload bool) (SquidJudge, error)
}

// SquidReport is one of the cache manager's reports.
type SquidReport string

// The reports.
const (
	SquidCounters    SquidReport = "counters"
	SquidInfo        SquidReport = "info"
	SquidDescriptors SquidReport = "filedescriptors"
)

// SquidJudge is what the judge has.
type SquidJudge struct {
	// Configuration is the mark of squid's configuration that it was started with, and that squid runs with therefore.
	Configuration string
	// List is the digest of the access list; it is "-" when it has none.
	List string
}

var errNoSquid = fmt.Errorf("squid: %w", ErrNotRunning)

// SquidReport asks squid's cache manager.
func (s *System) SquidReport(ctx context.Context, r SquidReport) (string, int64, error) {
	if err := s.here(string(Squid)); err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, squidAskWithin)
	defer cancel()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(SquidManagerPort))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/squid-internal-mgr/"+string(r), nil)
	if err != nil {
		return "", 0, err
	}
	counted := &countedConn{}
	// A transport of its own: what the environment says about proxies is not meant, and no connection is kept.
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		counted.Conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return counted, err
	}}
	text, err := report(transport, req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = errNoSquid
	} else if err != nil {
		err = fmt.Errorf("asking squid for %s: %w", r, err)
	}
	return text, counted.read.Load(), err
}

// report is the answer of the cache manager.
func report(transport *http.Transport, req *http.Request) (string, error) {
	res, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("it answers %s", res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, reportLimit))
	return string(body), err
}

// countedConn counts what is read.
type countedConn struct {
	net.Conn
	read atomic.Int64
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// SquidJudge asks the judge.
func (s *System) SquidJudge(ctx context.Context, reload bool) (SquidJudge, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, squidAskWithin, errors.New("the judge of the access list does not answer"))
	defer cancel()
	command := "state\n"
	if reload {
		command = "reload\n"
	}
	said, err := s.tell(ctx, JudgeSocket, command)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return SquidJudge{}, fmt.Errorf("the judge of the access list: %w", ErrNotRunning)
	case err != nil:
		return SquidJudge{}, fmt.Errorf("asking the judge of the access list: %w", err)
	}
	return parseJudge(said)
}

func parseJudge(said string) (SquidJudge, error) {
	words := strings.Fields(said)
	if len(words) == 3 && words[0] == "ok" {
		return SquidJudge{Configuration: words[1], List: words[2]}, nil
	}
	why, _ := strings.CutPrefix(strings.TrimSpace(said), "error ")
	return SquidJudge{}, fmt.Errorf("the judge of the access list says: %s", why)
}
