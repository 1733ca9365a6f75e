package app_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"edge.internal/gateway/internal/app"
	"edge.internal/gateway/internal/importer/programs"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
)

// asking returns a house whose configurations are checked by the real programs.
func asking(t *testing.T) house {
	t.Helper()
	b := kittest.New(t)
	real, err := machine.New(machine.Options{Units: units.None{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []host.Command{haproxy.Check, unbound.Check, kea.Check, nftables.Check} {
		b.Machine.Script(c, func(ctx context.Context, in host.Input) (host.Output, error) { return real.Run(ctx, c, in) })
	}
	b.Machine.Script(nftables.Load, func(ctx context.Context, in host.Input) (host.Output, error) {
		if out, err := real.Run(ctx, nftables.Check, in); err != nil {
			return out, err
		}
		return b.Machine.Load(ctx, in)
	})
	return build(t, b)
}

// The results of importing whole files can be planned and applied unchanged, the real programs accept the resulting
// configuration, and importing the same file again changes nothing.
func TestImportedConfigurationsAreAccepted(t *testing.T) {
	for _, x := range []struct {
		from, file string
		checks     []host.Command
		dhcp       []string       // interfaces with DHCP
		rows       map[string]int // minimum number of rows
	}{
		{"haproxy", "haproxy/testdata/shop.cfg", []host.Command{haproxy.Check}, nil,
			map[string]int{"proxy_backends": 7, "proxy_servers": 12, "proxy_domains": 4, "proxy_routing_rules": 4, "proxy_domain_headers": 9}},
		{"haproxy", "haproxy/testdata/small.cfg", []host.Command{haproxy.Check}, nil, map[string]int{"proxy_backends": 4, "proxy_domains": 3}},
		{"opnsense", "opnsense/testdata/office.xml", []host.Command{nftables.Load, unbound.Check}, []string{"igb1", "vlan02"},
			map[string]int{"firewall_rules": 16, "firewall_nat_rules": 14, "network_interfaces": 9, "network_addresses": 7, "dhcp_reservations": 2, "dns_records": 6, "tunnel_peers": 3}},
		{"opnsense", "opnsense/testdata/home.xml", []host.Command{nftables.Load, unbound.Check}, []string{"bridge0"}, map[string]int{"firewall_rules": 4, "dns_records": 2}},
		{"opnsense", "opnsense/testdata/kea.xml", nil, []string{"vtnet1"}, map[string]int{"dhcp_subnets": 2}},
	} {
		t.Run(filepath.Base(x.file), func(t *testing.T) {
			h := asking(t)
			admin := h.setUp(t)
			var links []host.Link
			for _, name := range x.dhcp {
				links = append(links, host.Link{Name: name, Type: "ether"})
			}
			h.Machine.SetLinks(links...)
			file := filepath.Join("..", "importer", x.file)
			made, _, err := imported("", x.from, file)
			if err != nil {
				t.Fatal(err)
			}
			ran := map[host.Command]int{}
			for _, c := range x.checks {
				ran[c] = h.Machine.Runs(c)
			}
			var planned, again resource.Planned
			if h.document(t, admin, "plan", []byte(made)).Want(t, 200).Into(t, &planned); len(planned.Changes) == 0 {
				t.Error("nothing is planned")
			}
			h.document(t, admin, "apply", []byte(made)).Want(t, 200)
			for _, c := range x.checks {
				if h.Machine.Runs(c) == ran[c] {
					t.Errorf("%s was not asked", c)
				}
			}
			for table, least := range x.rows {
				if n := h.Rows(t, table); n < least {
					t.Errorf("%s has %d rows", table, n)
				}
			}
			if len(x.dhcp) > 0 {
				h.keaAccepts(t, admin, x.dhcp...)
			}
			if h.document(t, admin, "plan", []byte(made)).Want(t, 200).Into(t, &again); len(again.Changes) > 0 {
				t.Errorf("there is still something to do: %s", quoted(again.Changes))
			}
		})
	}
}

// keaAccepts checks the configuration with Kea. This machine only has the loopback interface.
func (h house) keaAccepts(t *testing.T, token string, interfaces ...string) {
	t.Helper()
	var preview struct{ Files []struct{ Content string } }
	h.call(t, token, "GET", "/system/config-preview?generator=dhcp", nil).Want(t, 200).Into(t, &preview)
	content := preview.Files[0].Content
	for _, name := range interfaces {
		if !strings.Contains(content, `"`+name+`"`) {
			t.Errorf("Kea does not serve %s: %s", name, content)
		}
		content = strings.ReplaceAll(content, `"`+name+`"`, `"lo"`)
	}
	content = regexp.MustCompile(`"lo"(,\s*"lo")+`).ReplaceAllString(content, `"lo"`) // it may be listed only once
	if _, err := h.Machine.Run(t.Context(), kea.Check, host.Input{Staged: []host.File{{Place: kea.Config, Content: []byte(content)}}}); err != nil {
		t.Errorf("%v\n%s", err, content)
	}
}

// imported returns the output and the complaints of gateway-ctl import.
func imported(stdin string, args ...string) (made, report string, err error) {
	var out, complaints bytes.Buffer
	ctl := app.Ctl()
	ctl.SetArgs(append([]string{"import"}, args...))
	ctl.SetIn(strings.NewReader(stdin))
	ctl.SetOut(&out)
	ctl.SetErr(&complaints)
	err = ctl.Execute()
	return out.String(), complaints.String(), err
}

// The API converts like gateway-ctl, for administrators, and reports errors in a file.
func TestImportByTheAPI(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	send := func(query, text string) *kittest.Answer {
		t.Helper()
		return kittest.Call(t, h.Handler(), http.MethodPost, "/configuration/import?"+query, text, "Authorization", "Bearer "+admin, "Content-Type", "text/plain", "X-Test-Client", loopback)
	}
	for from, x := range map[string]struct{ file, query, as string }{
		"haproxy":  {"haproxy/testdata/shop.cfg", "", ""},
		"opnsense": {"opnsense/testdata/office.xml", "&interfaces=igb0=enp1s0,igb1%3Denp2s0", "--interface=igb0=enp1s0,igb1=enp2s0"},
	} {
		file := filepath.Join("..", "importer", x.file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		args := []string{from, file}
		if x.as != "" {
			args = append(args, x.as)
		}
		want, report, err := imported("", args...)
		if err != nil {
			t.Fatal(err)
		}
		var got programs.Imported
		send("from="+from+x.query, string(text)).Want(t, 200).Into(t, &got)
		// The first line names the file.
		_, want, _ = strings.Cut(want, "\n")
		if _, made, _ := strings.Cut(got.Document, "\n"); made != want {
			t.Errorf("%s: another document than gateway-ctl makes:\n%s", from, made)
		}
		if len(got.Left) == 0 || len(got.Left) != strings.Count(report, "\n") {
			t.Errorf("%s: %d parts are left over, and gateway-ctl names %d", from, len(got.Left), strings.Count(report, "\n"))
		}
		if got.Secret != (from == "opnsense") {
			t.Errorf("%s: secret is %t", from, got.Secret)
		}
	}
	for query, text := range map[string]string{"from=caddy": "x", "": "x", "from=opnsense": "no XML", "from=opnsense&interfaces=igb0": "<opnsense/>"} {
		send(query, text).Want(t, 400)
	}
}

// The real checkers refuse invalid configurations: a test that skipped them would be noticed.
func TestImportAsksRealPrograms(t *testing.T) {
	h := asking(t)
	for c, place := range map[host.Command]host.Place{haproxy.Check: haproxy.Config, unbound.Check: unbound.DropIn, kea.Check: kea.Config, nftables.Check: nftables.Table} {
		if _, err := h.Machine.Run(t.Context(), c, host.Input{Staged: []host.File{{Place: place, Content: []byte("surprise\n")}}}); err == nil {
			t.Errorf("%s takes anything", c)
		}
	}
}

func TestCtlImport(t *testing.T) {
	folder := t.TempDir()
	config := filepath.Join(folder, "haproxy.cfg")
	text := "defaults\n mode http\nfrontend f\n bind :80\n monitor-uri /up\n use_backend b if { hdr(host) a.example.net }\nbackend b\n server s 192.0.2.1:80\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	output, report, err := imported("", "haproxy", config)
	if err != nil || !strings.HasPrefix(output, "# Imported from haproxy.cfg.\ngateway: 1\n") || !strings.Contains(output, "name: a.example.net") {
		t.Errorf("%q %v", output, err)
	}
	if want := config + ":5: monitor-uri /up: the gateway has no equivalent\n"; report != want {
		t.Errorf("%q instead of %q", report, want)
	}
	if piped, _, err := imported(text, "haproxy", "-"); err != nil || strings.Replace(piped, "from -.", "from haproxy.cfg.", 1) != output {
		t.Errorf("%q %v", piped, err)
	}
	xml := `<opnsense><interfaces><wan><enable/><if>igb0</if><ipaddr>192.0.2.2</ipaddr><subnet>24</subnet></wan></interfaces></opnsense>`
	if output, _, err := imported(xml, "opnsense", "--interface", "igb0=enp1s0", "-"); err != nil || !strings.Contains(output, "interface_id: enp1s0") {
		t.Errorf("%q %v", output, err)
	}
	for _, args := range [][]string{{"haproxy", filepath.Join(folder, "none")}, {"haproxy"}, {"opnsense", config}, {"haproxy", "-", "-"}} {
		if output, _, err := imported("", args...); err == nil {
			t.Errorf("%s: %q", args, output)
		}
	}
}
