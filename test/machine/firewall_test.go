package machine

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// families calls with the addresses of each family: of the gateway on the wan side, and of the lan.
func families(do func(gateway, behind string)) {
	do(gwWan4, lan4)
	do(gwWan6, lan6)
}

func defaultDrop(t *testing.T, r *rig) {
	source := map[string]string{gwWan4: wan4, lan4: wan4, gwWan6: wan6, lan6: wan6}
	var all []probe
	families(func(gateway, behind string) {
		for _, proto := range []string{"tcp", "udp"} {
			for _, addr := range []string{gateway, behind} {
				p := probe{lab.Wan, proto, addr, 7001, silent}
				got, local := r.attempt(p, silence)
				if got != silent {
					t.Fatalf("%s: %s", p, got)
				}
				want := event{Action: "drop", Chain: "input", Proto: proto, Source: source[addr], Destination: addr, SourcePort: local, DestinationPort: 7001, Interface: "wan0"}
				if addr == behind {
					want.Chain, want.OutInterface = "forward", "lan0"
				}
				r.logged(t, want)
				all = append(all, p)
			}
		}
		all = append(all, probe{lab.Wan, "icmp", gateway, 0, silent}, probe{lab.Wan, "icmp", behind, 0, silent})
	})
	r.expect(t, all...)

	// An event of a rule, which is not rate-limited, follows those of the burst: then the log has them all.
	sentinel := r.rules(t, fields{"dst_zone": "self", "service_object_id": r.service(t, "udp", 7002), "log": true})[0]
	var local int
	err := r.Within(lab.Wan, func() error {
		conn, err := net.Dial("udp", gwWan4+":7001")
		if err != nil {
			return err
		}
		defer conn.Close()
		local = conn.LocalAddr().(*net.UDPAddr).Port
		for range 200 {
			if _, err := conn.Write([]byte("x")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.expect(t, probe{lab.Wan, "udp", gwWan4, 7002, open})
	waittest.Until(t, "the sentinel is logged", func() bool { return len(r.log(t, "rule_id="+sentinel)) > 0 })
	count := 0
	for _, e := range r.log(t, "limit=1000") {
		if e.SourcePort == local && e.DestinationPort == 7001 {
			count++
		}
	}
	if count == 0 || count > 100 { // the limit is per second, and a busy machine takes longer to send them
		t.Errorf("of 200 dropped packets %d were logged", count)
	}
	t.Logf("of 200 dropped packets %d were logged", count)

	r.rules(t, fields{})
	for i := range all {
		all[i].want = open
	}
	r.expect(t, all...)
}

func acceptByZonePair(t *testing.T, r *rig) {
	rule := r.rules(t, fields{"src_zone": "lan", "dst_zone": "wan"})[0]
	var out, others []probe
	for _, proto := range []string{"tcp", "udp"} {
		out = append(out, probe{lab.Lan, proto, wan4, 7001, "open wan:7001 " + lan4}, probe{lab.Lan, proto, wan6, 7001, "open wan:7001 " + lan6})
		others = append(others, probe{lab.Wan, proto, lan4, 7001, silent}, probe{lab.Wan, proto, lan6, 7001, silent}, probe{lab.Lan, proto, gwLan4, 7001, silent})
	}
	r.expect(t, append(out, others...)...)
	held := r.hold(t, lab.Lan, net.JoinHostPort(wan4, "7001"))
	if _, err := say(held, patience); err != nil {
		t.Fatal(err)
	}
	r.put(t, "/firewall/rules/"+rule, fields{"enabled": false})
	for i := range out {
		out[i].want = silent
	}
	r.expect(t, out...)
	if got, err := say(held, patience); err != nil {
		t.Errorf("the connection that was open: %s %v", got, err)
	}
	r.put(t, "/firewall/rules/"+rule, fields{"enabled": true})
	r.expect(t, probe{lab.Lan, "tcp", wan4, 7001, open})
}

func dropAndReject(t *testing.T, r *rig) {
	r.rules(t,
		fields{"service_object_id": r.service(t, "tcp+udp", 7001), "action": "drop"},
		fields{"service_object_id": r.service(t, "tcp+udp", 7002), "action": "reject"},
		fields{})
	var all []probe
	families(func(gateway, behind string) {
		for _, addr := range []string{gateway, behind} {
			for _, proto := range []string{"tcp", "udp"} {
				all = append(all, probe{lab.Wan, proto, addr, 7001, silent}, probe{lab.Wan, proto, addr, 7002, refused},
					probe{lab.Wan, proto, addr, 7003, open}, probe{lab.Wan, proto, addr, nobody, closed})
			}
		}
	})
	r.expect(t, all...)
}

func noLockout(t *testing.T, r *rig) {
	says := func(port string) func(netip.AddrPort) string {
		return func(seen netip.AddrPort) string { return "gateway" + port + " " + seen.Addr().String() + "\n" }
	}
	r.listen(t, lab.Gateway, ":22", says(":22"))
	for _, address := range []string{gwWan4, gwWan6} {
		r.listenUDP(t, lab.Gateway, net.JoinHostPort(address, "443"), says(":443")) // the reverse proxy answers on tcp
	}
	first := func(service string) fields {
		return fields{"priority": -1000, "action": "drop", "service_object_id": service}
	}
	r.rules(t, first(r.service(t, "tcp", 22)), first(r.service(t, "tcp", 443)), first(r.service(t, "udp", 443)), first(r.service(t, "tcp+udp", 3443)),
		fields{"priority": -999, "action": "drop"}, fields{})
	var all []probe
	families(func(gateway, behind string) {
		all = append(all, probe{lab.Wan, "tcp", gateway, 22, "open gateway:22"}, probe{lab.Wan, "tcp", gateway, 443, open},
			probe{lab.Wan, "udp", gateway, 443, "open gateway:443"}, probe{lab.Wan, "tcp", gateway, 3443, open},
			// The rules do drop everything else.
			probe{lab.Wan, "udp", gateway, 3443, silent}, probe{lab.Wan, "tcp", gateway, 7001, silent}, probe{lab.Wan, "tcp", behind, 22, silent})
	})
	r.expect(t, all...)
}

func whereARuleApplies(t *testing.T, r *rig) {
	rule := r.rules(t, fields{"src_zone": "wan"})[0]
	for _, x := range []struct{ zone, gateway, behind string }{{"any", open, open}, {"self", open, silent}, {"lan", silent, open}, {"dmz", silent, silent}} {
		r.put(t, "/firewall/rules/"+rule, fields{"dst_zone": x.zone})
		var all []probe
		families(func(gateway, behind string) {
			all = append(all, probe{lab.Wan, "tcp", gateway, 7001, x.gateway}, probe{lab.Wan, "udp", behind, 7001, x.behind})
		})
		// From the lan the rule lets nothing pass.
		r.expect(t, append(all, probe{lab.Lan, "tcp", gwLan4, 7001, silent}, probe{lab.Lan, "tcp", wan6, 7001, silent})...)
	}
}

func sources(t *testing.T, r *rig) {
	object := func(kind, value string) string {
		return r.row(t, "/firewall/address-objects", fields{"name": kind + " " + value, "kind": kind, "value": value})
	}
	group := r.row(t, "/firewall/address-groups", fields{"name": "of wan", "members": []string{object("range", "198.51.100.2-198.51.100.9"), object("network", "2001:db8:1::/64")}})
	empty := r.row(t, "/firewall/address-groups", fields{"name": "empty"})
	port := func(n int, rule fields) fields {
		rule["service_object_id"] = r.service(t, "tcp", n)
		return rule
	}
	r.rules(t,
		port(7001, fields{"src_kind": "cidr", "src_cidr": "198.51.100.0/24"}),
		port(7002, fields{"src_kind": "object", "src_object_id": object("host", wan6)}),
		port(7003, fields{"src_kind": "group", "src_group_id": group}),
		port(7004, fields{"src_kind": "cidr", "src_cidr": "10.10.0.0/24"}),
		port(7005, fields{"dst_kind": "cidr", "dst_cidr": gwLan4 + "/32"}),
		port(7006, fields{"src_kind": "group", "src_group_id": empty}))
	r.expect(t,
		probe{lab.Wan, "tcp", gwWan4, 7001, open}, probe{lab.Wan, "tcp", gwWan6, 7001, silent}, probe{lab.Lan, "tcp", gwLan4, 7001, silent},
		probe{lab.Wan, "tcp", gwWan6, 7002, open}, probe{lab.Wan, "tcp", gwWan4, 7002, silent}, probe{lab.Lan, "tcp", gwLan6, 7002, silent},
		probe{lab.Wan, "tcp", gwWan4, 7003, open}, probe{lab.Wan, "tcp", lan6, 7003, open}, probe{lab.Lan, "tcp", gwLan4, 7003, silent},
		probe{lab.Lan, "tcp", wan4, 7004, open}, probe{lab.Lan, "tcp", gwLan6, 7004, silent}, probe{lab.Wan, "tcp", gwWan4, 7004, silent},
		probe{lab.Lan, "tcp", gwLan4, 7005, open}, probe{lab.Lan, "tcp", wan4, 7005, silent}, probe{lab.Wan, "tcp", gwWan4, 7005, silent},
		probe{lab.Wan, "tcp", gwWan4, 7006, silent}, probe{lab.Lan, "tcp", gwLan6, 7006, silent})
}

// nameserver answers for the names that it knows, and fails for the others.
type nameserver struct {
	mu    sync.Mutex
	names map[string][]netip.Addr // no addresses: the name does not exist
}

func (n *nameserver) set(name string, addrs ...netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = addrs
}

func (n *nameserver) fail(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.names, name)
}

// answer builds the answer to a query: the query's header and question with other flags, and the requested addresses.
func (n *nameserver) answer(query []byte) []byte {
	const header, a, aaaa = 12, 1, 28
	name, at := "", header
	for at < len(query) && query[at] != 0 {
		next := at + 1 + int(query[at])
		if next >= len(query) {
			return nil
		}
		name += string(query[at+1:next]) + "."
		at = next
	}
	if len(query) < at+5 {
		return nil
	}
	kind := int(query[at+2])
	reply := bytes.Clone(query[:at+5])
	copy(reply[2:], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
	n.mu.Lock()
	addrs, known := n.names[strings.TrimSuffix(name, ".")]
	n.mu.Unlock()
	switch {
	case !known:
		reply[3] |= 2 // server failure
	case len(addrs) == 0:
		reply[3] |= 3 // no such name
	}
	for _, ip := range addrs {
		if want := map[bool]int{true: a, false: aaaa}[ip.Is4()]; want == kind {
			reply[7]++
			reply = append(reply, 0xc0, header, 0, byte(kind), 0, 1, 0, 0, 0, 60, 0, byte(ip.BitLen()/8))
			reply = append(reply, ip.AsSlice()...)
		}
	}
	return reply
}

func (n *nameserver) serve(conn net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		size, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if reply := n.answer(buf[:size]); reply != nil {
			_, _ = conn.WriteTo(reply, from)
		}
	}
}

func namesFollowTheDNS(t *testing.T, r *rig) {
	dns := &nameserver{names: map[string][]netip.Addr{}}
	err := r.Within(lab.Wan, func() error {
		conn, err := net.ListenPacket("udp", wan4+":53")
		if err != nil {
			return err
		}
		t.Cleanup(func() { conn.Close() })
		go dns.serve(conn)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	resolved := func(id string) string {
		var object struct{ Resolved []string }
		r.Must(t, http.MethodGet, "/firewall/address-objects/"+id, nil, 200, &object)
		return strings.Join(object.Resolved, " ")
	}
	rounds := 0
	// again resolves every name once more, and returns when that is done: a new name triggers it at once, and
	// the answers of one round are stored together. Its own name sorts last.
	again := func() {
		t.Helper()
		rounds++
		name := fmt.Sprintf("z%d.lab.test", rounds)
		dns.set(name, netip.MustParseAddr("192.0.2.1"))
		id := r.row(t, "/firewall/address-objects", fields{"name": name, "kind": "fqdn", "value": name})
		waittest.Until(t, name+" is resolved", func() bool { return resolved(id) == "192.0.2.1" })
		r.WaitState(t, "packet-filter", "live", patience)
	}
	const name = "client.lab.test"
	dns.set(name, netip.MustParseAddr(wan4), netip.MustParseAddr(wan6))
	object := r.row(t, "/firewall/address-objects", fields{"name": name, "kind": "fqdn", "value": name})
	rule := r.rules(t, fields{"src_kind": "object", "src_object_id": object})[0]
	wan := func(v4, v6, lan string) {
		t.Helper()
		r.expect(t, probe{lab.Wan, "tcp", gwWan4, 7001, v4}, probe{lab.Wan, "tcp", gwWan6, 7001, v6}, probe{lab.Wan, "udp", lan4, 7001, v4}, probe{lab.Lan, "tcp", gwLan4, 7001, lan})
	}
	again()
	wan(open, open, silent)
	dns.set(name, netip.MustParseAddr(wan6), netip.MustParseAddr(lan4))
	again()
	wan(silent, open, open)
	dns.fail(name)
	again()
	if got := resolved(object); got != lan4+" "+wan6 {
		t.Errorf("after a failure: %q", got)
	}
	wan(silent, open, open)
	dns.set(name) // that there is no such name is an answer
	again()
	wan(silent, silent, silent)
	r.put(t, "/firewall/rules/"+rule, fields{"src_kind": "any", "src_object_id": nil})
	wan(open, open, open)
}

func services(t *testing.T, r *rig) {
	group := r.row(t, "/firewall/service-groups", fields{"name": "a few", "members": []string{r.service(t, "udp", 7005), r.service(t, "tcp", 7006)}})
	r.rules(t,
		fields{"service_object_id": r.service(t, "tcp", 7001, 7003)},
		fields{"service_object_id": r.service(t, "tcp+udp", 7004)},
		fields{"service_group_id": group})
	echo := r.rules(t, fields{"service_object_id": r.service(t, "icmp")})[0]
	var all []probe
	families(func(gateway, behind string) {
		for _, addr := range []string{gateway, behind} {
			all = append(all,
				probe{lab.Wan, "tcp", addr, 7001, open}, probe{lab.Wan, "tcp", addr, 7002, open}, probe{lab.Wan, "tcp", addr, 7003, open}, probe{lab.Wan, "udp", addr, 7002, silent},
				probe{lab.Wan, "tcp", addr, 7004, open}, probe{lab.Wan, "udp", addr, 7004, open},
				probe{lab.Wan, "udp", addr, 7005, open}, probe{lab.Wan, "tcp", addr, 7005, silent},
				probe{lab.Wan, "tcp", addr, 7006, open}, probe{lab.Wan, "udp", addr, 7006, silent})
		}
	})
	r.expect(t, append(all, probe{lab.Wan, "icmp", gwWan4, 0, open}, probe{lab.Wan, "icmp", lan4, 0, open}, probe{lab.Wan, "icmp", gwWan6, 0, silent}, probe{lab.Wan, "icmp", lan6, 0, silent})...)
	r.put(t, "/firewall/rules/"+echo, fields{"service_object_id": r.service(t, "icmpv6")})
	r.expect(t, probe{lab.Wan, "icmp", gwWan4, 0, silent}, probe{lab.Wan, "icmp", lan4, 0, silent}, probe{lab.Wan, "icmp", gwWan6, 0, open}, probe{lab.Wan, "icmp", lan6, 0, open})
}

func firstMatch(t *testing.T, r *rig) {
	service := r.service(t, "tcp", 7001)
	ids := r.rules(t, fields{"service_object_id": service}, fields{"service_object_id": service, "action": "drop"}, fields{"src_zone": "wan", "action": "reject"})
	for _, x := range []struct {
		order []int
		want  string
	}{{[]int{0, 1, 2}, open}, {[]int{1, 0, 2}, silent}, {[]int{2, 1, 0}, refused}, {[]int{0, 2, 1}, open}} {
		var order []string
		for _, i := range x.order {
			order = append(order, ids[i])
		}
		r.Must(t, http.MethodPost, "/firewall/rules/reorder", fields{"ids": order}, 200, nil)
		r.expect(t, probe{lab.Wan, "tcp", gwWan4, 7001, x.want}, probe{lab.Wan, "tcp", lan6, 7001, x.want}, probe{lab.Wan, "tcp", lan6, 7002, refused})
		// The rule that is first in order decides, by name.
		if x := r.explain(t, probe{from: lab.Wan, proto: "tcp", addr: gwWan4, port: 7001}); x.DecidedBy.RuleID != order[0] {
			t.Errorf("decided by %+v, first is %s", x.DecidedBy, order[0])
		}
	}
}

func destinationNAT(t *testing.T, r *rig) {
	closedBefore := []probe{{lab.Wan, "tcp", gwWan4, 8080, silent}, {lab.Wan, "tcp", gwWan6, 8080, silent}, {lab.Wan, "udp", gwWan4, 8102, silent}}
	r.expect(t, closedBefore...)
	r.nat(t,
		fields{"kind": "dnat", "in_zone": "wan", "dst_port": 8080, "target_address": lan4, "target_port": 7001},
		fields{"kind": "dnat", "in_zone": "wan", "dst_port": 8080, "target_address": lan6, "target_port": 7001},
		fields{"kind": "dnat", "in_zone": "wan", "dst_port": 8101, "dst_port_end": 8105, "target_address": lan4, "target_port": 7001, "target_port_end": 7005, "protocol": "tcp+udp"},
		fields{"kind": "dnat", "in_zone": "wan", "dst_port": 8101, "dst_port_end": 8105, "target_address": lan6, "target_port": 7001, "target_port_end": 7005},
		fields{"kind": "dnat", "in_zone": "wan", "dst_cidr": "203.0.113.0/24", "dst_port": 8200, "target_address": lan4, "target_port": 7002})
	all := []probe{
		{lab.Wan, "tcp", gwWan4, 8080, "open lan:7001 " + wan4}, {lab.Wan, "tcp", gwWan6, 8080, "open lan:7001 " + wan6},
		{lab.Lan, "tcp", gwLan4, 8080, silent}, // it arrives from another zone
		{lab.Wan, "udp", gwWan4, 8080, silent}, // and this by another protocol
		{lab.Wan, "tcp", "203.0.113.9", 8200, "open lan:7002 " + wan4}, {lab.Wan, "tcp", gwWan4, 8200, silent},
		{lab.Wan, "tcp", lan4, 7001, silent}, // only what was redirected passes
		{lab.Wan, "tcp", gwWan4, 8106, silent},
	}
	for n := 1; n <= 5; n++ {
		all = append(all, probe{lab.Wan, "tcp", gwWan4, 8100 + n, fmt.Sprintf("open lan:%d", 7000+n)}, probe{lab.Wan, "udp", gwWan4, 8100 + n, fmt.Sprintf("open lan:%d", 7000+n)},
			probe{lab.Wan, "tcp", gwWan6, 8100 + n, fmt.Sprintf("open lan:%d", 7000+n)})
	}
	r.expect(t, all...)
	if x := r.explain(t, all[0]); x.Path != "forward" || x.Packet.Destination != lan4 || x.Packet.DestinationPort == nil || *x.Packet.DestinationPort != 7001 {
		t.Errorf("%+v", x)
	}
	// Packets for other addresses are not changed: they reach their destination, where nothing listens.
	r.rules(t, fields{"src_zone": "wan", "dst_zone": "lan"})
	r.expect(t, probe{lab.Wan, "tcp", lan4, 8080, closed}, probe{lab.Wan, "tcp", lan6, 8080, closed}, probe{lab.Wan, "tcp", lan4, 7001, "open lan:7001"},
		probe{lab.Wan, "tcp", gwLan4, 8080, "open lan:7001"})
}

func sourceNAT(t *testing.T, r *rig) {
	r.rules(t, fields{"src_zone": "lan", "dst_zone": "wan"})
	sees := func(v4, v6 string) {
		t.Helper()
		var all []probe
		for _, proto := range []string{"tcp", "udp"} {
			all = append(all, probe{lab.Lan, proto, wan4, 7001, "open wan:7001 " + v4}, probe{lab.Lan, proto, wan6, 7001, "open wan:7001 " + v6})
		}
		r.expect(t, all...)
		if x := r.explain(t, all[0]); x.Packet.Source != v4 {
			t.Errorf("explained as %+v", x)
		}
	}
	sees(lan4, lan6)
	masquerade := r.nat(t, fields{"kind": "masquerade", "out_zone": "wan", "protocol": "any"})[0]
	sees(gwWan4, gwWan6)
	// Not in the same network: which of two addresses in one network masquerading uses is up to the kernel.
	const other4, other6 = "198.51.100.77", "2001:db8:77::1"
	addresses := []string{r.address(t, "wan0", other4, 24), r.address(t, "wan0", other6, 64)}
	ids := r.nat(t,
		fields{"kind": "snat", "out_zone": "wan", "protocol": "any", "src_cidr": "10.10.0.0/24", "target_address": other4},
		fields{"kind": "snat", "out_zone": "wan", "protocol": "any", "target_address": other6})
	sees(gwWan4, gwWan6) // the first decides
	r.Must(t, http.MethodPost, "/nat-rules/reorder", fields{"ids": append(ids, masquerade)}, 200, nil)
	sees(other4, other6)
	r.put(t, "/nat-rules/"+ids[0], fields{"src_cidr": "10.99.0.0/24"})
	sees(gwWan4, other6)
	r.slate(t)
	for _, id := range addresses {
		r.Must(t, http.MethodDelete, "/ip-addresses/"+id, nil, 200, nil)
	}
}

func countersAndLog(t *testing.T, r *rig) {
	ids := r.rules(t,
		fields{"service_object_id": r.service(t, "udp", 7001), "action": "drop", "log": true},
		fields{"service_object_id": r.service(t, "tcp", 7002), "log": true, "dst_zone": "self"},
		fields{"service_object_id": r.service(t, "udp", 7003), "action": "reject", "log": true},
		fields{"service_object_id": r.service(t, "udp", 7004), "action": "drop"})
	count := func(id string) (packets, bytes int) {
		var list []struct {
			RuleID         string `json:"rule_id"`
			Packets, Bytes int
		}
		r.Must(t, http.MethodGet, "/firewall/counters", nil, 200, &list)
		if len(list) != len(ids) {
			t.Fatalf("%d counters for %d rules", len(list), len(ids))
		}
		for _, x := range list {
			if x.RuleID == id {
				return x.Packets, x.Bytes
			}
		}
		t.Fatalf("no counter of %s in %+v", id, list)
		return 0, 0
	}
	const sent, payload = 37, 100
	for _, x := range []struct{ addr, port string }{{gwWan4, "7001"}, {lan6, "7001"}, {gwWan4, "7004"}} {
		err := r.Within(lab.Wan, func() error {
			conn, err := net.Dial("udp", net.JoinHostPort(x.addr, x.port))
			if err != nil {
				return err
			}
			defer conn.Close()
			for range sent {
				if _, err := conn.Write(make([]byte, payload)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var all []probe
	for range 5 {
		all = append(all, probe{lab.Wan, "tcp", gwWan4, 7002, open})
	}
	r.expect(t, append(all, probe{lab.Wan, "udp", lan4, 7003, refused}, probe{lab.Wan, "udp", gwWan6, 7003, refused})...)
	// Only a connection's first packet passes the rules; the others are established.
	want := map[string]int{ids[0]: 2 * sent, ids[1]: 5, ids[2]: 2, ids[3]: sent}
	for id, n := range want {
		waittest.UntilNil(t, fmt.Sprintf("rule %s has counted %d packets", id, n), func() error {
			if got, _ := count(id); got < n {
				return fmt.Errorf("%d are counted", got)
			}
			return nil
		})
		if got, _ := count(id); got != n {
			t.Errorf("rule %s has counted %d packets instead of %d", id, got, n)
		}
	}
	if _, bytes := count(ids[3]); bytes != sent*(payload+28) {
		t.Errorf("%d bytes were counted instead of %d", bytes, sent*(payload+28))
	}

	waittest.Until(t, "the events are in the log", func() bool { return len(r.log(t, "rule_id="+ids[2])) == 2 }) // sent last
	for _, x := range []struct {
		query string
		want  int
	}{
		{"rule_id=" + ids[0], 2 * sent},
		{"rule_id=" + ids[0] + "&dst=" + gwWan4, sent},
		{"rule_id=" + ids[0] + "&dst=" + lan6 + "&proto=udp&src=" + wan6, sent},
		{"rule_id=" + ids[0] + "&dst=" + lan6 + "&src=" + wan4, 0},
		{"rule_id=" + ids[0] + "&limit=7", 7},
		{"rule_id=" + ids[0] + "&action=accept", 0},
		{"rule_id=" + ids[1] + "&action=accept&proto=tcp", 5},
		{"rule_id=" + ids[1] + "&proto=udp", 0},
		{"rule_id=" + ids[2] + "&action=reject", 2},
		{"rule_id=" + ids[3], 0}, // it does not log
	} {
		if got := len(r.log(t, x.query)); got != x.want {
			t.Errorf("%s finds %d events instead of %d", x.query, got, x.want)
		}
	}
	e := r.log(t, "limit=1&rule_id="+ids[0]+"&dst="+lan6)[0]
	if e.SourcePort = 0; e != (event{RuleID: ids[0], Action: "drop", Proto: "udp", Source: wan6, Destination: lan6, DestinationPort: 7001, Interface: "wan0", OutInterface: "lan0"}) {
		t.Errorf("%+v", e)
	}
}

// address has the gateway bind an address, and answers the id of its row.
func (r *rig) address(t *testing.T, link, address string, prefix int) string {
	t.Helper()
	return r.row(t, "/ip-addresses", fields{"interface_id": r.link(t, link), "address": address, "prefix": prefix})
}

// link is the id of an interface.
func (r *rig) link(t *testing.T, name string) string {
	t.Helper()
	var list []struct{ ID, Name string }
	r.Must(t, http.MethodGet, "/network-interfaces", nil, 200, &list)
	for _, i := range list {
		if i.Name == name {
			return i.ID
		}
	}
	t.Fatalf("no interface %s in %+v", name, list)
	return ""
}

func timeServiceOpening(t *testing.T, r *rig) {
	const second = "10.10.0.77"
	row := r.address(t, "lan0", second, 24)
	set := func(settings fields) {
		t.Helper()
		a := r.Must(t, http.MethodPut, "/ntp/settings", settings, 200, nil)
		if got := a.Header.Get("Gateway-Apply"); got != "ntp=live, packet-filter=live" {
			t.Fatalf("Gateway-Apply: %s", got)
		}
	}
	times := func(lan, other, wan string) []probe {
		return []probe{{lab.Lan, "udp", gwLan4, 123, lan}, {lab.Lan, "udp", second, 123, other}, {lab.Wan, "udp", gwWan4, 123, wan}, {lab.Lan, "udp", gwLan6, 123, silent}}
	}
	// With two addresses of a family the daemon listens on all: clients that the packet filter denies would be answered.
	set(fields{"serve_clients": true, "listen_addresses": []string{gwLan4, second}, "allow_acl": []string{"0.0.0.0/0", "::/0"}})
	r.expect(t, times(open, open, silent)...)
	rule := r.rules(t, fields{"dst_zone": "self", "src_zone": "wan"})[0]
	r.expect(t, times(open, open, open)...)
	r.Must(t, http.MethodDelete, "/firewall/rules/"+rule, nil, 200, nil)
	r.expect(t, times(open, open, silent)...)
	set(fields{"listen_addresses": []string{gwLan4}})
	r.expect(t, times(open, silent, silent)...)
	set(fields{"listen_addresses": []string{"127.0.0.1"}})
	r.expect(t, times(silent, silent, silent)...)
	set(fields{"listen_addresses": []string{gwLan4}})
	r.expect(t, times(open, silent, silent)...)
	set(fields{"serve_clients": false})
	r.expect(t, times(silent, silent, silent)...)
	r.Must(t, http.MethodDelete, "/ip-addresses/"+row, nil, 200, nil)
}

// A question about the requester's own connection is answered with how it came in.
func explainMine(t *testing.T, r *rig) {
	o := newOperator(t, r.Lab, lab.Lan, gwLan4)
	r.rules(t, fields{"action": "drop", "priority": -1000})
	for address, source := range map[string]string{gwLan4: lan4, gwLan6: lan6} {
		x := o.explainMine(t, address)
		if x.Verdict != "accept" || x.Path != "input" || x.InInterface != "lan0" || x.InZone != "lan" || x.DecidedBy.Kind != "automatic" || x.Packet.Source != source || x.Packet.Destination != address {
			t.Errorf("%+v", x)
		}
	}
}

// operator is an admin who uses the management port from one side of the gateway.
type operator struct {
	client http.Client
	token  string
}

func newOperator(t *testing.T, l *labtest.Lab, side lab.Side, gateway string) *operator {
	t.Helper()
	const email, password = "operator@example.net", "a horse on the network"
	l.Must(t, http.MethodPost, "/users", fields{"email": email, "password": password, "role": "admin"}, 201, nil)
	o := &operator{client: http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the gateway's certificate is self-signed
		DialContext: func(_ context.Context, network, address string) (conn net.Conn, err error) {
			err = l.Within(side, func() (err error) {
				conn, err = net.DialTimeout(network, address, patience)
				return err
			})
			return conn, err
		},
	}}}
	t.Cleanup(o.client.CloseIdleConnections)
	var login struct{ Token string }
	o.ask(t, gateway, "/auth/login", fields{"email": email, "password": password, "issue_token": true}, &login)
	o.token = login.Token
	return o
}

func (o *operator) ask(t *testing.T, gateway, path string, body fields, into any) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+net.JoinHostPort(gateway, "3443")+"/api/v1"+path, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if o.token != "" {
		req.Header.Set("Authorization", "Bearer "+o.token)
	}
	res, err := o.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	envelope := struct{ Data any }{into}
	if err := json.NewDecoder(res.Body).Decode(&envelope); err != nil || res.StatusCode != 200 {
		t.Fatalf("%s: %d %v", path, res.StatusCode, err)
	}
}

type mine struct {
	explanation
	InInterface string `json:"in_interface"`
	InZone      string `json:"in_zone"`
}

// explainMine returns what happens to the operator's own connection, after operations if there are any.
func (o *operator) explainMine(t *testing.T, gateway string, operations ...fields) (x mine) {
	t.Helper()
	o.ask(t, gateway, "/firewall/explain", fields{"mine": true, "operations": operations}, &x)
	return x
}
