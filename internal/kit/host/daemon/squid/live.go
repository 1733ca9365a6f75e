package squid

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

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/talk"
)

const (
	askWithin = 5 * time.Second
	// reportLimit is in bytes.
	reportLimit = 16 << 20
)

type live struct{ home home.Home }

func New(h home.Home) ForwardProxy { return &live{h} }

var errNotRunning = fmt.Errorf("squid: %w", daemon.ErrNotRunning)

func (s *live) SquidReport(ctx context.Context, r Report) (string, int64, error) {
	if err := s.home.Here(string(Unit)); err != nil {
		return "", 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(ManagerPort))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/squid-internal-mgr/"+string(r), nil)
	if err != nil {
		return "", 0, err
	}
	counted := &countedConn{}
	// A separate transport, which ignores proxies of the environment and keeps no connection.
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		counted.Conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return counted, err
	}}
	text, err := report(transport, req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = errNotRunning
	} else if err != nil {
		err = fmt.Errorf("asking squid for %s: %w", r, err)
	}
	return text, counted.read.Load(), err
}

func report(transport *http.Transport, req *http.Request) (string, error) {
	res, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s", res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, reportLimit))
	return string(body), err
}

type countedConn struct {
	net.Conn
	read atomic.Int64
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (s *live) SquidJudge(ctx context.Context, reload bool) (Judge, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askWithin, errors.New("the judge of the access list does not answer"))
	defer cancel()
	command := "state\n"
	if reload {
		command = "reload\n"
	}
	answer, err := talk.Ask(ctx, s.home.Path(JudgeSocket), command)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return Judge{}, fmt.Errorf("the judge of the access list: %w", daemon.ErrNotRunning)
	case err != nil:
		return Judge{}, fmt.Errorf("asking the judge of the access list: %w", err)
	}
	return parseJudge(answer)
}

func parseJudge(answer string) (Judge, error) {
	words := strings.Fields(answer)
	if len(words) == 3 && words[0] == "ok" {
		return Judge{Configuration: words[1], List: words[2]}, nil
	}
	why, _ := strings.CutPrefix(strings.TrimSpace(answer), "error ")
	return Judge{}, fmt.Errorf("the judge of the access list says: %s", why)
}
