package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/miekg/dns"

	"edge.internal/gateway/internal/lab"
)

// dnsBench is a lab with a resolver on its wan side, which counts its queries.
type dnsBench struct {
	*bench
	asked atomic.Int64
	// client queries unbound over conn.
	client dns.Client
	conn   *dns.Conn
	// zones are that of the API, and that of the bare side.
	ours, theirs uuid.UUID
	made         int
}

// measureDNS compares adding a record, until it is answered, with its commit and the bare command to unbound.
func measureDNS(ctx context.Context, s settings) (goals []goal, err error) {
	fmt.Println("a lab, with unbound")
	r, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer r.close()
	b := &dnsBench{bench: r, ours: rowID("dns", 0), theirs: rowID("dns", 1), client: dns.Client{Timeout: 5 * time.Second}}
	stop, err := b.serveWorld()
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := b.dial(); err != nil {
		return nil, err
	}
	defer b.conn.Close()
	if err := b.change("dns", http.MethodPut, "/dns/settings", map[string]any{"upstream_forwards": []string{"198.51.100.2"}, "dnssec_validation": false}, nil); err != nil {
		return nil, err
	}
	for _, n := range []int{100 / s.shrink, 10000 / s.shrink} {
		fmt.Println("one more record beside", n, "others; load", loadAverage())
		got, err := b.oneMore(ctx, n)
		if err != nil {
			return nil, err
		}
		goals = append(goals, got...)
	}
	return goals, nil
}

// serveWorld answers for all other names.
func (b *dnsBench) serveWorld() (stop func(), err error) {
	server := &dns.Server{Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		b.asked.Add(1)
		answer := new(dns.Msg).SetReply(q)
		answer.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}, A: net.IPv4(192, 0, 2, 1)}}
		_ = w.WriteMsg(answer)
	})}
	if err := b.lab.Within(lab.Wan, func() (err error) {
		server.PacketConn, err = net.ListenPacket("udp", "198.51.100.2:53")
		return err
	}); err != nil {
		return nil, err
	}
	go func() { _ = server.ActivateAndServe() }() // until it is shut down
	return func() { _ = server.Shutdown() }, nil
}

func (b *dnsBench) reloads() (int, error) {
	var stats struct {
		Data struct {
			Reloads int
			Error   string
		}
	}
	_, body, err := b.api.do(http.MethodGet, "/dns/stats", nil)
	if err == nil {
		err = json.Unmarshal(body, &stats)
	}
	if err == nil && stats.Data.Error != "" {
		err = fmt.Errorf("unbound does not answer: %s", stats.Data.Error)
	}
	return stats.Data.Reloads, err
}

// fill stores records, and has unbound take them.
func (b *dnsBench) fill(ctx context.Context, n int) error {
	if err := b.storeRecords(ctx, b.ours, b.theirs, n); err != nil {
		return err
	}
	return b.change("", http.MethodPost, "/system/render-configs", nil, nil)
}

// storeRecords stores two zones, and n records in the first of them.
func (b *bench) storeRecords(ctx context.Context, ours, theirs uuid.UUID, n int) error {
	for _, statement := range []struct {
		sql  string
		args []any
	}{
		{`TRUNCATE dns_zones, dns_records`, nil},
		{`INSERT INTO dns_zones (id, created_at, updated_at, name, forward_to, description, active) VALUES ($1, now(), now(), 'ours.lan', '{}', '', true), ($2, now(), now(), 'theirs.lan', '{}', '', true)`,
			[]any{ours, theirs}},
		{`INSERT INTO dns_records (id, created_at, updated_at, zone_id, name, type, value, ttl)
			SELECT gen_random_uuid(), now(), now(), $1, 'host' || i, 'A', '10.1.' || i / 250 || '.' || i % 250, 3600 FROM generate_series(0, $2 - 1) i`, []any{ours, n}},
		{`ANALYZE`, nil},
	} {
		if _, err := b.pool.Exec(ctx, statement.sql, statement.args...); err != nil {
			return fmt.Errorf("storing records: %w", err)
		}
	}
	return nil
}

// dial lets the bench ask unbound as the gateway itself does.
func (b *dnsBench) dial() error {
	return b.lab.Within(lab.Gateway, func() (err error) {
		b.conn, err = b.client.Dial("127.0.0.1:53")
		return err
	})
}

// resolve complains when a name is not answered.
func (b *dnsBench) resolve(name string) error {
	answer, _, err := b.client.ExchangeWithConn(new(dns.Msg).SetQuestion(name, dns.TypeA), b.conn)
	if err == nil && len(answer.Answer) == 0 {
		err = fmt.Errorf("%s is not answered: %s", name, dns.RcodeToString[answer.Rcode])
	}
	return err
}

// order sends a command to unbound.
func (b *dnsBench) order(text string) error {
	conn, err := net.Dial("unix", b.lab.Path("/run/unbound.ctl"))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "UBCT1 "+text+"\n"); err != nil {
		return err
	}
	said, err := io.ReadAll(conn)
	if err == nil && string(said) != "ok\n" {
		err = fmt.Errorf("unbound says %s to %s", said, text)
	}
	return err
}

// bare is the commit of a record with its audit entry, and the command. The record is one of the zone itself, whose name already
// exists, so that the gateway and unbound remain consistent.
func (b *dnsBench) bare(ctx context.Context) error {
	address := fmt.Sprintf("10.2.%d.%d", b.made/250, b.made%250)
	if err := bareTransaction(ctx, b.pool, `INSERT INTO dns_records (id, created_at, updated_at, zone_id, name, type, value, ttl) VALUES ($1, now(), now(), $2, '@', 'A', $3, 3600)`, uuid.New(), b.theirs, address); err != nil {
		return err
	}
	return b.order("local_data theirs.lan. 3600 IN A " + address)
}

func (b *dnsBench) oneMore(ctx context.Context, n int) ([]goal, error) {
	if err := b.fill(ctx, n); err != nil {
		return nil, err
	}
	if err := b.resolve("kept.example.com."); err != nil {
		return nil, err
	}
	before, err := b.reloads()
	if err != nil {
		return nil, err
	}
	asked := b.asked.Load()
	var sides [2][]float64
	const changes = 60
	for i := range changes {
		b.made++
		name := fmt.Sprintf("made%d", b.made)
		ours, err := seconds(func() error {
			if err := b.change("dns", http.MethodPost, "/dns/records", map[string]any{"zone_id": b.ours, "name": name, "type": "A", "value": "10.3.0.1"}, nil); err != nil {
				return err
			}
			return b.resolve(name + ".ours.lan.")
		})
		if err != nil {
			return nil, err
		}
		bare, err := seconds(func() error { return b.bare(ctx) })
		if err != nil {
			return nil, err
		}
		if i >= 5 { // the first prepare their statements
			sides[0], sides[1] = append(sides[0], ours), append(sides[1], bare)
		}
	}
	after, err := b.reloads()
	if err != nil {
		return nil, err
	}
	if err := b.resolve("kept.example.com."); err != nil {
		return nil, err
	}
	ours, bare := median(sides[0]), median(sides[1])
	return []goal{
		{fmt.Sprintf("N2 record until answered / commit + order, %d records", n), ours / bare, "x", 3, false, milliseconds(ours, bare) + "; p95 " + milliseconds(p95(sides[0]), p95(sides[1]))},
		{fmt.Sprintf("   reloads in these %d changes", changes), float64(after - before), "", 0, false, ""},
		{"   questions for a name that was in the cache", float64(b.asked.Load() - asked), "", 0, false, ""},
	}, nil
}
