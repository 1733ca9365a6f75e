package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
)

// with returns a program with some rights, as Run creates it.
func with(rights host.Rights, argv ...string) program {
	uid, gid := checker(rights)
	return program{argv: argv, timeout: time.Minute, rights: rights, uid: uid, gid: gid}
}

// status returns what the kernel reports about a process with some rights.
func status(t *testing.T, rights host.Rights) map[string]string {
	t.Helper()
	out, err := with(rights, "/bin/cat", "/proc/self/status").run(t.Context())
	if err != nil || out.ExitCode != 0 {
		t.Fatalf("%v, %+v", err, out)
	}
	found := map[string]string{}
	for line := range strings.Lines(out.Stdout) {
		name, value, _ := strings.Cut(line, ":")
		found[name] = strings.Join(strings.Fields(value), " ")
	}
	return found
}

const netAdmin = "0000000000001000" // capability 12

// A program that reads staged files runs as a user who owns nothing, with no capability but CAP_NET_ADMIN if it needs that. A program that
// must own its files is root without any capability.
func TestRights(t *testing.T) {
	four := func(id int) string { return strings.TrimSpace(strings.Repeat(fmt.Sprintf("%d ", id), 4)) }
	for rights, want := range map[host.Rights]struct{ capabilities, final string }{
		host.Checking: {"0000000000000000", "1"}, host.CheckingAsNobody: {"0000000000000000", "1"}, host.CheckingApart: {netAdmin, "1"},
		host.Loading: {netAdmin, "0"}, host.Owning: {"0000000000000000", "1"},
	} {
		got := status(t, rights)
		uid, gid := checker(rights)
		if rights == host.Owning {
			uid, gid = 0, 0
		} else if uid == 0 || gid == 0 || got["Groups"] != "" {
			t.Errorf("rights %d: user %d, group %d, groups %s", rights, uid, gid, got["Groups"])
		}
		if got["Uid"] != four(uid) || got["Gid"] != four(gid) {
			t.Errorf("rights %d: user %s, group %s", rights, got["Uid"], got["Gid"])
		}
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
			if got[set] != want.capabilities {
				t.Errorf("rights %d: %s %s", rights, set, got[set])
			}
		}
		if got["NoNewPrivs"] != want.final {
			t.Errorf("rights %d: new privileges: %s", rights, got["NoNewPrivs"])
		}
	}
	// Programs that start afterwards have their rights as before.
	if got := status(t, host.Own); got["Uid"] != "0 0 0 0" || got["NoNewPrivs"] != "0" {
		t.Errorf("this process has changed: %v", got)
	}
}

// network returns the network namespace of a program with some rights.
func network(t *testing.T, rights host.Rights) string {
	t.Helper()
	out, err := with(rights, "/usr/bin/readlink", "/proc/self/ns/net").run(t.Context())
	if err != nil || out.ExitCode != 0 {
		t.Fatalf("%v, %+v", err, out)
	}
	return strings.TrimSpace(out.Stdout)
}

// A checker with CAP_NET_ADMIN gets its own network namespace. Only a program that loads the packet filter has the capability here.
func TestNetworkNamespaces(t *testing.T) {
	here := network(t, host.Own)
	for rights, same := range map[host.Rights]bool{
		host.Checking: true, host.CheckingAsNobody: true, host.CheckingApart: false, host.Loading: true, host.Owning: true,
	} {
		if got := network(t, rights); (got == here) != same {
			t.Errorf("rights %d: it is in %s, and this process is in %s", rights, got, here)
		}
	}
}

// A checker can read the staged files and CommonFiles, and not even other files that all users may read. It can write and run nothing.
func TestCheckersSeeOnlyTheirFiles(t *testing.T) {
	public := filepath.Join(t.TempDir(), "public")
	for path := public; path != os.TempDir(); path = filepath.Dir(path) {
		if path == public {
			if err := os.WriteFile(path, []byte("x"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	_, gid := checker(host.Checking)
	staged, remove, err := at("").files.Stage([]host.File{{Place: chrony.DropIn, Content: []byte("staged")}}, gid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	run := func(rights host.Rights, argv ...string) host.Output {
		t.Helper()
		p := with(rights, argv...)
		p.staged = staged
		out, err := p.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, rights := range []host.Rights{host.Checking, host.CheckingApart} {
		file := filepath.Join(staged, chrony.DropIn.Path())
		for _, path := range []string{file, "/etc/passwd", "/usr/share/dns/root.key"} {
			if out := run(rights, "/bin/cat", path); out.ExitCode != 0 {
				t.Errorf("rights %d: it cannot read %s: %+v", rights, path, out)
			}
		}
		for _, argv := range [][]string{
			{"/bin/cat", public}, {"/bin/cat", "/etc/shadow"}, {"/bin/cat", "/etc/debian_version"}, {"/bin/ls", filepath.Dir(public)},
			{"/bin/cp", "/etc/passwd", public}, {"/bin/touch", filepath.Join(filepath.Dir(public), "new")},
			{"/bin/cp", "/etc/passwd", file}, {"/bin/touch", filepath.Join(staged, "new")},
			{"/bin/chmod", "666", file}, {"/bin/rm", "-f", file}, {"/usr/bin/env", "/bin/true"}, {"/bin/sh", "-c", "/bin/true"},
		} {
			if out := run(rights, argv...); !refused(out) {
				t.Errorf("rights %d: it may %q: %+v", rights, argv, out)
			}
		}
	}
	// Without confinement the file can be read.
	if out := run(host.Own, "/bin/cat", public); out.ExitCode != 0 {
		t.Errorf("%+v", out)
	}
}

func refused(out host.Output) bool {
	return out.ExitCode != 0 && (strings.Contains(out.Stderr, "Permission denied") || strings.Contains(out.Stderr, "not permitted"))
}

// A program that must own its files can read and write its folders. It can neither read nor write root's other files, and do nothing that
// takes root's capabilities.
func TestOwnersSeeOnlyTheirFolders(t *testing.T) {
	own, others := t.TempDir(), t.TempDir()
	data := filepath.Join(own, "data")
	secret := filepath.Join(others, "secret")
	config := filepath.Join(own, "config")
	if err := errors.Join(os.Mkdir(data, 0o700), os.WriteFile(config, nil, 0o600), os.WriteFile(secret, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	run := func(argv ...string) host.Output {
		t.Helper()
		p := with(host.Owning, argv...)
		p.reads, p.writes = []string{own}, data
		out, err := p.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	file := filepath.Join(data, "file")
	for _, argv := range [][]string{
		{"/bin/cat", config}, {"/bin/touch", file}, {"/bin/chmod", "600", file}, {"/usr/bin/truncate", "-s", "1", file},
		{"/bin/mv", file, file + "-moved"}, {"/bin/rm", file + "-moved"},
	} {
		if out := run(argv...); out.ExitCode != 0 {
			t.Errorf("it may not %q: %+v", argv, out)
		}
	}
	for _, argv := range [][]string{
		{"/bin/cat", secret}, {"/bin/cat", "/etc/shadow"}, {"/bin/cp", "/etc/passwd", secret}, {"/bin/touch", filepath.Join(others, "new")},
		{"/bin/touch", filepath.Join(own, "new")}, {"/bin/rm", "-f", secret}, {"/bin/chown", "65534", config},
		{"/usr/bin/env", "/bin/true"}, {"/bin/ip", "link", "set", "lo", "mtu", "65535"},
	} {
		if out := run(argv...); !refused(out) {
			t.Errorf("it may %q: %+v", argv, out)
		}
	}
}

// The error of a checker whose file includes a secret file does not contain the secret.
func TestCheckersLeakNoSecrets(t *testing.T) {
	table := "include \"/etc/shadow\"\n"
	_, err := at("").Run(t.Context(), nftables.Check, host.Input{Staged: []host.File{{Place: nftables.Table, Content: []byte(table)}}})
	var exit *host.ExitError
	if !errors.As(err, &exit) || !strings.Contains(exit.Output.Stderr, "Could not open") || strings.Contains(exit.Output.Stderr, "root:") {
		t.Errorf("%v", err)
	}
}
