package vrrp_test

import (
	"bytes"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/conftest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/vrrp"
)

// cable creates a link that keepalived finds.
func cable(t testing.TB, name string) {
	t.Helper()
	if out, err := exec.Command("ip", "link", "add", name, "type", "veth", "peer", "name", name+"-").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() })
}

// askKeepalived has the real one check a file.
func askKeepalived(t testing.TB, file []byte) error {
	t.Helper()
	m, err := machine.New(machine.Options{Units: units.None{}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.Run(t.Context(), keepalived.Check, host.Input{Staged: []host.File{{Place: keepalived.Config, Content: file}}})
	if err == nil && out.Stderr != "" {
		err = errors.New(out.Stderr)
	}
	return err
}

func TestRender(t *testing.T) {
	cable(t, "vrrp0")
	cable(t, "vrrp1")
	conftest.Golden[vrrp.Config]{Render: vrrp.Render, Accept: func(t testing.TB, files []host.File) {
		if err := askKeepalived(t, files[0].Content); err != nil {
			t.Errorf("keepalived refuses it: %v", err)
		}
	}}.Check(t)
}

func config() vrrp.Config {
	return vrrp.Config{
		Clustered: true, RouterID: 51, Priority: 100, Link: value.Must[value.IfName]("vrrp0"), Own: value.Must[value.Addr]("10.9.0.1"),
		Others: []value.Addr{value.Must[value.Addr]("10.9.0.2")}, VIPs: []vrrp.VIP{{Link: value.Must[value.IfName]("vrrp0"), Address: netip.MustParsePrefix("10.9.0.9/24")}},
	}
}

func rendered(t testing.TB, c vrrp.Config) []byte {
	t.Helper()
	files, err := vrrp.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	return files[0].Content
}

// keepalived's check really checks; its known gaps are listed.
func TestCheckerRefuses(t *testing.T) {
	cable(t, "vrrp0")
	good := rendered(t, config())
	if err := askKeepalived(t, good); err != nil {
		t.Fatal(err)
	}
	for was, now := range map[string]string{
		"virtual_router_id 51": "virtual_router_id 256", "interface vrrp0": "interface gone0", "10.9.0.9/24": "10.9.0.9/33", "dev vrrp0": "dev gone0", "state BACKUP": "surprise",
	} {
		if askKeepalived(t, bytes.Replace(good, []byte(was), []byte(now), 1)) == nil {
			t.Errorf("keepalived takes %s", now)
		}
	}
}

// directives splits a file like keepalived.
func directives(file []byte) [][]string {
	var list [][]string
	for line := range bytes.Lines(file) {
		if words := strings.Fields(string(line)); len(words) > 0 && !strings.ContainsAny(words[0][:1], "!#") {
			list = append(list, words)
		}
	}
	return list
}

// No name of a link and no address becomes a directive.
func TestHostileValues(t *testing.T) {
	file := func(change func(*vrrp.Config)) ([]byte, error) {
		c := config()
		change(&c)
		files, err := vrrp.Render(c)
		if err != nil {
			return nil, err
		}
		return files[0].Content, nil
	}
	decodeLink := func(text string) (value.IfName, string, error) {
		v, err := value.Parse[value.IfName](text)
		if err == nil && (v.IsZero() || text == "include") {
			err = errors.New("refused") // by the room, before it renders
		}
		return v, v.String(), err
	}
	decodeAddr := func(text string) (value.Addr, string, error) {
		v, err := value.Parse[value.Addr](text)
		if err == nil && !v.Netip().Is4() {
			err = errors.New("of the other family")
		}
		return v, v.String(), err
	}
	t.Run("link", func(t *testing.T) {
		conftest.Oracle[value.IfName]{Decode: decodeLink, Parse: directives, Place: keepalived.Config, Benign: "eth7", Render: func(v value.IfName) ([]byte, error) {
			return file(func(c *vrrp.Config) { c.Link = v })
		}}.Check(t)
	})
	t.Run("link of an address", func(t *testing.T) {
		conftest.Oracle[value.IfName]{Decode: decodeLink, Parse: directives, Place: keepalived.Config, Benign: "eth7", Render: func(v value.IfName) ([]byte, error) {
			return file(func(c *vrrp.Config) {
				c.VIPs = append(c.VIPs, vrrp.VIP{Link: v, Address: netip.MustParsePrefix("192.0.2.9/24")})
			})
		}}.Check(t)
	})
	t.Run("node", func(t *testing.T) {
		conftest.Oracle[value.Addr]{Decode: decodeAddr, Parse: directives, Place: keepalived.Config, Benign: "192.0.2.1", Render: func(v value.Addr) ([]byte, error) {
			return file(func(c *vrrp.Config) { c.Others = []value.Addr{v} })
		}}.Check(t)
	})
}
