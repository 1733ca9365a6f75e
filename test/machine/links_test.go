package machine

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/lab"
)

// wire connects the gateway and the lan by another cable, with addresses bound by hand, until the test ends.
func (r *rig) wire(t *testing.T, name string) {
	t.Helper()
	r.Run(t, lab.Gateway, "ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", "lan")
	r.Run(t, lab.Lan, "ip", "addr", "add", "10.77.0.2/24", "dev", name)
	r.Run(t, lab.Lan, "ip", "link", "set", name, "up")
	r.Run(t, lab.Gateway, "ip", "link", "set", name, "up")
}

// linkThere reports whether the gateway has an interface.
func (r *rig) linkThere(t *testing.T, name string) bool {
	t.Helper()
	var links []struct {
		Name string `json:"ifname"`
	}
	if err := json.Unmarshal([]byte(r.Run(t, lab.Gateway, "ip", "-j", "link")), &links); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(links, func(l struct {
		Name string `json:"ifname"`
	}) bool {
		return l.Name == name
	})
}

// A bridge forwards packets while it is declared, and is removed afterwards; its port remains.
func linksComeAndGo(t *testing.T, r *rig) {
	r.wire(t, "ext0")
	r.rules(t, fields{"src_zone": "dmz", "dst_zone": "self"})
	through := probe{lab.Lan, "tcp", "10.77.0.1", 7001, ""}
	bridge := r.row(t, "/network-interfaces", fields{"name": "br7", "type": "bridge", "role": "dmz", "members": []string{"ext0"}})
	if !r.linkThere(t, "br7") {
		t.Fatal("there is no bridge")
	}
	address := r.address(t, "br7", "10.77.0.1", 24)
	if got, _ := r.attempt(through, patience); got != "open gateway:7001 10.77.0.2" {
		t.Fatalf("across the bridge: %s", got)
	}
	// The link's zone is that of its rules.
	r.put(t, "/network-interfaces/"+bridge, fields{"role": "mgmt"})
	if got, _ := r.attempt(through, silence); got != silent {
		t.Fatalf("from another zone: %s", got)
	}
	r.put(t, "/network-interfaces/"+bridge, fields{"active": false})
	if r.linkThere(t, "br7") {
		t.Fatal("the bridge is still there though it is not active")
	}
	r.put(t, "/network-interfaces/"+bridge, fields{"active": true, "role": "dmz"})
	if got, _ := r.attempt(through, patience); !strings.HasPrefix(got, open) {
		t.Fatalf("across the bridge again: %s", got)
	}
	r.Must(t, http.MethodDelete, "/ip-addresses/"+address, nil, 200, nil)
	r.Must(t, http.MethodDelete, "/network-interfaces/"+bridge, nil, 200, nil)
	if r.linkThere(t, "br7") || !r.linkThere(t, "ext0") {
		t.Fatalf("the bridge is there: %v, its member: %v", r.linkThere(t, "br7"), r.linkThere(t, "ext0"))
	}
	// An ethernet link is not ours to remove.
	row := r.row(t, "/network-interfaces", fields{"name": "ext0", "type": "ethernet", "role": "dmz"})
	r.Must(t, http.MethodDelete, "/network-interfaces/"+row, nil, 200, nil)
	if !r.linkThere(t, "ext0") {
		t.Fatal("the link went with its row")
	}
	r.Run(t, lab.Gateway, "ip", "link", "delete", "ext0")
}

// Objects that others have added remain, whatever of ours is added and removed.
func foreignStateSurvives(t *testing.T, r *rig) {
	const byHand, beside = "10.10.0.50", "10.10.0.51"
	r.Run(t, lab.Gateway, "ip", "addr", "add", byHand+"/24", "dev", "lan0")
	r.Run(t, lab.Gateway, "ip", "route", "add", "172.30.1.0/24", "via", lan4, "proto", "static")
	r.rules(t, fields{"src_zone": "lan", "dst_zone": "self"})
	hand := func() {
		t.Helper()
		r.expect(t, probe{lab.Lan, "tcp", byHand, 7001, open})
		if got := r.Run(t, lab.Gateway, "ip", "route", "show", "172.30.1.0/24"); !strings.Contains(got, "via "+lan4+" dev lan0 proto static") {
			t.Fatalf("the route that was set by hand: %q", got)
		}
	}
	hand()
	address := r.address(t, "lan0", beside, 24)
	route := r.row(t, "/routes", fields{"destination": "172.30.2.0/24", "gateway": lan4})
	hand()
	r.expect(t, probe{lab.Lan, "tcp", beside, 7001, open})
	if got := r.Run(t, lab.Gateway, "ip", "route", "show", "proto", "250"); !strings.Contains(got, "172.30.2.0/24 via "+lan4+" dev lan0") {
		t.Fatalf("routes of protocol 250: %q", got)
	}
	if got := r.Run(t, lab.Gateway, "ip", "route", "show", "172.30.2.0/24"); !strings.Contains(got, "proto gateway") {
		t.Fatalf("the route has another name: %q", got)
	}
	r.Must(t, http.MethodDelete, "/ip-addresses/"+address, nil, 200, nil)
	r.Must(t, http.MethodDelete, "/routes/"+route, nil, 200, nil)
	r.Must(t, http.MethodPost, "/system/render-configs", nil, 200, nil)
	hand()
	if got := r.Run(t, lab.Gateway, "ip", "route", "show", "proto", "250"); got != "" {
		t.Fatalf("routes of protocol 250 are left: %q", got)
	}
	if got := r.Run(t, lab.Gateway, "ip", "addr", "show", "dev", "lan0"); strings.Contains(got, beside) {
		t.Fatalf("the address is still there:\n%s", got)
	}
	r.Run(t, lab.Gateway, "ip", "route", "del", "172.30.1.0/24")
	r.Run(t, lab.Gateway, "ip", "addr", "del", byHand+"/24", "dev", "lan0")
}

func routes(t *testing.T, r *rig) {
	// Networks behind the machine on the lan.
	for _, address := range []string{"172.31.0.1/32", "fd00:31::1/128"} {
		r.Run(t, lab.Lan, "ip", "addr", "add", address, "dev", "lo")
	}
	r.rules(t, fields{"src_zone": "wan", "dst_zone": "lan"})
	reach := func(want4, want6 string) {
		t.Helper()
		for addr, want := range map[string]string{"172.31.0.1": want4, "fd00:31::1": want6} {
			wait := patience
			if want != open {
				wait = silence
			}
			// Without a route the kernel may say so, or say nothing.
			if got, _ := r.attempt(probe{from: lab.Wan, proto: "tcp", addr: addr, port: 7001}, wait); strings.HasPrefix(got, open) != (want == open) {
				t.Fatalf("%s: %s instead of %s", addr, got, want)
			}
		}
	}
	reach(silent, silent)
	v4 := r.row(t, "/routes", fields{"destination": "172.31.0.0/24", "gateway": lan4, "metric": 5})
	v6 := r.row(t, "/routes", fields{"destination": "fd00:31::/64", "gateway": lan6})
	reach(open, open)
	if x := r.explain(t, probe{from: lab.Wan, proto: "tcp", addr: "172.31.0.1", port: 7001}); x.Verdict != "accept" || x.Path != "forward" {
		t.Errorf("%+v", x)
	}
	r.put(t, "/routes/"+v4, fields{"active": false})
	reach(silent, open)
	if got := r.Run(t, lab.Gateway, "ip", "route", "show", "172.31.0.0/24"); got != "" {
		t.Fatalf("not active, and in the kernel: %q", got)
	}
	r.put(t, "/routes/"+v4, fields{"active": true, "table_name": "77"})
	reach(silent, open) // no packets use that table
	r.Run(t, lab.Gateway, "ip", "rule", "add", "iif", "wan0", "lookup", "77")
	reach(open, open)

	var live []struct {
		Destination, Gateway, Dev string
		Table                     uint32
		Metric                    uint32
		Protocol                  uint8
		ProtocolName              string `json:"protocol_name"`
	}
	r.Must(t, http.MethodGet, "/routes/live", nil, 200, &live)
	tables := map[uint32]bool{}
	found := 0
	for _, x := range live {
		tables[x.Table] = true
		if x.Protocol == 250 && x.ProtocolName == "gateway" && x.Dev == "lan0" &&
			(x.Destination == "172.31.0.0/24" && x.Gateway == lan4 && x.Table == 77 && x.Metric == 5 || x.Destination == "fd00:31::/64" && x.Gateway == lan6 && x.Table == 254) {
			found++
		}
	}
	if found != 2 || !tables[77] || !tables[254] || !tables[255] {
		t.Errorf("%d of our routes are shown, of the tables %v: %+v", found, tables, live)
	}
	r.Run(t, lab.Gateway, "ip", "rule", "del", "iif", "wan0", "lookup", "77")
	r.Must(t, http.MethodDelete, "/routes/"+v4, nil, 200, nil)
	r.Must(t, http.MethodDelete, "/routes/"+v6, nil, 200, nil)
	reach(silent, silent)
	for _, address := range []string{"172.31.0.1/32", "fd00:31::1/128"} {
		r.Run(t, lab.Lan, "ip", "addr", "del", address, "dev", "lo")
	}

	var links []map[string]any
	r.Must(t, http.MethodGet, "/system/interfaces", nil, 200, &links)
	want := []string{"addr_info", "address", "flags", "ifindex", "ifname", "link_type", "mtu", "rx_bytes", "rx_drop", "rx_packets", "tx_bytes", "tx_drop", "tx_packets"}
	for _, link := range links {
		if got := slices.Sorted(maps.Keys(link)); !slices.Equal(got, want) {
			t.Errorf("%v has the fields %v", link["ifname"], got)
		}
	}
	wan := slices.IndexFunc(links, func(l map[string]any) bool { return l["ifname"] == "wan0" })
	if wan < 0 || links[wan]["rx_packets"].(float64) == 0 || !strings.Contains(fmt.Sprint(links[wan]["addr_info"]), gwWan4) {
		t.Errorf("%+v", links)
	}
}

// An interface in use is adopted with its addresses without disturbing a connection.
func adoptionInterruptsNothing(t *testing.T, r *rig) {
	r.wire(t, "ext1")
	r.Run(t, lab.Gateway, "ip", "addr", "add", "10.77.0.1/24", "dev", "ext1")
	r.rules(t, fields{"dst_zone": "self"})
	held := r.hold(t, lab.Lan, net.JoinHostPort("10.77.0.1", "7001"))
	stop, done := make(chan struct{}), make(chan error)
	said := 0
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := say(held, patience); err != nil {
				done <- err
				return
			}
			said++
		}
	}()

	var found []struct {
		Name, Type string
		Role       string `json:"suggested_role"`
		Addresses  []struct {
			Address string
			Prefix  int
		}
	}
	r.Must(t, http.MethodGet, "/network/adoptable", nil, 200, &found)
	if len(found) != 1 || found[0].Name != "ext1" || found[0].Type != "ethernet" || len(found[0].Addresses) != 1 || found[0].Addresses[0].Address != "10.77.0.1" {
		t.Fatalf("%+v", found)
	}
	link := create("network.interface", fields{"name": "ext1", "type": "ethernet", "role": "dmz"})
	address := create("network.ip-address", fields{"interface_id": link.ID, "address": "10.77.0.1", "prefix": 24})
	r.change(t, link, address)
	if r.Must(t, http.MethodGet, "/network/adoptable", nil, 200, &found); len(found) != 0 {
		t.Errorf("still to be adopted: %+v", found)
	}
	if got := r.Run(t, lab.Gateway, "ip", "addr", "show", "dev", "ext1"); strings.Count(got, "10.77.0.1/24") != 1 {
		t.Errorf("the address: %s", got)
	}
	if _, err := say(r.hold(t, lab.Lan, net.JoinHostPort("10.77.0.1", "7001")), patience); err != nil {
		t.Errorf("a new connection: %v", err)
	}
	close(stop)
	if err := <-done; err != nil || said == 0 {
		t.Errorf("the connection that was open, after %d lines: %v", said, err)
	}
	// It is ours now: it is deleted with its row.
	r.change(t, operation{Kind: "network.ip-address", Verb: "delete", ID: address.ID}, operation{Kind: "network.interface", Verb: "delete", ID: link.ID})
	if got := r.Run(t, lab.Gateway, "ip", "addr", "show", "dev", "ext1"); strings.Contains(got, "10.77.0.1") {
		t.Errorf("the address is still there: %s", got)
	}
	r.Run(t, lab.Gateway, "ip", "link", "delete", "ext1")
}
