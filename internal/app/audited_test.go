package app_test

import (
	"net/http"
	"testing"

	"edge.internal/gateway/internal/kit/kittest"
)

// LG07: each of these has one name in the audit log, whatever is done with it.
func TestLG07NamesOfAuditedActions(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	made := func(path, body string) string {
		t.Helper()
		var row struct{ ID string }
		h.call(t, admin, http.MethodPost, path, body).Want(t, 201).Into(t, &row)
		return row.ID
	}
	zone := made("/dns/zones", `{"name":"corp.example.net"}`)
	record := made("/dns/records", `{"zone_id":"`+zone+`","name":"a","type":"A","value":"192.0.2.1"}`)
	pool := made("/ntp/pools", `{"kind":"server","address":"192.0.2.2"}`)
	for _, x := range []struct{ action, method, path, body string }{
		{"dns.record.delete", http.MethodDelete, "/dns/records/" + record, ""},
		{"dns.zone.delete", http.MethodDelete, "/dns/zones/" + zone, ""},
		{"ntp.pool.delete", http.MethodDelete, "/ntp/pools/" + pool, ""},
		{"dns.flush-cache", http.MethodPost, "/dns/flush-cache", ""},
		{"ntp.force-sync", http.MethodPost, "/ntp/force-sync", ""},
		{"system.service-restart", http.MethodPost, "/system/service-restart", `{"kind":"ntp"}`},
		{"system.maintenance", http.MethodPost, "/system/maintenance", `{"enabled":true}`},
		{"system.ipv6", http.MethodPost, "/system/ipv6", `{"enabled":false}`},
		{"system.service-toggle", http.MethodPost, "/system/service-toggle", `{"service":"waf","enabled":false}`},
		{"system.render-configs", http.MethodPost, "/system/render-configs", ""},
		{"system.auto-update", http.MethodPost, "/system/auto-update", `{"enabled":true}`},
		{"system.proxy-reload", http.MethodPost, "/system/proxy-reload", ""},
	} {
		before, all := h.Audited(t, x.action), h.Rows(t, "audit_log")
		var body any
		if x.body != "" {
			body = x.body
		}
		a := h.call(t, admin, x.method, x.path, body)
		if a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", x.action, a.Status, a.Body)
		}
		if n := h.Audited(t, x.action) - before; n != 1 {
			t.Errorf("%s: %d entries of %s", x.path, n, x.action)
		}
		if n := h.Rows(t, "audit_log") - all; n != 1 {
			t.Errorf("%s: %d entries", x.path, n)
		}
	}
}
