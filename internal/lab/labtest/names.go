package labtest

import (
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"edge.internal/gateway/internal/lab"
)

// Names is a DNS resolver with a few records, which counts queries.
type Names struct {
	mu      sync.Mutex
	records map[string]string // name and type to the record
	asked   map[string]int
}

// Names runs a resolver on a side until the test ends.
func (l *Lab) Names(t testing.TB, side lab.Side, address string) *Names {
	t.Helper()
	n := &Names{records: map[string]string{}, asked: map[string]int{}}
	server := &dns.Server{Handler: n}
	if err := l.Within(side, func() (err error) {
		server.PacketConn, err = net.ListenPacket("udp", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.ActivateAndServe() }()
	t.Cleanup(func() {
		if err := errors.Join(server.Shutdown(), <-served); err != nil {
			t.Error("names are no longer answered:", err)
		}
	})
	return n
}

// Set adds a record, or replaces the one of its name and type.
func (n *Names) Set(t testing.TB, record string) {
	t.Helper()
	rr, err := dns.NewRR(record)
	if err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.records[rr.Header().Name+dns.TypeToString[rr.Header().Rrtype]] = record
}

// Count returns how often a name was queried.
func (n *Names) Count(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[name]
}

// ServeDNS answers a query.
func (n *Names) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	answer := new(dns.Msg).SetReply(q)
	answer.RecursionAvailable = true
	name := strings.ToLower(q.Question[0].Name)
	n.mu.Lock()
	n.asked[name]++
	record, ok := n.records[name+dns.TypeToString[q.Question[0].Qtype]]
	known := slices.ContainsFunc(slices.Collect(maps.Keys(n.records)), func(key string) bool {
		return strings.Contains(key, "."+name) || strings.HasPrefix(key, name)
	})
	n.mu.Unlock()
	soa, _ := dns.NewRR(". 300 IN SOA a. b. 1 3600 600 86400 300")
	switch {
	case ok:
		rr, _ := dns.NewRR(record)
		answer.Answer = []dns.RR{rr}
	case known:
		answer.Ns = []dns.RR{soa}
	default:
		answer.Rcode, answer.Ns = dns.RcodeNameError, []dns.RR{soa}
	}
	_ = w.WriteMsg(answer)
}
