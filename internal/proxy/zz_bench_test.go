package proxy

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/value"
)

func big(n, b int) *Config {
	c := &Config{FQDN: value.Must[value.DomainName]("gw.example.net")}
	for i := range b {
		x := Backend{Name: value.Must[value.Line](fmt.Sprint("b", i)), Scheme: "http", LBAlgorithm: "roundrobin", Active: true, HealthCheckPath: value.Must[Path]("/")}
		x.ID = uuid.New()
		c.Backends = append(c.Backends, x)
		s := Server{BackendID: x.ID, Name: value.Must[ServerName]("first"), Address: value.Must[value.Host]("10.10.0.2"), Port: 80, Weight: 100, Active: true}
		s.ID = uuid.New()
		c.Servers = append(c.Servers, s)
	}
	for i := range n {
		d := Domain{Name: value.Must[SiteName](fmt.Sprintf("d%d.example.net", i)), BackendID: c.Backends[i%b].ID, Active: true, WWWRedirect: wwwNone}
		d.ID = uuid.New()
		c.Domains = append(c.Domains, d)
		h := Header{DomainID: d.ID, Name: value.Must[HeaderName]("X-Bench-0"), Value: value.Must[HeaderValue]("value"), Operation: headerSet}
		h.ID = uuid.New()
		c.Headers = append(c.Headers, h)
		r := Rule{DomainID: d.ID, PathPrefix: value.Must[Path]("/app"), BackendID: c.Backends[i%b].ID, Active: true}
		r.ID = uuid.New()
		c.Rules = append(c.Rules, r)
	}
	return c
}

func BenchmarkCompile(b *testing.B) {
	c := big(10000, 1000)
	b.ReportAllocs()
	for b.Loop() {
		compile(c)
	}
}

func BenchmarkRender(b *testing.B) {
	c := big(10000, 1000)
	b.ReportAllocs()
	for b.Loop() {
		d := &Config{Domains: c.Domains, Headers: c.Headers, Backends: c.Backends, Servers: c.Servers, Rules: c.Rules, FQDN: c.FQDN}
		if _, err := Render(d); err != nil {
			b.Fatal(err)
		}
	}
}
