package proxy_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/parts"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/proxy"
)

// many is a configuration with n of each kind.
func many(t testing.TB, n int) *proxy.Config {
	t.Helper()
	base := one(t)
	c := &proxy.Config{Default: base.Default, FQDN: base.FQDN}
	for range n {
		addBackend(c, base)
		addDomain(c, base)
		addCertificate(c, base.Default)
	}
	return c
}

func addBackend(c, like *proxy.Config) {
	b, s := like.Backends[0], like.Servers[0]
	b.ID, s.ID = uuid.New(), uuid.New()
	s.BackendID = b.ID
	c.Backends, c.Servers = append(c.Backends, b), append(c.Servers, s)
}

func addDomain(c, like *proxy.Config) {
	d, h, r := like.Domains[0], like.Headers[0], like.Rules[0]
	d.ID, h.ID, r.ID = uuid.New(), uuid.New(), uuid.New()
	d.Name = value.Must[value.SiteName](fmt.Sprintf("d%d.example.net", len(c.Domains)))
	h.DomainID, r.DomainID = d.ID, d.ID
	d.BackendID, r.BackendID = c.Backends[0].ID, c.Backends[0].ID
	c.Domains, c.Headers, c.Rules = append(c.Domains, d), append(c.Headers, h), append(c.Rules, r)
}

func addCertificate(c *proxy.Config, pem []byte) {
	name := value.Must[value.SiteName](fmt.Sprintf("c%d.example.net", len(c.Certificates)))
	c.Certificates = append(c.Certificates, proxy.Certificate{ID: uuid.New(), Names: []value.SiteName{name}, PEM: pem, Trusted: true})
}

// after returns a configuration after random changes.
func after(c *proxy.Config, like *proxy.Config, pems [][]byte, r *rand.Rand) *proxy.Config {
	now := &proxy.Config{
		Domains: slices.Clone(c.Domains), Headers: slices.Clone(c.Headers), Backends: slices.Clone(c.Backends), Servers: slices.Clone(c.Servers), Spares: c.Spares,
		Rules: slices.Clone(c.Rules), Certificates: slices.Clone(c.Certificates), Default: c.Default, FQDN: c.FQDN, IPv6: c.IPv6, Features: c.Features, Inspections: c.Inspections,
	}
	for range r.IntN(4) {
		i := r.IntN(len(now.Backends))
		b, s, x := &now.Backends[i], &now.Servers[i], &now.Certificates[r.IntN(len(now.Certificates))]
		switch r.IntN(12) {
		case 0:
			addBackend(now, like)
		case 1:
			addDomain(now, like)
		case 2:
			addCertificate(now, pems[r.IntN(len(pems))])
		case 3:
			b.LBAlgorithm = "leastconn"
		case 4:
			b.HealthCheckPath = value.Must[proxy.Path](fmt.Sprintf("/up%d", r.IntN(9)))
		case 5:
			b.Scheme, b.VerifyTLS = "https", r.IntN(2) == 0
		case 6:
			s.Port = 1 + r.IntN(9000)
		case 7:
			s.Name = value.Must[proxy.ServerName](fmt.Sprint("web-", r.IntN(9)))
		case 8:
			now.Headers[r.IntN(len(now.Headers))].Name = value.Must[proxy.HeaderName](fmt.Sprint("X-", r.IntN(9)))
		case 9:
			x.PEM = pems[r.IntN(len(pems))]
		case 10:
			x.Names = append(slices.Clone(x.Names), value.Must[value.SiteName](fmt.Sprintf("n%d.example.net", r.IntN(99))))
		case 11:
			now.IPv6 = !now.IPv6
		}
	}
	return now
}

// faults are words that make a directive wrong, or change it.
var faults = []string{"frobnicate", "99999999999", "gateway_nowhere", "ssl", "0", "-1", "'", "%[", "weight", "check", "{", "certificates/none.pem"}

// spoil changes a line of a text at random, but not its first one.
func spoil(text string, r *rand.Rand) string {
	lines := slices.Collect(strings.Lines(text))
	if len(lines) < 2 {
		return text
	}
	i := 1 + r.IntN(len(lines)-1)
	line := strings.TrimSuffix(lines[i], "\n")
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	words, fault := strings.Fields(line), faults[r.IntN(len(faults))]
	if len(words) == 0 || indent == "" && words[0] == "frontend" || words[0] == "backend" {
		return text
	}
	switch n := r.IntN(len(words)); r.IntN(4) {
	case 0:
		words[n] = fault
	case 1:
		words = slices.Insert(words, n+1, fault)
	case 2:
		words = slices.Delete(words, n, n+1)
	case 3:
		line += "\n" + line
		words = nil
	}
	if words != nil {
		line = indent + strings.Join(words, " ")
	}
	lines[i] = line + "\n"
	return strings.Join(lines, "")
}

// spoiled changes one of the files at random.
func spoiled(files []host.File, r *rand.Rand) []host.File {
	files = slices.Clone(files)
	f := &files[max(0, r.IntN(len(files)+8)-8)] // haproxy.cfg more often
	if f.Parts == nil {
		f.Content = []byte(spoil(string(f.Content), r))
		return files
	}
	f.Parts = slices.Clone(f.Parts)
	i := max(0, r.IntN(len(f.Parts)+3)-3)
	f.Parts[i] = parts.Of([]byte(spoil(f.Parts[i].String(), r)))
	return files
}

// said is what HAProxy has against files; empty if it accepts them.
func said(t *testing.T, files []host.File) string {
	t.Helper()
	files = slices.Clone(files)
	files[0] = files[0].Whole()
	if err := askHAProxy(t, files); err != nil {
		return err.Error()
	}
	return ""
}

// Whatever is wrong with a change, HAProxy says the same about the reduced files as about all of them.
func TestReducedCheckIsAsGoodAsAWholeOne(t *testing.T) {
	n, seed := longtest.Number(t, "GATEWAY_CHECKS", 30, 1500), longtest.Seed(t, rand.Uint64())
	r := rand.New(rand.NewPCG(seed, 0))
	like := one(t)
	pems := [][]byte{like.Default, pem(t, "a.example.net"), pem(t, "b.example.net")}
	was := many(t, 5)
	refused, shorter := 0, 0
	for range n {
		accepted, err := proxy.RenderInParts(was)
		if err != nil {
			t.Fatal(err)
		}
		now := after(was, like, pems, r)
		files, err := proxy.RenderInParts(now)
		if err != nil {
			t.Fatal(err)
		}
		sound := r.IntN(4) == 0
		if !sound {
			files = spoiled(files, r)
		}
		reduced := proxy.Reduce(was, accepted, now, files)
		whole := said(t, files)
		if got := said(t, reduced); got != whole {
			t.Fatalf("reduced: %q\nwhole:   %q\n%s", got, whole, reduced[0].Text())
		}
		if len(reduced[0].Text()) < len(files[0].Text()) {
			shorter++
		}
		switch {
		case whole != "":
			refused++
		case sound:
			was = now
		}
	}
	t.Logf("%d changes, %d refused, %d checked in part", n, refused, shorter)
	if refused == 0 || refused == n || shorter == 0 {
		t.Error("that proves nothing")
	}
}

// The check of a change reads only what is new, at the lines at which the whole has it.
func TestCheckReadsOnlyTheChange(t *testing.T) {
	like := one(t)
	was := many(t, 20)
	now := after(was, like, nil, rand.New(rand.NewPCG(0, 0)))
	now.Backends, now.Servers, now.Domains = slices.Clone(was.Backends), slices.Clone(was.Servers), slices.Clone(was.Domains)
	now.Headers, now.Rules, now.Certificates = slices.Clone(was.Headers), slices.Clone(was.Rules), slices.Clone(was.Certificates)
	addBackend(now, like)
	addDomain(now, like)
	addCertificate(now, pem(t, "new.example.net"))
	accepted, err1 := proxy.RenderInParts(was)
	files, err2 := proxy.RenderInParts(now)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	reduced := proxy.Reduce(was, accepted, now, files)
	texts := map[host.Place]string{}
	for _, f := range reduced {
		texts[f.Place] = string(f.Text())
	}
	for _, f := range files {
		whole, ok := strings.Split(string(f.Text()), "\n"), false
		text, there := texts[f.Place]
		if !there {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			if ok = i < len(whole) && (line == "" || line == whole[i]); !ok {
				t.Errorf("line %d of %s is %q", i+1, f.Place, line)
				break
			}
		}
	}
	if n := strings.Count(texts[haproxy.Config], "\nbackend gateway_backend_"); n != 1 {
		t.Errorf("%d backends are checked", n)
	}
	for place, want := range map[host.Place]int{haproxy.Hosts: 1, haproxy.Routes: 1, haproxy.Headers: 1, haproxy.CertificateList: 2} {
		if lines := strings.Fields(strings.ReplaceAll(texts[place], " ", "")); len(lines) != want {
			t.Errorf("%s has %q", place, lines)
		}
	}
	if len(files)-len(reduced) != 20 || !bytes.Equal(reduced[len(reduced)-1].Text(), now.Certificates[20].PEM) && len(reduced) != len(files)-20 {
		t.Errorf("%d of %d files", len(reduced), len(files))
	}
	for name, other := range map[string]*proxy.Config{
		"another HAProxy": {Features: proxy.Features{Version: "3.0.1"}},
		"another setting": {Inspections: []proxy.Inspection{{DomainID: was.Domains[0].ID}}},
	} {
		other.Domains, other.Headers, other.Backends, other.Servers, other.Rules, other.Certificates, other.Default = was.Domains, was.Headers, was.Backends, was.Servers, was.Rules, was.Certificates, was.Default
		files, err := proxy.RenderInParts(other)
		if err != nil {
			t.Fatal(err)
		}
		if reduced := proxy.Reduce(was, accepted, other, files); len(reduced) != len(files) || len(reduced[0].Text()) != len(files[0].Text()) {
			t.Errorf("%s: the check is reduced", name)
		}
	}
}
