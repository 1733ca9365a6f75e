package host

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFacts(t *testing.T) {
	f := newSystem(t, t.TempDir()).Facts()
	hostname, err := os.Hostname()
	if err != nil || f.Hostname != hostname {
		t.Errorf("hostname %q, want %q, %v", f.Hostname, hostname, err)
	}
	if f.OS == "" || f.Kernel == "" || !machineIDForm.MatchString(f.MachineID) {
		t.Errorf("%+v", f)
	}
}

func TestOSName(t *testing.T) {
	for content, want := range map[string]string{
		"NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n": "Debian GNU/Linux 12 (bookworm)",
		"PRETTY_NAME=Plain\n": "Plain",
		"":                    "",
	} {
		path := filepath.Join(t.TempDir(), "os-release")
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := osName(path); got != want {
			t.Errorf("%q: %q", content, got)
		}
	}
}

func TestResources(t *testing.T) {
	r, err := newSystem(t, "").Resources()
	if err != nil {
		t.Fatal(err)
	}
	if r.NumCPUs < 1 || r.MemoryTotal <= r.MemoryAvailable || r.MemoryAvailable == 0 || r.DiskTotal <= r.DiskFree || r.Uptime <= 0 {
		t.Errorf("%+v", r)
	}
}

// TestLinks compares with what iproute2 says.
func TestLinks(t *testing.T) {
	out, err := exec.Command("ip", "-j", "address").Output()
	if err != nil {
		t.Fatalf("ip: %v", err)
	}
	var want []struct {
		Ifindex  int
		Ifname   string
		Flags    []string
		MTU      int
		LinkType string `json:"link_type"`
		Address  string
		AddrInfo []struct {
			Family, Local, Scope string
			PrefixLen            int
		} `json:"addr_info"`
	}
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	links, err := newSystem(t, "").Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(links) != len(want) {
		t.Fatalf("%d links, ip says %d", len(links), len(want))
	}
	for i, w := range want {
		l := links[i]
		l.RxBytes, l.TxBytes, l.RxPackets, l.TxPackets, l.RxDrop, l.TxDrop = 0, 0, 0, 0, 0, 0
		l.Kind, l.Alias, l.Master, l.Parent, l.VLANID, l.BondMode, l.AcceptRA = "", "", "", "", 0, "", 0 // see the tests of the network
		for n := range l.Addrs {
			l.Addrs[n].Protocol, l.Addrs[n].Dynamic, l.Addrs[n].Duplicate = 0, false, false
		}
		expected := Link{Index: w.Ifindex, Name: w.Ifname, Flags: w.Flags, MTU: w.MTU, Type: w.LinkType, Address: w.Address}
		for _, a := range w.AddrInfo {
			expected.Addrs = append(expected.Addrs, LinkAddr{Family: a.Family, Local: a.Local, PrefixLen: a.PrefixLen, Scope: a.Scope})
		}
		if diff := cmp.Diff(expected, l); diff != "" {
			t.Errorf("%s: %s", w.Ifname, diff)
		}
	}
}
