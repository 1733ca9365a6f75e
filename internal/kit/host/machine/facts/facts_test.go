package facts

import (
	"os"
	"path/filepath"
	"testing"

	"edge.internal/gateway/internal/kit/host/daemon/home"
)

func TestFacts(t *testing.T) {
	f := New(home.Home{Root: t.TempDir()}).Facts()
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
	r, err := New(home.Home{}).Resources()
	if err != nil {
		t.Fatal(err)
	}
	if r.NumCPUs < 1 || r.MemoryTotal <= r.MemoryAvailable || r.MemoryAvailable == 0 || r.DiskTotal <= r.DiskFree || r.Uptime <= 0 {
		t.Errorf("%+v", r)
	}
}
