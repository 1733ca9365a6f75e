package guard_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy/haproxytest"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/helper/guard"
	"edge.internal/gateway/internal/kit/host/helper/guard/hostile"
	"edge.internal/gateway/internal/kit/host/hosttest"
	"edge.internal/gateway/internal/kit/parts"
)

var byPath = func() map[string]host.Place {
	m := map[string]host.Place{}
	for _, p := range []host.Place{
		chrony.Main, chrony.DropIn, unbound.Main, unbound.DropIn, squid.Main, squid.DropIn, kea.Config,
		freeradius.Config, freeradius.Clients, freeradius.Users, haproxy.Config, haproxy.Inspection, haproxy.CertificateList, haproxy.ManagementList, nftables.Table,
		crowdsec.Config, crowdsec.Sources, crowdsec.Profiles, crowdsec.Parsers, crowdsec.AllowList, crowdsec.Scenarios, keepalived.Config,
	} {
		m[p.Path()] = p
	}
	return m
}()

// Everything that the rooms render is admitted.
func TestRenderedFilesAreAdmitted(t *testing.T) {
	golden, err := filepath.Glob("../../../../*/testdata/render/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[host.Place]bool{}
	for _, path := range golden {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			place, ok := byPath[f.Name]
			if !ok {
				continue
			}
			seen[place] = true
			if err := guard.Admit(host.File{Place: place, Content: f.Data}); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	blocked, err := os.ReadFile("../../../../proxy/blocked.html")
	if err == nil {
		err = guard.Admit(host.File{Place: haproxy.BlockedPage, Content: blocked})
	}
	if err != nil {
		t.Error(err)
	}
	first, err := os.ReadFile("../../../../app/root/first.nft")
	if err == nil {
		err = guard.Admit(host.File{Place: nftables.Table, Content: first})
	}
	if err != nil {
		t.Error(err)
	}
	for path, place := range byPath {
		if !seen[place] && place != nftables.Table { // the firewall's tests call the guard for each of its renderings
			t.Errorf("no golden file has %s", path)
		}
	}
}

// Whatever would run, load or read something is refused, however it is written.
func TestHostileFilesAreRefused(t *testing.T) {
	for _, f := range hostile.Files() {
		if guard.Admit(f) == nil {
			t.Errorf("%s: admitted:\n%s", f.Place, f.Content)
		}
	}
	if guard.Admit(host.File{Place: haproxy.MaintenancePage, Content: slices.Repeat([]byte("x"), 65<<20)}) == nil {
		t.Error("an oversized file was admitted")
	}
	if err := guard.Admit(host.File{Place: haproxy.Hosts, Content: []byte(strings.Repeat("a b\n", 10))}); err != nil {
		t.Error(err)
	}
}

// Every daemon with a grammar has hostile files that it refuses.
func TestEveryGrammarRefusesSomething(t *testing.T) {
	daemonOf := func(p daemon.Place) string {
		name, _, _ := strings.Cut(string(p), ".")
		return name
	}
	hostileTo := map[string]bool{}
	for _, f := range hostile.Files() {
		hostileTo[daemonOf(f.Place)] = true
	}
	for p, spec := range daemon.Places() {
		if spec.Grammar != nil && !hostileTo[daemonOf(p)] {
			t.Errorf("no hostile file for %s", p)
		}
	}
}

// A part is admitted only if it would be within the whole file, and only if it is a single part.
func TestPartsAreChecked(t *testing.T) {
	const begin, end, chain = "table inet gateway\ndelete table inet gateway\ntable inet gateway {\n", "}\n", "\tchain input {\n\t accept\n\t}\n"
	m := guard.Around(hosttest.New())
	installed := begin + chain + end
	if err := m.Install(nftables.Table, []byte(installed)); err != nil {
		t.Fatal(err)
	}
	amend := func(p host.Place, at int, part string) error {
		was, err := nft.Split(nftables.Name, installed)
		if err != nil {
			t.Fatal(err)
		}
		return m.Amend(p, parts.Change{Was: was.Sum(), Add: []parts.Addition{{Before: at, Text: []byte(part)}}})
	}
	refused := []string{
		"", "\n", end, begin, end + "flush ruleset\n", end + "table inet x {\n", "flush ruleset\n", "\tinclude \"/etc/shadow\"\n", "\t# a note", "\t# a note\nflush ruleset\n", "\t# a\rflush ruleset\n", chain[:len(chain)-1], chain + chain, chain + end, chain + "\t}\n",
		"\tchain x {\n\t accept ; drop\n\t}\n", "\tchain x {\n\t include \"/etc/shadow\"\n\t}\n", "\tchain x {\n\t accept\n\t}\n}\nflush ruleset\n\t}\n", "\tchain x {\n\t tcp dport { 1\n\t}\n", "\tchain x {\n\t accept comment \"\n\t}\n",
		"\tchain x { include \"/etc/shadow\" ; } ; chain y {\n\t}\n", "\tset x {\n\t\ttype ipv4_addr; include \"/etc/shadow\"\n\t\tflags interval\n\t}\n", "\tset x {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = { 1.2.3.4 } ; include \"x\" ; { }\n\t}\n",
		"\tmap x {\n\t}\n", "\tchain x {\n\t\ttype filter hook ingress device eth0 priority filter; policy drop;\n\t}\n",
	}
	for _, f := range hostile.Files() {
		refused = append(refused, string(f.Content))
	}
	for _, part := range refused {
		if amend(nftables.Table, 1, part) == nil {
			t.Errorf("admitted: %q", part)
		}
	}
	for _, at := range []int{0, 3} {
		if amend(nftables.Table, at, chain) == nil {
			t.Errorf("admitted before part %d", at)
		}
	}
	if amend(chrony.DropIn, 1, "\t# note\n") == nil {
		t.Error("a file without parts was changed")
	}
	if content, err := m.Read(nftables.Table); err != nil || string(content) != installed {
		t.Errorf("%v\n%s", err, content)
	}
	if err := amend(nftables.Table, 1, "\t# note\n"); err != nil {
		t.Error(err)
	}
	if content, err := m.Read(nftables.Table); err != nil || string(content) != begin+"\t# note\n"+chain+end {
		t.Errorf("%v\n%s", err, content)
	}
}

// Harmless files that resemble hostile ones are admitted, which shows that the others are refused for what they do.
func TestHarmlessFilesAreAdmitted(t *testing.T) {
	for _, text := range []string{
		"", "frontend gateway_http\n bind :80\n http-request set-header X-A b if { req.hdr(x) -m found }", "frontend gateway_http\n http-request set-header file %[src]", "frontend gateway_http\n http-after-response add-header 'crt'\\''s' %[var(txn.headers),field(2,\\x1f)]",
		"frontend gateway_http\n http-request return status 403 content-type text/plain lf-file pages/blocked.html", "frontend gateway_http\n http-request set-var(txn.x) path,map_str(maps/hosts.map)",
		"frontend gateway_http\n filter spoe engine waf config spoe.cfg\nglobal\n default-path config\nfrontend gateway_https\n http-request return status 503 content-type text/html file pages/maintenance.html",
		"backend gateway_api\n mode tcp\n server s 192.0.2.1:80 check", "backend gateway_api\n server -s '[2001:db8::1]:80' weight 1 check inter 5s", "backend gateway_api\n http-check send meth GET uri '/a%20b(c)$' ver HTTP/1.1 hdr Host a.example.net hdr Connection close",
	} {
		if err := guard.Admit(host.File{Place: haproxy.Config, Content: []byte(haproxytest.Head + text + "\n")}); err != nil {
			t.Errorf("%v:\n%s", err, text)
		}
	}
}

// The gateway gets only the ports that it is configured with.
func TestOtherPortsAreRefused(t *testing.T) {
	m := guard.Around(hosttest.New(), "127.0.0.1:0", "")
	for _, address := range []string{"", ":0", "127.0.0.1:5432", ":8080"} {
		if f, err := m.Listen(t.Context(), "tcp", address); err == nil {
			f.Close()
			t.Errorf("listened on %q", address)
		}
	}
	f, err := m.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}
