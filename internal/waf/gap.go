package waf

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/waf/agent"
	"edge.internal/gateway/internal/waf/mask"
)

// The agent cannot record that it was absent or too late. The proxy logs that, line by line, to a socket of the service. Lines may be
// lost on the way, so the counts are lower bounds.

const (
	// gapEvery is how often a domain's uninspected requests are written as a record.
	gapEvery = time.Second
	// gapDomains limits what waits while the database is away.
	gapDomains = 10_000
	// gapLine is longer than the proxy's lines.
	gapLine = 16 << 10
	// gapRetry is the pause after a failed read.
	gapRetry = time.Second
)

// gap is a request that was not inspected.
type gap struct {
	request, reason, method, uri string
	domain                       uuid.UUID
	client                       netip.Addr
	refused                      bool
}

// gaps collects the uninspected requests of each domain since the last record.
type gaps struct {
	mu   sync.Mutex
	open map[uuid.UUID]*gapCount
}

// gapCount counts them, and holds the first one.
type gapCount struct {
	gap
	at              time.Time
	count, refusals int
}

func (g *gaps) add(at time.Time, x gap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.open[x.domain]
	if n == nil {
		if len(g.open) == gapDomains {
			return
		}
		n = &gapCount{gap: x, at: at}
		if g.open == nil {
			g.open = map[uuid.UUID]*gapCount{}
		}
		g.open[x.domain] = n
	}
	n.count++
	if x.refused {
		n.refusals++
	}
}

// take empties the collection.
func (g *gaps) take() map[uuid.UUID]*gapCount {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := g.open
	g.open = nil
	return taken
}

// giveBack returns what could not be written.
func (g *gaps) giveBack(taken map[uuid.UUID]*gapCount) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for domain, later := range g.open {
		if n := taken[domain]; n != nil {
			n.count += later.count
			n.refusals += later.refusals
		} else {
			taken[domain] = later
		}
	}
	g.open = taken
}

// reasons explains why a request was not inspected, by the agent's reason or the proxy's error number.
var reasons = map[string]string{
	"":                          "the agent is not running",
	"1":                         "the agent did not answer in time",
	"3":                         "the request was too large for the agent",
	string(agent.BadMessage):    "the agent did not understand the proxy",
	string(agent.UnknownDomain): "the agent does not know the domain yet",
	string(agent.Busy):          "the agent had no time for it",
	string(agent.Late):          "its inspection took too long",
	string(agent.Failed):        "its inspection failed",
	string(agent.Panicked):      "its inspection failed",
}

func reason(code string) string {
	if text, ok := reasons[code]; ok {
		return text
	}
	return "the proxy could not ask the agent (" + code + ")"
}

// parseGap parses a line of the proxy's log: its usual form, followed by the reference number, the domain, the error, and the client that
// the agent found, each a dash if missing.
func parseGap(line string) (g gap, ok bool) {
	before, after, ok := cutLast(strings.TrimSpace(line), `" `)
	own := strings.Fields(after)
	f := strings.Fields(before)
	if !ok || len(own) != 4 || len(f) < 8 {
		return g, false
	}
	var err error
	if g.domain, err = uuid.Parse(own[1]); err != nil {
		return g, false
	}
	g.request, g.reason = known(own[0]), known(own[2])
	address, _, _ := cutLast(f[0], ":")
	if g.client, err = netip.ParseAddr(own[3]); err != nil {
		if g.client, err = netip.ParseAddr(strings.Trim(address, "[]")); err != nil {
			return g, false
		}
	}
	g.client = g.client.Unmap()
	// The proxy answered itself if no server got the request.
	frontend := strings.TrimSuffix(f[2], "~")
	g.refused = f[3] == frontend+"/<NOSRV>" && f[5] == "503"
	if _, asked, ok := strings.Cut(before, ` "`); ok {
		g.method, asked, _ = strings.Cut(asked, " ")
		g.uri, _, _ = cutLast(asked, " ")
		if g.uri == "" {
			g.uri = asked
		}
		g.uri = unescaped(g.uri)
	}
	return g, true
}

var escape = regexp.MustCompile(`#[0-9A-F]{2}`)

// unescaped decodes the logged URI: the proxy writes quotes, hashes and non-ASCII as # and two digits.
func unescaped(s string) string {
	return escape.ReplaceAllStringFunc(s, func(code string) string {
		b, _ := strconv.ParseUint(code[1:], 16, 8)
		return string([]byte{byte(b)})
	})
}

// known removes the dash that stands for nothing.
func known(field string) string {
	if field == "-" {
		return ""
	}
	return field
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// Run records the requests that were not inspected, as reported by the proxy on the socket, until the context ends.
func (r *Room) Run(ctx context.Context, lines net.PacketConn) {
	stop := context.AfterFunc(ctx, func() { _ = lines.Close() })
	defer stop()
	done := make(chan struct{})
	go func() { defer close(done); r.readGaps(ctx, lines) }()
	tick := time.NewTicker(gapEvery)
	defer tick.Stop()
	for last := ""; ; {
		select {
		case <-ctx.Done():
			<-done
			return
		case <-tick.C:
		}
		err := r.recordGaps(ctx)
		if err != nil && err.Error() != last && ctx.Err() == nil {
			r.Log.Warn("requests that were not inspected are not recorded yet", "err", err)
		}
		last = ""
		if err != nil {
			last = err.Error()
		}
	}
}

func (r *Room) readGaps(ctx context.Context, lines net.PacketConn) {
	line := make([]byte, gapLine)
	for ctx.Err() == nil {
		n, _, err := lines.ReadFrom(line)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(gapRetry):
			}
			continue
		}
		if x, ok := parseGap(string(line[:n])); ok {
			r.gaps.add(r.Clock.Now(), x)
		}
	}
}

// recordGaps writes one record for each domain with uninspected requests.
func (r *Room) recordGaps(ctx context.Context) error {
	open := r.gaps.take()
	if len(open) == 0 {
		return nil
	}
	err := r.DB.Write(ctx, func(tx *db.Tx) error {
		names, err := r.deps.Domains(ctx, tx)
		if err != nil {
			return err
		}
		var ids []string
		for domain, n := range open {
			id, err := uuid.NewV7()
			if err != nil {
				return err
			}
			ids = append(ids, id.String())
			tx.Queue(`INSERT INTO waf_alerts (id, created_at, request_id, domain_id, domain, rule_id, severity, action, message, method, uri, client_ip, data)
				VALUES ($1, $2, $3, $4, $5, 0, $6, $7, $8, $9, $10, $11, $12)`,
				id, n.at, n.request, domain, names[domain], n.severity(), unavailable, n.message(), n.method, storable(mask.URI(n.uri)), n.client, n.data())
		}
		if len(ids) > announcedAtOnce {
			ids = nil
		}
		tx.Queue("SELECT pg_notify($1, $2)", channel, strings.Join(ids, ","))
		return nil
	})
	if err != nil {
		r.gaps.giveBack(open)
	}
	return err
}

// announcedAtOnce is how many records are announced by their ids.
const announcedAtOnce = 50

// longestURI is how much of a URI is stored.
const longestURI = 2048

// storable makes a text acceptable to the database.
func storable(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\ufffd")
	if len(s) > longestURI {
		s = strings.ToValidUTF8(s[:longestURI], "")
	}
	return s
}

// severity distinguishes requests that were refused without a reason of their own from those that passed.
func (n *gapCount) severity() string {
	if n.refusals > 0 {
		return "critical"
	}
	return "warning"
}

// message describes the gap for people.
func (n *gapCount) message() string {
	var ends []string
	if passed := n.count - n.refusals; passed > 0 {
		ends = append(ends, fmt.Sprintf("at least %d let through", passed))
	}
	if n.refusals > 0 {
		ends = append(ends, fmt.Sprintf("at least %d refused", n.refusals))
	}
	return "Requests that were not inspected: " + strings.Join(ends, ", ") + ". Why: " + reason(n.reason) + "."
}

func (n *gapCount) data() []Datum {
	return []Datum{{Variable: "requests", Value: strconv.Itoa(n.count)}, {Variable: "refused", Value: strconv.Itoa(n.refusals)}, {Variable: "reason", Value: reason(n.reason)}}
}
