package fwdproxy_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/fwdproxy"
	"edge.internal/gateway/internal/fwdproxy/verdict"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
)

var judgeLine = regexp.MustCompile(`(?m)^external_acl_type .* ([0-9a-f]{32}) \S+ \S+$`)

// bench is a room whose squid accepts everything: its judge reports what is in the installed files.
func bench(t *testing.T) (*kittest.Bench, *fwdproxy.Room) {
	t.Helper()
	b := kittest.New(t)
	squidRuns(t, b)
	room := fwdproxy.New(b.Kit)
	room.Mount()
	b.Resources.MountChangeSets()
	b.Start(t)
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatalf("not live at start: %v", failed)
	}
	return b, room
}

func squidRuns(t *testing.T, b *kittest.Bench) {
	t.Helper()
	list := "-"
	b.Machine.JudgeSquid(func(reload bool) (squid.Judge, error) {
		config, err := b.Machine.Read(squid.DropIn)
		if err != nil {
			return squid.Judge{}, err
		}
		if content, err := b.Machine.Read(squid.AccessList); err == nil && (reload || list == "-") {
			list = verdict.Digest(content)
		}
		return squid.Judge{Configuration: string(judgeLine.FindSubmatch(config)[1]), List: list}, nil
	})
	b.Machine.SetSquidReport(squid.Descriptors, `
  13 Socket    0       0        0  [::]:3128             HTTP Socket
  14 Socket    0       0        0  127.0.0.1:3127        HTTP Socket
  15 Socket    0       0        0  10.10.0.1:8080        HTTP Socket
`)
}

func file(t *testing.T, b *kittest.Bench, p host.Place) string {
	t.Helper()
	content, err := b.Machine.Read(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestOffByDefault(t *testing.T) {
	b, room := bench(t)
	var s fwdproxy.Settings
	b.Get(t, "/forward-proxy/settings").Want(t, 200).Into(t, &s)
	if s.Enabled || s.Port != 3128 || s.CacheMB != 256 || len(s.ListenAddresses) != 0 || len(s.AllowedNetworks) != 4 {
		t.Fatalf("%+v", s)
	}
	if b.Machine.Starts(squid.Unit)+b.Machine.Restarts(squid.Unit) > 0 || b.Machine.Enabled(squid.Unit) {
		t.Fatal("squid was started")
	}
	if o, err := room.Openings(t.Context(), b.DB); err != nil || len(o) != 0 {
		t.Fatalf("%v, %v", o, err)
	}
	var stats fwdproxy.Stats
	b.Get(t, "/forward-proxy/stats").Want(t, 200).Into(t, &stats)
	if stats.Error == "" {
		t.Fatal("figures of a squid that does not run")
	}
}

func TestSettings(t *testing.T) {
	b, room := bench(t)
	on := b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", `{"enabled":true}`).Want(t, 200)
	if got := on.Header.Get("Gateway-Apply"); got != "forward-proxy=live" || b.Machine.Restarts(squid.Unit) != 1 || !b.Machine.Enabled(squid.Unit) {
		t.Fatalf("%q, %d restarts", got, b.Machine.Restarts(squid.Unit))
	}
	if o, _ := room.Openings(t.Context(), b.DB); len(o) != 1 || o[0].Port != 3128 || len(o[0].Addresses) != 0 {
		t.Fatalf("%+v", o)
	}
	a := b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", `{"listen_addresses":["10.10.0.1"],"port":8080,"cache_mb":0,"allowed_networks":["10.10.0.7/24"]}`).Want(t, 200)
	config := file(t, b, squid.DropIn)
	for _, line := range []string{"http_port 10.10.0.1:8080", "http_port 127.0.0.1:3127", "cache deny all", "acl gateway_clients src 10.10.0.0/24"} {
		if !strings.Contains(config, "\n"+line+"\n") {
			t.Errorf("no %q in\n%s", line, config)
		}
	}
	if o, _ := room.Openings(t.Context(), b.DB); len(o) != 1 || o[0].Port != 8080 || len(o[0].Addresses) != 1 {
		t.Errorf("%+v", o)
	}
	// What GET returned can be sent back unchanged.
	b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", string(a.Data)).Want(t, 200)
	for body, field := range map[string]string{
		`{"enabled":"yes"}`:                                "enabled",
		`{"port":0}`:                                       "port",
		`{"port":65536}`:                                   "port",
		`{"port":3127}`:                                    "port",
		`{"cache_mb":-1}`:                                  "cache_mb",
		`{"cache_mb":65537}`:                               "cache_mb",
		`{"listen_addresses":["x"]}`:                       "listen_addresses",
		`{"listen_addresses":["0.0.0.0"]}`:                 "listen_addresses",
		`{"listen_addresses":["fe80::1"]}`:                 "listen_addresses",
		`{"listen_addresses":["224.0.0.1"]}`:               "listen_addresses",
		`{"listen_addresses":["10.10.0.1","10.10.0.1"]}`:   "listen_addresses",
		`{"listen_addresses":["10.10.0.1:80"]}`:            "listen_addresses",
		`{"allowed_networks":["10.0.0.0/33"]}`:             "allowed_networks",
		`{"allowed_networks":["::/1"]}`:                    "allowed_networks",
		`{"allowed_networks":["all"]}`:                     "allowed_networks",
		`{"allowed_networks":["10.0.0.0/8\nhttp_access"]}`: "allowed_networks",
		`{"surprise":1}`:                                   "surprise",
	} {
		b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", body).WantField(t, field)
	}
	stops := b.Machine.Stops(squid.Unit)
	b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", `{"enabled":false}`).Want(t, 200)
	if b.Machine.Stops(squid.Unit) == stops || b.Machine.Enabled(squid.Unit) {
		t.Error("squid still runs")
	}
	if n := b.Audited(t, "forward-proxy.settings.update"); n != 4 {
		t.Errorf("audited %d times", n)
	}
}

func TestEntryLife(t *testing.T) {
	b, _ := bench(t)
	b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", `{"enabled":true}`).Want(t, 200)
	checks, config := b.Machine.Runs(squid.Check), file(t, b, squid.DropIn)
	loads := b.Machine.SquidLoads()

	var first, second fwdproxy.ACL
	made := b.Do(t, "admin", http.MethodPost, "/forward-proxy/acls", `{"name":"no ads","type":"dstdomain","value":".ads.example","action":"deny"}`).Want(t, 201)
	made.Into(t, &first)
	if made.Header.Get("Gateway-Apply") != "forward-proxy=live" || !first.Active {
		t.Fatalf("%v %s", made.Header, made.Body)
	}
	b.Do(t, "admin", http.MethodPost, "/forward-proxy/acls", `{"name":"the boss","type":"src","value":"10.0.0.1","action":"allow"}`).Want(t, 201).Into(t, &second)
	if first.Priority >= second.Priority {
		t.Errorf("%d, %d", first.Priority, second.Priority)
	}
	want := func(lines ...string) {
		t.Helper()
		got := strings.Split(strings.TrimSuffix(file(t, b, squid.AccessList), "\n"), "\n")[2:]
		if strings.Join(got, "|") != strings.Join(lines, "|") {
			t.Errorf("%q", got)
		}
	}
	want("deny 0 dstdomain .ads.example", "allow 0 src 10.0.0.1")
	b.Do(t, "admin", http.MethodPost, "/forward-proxy/acls/reorder", fmt.Sprintf(`{"ids":[%q,%q]}`, second.ID, first.ID)).Want(t, 200)
	want("allow 0 src 10.0.0.1", "deny 0 dstdomain .ads.example")
	b.Do(t, "admin", http.MethodPut, "/forward-proxy/acls/"+second.ID.String(), `{"type":"time","value":"MTWHF 08:00-17:59"}`).Want(t, 200)
	want("allow 0 time MTWHF 08:00-17:59", "deny 0 dstdomain .ads.example")
	b.Do(t, "admin", http.MethodPut, "/forward-proxy/acls/"+second.ID.String(), `{"active":false}`).Want(t, 200)
	want("deny 0 dstdomain .ads.example")
	b.Do(t, "admin", http.MethodDelete, "/forward-proxy/acls/"+first.ID.String(), nil).Want(t, 200)
	want()
	// squid was not involved.
	if b.Machine.Runs(squid.Check) != checks || b.Machine.Reloads(squid.Unit) != 0 || b.Machine.Restarts(squid.Unit) != 1 || file(t, b, squid.DropIn) != config {
		t.Error("squid was disturbed")
	}
	if n := b.Machine.SquidLoads() - loads; n != 6 {
		t.Errorf("the judge has read its list %d times", n)
	}
	for action, times := range map[string]int{"create": 2, "update": 2, "reorder": 1, "delete": 1} {
		if n := b.Audited(t, "forward-proxy.acl."+action); n != times {
			t.Errorf("%s is audited %d times", action, n)
		}
	}
}

func TestServerAddressesNeedSquid(t *testing.T) {
	b, _ := bench(t)
	b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", `{"enabled":true}`).Want(t, 200)
	checks := b.Machine.Runs(squid.Check)
	// The judge keeps the configuration it was started with until squid reads its files.
	running, reads := file(t, b, squid.DropIn), 0
	b.Machine.JudgeSquid(func(bool) (squid.Judge, error) {
		if b.Machine.Reloads(squid.Unit) > reads {
			running = file(t, b, squid.DropIn)
		}
		return squid.Judge{Configuration: judgeLine.FindStringSubmatch(running)[1], List: verdict.Digest([]byte(file(t, b, squid.AccessList)))}, nil
	})
	a := b.Do(t, "admin", http.MethodPost, "/forward-proxy/acls", `{"name":"x","type":"dst","value":"203.0.113.0/24","action":"deny"}`).Want(t, 201)
	if a.Header.Get("Gateway-Apply") != "forward-proxy=live" || b.Machine.Reloads(squid.Unit) != 1 || b.Machine.Restarts(squid.Unit) != 1 || b.Machine.Runs(squid.Check) != checks+1 {
		t.Fatalf("%s, %d reloads, %d restarts", a.Header.Get("Gateway-Apply"), b.Machine.Reloads(squid.Unit), b.Machine.Restarts(squid.Unit))
	}
	if !strings.Contains(file(t, b, squid.DropIn), "\nacl gateway_dst_0 dst 203.0.113.0/24\nhttp_access deny gateway_dst_0\n") {
		t.Error(file(t, b, squid.DropIn))
	}
}

func TestBadEntries(t *testing.T) {
	b, _ := bench(t)
	for body, field := range map[string]string{
		`{"type":"src","value":"10.0.0.1","action":"deny"}`:                                           "name",
		`{"name":"a","value":"10.0.0.1","action":"deny"}`:                                             "type",
		`{"name":"a","type":"src","action":"deny"}`:                                                   "value",
		`{"name":"a","type":"src","value":"10.0.0.1"}`:                                                "action",
		`{"name":"a","type":"ident","value":"x","action":"deny"}`:                                     "type",
		`{"name":"a","type":"src","value":"10.0.0.1","action":"maybe"}`:                               "action",
		`{"name":"a","type":"src","value":"10.0.0.1 x","action":"deny"}`:                              "value",
		`{"name":"a","type":"dst","value":"\"/etc/passwd\"","action":"deny"}`:                         "value",
		`{"name":"a\nb","type":"src","value":"10.0.0.1","action":"deny"}`:                             "name",
		`{"name":"a","type":"url_regex","value":"a\u0000","action":"deny"}`:                           "value",
		`{"name":"a","type":"url_regex","value":"a\u0085","action":"deny"}`:                           "value",
		`{"name":"a","type":"url_regex","value":"` + strings.Repeat("a", 4097) + `","action":"deny"}`: "value",
		`{"name":"` + strings.Repeat("a", 121) + `","type":"method","value":"GET","action":"deny"}`:   "name",
	} {
		b.Do(t, "admin", http.MethodPost, "/forward-proxy/acls", body).WantField(t, field)
	}
	if n := b.Rows(t, "fwdproxy_acls"); n != 0 {
		t.Errorf("%d rows after refused bodies", n)
	}
	b.Do(t, "admin", http.MethodPost, "/forward-proxy/acls", `{"name":"a","type":"method","value":"GET","action":"deny"}`).Want(t, 201)
	if a := b.Do(t, "admin", http.MethodPost, "/forward-proxy/acls", `{"name":"a","type":"method","value":"PUT","action":"deny"}`); a.Status != 409 && a.Status != 400 {
		t.Errorf("the same name twice: %d", a.Status)
	}
	// What is valid for one type need not be for another.
	var rows []fwdproxy.ACL
	b.Get(t, "/forward-proxy/acls").Want(t, 200).Into(t, &rows)
	b.Do(t, "admin", http.MethodPut, "/forward-proxy/acls/"+rows[0].ID.String(), `{"type":"port"}`).WantField(t, "value")
}

func TestRefusedBySquid(t *testing.T) {
	b, _ := bench(t)
	before := file(t, b, squid.DropIn)
	b.Machine.Script(squid.Check, nil)
	b.Machine.Reject(squid.Check, "2026/11/15 11:50:48| Processing: http_port 1\n2026/11/15 11:50:48| FATAL: Bungled squid.conf line 24: http_access deny x\n")
	a := b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", `{"port":8080}`).Want(t, 400)
	if !strings.Contains(a.Error.Message, "Bungled") || strings.Contains(a.Error.Message, "Processing") {
		t.Errorf("%s", a.Error.Message)
	}
	// A warning is a refusal, too: squid has skipped something.
	b.Machine.Say(squid.Check, "2026/11/15 11:50:48| WARNING: because of this '10.1.0.0/16' is ignored\n")
	if a := b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", `{"port":8080}`).Want(t, 400); !strings.Contains(a.Error.Message, "is ignored") {
		t.Errorf("%s", a.Error.Message)
	}
	if file(t, b, squid.DropIn) != before || b.Audited(t, "forward-proxy.settings.update") != 0 {
		t.Error("something was stored or written")
	}
}

func TestDaemonThatWillNotStart(t *testing.T) {
	b, _ := bench(t)
	b.Machine.Refuse(squid.Unit, errors.New("no memory"))
	if a := b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", `{"enabled":true}`).Want(t, 200); a.Header.Get("Gateway-Apply") != "forward-proxy=degraded" {
		t.Fatal(a.Header.Get("Gateway-Apply"))
	}
	b.Machine.Refuse(squid.Unit, nil)
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatalf("does not converge: %v", failed)
	}
}

func TestDaemonThatIsNotInstalled(t *testing.T) {
	b, _ := bench(t)
	b.Machine.Uninstall(squid.Unit)
	b.Machine.Missing(squid.Check)
	if a := b.Do(t, "admin", http.MethodPost, "/forward-proxy/acls", `{"name":"a","type":"dst","value":"192.0.2.1","action":"deny"}`).Want(t, 201); a.Header.Get("Gateway-Apply") != "forward-proxy=not_installed" {
		t.Fatal(a.Header.Get("Gateway-Apply"))
	}
}

func TestAddressThatIsNotThere(t *testing.T) {
	b, _ := bench(t)
	a := b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", `{"enabled":true,"port":8080,"listen_addresses":["10.10.0.1","192.0.2.77"]}`).Want(t, 200)
	if a.Header.Get("Gateway-Apply") != "forward-proxy=degraded" {
		t.Fatal(a.Header.Get("Gateway-Apply"))
	}
	if s := b.Engine.Statuses()[0]; !strings.Contains(s.LastError, "Squid does not listen on 192.0.2.77:8080: the gateway does not have this address") {
		t.Error(s.LastError)
	}
}

func TestJudgeWithAnotherList(t *testing.T) {
	b, _ := bench(t)
	b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", `{"enabled":true}`).Want(t, 200)
	b.Machine.JudgeSquid(func(bool) (squid.Judge, error) {
		return squid.Judge{Configuration: judgeLine.FindStringSubmatch(file(t, b, squid.DropIn))[1], List: "another"}, nil
	})
	a := b.Do(t, "admin", http.MethodPost, "/forward-proxy/acls", `{"name":"a","type":"method","value":"GET","action":"deny"}`).Want(t, 201)
	if a.Header.Get("Gateway-Apply") != "forward-proxy=degraded" {
		t.Fatal(a.Header.Get("Gateway-Apply"))
	}
}

func TestPreview(t *testing.T) {
	b, _ := bench(t)
	a := b.Do(t, "viewer", http.MethodPost, "/change-sets", `{"preview":true,"operations":[{"kind":"forward-proxy.acl","verb":"create","body":{"name":"a","type":"dstdomain","value":"www.example.net","action":"deny"}}]}`).Want(t, 200)
	if !strings.Contains(string(a.Data), `+deny 0 dstdomain www.example.net`) {
		t.Fatalf("no diff: %s", a.Data)
	}
	if b.Rows(t, "fwdproxy_acls") != 0 || strings.Contains(file(t, b, squid.AccessList), "example") {
		t.Fatal("a preview changed something")
	}
}

func TestStats(t *testing.T) {
	b, _ := bench(t)
	b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", `{"enabled":true}`).Want(t, 200)
	b.Machine.SetSquidReport(squid.Counters, "sample_time = 1794743466.178269 (Sun, 15 Nov 2026 11:51:06 GMT)\nclient_http.requests = 20\nclient_http.hits = 5\nclient_http.errors = 3\nclient_http.kbytes_in = 2\nclient_http.kbytes_out = 58\nserver.all.kbytes_in = 7\n")
	b.Machine.SetSquidReport(squid.Info, "Squid Object Cache: Version 5.7\nStart Time:\tSun, 15 Nov 2026 11:51:06 GMT\nConnection information for squid:\n\tNumber of clients accessing cache:\t3\n\tStorage Mem size:\t216 KB\n\tUP Time:\t22.553 seconds\nInternal Data Structures:\n\t    52 StoreEntries\n\t    52 StoreEntries with MemObjects\n\t    17 Hot Object Cache Items\n\t     0 on-disk objects\n")
	var s fwdproxy.Stats
	b.Get(t, "/forward-proxy/stats").Want(t, 200).Into(t, &s)
	want := fwdproxy.Stats{Requests: 20, Hits: 5, HitRate: 0.25, Errors: 3, BytesToClients: 58 << 10, BytesFromServers: 7 << 10, Clients: 2, CacheMemoryBytes: 216 << 10, CacheObjects: 17, UptimeSeconds: 22.553}
	if s != want {
		t.Errorf("%+v", s)
	}
	b.Get(t, "/forward-proxy/stats/history").Want(t, 200)
	b.Machine.Hang(true)
	defer b.Machine.Hang(false)
	b.Get(t, "/forward-proxy/stats").Want(t, 200).Into(t, &s)
	if s.Error != "The forward proxy did not answer in time." {
		t.Errorf("of a squid that hangs: %+v", s)
	}
}

func TestTraffic(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, x := range []struct {
		was, now [4]int64
		want     fwdproxy.Traffic
	}{
		{[4]int64{100, 50, 10 << 10, 1000}, [4]int64{110, 55, 30 << 10, 1000}, fwdproxy.Traffic{At: at, Requests: 2, HitRate: 0.5, Bytes: 4096}},
		// The gateway's own questions are not traffic.
		{[4]int64{100, 50, 10 << 10, 1000}, [4]int64{100, 50, 13 << 10, 1000 + 2300}, fwdproxy.Traffic{At: at}},
		{[4]int64{100, 50, 10 << 10, 1000}, [4]int64{100, 50, 12 << 10, 1000 + 2300}, fwdproxy.Traffic{At: at}},
		// A new process began at zero.
		{[4]int64{100, 50, 90 << 10, 0}, [4]int64{10, 0, 5 << 10, 0}, fwdproxy.Traffic{At: at, Requests: 2, Bytes: 1024}},
	} {
		was, now := fwdproxy.Totals(x.was[0], x.was[1], x.was[2], x.was[3]), fwdproxy.Totals(x.now[0], x.now[1], x.now[2], x.now[3])
		if got := fwdproxy.TrafficFrom(at, was, now, 5); got != x.want {
			t.Errorf("%v, %v: %+v", x.was, x.now, got)
		}
	}
}

// While the database is away, the daemon still follows the machine: an address that returns is among its own again.
func TestFollowsTheMachineWithoutADatabase(t *testing.T) {
	d, server := dbtest.Own(t)
	b := kittest.NewOn(t, d)
	squidRuns(t, b)
	room := fwdproxy.New(b.Kit)
	room.Mount()
	b.Start(t)
	lan := host.Link{Name: "lan0", Index: 2, Addrs: []host.LinkAddr{{Local: "10.10.0.1", PrefixLen: 24}}}
	protects := func() bool { return strings.Contains(file(t, b, squid.DropIn), "acl gateway_own dst 10.10.0.1\n") }
	b.Machine.SetLinks(lan)
	b.Do(t, "admin", http.MethodPut, "/forward-proxy/settings", `{"enabled":true}`).Want(t, 200)
	if !protects() {
		t.Fatalf("the gateway's address is not protected:\n%s", file(t, b, squid.DropIn))
	}
	b.Machine.SetLinks(host.Link{Name: "lan0", Index: 2})
	b.Engine.Refresh(t.Context(), apply.ForwardProxy, false)
	if protects() {
		t.Fatalf("an address that the machine does not have:\n%s", file(t, b, squid.DropIn))
	}
	defer dbtest.Freeze(t, server)()
	b.Machine.SetLinks(lan)
	waittest.Until(t, "the address that is back is protected", protects)
}
