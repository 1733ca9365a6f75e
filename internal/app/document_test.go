package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kaptinlin/jsonschema"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/resource"
)

// wholeDocument has rows of every kind, as people write them.
var wholeDocument = `
# The office in Berlin.
gateway: 1
firewall.zone:
  - name: dmz
    description: "what the world may reach: #1"
firewall.address-object:
  - {name: berlin, kind: network, value: 192.0.2.0/24}
  - {name: hamburg, kind: range, value: 198.51.100.10-198.51.100.20, description: "- not a list\n\twith a tab"}
  - {name: "yes", kind: fqdn, value: example.net}
firewall.address-group:
  - name: offices
    members: [berlin, "yes"]
  - name: empty
firewall.service:
  - {name: "8443", protocol: tcp, port_start: 8443}
  - {name: game, protocol: udp, port_start: 27000, port_end: 27030}
firewall.service-group:
  - {name: play, members: [game, "8443"]}
firewall.rule:
  - name: offices to dmz
    src_zone: lan
    src_kind: group
    src_group_id: offices
    dst_zone: dmz
    service_group_id: play
    action: accept
    labels: [office, "~", "null"]
    note: |
      Asked for by Ann.
      	Indented by a tab.

      Until summer.
  - {name: twice, action: drop, src_zone: wan, dst_zone: self, dst_kind: cidr, dst_cidr: 203.0.113.0/24}
  - {name: twice, action: reject, src_zone: wan, dst_zone: self, src_kind: object, src_object_id: hamburg, log: true}
firewall.nat-rule:
  - {name: out, kind: masquerade, in_zone: lan, out_zone: wan}
  - {name: web, kind: dnat, in_zone: wan, protocol: tcp, dst_port: 8080, target_address: 10.10.0.9, target_port: 80}
network.interface:
  - {name: lan0.7, type: vlan, role: dmz, parent: lan0, vlan_id: 7}
  - {name: lan0, type: ethernet, role: lan, mtu: 1500}
network.ip-address:
  - {interface_id: lan0, address: 10.10.0.1, prefix: 24}
  - {interface_id: lan0.7, address: "2001:db8:7::1", prefix: 64, is_vip: true}
network.route:
  - {destination: 203.0.113.0/24, gateway: 10.10.0.9}
  - {destination: "2001:db8:9::/48", gateway: "2001:db8:7::9", table_name: "100", metric: 5}
proxy.backend:
  - {name: web}
  - {name: "api, v2", scheme: https, verify_tls: true, health_check_path: /health}
proxy.server:
  - {backend_id: web, name: web 1, address: 10.10.0.11, port: 8080}
  - {backend_id: web, name: a.b, address: backend.example.net, port: 8081, weight: 0, backup: true}
  - {backend_id: "api, v2", name: web 1, address: 10.10.0.12, port: 443}
proxy.domain:
  - {name: www.example.net, backend_id: web, certificate_id: "www.example.net, example.net", www_redirect: to_www}
  - {name: "*.example.org", backend_id: "api, v2", notes: "line one\nline two", active: false}
proxy.header:
  - {domain_id: www.example.net, name: X-Frame-Options, value: DENY}
  - {domain_id: www.example.net, name: Link, value: "</a>; rel=preload", operation: add}
  - {domain_id: www.example.net, name: Link, value: "</b>; rel=preload", operation: add}
  - {domain_id: www.example.net, name: Server, operation: remove}
proxy.routing-rule:
  - {domain_id: www.example.net, path_prefix: /v2, backend_id: "api, v2", strip_prefix: true}
  - {domain_id: "*.example.org", path_prefix: /, backend_id: web}
certificate.dns-provider:
  - {name: desec, kind: desec, secret: t0ken, zones: [example.org]}
certificate.certificate:
  - {names: [www.example.net, example.net], source: self-signed, domain_id: www.example.net}
  - {names: ["*.example.org"], challenge: dns-01, dns_provider_id: desec, domain_id: "*.example.org"}
  - names: [canary.example.net]
    source: uploaded
    certificate_pem: ` + quoted(canaryPair["certificate_pem"]) + `
    private_key_pem: ` + quoted(strings.TrimPrefix(canaryPair["private_key_pem"].(string), mark+"\n")) + `
waf.settings: {enabled: false}
system.settings: {ipv6_enabled: false}
waf.config:
  - domain_id: www.example.net
    enabled: true
    rule_exclusions: [942100]
    exclusion_notes: {"942100": "a false alarm"}
    exclusions:
      - {rule_id: 941100, path: /search, variable: ARGS, parameter: q, note: ""}
    custom_rules: |-
      SecRule REQUEST_URI "@streq /x" "id:1,phase:1,deny"
      SecRule REQUEST_URI "@streq /y" "id:2,phase:1,deny"
tunnel.interface:
  - {name: wg0, address_cidr: 10.8.0.1/24, listen_port: 51820, endpoint_host: vpn.example.net, private_key: ` + canaryKey() + `}
  - name: up0
    mode: client
    address_cidr: 10.99.0.2/24
    upstream_public_key: xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=
    upstream_endpoint: 198.51.100.1:51820
    upstream_preshared_key: ` + canaryKey() + `
    upstream_allowed_ips: 10.99.0.0/16
    active: false
tunnel.peer:
  - {interface_id: wg0, name: phone, private_key: ` + canaryKey() + `, preshared_key: ` + canaryKey() + `, allowed_ips: 10.8.0.2/32}
  - {interface_id: wg0, name: site, public_key: xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=, allowed_ips: "10.8.0.3/32,10.77.0.0/16", endpoint: "198.51.100.7:51820", keepalive: 25}
dns.settings: {upstream_forwards: [9.9.9.9, "192.0.2.53@5353"], access_acl: [10.10.0.0/24], listen_addresses: [10.10.0.1]}
dns.zone:
  - {name: corp.example.net, forward_to: [10.10.0.53]}
  - {name: lan}
dns.record:
  - {zone_id: corp.example.net, name: "@", type: MX, value: mail.corp.example.net., priority: 10}
  - {zone_id: corp.example.net, name: corp.example.net., type: MX, value: 20 backup}
  - {zone_id: corp.example.net, name: mail, type: A, value: 10.10.0.25}
  - {zone_id: lan, name: _sip._tcp.lan., type: SRV, value: 10 5 5060 printer}
  - {zone_id: corp.example.net, name: txt, type: TXT, value: "v=spf1 -all; \"quoted\" \\ back"}
  - {zone_id: lan, name: printer, type: AAAA, value: "2001:db8::50", ttl: 60}
dhcp.settings: {enabled: true, default_lease_seconds: 600, max_lease_seconds: 1200}
dhcp.subnet:
  - {interface: lan0, cidr: 10.10.0.0/24, range_start: 10.10.0.100, range_end: 10.10.0.200, lease_seconds: 900, dns_servers: [10.10.0.1]}
dhcp.reservation:
  - {subnet_id: 10.10.0.0/24, mac: "02:00:00:00:00:01", ip: 10.10.0.50, hostname: printer}
ntp.settings: {serve_clients: true, allow_acl: [10.10.0.0/24], makestep: "1.0 3"}
ntp.pool:
  - {address: time.example.net, kind: server, prefer: true}
forward-proxy.settings: {allowed_networks: [10.10.0.0/24], port: 3129}
forward-proxy.acl:
  - {name: no ads, type: dstdomain, value: .ads.example.net, action: deny}
  - {name: office hours, type: time, value: MTWHF 08:00-17:59, action: allow}
radius.settings: {auth_port: 1912, acct_port: 1913}
radius.client:
  - {name: ap, address: 10.10.0.7, secret: 's3cret: "with" quotes'}
radius.user:
  - {name: ann, password: pass word, reply_attributes: {Tunnel-Private-Group-Id: "7"}}
ids.settings: {enabled: false, ban_duration: 2h, allow_list: [{cidr: 10.10.0.0/24, note: office}]}
alert.settings: {cert_warning_days: 20}
alert.channel:
  - {name: hook, kind: webhook, target: "https://hooks.example.net/a?b=c#d", settings: {headers: {Authorization: Bearer t0ken, X-B: "2"}}}
  - {kind: email, target: ops@example.net, settings: {smtp_host: mail.example.net, smtp_port: 587, username: gateway, password: p4ss, from: gateway@example.net, use_tls: true}}
alert.mute:
  - {kind: system.disk, until: ` + time.Now().AddDate(0, 0, 7).UTC().Format(time.RFC3339) + `, reason: "on holiday"}
backup.settings: {passphrase: a long passphrase, prove: true}
backup.remote:
  - {name: bucket, kind: s3, active: false, settings: {endpoint: s3.example.net, bucket: backups, access_key: k, secret_key: s3cret}}
  - {kind: sftp, active: false, settings: {host: files.example.net, username: gateway, password: s3cret, remote_dir: gateway}}
cluster.vip-settings: {vip_address: 10.10.0.254, vip_interface: lan0, vrrp_router_id: 77}
`

func quoted(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// office returns a house with the links that documents of the tests need.
func office(t *testing.T) (h house, admin string) {
	t.Helper()
	h = build(t, kittest.New(t))
	h.Machine.SetLinks(host.Link{Name: "lan0", Type: "ether"})
	return h, h.setUp(t)
}

// export returns the document of a house.
func (h house) export(t *testing.T, token, query string, headers ...string) []byte {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, httpd.Prefix+"/configuration"+query, nil).WithContext(t.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, req)
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// document plans or applies a document.
func (h house) document(t *testing.T, token, what string, doc []byte) *kittest.Answer {
	t.Helper()
	return kittest.Call(t, h.Handler(), http.MethodPost, "/configuration/"+what, string(doc), "Authorization", "Bearer "+token, "Content-Type", "application/yaml", "X-Test-Client", loopback)
}

// nothing plans a document that must not change anything.
func (h house) nothing(t *testing.T, token string, doc []byte) {
	t.Helper()
	var plan resource.Planned
	h.document(t, token, "plan?prune=true", doc).Want(t, 200).Into(t, &plan)
	if len(plan.Changes) > 0 || plan.Unchanged == 0 {
		t.Errorf("%d rows unchanged, and %s", plan.Unchanged, quoted(plan.Changes))
	}
}

func TestEveryKindInADocument(t *testing.T) {
	a, admin := office(t)
	a.document(t, admin, "apply", []byte(wholeDocument)).Want(t, 200)
	a.nothing(t, admin, a.export(t, admin, ""))
	var plan resource.Planned
	if a.document(t, admin, "plan", []byte(wholeDocument)).Want(t, 200).Into(t, &plan); len(plan.Changes) > 0 {
		t.Errorf("what people wrote is stored already: %s", quoted(plan.Changes))
	}
	doc := a.export(t, admin, "")
	for _, table := range a.Resources.Tables() {
		if apart := table.Kind == "user" || table.Kind == "oidc.settings"; table.Kind != "" && apart == bytes.Contains(doc, []byte("\n"+table.Kind+":\n")) {
			t.Errorf("%s has no row in the document, or should not have one: add one to wholeDocument", table.Kind)
		}
	}
	b, other := office(t)
	b.document(t, other, "apply?prune=true", doc).Want(t, 200)
	if again := b.export(t, other, ""); !bytes.Equal(doc, again) {
		t.Errorf("another document: %s", firstDifference(doc, again))
	}
	b.nothing(t, other, doc)
	plain := a.export(t, admin, "", "Accept", "application/json")
	a.nothing(t, admin, plain)
	b.nothing(t, other, plain)
	for _, secret := range append([]string{mark, keyMark, "s3cret", "p4ss", "t0ken"}, keyMarks...) {
		if bytes.Contains(doc, []byte(secret)) || bytes.Contains(plain, []byte(secret)) {
			t.Errorf("a secret was told: %s", secret)
		}
	}
}

// A sealed secret is sent to no other server than the one it was entered for.
func TestSealedSecretsStayWhereTheyWere(t *testing.T) {
	h, admin := office(t)
	h.call(t, admin, http.MethodPost, "/backup-remotes", `{"kind":"s3","active":false,"settings":{"endpoint":"s3.example.net","bucket":"backups","access_key":"k","secret_key":"s3cret-canary"}}`).Want(t, 201)
	doc := h.export(t, admin, "?kinds=backup.remote")
	if !bytes.Contains(doc, []byte("sealed:")) || bytes.Contains(doc, []byte("canary")) {
		t.Fatalf("%s", doc)
	}
	moved := bytes.ReplaceAll(doc, []byte("s3.example.net"), []byte("elsewhere.example.net"))
	if a := h.document(t, admin, "apply", moved).Want(t, 400); !strings.Contains(string(a.Body), "sealed for other settings") {
		t.Errorf("%s", a.Body)
	}
	var rows []struct{ ID string }
	h.call(t, admin, http.MethodGet, "/backup-remotes", nil).Want(t, 200).Into(t, &rows)
	h.call(t, admin, http.MethodDelete, "/backup-remotes/"+rows[0].ID, nil).Want(t, 200)
	h.document(t, admin, "apply", moved).Want(t, 400)
	h.document(t, admin, "apply", doc).Want(t, 200)
	on := bytes.Replace(doc, []byte("active: false"), []byte("active: true"), 1)
	h.document(t, admin, "apply", on).Want(t, 200)
	h.nothing(t, admin, on)
}

func firstDifference(a, b []byte) string {
	x, y := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d: %q and %q", i+1, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d and %d lines", len(x), len(y))
}

// awkward are texts that naive YAML writers get wrong.
var awkward = []string{
	"", "yes", "~", "null", "Null", "1e3", "0x10", "0o17", "012", "-1", ".5", "- a", ": b", "#c", "a: b", "a #b", "a:", "'", `"`, `\`, `\n`, "|", "> x", "é 😀", "a\tb", "one\ntwo", "one\n\n  two\n", "end ", " begin",
	"a\n", "a\n\n", "\u0085x", "\u2028", "\ufeff", "{a}", "[b]", "&x", "*y", "!t", "%d", "@z", "`q`", "2026-01-01", "2026-01-01T00:00:00Z", "12:30:45", "<<", "=", "?", "a, b", "# #2", "---", "...", "--- a\n...\n",
}

// generated returns a value for a field, by its schema or as in other rows.
func generated(r *rand.Rand, schema map[string]any, others []any) any {
	if enum, ok := schema["enum"].([]any); ok && r.IntN(4) > 0 {
		return enum[r.IntN(len(enum))]
	}
	if len(others) > 0 && r.IntN(3) == 0 {
		return others[r.IntN(len(others))]
	}
	types, _ := schema["type"].([]any)
	if one, ok := schema["type"].(string); ok {
		types = []any{one}
	}
	if len(types) == 0 {
		return nil
	}
	switch types[r.IntN(len(types))] {
	case "boolean":
		return r.IntN(2) == 0
	case "integer":
		low, high := 0.0, 100.0
		if n, ok := schema["minimum"].(float64); ok {
			low, high = n, n+100
		}
		if n, ok := schema["maximum"].(float64); ok {
			high = n
		}
		return int64(low) + r.Int64N(int64(high-low)+1)
	case "array":
		list := []any{}
		items, _ := schema["items"].(map[string]any)
		for range r.IntN(3) {
			list = append(list, generated(r, items, nil))
		}
		return list
	case "string":
		text := awkward[r.IntN(len(awkward))]
		if r.IntN(2) == 0 {
			text += " " + awkward[r.IntN(len(awkward))]
		}
		return text
	}
	return nil
}

// Generated configurations, as far as the gateway accepts them, survive the export to a document and its import on an empty
// gateway. The documents match the schema.
func TestGeneratedConfigurationsComeBack(t *testing.T) {
	a, admin := office(t)
	a.document(t, admin, "apply", []byte(wholeDocument)).Want(t, 200)
	var schema struct {
		Properties map[string]struct {
			Properties map[string]map[string]any
			Items      struct{ Properties map[string]map[string]any }
		}
	}
	described := a.plain(t, admin, "/configuration/schema")
	if err := json.Unmarshal(described, &schema); err != nil {
		t.Fatal(err)
	}
	valid, err := jsonschema.NewCompiler().Compile(described)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	accepted := map[string]int{}
	rounds := 1
	if longtest.On {
		rounds = 3
	}
	for round := range rounds {
		for range 40 {
			var all map[string]any
			if err := json.Unmarshal(a.export(t, admin, "", "Accept", "application/json"), &all); err != nil {
				t.Fatal(err)
			}
			delete(all, "gateway")
			kinds := slices.Sorted(maps.Keys(all))
			kind := kinds[r.IntN(len(kinds))]
			rows, list := all[kind].([]any)
			fields := schema.Properties[kind].Items.Properties
			if !list {
				rows, fields = []any{all[kind]}, schema.Properties[kind].Properties
			}
			row := rows[r.IntN(len(rows))].(map[string]any)
			names := slices.Sorted(maps.Keys(fields))
			for range 1 + r.IntN(3) {
				name := names[r.IntN(len(names))]
				var others []any
				for _, x := range rows {
					if v, there := x.(map[string]any)[name]; there {
						others = append(others, v)
					}
				}
				row[name] = generated(r, fields[name], others)
			}
			var body any = row
			if list {
				body = []any{row}
			}
			doc := quoted(map[string]any{"gateway": 1, kind: body})
			answer := a.document(t, admin, "apply", []byte(doc))
			if answer.Status >= 500 {
				t.Fatalf("%s: %d %s", doc, answer.Status, answer.Body)
			}
			if answer.Status == 200 {
				accepted[kind]++
			}
		}
		doc := a.export(t, admin, "")
		if result := valid.ValidateJSON(a.export(t, admin, "", "Accept", "application/json")); !result.IsValid() {
			t.Errorf("the document does not fit its schema: %s", quoted(result.ToList(false).Errors))
		}
		a.nothing(t, admin, doc)
		b, other := office(t)
		if answer := b.document(t, other, "apply?prune=true", doc); answer.Status != 200 {
			t.Fatalf("round %d: %s", round, answer.Body)
		}
		if again := b.export(t, other, ""); !bytes.Equal(doc, again) {
			t.Errorf("round %d: another document: %s", round, firstDifference(doc, again))
		}
		b.nothing(t, other, doc)
	}
	if longtest.On && len(accepted) < 10 {
		t.Errorf("changes of %d kinds were accepted: %v", len(accepted), accepted)
	}
}

// plain reads an answer without an envelope.
func (h house) plain(t *testing.T, token, path string) []byte {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, httpd.Prefix+path, nil).WithContext(t.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	if h.Handler().ServeHTTP(w, req); w.Code != 200 {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// Every reference says to which table it refers, so that documents can use names.
func TestEveryReferenceHasATable(t *testing.T) {
	h, admin := office(t)
	doc := string(h.plain(t, admin, "/configuration/schema"))
	if i := strings.Index(doc, `"format":"uuid"`); i >= 0 {
		t.Errorf("a field has an id in documents: give the kind a foreign key, or Refers: …%s…", doc[max(0, i-300):i+20])
	}
}

func TestCtlDocument(t *testing.T) {
	h, admin := office(t)
	ctl := h.root(t)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	doc := "gateway: 1\ndns.zone:\n  - name: lan\n    description: ours\nntp.settings:\n  serve_clients: true\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(doc)
	output, err := ctl("", "plan", "-f", file)
	if err == nil || err.Error() != "exit code 2" || !strings.Contains(output, "+ dns.zone lan\n") || !strings.Contains(output, "1 to create, 1 to change, 0 to delete, 0 unchanged.") || h.Rows(t, "dns_zones") != 0 {
		t.Errorf("%s %v", output, err)
	}
	if output, err = ctl(doc, "apply", "--reason", "a review", "--color", "always", "--confirm-within", "60"); err == nil || err.Error() != "exit code 2" || !strings.Contains(output, "\x1b[32m+ dns.zone lan") || !strings.Contains(output, "gateway-ctl confirm ") {
		t.Errorf("%s %v", output, err)
	}
	if _, err := ctl("", "confirm"); err != nil {
		t.Error(err)
	}
	if output, err = ctl("", "plan", "-f", file); err != nil || output != "Nothing to do.\n" {
		t.Errorf("%s %v", output, err)
	}
	whole, err := ctl("", "export", "--secrets", "omit")
	if err != nil || whole != string(h.export(t, admin, "?secrets=omit")) {
		t.Errorf("%s %v", whole, err)
	}
	if some, err := ctl("", "export", "--kind", "dns.zone"); err != nil || strings.Count(some, "\n") < 4 || strings.Contains(some, "ntp") {
		t.Errorf("%s %v", some, err)
	}
	write("gateway: 1\ndns.zone:\n  - name: lan\n    nonsense: 1\n  - name: other\n    forward_to: [x]\n")
	if _, err = ctl("", "plan", "-f", file); err == nil || !strings.Contains(err.Error(), file+":4: dns.zone: lan: nonsense: ") || !strings.Contains(err.Error(), file+":6: dns.zone: other: forward_to: ") {
		t.Error(err)
	}
	write("gateway: 1\ndns.zone: []\n")
	if output, err = ctl("", "apply", "-f", file, "--prune"); err == nil || err.Error() != "exit code 2" || h.Rows(t, "dns_zones") != 0 {
		t.Errorf("%s %v", output, err)
	}
}
