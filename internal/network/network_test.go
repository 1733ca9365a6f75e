package network_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/network"
)

// elsewhere is a test double for Deps.VIPsElsewhere.
type elsewhere bool

func bench(t *testing.T, vips ...elsewhere) (*kittest.Bench, *network.Room) {
	t.Helper()
	b := kittest.New(t)
	links := []host.Link{{Index: 1, Name: "lo", Kind: "device", Type: "loopback", Flags: []string{"UP"}}}
	for i := range 4 {
		links = append(links, host.Link{Index: i + 2, Name: fmt.Sprintf("eth%d", i), Kind: "device", Type: "ether", MTU: 1500, Flags: []string{"UP", "LOWER_UP"}, AcceptRA: 1})
	}
	b.Machine.SetLinks(links...)
	b.Machine.SetFilter(host.FilterState{Present: true}, "")
	b.Machine.SetRouteTables(map[string]uint32{"main": 254, "local": 255, "default": 253, "isp": 100, "trap": 255})
	room := network.New(b.Kit, network.Deps{VIPsElsewhere: func(context.Context, db.Querier) (bool, error) { return len(vips) > 0, nil }})
	room.Mount()
	b.Resources.MountChangeSets()
	b.Start(t)
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatalf("not live at start: %v", failed)
	}
	return b, room
}

func make1(t *testing.T, b *kittest.Bench, path, body string) string {
	t.Helper()
	var row struct{ ID string }
	a := b.Do(t, "admin", http.MethodPost, path, body).Want(t, 201)
	a.Into(t, &row)
	if location := a.Header.Get("Location"); !strings.HasSuffix(location, "/"+row.ID) || b.Get(t, strings.TrimPrefix(location, "/api/v1")).Status != 200 {
		t.Fatalf("%s leads nowhere", location)
	}
	return row.ID
}

func TestNE01BadInterfaces(t *testing.T) {
	b, _ := bench(t)
	make1(t, b, "/network-interfaces", `{"name":"eth0","type":"ethernet","role":"lan"}`)
	wg := make1(t, b, "/network-interfaces", `{"name":"wg0","type":"wireguard","role":"lan"}`)
	br := make1(t, b, "/network-interfaces", `{"name":"br0","type":"bridge","role":"lan","members":["eth1"]}`)
	addressed := make1(t, b, "/network-interfaces", `{"name":"eth3","type":"ethernet","role":"lan"}`)
	make1(t, b, "/ip-addresses", `{"interface_id":"`+addressed+`","address":"10.0.0.1","prefix":24}`)
	rows := b.Rows(t, "network_interfaces")
	for body, field := range map[string]string{
		`{"name":"v","type":"vlan","role":"lan","vlan_id":5}`:                                    "parent",
		`{"name":"v","type":"vlan","role":"lan","parent":"eth0"}`:                                "vlan_id",
		`{"name":"v","type":"vlan","role":"lan","parent":"eth0","vlan_id":0}`:                    "vlan_id",
		`{"name":"v","type":"vlan","role":"lan","parent":"eth0","vlan_id":4095}`:                 "vlan_id",
		`{"name":"v","type":"vlan","role":"lan","parent":"eth0","vlan_id":-1}`:                   "vlan_id",
		`{"name":"v","type":"vlan","role":"lan","parent":"eth0","vlan_id":5,"members":["eth1"]}`: "members",
		`{"name":"v","type":"vlan","role":"lan","parent":"v","vlan_id":5}`:                       "parent",
		`{"name":"v","type":"vlan","role":"lan","parent":"nowhere","vlan_id":5}`:                 "parent",
		`{"name":"v","type":"vlan","role":"lan","parent":"wg0","vlan_id":5}`:                     "parent",
		`{"name":"v","type":"vlan","role":"lan","parent":"lo","vlan_id":5}`:                      "parent",
		`{"name":"b","type":"bridge","role":"lan"}`:                                              "members",
		`{"name":"b","type":"bond","role":"lan","members":[]}`:                                   "members",
		`{"name":"b","type":"bridge","role":"lan","members":["b"]}`:                              "members",
		`{"name":"b","type":"bridge","role":"lan","members":["eth2","eth2"]}`:                    "members",
		`{"name":"b","type":"bridge","role":"lan","members":["nowhere"]}`:                        "members",
		`{"name":"b","type":"bridge","role":"lan","members":["eth1"]}`:                           "members",
		`{"name":"b","type":"bridge","role":"lan","members":["eth3"]}`:                           "members",
		`{"name":"b","type":"bridge","role":"lan","members":["br0"]}`:                            "members",
		`{"name":"b","type":"bridge","role":"lan","members":["wg0"]}`:                            "members",
		`{"name":"b","type":"bridge","role":"lan","members":["lo"]}`:                             "members",
		`{"name":"b","type":"bridge","role":"lan","members":["eth2"],"parent":"eth0"}`:           "parent",
		`{"name":"b","type":"bridge","role":"lan","members":["eth2"],"bond_mode":"802.3ad"}`:     "bond_mode",
		`{"name":"b","type":"bond","role":"lan","members":["eth2"],"bond_mode":"fastest"}`:       "bond_mode",
		`{"name":"eth2","type":"ethernet","role":"lan","parent":"eth0"}`:                         "parent",
		`{"name":"eth2","type":"ethernet","role":"lan","vlan_id":5}`:                             "vlan_id",
		`{"name":"eth2","type":"ethernet","role":"lan","members":["eth1"]}`:                      "members",
		`{"name":"eth2","type":"ethernet","role":"lan","bond_mode":"802.3ad"}`:                   "bond_mode",
		`{"name":"wg1","type":"wireguard","role":"lan","parent":"eth0"}`:                         "parent",
		`{"name":"wg1","type":"wireguard","role":"lan","members":["eth0"]}`:                      "members",
		`{"name":"eth1","type":"wireguard","role":"lan"}`:                                        "type",
		`{"name":"eth2","type":"ethernet","role":"nozone"}`:                                      "role",
		`{"name":"eth2","type":"ethernet","role":"any"}`:                                         "role",
		`{"name":"eth2","type":"ethernet","role":"self"}`:                                        "role",
		`{"name":"eth2","type":"ethernet","role":"lan\"; drop"}`:                                 "role",
		`{"name":"eth2","type":"ethernet"}`:                                                      "role",
		`{"name":"eth2","role":"lan"}`:                                                           "type",
		`{"name":"eth2","type":"dummy","role":"lan"}`:                                            "type",
		`{"type":"ethernet","role":"lan"}`:                                                       "name",
		`{"name":"lo","type":"ethernet","role":"lan"}`:                                           "name",
		`{"name":"../../etc","type":"ethernet","role":"lan"}`:                                    "name",
		`{"name":"eth0 up; reboot","type":"ethernet","role":"lan"}`:                              "name",
		`{"name":"-j","type":"ethernet","role":"lan"}`:                                           "name",
		`{"name":"eth2\u0000","type":"ethernet","role":"lan"}`:                                   "name",
		`{"name":"sixteencharacter","type":"ethernet","role":"lan"}`:                             "name",
		`{"name":"eth2","type":"ethernet","role":"lan","mtu":67}`:                                "mtu",
		`{"name":"eth2","type":"ethernet","role":"lan","mtu":65536}`:                             "mtu",
		`{"name":"eth2","type":"ethernet","role":"lan","description":"a\u0007"}`:                 "description",
	} {
		if a := b.Do(t, "admin", http.MethodPost, "/network-interfaces", body); a.Status != 400 || a.Error.Fields[field] == "" {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	if b.Rows(t, "network_interfaces") != rows {
		t.Fatal("a refused interface is stored")
	}
	// What is refused on creation is also refused later.
	for body, field := range map[string]string{`{"members":["br0"]}`: "members", `{"members":["eth3"]}`: "members", `{"members":[]}`: "members", `{"type":"ethernet"}`: "members", `{"mtu":1}`: "mtu"} {
		b.Do(t, "admin", http.MethodPut, "/network-interfaces/"+br, body).WantField(t, field)
	}
	b.Do(t, "admin", http.MethodPut, "/network-interfaces/"+wg, `{"name":"eth1"}`).WantField(t, "type")
	make1(t, b, "/network-interfaces", `{"name":"eth1","type":"ethernet","role":"lan"}`)
}

func TestInterfacesFitTogether(t *testing.T) {
	b, _ := bench(t)
	first := make1(t, b, "/network-interfaces", `{"name":"a","type":"bond","role":"lan","members":["eth0"]}`)
	make1(t, b, "/network-interfaces", `{"name":"b","type":"vlan","role":"lan","parent":"a","vlan_id":5}`)
	make1(t, b, "/network-interfaces", `{"name":"c","type":"vlan","role":"lan","parent":"b","vlan_id":5}`)
	var bond network.Interface
	b.Get(t, "/network-interfaces/"+first).Into(t, &bond)
	if bond.BondMode == nil || *bond.BondMode != "active-backup" || !bond.Active || bond.MTU != nil {
		t.Fatalf("%+v", bond)
	}
	if a := b.Do(t, "admin", http.MethodPut, "/network-interfaces/"+first, `{"members":["eth0","c"]}`).WantField(t, "members"); !strings.Contains(a.Error.Fields["members"], "must not lead back") {
		t.Fatalf("%s", a.Body)
	}
	b.Do(t, "admin", http.MethodPut, "/network-interfaces/"+first, `{"type":"vlan","members":[],"bond_mode":null,"parent":"c","vlan_id":9}`).WantField(t, "parent")
	if a := b.Do(t, "admin", http.MethodPost, "/network-interfaces", `{"name":"d","type":"vlan","role":"lan","parent":"a","vlan_id":5}`).Want(t, 409); a.Error.Fields["vlan_id"] == "" {
		t.Fatalf("%s", a.Body)
	}
	if a := b.Do(t, "admin", http.MethodPost, "/network-interfaces", `{"name":"a","type":"ethernet","role":"lan"}`).Want(t, 409); a.Error.Fields["name"] == "" {
		t.Fatalf("%s", a.Body)
	}
	// An interface that others refer to keeps its name, and cannot be deleted.
	for _, change := range []func() *kittest.Answer{
		func() *kittest.Answer {
			return b.Do(t, "admin", http.MethodPut, "/network-interfaces/"+first, `{"name":"z"}`)
		},
		func() *kittest.Answer { return b.Do(t, "admin", http.MethodDelete, "/network-interfaces/"+first, nil) },
	} {
		if a := change().Want(t, 409); !strings.Contains(string(a.Body), `"used_by":[{"kind":"network.interface"`) || !strings.Contains(string(a.Body), `"name":"b"`) {
			t.Fatalf("%s", a.Body)
		}
	}
	if kinds := b.Audited(t, "network.interface.create"); kinds != 3 {
		t.Fatalf("%d audited", kinds)
	}
}

func TestInterfaceInUseStays(t *testing.T) {
	b, _ := bench(t)
	lan := make1(t, b, "/network-interfaces", `{"name":"eth0","type":"ethernet","role":"lan"}`)
	address := make1(t, b, "/network-interfaces/"+lan+"/ip-addresses", `{"address":"10.0.0.1","prefix":24}`)
	route := make1(t, b, "/routes", `{"destination":"10.9.0.0/16","dev":"eth0"}`)
	a := b.Do(t, "admin", http.MethodDelete, "/network-interfaces/"+lan, nil).Want(t, 409)
	for _, text := range []string{`"kind":"network.ip-address","id":"` + address + `","name":"10.0.0.1/24"`, `"kind":"network.route","id":"` + route + `","name":"10.9.0.0/16 dev eth0"`} {
		if !strings.Contains(string(a.Body), text) {
			t.Errorf("no %s in %s", text, a.Body)
		}
	}
	if a := b.Do(t, "admin", http.MethodPut, "/network-interfaces/"+lan, `{"name":"eth1"}`).Want(t, 409); strings.Contains(string(a.Body), address) {
		t.Errorf("an address refers to the id: %s", a.Body)
	}
	b.Do(t, "admin", http.MethodDelete, "/routes/"+route, nil).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, "/network-interfaces/"+lan, `{"name":"eth1"}`).Want(t, 200)
	b.Do(t, "admin", http.MethodDelete, "/ip-addresses/"+address, nil).Want(t, 200)
	b.Do(t, "admin", http.MethodDelete, "/network-interfaces/"+lan, nil).Want(t, 200)
}

func TestBadAddresses(t *testing.T) {
	b, _ := bench(t)
	lan := make1(t, b, "/network-interfaces", `{"name":"eth0","type":"ethernet","role":"lan"}`)
	wan := make1(t, b, "/network-interfaces", `{"name":"eth1","type":"ethernet","role":"wan"}`)
	make1(t, b, "/network-interfaces", `{"name":"eth2","type":"ethernet","role":"lan"}`)
	br := make1(t, b, "/network-interfaces", `{"name":"br0","type":"bridge","role":"lan","members":["eth2"]}`)
	var member network.Interface
	var all []network.Interface
	b.Get(t, "/network-interfaces").Into(t, &all)
	member = all[slices.IndexFunc(all, func(i network.Interface) bool { return i.Name.String() == "eth2" })]
	make1(t, b, "/routes", `{"destination":"10.9.0.0/16","gateway":"10.0.0.77","dev":"eth0"}`)
	for body, field := range map[string]string{
		`"address":"10.0.0.1"`:                                "prefix",
		`"address":"10.0.0.1","prefix":0`:                     "prefix",
		`"address":"10.0.0.1","prefix":33`:                    "prefix",
		`"address":"fd00::1","prefix":129`:                    "prefix",
		`"prefix":24`:                                         "address",
		`"address":"10.0.0.0","prefix":24`:                    "address",
		`"address":"10.0.0.255","prefix":24`:                  "address",
		`"address":"10.0.0.3","prefix":30`:                    "address",
		`"address":"127.0.0.1","prefix":8`:                    "address",
		`"address":"::1","prefix":128`:                        "address",
		`"address":"0.0.0.0","prefix":8`:                      "address",
		`"address":"0.0.0.7","prefix":8`:                      "address",
		`"address":"::","prefix":64`:                          "address",
		`"address":"224.0.0.5","prefix":24`:                   "address",
		`"address":"ff02::1","prefix":64`:                     "address",
		`"address":"255.255.255.255","prefix":32`:             "address",
		`"address":"fe80::1%eth0; reboot","prefix":64`:        "address",
		`"address":"10.0.0.1/24","prefix":24`:                 "address",
		`"address":"10.0.0.77","prefix":24`:                   "address",
		`"address":"10.0.0.1","prefix":24,"vip_priority":0`:   "vip_priority",
		`"address":"10.0.0.1","prefix":24,"vip_priority":255`: "vip_priority",
	} {
		if a := b.Do(t, "admin", http.MethodPost, "/ip-addresses", `{"interface_id":"`+lan+`",`+body+`}`); a.Status != 400 || a.Error.Fields[field] == "" {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	for _, id := range []string{uuid.NewString(), uuid.Nil.String(), member.ID.String()} {
		b.Do(t, "admin", http.MethodPost, "/ip-addresses", `{"interface_id":"`+id+`","address":"10.0.0.1","prefix":24}`).WantField(t, "interface_id")
	}
	b.Do(t, "admin", http.MethodPost, "/ip-addresses", `{"address":"10.0.0.1","prefix":24}`).WantField(t, "interface_id")
	b.Do(t, "admin", http.MethodPost, "/network-interfaces/"+lan+"/ip-addresses", `{"interface_id":"`+wan+`","address":"10.0.0.1","prefix":24}`).WantField(t, "interface_id")
	if n := b.Rows(t, "network_addresses"); n != 0 {
		t.Fatalf("%d refused addresses are stored", n)
	}
	// Networks with two addresses or one have none to spare.
	for i, good := range []string{`"address":"10.0.0.0","prefix":31`, `"address":"10.0.0.9","prefix":32`, `"address":"FD00:0::1","prefix":64`, `"address":"fe80::1","prefix":64`} {
		make1(t, b, "/ip-addresses", `{"interface_id":"`+lan+`",`+good+`}`)
		a := b.Do(t, "admin", http.MethodPost, "/ip-addresses", `{"interface_id":"`+br+`",`+good+`}`)
		// Only a link-local address may be on several links.
		if want := map[bool]int{true: 201, false: 409}[i == 3]; a.Status != want || want == 409 && a.Error.Fields["address"] == "" {
			t.Errorf("%s: %d %s", good, a.Status, a.Body)
		}
	}
	b.Do(t, "admin", http.MethodPost, "/ip-addresses", `{"interface_id":"`+lan+`","address":"fe80::1","prefix":10}`).Want(t, 409)
	// A link with addresses cannot become a member.
	b.Do(t, "admin", http.MethodPut, "/network-interfaces/"+br, `{"members":["eth2","eth0"]}`).WantField(t, "members")
}

func TestNE06BadRoutes(t *testing.T) {
	b, _ := bench(t)
	lan := make1(t, b, "/network-interfaces", `{"name":"eth0","type":"ethernet","role":"lan"}`)
	make1(t, b, "/ip-addresses", `{"interface_id":"`+lan+`","address":"10.0.0.1","prefix":24}`)
	for body, field := range map[string]string{
		`{"gateway":"10.0.0.2"}`:                                                       "destination",
		`{"destination":"everywhere","gateway":"10.0.0.2"}`:                            "destination",
		`{"destination":"10.9.0.0/33","gateway":"10.0.0.2"}`:                           "destination",
		`{"destination":"10.9.0.0/16"}`:                                                "gateway",
		`{"destination":"10.9.0.0/16","gateway":"router"}`:                             "gateway",
		`{"destination":"10.9.0.0/16","gateway":"10.0.0.1"}`:                           "gateway",
		`{"destination":"10.9.0.0/16","gateway":"127.0.0.1"}`:                          "gateway",
		`{"destination":"10.9.0.0/16","gateway":"0.0.0.0"}`:                            "gateway",
		`{"destination":"10.9.0.0/16","gateway":"224.0.0.1"}`:                          "gateway",
		`{"destination":"10.9.0.0/16","gateway":"fd00::1"}`:                            "gateway",
		`{"destination":"fd00::/64","gateway":"10.0.0.2"}`:                             "gateway",
		`{"destination":"10.9.0.1","gateway":"10.9.0.1"}`:                              "gateway",
		`{"destination":"fd00::/64","gateway":"fe80::1"}`:                              "dev",
		`{"destination":"10.9.0.0/16","dev":"lo"}`:                                     "dev",
		`{"destination":"10.9.0.0/16","dev":"a b"}`:                                    "dev",
		`{"destination":"10.9.0.0/16","gateway":"10.0.0.2","metric":-1}`:               "metric",
		`{"destination":"10.9.0.0/16","gateway":"10.0.0.2","metric":4294967296}`:       "metric",
		`{"destination":"10.9.0.0/16","gateway":"10.0.0.2","table_name":"local"}`:      "table_name",
		`{"destination":"10.9.0.0/16","gateway":"10.0.0.2","table_name":"255"}`:        "table_name",
		`{"destination":"10.9.0.0/16","gateway":"10.0.0.2","table_name":"0"}`:          "table_name",
		`{"destination":"10.9.0.0/16","gateway":"10.0.0.2","table_name":"4294967296"}`: "table_name",
		`{"destination":"10.9.0.0/16","gateway":"10.0.0.2","table_name":"trap"}`:       "table_name",
		`{"destination":"10.9.0.0/16","gateway":"10.0.0.2","table_name":"unknown"}`:    "table_name",
		`{"destination":"10.9.0.0/16","gateway":"10.0.0.2","table_name":"a b"}`:        "table_name",
	} {
		if a := b.Do(t, "admin", http.MethodPost, "/routes", body); a.Status != 400 || a.Error.Fields[field] == "" {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	if n := b.Rows(t, "network_routes"); n != 0 {
		t.Fatalf("%d refused routes are stored", n)
	}
	for body, want := range map[string]string{
		`{"destination":"10.9.3.7/16","gateway":"10.0.0.2"}`:                     `"destination":"10.9.0.0/16"`,
		`{"destination":"default","gateway":"10.0.0.2"}`:                         `"destination":"0.0.0.0/0"`,
		`{"destination":"default","gateway":"fd00::2","dev":"eth0"}`:             `"destination":"::/0"`,
		`{"destination":"default","dev":"eth0","metric":9}`:                      `"destination":"0.0.0.0/0"`,
		`{"destination":"10.8.0.0/16","gateway":"10.0.0.2","table_name":"0100"}`: `"table_name":"100"`,
		`{"destination":"10.8.0.0/16","gateway":"10.0.0.2"}`:                     `"table_name":"main"`,
		`{"destination":"10.7.0.0/16","gateway":"10.0.0.2","table_name":""}`:     `"table_name":"main"`,
		`{"destination":"10.6.0.0/16","dev":"eth0","metric":4294967295}`:         `"metric":4294967295`,
	} {
		if a := b.Do(t, "admin", http.MethodPost, "/routes", body).Want(t, 201); !strings.Contains(string(a.Body), want) {
			t.Errorf("%s: no %s in %s", body, want, a.Body)
		}
	}
	// The kernel has one route per destination, metric and table, whatever the table is called.
	b.Do(t, "admin", http.MethodPost, "/routes", `{"destination":"10.8.0.0/16","gateway":"10.0.0.3","table_name":"isp"}`).Want(t, 409)
	b.Do(t, "admin", http.MethodPost, "/routes", `{"destination":"10.8.0.0/16","gateway":"10.0.0.3","table_name":"254"}`).Want(t, 409)
	spare := make1(t, b, "/routes", `{"destination":"10.8.0.0/16","gateway":"10.0.0.3","active":false}`)
	b.Do(t, "admin", http.MethodPut, "/routes/"+spare, `{"active":true}`).Want(t, 409)
	b.Do(t, "admin", http.MethodPut, "/routes/"+spare, `{"active":true,"metric":7}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, "/routes/"+spare, `{"comment":"the second one"}`).Want(t, 200)
}

func TestChangesReachTheMachineOnce(t *testing.T) {
	b, _ := bench(t)
	lan := make1(t, b, "/network-interfaces", `{"name":"eth0","type":"ethernet","role":"lan"}`)
	make1(t, b, "/ip-addresses", `{"interface_id":"`+lan+`","address":"10.0.0.1","prefix":24,"description":"the secret place"}`)
	make1(t, b, "/routes", `{"destination":"10.9.0.0/16","gateway":"10.0.0.2","comment":"the secret way"}`)
	make1(t, b, "/network-interfaces", `{"name":"eth1.5","type":"vlan","role":"dmz","parent":"eth1","vlan_id":5,"description":"the secret link"}`)
	want := []string{"set-address 10.0.0.1/24", "add-route 10.9.0.0/16", "create-link eth1.5", "change-link eth1.5"}
	if got := b.Machine.NetworkWrites(); !slices.Equal(got[1:], want) { // forwarding was turned on at the start
		t.Fatalf("%q", got)
	}
	b.Do(t, "admin", http.MethodPut, "/network-interfaces/"+lan, `{"description":"remarks touch nothing"}`).Want(t, 200)
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 || len(b.Machine.NetworkWrites()) != len(want)+1 {
		t.Fatalf("%v %q", failed, b.Machine.NetworkWrites())
	}
	state, err := b.Machine.Read(host.NetworkState)
	if err != nil || strings.Contains(string(state), "secret") || !strings.Contains(string(state), `"10.0.0.1/24"`) || !strings.Contains(string(state), `"eth1.5"`) {
		t.Fatalf("%v %s", err, state)
	}
	preview := b.Do(t, "admin", http.MethodPost, "/change-sets", `{"preview":true,"operations":[{"kind":"network.route","verb":"create","body":{"destination":"10.8.0.0/16","gateway":"10.0.0.2"}}]}`).Want(t, 200)
	if !strings.Contains(string(preview.Body), "/var/lib/gateway-helper/network.json") || !strings.Contains(string(preview.Body), "10.8.0.0/16") || b.Rows(t, "network_routes") != 1 {
		t.Fatalf("%s", preview.Body)
	}
}

func TestTypesThatTheKernelSupports(t *testing.T) {
	b, _ := bench(t)
	types := func() (out network.InterfaceTypes) {
		b.Get(t, "/network/interface-types").Want(t, 200).Into(t, &out)
		return out
	}
	b.Machine.RefuseNetwork("link-kind", "bond", errors.ErrUnsupported)
	if got := types().Types; !slices.Equal(got, []string{"ethernet", "vlan", "bridge", "wireguard"}) {
		t.Errorf("%v", got)
	}
	b.Machine.LeaveNetwork()
	if got := types().Types; !slices.Contains(got, "bond") {
		t.Errorf("%v, though the kernel cannot be asked", got)
	}
}

func TestRefusedByTheKernel(t *testing.T) {
	b, _ := bench(t)
	lan := make1(t, b, "/network-interfaces", `{"name":"eth0","type":"ethernet","role":"lan"}`)
	b.Machine.RefuseNetwork("set-address", "10.0.0.1/24", syscall.EPERM)
	b.Machine.RefuseNetwork("create-link", "br0", errors.New("this kernel has no support for bridge interfaces"))
	make1(t, b, "/ip-addresses", `{"interface_id":"`+lan+`","address":"10.0.0.1","prefix":24}`)
	br := make1(t, b, "/network-interfaces", `{"name":"br0","type":"bridge","role":"lan","members":["eth1"]}`)
	make1(t, b, "/ip-addresses", `{"interface_id":"`+br+`","address":"10.0.1.1","prefix":24}`)
	a := b.Do(t, "admin", http.MethodPost, "/ip-addresses", `{"interface_id":"`+lan+`","address":"10.0.2.1","prefix":24}`).Want(t, 201)
	if a.Header.Get("Gateway-Apply") != "network=degraded" {
		t.Fatal(a.Header)
	}
	s := b.Engine.Statuses()[0]
	want := "Could not create interface br0 (bridge): this kernel has no support for bridge interfaces. Could not bind 10.0.0.1/24 on eth0: operation not permitted."
	if s.LastError != want {
		t.Fatalf("%s", s.LastError)
	}
	b.Machine.RefuseNetwork("set-address", "10.0.0.1/24", nil)
	b.Machine.RefuseNetwork("create-link", "br0", nil)
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatal(failed)
	}
}

func TestVirtualAddressesMayBeBoundElsewhere(t *testing.T) {
	for _, vips := range [][]elsewhere{nil, {true}} {
		b, _ := bench(t, vips...)
		lan := make1(t, b, "/network-interfaces", `{"name":"eth0","type":"ethernet","role":"lan"}`)
		make1(t, b, "/ip-addresses", `{"interface_id":"`+lan+`","address":"10.0.0.1","prefix":24,"is_vip":true}`)
		if bound := slices.Contains(b.Machine.NetworkWrites(), "set-address 10.0.0.1/24"); bound != (vips == nil) {
			t.Errorf("elsewhere %v: bound %t", vips, bound)
		}
	}
}

func TestOtherRoomsAsk(t *testing.T) {
	b, room := bench(t)
	lan := make1(t, b, "/network-interfaces", `{"name":"eth1","type":"ethernet","role":"lan"}`)
	make1(t, b, "/network-interfaces", `{"name":"eth0","type":"ethernet","role":"lan"}`)
	make1(t, b, "/network-interfaces", `{"name":"eth2","type":"ethernet","role":"wan"}`)
	off := make1(t, b, "/network-interfaces", `{"name":"eth3","type":"ethernet","role":"wan","active":false}`)
	make1(t, b, "/ip-addresses", `{"interface_id":"`+lan+`","address":"10.0.0.9","prefix":24}`)
	make1(t, b, "/ip-addresses", `{"interface_id":"`+lan+`","address":"10.0.0.1","prefix":24,"is_vip":true}`)
	make1(t, b, "/ip-addresses", `{"interface_id":"`+off+`","address":"10.0.3.1","prefix":24}`)
	zones, err := room.ZoneInterfaces(t.Context(), b.DB)
	if err != nil || fmt.Sprint(zones[value.Must[value.Zone]("lan")], zones[value.Must[value.Zone]("wan")], len(zones)) != "[eth0 eth1] [eth2] 2" {
		t.Fatal(zones, err)
	}
	users, err := room.ZoneUsers(t.Context(), b.DB, value.Must[value.Zone]("wan"))
	if err != nil || len(users) != 2 || users[1].Kind != "network.interface" || users[1].Name != "eth3" || users[1].ID.String() != off {
		t.Fatal(users, err)
	}
	addresses, err := room.Addresses(t.Context(), b.DB)
	if err != nil || !slices.Equal(addresses, []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.9")}) {
		t.Fatal(addresses, err)
	}
}

func TestAdoptableSpeaksOfLinksAsOfInterfaces(t *testing.T) {
	b, _ := bench(t)
	make1(t, b, "/network-interfaces", `{"name":"eth0","type":"ethernet","role":"lan"}`)
	make1(t, b, "/network-interfaces", `{"name":"br9","type":"bridge","role":"lan","members":["eth3"]}`)
	links, err := b.Machine.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	links = append(links, host.Link{Name: "br0", Kind: "bridge", Type: "ether"}, host.Link{Name: "eth9", Kind: "device", Type: "ether", Master: "br0"},
		host.Link{Name: "bond0", Kind: "bond", Type: "ether", BondMode: "802.3ad"}, host.Link{Name: "eth1.5", Kind: "vlan", Type: "ether", Parent: "eth1", VLANID: 5},
		host.Link{Name: "wg0", Kind: "wireguard", Type: "none", Addrs: []host.LinkAddr{{Local: "10.5.0.1", PrefixLen: 24, Scope: "global", Dynamic: true}, {Local: "fe80::1", PrefixLen: 64, Scope: "link"}}},
		host.Link{Name: "gwtun", Kind: "tuntap", Type: "none", Alias: host.OwnTunnel + "x", Addrs: []host.LinkAddr{{Local: "10.6.0.1", PrefixLen: 24, Scope: "global", Protocol: host.TunnelProtocol}}})
	b.Machine.SetLinks(links...)
	b.Machine.SetRoutes(host.Route{Destination: netip.MustParsePrefix("::/0"), Dev: "eth2", Type: "unicast"}, host.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Dev: "eth1", Type: "local"})
	want := map[string]string{"eth1": "ethernet lan", "eth2": "ethernet wan", "br0": "bridge lan [eth9]", "eth9": "ethernet lan", "bond0": "bond lan 802.3ad", "eth1.5": "vlan lan eth1 5", "wg0": "wireguard lan 10.5.0.1/24 leased"}
	// The gateway's own tunnel is not among them.
	var found []network.Adoptable
	b.Get(t, "/network/adoptable").Want(t, 200).Into(t, &found)
	for _, a := range found {
		text := a.Type + " " + a.Role
		if len(a.Members) > 0 {
			text += fmt.Sprint(" ", a.Members)
		}
		if a.BondMode != nil {
			text += " " + *a.BondMode
		}
		if a.VLANID != nil {
			text += fmt.Sprintf(" %s %d", a.Parent, *a.VLANID)
		}
		for _, x := range a.Addresses {
			text += fmt.Sprintf(" %s/%d", x.Address, x.Prefix)
			if x.Dynamic {
				text += " leased"
			}
		}
		if want[a.Name] != text {
			t.Errorf("%s: %q instead of %q", a.Name, text, want[a.Name])
		}
		delete(want, a.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// TestLiveStateSaysWhatIsMissing checks that a kernel that does not answer is reported within the answer.
func TestLiveStateSaysWhatIsMissing(t *testing.T) {
	b, _ := bench(t)
	b.Machine.FailNetwork(errors.New("netlink is away"))
	for _, path := range []string{"/routes/live", "/network/adoptable"} {
		var list []struct{ Error string }
		b.Do(t, "viewer", http.MethodGet, path, nil).Want(t, 200).Into(t, &list)
		if len(list) != 1 || !strings.HasSuffix(list[0].Error, "cannot be read.") {
			t.Errorf("%s: %+v", path, list)
		}
	}
	b.Machine.FailNetwork(nil)
	if a := b.Get(t, "/network/adoptable").Want(t, 200); strings.Contains(string(a.Data), `"error"`) {
		t.Errorf("%s", a.Data)
	}
}

// A configuration moves to a machine whose links have other names; two may swap names.
func TestRenameLinks(t *testing.T) {
	b, room := bench(t)
	for _, sql := range []string{
		`INSERT INTO network_interfaces SELECT gen_random_uuid(), now(), now(), name, type, (SELECT min(name) FROM firewall_zones WHERE name NOT IN ('any', 'self')), parent, NULL, members, NULL, NULL, '', false
			FROM (VALUES ('a0', 'ethernet', '', '{}'::text[]), ('b0', 'ethernet', '', '{}'), ('v1', 'vlan', 'a0', '{}'), ('bond0', 'bond', '', '{c0,b0}')) x (name, type, parent, members)`,
		`INSERT INTO network_routes VALUES (gen_random_uuid(), now(), now(), '10.0.0.0/8', '', 'b0', 0, 'main', true, '')`,
	} {
		dbtest.Exec(t, b.DB, sql)
	}
	links, err := room.Links(t.Context(), b.DB)
	if err != nil || !slices.Equal(links, []string{"a0", "b0", "c0"}) {
		t.Fatalf("%q %v", links, err)
	}
	if err := b.DB.Write(t.Context(), func(tx *db.Tx) error {
		return room.RenameLinks(t.Context(), tx, map[string]string{"a0": "b0", "b0": "a0", "c0": "ens3"})
	}); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := b.DB.QueryRow(t.Context(), `SELECT string_agg(name || ' ' || type || ' ' || parent || ' ' || members::text, '; ' ORDER BY type, name) || '; ' || (SELECT dev FROM network_routes) FROM network_interfaces`).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if want := "bond0 bond  {ens3,a0}; a0 ethernet  {}; b0 ethernet  {}; v1 vlan b0 {}; a0"; got != want {
		t.Errorf("%s instead of %s", got, want)
	}
}
