package machine

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// dhcpClient is the script of a real DHCP client: it prints its lease, and sets the address.
const dhcpClient = `#!/bin/sh
case "$1" in
bound|renew)
	ip addr flush dev "$interface"
	ip addr add "$ip/$mask" dev "$interface"
	echo "event=$1"
	env
	echo "event=done" ;;
esac
`

// dhcpRig is a lab with DHCP clients.
type dhcpRig struct {
	*labtest.Lab
	script string
	subnet string
}

type leaseRow struct {
	IP, MAC, Hostname, State string
	SubnetID                 string `json:"subnet_id"`
	ReservationID            string `json:"reservation_id"`
}

type leaseList struct {
	Leases []leaseRow
	Total  int
	Usage  []struct{ Size, Leased, Declined int }
	Error  string
}

// One lab serves all, in this order.
func TestDHCP(t *testing.T) {
	t.Parallel()
	r := &dhcpRig{Lab: labtest.UpAsAdmin(t, lab.Options{Volatile: true}), script: filepath.Join(t.TempDir(), "client")}
	if err := os.WriteFile(r.script, []byte(dhcpClient), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(r.Log(kea.Unit))
			t.Logf("kea:\n%s", log[max(0, len(log)-6000):])
		}
	})
	for _, x := range []struct {
		name string
		test func(*testing.T, *dhcpRig)
	}{
		{"DH01OffByDefault", dhcpOffByDefault},
		{"HandsOutTheRange", dhcpHandsOutTheRange},
		{"OpensTheLanAlone", dhcpOpensTheLanAlone},
		{"Renews", dhcpRenews},
		{"ReservesOverTheWire", dhcpReserves},
		{"DH02Refused", dhcpRefused},
		{"ListsLeases", dhcpListsLeases},
		{"AreClients", dhcpClients},
		{"LG06HostileName", dhcpHostileName},
		{"ChangesKeepLeases", dhcpChangesKeepLeases},
		{"Impact", dhcpImpact},
		{"ALinkThatGoes", dhcpLinkThatGoes},
		{"HealsAfterAKill", dhcpHeals},
		{"Disabled", dhcpDisabled},
	} {
		if !t.Run(x.name, func(t *testing.T) { x.test(t, r) }) {
			return // what follows builds on it
		}
	}
}

// machine creates a machine on a side of the lab.
func (r *dhcpRig) machine(t *testing.T, side lab.Side, name, mac string) {
	t.Helper()
	r.Run(t, side, "ip", "link", "add", name, "link", "eth0", "address", mac, "type", "macvlan", "mode", "bridge")
	r.Run(t, side, "ip", "link", "set", name, "up")
}

// once is for machines that must get no answer.
var once = []string{"-t", "1"}

// asks makes a machine request an address, and returns its lease; nil without an answer.
func (r *dhcpRig) asks(t *testing.T, side lab.Side, name string, options ...string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	argv := append([]string{"busybox", "udhcpc", "-i", name, "-f", "-n", "-q", "-t", "20", "-T", "1", "-s", r.script, "-O", "ntpsrv"}, options...)
	cmd, err := r.Command(ctx, side, argv...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	given := parseGiven(string(out))
	if (given == nil) != (err != nil) {
		t.Fatalf("%v: %s", err, out)
	}
	return given
}

func parseGiven(out string) map[string]string {
	_, told, ok := strings.Cut(out, "event=")
	if !ok {
		return nil
	}
	given := map[string]string{}
	for line := range strings.Lines(told) {
		if name, text, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			given[name] = text
		}
	}
	return given
}

func (r *dhcpRig) leases(t *testing.T, search string) (list leaseList) {
	t.Helper()
	r.Must(t, http.MethodGet, "/dhcp/leases?search="+search, nil, 200, &list)
	if list.Error != "" {
		t.Fatal(list.Error)
	}
	return list
}

// live makes a change that must be live in Kea.
func (r *dhcpRig) live(t *testing.T, method, path string, body any, status int) (id string) {
	t.Helper()
	var row struct{ ID string }
	a := r.Must(t, method, path, body, status, &row)
	if !strings.Contains(a.Header.Get("Gateway-Apply"), "dhcp=live") {
		var components []labtest.Component
		r.Must(t, http.MethodGet, "/system/components", nil, 200, &components)
		t.Fatalf("%s %s: %s: %+v", method, path, a.Header.Get("Gateway-Apply"), components)
	}
	return row.ID
}

func dhcpOffByDefault(t *testing.T, r *dhcpRig) {
	r.WaitState(t, "dhcp", "live", 10*time.Second)
	var settings struct {
		Enabled bool
		Default int `json:"default_lease_seconds"`
	}
	if r.Must(t, http.MethodGet, "/dhcp/settings", nil, 200, &settings); settings.Enabled || settings.Default != 3600 {
		t.Fatalf("%+v", settings)
	}
	if state, err := r.Units().State(t.Context(), kea.Unit); err != nil || state.Active != "inactive" {
		t.Fatalf("%+v, %v", state, err)
	}
	for field, value := range map[string]any{
		"cidr": "10.10.0.0/33", "range_start": "10.10.0.300", "gateway": "x", "interface": "nowhere0", "dns_servers": []string{"x"}, "range_end": "10.11.0.1",
	} {
		body := map[string]any{"interface": "lan0", "cidr": "10.10.0.0/24", "range_start": "10.10.0.100", "range_end": "10.10.0.199"}
		body[field] = value
		if a := r.Must(t, http.MethodPost, "/dhcp/subnets", body, 400, nil); !strings.Contains(string(a.Body), `"`+field+`"`) {
			t.Errorf("%s: %s", field, a.Body)
		}
	}
	wan := map[string]any{"interface": "wan0", "cidr": "198.51.100.0/24", "range_start": "198.51.100.100", "range_end": "198.51.100.199"}
	if a := r.Must(t, http.MethodPost, "/dhcp/subnets", wan, 400, nil); !strings.Contains(string(a.Body), "zone wan") {
		t.Error(string(a.Body))
	}
	r.machine(t, lab.Lan, "one", "52:54:00:00:00:01")
	if given := r.asks(t, lab.Lan, "one", once...); given != nil {
		t.Fatal(given)
	}
}

func dhcpHandsOutTheRange(t *testing.T, r *dhcpRig) {
	r.subnet = r.live(t, http.MethodPost, "/dhcp/subnets", map[string]any{
		"interface": "lan0", "cidr": "10.10.0.0/24", "range_start": "10.10.0.100", "range_end": "10.10.0.199", "gateway": "10.10.0.1",
		"dns_servers": []string{"10.10.0.1", "9.9.9.9"}, "ntp_servers": []string{"10.10.0.1"}, "domain_name": "lan.example.net", "lease_seconds": 600,
	}, 201)
	r.live(t, http.MethodPut, "/dhcp/settings", map[string]any{"enabled": true}, 200)
	given := r.asks(t, lab.Lan, "one", "-x", "hostname:laptop")
	for name, want := range map[string]string{
		"ip": "10.10.0.100", "mask": "24", "router": "10.10.0.1", "dns": "10.10.0.1 9.9.9.9", "ntpsrv": "10.10.0.1", "domain": "lan.example.net", "lease": "600", "serverid": "10.10.0.1",
	} {
		if given[name] != want {
			t.Errorf("%s is %q instead of %q", name, given[name], want)
		}
	}
	if log, err := os.ReadFile(r.Log(kea.Unit)); err != nil || bytes.Count(log, []byte("52:54:00:00:00:01")) > 1 {
		t.Errorf("kea logs more than a line for a lease: %v\n%s", err, log)
	}
	r.machine(t, lab.Wan, "stranger", "52:54:00:00:00:66")
	if given := r.asks(t, lab.Wan, "stranger", once...); given != nil {
		t.Fatalf("the wan gets addresses: %v", given)
	}
}

func dhcpOpensTheLanAlone(t *testing.T, r *dhcpRig) {
	open := slices.Collect(func(yield func(string) bool) {
		for line := range strings.Lines(r.Run(t, lab.Gateway, "nft", "list", "ruleset")) {
			if strings.Contains(line, "udp dport 67") && !yield(line) {
				return
			}
		}
	})
	if len(open) == 0 || !strings.Contains(open[0], "lan0") || slices.ContainsFunc(open, func(line string) bool { return strings.Contains(line, "wan0") }) {
		t.Fatalf("%q", open)
	}
}

func dhcpRenews(t *testing.T, r *dhcpRig) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	pid := filepath.Join(t.TempDir(), "pid")
	cmd, err := r.Command(ctx, lab.Lan, "busybox", "udhcpc", "-i", "one", "-f", "-n", "-t", "20", "-R", "-p", pid, "-s", r.script, "-x", "hostname:laptop")
	if err != nil {
		t.Fatal(err)
	}
	told, err := os.Create(filepath.Join(t.TempDir(), "told"))
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	cmd.Stdout, cmd.Stderr = told, told
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := func(event string) bool {
		content, _ := os.ReadFile(told.Name())
		return bytes.Count(content, []byte("event="+event+"\n")) > 0 && bytes.HasSuffix(bytes.TrimSpace(content), []byte("event=done"))
	}
	waittest.Until(t, "the client has its address", func() bool { return said("bound") })
	number, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	r.Run(t, lab.Lan, "kill", "-USR1", strings.TrimSpace(string(number))) // renew
	waittest.Until(t, "the client has renewed", func() bool { return said("renew") })
	content, _ := os.ReadFile(told.Name())
	_, renewed, _ := strings.Cut(string(content), "event=renew")
	if given := parseGiven("event=" + renewed); given["ip"] != "10.10.0.100" {
		t.Fatalf("%v", given)
	}
	// When terminated, it releases the address.
	r.Run(t, lab.Lan, "kill", "-TERM", strings.TrimSpace(string(number)))
	_ = cmd.Wait()
	waittest.Until(t, "the address is free", func() bool {
		return !slices.ContainsFunc(r.leases(t, "").Leases, func(l leaseRow) bool { return l.State == "active" })
	})
	if given := r.asks(t, lab.Lan, "one", "-x", "hostname:laptop", "-r", "10.10.0.100"); given["ip"] != "10.10.0.100" {
		t.Fatalf("%v", given)
	}
}

func dhcpReserves(t *testing.T, r *dhcpRig) {
	r.machine(t, lab.Lan, "two", "52:54:00:00:00:02")
	r.live(t, http.MethodPost, "/dhcp/reservations", map[string]any{"subnet_id": r.subnet, "mac": "5254.0000.0002", "ip": "10.10.0.9", "hostname": "printer"}, 201)
	// A client id does not make it another machine.
	for _, options := range [][]string{nil, {"-x", "0x3d:00aabbcc"}} {
		if given := r.asks(t, lab.Lan, "two", options...); given["ip"] != "10.10.0.9" || given["hostname"] != "printer" {
			t.Fatalf("%v", given)
		}
	}
}

func dhcpRefused(t *testing.T, r *dhcpRig) {
	for _, x := range []struct {
		field, mac, ip string
		status         int
	}{
		{"mac", "52-54-00-00-00-02", "10.10.0.10", 409}, {"mac", "525400000002", "10.10.0.10", 409}, {"mac", "52:54:00:00:00:02:00:01", "10.10.0.10", 400},
		{"ip", "52:54:00:00:00:03", "10.10.0.9", 409}, {"ip", "52:54:00:00:00:03", "10.11.0.9", 400}, {"ip", "52:54:00:00:00:03", "10.10.0.1", 400},
	} {
		a := r.Must(t, http.MethodPost, "/dhcp/reservations", map[string]any{"subnet_id": r.subnet, "mac": x.mac, "ip": x.ip}, x.status, nil)
		if !strings.Contains(string(a.Body), `"`+x.field+`"`) {
			t.Errorf("%+v: %s", x, a.Body)
		}
	}
	a := r.Must(t, http.MethodPost, "/dhcp/subnets", map[string]any{"interface": "lan0", "cidr": "10.10.0.128/25", "range_start": "10.10.0.130", "range_end": "10.10.0.140"}, 400, nil)
	if !strings.Contains(string(a.Body), "overlaps with the subnet 10.10.0.0/24") {
		t.Error(string(a.Body))
	}
}

func dhcpListsLeases(t *testing.T, r *dhcpRig) {
	list := r.leases(t, "")
	if len(list.Leases) != 2 || list.Total != 2 || list.Leases[0].IP != "10.10.0.9" || list.Leases[1].IP != "10.10.0.100" {
		t.Fatalf("%+v", list)
	}
	reserved, free := list.Leases[0], list.Leases[1]
	if reserved.ReservationID == "" || free.ReservationID != "" || free.Hostname != "laptop" || free.MAC != "52:54:00:00:00:01" || free.State != "active" || free.SubnetID != r.subnet {
		t.Fatalf("%+v", list)
	}
	if u := list.Usage[0]; len(list.Usage) != 1 || u.Size != 100 || u.Leased != 1 {
		t.Fatalf("%+v", list.Usage)
	}
	for search, want := range map[string]int{"LAPTOP": 1, "10.10.0": 2, "52-54-00-00-00-02": 1, "nobody": 0} {
		if n := r.leases(t, search).Total; n != want {
			t.Errorf("%s: %d", search, n)
		}
	}
	// A reservation is created from a current lease.
	id := r.live(t, http.MethodPost, "/dhcp/reservations", map[string]any{"subnet_id": free.SubnetID, "mac": free.MAC, "ip": free.IP, "hostname": free.Hostname}, 201)
	if list := r.leases(t, "laptop"); list.Leases[0].ReservationID != id {
		t.Fatalf("%+v", list)
	}
	if given := r.asks(t, lab.Lan, "one"); given["ip"] != free.IP || given["hostname"] != "laptop" {
		t.Fatalf("%v", given)
	}
	r.live(t, http.MethodDelete, "/dhcp/reservations/"+id, nil, 200)
}

// dhcpClients looks for the devices among the clients: what Kea, the kernel's neighbours and its connections know about a device is one entry.
func dhcpClients(t *testing.T, r *dhcpRig) {
	r.Run(t, lab.Gateway, "sysctl", "-qw", "net.netfilter.nf_conntrack_acct=1")
	call := []string{"curl", "-s", "-o", "/dev/null", "--interface", "one", "--max-time", "5", "http://10.10.0.1/"}
	r.Run(t, lab.Lan, call...)
	type client struct {
		ID, Name, MAC, Zone, Interface string
		Random                         bool `json:"random_mac"`
		Online                         bool
		Sources                        []string
		Addresses                      []struct{ Address string }
		Connections                    int
		Sent                           *int   `json:"sent_bytes"`
		SubnetID                       string `json:"subnet_id"`
		Blocked                        []struct {
			Rule string `json:"rule_id"`
		} `json:"blocked_by"`
	}
	var list struct {
		Clients  []client
		Counted  bool
		Problems []any
	}
	find := func() client {
		t.Helper()
		r.Must(t, http.MethodGet, "/clients?search=52-54-00-00-00-01", nil, 200, &list)
		if len(list.Clients) != 1 || len(list.Problems) != 0 || !list.Counted {
			t.Fatalf("%+v", list)
		}
		return list.Clients[0]
	}
	c := find()
	if c.ID != "52:54:00:00:00:01" || c.Name != "laptop" || c.Zone != "lan" || c.Interface != "lan0" || !c.Random || !c.Online || c.SubnetID != r.subnet ||
		!slices.Equal(c.Sources, []string{"leases", "neighbours"}) || c.Addresses[0].Address != "10.10.0.100" || c.Connections == 0 || c.Sent == nil || *c.Sent == 0 {
		t.Fatalf("%+v", c)
	}
	// A rule that drops all packets of a client marks it as blocked, and keeps it from the gateway.
	object, rule := uuid.NewString(), uuid.NewString()
	r.Must(t, http.MethodPost, "/change-sets", map[string]any{"operations": []map[string]any{
		{"kind": "firewall.address-object", "verb": "create", "id": object, "body": map[string]any{"name": "laptop", "kind": "host", "value": "10.10.0.100"}},
		{"kind": "firewall.rule", "verb": "create", "id": rule, "body": map[string]any{"name": "Blocked", "action": "drop", "src_kind": "object", "src_object_id": object, "priority": 1}},
	}}, 200, nil)
	if c := find(); len(c.Blocked) != 1 || c.Blocked[0].Rule != rule {
		t.Errorf("%+v", c)
	}
	again, err := r.Command(t.Context(), lab.Lan, call...)
	if err != nil {
		t.Fatal(err)
	}
	if again.Run() == nil {
		t.Error("a blocked client is answered")
	}
	r.Must(t, http.MethodDelete, "/firewall/rules/"+rule, nil, 200, nil)
	r.Must(t, http.MethodDelete, "/firewall/address-objects/"+object, nil, 200, nil)
}

func dhcpHostileName(t *testing.T, r *dhcpRig) {
	r.machine(t, lab.Lan, "three", "52:54:00:00:00:03")
	for _, name := range []string{`<img src=x onerror=alert(1)>`, `a","state":2,"x":"`, "../../etc/passwd", "a\\,b\tc,d"} {
		if given := r.asks(t, lab.Lan, "three", "-x", "hostname:"+name); given["ip"] == "" {
			t.Fatalf("%q: %v", name, given)
		}
		list := r.leases(t, "52:54:00:00:00:03")
		if list.Total != 1 || list.Leases[0].State != "active" || strings.ContainsAny(list.Leases[0].Hostname, "<>\"\\\t") {
			t.Fatalf("%q: %+v", name, list)
		}
	}
	// What came with a name is read back from the file, too.
	r.live(t, http.MethodPut, "/dhcp/subnets/"+r.subnet, map[string]any{"lease_seconds": 700}, 200)
	if n := r.leases(t, "").Total; n != 3 {
		t.Fatalf("%d leases", n)
	}
}

// active are the addresses in use, with their machines.
func (r *dhcpRig) active(t *testing.T) map[string]string {
	t.Helper()
	list := map[string]string{}
	for _, l := range r.leases(t, "").Leases {
		if l.State == "active" {
			list[l.IP] = l.MAC
		}
	}
	return list
}

func dhcpChangesKeepLeases(t *testing.T, r *dhcpRig) {
	before := r.active(t)
	r.Run(t, lab.Gateway, "ip", "link", "add", "lan1", "type", "veth", "peer", "name", "far1")
	r.Run(t, lab.Gateway, "ip", "addr", "add", "10.5.0.1/24", "dev", "lan1")
	r.Run(t, lab.Gateway, "ip", "link", "set", "lan1", "up")
	r.Run(t, lab.Gateway, "ip", "link", "set", "far1", "up")
	r.live(t, http.MethodPost, "/dhcp/subnets", map[string]any{"interface": "lan1", "cidr": "10.5.0.0/24", "range_start": "10.5.0.100", "range_end": "10.5.0.199"}, 201)
	if after := r.active(t); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Fatalf("%v instead of %v", after, before)
	}
	// A subnet that is created again has its leases: a machine keeps its address.
	var row map[string]any
	r.Must(t, http.MethodGet, "/dhcp/subnets/"+r.subnet, nil, 200, &row)
	r.live(t, http.MethodDelete, "/dhcp/subnets/"+r.subnet, nil, 200)
	if n := len(r.active(t)); n != 0 {
		t.Fatalf("%d leases in no subnet", n)
	}
	for _, field := range []string{"id", "created_at", "updated_at"} {
		delete(row, field)
	}
	row["cidr"], row["range_start"] = "10.10.0.0/23", "10.10.0.90"
	r.subnet = r.live(t, http.MethodPost, "/dhcp/subnets", row, 201)
	if after := r.active(t); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Fatalf("%v instead of %v", after, before)
	}
	if given := r.asks(t, lab.Lan, "one"); given["ip"] != "10.10.0.100" || given["mask"] != "23" {
		t.Fatalf("%v", given)
	}
}

// dhcpImpact holds what previews say about clients against what these get when they ask again.
func dhcpImpact(t *testing.T, r *dhcpRig) {
	machines := map[string]string{"one": "52:54:00:00:00:01", "two": "52:54:00:00:00:02", "three": "52:54:00:00:00:03"}
	var reservations []struct{ ID string }
	r.Must(t, http.MethodGet, "/dhcp/reservations", nil, 200, &reservations)
	for _, x := range reservations {
		r.live(t, http.MethodDelete, "/dhcp/reservations/"+x.ID, nil, 200)
	}
	reserved := r.live(t, http.MethodPost, "/dhcp/reservations", fields{"subnet_id": r.subnet, "mac": machines["two"], "ip": "10.10.0.9"}, 201)
	subnet := func(change fields) operation {
		return operation{Kind: "dhcp.subnet", Verb: "update", ID: r.subnet, Body: change}
	}
	all := []string{"one", "three", "two"}
	for _, x := range []struct {
		change operation
		effect string
		whom   []string
	}{
		{subnet(fields{"lease_seconds": 900}), "", nil},
		{subnet(fields{"gateway": "10.10.0.3"}), "rerouted_when_reopened", all},
		{subnet(fields{"dns_servers": []string{"9.9.9.9"}}), "rerouted_when_reopened", all},
		{subnet(fields{"active": false}), "blocked_when_reopened", all},
		{create("dhcp.reservation", fields{"subnet_id": r.subnet, "mac": "52:54:00:00:00:77", "ip": "10.10.0.7"}), "", nil},
		{create("dhcp.reservation", fields{"subnet_id": r.subnet, "mac": "52:54:00:00:00:77", "ip": "{one}"}), "rerouted_when_reopened", []string{"one"}},
		{create("dhcp.reservation", fields{"subnet_id": r.subnet, "mac": machines["three"], "ip": "10.10.0.33"}), "rerouted_when_reopened", []string{"three"}},
		{operation{Kind: "dhcp.reservation", Verb: "delete", ID: reserved}, "rerouted_when_reopened", []string{"two"}},
		{subnet(fields{"range_start": "10.10.0.150"}), "rerouted_when_reopened", []string{"one", "three"}},
		{operation{Kind: "dhcp.settings", Verb: "update", Body: fields{"enabled": false}}, "blocked_when_reopened", all},
	} {
		before := map[string]map[string]string{}
		for name := range machines {
			if before[name] = r.asks(t, lab.Lan, name); before[name] == nil {
				t.Fatalf("%s gets nothing", name)
			}
		}
		if x.change.Body["ip"] == "{one}" {
			x.change.Body["ip"] = before["one"]["ip"]
		}
		said := foretold(t, r.Lab, "dhcp-clients", []operation{x.change})
		a := r.Must(t, http.MethodPost, "/change-sets", fields{"operations": []operation{x.change}}, 200, nil)
		var reached []string
		for _, name := range all {
			options := []string{}
			if x.effect == "blocked_when_reopened" {
				options = once
			}
			was, now := before[name], r.asks(t, lab.Lan, name, options...)
			seen := ""
			switch {
			case now == nil:
				seen = "blocked_when_reopened"
			case slices.ContainsFunc([]string{"ip", "mask", "router", "dns", "ntpsrv", "domain"}, func(option string) bool { return was[option] != now[option] }):
				seen = "rerouted_when_reopened"
			}
			says := ""
			for what, p := range said {
				if strings.Contains(what, machines[name]) && strings.HasSuffix(what, " at "+was["ip"]) {
					says = p.Effect
				}
			}
			if seen != says {
				t.Errorf("%+v: of %s %q was said, and %q happened: %v became %v; %+v", x.change, name, says, seen, was, now, said)
			}
			if seen != "" {
				reached = append(reached, name)
			}
			if seen != "" && seen != x.effect {
				t.Errorf("%+v: %s is %s", x.change, name, seen)
			}
		}
		if !slices.Equal(reached, x.whom) {
			t.Errorf("%+v reaches %v instead of %v", x.change, reached, x.whom)
		}
		r.Must(t, http.MethodPost, "/change-sets/"+a.Header.Get("Gateway-Change-Set")+"/revert", nil, 200, nil)
		r.WaitState(t, "dhcp", "live", 10*time.Second)
	}
}

// pass applies everything again, instead of waiting for the timer.
func (r *dhcpRig) pass(t *testing.T) {
	r.Must(t, http.MethodPost, "/system/render-configs", nil, 200, nil)
}

func dhcpLinkThatGoes(t *testing.T, r *dhcpRig) {
	before := r.asks(t, lab.Lan, "one")
	r.Run(t, lab.Gateway, "ip", "link", "del", "lan1")
	r.pass(t)
	if c := r.WaitState(t, "dhcp", "degraded", 10*time.Second); !strings.Contains(c.LastError, "10.5.0.0/24 is not served: there is no interface lan1") {
		t.Fatal(c.LastError)
	}
	if given := r.asks(t, lab.Lan, "one"); given["ip"] == "" || given["ip"] != before["ip"] {
		t.Fatalf("the others are not served: %v instead of %v", given["ip"], before["ip"])
	}
	r.Run(t, lab.Gateway, "ip", "link", "add", "lan1", "type", "veth", "peer", "name", "far1")
	r.pass(t)
	if c := r.WaitState(t, "dhcp", "degraded", 10*time.Second); !strings.Contains(c.LastError, "lan1 is down") {
		t.Fatal(c.LastError)
	}
	// Without a carrier there are no clients, and when it returns Kea listens again automatically.
	r.Run(t, lab.Gateway, "ip", "addr", "add", "10.5.0.1/24", "dev", "lan1")
	r.Run(t, lab.Gateway, "ip", "link", "set", "lan1", "up")
	r.pass(t)
	r.WaitState(t, "dhcp", "live", 10*time.Second)
	listens := func() bool { return strings.Contains(r.Run(t, lab.Gateway, "ss", "-0lnp"), "lan1") }
	if listens() {
		t.Fatal("listens on a link without a carrier")
	}
	r.Run(t, lab.Gateway, "ip", "link", "set", "far1", "up")
	waittest.Until(t, "kea listens", listens)
	// An interface that moves to the zone wan is no longer served.
	var row struct{ ID string }
	a := r.Must(t, http.MethodPost, "/network-interfaces", map[string]any{"name": "lan1", "type": "ethernet", "role": "wan"}, 201, &row)
	if !strings.Contains(a.Header.Get("Gateway-Apply"), "dhcp=degraded") {
		t.Fatal(a.Header.Get("Gateway-Apply"))
	}
	if sockets := r.Run(t, lab.Gateway, "ss", "-0lnp"); strings.Contains(sockets, "lan1") || !strings.Contains(sockets, "lan0") {
		t.Fatal(sockets)
	}
	r.live(t, http.MethodDelete, "/network-interfaces/"+row.ID, nil, 200)
}

func dhcpHeals(t *testing.T, r *dhcpRig) {
	before := r.active(t)
	state, err := r.Units().State(t.Context(), kea.Unit)
	if err != nil {
		t.Fatal(err)
	}
	r.Run(t, lab.Gateway, "kill", "-9", fmt.Sprint(state.PID))
	another(t, r.Units(), kea.Unit, state.PID)
	r.WaitState(t, "dhcp", "live", 10*time.Second)
	if after := r.active(t); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Fatalf("%v instead of %v", after, before)
	}
	if given := r.asks(t, lab.Lan, "three"); given["ip"] == "" || before[given["ip"]] != "52:54:00:00:00:03" {
		t.Fatalf("%v of %v", given, before)
	}
}

func dhcpDisabled(t *testing.T, r *dhcpRig) {
	r.live(t, http.MethodPut, "/dhcp/settings", map[string]any{"enabled": false}, 200)
	if given := r.asks(t, lab.Lan, "one", once...); given != nil {
		t.Fatalf("%v", given)
	}
	if state, err := r.Units().State(t.Context(), kea.Unit); err != nil || state.Active != "inactive" {
		t.Fatalf("%+v, %v", state, err)
	}
	if rules := r.Run(t, lab.Gateway, "nft", "list", "ruleset"); strings.Contains(rules, "udp dport 67") {
		t.Fatal("still open")
	}
	var list leaseList
	if r.Must(t, http.MethodGet, "/dhcp/leases", nil, 200, &list); list.Error != "The DHCP server is off." {
		t.Fatalf("%+v", list)
	}
}
