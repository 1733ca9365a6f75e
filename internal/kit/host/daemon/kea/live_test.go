package kea_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/child"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/waittest"
)

type machine struct {
	*files.Files
	kea.Leases
}

// at returns a machine with its files below root; the real one if root is empty.
func at(root string) machine {
	h := home.Home{Root: root, Foreign: root != ""}
	f := files.New(h)
	return machine{f, kea.New(h)}
}

// startKea runs a real Kea below a temporary root, with its configuration in the usual place.
func startKea(t *testing.T) (m machine, configure func(subnets string)) {
	t.Helper()
	root, err := os.MkdirTemp("", "kea-") // short, because the path of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	for _, dir := range []string{"run/kea", "var/lib/kea", "etc/kea"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o750); err != nil { // Kea 2.6 accepts no other mode
			t.Fatal(err)
		}
	}
	m = at(root)
	configure = func(subnets string) {
		paths := kea.Where()
		content, err := json.Marshal(map[string]any{"Dhcp4": map[string]any{
			"server-tag":        "gateway-" + subnets[:1],
			"interfaces-config": map[string]any{"interfaces": []string{}},
			"control-socket":    map[string]any{"socket-type": "unix", "socket-name": root + paths.Control},
			"lease-database":    map[string]any{"type": "memfile", "persist": true, "name": root + paths.Leases},
			"hooks-libraries":   []any{map[string]any{"library": paths.LeaseCommands}},
			"subnet4":           json.RawMessage(subnets[1:]),
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Install(kea.Config, content); err != nil {
			t.Fatal(err)
		}
	}
	configure(`a[{"id": 1, "subnet": "10.10.0.0/24"}]`)
	var output bytes.Buffer
	cmd := exec.Command("/usr/sbin/kea-dhcp4", "-c", m.Path(kea.Config))
	// Kea 2.6 needs the last two: otherwise it accepts no other folder for its socket and its leases.
	cmd.Env = []string{
		"KEA_PIDFILE_DIR=" + root + "/run/kea", "KEA_LOCKFILE_DIR=" + root + "/run/kea",
		"KEA_CONTROL_SOCKET_DIR=" + root + "/run/kea", "KEA_DHCP_DATA_DIR=" + root + "/var/lib/kea",
	}
	cmd.Stdout, cmd.Stderr = &output, &output
	ended, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Logf("kea's output:\n%s", output.String())
		}
	})
	waittest.UntilNil(t, "Kea answers", func() error {
		err := kea.Ask(t.Context(), m, kea.Status, nil, nil)
		if err != nil && !errors.Is(err, host.ErrNotRunning) {
			t.Fatal(err)
		}
		return err
	})
	// Not through a lease file made beforehand: another release of Kea would rewrite it in a separate process, and refuse to read
	// it in the meantime.
	for i, name := range []string{"first", "second"} {
		lease := fmt.Sprintf(`{"ip-address": "10.10.0.%d", "hw-address": "52:54:00:00:00:%02d", "subnet-id": 1, "hostname": "%s"}`, 100+i, 1+i, name)
		if _, err := kea.AskAnything(t.Context(), m.Leases, "lease4-add", json.RawMessage(lease)); err != nil {
			t.Fatal(err)
		}
	}
	return m, configure
}

func TestLeaseServer(t *testing.T) {
	m, configure := startKea(t)
	mark := func() string {
		var answer struct {
			Mark string `json:"server-tag"`
		}
		if err := kea.Ask(t.Context(), m, kea.Mark, nil, &answer); err != nil {
			t.Fatal(err)
		}
		return answer.Mark
	}
	if got := mark(); got != "gateway-a" {
		t.Fatal(got)
	}
	configure(`b[{"id": 1, "subnet": "10.10.0.0/16"}]`)
	if err := kea.Ask(t.Context(), m, kea.Reload, nil, nil); err != nil || mark() != "gateway-b" {
		t.Fatal(err, mark())
	}
	configure(`c[{"id": 1, "subnet": "10.10.0.0/99"}]`)
	err := kea.Ask(t.Context(), m, kea.Reload, nil, nil)
	refused, ok := errors.AsType[*kea.Refused](err)
	if !ok || !strings.Contains(refused.Error(), "Kea refuses config-reload: Config reload failed") || refused.UnknownLink() != "" || mark() != "gateway-b" {
		t.Fatal(err, mark())
	}
	configure(`d[{"id": 1, "subnet": "10.10.0.0/24", "interface": "gone-0.7"}]`)
	err = kea.Ask(t.Context(), m, kea.Reload, nil, nil)
	if refused, ok := errors.AsType[*kea.Refused](err); !ok || refused.UnknownLink() != "gone-0.7" || mark() != "gateway-b" {
		t.Fatal(err, mark())
	}
	var page struct {
		Leases []struct {
			IP       string `json:"ip-address"`
			Hostname string `json:"hostname"`
		} `json:"leases"`
	}
	if err := kea.Ask(t.Context(), m, kea.LeasePage, map[string]any{"from": "10.10.0.100", "limit": 10}, &page); err != nil || len(page.Leases) != 1 || page.Leases[0].Hostname != "second" {
		t.Fatalf("%+v, %v", page, err)
	}
	page.Leases = nil
	if err := kea.Ask(t.Context(), m, kea.LeasePage, map[string]any{"from": "10.10.0.101", "limit": 10}, &page); err != nil || len(page.Leases) != 0 {
		t.Fatalf("%+v, %v", page, err)
	}
}

func TestLeaseServerIsNotRunning(t *testing.T) {
	m := at(t.TempDir())
	if err := kea.Ask(t.Context(), m, kea.Status, nil, nil); !errors.Is(err, host.ErrNotRunning) {
		t.Fatal(err)
	}
}
