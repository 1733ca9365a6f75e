package dhcp_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/resource"
)

func TestImpactOnClients(t *testing.T) {
	r := bench(t)
	subnet := r.post(t, "/dhcp/subnets", with(fields{"gateway": "10.10.0.1"}))
	reservation := r.post(t, "/dhcp/reservations", fields{"subnet_id": subnet, "mac": "52:54:00:00:00:01", "ip": "10.10.0.9", "hostname": "printer"})
	foresee := func(operations ...fields) resource.Impact {
		t.Helper()
		var out struct{ Impact []resource.Impact }
		r.Do(t, "viewer", http.MethodPost, "/change-sets", fields{"preview": true, "operations": operations}).Want(t, 200).Into(t, &out)
		if len(out.Impact) != 1 || out.Impact[0].Area != resource.DHCPClients {
			t.Fatalf("%+v", out)
		}
		return out.Impact[0]
	}
	update := func(change fields) fields {
		return fields{"kind": "dhcp.subnet", "verb": "update", "id": subnet, "body": change}
	}
	if x := foresee(update(fields{"active": false})); !x.Computed || x.Checked != 0 || x.Count != 0 {
		t.Errorf("of a server that is off: %+v", x)
	}
	r.enable(t)
	now := time.Now().Unix()
	var refuses error
	r.Machine.AnswerLeaseServer(func(c kea.Command, _ json.RawMessage) (any, error) {
		if c != kea.LeasePage {
			return nil, nil
		}
		return map[string]any{"leases": []map[string]any{
			{"ip-address": "10.10.0.9", "hw-address": "52:54:00:00:00:01", "hostname": "printer", "state": 0, "cltt": now, "valid-lft": 3600},
			{"ip-address": "10.10.0.100", "hw-address": "52:54:00:00:00:02", "hostname": "laptop", "state": 0, "cltt": now, "valid-lft": 3600},
			{"ip-address": "10.10.0.150", "hw-address": "52:54:00:00:00:03", "hostname": "", "state": 0, "cltt": now, "valid-lft": 3600},
			{"ip-address": "10.10.0.151", "hw-address": "52:54:00:00:00:04", "hostname": "gone", "state": 0, "cltt": now - 7200, "valid-lft": 3600},
		}}, refuses
	})
	expect := func(x resource.Impact, effect resource.Effect, who ...string) {
		t.Helper()
		if !x.Computed || x.Checked != 3 || x.Count != len(who) {
			t.Fatalf("%+v", x)
		}
		for i, what := range who {
			if x.First[i].What != what || x.First[i].Effect != effect {
				t.Errorf("%+v instead of %s", x.First[i], what)
			}
		}
	}
	const printer, laptop, third = "printer (52:54:00:00:00:01) at 10.10.0.9", "laptop (52:54:00:00:00:02) at 10.10.0.100", "52:54:00:00:00:03 at 10.10.0.150"
	expect(foresee(update(fields{"active": false})), resource.Blocked, printer, laptop, third)
	expect(foresee(update(fields{"gateway": "10.10.0.2"})), resource.Redirected, printer, laptop, third)
	expect(foresee(update(fields{"range_start": "10.10.0.120"})), resource.Redirected, laptop)
	expect(foresee(update(fields{"range_start": "10.10.0.90"})), "")
	expect(foresee(fields{"kind": "dhcp.reservation", "verb": "delete", "id": reservation}), resource.Redirected, printer)
	expect(foresee(fields{"kind": "dhcp.reservation", "verb": "create", "body": fields{"subnet_id": subnet, "mac": "52:54:00:00:00:07", "ip": "10.10.0.150"}}), resource.Redirected, third)
	expect(foresee(fields{"kind": "dhcp.reservation", "verb": "create", "body": fields{"subnet_id": subnet, "mac": "52:54:00:00:00:03", "ip": "10.10.0.150"}}), "")
	x := foresee(fields{"kind": "dhcp.settings", "verb": "update", "body": fields{"enabled": false}})
	if expect(x, resource.Blocked, printer, laptop, third); x.First[0].After != "the DHCP server is off" {
		t.Errorf("%+v", x)
	}
	refuses = errors.New("kea is tired")
	if x := foresee(update(fields{"active": false})); x.Computed || x.Why != "The DHCP server could not be asked for its leases." {
		t.Errorf("%+v", x)
	}
}
