package host

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// DG-02, DG-04: a target with other characters reaches no program.
func TestProbeTargets(t *testing.T) {
	hostile := []string{"", "-f", "a;b", "a$b", "a`b`", "a b", "a\nb", "a%b", "a@b", "a|b", "a&b", "a'b", `a"b`, `a\b`, "a\x00b", "a(b", "a>b", "a*", "ä.example", "$(id)", "[::1]", strings.Repeat("a", 300)}
	for _, bad := range hostile {
		for _, tool := range []ProbeTool{ProbePing, ProbeTraceroute, ProbeDig, ProbeCurl} {
			p := Probe{Tool: tool, Target: bad}
			if tool == ProbeDig {
				p.Type = "A"
			}
			if _, err := p.Spec(); err == nil {
				t.Errorf("%s accepts %q", tool, bad)
			}
		}
		if _, _, err := ProbePort(bad); err == nil {
			t.Errorf("tcp accepts %q", bad)
		}
	}
	for _, bad := range []string{"file:///etc/passwd", "ftp://a.example/", "gopher://127.0.0.1:6379/x", "FILE:/etc/passwd", "dict://a/", "http:/a.example", "http://", "https:///etc", "file:/etc/passwd",
		"http://a:0/", "http://a:65536/", "http://a:b/", "http://-a/", "https://a:/", "://a", "http://1.2.3/"} {
		if url, err := ProbeURL(bad); err == nil {
			t.Errorf("curl accepts %q as %s", bad, url)
		}
	}
	for target, want := range map[string]string{
		"http://127.0.0.1:8080/a/b": "http://127.0.0.1:8080/a/b", "HTTPS://A.Example": "https://a.example/", "localhost": "http://localhost/", "a.example:81/x_y-z.html": "http://a.example:81/x_y-z.html",
	} {
		if url, err := ProbeURL(target); err != nil || url != want {
			t.Errorf("%s is %q, %v", target, url, err)
		}
	}
	for _, kind := range append(slices.Clone(ProbeTypes), "AXFR", "ANY", "IXFR", "a", "", "HINFO", "A -x") {
		_, err := Probe{Tool: ProbeDig, Target: "a.example", Type: kind}.Spec()
		if (err == nil) != slices.Contains(ProbeTypes, kind) {
			t.Errorf("type %q: %v", kind, err)
		}
	}
	if len(ProbeTypes) != 10 {
		t.Errorf("%d types", len(ProbeTypes))
	}
}

func TestProbeNames(t *testing.T) {
	for target, want := range map[string]string{"192.0.2.1": "1.2.0.192.in-addr.arpa", "2001:db8::1": "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", "x.example": "x.example"} {
		if name, err := ProbeName(target, "PTR"); err != nil || name != want {
			t.Errorf("%s: %s, %v", target, name, err)
		}
	}
	for _, bad := range []string{"192.0.2.1", "a:b", "a..b"} {
		if name, err := ProbeName(bad, "A"); err == nil {
			t.Errorf("dig asks for %q as %s", bad, name)
		}
	}
	if spec, err := (Probe{Tool: ProbeDig, Target: "_acme-challenge.example.net", Type: "TXT", Server: netip.MustParseAddr("127.0.0.1")}).Spec(); err != nil || spec.Argv[len(spec.Argv)-1] != "@127.0.0.1" {
		t.Errorf("%v, %v", spec.Argv, err)
	}
	for target, want := range map[string]int{"192.0.2.1:22": 22, "a.example:65535": 65535, "2001:db8::1": 0, "a.example": 0} {
		if _, port, err := ProbePort(target); err != nil || port != want {
			t.Errorf("%s: %d, %v", target, port, err)
		}
	}
	for _, bad := range []string{"a:0", "a:x", "a:70000", ":22", "http://a", "a/b:1"} {
		if _, _, err := ProbePort(bad); err == nil {
			t.Errorf("tcp accepts %q", bad)
		}
	}
}

func TestCaptureFilter(t *testing.T) {
	good := Capture{
		Interface: "lan0", Protocol: "tcp", Host: netip.MustParsePrefix("192.0.2.7/24"), Port: 443, Without: netip.MustParseAddrPort("198.51.100.9:50000"),
		Packets: 5, Bytes: 1 << 20, Within: time.Minute,
	}
	spec, err := Probe{Tool: ProbeCapture, Capture: good}.Spec()
	if err != nil {
		t.Fatal(err)
	}
	want := "/usr/bin/tcpdump -i lan0 -n -p -U -c 5 -w - tcp and net 192.0.2.0/24 and port 443 and not ( host 198.51.100.9 and tcp port 50000 )"
	if got := strings.Join(spec.Argv, " "); got != want || spec.Most != 1<<20 || spec.Within != time.Minute {
		t.Errorf("%s", got)
	}
	for name, change := range map[string]func(c *Capture){
		"an option as the interface": func(c *Capture) { c.Interface = "-z" },
		"no interface":               func(c *Capture) { c.Interface = "" },
		"a command as the protocol":  func(c *Capture) { c.Protocol = "tcp or ip" },
		"ports of icmp":              func(c *Capture) { c.Protocol = "icmp" },
		"no packet limit":            func(c *Capture) { c.Packets = 0 },
		"no size limit":              func(c *Capture) { c.Bytes = 1 << 40 },
		"no time limit":              func(c *Capture) { c.Within = time.Hour },
	} {
		bad := good
		change(&bad)
		if _, err := (Probe{Tool: ProbeCapture, Capture: bad}).Spec(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := (Probe{Tool: ProbePing, Target: "a.example", Capture: good}).Spec(); err == nil {
		t.Error("ping takes capture settings")
	}
	if _, err := (Probe{Tool: "nc", Target: "a.example"}).Spec(); err == nil {
		t.Error("a program that is not in the list is run")
	}
}
