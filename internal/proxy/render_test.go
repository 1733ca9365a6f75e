package proxy_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"golang.org/x/tools/txtar"

	"edge.internal/gateway/internal/kit/conftest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/wire"
	"edge.internal/gateway/internal/proxy"
)

// haproxy has the real daemon check the files.
func askHAProxy(t testing.TB, files []host.File) error {
	t.Helper()
	machine, err := machine.New(machine.Options{Units: units.None{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = machine.Run(t.Context(), haproxy.Check, host.Input{Staged: files})
	return err
}

// pem returns a certificate with its key.
func pem(t testing.TB, names ...string) []byte {
	t.Helper()
	signed := httpd.SelfSigned{Path: filepath.Join(t.TempDir(), "pem"), Names: func() []string { return names }}
	b, err := signed.PEM()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRender(t *testing.T) {
	certificate := pem(t, "a.example.net")
	isPEM := func(f host.File) bool { return strings.HasSuffix(f.Place.Path(), ".pem") }
	conftest.Golden[*proxy.Config]{
		Render: proxy.Render,
		Hidden: func(f host.File) bool { return isPEM(f) || strings.HasSuffix(f.Place.Path(), ".html") },
		Accept: func(t testing.TB, files []host.File) {
			// This machine's HAProxy may lack QUIC; then the checked configuration has none.
			if bytes.Contains(files[0].Content, []byte("quic4@")) {
				return
			}
			for i := range files {
				if isPEM(files[i]) {
					files[i].Content = certificate
				}
			}
			if err := askHAProxy(t, files); err != nil {
				t.Errorf("haproxy refuses it: %v", err)
			}
		},
	}.Check(t)
}

func TestCheckerRefuses(t *testing.T) {
	if err := askHAProxy(t, []host.File{{Place: haproxy.Config, Content: []byte("global\n  surprise\n")}}); err == nil {
		t.Fatal("haproxy takes anything")
	}
}

// one is a configuration with one of each kind, for tests that set a field.
func one(t testing.TB) *proxy.Config {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/render/one-of-each.txtar")
	if err != nil {
		t.Fatal(err)
	}
	c := &proxy.Config{}
	if err := json.Unmarshal(archive.Files[0].Data, c); err != nil {
		t.Fatal(err)
	}
	c.Default = pem(t, "default.example.net")
	for i := range c.Certificates {
		c.Certificates[i].PEM = c.Default
	}
	return c
}

// words splits a file like HAProxy: words are separated by blanks, and quotes keep blanks together.
func words(file []byte) [][]string {
	var list [][]string
	for line := range bytes.Lines(file) {
		var parts []string
		var word strings.Builder
		quote, inside := byte(0), false
		text := strings.TrimSpace(string(line))
		for i := 0; i < len(text); i++ {
			c := text[i]
			switch {
			case quote != 0 && c == quote:
				quote = 0
			case quote == 0 && (c == '\'' || c == '"'):
				quote, inside = c, true
			case quote != '\'' && c == '\\' && i+1 < len(text):
				i++
				word.WriteByte(text[i])
				inside = true
			case quote == 0 && (c == ' ' || c == '\t'):
				if inside {
					parts = append(parts, word.String())
					word.Reset()
				}
				inside = false
			case quote == 0 && c == '#':
				i = len(text)
			default:
				word.WriteByte(c)
				inside = true
			}
		}
		if inside {
			parts = append(parts, word.String())
		}
		if len(parts) > 0 && parts[0] != "description" { // the mark depends on all the rest
			list = append(list, parts)
		}
	}
	return list
}

// hostile tries hostile texts in a field, and checks the file that it goes to.
func hostile(t *testing.T, place host.Place, benign string, split func([]byte) [][]string, fill func(c *proxy.Config, text string) (canonical string, err error)) {
	base := one(t)
	conftest.Oracle[*proxy.Config]{
		Place: place, Benign: benign, Parse: split,
		Decode: func(text string) (*proxy.Config, string, error) {
			c := &proxy.Config{
				Domains: append([]proxy.Domain{}, base.Domains...), Headers: append([]proxy.Header{}, base.Headers...), Backends: append([]proxy.Backend{}, base.Backends...),
				Servers: append([]proxy.Server{}, base.Servers...), Rules: append([]proxy.Rule{}, base.Rules...), Certificates: base.Certificates, Default: base.Default, FQDN: base.FQDN,
			}
			canonical, err := fill(c, text)
			return c, canonical, err
		},
		Render: func(c *proxy.Config) ([]byte, error) {
			files, err := proxy.Render(c)
			if err != nil {
				return nil, err
			}
			for _, f := range files {
				if f.Place == place {
					return f.Content, nil
				}
			}
			t.Fatalf("no %s", place)
			return nil, nil
		},
	}.Check(t)
}

// decode sets a value the way the API does.
func decode(into any, field string, v any) error {
	body, err := json.Marshal(map[string]any{field: v})
	if err != nil {
		return err // not valid UTF-8: no JSON can carry it
	}
	_, err = wire.Decode(body, into)
	return err
}

// pairs splits a map like HAProxy: a key, and everything after it.
func pairs(separator string) func(file []byte) [][]string {
	return func(file []byte) [][]string {
		var list [][]string
		for line := range bytes.Lines(file) {
			if key, text, ok := strings.Cut(strings.TrimRight(string(line), "\n"), " "); ok && !strings.HasPrefix(key, "#") {
				list = append(list, append([]string{key}, strings.Split(text, separator)...))
			}
		}
		return list
	}
}

func TestHostileServerName(t *testing.T) {
	hostile(t, haproxy.Config, "web-1", words, func(c *proxy.Config, text string) (string, error) {
		if err := decode(&c.Servers[0], "name", text); err != nil {
			return "", err
		}
		return c.Servers[0].Name.Word().String(), nil
	})
}

func TestHostileHealthPath(t *testing.T) {
	hostile(t, haproxy.Config, "/health", words, func(c *proxy.Config, text string) (string, error) {
		err := decode(&c.Backends[0], "health_check_path", text)
		return c.Backends[0].HealthCheckPath.String(), err
	})
}

func TestHostileHealthHost(t *testing.T) {
	hostile(t, haproxy.Config, "app.internal.example.net", words, func(c *proxy.Config, text string) (string, error) {
		c.Backends[0].HealthCheckHost = c.Servers[0].Address
		err := decode(&c.Backends[0], "health_check_host", text)
		if c.Backends[0].HealthCheckHost.IsZero() {
			return "localhost", err
		}
		return c.Backends[0].HealthCheckHost.String(), err
	})
}

func TestHostileHeaderName(t *testing.T) {
	hostile(t, haproxy.Config, "X-Test", words, func(c *proxy.Config, text string) (string, error) {
		err := decode(&c.Headers[0], "name", text)
		return c.Headers[0].Name.String(), err
	})
}

func TestHostileHeaderValue(t *testing.T) {
	hostile(t, haproxy.Headers, "a-value", pairs("\x1f"), func(c *proxy.Config, text string) (string, error) {
		err := decode(&c.Headers[0], "value", text)
		return c.Headers[0].Value.String(), err
	})
}

func TestHostilePathPrefix(t *testing.T) {
	hostile(t, haproxy.Routes, "/prefix", func(file []byte) [][]string {
		list := pairs("|")(file)
		for i := range list {
			list[i][0] = strings.TrimPrefix(list[i][0], c0Domain)
		}
		return list
	}, func(c *proxy.Config, text string) (string, error) {
		err := decode(&c.Rules[0], "path_prefix", text)
		return c.Rules[0].PathPrefix.String(), err
	})
}

const c0Domain = "00000000-0000-7000-8000-000000000101"

func TestHostileDomainName(t *testing.T) {
	hostile(t, haproxy.Hosts, "shop.example.net", pairs("|"), func(c *proxy.Config, text string) (string, error) {
		text = strings.TrimPrefix(text, "*.") // those go to the map of wildcards
		c.FQDN = value.DomainName{}           // or its position in the sorted map would vary
		err := decode(&c.Domains[0], "name", text)
		return c.Domains[0].Name.String(), err
	})
}
