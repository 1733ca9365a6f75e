package fwdproxy_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/fwdproxy"
	"edge.internal/gateway/internal/fwdproxy/verdict"
	"edge.internal/gateway/internal/kit/conftest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/wire"
)

// askSquid has the real daemon check the files.
func askSquid(t testing.TB, files []host.File) error {
	t.Helper()
	machine, err := machine.New(machine.Options{Units: units.None{}})
	if err != nil {
		t.Fatal(err)
	}
	return fwdproxy.Consult(t.Context(), machine, files)
}

// accept checks that squid and the judge accept the files.
func accept(t testing.TB, files []host.File) {
	t.Helper()
	if err := askSquid(t, files); err != nil {
		t.Errorf("squid refuses it: %v", err)
	}
	if _, err := verdict.Read(files[2].Content); err != nil {
		t.Errorf("the judge refuses it: %v", err)
	}
}

func TestRender(t *testing.T) {
	conftest.Golden[fwdproxy.Config]{Render: fwdproxy.Render, Accept: accept}.Check(t)
}

func TestCheckerRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"http_port 3128\nsurprise on\n":                                        "surprise",
		"acl x url_regex (\nhttp_access deny x\n":                              "Unmatched (",
		"http_access deny nobody\n":                                            "nobody",
		"acl x src 10.0.0.0/8 10.1.0.0/16\nhttp_access deny x\nhttp_port 80\n": "10.1.0.0",
	} {
		err := askSquid(t, []host.File{{Place: squid.DropIn, Content: []byte(text)}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Processing") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func render(t *testing.T, c fwdproxy.Config) (dropIn, list string) {
	t.Helper()
	files, err := fwdproxy.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(files[1].Content), string(files[2].Content)
}

func entry(t *testing.T, kind, text, action string) fwdproxy.ACL {
	t.Helper()
	a, err := decodeEntry(kind, text, action)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// squid's configuration contains only what squid judges itself, so that it need not be read again for other changes.
func TestOnlyDestinationsAreSquidsOwn(t *testing.T) {
	dst1, dst2 := entry(t, "dst", "192.0.2.1", "deny"), entry(t, "dst", "192.0.2.0/24", "allow")
	name, source := entry(t, "dstdomain", ".example.net", "deny"), entry(t, "src", "10.0.0.1", "allow")
	config, list := render(t, fwdproxy.Config{ACLs: []fwdproxy.ACL{dst1, dst2}})
	for _, entries := range [][]fwdproxy.ACL{{name, dst1, dst2}, {dst1, name, source, dst2}, {dst1, dst2, source}, {source, dst1, name, dst2, source}} {
		other, others := render(t, fwdproxy.Config{ACLs: entries})
		if other != config {
			t.Errorf("squid's configuration is another one with %v", entries)
		}
		if others == list {
			t.Errorf("the list is the same with %v", entries)
		}
	}
	for _, entries := range [][]fwdproxy.ACL{{dst2, dst1}, {dst1}, {}, {entry(t, "dst", "192.0.2.1", "allow"), dst2}, {entry(t, "dst", "192.0.2.2", "deny"), dst2}} {
		other, others := render(t, fwdproxy.Config{ACLs: entries})
		if other == config {
			t.Errorf("squid's configuration is the same with %v", entries)
		}
		if strings.Fields(strings.SplitN(others, "\n", 3)[1])[1] == strings.Fields(strings.SplitN(list, "\n", 3)[1])[1] {
			t.Errorf("the layout is the same with %v", entries)
		}
	}
}

// words splits a file like squid and the judge.
func words(file []byte) [][]string {
	var list [][]string
	for line := range bytes.Lines(file) {
		if fields := strings.Fields(string(line)); len(fields) > 0 && !strings.HasPrefix(fields[0], "#") && fields[0] != "external_acl_type" {
			list = append(list, fields)
		}
	}
	return list
}

// hostile tries hostile texts in a field of the settings with the real squid.
func hostile(t *testing.T, field, benign string, canonical func(fwdproxy.Settings) string) {
	conftest.Oracle[fwdproxy.Settings]{
		Place:  squid.DropIn,
		Benign: benign, Parse: words,
		Daemon: func(t testing.TB, file []byte) {
			if err := askSquid(t, []host.File{{Place: squid.DropIn, Content: file}}); err != nil {
				t.Errorf("squid refuses\n%s: %v", file, err)
			}
		},
		Decode: func(text string) (fwdproxy.Settings, string, error) {
			s := fwdproxy.Settings{Port: 3128, CacheMB: 8}
			if err := decode(&s, field, []string{text}); err != nil {
				return s, "", err
			}
			return s, canonical(s), nil
		},
		Render: func(s fwdproxy.Settings) ([]byte, error) {
			files, err := fwdproxy.Render(fwdproxy.Config{Settings: s})
			if err != nil {
				return nil, err
			}
			return files[1].Content, nil
		},
	}.Check(t)
}

func TestHostileListenAddress(t *testing.T) {
	hostile(t, "listen_addresses", "192.0.2.1", func(s fwdproxy.Settings) string {
		if a := s.ListenAddresses[0]; !a.Netip().Is4() {
			return "[" + a.String() + "]:3128"
		}
		return s.ListenAddresses[0].String() + ":3128"
	})
}

func TestHostileNetwork(t *testing.T) {
	hostile(t, "allowed_networks", "192.0.2.0/24", func(s fwdproxy.Settings) string { return s.AllowedNetworks[0].String() })
}

// Whatever the value of an entry is, it is refused, or it is one line of the list that the judge reads back as the same value.
func TestHostileValues(t *testing.T) {
	taken := map[string]int{}
	for kind, benign := range map[string]string{
		"src": "192.0.2.1", "dst": "192.0.2.1", "dstdomain": "example.net", "dstdom_regex": "^a", "url_regex": "^http://a", "port": "80", "method": "GET", "time": "MTWHF 08:00-18:00",
	} {
		if _, err := decodeEntry(kind, benign, "deny"); err != nil {
			t.Fatal(err)
		}
		for _, text := range conftest.Corpus {
			for _, text := range []string{text, benign + text, text + benign, benign + " " + text} {
				a, err := decodeEntry(kind, text, "deny")
				if err != nil {
					continue
				}
				taken[kind]++
				files, err := fwdproxy.Render(fwdproxy.Config{Settings: fwdproxy.Settings{Port: 3128, CacheMB: 8}, ACLs: []fwdproxy.ACL{a, a}})
				if err != nil {
					t.Errorf("%s %q got in and cannot be written: %v", kind, text, err)
					continue
				}
				if kind == "dst" {
					accept(t, files)
					continue
				}
				list := strings.Split(strings.TrimSuffix(string(files[2].Content), "\n"), "\n")
				if want := "deny 0 " + kind + " " + a.Value.String(); len(list) != 4 || list[2] != want || list[3] != want {
					t.Errorf("%s %q: %q", kind, text, list)
				}
				if _, err := verdict.Read(files[2].Content); err != nil {
					t.Errorf("%s %q: the judge refuses it: %v", kind, text, err)
				}
			}
		}
	}
	t.Log("taken:", taken)
}

// decodeEntry sets an entry the way the API does.
func decodeEntry(kind, text, action string) (a fwdproxy.ACL, err error) {
	body, err := json.Marshal(map[string]any{"name": "x", "type": kind, "value": text, "action": action})
	if err != nil {
		return a, err // not valid UTF-8: no JSON can carry it
	}
	_, err = wire.Decode(body, &a)
	return a, err
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
