package firewall_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
)

// A port forward that takes the gateway's own management ports needs permission.
func TestPortForwardsDoNotLockOut(t *testing.T) {
	o := newOffice(t)
	o.Machine.SetLinks(host.Link{Index: 2, Name: "wan0", Addrs: []host.LinkAddr{{Family: "inet", Local: "203.0.113.9", PrefixLen: 24, Scope: "global", Dynamic: true}}})
	all := []string{"tcp/22", "tcp/443", "udp/443"}
	forward := func(more ...any) map[string]any {
		body := map[string]any{"name": "forward", "kind": "dnat", "in_zone": "wan", "out_zone": "any", "protocol": "tcp", "target_address": "10.1.0.9"}
		for i := 0; i < len(more); i += 2 {
			body[more[i].(string)] = more[i+1]
		}
		return body
	}
	for _, x := range []struct {
		name string
		body map[string]any
		want []string
	}{
		{"every protocol", forward("protocol", "any"), all},
		{"every port", forward(), []string{"tcp/22", "tcp/443"}},
		{"the web", forward("dst_port", 443, "protocol", "tcp+udp"), []string{"tcp/443", "udp/443"}},
		{"QUIC", forward("dst_port", 400, "dst_port_end", 500, "protocol", "udp"), []string{"udp/443"}},
		{"SSH, at an address of the gateway", forward("dst_port", 22, "dst_cidr", "192.0.2.1/32"), []string{"tcp/22"}},
		{"SSH, at a leased address", forward("dst_port", 22, "dst_cidr", "203.0.113.0/24"), []string{"tcp/22"}},
		{"SSH, on another machine", forward("dst_port", 22, "dst_cidr", "198.51.100.7/32"), nil},
		{"the management port, which is never redirected", forward("dst_port", 3443), nil},
		{"another port", forward("dst_port", 25), nil},
		{"not enabled", forward("enabled", false), nil},
		{"said so", forward("takes_management_ports", true), nil},
		{"no effect", forward("src_cidr", "2001:db8::/32"), nil},
		{"the source alone", map[string]any{"name": "out", "kind": "masquerade", "in_zone": "any", "out_zone": "wan", "protocol": "any"}, nil},
	} {
		a := o.Do(t, "admin", http.MethodPost, "/nat-rules", x.body)
		if x.want == nil {
			if a.Status != 201 {
				t.Errorf("%s: %d %s", x.name, a.Status, a.Body)
			}
			continue
		}
		var e struct {
			Error struct {
				Code, Message string
				Details       struct {
					LocksOut []string `json:"locks_out"`
				}
			}
		}
		if err := json.Unmarshal(a.Body, &e); err != nil {
			t.Fatal(err)
		}
		if a.Status != 409 || e.Error.Code != "conflict" || !slices.Equal(e.Error.Details.LocksOut, x.want) || !strings.Contains(e.Error.Message, x.want[0]) {
			t.Errorf("%s: %d %s", x.name, a.Status, a.Body)
		}
	}

	// A change must not take more than permitted.
	id := o.make(t, "/nat-rules", forward("dst_port", 2222))
	o.Do(t, "admin", http.MethodPut, "/nat-rules/"+id, map[string]any{"dst_port": 22}).Want(t, 409)
	o.Do(t, "admin", http.MethodPut, "/nat-rules/"+id, map[string]any{"dst_port": 22, "takes_management_ports": true}).Want(t, 200)
	o.Do(t, "admin", http.MethodPut, "/nat-rules/"+id, map[string]any{"takes_management_ports": false}).Want(t, 409)
	o.Do(t, "admin", http.MethodPatch, "/nat-rules/"+id, map[string]any{"note": "why"}).Want(t, 200)
	// A rule from before this permission existed can be renamed, but must not take more.
	err := o.DB.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE firewall_nat_rules SET takes_management_ports = false WHERE id = $1`, id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	o.Do(t, "admin", http.MethodPut, "/nat-rules/"+id, map[string]any{"name": "renamed"}).Want(t, 200)
	o.Do(t, "admin", http.MethodPut, "/nat-rules/"+id, map[string]any{"dst_port_end": 500}).Want(t, 409)
}

// The management port of the gateway is never redirected; that of another machine may be.
func TestTheManagementPortIsNeverRedirected(t *testing.T) {
	o := newOffice(t)
	o.make(t, "/nat-rules", map[string]any{"name": "everything", "kind": "dnat", "in_zone": "wan", "out_zone": "any", "protocol": "any", "dst_cidr": "0.0.0.0/0", "target_address": "10.1.0.9", "takes_management_ports": true})
	ask := func(destination string, port int) (nat int, verdict, by string) {
		x := o.ask(t, map[string]any{"in_interface": "wan0", "source": "198.51.100.7", "destination": destination, "protocol": "tcp", "destination_port": port})
		return len(x.NAT), x.Verdict, x.DecidedBy.Name
	}
	if nat, verdict, by := ask("192.0.2.1", 3443); nat != 0 || verdict != "accept" || by != "Anti-lockout" {
		t.Errorf("%d %s %s", nat, verdict, by)
	}
	if nat, verdict, by := ask("192.0.2.1", 443); nat != 1 || verdict != "accept" || by != "Redirected connections" {
		t.Errorf("%d %s %s", nat, verdict, by)
	}
	if nat, _, _ := ask("198.51.100.7", 3443); nat != 1 {
		t.Errorf("%d", nat)
	}
	file, err := o.Machine.Read(nftables.Table)
	if err != nil || !strings.Contains(string(file), `fib daddr type local tcp dport 3443 accept comment "auto:management"`) {
		t.Errorf("%v\n%s", err, file)
	}
}

// A rule of both families is skipped; each apply that does so logs it, and one that changes nothing logs nothing.
func TestMixedFamiliesAreLoggedWithTheirApply(t *testing.T) {
	o := newOffice(t)
	logged := func(id string) int { return strings.Count(o.Logs.String(), "rule="+id) }
	id := o.make(t, "/nat-rules", map[string]any{"name": "mixed", "kind": "dnat", "in_zone": "any", "out_zone": "any", "protocol": "tcp", "dst_port": 25, "dst_cidr": "192.0.2.0/24", "target_address": "2001:db8::1"})
	if n := logged(id); n != 1 || !strings.Contains(o.Logs.String(), "name=mixed") {
		t.Errorf("its own apply says so %d times:\n%s", n, o.Logs.String())
	}
	o.Do(t, "admin", http.MethodPatch, "/nat-rules/"+id, map[string]any{"note": "why"}).Want(t, 200)
	o.Engine.Converge()
	o.Engine.Refresh(t.Context(), "packet-filter", false)
	if n := logged(id); n != 1 {
		t.Errorf("%d times without an apply", n)
	}
	o.make(t, "/firewall/rules", map[string]any{"name": "another", "action": "drop"})
	if n := logged(id); n != 2 {
		t.Errorf("%d times after another apply", n)
	}
	o.Do(t, "admin", http.MethodPut, "/nat-rules/"+id, map[string]any{"dst_cidr": ""}).Want(t, 200)
	if n := logged(id); n != 2 {
		t.Errorf("%d times after it was mended", n)
	}
}
