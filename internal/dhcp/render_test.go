package dhcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/vishvananda/netlink"

	"edge.internal/gateway/internal/dhcp"
	"edge.internal/gateway/internal/kit/conftest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/host/nettest"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/wire"
)

// Kea refuses missing links, even in a check, so the tests have a network of their own.
func TestMain(m *testing.M) {
	nettest.Enter()
	for _, name := range []string{"lan0", "guest0.20"} {
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "peer-" + name[:4]}
		if err := netlink.LinkAdd(link); err != nil {
			panic(fmt.Sprintf("making %s: %v", name, err))
		}
	}
	m.Run()
}

// askKea has the real daemon check a file.
func askKea(t testing.TB, file []byte) error {
	t.Helper()
	machine, err := machine.New(machine.Options{Units: units.None{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = machine.Run(t.Context(), kea.Check, host.Input{Staged: []host.File{{Place: kea.Config, Content: file}}})
	return err
}

func accepted(t testing.TB, file []byte) {
	t.Helper()
	if err := askKea(t, file); err != nil {
		t.Errorf("kea refuses\n%s: %v", file, err)
	}
}

func TestRender(t *testing.T) {
	conftest.Golden[dhcp.Config]{
		Render: dhcp.Render,
		Accept: func(t testing.TB, files []host.File) { accepted(t, files[0].Content) },
	}.Check(t)
}

func TestCheckerRefuses(t *testing.T) {
	if err := askKea(t, []byte(`{"Dhcp4": {"surprise": 1}}`)); err == nil {
		t.Fatal("kea takes anything")
	}
}

// Every other file has another mark, or a reload would not be noticed.
func TestMark(t *testing.T) {
	mark := func(c dhcp.Config) string {
		files, err := dhcp.Render(c)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Dhcp4 struct {
				Tag string `json:"server-tag"`
			}
		}
		if err := json.Unmarshal(files[0].Content, &file); err != nil {
			t.Fatal(err)
		}
		return file.Dhcp4.Tag
	}
	was, now := one(), one()
	if mark(was) != mark(now) || len(mark(was)) != len("gateway-")+32 {
		t.Fatalf("%s, %s", mark(was), mark(now))
	}
	now.Links[0].Index++ // a recreated link
	if mark(was) == mark(now) {
		t.Fatal("the same mark")
	}
}

// one is a configuration with one subnet and one reservation.
func one() dhcp.Config {
	c := dhcp.Config{
		Settings: dhcp.Settings{Enabled: true, DefaultLeaseSeconds: 3600, MaxLeaseSeconds: 86400},
		Links:    []dhcp.Link{{Name: "lan0", Index: 7}},
		Paths:    kea.Where(),
	}
	var subnet dhcp.Subnet
	must(wire.Decode([]byte(`{"interface":"lan0","cidr":"10.10.0.0/24","range_start":"10.10.0.100","range_end":"10.10.0.200","gateway":"10.10.0.1",
		"dns_servers":["10.10.0.2"],"ntp_servers":["10.10.0.3"],"domain_name":"example.net"}`), &subnet))
	subnet.ID = uuid.MustParse("0198a000-0000-7000-8000-000000000001")
	var reservation dhcp.Reservation
	must(wire.Decode([]byte(`{"mac":"52:54:00:12:34:56","ip":"10.10.0.9","hostname":"printer","subnet_id":"0198a000-0000-7000-8000-000000000001"}`), &reservation))
	c.Subnets, c.Reservations = []dhcp.Subnet{subnet}, []dhcp.Reservation{reservation}
	return c
}

func must(_ map[string]bool, err error) {
	if err != nil {
		panic(err)
	}
}

// tree returns every path of a JSON document, with its value if it has one.
func tree(file []byte) [][]string {
	var doc any
	if err := json.Unmarshal(file, &doc); err != nil {
		return [][]string{{"no JSON", err.Error()}}
	}
	var list [][]string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			list = append(list, []string{path + "{"})
			for key, x := range v {
				if key != "server-tag" { // different for every file
					walk(path+"/"+key, x)
				}
			}
		case []any:
			list = append(list, []string{path + "["})
			for i, x := range v {
				walk(fmt.Sprintf("%s/%d", path, i), x)
			}
		case string:
			list = append(list, append([]string{path}, strings.Split(v, ", ")...))
		default:
			list = append(list, []string{path, fmt.Sprint(v)})
		}
	}
	walk("", doc)
	slices.SortFunc(list, slices.Compare)
	return list
}

// hostile tries hostile texts in a field.
func hostile[T any](t *testing.T, field, benign string, row func(*dhcp.Config) *T, text func(*T) string) {
	t.Run(field, func(t *testing.T) {
		conftest.Oracle[dhcp.Config]{
			Place:  kea.Config,
			Benign: benign, Parse: tree, Daemon: accepted,
			Decode: func(value string) (dhcp.Config, string, error) {
				c := one()
				body, err := json.Marshal(map[string]any{field: value})
				if strings.HasSuffix(field, "_servers") {
					body, err = json.Marshal(map[string]any{field: []string{value}})
				}
				if err != nil {
					return c, "", err
				}
				_, err = wire.Decode(body, row(&c))
				if err == nil && !c.Subnets[0].CIDR.Netip().Contains(c.Reservations[0].IP.Netip()) {
					err = errors.New("refused beside the subnet")
				}
				if err == nil && text(row(&c)) == "" {
					err = errors.New("absent")
				}
				return c, text(row(&c)), err
			},
			Render: func(c dhcp.Config) ([]byte, error) {
				files, err := dhcp.Render(c)
				if err != nil {
					return nil, err
				}
				return files[0].Content, nil
			},
		}.Check(t)
	})
}

func first(list []value.Addr) string {
	if len(list) == 0 {
		return ""
	}
	return list[0].String()
}

func TestHostile(t *testing.T) {
	subnet := func(c *dhcp.Config) *dhcp.Subnet { return &c.Subnets[0] }
	reservation := func(c *dhcp.Config) *dhcp.Reservation { return &c.Reservations[0] }
	hostile(t, "domain_name", "example.org", subnet, func(s *dhcp.Subnet) string { return s.DomainName.String() })
	hostile(t, "gateway", "10.10.0.7", subnet, func(s *dhcp.Subnet) string { return s.Gateway.String() })
	hostile(t, "dns_servers", "10.10.0.8", subnet, func(s *dhcp.Subnet) string { return first(s.DNSServers) })
	hostile(t, "ntp_servers", "10.10.0.8", subnet, func(s *dhcp.Subnet) string { return first(s.NTPServers) })
	hostile(t, "hostname", "scanner", reservation, func(r *dhcp.Reservation) string { return r.Hostname.String() })
	hostile(t, "ip", "10.10.0.33", reservation, func(r *dhcp.Reservation) string { return r.IP.String() })
	hostile(t, "mac", "52:54:00:65:43:21", reservation, func(r *dhcp.Reservation) string { return r.MAC.String() })
}

// Texts that cannot be names in Kea's file, or that depend on other fields, are refused earlier.
func TestHostileTextsAreNoNames(t *testing.T) {
	for _, text := range conftest.Corpus {
		for _, field := range []string{"interface", "cidr", "range_start", "range_end"} {
			s := one().Subnets[0]
			body, err := json.Marshal(map[string]any{field: text})
			if err != nil {
				continue
			}
			if _, err := wire.Decode(body, &s); err == nil && text != "" && strings.ContainsAny(text, " \t\r\n\x00\",{}[]\\'<>?#;") {
				t.Errorf("%s takes %q", field, text)
			}
		}
	}
}
