package machine

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// All tests share a lab: a client on the lan queries the gateway, and resolvers on the wan answer that.
func TestDNS(t *testing.T) {
	t.Parallel()
	l := labtest.UpAsAdmin(t, lab.Options{Volatile: true})
	r := &dnsRig{Lab: l, public: l.Names(t, lab.Wan, "198.51.100.2:53"), corp: l.Names(t, lab.Wan, "198.51.100.2:5353")}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(l.Log(unbound.Unit))
			t.Logf("unbound:\n%s", log[max(0, len(log)-4000):])
		}
	})
	l.WaitState(t, "dns", "live", 10*time.Second)
	for _, x := range []struct {
		name string
		test func(*testing.T, *dnsRig)
	}{
		{"OpensWithItsSettings", resolverOpens},
		{"DN01BadSettings", badResolverSettings},
		{"DN02NamesOfRecords", namesOfRecords},
		{"AllTypes", allTypes},
		{"DN04BadRecords", badRecords},
		{"Aliases", aliases},
		{"Wildcards", wildcards},
		{"DN05ForwardedZones", forwardedZones},
		{"ReverseZones", reverseZones},
		{"ChangesKeepTheCache", changesKeepTheCache},
		{"ChangesLoseNoQuestion", changesLoseNoQuestion},
		{"Flush", flushForgets},
		{"HostileTexts", hostileTexts},
		{"Validation", validation},
		{"Refuses", refusesStrangers},
		{"KilledComesBack", killedResolver},
	} {
		t.Run(x.name, func(t *testing.T) { x.test(t, r) })
	}
}

type dnsRig struct {
	*labtest.Lab
	public, corp *labtest.Names
}

// ask queries the gateway from a machine of a side, over udp or tcp, and retries without an answer, like every client.
func (r *dnsRig) ask(side lab.Side, network, server, name string, kind uint16) (*dns.Msg, error) {
	var conn *dns.Conn
	client := &dns.Client{Net: network, Timeout: 3 * time.Second, UDPSize: 4096}
	if err := r.Within(side, func() (err error) {
		conn, err = client.Dial(net.JoinHostPort(server, "53"))
		return err
	}); err != nil {
		return nil, err
	}
	defer conn.Close()
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
	q.SetEdns0(4096, false)
	answer, _, err := client.ExchangeWithConn(q, conn)
	for again := 0; errors.Is(err, os.ErrDeadlineExceeded) && again < 5; again++ {
		answer, _, err = client.ExchangeWithConn(q, conn)
	}
	if err == nil && answer.Truncated && network == "udp" {
		return r.ask(side, "tcp", server, name, kind)
	}
	return answer, err
}

// silent complains when a machine of the lan gets an answer.
func (r *dnsRig) silent(t *testing.T) {
	t.Helper()
	out, err := r.Command(t.Context(), lab.Lan, "dig", "+tries=1", "+time=1", "@10.10.0.1", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	if said, err := out.CombinedOutput(); err == nil {
		t.Fatalf("it answers where it was not told to: %s", said)
	}
}

// dig returns what a machine of the lan gets: the records without their TTLs, or the code.
func (r *dnsRig) dig(t *testing.T, name string, kind uint16) string {
	t.Helper()
	answer, err := r.ask(lab.Lan, "udp", "10.10.0.1", name, kind)
	if err != nil {
		t.Fatalf("%s %s: %v", name, dns.TypeToString[kind], err)
	}
	if len(answer.Answer) == 0 {
		return dns.RcodeToString[answer.Rcode]
	}
	var lines []string
	for _, rr := range answer.Answer {
		h := rr.Header()
		lines = append(lines, strings.ToLower(h.Name)+" "+dns.TypeToString[h.Rrtype]+" "+strings.TrimPrefix(rr.String(), h.String()))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (r *dnsRig) want(t *testing.T, name string, kind uint16, lines ...string) {
	t.Helper()
	slices.Sort(lines)
	if got := r.dig(t, name, kind); got != strings.Join(lines, "\n") {
		t.Fatalf("%s %s is\n%s\ninstead of\n%s", name, dns.TypeToString[kind], got, strings.Join(lines, "\n"))
	}
}

// row creates a row, which must be live at once.
func (r *dnsRig) row(t *testing.T, path string, body fields) string {
	t.Helper()
	var row struct{ ID string }
	a := r.Must(t, http.MethodPost, path, body, 201, &row)
	if got := a.Header.Get("Gateway-Apply"); got != "dns=live" {
		t.Fatalf("apply: %s", got)
	}
	return row.ID
}

func (r *dnsRig) zone(t *testing.T, name string, forwards ...string) string {
	t.Helper()
	return r.row(t, "/dns/zones", fields{"name": name, "forward_to": append([]string{}, forwards...)})
}

func (r *dnsRig) record(t *testing.T, zone, name, kind, value string) string {
	t.Helper()
	return r.row(t, "/dns/records", fields{"zone_id": zone, "name": name, "type": kind, "value": value})
}

func (r *dnsRig) reloads(t *testing.T) int {
	t.Helper()
	var s struct{ Reloads int }
	r.Must(t, http.MethodGet, "/dns/stats", nil, 200, &s)
	return s.Reloads
}

func (r *dnsRig) settings(t *testing.T, body fields) *labtest.Answer {
	t.Helper()
	return r.Must(t, http.MethodPut, "/dns/settings", body, 200, nil)
}

func resolverOpens(t *testing.T, r *dnsRig) {
	r.silent(t)
	if ruleset := r.Run(t, lab.Gateway, "nft", "list", "ruleset"); strings.Contains(ruleset, "dport 53 ") {
		t.Fatalf("port 53 is open:\n%s", ruleset)
	}
	a := r.settings(t, fields{"listen_addresses": []string{"10.10.0.1", "fd00:10::1", "192.0.2.250"}, "access_acl": []string{"10.10.0.0/24", "fd00:10::/64"},
		"upstream_forwards": []string{"198.51.100.2"}, "dnssec_validation": false})
	if got := a.Header.Get("Gateway-Apply"); got != "dns=live, packet-filter=live" {
		t.Fatalf("apply: %s", got)
	}
	r.public.Set(t, "host.example.com. 300 IN A 192.0.2.7")
	for _, server := range []string{"10.10.0.1", "fd00:10::1"} {
		for _, network := range []string{"udp", "tcp"} {
			answer, err := r.ask(lab.Lan, network, server, "host.example.com", dns.TypeA)
			if err != nil || len(answer.Answer) != 1 {
				t.Fatalf("%s over %s: %v\n%v", server, network, err, answer)
			}
		}
	}
	r.settings(t, fields{"listen_addresses": []string{}})
	r.silent(t)
	if ruleset := r.Run(t, lab.Gateway, "nft", "list", "ruleset"); strings.Contains(ruleset, "dport 53 ") {
		t.Fatalf("port 53 is still open:\n%s", ruleset)
	}
	if a := r.settings(t, fields{"listen_addresses": []string{"0.0.0.0"}}); a.Header.Get("Gateway-Apply") != "dns=live, packet-filter=live" {
		t.Fatal(a.Header)
	}
	r.want(t, "host.example.com", dns.TypeA, "host.example.com. A 192.0.2.7")
	r.settings(t, fields{"listen_addresses": []string{"10.10.0.1"}})
	r.want(t, "host.example.com", dns.TypeA, "host.example.com. A 192.0.2.7")
}

func badResolverSettings(t *testing.T, r *dnsRig) {
	for _, body := range []fields{
		{"upstream_forwards": []string{"8.8.8.8@70000"}}, {"upstream_forwards": []string{"dns.example.com"}}, {"access_acl": []string{"10.0.0.0/33"}},
		{"listen_addresses": []string{"x"}}, {"cache_min_ttl": 100, "cache_max_ttl": 99},
	} {
		r.Must(t, http.MethodPut, "/dns/settings", body, 400, nil)
	}
	r.want(t, "host.example.com", dns.TypeA, "host.example.com. A 192.0.2.7")
}

func namesOfRecords(t *testing.T, r *dnsRig) {
	zone := r.zone(t, "Names.Example.")
	for i, name := range []string{"@", "", "a.names.example.", "b.NAMES.example", "c", "D.e", "_under_score", "whole.", "www.elsewhere.example."} {
		r.record(t, zone, name, "TXT", fmt.Sprint(i))
	}
	r.want(t, "names.example", dns.TypeTXT, `names.example. TXT "0"`, `names.example. TXT "1"`)
	for name, text := range map[string]string{"a": "2", "b": "3", "c": "4", "d.e": "5", "_under_score": "6"} {
		r.want(t, name+".names.example", dns.TypeTXT, name+".names.example. TXT \""+text+"\"")
	}
	r.want(t, "whole", dns.TypeTXT, `whole. TXT "7"`)
	r.want(t, "www.elsewhere.example", dns.TypeTXT, `www.elsewhere.example. TXT "8"`)
	// Names without a record here are resolved as usual.
	r.public.Set(t, "public.names.example. 300 IN A 192.0.2.8")
	r.want(t, "public.names.example", dns.TypeA, "public.names.example. A 192.0.2.8")
	r.want(t, "c.names.example", dns.TypeA, "NOERROR")
	r.Must(t, http.MethodDelete, "/dns/zones/"+zone, nil, 200, nil)
	r.want(t, "c.names.example", dns.TypeTXT, "NXDOMAIN")
}

func allTypes(t *testing.T, r *dnsRig) {
	zone := r.zone(t, "types.lan")
	for _, x := range [][2]string{
		{"A", "192.0.2.10"}, {"A", "192.0.2.11"}, {"AAAA", "2001:DB8:0::10"}, {"TXT", "v=spf1 -all"}, {"MX", "10 mail"}, {"SRV", "1 2 5060 sip.types.lan"},
		{"NS", "ns.example.net."}, {"PTR", "@"}, {"CAA", "128 Issue ca.example.net"},
	} {
		r.record(t, zone, "all", x[0], x[1])
	}
	r.row(t, "/dns/records", fields{"zone_id": zone, "name": "all", "type": "MX", "value": "backup", "priority": 20, "ttl": 5})
	r.record(t, zone, "alias", "CNAME", "all")
	for kind, lines := range map[uint16][]string{
		dns.TypeA: {"A 192.0.2.10", "A 192.0.2.11"}, dns.TypeAAAA: {"AAAA 2001:db8::10"}, dns.TypeTXT: {`TXT "v=spf1 -all"`},
		dns.TypeMX: {"MX 10 mail.types.lan.", "MX 20 backup.types.lan."}, dns.TypeSRV: {"SRV 1 2 5060 sip.types.lan."}, dns.TypeNS: {"NS ns.example.net."},
		dns.TypePTR: {"PTR types.lan."}, dns.TypeCAA: {`CAA 128 issue "ca.example.net"`},
	} {
		var want []string
		for _, line := range lines {
			want = append(want, "all.types.lan. "+line)
		}
		r.want(t, "ALL.types.lan", kind, want...)
		r.want(t, "alias.types.lan", kind, append(want, "alias.types.lan. CNAME all.types.lan.")...)
	}
	r.want(t, "alias.types.lan", dns.TypeCNAME, "alias.types.lan. CNAME all.types.lan.")
	r.Must(t, http.MethodDelete, "/dns/zones/"+zone, nil, 200, nil)
}

func badRecords(t *testing.T, r *dnsRig) {
	zone := r.zone(t, "bad.lan")
	r.record(t, zone, "good", "A", "192.0.2.1")
	for _, x := range [][3]string{
		{"x", "A", "x"}, {"x", "MX", "mail"}, {"x", "CAA", "0 issue"}, {"x", "CAA", "256 issue \"x\""}, {strings.Repeat("a", 64), "A", "192.0.2.1"},
		{"x", "A", "2001:db8::1"}, {"x", "AAAA", "192.0.2.1"}, {"x y", "A", "192.0.2.1"}, {"x", "SRV", "1 2 x y"},
	} {
		r.Must(t, http.MethodPost, "/dns/records", fields{"zone_id": zone, "name": x[0], "type": x[1], "value": x[2]}, 400, nil)
	}
	r.want(t, "good.bad.lan", dns.TypeA, "good.bad.lan. A 192.0.2.1")
	r.Must(t, http.MethodDelete, "/dns/zones/"+zone, nil, 200, nil)
}

// An alias is followed, to names here and elsewhere, and names below its target are what they are without it.
func aliases(t *testing.T, r *dnsRig) {
	zone := r.zone(t, "example.com")
	web := r.record(t, zone, "web", "A", "192.0.2.20")
	r.record(t, zone, "www", "CNAME", "web")
	r.record(t, zone, "away", "CNAME", "host.elsewhere.example.")
	r.public.Set(t, "host.elsewhere.example. 300 IN A 192.0.2.30")
	r.public.Set(t, "below.web.example.com. 300 IN A 192.0.2.31")
	r.want(t, "www.example.com", dns.TypeA, "www.example.com. CNAME web.example.com.", "web.example.com. A 192.0.2.20")
	r.want(t, "www.example.com", dns.TypeAAAA, "www.example.com. CNAME web.example.com.")
	r.want(t, "away.example.com", dns.TypeA, "away.example.com. CNAME host.elsewhere.example.", "host.elsewhere.example. A 192.0.2.30")
	r.want(t, "below.web.example.com", dns.TypeA, "below.web.example.com. A 192.0.2.31")
	r.want(t, "nothing.web.example.com", dns.TypeA, "NXDOMAIN")
	// The target changes, and so do the answers for the alias.
	before := r.reloads(t)
	r.Must(t, http.MethodPut, "/dns/records/"+web, fields{"value": "192.0.2.21"}, 200, nil)
	r.want(t, "www.example.com", dns.TypeA, "www.example.com. CNAME web.example.com.", "web.example.com. A 192.0.2.21")
	if after := r.reloads(t); after != before {
		t.Fatalf("%d reloads", after-before)
	}
	// The zone itself is a usual target; the rest of the domain is still that of the world.
	r.record(t, zone, "@", "A", "192.0.2.22")
	r.record(t, zone, "home", "CNAME", "@")
	r.want(t, "home.example.com", dns.TypeA, "home.example.com. CNAME example.com.", "example.com. A 192.0.2.22")
	r.want(t, "host.example.com", dns.TypeA, "host.example.com. A 192.0.2.7")
	// Without its record the target is that of the world again.
	r.public.Set(t, "web.example.com. 300 IN A 192.0.2.23")
	r.Must(t, http.MethodDelete, "/dns/records/"+web, nil, 200, nil)
	r.want(t, "www.example.com", dns.TypeA, "www.example.com. CNAME web.example.com.", "web.example.com. A 192.0.2.23")
	r.record(t, zone, "web", "A", "192.0.2.24")
	r.want(t, "www.example.com", dns.TypeA, "www.example.com. CNAME web.example.com.", "web.example.com. A 192.0.2.24")
	r.Must(t, http.MethodDelete, "/dns/zones/"+zone, nil, 200, nil)
	r.want(t, "www.example.com", dns.TypeA, "NXDOMAIN")
}

func wildcards(t *testing.T, r *dnsRig) {
	zone := r.zone(t, "wild.lan")
	r.record(t, zone, "*.apps", "A", "192.0.2.40")
	r.record(t, zone, "own.apps", "A", "192.0.2.41")
	r.record(t, zone, "alias", "CNAME", "any.apps.wild.lan")
	r.want(t, "some.apps.wild.lan", dns.TypeA, "some.apps.wild.lan. A 192.0.2.40")
	r.want(t, "own.apps.wild.lan", dns.TypeA, "own.apps.wild.lan. A 192.0.2.41")
	r.want(t, "alias.wild.lan", dns.TypeA, "alias.wild.lan. CNAME any.apps.wild.lan.", "any.apps.wild.lan. A 192.0.2.40")
	r.want(t, "other.wild.lan", dns.TypeA, "NXDOMAIN")
	r.Must(t, http.MethodDelete, "/dns/zones/"+zone, nil, 200, nil)
}

func forwardedZones(t *testing.T, r *dnsRig) {
	r.corp.Set(t, "there.corp.example. 300 IN A 192.0.2.50")
	r.corp.Set(t, "below.here.corp.example. 300 IN A 192.0.2.51")
	zone := r.zone(t, "corp.example", "198.51.100.2@5353")
	r.record(t, zone, "here", "A", "192.0.2.52")
	r.record(t, zone, "alias", "CNAME", "here")
	r.want(t, "there.corp.example", dns.TypeA, "there.corp.example. A 192.0.2.50")
	r.want(t, "here.corp.example", dns.TypeA, "here.corp.example. A 192.0.2.52")
	r.want(t, "alias.corp.example", dns.TypeA, "alias.corp.example. CNAME here.corp.example.", "here.corp.example. A 192.0.2.52")
	r.want(t, "below.here.corp.example", dns.TypeA, "below.here.corp.example. A 192.0.2.51")
	if n := r.public.Count("there.corp.example."); n != 0 {
		t.Fatalf("the name went to the wrong resolver %d times", n)
	}
	// Without its own resolvers the zone is resolved like any other; its records remain.
	r.Must(t, http.MethodPut, "/dns/zones/"+zone, fields{"forward_to": []string{}}, 200, nil)
	r.Must(t, http.MethodPost, "/dns/flush-cache", nil, 200, nil)
	r.want(t, "there.corp.example", dns.TypeA, "NXDOMAIN")
	r.want(t, "here.corp.example", dns.TypeA, "here.corp.example. A 192.0.2.52")
	r.Must(t, http.MethodPut, "/dns/zones/"+zone, fields{"active": false}, 200, nil)
	r.want(t, "here.corp.example", dns.TypeA, "NXDOMAIN")
	r.Must(t, http.MethodPut, "/dns/zones/"+zone, fields{"active": true, "name": "moved.example"}, 200, nil)
	r.want(t, "here.moved.example", dns.TypeA, "here.moved.example. A 192.0.2.52")
	r.Must(t, http.MethodDelete, "/dns/zones/"+zone, nil, 200, nil)
}

// unbound keeps reverse names of private networks to itself, unless they are a zone here.
func reverseZones(t *testing.T, r *dnsRig) {
	r.corp.Set(t, "2.0.0.10.in-addr.arpa. 300 IN PTR there.corp.example.")
	r.want(t, "2.0.0.10.in-addr.arpa", dns.TypePTR, "NXDOMAIN")
	zone := r.zone(t, "10.in-addr.arpa", "198.51.100.2@5353")
	r.record(t, zone, "1.0.0", "PTR", "here.corp.example")
	r.want(t, "1.0.0.10.in-addr.arpa", dns.TypePTR, "1.0.0.10.in-addr.arpa. PTR here.corp.example.")
	r.want(t, "2.0.0.10.in-addr.arpa", dns.TypePTR, "2.0.0.10.in-addr.arpa. PTR there.corp.example.")
	r.Must(t, http.MethodDelete, "/dns/zones/"+zone, nil, 200, nil)
	r.want(t, "2.0.0.10.in-addr.arpa", dns.TypePTR, "NXDOMAIN")
}

// The cache is kept across changes, whether they are runtime commands or read from unbound's files.
func changesKeepTheCache(t *testing.T, r *dnsRig) {
	r.public.Set(t, "kept.example.org. 300 IN A 192.0.2.60")
	zone := r.zone(t, "cache.lan")
	r.want(t, "kept.example.org", dns.TypeA, "kept.example.org. A 192.0.2.60")
	asked, before := r.public.Count("kept.example.org."), r.reloads(t)
	id := r.record(t, zone, "a", "A", "192.0.2.1")
	r.record(t, zone, "a", "A", "192.0.2.2")
	r.want(t, "a.cache.lan", dns.TypeA, "a.cache.lan. A 192.0.2.1", "a.cache.lan. A 192.0.2.2")
	r.Must(t, http.MethodPut, "/dns/records/"+id, fields{"value": "192.0.2.3", "ttl": 7}, 200, nil)
	r.want(t, "a.cache.lan", dns.TypeA, "a.cache.lan. A 192.0.2.2", "a.cache.lan. A 192.0.2.3")
	r.Must(t, http.MethodPut, "/dns/records/"+id, fields{"name": "b"}, 200, nil)
	r.want(t, "a.cache.lan", dns.TypeA, "a.cache.lan. A 192.0.2.2")
	r.want(t, "b.cache.lan", dns.TypeA, "b.cache.lan. A 192.0.2.3")
	r.Must(t, http.MethodDelete, "/dns/records/"+id, nil, 200, nil)
	r.want(t, "b.cache.lan", dns.TypeA, "NXDOMAIN")
	if after := r.reloads(t); after != before {
		t.Fatalf("%d reloads for changes of records", after-before)
	}
	other := r.zone(t, "cache2.lan")
	if after := r.reloads(t); after != before+1 {
		t.Fatalf("%d reloads for a zone", after-before)
	}
	r.want(t, "kept.example.org", dns.TypeA, "kept.example.org. A 192.0.2.60")
	if again := r.public.Count("kept.example.org."); again != asked {
		t.Fatal("the cache is gone")
	}
	for _, id := range []string{zone, other} {
		r.Must(t, http.MethodDelete, "/dns/zones/"+id, nil, 200, nil)
	}
}

// A query during a reload gets an answer, and a query for a name that changes never gets NXDOMAIN.
func changesLoseNoQuestion(t *testing.T, r *dnsRig) {
	zone := r.zone(t, "busy.lan")
	id := r.record(t, zone, "a", "A", "192.0.2.1")
	stop := make(chan struct{})
	var askers sync.WaitGroup
	var asked atomic.Int64
	for range 4 {
		askers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				answer, err := r.ask(lab.Lan, "udp", "10.10.0.1", "a.busy.lan", dns.TypeA)
				if err != nil || len(answer.Answer) != 1 {
					t.Errorf("%v %v", err, answer)
					return
				}
				asked.Add(1)
			}
		})
	}
	for i := range 5 {
		before := asked.Load()
		r.Must(t, http.MethodPut, "/dns/records/"+id, fields{"value": fmt.Sprintf("192.0.2.%d", 100+i)}, 200, nil)
		other := r.zone(t, fmt.Sprintf("busy%d.lan", i))
		r.Must(t, http.MethodDelete, "/dns/zones/"+other, nil, 200, nil)
		waittest.Until(t, "questions are asked meanwhile", func() bool { return asked.Load() > before+4 || t.Failed() })
	}
	close(stop)
	askers.Wait()
	t.Logf("%d questions", asked.Load())
	r.Must(t, http.MethodDelete, "/dns/zones/"+zone, nil, 200, nil)
}

func flushForgets(t *testing.T, r *dnsRig) {
	zone := r.zone(t, "flush.lan")
	r.record(t, zone, "a", "A", "192.0.2.1")
	r.want(t, "kept.example.org", dns.TypeA, "kept.example.org. A 192.0.2.60")
	asked := r.public.Count("kept.example.org.")
	var done struct{ Error string }
	if r.Must(t, http.MethodPost, "/dns/flush-cache", nil, 200, &done); done.Error != "" {
		t.Fatal(done.Error)
	}
	r.want(t, "kept.example.org", dns.TypeA, "kept.example.org. A 192.0.2.60")
	r.want(t, "a.flush.lan", dns.TypeA, "a.flush.lan. A 192.0.2.1")
	if r.public.Count("kept.example.org.") == asked {
		t.Fatal("nothing was forgotten")
	}
	var entries []struct{ Actor, Action string }
	if r.Must(t, http.MethodGet, "/audit?action=dns.flush-cache", nil, 200, &entries); len(entries) == 0 || entries[0].Actor != labtest.AdminEmail {
		t.Fatalf("%+v", entries)
	}
	var s struct {
		Queries   int64
		CacheHits int64   `json:"cache_hits"`
		HitRate   float64 `json:"hit_rate"`
		Memory    int64   `json:"cache_memory_bytes"`
		Recursive int64   `json:"recursive_replies"`
		Error     string
	}
	if r.Must(t, http.MethodGet, "/dns/stats", nil, 200, &s); s.Queries == 0 || s.CacheHits == 0 || s.HitRate <= 0 || s.HitRate > 1 || s.Memory == 0 || s.Recursive == 0 || s.Error != "" {
		t.Fatalf("%+v", s)
	}
	r.Must(t, http.MethodDelete, "/dns/zones/"+zone, nil, 200, nil)
}

// allBytes has every character of one byte that a text can have, and some of two.
func allBytes() string {
	var b strings.Builder
	for c := rune(' '); c < 0xc0; c++ {
		if c != 0x7f {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// A text arrives byte for byte, whether by a runtime command or from unbound's files.
func hostileTexts(t *testing.T, r *dnsRig) {
	zone := r.zone(t, "text.lan")
	texts := []string{
		`"`, `'`, `\`, `a"b'c\d`, `\000`, `";`, `' redirect`, `\"`, `$(reboot)`, "ä€😀", " padded ", `x" "y`, "a;b(c)d#e", "line\nbreak\ttab", allBytes(), `include: "/etc/passwd"`,
		strings.Repeat("x", 255), strings.Repeat("y", 256), strings.Repeat("z'", 300), strings.Repeat("ä", 2000),
	}
	operations := make([]fields, len(texts))
	for i, text := range texts {
		operations[i] = fields{"kind": "dns.record", "verb": "create", "body": fields{"zone_id": zone, "name": fmt.Sprintf("t%d", i), "type": "TXT", "value": text}}
	}
	told := r.reloads(t)
	for _, op := range operations[:len(texts)-2] {
		r.row(t, "/dns/records", op["body"].(fields))
	}
	if after := r.reloads(t); after != told {
		t.Fatalf("%d reloads", after-told)
	}
	r.Must(t, http.MethodPost, "/change-sets", fields{"operations": operations[len(texts)-2:]}, 200, nil)
	check := func() {
		t.Helper()
		for i, text := range texts {
			answer, err := r.ask(lab.Lan, "udp", "10.10.0.1", fmt.Sprintf("t%d.text.lan", i), dns.TypeTXT)
			if err != nil || len(answer.Answer) != 1 {
				t.Fatalf("%q: %v %v", text, err, answer)
			}
			wire := make([]byte, dns.MaxMsgSize)
			length, err := dns.PackRR(answer.Answer[0], wire, 0, nil, false)
			if err != nil {
				t.Fatal(err)
			}
			data := wire[length-int(answer.Answer[0].Header().Rdlength) : length]
			var got []byte
			for len(data) > 0 {
				end := 1 + int(data[0])
				got = append(got, data[1:end]...)
				data = data[end:]
			}
			if string(got) != text {
				t.Errorf("%q came as %q", text, got)
			}
		}
	}
	check()
	r.WaitState(t, "dns", "live", 10*time.Second)
	if out := r.Run(t, lab.Gateway, "gateway-ctl", "render-config"); !strings.Contains(out, "dns live\n") {
		t.Fatal(out)
	}
	check()
	r.Must(t, http.MethodDelete, "/dns/zones/"+zone, nil, 200, nil)
}

// With validation an answer that lacks the signatures of its parents is refused; zones of the house have none, and are answered.
func validation(t *testing.T, r *dnsRig) {
	zone := r.zone(t, "private.example", "198.51.100.2@5353")
	r.corp.Set(t, "x.private.example. 300 IN A 192.0.2.70")
	r.record(t, zone, "web", "A", "192.0.2.71")
	r.record(t, zone, "www", "CNAME", "web")
	r.settings(t, fields{"dnssec_validation": true})
	r.want(t, "unsigned.example.org", dns.TypeA, "SERVFAIL")
	r.want(t, "x.private.example", dns.TypeA, "x.private.example. A 192.0.2.70")
	r.want(t, "www.private.example", dns.TypeA, "www.private.example. CNAME web.private.example.", "web.private.example. A 192.0.2.71")
	r.settings(t, fields{"dnssec_validation": false})
	r.Must(t, http.MethodDelete, "/dns/zones/"+zone, nil, 200, nil)
}

func refusesStrangers(t *testing.T, r *dnsRig) {
	r.settings(t, fields{"access_acl": []string{"10.99.0.0/24"}})
	r.want(t, "host.example.com", dns.TypeA, "REFUSED")
	if answer, err := r.ask(lab.Gateway, "udp", "127.0.0.1", "host.example.com", dns.TypeA); err != nil || len(answer.Answer) != 1 {
		t.Fatalf("the gateway itself: %v %v", answer, err)
	}
	r.settings(t, fields{"access_acl": []string{"10.10.0.2"}})
	r.want(t, "host.example.com", dns.TypeA, "host.example.com. A 192.0.2.7")
}

func killedResolver(t *testing.T, r *dnsRig) {
	zone := r.zone(t, "killed.lan")
	r.record(t, zone, "a", "A", "192.0.2.1")
	leave := r.takePort(t)
	// It cannot restart, and is not reported as live.
	var c labtest.Component
	waittest.UntilNil(t, "who has the port is told", func() error {
		c = r.WaitState(t, "dns", "degraded", 20*time.Second)
		if !strings.HasPrefix(c.LastError, "UDP 53 on 10.10.0.1 is used by perl (pid ") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	if c.Daemon != "down" || !strings.Contains(c.Detail, "ddress already in use") {
		t.Errorf("%+v", c)
	}
	var done struct{ Error string }
	if r.Must(t, http.MethodPost, "/dns/flush-cache", nil, 200, &done); done.Error == "" {
		t.Fatal("it is said to have forgotten what it is not there to forget")
	}
	leave()
	// The next change finds it stopped and restarts it, with its previous configuration.
	r.record(t, zone, "b", "A", "192.0.2.2")
	r.want(t, "a.killed.lan", dns.TypeA, "a.killed.lan. A 192.0.2.1")
	r.want(t, "b.killed.lan", dns.TypeA, "b.killed.lan. A 192.0.2.2")
	if c := r.WaitState(t, "dns", "live", 20*time.Second); c.Daemon != "running" || c.Detail != "" {
		t.Errorf("%+v", c)
	}
	// With the port free, it restarts at once.
	r.kill(t)
	waittest.UntilNil(t, "it answers again", func() error {
		answer, err := r.ask(lab.Lan, "udp", "10.10.0.1", "a.killed.lan", dns.TypeA)
		if err == nil && len(answer.Answer) != 1 {
			err = fmt.Errorf("the answer is %v", answer)
		}
		return err
	})
}

// kill kills unbound.
func (r *dnsRig) kill(t *testing.T) {
	t.Helper()
	state, err := r.Units().State(t.Context(), unbound.Unit)
	if err != nil {
		t.Fatal(err)
	}
	if state.PID != 0 {
		r.Run(t, lab.Gateway, "kill", "-9", strconv.Itoa(state.PID))
	}
}

// takePort kills unbound and takes its port before it restarts. leave releases the port.
func (r *dnsRig) takePort(t *testing.T) (leave func()) {
	t.Helper()
	cmd, err := r.Command(t.Context(), lab.Gateway, "perl", "-MIO::Socket::INET", "-e",
		`$| = 1; select(undef, undef, undef, 0.001) until $s = IO::Socket::INET->new(LocalAddr => "10.10.0.1", LocalPort => 53, Proto => "udp"); print "taken\n"; <STDIN>`)
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	leave = sync.OnceFunc(func() {
		in.Close()
		_ = cmd.Wait() // however it ends, the port is free
	})
	t.Cleanup(leave)
	taken := make(chan error, 1)
	go func() {
		_, err := out.Read(make([]byte, 1))
		taken <- err
	}()
	for range 20 {
		r.kill(t)
		select {
		case err := <-taken:
			if err != nil {
				t.Fatal(err)
			}
			return leave
		case <-time.After(2 * time.Second): // unbound was faster
		}
	}
	t.Fatal("unbound is always faster")
	return nil
}
