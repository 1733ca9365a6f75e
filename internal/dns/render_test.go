package dns_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	rr "github.com/miekg/dns"

	"edge.internal/gateway/internal/dns"
	"edge.internal/gateway/internal/kit/conftest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/wire"
)

// checkconf has the real checker check the files.
func checkconf(t testing.TB, files []host.File) error {
	t.Helper()
	machine, err := machine.New(machine.Options{Units: units.None{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = machine.Run(t.Context(), unbound.Check, host.Input{Staged: files})
	return err
}

func TestRender(t *testing.T) {
	conftest.Golden[*dns.Config]{
		Render: dns.Render,
		Accept: func(t testing.TB, files []host.File) {
			if err := checkconf(t, files); err != nil {
				t.Errorf("unbound refuses it: %v", err)
			}
		},
	}.Check(t)
}

func TestCheckerRefuses(t *testing.T) {
	if err := checkconf(t, []host.File{{Place: unbound.DropIn, Content: []byte("server:\n  surprise: yes\n")}}); err == nil {
		t.Fatal("unbound takes anything")
	}
}

// attributes splits a file like unbound: words between blanks, and quotes keep blanks together. It skips the record of the mark, which
// depends on all the rest.
func attributes(file []byte) [][]string {
	var list [][]string
	for line := range bytes.Lines(file) {
		var parts []string
		rest := strings.TrimSpace(string(line))
		for rest != "" && rest[0] != '#' {
			end := strings.IndexByte(rest, ' ')
			if rest[0] == '"' || rest[0] == '\'' {
				end = strings.IndexByte(rest[1:], rest[0]) + 2
			}
			if end < 0 {
				end = len(rest)
			}
			parts = append(parts, unquote(rest[:end]))
			rest = strings.TrimSpace(rest[end:])
		}
		if len(parts) > 0 && !strings.Contains(parts[len(parts)-1], "mark.gateway.invalid.") {
			list = append(list, parts)
		}
	}
	return list
}

func unquote(word string) string {
	if word != "" && (word[0] == '"' || word[0] == '\'') {
		return word[1 : len(word)-1]
	}
	return word
}

func accept(t testing.TB, file []byte) {
	t.Helper()
	if err := checkconf(t, []host.File{{Place: unbound.DropIn, Content: file}}); err != nil {
		t.Errorf("unbound refuses\n%s: %v", file, err)
	}
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

func dropInOf(c *dns.Config) ([]byte, error) {
	files, err := dns.Render(c)
	if err != nil {
		return nil, err
	}
	return files[1].Content, nil
}

func TestHostileSettings(t *testing.T) {
	for field, benign := range map[string]string{"upstream_forwards": "192.0.2.1@53", "access_acl": "192.0.2.0/24", "listen_addresses": "192.0.2.1"} {
		t.Run(field, func(t *testing.T) {
			conftest.Oracle[dns.Settings]{
				Place:  unbound.DropIn,
				Benign: benign, Parse: attributes, Daemon: accept,
				Decode: func(text string) (s dns.Settings, canonical string, err error) {
					if err = decode(&s, field, []string{text}); err != nil {
						return s, "", err
					}
					for _, f := range s.UpstreamForwards {
						canonical = f.String()
					}
					for _, p := range s.AccessACL {
						canonical = p.String()
					}
					for _, a := range s.ListenAddresses {
						canonical = a.String()
						if a.Netip().IsUnspecified() || a.Netip().IsLoopback() {
							canonical = "127.0.0.1" // always there
						}
					}
					return s, canonical, nil
				},
				Render: func(s dns.Settings) ([]byte, error) { return dropInOf(&dns.Config{Settings: s}) },
			}.Check(t)
		})
	}
}

func TestHostileZone(t *testing.T) {
	for field, benign := range map[string]any{"name": "corp.example.net", "forward_to": "192.0.2.1@53"} {
		t.Run(field, func(t *testing.T) {
			conftest.Oracle[dns.Zone]{
				Place:  unbound.DropIn,
				Benign: benign.(string), Parse: attributes, Daemon: accept,
				Decode: func(text string) (dns.Zone, string, error) {
					z := dns.Zone{Name: value.Must[dns.ZoneName]("lan"), Active: true}
					if field == "name" {
						err := decode(&z, field, text)
						if err == nil && text == "" {
							err = errEmpty
						}
						return z, z.Name.String() + ".", err
					}
					if err := decode(&z, field, []string{text}); err != nil || len(z.ForwardTo) == 0 {
						return z, "", errEmpty
					}
					return z, z.ForwardTo[0].String(), nil
				},
				Render: func(z dns.Zone) ([]byte, error) {
					// A forward to the gateway itself adds one attribute.
					file, err := dropInOf(&dns.Config{Zones: []dns.Zone{z}})
					return bytes.ReplaceAll(file, []byte("  do-not-query-localhost: no\n"), nil), err
				},
			}.Check(t)
		})
	}
}

var errEmpty = errorString("must be given")

type errorString string

func (e errorString) Error() string { return string(e) }

// one is a configuration with one record.
func one(r dns.Record) *dns.Config {
	z := dns.Zone{Name: value.Must[dns.ZoneName]("corp.lan"), Active: true}
	z.ID = uuid.New()
	r.ZoneID = z.ID
	return &dns.Config{Zones: []dns.Zone{z}, Records: []dns.Record{r}}
}

// recordOf returns the rendered record, as parsed by a zone file parser.
func recordOf(t testing.TB, file []byte) rr.RR {
	t.Helper()
	var found rr.RR
	for _, words := range attributes(file) {
		if words[0] != "local-data:" {
			continue
		}
		r, err := rr.NewRR(words[1])
		if err != nil || found != nil {
			t.Fatalf("not one record: %v\n%s", err, file)
		}
		found = r
	}
	if found == nil {
		t.Fatalf("no record in\n%s", file)
	}
	return found
}

// Every accepted name or value becomes exactly one record with that content.
func TestHostileRecords(t *testing.T) {
	texts := append([]string{`a" "b`, `a' redirect`, `a\"`, `\034`, `\`, "10 a\"b", `0 issue "a' b"`, "line\nbreak"}, conftest.Corpus...)
	benign := map[string]string{"A": "192.0.2.1", "AAAA": "2001:db8::1", "CNAME": "t", "NS": "t", "PTR": "t", "MX": "t", "SRV": "t", "CAA": "t", "TXT": "t"}
	for kind, prefix := range map[string]string{"A": "", "AAAA": "", "CNAME": "", "NS": "", "PTR": "", "MX": "10 ", "SRV": "1 2 3 ", "CAA": "0 issue ", "TXT": ""} {
		taken := 0
		for _, text := range texts {
			for _, x := range [][2]string{{"x", prefix + text}, {text, prefix + benign[kind]}} {
				var r dns.Record
				body, err := json.Marshal(map[string]any{"zone_id": uuid.New().String(), "name": x[0], "type": kind, "value": x[1]})
				if err == nil {
					_, err = wire.Decode(body, &r)
				}
				if err != nil || r.Canonical("corp.lan") != nil {
					continue
				}
				taken++
				file, err := dropInOf(one(r))
				if err != nil {
					t.Fatalf("%s %q %q got in and cannot be written: %v", kind, r.Name, r.Value, err)
				}
				got := recordOf(t, file)
				if rr.TypeToString[got.Header().Rrtype] != kind || !strings.HasSuffix(got.Header().Name, "corp.lan.") {
					t.Errorf("%q became %s", text, got)
				}
				if txt, ok := got.(*rr.TXT); ok && unescape(t, strings.Join(txt.Txt, "")) != r.Value {
					t.Errorf("%q became %s", r.Value, got)
				}
				accept(t, file)
			}
		}
		if taken == 0 {
			t.Errorf("no %s got in", kind)
		}
	}
}

// unescape decodes the escapes of zone files.
func unescape(t testing.TB, text string) string {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '\\':
			b.WriteByte(text[i])
		case text[i+1] >= '0' && text[i+1] <= '9':
			b.WriteByte((text[i+1]-'0')*100 + (text[i+2]-'0')*10 + text[i+3] - '0')
			i += 3
		default:
			i++
			b.WriteByte(text[i])
		}
	}
	return b.String()
}
