package dhcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/dhcp"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
)

// rig is a bench with a stand-in for the network room's interfaces.
type rig struct {
	*kittest.Bench
	room       *dhcp.Room
	interfaces []dhcp.Interface
	elsewhere  bool // another node serves
}

func bench(t *testing.T) *rig {
	t.Helper()
	return benchOn(t, kittest.New(t))
}

func benchOn(t *testing.T, b *kittest.Bench) *rig {
	t.Helper()
	r := &rig{Bench: b, interfaces: []dhcp.Interface{
		declare("guest0", "guest", true), declare("lan0", "lan", true), declare("lan9", "lan", true), declare("off0", "lan", false), declare("wan0", "wan", true),
	}}
	r.Machine.SetLinks(
		link(1, "lo", "loopback", "127.0.0.1"), link(2, "wan0", "ether", "198.51.100.1"), link(3, "lan0", "ether", "10.10.0.1"),
		link(4, "guest0", "ether", "10.20.0.1"), link(5, "plain0", "ether", "10.30.0.1"), link(6, "wg0", "none", "10.40.0.1"), link(7, "off0", "ether", "10.10.0.250"),
	)
	r.room = dhcp.New(r.Kit, dhcp.Deps{
		Interfaces: func(context.Context, db.Querier) ([]dhcp.Interface, error) { return r.interfaces, nil },
		Serves:     func(context.Context, db.Querier) (bool, error) { return !r.elsewhere, nil },
	})
	r.room.Mount()
	r.Resources.MountChangeSets()
	r.Start(t)
	if _, failed := r.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatalf("not live at start: %v", failed)
	}
	return r
}

func declare(name, zone string, active bool) dhcp.Interface {
	return dhcp.Interface{Name: value.Must[value.IfName](name), Zone: value.Must[value.Zone](zone), Active: active}
}

func link(index int, name, kind, address string) host.Link {
	l := host.Link{Index: index, Name: name, Type: kind, Flags: []string{"UP", "LOWER_UP"}}
	if address != "" {
		l.Addrs = []host.LinkAddr{{Family: "inet", Local: address, PrefixLen: 24}}
	}
	return l
}

func (r *rig) file(t *testing.T) string {
	t.Helper()
	content, err := r.Machine.Read(kea.Config)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

type fields map[string]any

// with returns the subnet of lan0 with some fields changed.
func with(changes fields) fields {
	f := fields{"interface": "lan0", "cidr": "10.10.0.0/24", "range_start": "10.10.0.100", "range_end": "10.10.0.199", "gateway": "10.10.0.1"}
	maps.Copy(f, changes)
	return f
}

func (r *rig) post(t *testing.T, path string, body any) string {
	t.Helper()
	var row struct{ ID string }
	a := r.Do(t, "admin", http.MethodPost, path, body).Want(t, 201)
	a.Into(t, &row)
	if got := a.Header.Get("Gateway-Apply"); got != "dhcp=live" {
		t.Fatalf("apply: %q, %+v", got, r.Engine.Statuses())
	}
	return row.ID
}

func (r *rig) enable(t *testing.T) {
	t.Helper()
	a := r.Do(t, "admin", http.MethodPut, "/dhcp/settings", `{"enabled":true}`).Want(t, 200)
	if got := a.Header.Get("Gateway-Apply"); got != "dhcp=live" {
		t.Fatalf("apply: %q, %+v", got, r.Engine.Statuses())
	}
}

func (r *rig) status(t *testing.T) (state, why string) {
	t.Helper()
	s := r.Engine.Statuses()[0]
	return string(s.State), s.LastError
}

func TestSettings(t *testing.T) {
	r := bench(t)
	var s dhcp.Settings
	r.Get(t, "/dhcp/settings").Want(t, 200).Into(t, &s)
	if s.Enabled || s.DefaultLeaseSeconds != 3600 || s.MaxLeaseSeconds != 86400 {
		t.Fatalf("%+v", s)
	}
	if state, _ := r.Machine.State(t.Context(), kea.Unit); state.Active != "inactive" || r.Machine.Enabled(kea.Unit) {
		t.Fatalf("%+v", state)
	}
	openings := func() int {
		list, err := r.room.Openings(t.Context(), r.DB)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			// lan9 is declared and active; off0 is not active, and guest0 is in another zone.
			if o.Port != 67 || o.Proto != "udp" || fmt.Sprint(o.Interfaces) != "[lan0 lan9]" {
				t.Errorf("%+v", o)
			}
		}
		return len(list)
	}
	if openings() != 0 {
		t.Fatal("open though it is off")
	}
	r.enable(t)
	if state, _ := r.Machine.State(t.Context(), kea.Unit); state.Active != "active" || !r.Machine.Enabled(kea.Unit) || openings() != 1 {
		t.Fatalf("%+v", state)
	}
	r.Do(t, "admin", http.MethodPut, "/dhcp/settings", `{"default_lease_seconds":120,"max_lease_seconds":240}`).Want(t, 200)
	for _, line := range []string{`"valid-lifetime": 120,`, `"min-valid-lifetime": 60,`, `"max-valid-lifetime": 240,`} {
		if !strings.Contains(r.file(t), line) {
			t.Errorf("no %s", line)
		}
	}
	for body, field := range map[string]string{
		`{"default_lease_seconds":59}`:                              "default_lease_seconds",
		`{"max_lease_seconds":31536001}`:                            "max_lease_seconds",
		`{"default_lease_seconds":7200,"max_lease_seconds":3600}`:   "max_lease_seconds",
		`{"enabled":"yes"}`:                                         "enabled",
		`{"authoritative":true}`:                                    "authoritative",
		`{"default_lease_seconds":3600.5,"max_lease_seconds":9000}`: "default_lease_seconds",
	} {
		r.Do(t, "admin", http.MethodPut, "/dhcp/settings", body).WantField(t, field)
	}
	r.Do(t, "admin", http.MethodPut, "/dhcp/settings", `{"enabled":false}`).Want(t, 200)
	if state, _ := r.Machine.State(t.Context(), kea.Unit); state.Active != "inactive" || r.Machine.Enabled(kea.Unit) || openings() != 0 {
		t.Fatalf("%+v", state)
	}
	if n := r.Audited(t, "dhcp.settings.update"); n != 3 {
		t.Errorf("audited %d times", n)
	}
}

func TestSubnetLife(t *testing.T) {
	r := bench(t)
	r.enable(t)
	reloads := r.Machine.LeaseServerReloads()
	id := r.post(t, "/dhcp/subnets", with(fields{
		"cidr": "10.10.0.77/24", "dns_servers": []string{"10.10.0.1", "9.9.9.9"}, "ntp_servers": []string{"10.10.0.1"}, "domain_name": "LAN.Example.NET.", "lease_seconds": 600,
	}))
	if r.Machine.LeaseServerReloads() != reloads+1 || r.Machine.Restarts(kea.Unit) != 1 {
		t.Fatalf("%d reloads, %d restarts", r.Machine.LeaseServerReloads()-reloads, r.Machine.Restarts(kea.Unit))
	}
	for _, part := range []string{
		`"subnet": "10.10.0.0/24"`, `"id": 168427520`, `"interface": "lan0"`, `"pool": "10.10.0.100 - 10.10.0.199"`, `"data": "10.10.0.1, 9.9.9.9"`, `"data": "lan.example.net"`, `"valid-lifetime": 600`,
	} {
		if !strings.Contains(r.file(t), part) {
			t.Errorf("no %s in\n%s", part, r.file(t))
		}
	}
	path := "/dhcp/subnets/" + id
	r.post(t, "/dhcp/reservations", fields{"subnet_id": id, "mac": "52:54:00:00:00:01", "ip": "10.10.0.9"})
	r.Do(t, "admin", http.MethodPut, path, `{"active":false}`).Want(t, 200)
	if strings.Contains(r.file(t), `"pool"`) {
		t.Fatalf("still served:\n%s", r.file(t))
	}
	r.Do(t, "admin", http.MethodPut, path, `{"active":true,"gateway":"","dns_servers":[],"ntp_servers":[],"domain_name":"","lease_seconds":null}`).Want(t, 200)
	if !strings.Contains(r.file(t), `"option-data": []`) || strings.Contains(r.file(t), `"valid-lifetime": 600`) {
		t.Fatalf("options are left:\n%s", r.file(t))
	}
	// What GET returned can be sent back, and nothing is reloaded.
	reloads = r.Machine.LeaseServerReloads()
	r.Do(t, "admin", http.MethodPut, path, string(r.Get(t, path).Want(t, 200).Data)).Want(t, 200)
	if r.Machine.LeaseServerReloads() != reloads {
		t.Fatal("a change that alters no byte made Kea reload")
	}
	r.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200)
	if r.Rows(t, "dhcp_reservations") != 0 {
		t.Fatal("the reservations of a subnet that is gone are there")
	}
	for action, n := range map[string]int{"dhcp.subnet.create": 1, "dhcp.subnet.update": 3, "dhcp.subnet.delete": 1, "dhcp.reservation.create": 1} {
		if got := r.Audited(t, action); got != n {
			t.Errorf("%s audited %d times", action, got)
		}
	}
	r.Do(t, "viewer", http.MethodPost, "/dhcp/subnets", with(nil)).Want(t, 403)
}

func TestDH01BadSubnets(t *testing.T) {
	r := bench(t)
	for _, x := range []struct {
		field   string
		changes fields
	}{
		{"cidr", fields{"cidr": "10.10.0.0/33"}},
		{"cidr", fields{"cidr": "2001:db8::/64"}},
		{"cidr", fields{"cidr": "10.10.0.0/31"}},
		{"cidr", fields{"cidr": "10.0.0.0/7"}},
		{"cidr", fields{"cidr": "10.10.0.1"}},
		{"cidr", fields{"cidr": "127.0.0.0/8"}},
		{"cidr", fields{"cidr": "0.0.0.0/8"}},
		{"cidr", fields{"cidr": "224.0.0.0/8"}},
		{"cidr", fields{"cidr": ""}},
		{"range_start", fields{"range_start": "10.10.0.0"}},
		{"range_start", fields{"range_start": "10.9.0.100"}},
		{"range_start", fields{"range_start": "x"}},
		{"range_start", fields{"range_start": "2001:db8::1"}},
		{"range_start", fields{"range_start": nil}},
		{"range_end", fields{"range_end": "10.10.0.255"}},
		{"range_end", fields{"range_end": "10.10.1.1"}},
		{"range_end", fields{"range_end": "10.10.0.99"}},
		{"range_start", fields{"range_start": "10.10.0.1", "gateway": ""}}, // the address of its own link
		{"range_start", fields{"range_end": "10.10.0.254", "gateway": ""}}, // that of another
		{"gateway", fields{"gateway": "10.10.0.150"}},
		{"gateway", fields{"gateway": "10.11.0.1"}},
		{"gateway", fields{"gateway": "10.10.0.255"}},
		{"gateway", fields{"gateway": "::1"}},
		{"dns_servers", fields{"dns_servers": []string{"2001:db8::53"}}},
		{"dns_servers", fields{"dns_servers": []string{"dns.example.net"}}},
		{"dns_servers", fields{"dns_servers": []string{"9.9.9.9", "9.9.9.9"}}},
		{"dns_servers", fields{"dns_servers": []string{"0.0.0.0"}}},
		{"ntp_servers", fields{"ntp_servers": []string{"2001:db8::123"}}},
		{"ntp_servers", fields{"ntp_servers": "10.10.0.1"}},
		{"domain_name", fields{"domain_name": "10.10.0.1"}},
		{"domain_name", fields{"domain_name": "a b"}},
		{"domain_name", fields{"domain_name": "a_b"}},
		{"lease_seconds", fields{"lease_seconds": 59}},
		{"lease_seconds", fields{"lease_seconds": 86401}},
		{"interface", fields{"interface": "nowhere0"}},
		{"interface", fields{"interface": "lan0;reboot"}},
		{"interface", fields{"interface": "lo"}},
		{"interface", fields{"interface": "wan0"}},
		{"interface", fields{"interface": "wg0"}},
		{"interface", fields{"interface": ""}},
		{"pool", fields{"pool": "x"}},
	} {
		a := r.Do(t, "admin", http.MethodPost, "/dhcp/subnets", with(x.changes)).WantField(t, x.field)
		if len(a.Error.Fields) != 1 {
			t.Errorf("%v: %v", x.changes, a.Error.Fields)
		}
	}
	if n := r.Rows(t, "dhcp_subnets"); n != 0 {
		t.Fatalf("%d rows after refused bodies", n)
	}
	// A declared interface that does not exist yet, and an undeclared one that exists.
	r.post(t, "/dhcp/subnets", with(fields{"interface": "lan9"}))
	r.post(t, "/dhcp/subnets", fields{"interface": "plain0", "cidr": "10.30.0.0/30", "range_start": "10.30.0.2", "range_end": "10.30.0.2"})
}

func TestDH02Overlap(t *testing.T) {
	r := bench(t)
	id := r.post(t, "/dhcp/subnets", with(fields{"active": false}))
	for _, cidr := range []string{"10.10.0.0/24", "10.10.0.0/25", "10.0.0.0/8"} {
		a := r.Do(t, "admin", http.MethodPost, "/dhcp/subnets", fields{"interface": "guest0", "cidr": cidr, "range_start": "10.10.0.100", "range_end": "10.10.0.101"}).WantField(t, "cidr")
		if !strings.Contains(a.Error.Fields["cidr"], "10.10.0.0/24") {
			t.Error(a.Error.Fields)
		}
	}
	// A subnet that is off may share the interface of one that serves.
	other := r.post(t, "/dhcp/subnets", fields{"interface": "lan0", "cidr": "10.50.0.0/24", "range_start": "10.50.0.100", "range_end": "10.50.0.199"})
	r.Do(t, "admin", http.MethodPut, "/dhcp/subnets/"+id, `{"active":true}`).WantField(t, "interface")
	r.Do(t, "admin", http.MethodPut, "/dhcp/subnets/"+other, `{"cidr":"10.10.0.0/16","range_start":"10.10.9.1","range_end":"10.10.9.9"}`).WantField(t, "cidr")
	r.Do(t, "admin", http.MethodPut, "/dhcp/subnets/"+other, `{"active":false}`).Want(t, 200)
	r.Do(t, "admin", http.MethodPut, "/dhcp/subnets/"+id, `{"active":true}`).Want(t, 200)

	var list []dhcp.Subnet
	r.post(t, "/dhcp/subnets", fields{"interface": "guest0", "cidr": "9.0.0.0/24", "range_start": "9.0.0.100", "range_end": "9.0.0.199"})
	r.Get(t, "/dhcp/subnets").Want(t, 200).Into(t, &list)
	if len(list) != 3 || list[0].Label() != "9.0.0.0/24" || list[1].Label() != "10.10.0.0/24" {
		t.Fatalf("the order is not that of the addresses: %v", list)
	}
}

func TestLeaseSecondsAndSettings(t *testing.T) {
	r := bench(t)
	r.post(t, "/dhcp/subnets", with(fields{"lease_seconds": 7200}))
	a := r.Do(t, "admin", http.MethodPut, "/dhcp/settings", `{"max_lease_seconds":7199}`).WantField(t, "max_lease_seconds")
	if !strings.Contains(a.Error.Fields["max_lease_seconds"], "10.10.0.0/24") {
		t.Error(a.Error.Fields)
	}
	r.Do(t, "admin", http.MethodPut, "/dhcp/settings", `{"max_lease_seconds":7200}`).Want(t, 200)
}

func TestReservations(t *testing.T) {
	r := bench(t)
	id := r.post(t, "/dhcp/subnets", with(nil))
	r.post(t, "/dhcp/subnets", fields{"interface": "guest0", "cidr": "10.20.0.0/24", "range_start": "10.20.0.100", "range_end": "10.20.0.199"})
	made := r.Do(t, "admin", http.MethodPost, "/dhcp/reservations", fields{"subnet_id": id, "mac": "AA-BB-CC-00-11-22", "ip": "10.10.0.120", "hostname": "Printer"}).Want(t, 201)
	var row dhcp.Reservation
	made.Into(t, &row)
	if row.MAC.String() != "aa:bb:cc:00:11:22" || row.Hostname.String() != "printer" {
		t.Fatalf("%s", made.Body)
	}
	for _, mac := range []string{"aa:bb:cc:00:11:22", "AA:BB:CC:00:11:22", "aabb.cc00.1122", "aa-bb-cc-00-11-22", "aabbcc001122", "AABBCC001122"} {
		r.Do(t, "admin", http.MethodPost, "/dhcp/reservations", fields{"subnet_id": id, "mac": mac, "ip": "10.10.0.9"}).WantTaken(t, "mac")
	}
	for _, x := range []struct {
		field   string
		changes fields
	}{
		{"mac", fields{"mac": "aa:bb:cc:00:11:22:33:44"}},
		{"mac", fields{"mac": "aa:bb:cc:00:11"}},
		{"mac", fields{"mac": "00:00:00:00:00:00"}},
		{"mac", fields{"mac": "ff:ff:ff:ff:ff:ff"}},
		{"mac", fields{"mac": "01:00:5e:00:00:01"}},
		{"mac", fields{"mac": "aa:bb:cc:00:11:gg"}},
		{"mac", fields{"mac": ""}},
		{"ip", fields{"ip": "10.20.0.9"}},
		{"ip", fields{"ip": "10.10.0.0"}},
		{"ip", fields{"ip": "10.10.0.255"}},
		{"ip", fields{"ip": "10.10.0.1"}},
		{"ip", fields{"ip": "10.10.0.250"}},
		{"ip", fields{"ip": "2001:db8::1"}},
		{"ip", fields{"ip": nil}},
		{"hostname", fields{"hostname": "10.0.0.1"}},
		{"hostname", fields{"hostname": "<img onerror=x>"}},
		{"hostname", fields{"hostname": strings.Repeat("a", 64)}},
		{"subnet_id", fields{"subnet_id": "0198a000-0000-7000-8000-000000000001"}},
		{"subnet_id", fields{"subnet_id": "x"}},
		{"subnet_id", fields{"subnet_id": nil}},
	} {
		body := fields{"subnet_id": id, "mac": "aa:bb:cc:00:11:23", "ip": "10.10.0.9"}
		maps.Copy(body, x.changes)
		r.Do(t, "admin", http.MethodPost, "/dhcp/reservations", body).WantField(t, x.field)
	}
	r.Do(t, "admin", http.MethodPost, "/dhcp/reservations", fields{"subnet_id": id, "mac": "aa:bb:cc:00:11:23", "ip": "10.10.0.120"}).WantTaken(t, "ip")
	if n := r.Rows(t, "dhcp_reservations"); n != 1 {
		t.Fatalf("%d rows after refused bodies", n)
	}
	r.post(t, "/dhcp/reservations", fields{"subnet_id": id, "mac": "aa:bb:cc:00:11:23", "ip": "10.10.0.9"})
	var list []dhcp.Reservation
	r.Get(t, "/dhcp/reservations").Want(t, 200).Into(t, &list)
	if len(list) != 2 || list[0].IP.String() != "10.10.0.9" {
		t.Fatalf("the order is not that of the addresses: %v", list)
	}
	if !strings.Contains(r.file(t), `"hw-address": "aa:bb:cc:00:11:22"`) {
		t.Fatalf("not in the file:\n%s", r.file(t))
	}
	// An update that keeps its own address and machine does not conflict with itself.
	path := "/dhcp/reservations/" + row.ID.String()
	r.Do(t, "admin", http.MethodPut, path, `{"hostname":""}`).Want(t, 200)
	r.Do(t, "admin", http.MethodPut, path, `{"ip":"10.10.0.9"}`).WantTaken(t, "ip")

	// The subnet must keep its reservations inside.
	a := r.Do(t, "admin", http.MethodPut, "/dhcp/subnets/"+id, `{"cidr":"10.10.0.64/26","range_start":"10.10.0.100","range_end":"10.10.0.119","gateway":"10.10.0.65"}`).WantField(t, "cidr")
	if got := a.Error.Fields["cidr"]; !strings.Contains(got, "10.10.0.9") || strings.Contains(got, "10.10.0.120") {
		t.Error(got)
	}
	r.Do(t, "admin", http.MethodPut, "/dhcp/subnets/"+id, `{"gateway":"10.10.0.9"}`).WantField(t, "gateway")
	r.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200)
	for action, n := range map[string]int{"dhcp.reservation.create": 2, "dhcp.reservation.update": 1, "dhcp.reservation.delete": 1} {
		if got := r.Audited(t, action); got != n {
			t.Errorf("%s audited %d times", action, got)
		}
	}
}

func TestWhatCannotBeServed(t *testing.T) {
	r := bench(t)
	r.enable(t)
	r.post(t, "/dhcp/subnets", with(nil))
	for _, x := range []fields{
		{"interface": "lan9", "cidr": "10.90.0.0/24", "range_start": "10.90.0.100", "range_end": "10.90.0.199"},
		{"interface": "off0", "cidr": "10.91.0.0/24", "range_start": "10.91.0.100", "range_end": "10.91.0.199"},
		{"interface": "guest0", "cidr": "10.20.0.0/24", "range_start": "10.20.0.100", "range_end": "10.20.0.199"},
	} {
		r.Do(t, "admin", http.MethodPost, "/dhcp/subnets", x).Want(t, 201)
	}
	r.interfaces[0].Zone = value.Must[value.Zone]("wan") // guest0 is given to strangers
	r.Engine.ApplyAll(t.Context())
	state, why := r.status(t)
	for _, part := range []string{"10.90.0.0/24 is not served: there is no interface lan9", "10.91.0.0/24 is not served: the interface off0 is off", "10.20.0.0/24 is not served: Interface guest0 belongs to the zone wan"} {
		if state != "degraded" || !strings.Contains(why, part) {
			t.Errorf("%s: %s", state, why)
		}
	}
	for _, name := range []string{"lan9", "off0", "guest0"} {
		if strings.Contains(r.file(t), name) {
			t.Errorf("%s is in the file", name)
		}
	}
	if !strings.Contains(r.file(t), `"interface": "lan0"`) {
		t.Error("the rest is not served")
	}
	// What cannot be served can still be changed, and switched off, but not on again.
	var list []dhcp.Subnet
	r.Get(t, "/dhcp/subnets").Want(t, 200).Into(t, &list)
	for _, s := range list {
		if s.Interface.String() == "guest0" {
			r.Do(t, "admin", http.MethodPut, "/dhcp/subnets/"+s.ID.String(), `{"domain_name":"guest.example.net"}`).Want(t, 200)
			r.Do(t, "admin", http.MethodPut, "/dhcp/subnets/"+s.ID.String(), `{"active":false}`).Want(t, 200)
			r.Do(t, "admin", http.MethodPut, "/dhcp/subnets/"+s.ID.String(), `{"active":true}`).WantField(t, "interface")
		}
	}
}

func TestWhatKeaDoesNotHear(t *testing.T) {
	r := bench(t)
	r.enable(t)
	r.post(t, "/dhcp/subnets", with(nil))
	words := []string{"the interface lan0 is not running"} // no cable: nobody to serve
	r.Machine.AnswerLeaseServer(func(c kea.Command, _ json.RawMessage) (any, error) {
		if c != kea.Status {
			return nil, nil
		}
		return map[string]any{"sockets": map[string]any{"status": "retrying", "errors": words}}, nil
	})
	r.Engine.ApplyAll(t.Context())
	if state, why := r.status(t); state != "live" {
		t.Fatalf("%s: %s", state, why)
	}
	words = []string{"the interface lan0 is down"}
	r.Engine.ApplyAll(t.Context())
	if state, why := r.status(t); state != "degraded" || !strings.Contains(why, "the interface lan0 is down") {
		t.Fatalf("%s: %s", state, why)
	}
}

func TestRefusedReload(t *testing.T) {
	r := bench(t)
	r.enable(t)
	r.post(t, "/dhcp/subnets", with(nil))
	before := r.file(t)
	r.Machine.RefuseLeaseServerReload(&kea.Refused{Command: kea.Reload, Text: "subnet configuration failed"})
	a := r.Do(t, "admin", http.MethodPost, "/dhcp/subnets", fields{"interface": "guest0", "cidr": "10.20.0.0/24", "range_start": "10.20.0.100", "range_end": "10.20.0.199"}).Want(t, 201)
	if a.Header.Get("Gateway-Apply") != "dhcp=degraded" || r.file(t) != before {
		t.Fatalf("%s:\n%s", a.Header.Get("Gateway-Apply"), r.file(t))
	}
	if _, why := r.status(t); !strings.Contains(why, "subnet configuration failed") {
		t.Fatal(why)
	}
	r.Machine.RefuseLeaseServerReload(nil)
	if _, failed := r.Engine.ApplyAll(t.Context()); len(failed) > 0 || !strings.Contains(r.file(t), "10.20.0.0/24") {
		t.Fatalf("does not converge: %v", failed)
	}
}

// The answer of Kea 2.6 is simulated: 2.2 finds new links on its own. TestDHCP of test/machine gets the real one where Kea is 2.6.
func TestPlayedKea26DoesNotKnowANewLink(t *testing.T) {
	r := bench(t)
	r.enable(t)
	r.post(t, "/dhcp/subnets", with(nil))
	refuse := func(link string) {
		r.Machine.RefuseLeaseServerReload(&kea.Refused{Command: kea.Reload, Text: "Config reload failed: configuration error using file '/etc/kea/gateway/kea-dhcp4.conf': " +
			"subnet configuration failed: Specified network interface name " + link + " for subnet 10.20.0.0/24 is not present in the system (/etc/kea/gateway/kea-dhcp4.conf:93:7)"})
	}
	restarts := r.Machine.Restarts(kea.Unit)
	refuse("guest0")
	id := r.post(t, "/dhcp/subnets", fields{"interface": "guest0", "cidr": "10.20.0.0/24", "range_start": "10.20.0.100", "range_end": "10.20.0.199"})
	if n := r.Machine.Restarts(kea.Unit) - restarts; n != 1 || !strings.Contains(r.file(t), "10.20.0.0/24") {
		t.Fatalf("%d restarts:\n%s", n, r.file(t))
	}
	// A link that disappears between the check and the reload: a Kea that starts with such a file exits.
	refuse("gone0")
	a := r.Do(t, "admin", http.MethodPut, "/dhcp/subnets/"+id, `{"lease_seconds":600}`).Want(t, 200)
	if n := r.Machine.Restarts(kea.Unit) - restarts; n != 1 || a.Header.Get("Gateway-Apply") != "dhcp=degraded" {
		t.Fatalf("%d restarts, %s", n, a.Header.Get("Gateway-Apply"))
	}
}

func TestDaemonThatIsGone(t *testing.T) {
	r := bench(t)
	r.enable(t)
	restarts := r.Machine.Restarts(kea.Unit)
	r.Machine.SetUnit(host.UnitState{Unit: kea.Unit, Installed: true, Active: "failed"})
	r.post(t, "/dhcp/subnets", with(nil))
	if r.Machine.Restarts(kea.Unit) != restarts+1 {
		t.Fatalf("%d restarts", r.Machine.Restarts(kea.Unit)-restarts)
	}
	r.Machine.Refuse(kea.Unit, errors.New("exit status 1"))
	r.Machine.SetUnit(host.UnitState{Unit: kea.Unit, Installed: true, Active: "failed"})
	r.Engine.ApplyAll(t.Context())
	if state, why := r.status(t); state != "degraded" || !strings.Contains(why, "exit status 1") {
		t.Fatalf("%s: %s", state, why)
	}
	r.Machine.Uninstall(kea.Unit)
	a := r.Do(t, "admin", http.MethodPut, "/dhcp/settings", `{"max_lease_seconds":7200}`).Want(t, 200)
	if a.Header.Get("Gateway-Apply") != "dhcp=not_installed" {
		t.Fatalf("apply: %q", a.Header.Get("Gateway-Apply"))
	}
}

// While another node of the cluster hands out addresses, Kea does not run here, but its file still follows the settings.
func TestOneNodeHandsOut(t *testing.T) {
	r := bench(t)
	r.enable(t)
	r.elsewhere = true
	if s := r.Engine.Refresh(t.Context(), apply.DHCP, false); s.State != apply.Live || r.Machine.Stops(kea.Unit) == 0 || r.Machine.Enabled(kea.Unit) {
		t.Errorf("%+v, %d stops", s, r.Machine.Stops(kea.Unit))
	}
	restarts := r.Machine.Restarts(kea.Unit)
	r.post(t, "/dhcp/subnets", with(nil))
	if !strings.Contains(r.file(t), "10.10.0.100") || r.Machine.Restarts(kea.Unit) != restarts {
		t.Errorf("%d restarts\n%s", r.Machine.Restarts(kea.Unit)-restarts, r.file(t))
	}
	var list dhcp.Leases
	r.Get(t, "/dhcp/leases").Want(t, 200).Into(t, &list)
	if !strings.HasPrefix(list.Error, "Another node of the cluster hands out addresses") {
		t.Errorf("%+v", list)
	}
	if all, err := r.room.Holders(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
	r.elsewhere = false
	if s := r.Engine.Refresh(t.Context(), apply.DHCP, false); s.State != apply.Live || r.Machine.Restarts(kea.Unit) != restarts+1 || !r.Machine.Enabled(kea.Unit) {
		t.Errorf("%+v, %d restarts", s, r.Machine.Restarts(kea.Unit)-restarts)
	}
}

// If someone makes Kea read another file, that is detected.
func TestAnotherFile(t *testing.T) {
	r := bench(t)
	r.enable(t)
	was := r.file(t)
	r.Machine.SetFile(kea.Config, `{"Dhcp4": {"server-tag": "somebody"}}`)
	if err := kea.Ask(t.Context(), r.Machine, kea.Reload, nil, nil); err != nil {
		t.Fatal(err)
	}
	r.Machine.SetFile(kea.Config, was)
	reloads := r.Machine.LeaseServerReloads()
	r.Engine.Refresh(t.Context(), "dhcp", false)
	if r.Machine.LeaseServerReloads() != reloads+1 {
		t.Fatalf("%d reloads", r.Machine.LeaseServerReloads()-reloads)
	}
	r.Engine.Refresh(t.Context(), "dhcp", false)
	if r.Machine.LeaseServerReloads() != reloads+1 {
		t.Fatal("reloads without need")
	}
}

func TestPreview(t *testing.T) {
	r := bench(t)
	before := r.file(t)
	a := r.Do(t, "viewer", http.MethodPost, "/change-sets", fields{"preview": true, "operations": []fields{{"kind": "dhcp.subnet", "verb": "create", "body": with(nil)}}}).Want(t, 200)
	if !strings.Contains(string(a.Data), `10.10.0.100 - 10.10.0.199`) || r.file(t) != before || r.Rows(t, "dhcp_subnets") != 0 {
		t.Fatalf("%s", a.Data)
	}
}

func TestLeases(t *testing.T) {
	r := bench(t)
	var list dhcp.Leases
	r.Get(t, "/dhcp/leases").Want(t, 200).Into(t, &list)
	if list.Error != "The DHCP server is off." || list.Leases == nil {
		t.Fatalf("%+v", list)
	}
	r.enable(t)
	r.Machine.Hang(true)
	r.Get(t, "/dhcp/leases").Want(t, 200).Into(t, &list)
	r.Machine.Hang(false)
	if list.Error != "The DHCP server did not answer in time." {
		t.Fatalf("of a Kea that hangs: %+v", list)
	}
	id := r.post(t, "/dhcp/subnets", fields{"interface": "lan0", "cidr": "10.10.0.0/16", "range_start": "10.10.1.0", "range_end": "10.10.255.254"})
	reservation := r.post(t, "/dhcp/reservations", fields{"subnet_id": id, "mac": "52:54:00:00:00:01", "ip": "10.10.0.9", "hostname": "printer"})

	now := time.Now().Unix()
	all := []map[string]any{
		{"ip-address": "10.10.0.9", "hw-address": "52:54:00:00:00:01", "hostname": "printer", "state": 0, "cltt": now - 60, "valid-lft": 3600},
		{"ip-address": "10.10.1.1", "hw-address": "52:54:00:00:00:02", "hostname": "Old.Laptop", "state": 0, "cltt": now - 7200, "valid-lft": 3600},
		{"ip-address": "10.10.1.2", "hw-address": "52:54:00:00:00:03", "hostname": "", "state": 2, "cltt": now, "valid-lft": 3600},
		{"ip-address": "10.10.1.3", "hw-address": "", "hostname": "", "state": 1, "cltt": now, "valid-lft": 86400},
	}
	const many = 2500
	for i := range many {
		all = append(all, map[string]any{
			"ip-address": fmt.Sprintf("10.10.%d.%d", 2+i/250, i%250), "hw-address": fmt.Sprintf("52:54:01:00:%02x:%02x", i>>8, i&255), "hostname": fmt.Sprintf("<b>%d", i), "state": 0, "cltt": now, "valid-lft": 3600,
		})
	}
	all = append(all, map[string]any{"ip-address": "172.16.0.1", "hw-address": "52:54:00:00:00:09", "hostname": "elsewhere", "state": 0, "cltt": now, "valid-lft": 3600})
	r.Machine.AnswerLeaseServer(func(c kea.Command, arguments json.RawMessage) (any, error) {
		if c != kea.LeasePage {
			return nil, nil
		}
		var page struct {
			From  string
			Limit int
		}
		if err := json.Unmarshal(arguments, &page); err != nil {
			return nil, err
		}
		start := 0
		for i := range all {
			if all[i]["ip-address"] == page.From {
				start = i + 1
			}
		}
		return map[string]any{"leases": all[start:min(len(all), start+page.Limit)]}, nil
	})
	r.Get(t, "/dhcp/leases").Want(t, 200).Into(t, &list)
	if list.Error != "" || list.Total != many+4 || len(list.Leases) != 2000 {
		t.Fatalf("%s, %d of %d", list.Error, len(list.Leases), list.Total)
	}
	for i, want := range []string{"active", "expired", "expired", "declined", "active"} {
		if list.Leases[i].State != want {
			t.Errorf("%+v", list.Leases[i])
		}
	}
	if first := list.Leases[0]; first.ReservationID == nil || first.ReservationID.String() != reservation || first.SubnetID.String() != id || first.ExpiresAt.Sub(first.StartsAt) != time.Hour || list.Leases[4].ReservationID != nil {
		t.Errorf("%+v", first)
	}
	if u := list.Usage; len(u) != 1 || u[0].Size != 254*256+255 || u[0].Leased != many || u[0].Declined != 1 {
		t.Errorf("%+v", u)
	}
	for search, want := range map[string]int{"LAPTOP": 1, "10.10.1.": 3, "5254.0000.0001": 1, "%3Cb%3E249": 11, "elsewhere": 0} {
		r.Get(t, "/dhcp/leases?search="+search).Want(t, 200).Into(t, &list)
		if list.Total != want || len(list.Leases) != want {
			t.Errorf("%s: %d", search, list.Total)
		}
	}
	r.Machine.AnswerLeaseServer(func(kea.Command, json.RawMessage) (any, error) { return nil, errors.New("kea is tired") })
	r.Get(t, "/dhcp/leases").Want(t, 200).Into(t, &list)
	if list.Error != "The DHCP server could not be asked. It said: kea is tired" {
		t.Errorf("%+v", list)
	}
	r.Do(t, "viewer", http.MethodGet, "/dhcp/leases", nil).Want(t, 200).Into(t, &list)
	if list.Error != "The DHCP server could not be asked." {
		t.Errorf("%+v", list)
	}
}

// While the database is away, Kea still follows the machine: a link that returns is served again, although it has another number.
func TestFollowsTheMachineWithoutADatabase(t *testing.T) {
	d, server := dbtest.Own(t)
	r := benchOn(t, kittest.NewOn(t, d))
	r.enable(t)
	r.post(t, "/dhcp/subnets", with(nil))
	serves := func() bool { return strings.Contains(r.file(t), `"subnet": "10.10.0.0/24"`) }
	if !serves() {
		t.Fatalf("the subnet is not served:\n%s", r.file(t))
	}
	r.Machine.SetLinks(link(1, "lo", "loopback", "127.0.0.1"))
	r.Engine.Refresh(t.Context(), apply.DHCP, false)
	if serves() {
		t.Fatalf("a link that the machine does not have is served:\n%s", r.file(t))
	}
	defer dbtest.Freeze(t, server)()
	r.Machine.SetLinks(link(1, "lo", "loopback", "127.0.0.1"), link(9, "lan0", "ether", "10.10.0.1"))
	waittest.Until(t, "the link that is back is served", serves)
}
