package machine

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

var forwardTests = []struct {
	name string
	test func(*testing.T, *forwardRig)
}{
	{"OpensItsPort", forwardOpensItsPort},
	{"FP02OrderIsPriority", forwardOrder},
	{"EveryType", forwardTypes},
	{"ServerAddressesInOrder", forwardDestinations},
	{"UnusualPorts", forwardPorts},
	{"AllowedNetworks", forwardNetworks},
	{"NobodyReachesTheGateway", forwardItself},
	{"HostileValues", forwardHostile},
	{"CacheAndStatistics", forwardStatistics},
	{"ChangesRefuseNobody", forwardChanges},
	{"JudgeThatDies", forwardJudgeDies},
	{"WithoutAList", forwardWithoutList},
	{"WithoutTheService", forwardWithoutService},
	{"AddressThatIsNotThere", forwardAddress},
	{"TakenPort", forwardTaken},
	{"Off", forwardOff},
}

// TestForwardProxy sends requests from the lan side through the gateway's squid to servers on the wan side.
func TestForwardProxy(t *testing.T) {
	t.Parallel()
	l := labtest.UpAsAdmin(t, lab.Options{Volatile: true})
	f := &forwardRig{rig: &rig{Lab: l, services: map[string]string{}}}
	f.WaitState(t, "forward-proxy", "live", 20*time.Second)
	f.Run(t, lab.Gateway, "sh", "-c", "echo "+wan4+" www.example.net ads.example.net example.net www.example.org >> /etc/hosts")
	f.serveOrigin(t, 80, false)
	f.serveOrigin(t, 443, true)
	f.serveOrigin(t, 8443, true)
	said := func() string {
		out, err := os.ReadFile(l.Path("/var/log/squid/cache.log"))
		if err != nil {
			t.Error(err)
		}
		return string(out)
	}
	for _, x := range forwardTests {
		if !t.Run(x.name, func(t *testing.T) { x.test(t, f) }) {
			out := said()
			t.Logf("squid: %s", out[max(0, len(out)-3000):])
		}
	}
	// squid 6 warns about it with every request.
	if strings.Contains(said(), "reserved for Squid") {
		t.Error("the judge's word has a name that squid keeps for itself")
	}
}

const forwardAddr = gwLan4 + ":3128"

// forwardRig is the lab with origin servers on the wan side.
type forwardRig struct {
	*rig
	served atomic.Int64
}

// serveOrigin runs a server on a port of the wan side, until the test ends. Responses below /cache may be cached.
func (f *forwardRig) serveOrigin(t *testing.T, port int, secure bool) {
	t.Helper()
	server := &httptest.Server{Config: &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.served.Add(1)
		if strings.HasPrefix(r.URL.Path, "/cache") {
			w.Header().Set("Cache-Control", "max-age=600")
		}
		w.Header().Set("X-Seen", r.Header.Get("X-Forwarded-For")+"|"+r.Header.Get("Via"))
		fmt.Fprint(w, "hello")
	})}}
	err := f.Within(lab.Wan, func() (err error) {
		server.Listener, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
}

// dial connects from the lan side.
func (f *forwardRig) dial(_ context.Context, network, address string) (conn net.Conn, err error) {
	err = f.Within(lab.Lan, func() (err error) {
		conn, err = net.DialTimeout(network, address, patience)
		return err
	})
	return conn, err
}

// closed reports whether no client on the lan side can connect.
func (f *forwardRig) closed(t *testing.T, address string) bool {
	t.Helper()
	err := f.Within(lab.Lan, func() error {
		conn, err := net.DialTimeout("tcp", address, silence)
		if err == nil {
			conn.Close()
		}
		return err
	})
	return err != nil
}

// waitOpen waits until squid listens.
func (f *forwardRig) waitOpen(t *testing.T) {
	t.Helper()
	waittest.Until(t, "squid listens", func() bool { return !f.closed(t, forwardAddr) })
}

// client sends requests from the lan side through the proxy, on one connection if possible.
func (f *forwardRig) client(t *testing.T) *http.Client {
	c := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: forwardAddr}), DialContext: f.dial,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the origin's certificate is not part of the test
	}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// outcome is the status of a request through the proxy; a CONNECT that is denied is a 403.
func (f *forwardRig) outcome(t *testing.T, c *http.Client, method, address string) int {
	t.Helper()
	status, err := f.try(t, c, method, address)
	if err != nil {
		t.Fatalf("%s %s: %v", method, address, err)
	}
	return status
}

// try is the same while squid may not listen: it opens its ports again when it reads its configuration again.
func (f *forwardRig) try(t *testing.T, c *http.Client, method, address string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		if strings.Contains(err.Error(), "Forbidden") {
			return 403, nil
		}
		return 0, err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, nil
}

// expectStatus complains about unexpected results of requests, each on a new connection and on a kept one.
func (f *forwardRig) expectStatus(t *testing.T, want map[string]int) {
	t.Helper()
	kept := f.client(t)
	for address, status := range want {
		method, target, ok := strings.Cut(address, " ")
		if !ok {
			method, target = http.MethodGet, address
		}
		for _, c := range []*http.Client{kept, f.client(t)} {
			if got := f.outcome(t, c, method, target); got != status {
				t.Errorf("%s: %d instead of %d", address, got, status)
			}
		}
	}
}

// live complains about a change that is not live.
func live(t *testing.T, a *labtest.Answer) {
	t.Helper()
	if got := a.Header.Get("Gateway-Apply"); got == "" || strings.Contains(got, "degraded") || strings.Contains(got, "pending") {
		t.Fatalf("not live: %s", got)
	}
}

func (f *forwardRig) settings(t *testing.T, body fields) {
	t.Helper()
	live(t, f.Must(t, http.MethodPut, "/forward-proxy/settings", body, 200, nil))
}

// entry adds an entry at the end of the list.
func (f *forwardRig) entry(t *testing.T, kind, value, action string) (id string) {
	t.Helper()
	var row struct{ ID string }
	live(t, f.Must(t, http.MethodPost, "/forward-proxy/acls", fields{"name": fmt.Sprintf("%s %s %d", kind, action, time.Now().UnixNano()), "type": kind, "value": value, "action": action}, 201, &row))
	return row.ID
}

// clear empties the list.
func (f *forwardRig) clear(t *testing.T) {
	t.Helper()
	var rows []struct{ ID string }
	f.Must(t, http.MethodGet, "/forward-proxy/acls", nil, 200, &rows)
	var operations []operation
	for _, row := range rows {
		operations = append(operations, operation{Kind: "forward-proxy.acl", Verb: "delete", ID: row.ID})
	}
	for some := range slices.Chunk(operations, 1000) {
		live(t, f.Must(t, http.MethodPost, "/change-sets", fields{"operations": some}, 200, nil))
	}
}

func (f *forwardRig) squidPID(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(f.Run(t, lab.Gateway, "pgrep", "-f", "^.squid-1. "))
}

func forwardOpensItsPort(t *testing.T, f *forwardRig) {
	if !f.closed(t, forwardAddr) {
		t.Fatal("something listens before it is turned on")
	}
	if strings.Contains(f.table(t), "3128") {
		t.Fatal("the port is open before it is turned on")
	}
	a := f.Must(t, http.MethodPut, "/forward-proxy/settings", fields{"enabled": true, "cache_mb": 64}, 200, nil)
	if got := a.Header.Get("Gateway-Apply"); got != "forward-proxy=live, packet-filter=live" {
		t.Fatal(got)
	}
	if !strings.Contains(f.table(t), "3128") {
		t.Fatal("the port is not open")
	}
	f.expectStatus(t, map[string]int{"http://wan.lab.internal/": 200, "https://wan.lab.internal/": 200})
	// It does not reveal its client, and reveals no more about itself than HTTP requires.
	res, err := f.client(t).Get("http://wan.lab.internal/seen")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got := res.Header.Get("X-Seen"); got != "|1.1 gateway (squid)" {
		t.Errorf("the server sees %q", got)
	}
}

func forwardOrder(t *testing.T, f *forwardRig) {
	defer f.clear(t)
	deny := f.entry(t, "dstdomain", "www.example.net", "deny")
	allow := f.entry(t, "src", lan4, "allow")
	c, pid := f.client(t), f.squidPID(t)
	for round := range 3 {
		f.Must(t, http.MethodPost, "/forward-proxy/acls/reorder", fields{"ids": []string{deny, allow}}, 200, nil)
		if got := f.outcome(t, c, "GET", "http://www.example.net/"); got != 403 {
			t.Fatalf("round %d: %d with the denial first", round, got)
		}
		f.Must(t, http.MethodPost, "/forward-proxy/acls/reorder", fields{"ids": []string{allow, deny}}, 200, nil)
		if got := f.outcome(t, c, "GET", "http://www.example.net/"); got != 200 {
			t.Fatalf("round %d: %d with the permission first", round, got)
		}
	}
	f.Must(t, http.MethodPut, "/forward-proxy/acls/"+allow, fields{"active": false}, 200, nil)
	if got := f.outcome(t, c, "GET", "http://www.example.net/"); got != 403 {
		t.Fatalf("%d though the permission is off", got)
	}
	if now := f.squidPID(t); now != pid {
		t.Errorf("squid was restarted: %s, %s", pid, now)
	}
}

func forwardTypes(t *testing.T, f *forwardRig) {
	now := time.Now()
	today, tomorrow := string("SMTWHFA"[now.Weekday()]), string("SMTWHFA"[(now.Weekday()+1)%7])
	if now.Hour() == 23 && now.Minute() > 55 {
		t.Log("near midnight today and tomorrow are both today")
		today += tomorrow
	}
	type entry struct{ kind, hit, miss, request string }
	for _, x := range longtest.Some(t, 8, []entry{
		{"src", lan4 + "/32", "10.10.0.3-10.10.0.9", "http://www.example.net/"},
		{"src", "10.10.0.1-10.10.0.2", "192.0.2.0/24", "https://www.example.net/"},
		{"dst", "203.0.113.9 " + wan4, "203.0.113.0/24", "http://www.example.net/"},
		{"dst", "198.51.100.0-198.51.100.9", "198.51.100.77", "https://www.example.net/"},
		{"dstdomain", "nowhere.example www.example.net", "example.net", "http://WWW.Example.Net/"},
		{"dstdomain", ".example.net", ".ample.net .www.example", "https://www.example.net/"},
		{"dstdomain", ".example.net", ".www.example.net", "http://example.net/"},
		{"dstdom_regex", "^ADS[0-9]*\\.", "^ad\\.", "http://ads.example.net/"},
		{"dstdom_regex", "\\.net$", "^example", "https://www.example.net/"},
		{"url_regex", "/a/.*\\.exe$", "\\.EXE$", "http://www.example.net/a/b.exe"},
		{"url_regex", "[?]q=a\\sb$", "%20", "http://www.example.net/x?q=a%20b"},
		{"url_regex", "^http://www.example.net/%%$", "/x", "http://www.example.net/%25%25"},
		{"url_regex", "^www\\.example\\.net:443$", "^https:", "https://www.example.net/"},
		{"port", "79-80", "81", "http://www.example.net/"},
		{"port", "443", "80", "https://www.example.net/"},
		{"method", "get", "POST", "http://www.example.net/"},
		{"method", "DELETE CONNECT", "GET", "https://www.example.net/"},
		{"method", "BREW", "GET", "BREW http://www.example.net/"},
		{"time", today + " 00:00-24:00", tomorrow, "http://www.example.net/"},
		{"time", "00:00-23:59", tomorrow + " 00:00-23:59", "https://www.example.net/"},
	}) {
		name := x.kind + " " + x.hit + " " + x.request
		if x.kind == "time" && len(today) > 1 {
			continue
		}
		id := f.entry(t, x.kind, x.hit, "deny")
		f.expectStatus(t, map[string]int{x.request: 403})
		f.Must(t, http.MethodPut, "/forward-proxy/acls/"+id, fields{"value": x.miss}, 200, nil)
		f.expectStatus(t, map[string]int{x.request: 200})
		// And a later entry does not deny what an earlier one allows.
		f.entry(t, "src", "0.0.0.0/0 ::/0", "deny")
		f.Must(t, http.MethodPut, "/forward-proxy/acls/"+id, fields{"action": "allow"}, 200, nil)
		f.expectStatus(t, map[string]int{x.request: 403})
		f.Must(t, http.MethodPut, "/forward-proxy/acls/"+id, fields{"value": x.hit}, 200, nil)
		f.expectStatus(t, map[string]int{x.request: 200})
		f.clear(t)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// Entries about the server's address are squid's own, and keep their place among the others.
func forwardDestinations(t *testing.T, f *forwardRig) {
	defer f.clear(t)
	pid := f.squidPID(t)
	first := f.entry(t, "dstdomain", "www.example.org", "allow")
	dst := f.entry(t, "dst", wan4+" 2001:db8:1::2", "deny")
	last := f.entry(t, "dstdomain", "www.example.net", "allow")
	f.expectStatus(t, map[string]int{"http://www.example.org/": 200, "http://www.example.net/": 403, "https://www.example.net/": 403, "http://wan.lab.internal/": 403})
	f.Must(t, http.MethodPost, "/forward-proxy/acls/reorder", fields{"ids": []string{last, dst, first}}, 200, nil)
	f.expectStatus(t, map[string]int{"http://www.example.org/": 403, "http://www.example.net/": 200, "https://www.example.org/": 403})
	f.Must(t, http.MethodPut, "/forward-proxy/acls/"+dst, fields{"action": "allow"}, 200, nil)
	f.Must(t, http.MethodPut, "/forward-proxy/acls/"+first, fields{"action": "deny"}, 200, nil)
	f.expectStatus(t, map[string]int{"http://www.example.org/": 200})
	f.Must(t, http.MethodPut, "/forward-proxy/acls/"+dst, fields{"active": false}, 200, nil)
	f.expectStatus(t, map[string]int{"http://www.example.org/": 403})
	if now := f.squidPID(t); now != pid {
		t.Errorf("squid was restarted: %s, %s", pid, now)
	}
}

// A tunnel can only connect to 443, and no request to the ports of other services, unless an entry allows the port.
func forwardPorts(t *testing.T, f *forwardRig) {
	defer f.clear(t)
	f.expectStatus(t, map[string]int{"https://www.example.net:8443/": 403, "http://www.example.net:25/": 403, "http://www.example.net:22/": 403})
	f.entry(t, "src", lan4, "allow")
	f.expectStatus(t, map[string]int{"https://www.example.net:8443/": 403, "http://www.example.net:25/": 403})
	id := f.entry(t, "port", "8443", "allow")
	f.expectStatus(t, map[string]int{"https://www.example.net:8443/": 200, "http://www.example.net:25/": 403})
	f.Must(t, http.MethodPut, "/forward-proxy/acls/"+id, fields{"action": "deny"}, 200, nil)
	f.expectStatus(t, map[string]int{"https://www.example.net:8443/": 403})
}

func forwardNetworks(t *testing.T, f *forwardRig) {
	f.entry(t, "src", "0.0.0.0/0", "allow")
	for _, networks := range [][]string{{"192.168.0.0/16"}, {}} {
		f.settings(t, fields{"allowed_networks": networks})
		f.expectStatus(t, map[string]int{"http://www.example.net/": 403, "https://www.example.net/": 403})
	}
	f.settings(t, fields{"allowed_networks": []string{"10.10.0.0/24", "10.10.0.2/32", "::/0"}})
	f.expectStatus(t, map[string]int{"http://www.example.net/": 200})
	f.clear(t)
}

// Whatever an entry allows, by any name, the gateway itself cannot be reached.
func forwardItself(t *testing.T, f *forwardRig) {
	defer f.clear(t)
	f.entry(t, "port", "1-65535", "allow")
	f.entry(t, "dst", "0.0.0.0/0 ::/0", "allow")
	want := map[string]int{}
	for _, name := range []string{"127.0.0.1", "2130706433", "0x7f.1", "127.1", "localhost", "gateway.lab.internal", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[::]", gwLan4, gwWan4, "[::ffff:10.10.0.1]", "169.254.1.1"} {
		want["http://"+name+":9464/metrics"] = 403
		want["https://"+name+":9464/"] = 403
	}
	want["http://127.0.0.1:3127/squid-internal-mgr/info"] = 403
	want["http://"+gwLan4+":3128/squid-internal-mgr/info"] = 403
	want["http://wan.lab.internal/squid-internal-mgr/info"] = 403
	want["http://"+gwWan4+"/"] = 404 // by the reverse proxy, which has no site of that name
	f.expectStatus(t, want)
	res, err := f.dial(t.Context(), "tcp", forwardAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Close()
	fmt.Fprint(res, "GET /squid-internal-mgr/info HTTP/1.0\r\n\r\n")
	if line, _ := bufio.NewReader(res).ReadString('\n'); !strings.Contains(line, " 403 ") && !strings.Contains(line, " 400 ") {
		t.Errorf("the manager answers %q", line)
	}
	f.expectStatus(t, map[string]int{"http://www.example.net/": 200})
}

func forwardHostile(t *testing.T, f *forwardRig) {
	defer f.clear(t)
	for _, x := range [][2]string{
		{"url_regex", "("}, {"url_regex", "a ["}, {"dstdom_regex", "a{2,1}"}, {"dstdom_regex", "*"}, {"url_regex", "-i x"}, {"url_regex", "a\nb"}, {"url_regex", "a\x00"}, {"url_regex", "(?P<x"},
		{"src", "10.0.0.0/33"}, {"src", `"/etc/passwd"`}, {"dst", "all"}, {"dst", "10.0.0.0/8\\"}, {"dst", "fe80::1%eth0"}, {"dst", "-n 10.0.0.1"}, {"dst", "${x}"}, {"dst", "::/1"},
		{"dstdomain", `"/etc/hosts"`}, {"dstdomain", "-n a.example"}, {"dstdomain", "a..b"}, {"dstdomain", "*.example.net"}, {"dstdomain", "192.0.2.1"}, {"dstdomain", "a.example\nhttp_access allow all"},
		{"port", "0"}, {"port", "65536"}, {"port", "9-8"}, {"port", "http"}, {"method", "GE T/"}, {"method", "G\"T"}, {"time", "X 08:00-09:00"}, {"time", "22:00-06:00"}, {"time", "08:60-09:00"}, {"time", "25:00-26:00"},
		{"url_regex", " "}, {"url_regex", ""},
	} {
		a := f.Must(t, http.MethodPost, "/forward-proxy/acls", fields{"name": "hostile", "type": x[0], "value": x[1], "action": "allow"}, 400, nil)
		if !strings.Contains(string(a.Body), `"value"`) {
			t.Errorf("%q: %s", x, a.Body)
		}
	}
	// What means something to squid's parser means nothing here but itself.
	f.entry(t, "src", "0.0.0.0/0", "deny")
	for _, text := range []string{`"/etc/passwd"`, `\\`, `\$\{x\}`, `x\s#y`, `%>a`, `-n`, `'`, `all`} {
		id := f.entry(t, "url_regex", text, "allow")
		ids := []string{id}
		var rows []struct{ ID string }
		f.Must(t, http.MethodGet, "/forward-proxy/acls", nil, 200, &rows)
		for _, r := range rows {
			if r.ID != id {
				ids = append(ids, r.ID)
			}
		}
		f.Must(t, http.MethodPost, "/forward-proxy/acls/reorder", fields{"ids": ids}, 200, nil)
	}
	f.expectStatus(t, map[string]int{
		"http://www.example.net/": 403, "http://www.example.net/%22/etc/passwd%22": 200, "http://www.example.net/$%7Bx%7D": 200, "http://www.example.net/x%20%23y": 200, "http://www.example.net/etc/passwd": 403,
		"http://www.example.net/x%5Cy": 200, "http://www.example.net/%25%3Ea": 200, "http://www.example.net/a-n": 200, "http://www.example.net/it's": 200, "http://www.example.net/all": 200,
	})
}

type forwardStats struct {
	Requests, Hits, Errors, Clients int64
	HitRate                         float64 `json:"hit_rate"`
	BytesToClients                  int64   `json:"bytes_to_clients"`
	BytesFromServers                int64   `json:"bytes_from_servers"`
	CacheMemoryBytes                int64   `json:"cache_memory_bytes"`
	CacheObjects                    int64   `json:"cache_objects"`
	UptimeSeconds                   float64 `json:"uptime_seconds"`
	Error                           string
}

func (f *forwardRig) stats(t *testing.T) (s forwardStats) {
	t.Helper()
	f.Must(t, http.MethodGet, "/forward-proxy/stats", nil, 200, &s)
	return s
}

func forwardStatistics(t *testing.T, f *forwardRig) {
	before, served := f.stats(t), f.served.Load()
	c := f.client(t)
	for range 10 {
		if got := f.outcome(t, c, "GET", "http://www.example.net/cache/a"); got != 200 {
			t.Fatal(got)
		}
	}
	if n := f.served.Load() - served; n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
	id := f.entry(t, "dstdomain", "www.example.net", "deny")
	if got := f.outcome(t, c, "GET", "http://www.example.net/cache/a"); got != 403 {
		t.Errorf("what is kept is given to one who may not have it: %d", got)
	}
	f.Must(t, http.MethodDelete, "/forward-proxy/acls/"+id, nil, 200, nil)
	now := f.stats(t)
	t.Logf("%+v, before %+v", now, before)
	if now.Requests-before.Requests != 11 || now.Hits-before.Hits != 9 || now.Errors-before.Errors != 1 || now.Clients != 1 || now.CacheObjects <= before.CacheObjects ||
		now.CacheMemoryBytes <= before.CacheMemoryBytes || now.UptimeSeconds <= before.UptimeSeconds || now.Error != "" || now.HitRate <= 0 || now.HitRate >= 1 {
		t.Errorf("%+v, before %+v", now, before)
	}
	var history struct {
		StepSeconds int `json:"step_seconds"`
		Points      []struct{ Requests, Bytes float64 }
	}
	waittest.Until(t, "the history shows the requests", func() bool {
		f.outcome(t, c, "GET", "http://www.example.net/cache/a")
		f.Must(t, http.MethodGet, "/forward-proxy/stats/history", nil, 200, &history)
		for _, p := range history.Points {
			if p.Requests > 0 && p.Bytes > 0 {
				return true
			}
		}
		return false
	})
	f.settings(t, fields{"cache_mb": 0})
	served = f.served.Load()
	for range 3 {
		f.outcome(t, c, "GET", "http://www.example.net/cache/b")
	}
	if n := f.served.Load() - served; n != 3 {
		t.Errorf("without a cache the server was asked %d times", n)
	}
	f.settings(t, fields{"cache_mb": 64})
}

// stream opens connections to the proxy until it is stopped, and counts how they end.
type stream struct {
	connections, refused, failed atomic.Int64
	statuses                     [600]atomic.Int64
}

func (s *stream) run(stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		s.connections.Add(1)
		conn, err := net.DialTimeout("tcp", forwardAddr, patience)
		if err != nil {
			s.refused.Add(1)
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprint(conn, "GET http://www.example.net/stream HTTP/1.1\r\nHost: www.example.net\r\nConnection: close\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			s.failed.Add(1)
		} else {
			s.statuses[res.StatusCode].Add(1)
			res.Body.Close()
		}
		conn.Close()
	}
}

// during runs do while connections are opened continuously.
func (f *forwardRig) during(t *testing.T, do func(*stream)) *stream {
	t.Helper()
	s, stop := &stream{}, make(chan struct{})
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			if err := f.Within(lab.Lan, func() error { return s.run(stop) }); err != nil {
				t.Error(err)
			}
		})
	}
	do(s)
	close(stop)
	work.Wait()
	t.Logf("%d connections, %d refused, %d failed, %d allowed, %d denied", s.connections.Load(), s.refused.Load(), s.failed.Load(), s.statuses[200].Load(), s.statuses[403].Load())
	return s
}

func forwardChanges(t *testing.T, f *forwardRig) {
	defer f.clear(t)
	many := longtest.Number(t, "GATEWAY_ENTRIES", 300, 2000)
	var operations []operation
	for i := range many {
		operations = append(operations, create("forward-proxy.acl", fields{"name": fmt.Sprintf("many %d", i), "type": "dstdomain", "value": fmt.Sprintf(".host%d.example", i), "action": "deny"}))
	}
	f.entry(t, "dst", "203.0.113.1", "deny")
	pid := f.squidPID(t)
	s := f.during(t, func(*stream) {
		for some := range slices.Chunk(operations, 1000) {
			live(t, f.Must(t, http.MethodPost, "/change-sets", fields{"operations": some}, 200, nil))
		}
		for range 5 {
			id := f.entry(t, "url_regex", "^nothing", "deny")
			live(t, f.Must(t, http.MethodPut, "/forward-proxy/acls/"+id, fields{"value": "^http://www.example.net/stream", "priority": 1}, 200, nil))
			live(t, f.Must(t, http.MethodPut, "/forward-proxy/acls/"+id, fields{"active": false}, 200, nil))
			live(t, f.Must(t, http.MethodDelete, "/forward-proxy/acls/"+id, nil, 200, nil))
		}
	})
	if s.refused.Load()+s.failed.Load() > 0 || s.statuses[200].Load() == 0 || s.statuses[403].Load() == 0 || s.statuses[200].Load()+s.statuses[403].Load() != s.connections.Load() {
		t.Error("connections were refused or failed")
	}
	if now := f.squidPID(t); now != pid {
		t.Errorf("squid was restarted: %s, %s", pid, now)
	}
	f.expectStatus(t, map[string]int{fmt.Sprintf("http://a.host%d.example/", many-1): 403})
}

// A killed ACL helper is restarted, and nothing that it would have denied passes in the meantime.
func forwardJudgeDies(t *testing.T, f *forwardRig) {
	defer f.clear(t)
	f.entry(t, "url_regex", "/stream$", "deny")
	s := f.during(t, func(s *stream) {
		pid := strings.TrimSpace(f.Run(t, lab.Gateway, "pgrep", "-x", "gateway-acl"))
		f.Run(t, lab.Gateway, "kill", "-9", pid)
		waittest.Until(t, "another judge runs", func() bool {
			cmd, err := f.Command(t.Context(), lab.Gateway, "pgrep", "-x", "gateway-acl")
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.Output()
			return err == nil && strings.TrimSpace(string(out)) != pid
		})
		seen := s.connections.Load()
		waittest.Until(t, "it is asked", func() bool { return s.connections.Load() > seen+20 })
	})
	if s.statuses[200].Load() > 0 || s.statuses[403].Load() == 0 {
		t.Errorf("%d were let through", s.statuses[200].Load())
	}
	// squid 5.7 may crash while it writes to the ACL helper, and is restarted by its own first process.
	f.waitOpen(t)
	f.expectStatus(t, map[string]int{"http://www.example.net/": 200, "http://www.example.net/stream": 403})
	f.WaitState(t, "forward-proxy", "live", 15*time.Second)
}

// Without a list, or with an incomplete one, all requests are denied; the service repairs that.
func forwardWithoutList(t *testing.T, f *forwardRig) {
	path := f.Path("/etc/squid/gateway.acls")
	if err := f.Units().Stop(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	// squid restarts its ACL helper when its logs are rotated, without other changes.
	f.expectStatus(t, map[string]int{"http://www.example.net/": 200})
	f.Run(t, lab.Gateway, "squid", "-k", "rotate", "-f", "/etc/squid/gateway.conf")
	c := f.client(t)
	waittest.Until(t, "nobody gets through", func() bool { return f.outcome(t, c, "GET", "http://www.example.net/") == 403 })
	f.expectStatus(t, map[string]int{"http://www.example.net/": 403, "https://www.example.net/": 403})
	// And a list of another configuration is no list.
	if err := os.WriteFile(path, []byte("layout 0123456789abcdef 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.Units().Restart(t.Context(), squid.Unit); err != nil {
		t.Fatal(err)
	}
	f.waitOpen(t)
	f.expectStatus(t, map[string]int{"http://www.example.net/": 403, "https://www.example.net/": 403})
	if err := f.Units().Start(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	f.back(t)
	f.WaitState(t, "forward-proxy", "live", 20*time.Second)
	f.expectStatus(t, map[string]int{"http://www.example.net/": 200})
}

func forwardWithoutService(t *testing.T, f *forwardRig) {
	f.entry(t, "dstdomain", "www.example.net", "deny")
	if err := f.Units().Stop(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	f.expectStatus(t, map[string]int{"http://www.example.net/": 403, "http://www.example.org/": 200})
	if err := f.Units().Restart(t.Context(), squid.Unit); err != nil {
		t.Fatal(err)
	}
	f.waitOpen(t)
	f.expectStatus(t, map[string]int{"http://www.example.net/": 403, "http://www.example.org/": 200})
	pid := f.squidPID(t)
	if err := f.Units().Start(t.Context(), host.API); err != nil {
		t.Fatal(err)
	}
	f.back(t)
	f.WaitState(t, "forward-proxy", "live", 20*time.Second)
	f.clear(t)
	f.expectStatus(t, map[string]int{"http://www.example.net/": 200})
	if now := f.squidPID(t); now != pid {
		t.Errorf("squid was restarted: %s, %s", pid, now)
	}
}

func forwardAddress(t *testing.T, f *forwardRig) {
	a := f.Must(t, http.MethodPut, "/forward-proxy/settings", fields{"listen_addresses": []string{gwLan4, "192.0.2.77"}}, 200, nil)
	if got := a.Header.Get("Gateway-Apply"); !strings.Contains(got, "forward-proxy=degraded") {
		t.Fatal(got)
	}
	c := f.WaitState(t, "forward-proxy", "degraded", 5*time.Second)
	if !strings.Contains(c.LastError, "192.0.2.77:3128") || !strings.Contains(c.LastError, "does not have this address") {
		t.Error(c.LastError)
	}
	f.expectStatus(t, map[string]int{"http://www.example.net/": 200})
	f.Run(t, lab.Gateway, "ip", "address", "add", "192.0.2.77/32", "dev", "lan0")
	f.WaitState(t, "forward-proxy", "live", 70*time.Second)
	// It is now the gateway's own, and blocked as soon as the change of the addresses is noticed: a running pass may have read them before.
	waittest.Until(t, "the address is out of reach", func() bool {
		status, err := f.try(t, f.client(t), http.MethodGet, "http://192.0.2.77:9464/")
		return err == nil && status == 403
	})
	f.expectStatus(t, map[string]int{"http://192.0.2.77:9464/": 403, "http://www.example.net/": 200})
	f.Run(t, lab.Gateway, "ip", "address", "del", "192.0.2.77/32", "dev", "lan0")
	f.settings(t, fields{"listen_addresses": []string{}, "port": 8080})
	if !f.closed(t, forwardAddr) {
		t.Error("the former port is open")
	}
	waittest.Until(t, "the new port is open", func() bool { return !f.closed(t, gwLan4+":8080") })
	f.settings(t, fields{"port": 3128})
	f.expectStatus(t, map[string]int{"http://www.example.net/": 200})
}

// A port that another program has leaves the proxy where it was, and open there.
func forwardTaken(t *testing.T, f *forwardRig) {
	f.settings(t, fields{"listen_addresses": []string{}})
	var taken net.Listener
	err := f.Within(lab.Gateway, func() (err error) {
		taken, err = net.Listen("tcp", ":3199")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f.Must(t, http.MethodPut, "/forward-proxy/settings", fields{"port": 3199}, 200, nil)
	if c := f.WaitState(t, "forward-proxy", "degraded", 30*time.Second); !strings.Contains(c.LastError, "taken by another program") || !strings.Contains(c.LastError, "The last known good configuration runs") {
		t.Errorf("%+v", c)
	}
	f.waitOpen(t)
	f.expectStatus(t, map[string]int{"http://www.example.net/": 200})
	taken.Close()
	f.settings(t, fields{"port": 3128})
	f.waitOpen(t)
}

func forwardOff(t *testing.T, f *forwardRig) {
	f.settings(t, fields{"enabled": false})
	if !f.closed(t, forwardAddr) {
		t.Error("the port is still open")
	}
	if strings.Contains(f.table(t), "3128") {
		t.Error("the packet filter still lets it in")
	}
	state, err := f.Units().State(t.Context(), squid.Unit)
	if err != nil || state.Active != "inactive" {
		t.Errorf("%+v, %v", state, err)
	}
	if s := f.stats(t); s.Error == "" {
		t.Errorf("%+v", s)
	}
	f.entry(t, "dst", "203.0.113.0/24", "deny")
	f.settings(t, fields{"enabled": true})
	f.expectStatus(t, map[string]int{"http://www.example.net/": 200, "http://203.0.113.9/": 403})
}
