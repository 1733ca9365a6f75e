package facts

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

// Debian's lists have the vendors of large blocks and of small ones.
func TestVendorsOfDebian(t *testing.T) {
	got, err := New(home.Home{}).Vendors([]string{"00:00:0c:01:02:03", "70:b3:d5:71:90:01", "02:00:00:00:00:01"})
	want := map[string]string{"00:00:0c:01:02:03": "Cisco Systems, Inc", "70:b3:d5:71:90:01": "2M Technology"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestVendorsPreferTheSmallestBlock(t *testing.T) {
	folder := t.TempDir()
	if _, err := new(vendors).of(folder, nil); !errors.Is(err, host.ErrNotInstalled) {
		t.Errorf("without lists: %v", err)
	}
	const head = "Registry,Assignment,Organization Name,Organization Address\n"
	for name, line := range map[string]string{
		"oui.csv": "MA-L,AABBCC,Block owner,\nMA-L,112233,\"Comma, Inc\",x\n",
		"mam.csv": "MA-M,AABBCC1,Middle,\n", "oui36.csv": "MA-S,AABBCC123,Small,\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(head+line), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var v vendors
	macs := []string{"aa:bb:cc:12:30:00", "aa:bb:cc:1f:00:00", "aa:bb:cc:ff:00:00", "11:22:33:00:00:00", "00:00:00:00:00:01", "short"}
	want := map[string]string{macs[0]: "Small", macs[1]: "Middle", macs[2]: "Block owner", macs[3]: "Comma, Inc"}
	for range 2 {
		if got, err := v.of(folder, macs); err != nil || !maps.Equal(got, want) {
			t.Errorf("%v, %v", got, err)
		}
	}
	// Looking up the same addresses again reads no list.
	for _, name := range []string{"mam.csv", "oui36.csv"} {
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := v.of(folder, macs); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}
