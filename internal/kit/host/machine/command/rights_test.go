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

// with is a program with some rights, as Run makes it.
func with(rights host.Rights, argv ...string) program {
	uid, gid := checker(rights)
	return program{argv: argv, timeout: time.Minute, rights: rights, uid: uid, gid: gid}
}

// status runs a program with some rights, and answers what the kernel says about it.
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

// A program that reads staged files is a user who owns nothing, and has no capability but the one over networks where it needs that. One
// that must own its files is root without any capability.
func TestRights(t *testing.T) {
	four := func(id int) string { return strings.TrimSpace(strings.Repeat(fmt.Sprintf("%d ", id), 4)) }
	for rights, want := range map[host.Rights]struct{ capabilities, final string }{
		host.Checking: {"0000000000000000", "1"}, host.CheckingAsNobody: {"0000000000000000", "1"}, host.CheckingApart: {netAdmin, "1"}, host.Loading: {netAdmin, "0"},
		host.Owning: {"0000000000000000", "1"},
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
	// What is started afterwards is as before.
	if got := status(t, host.Own); got["Uid"] != "0 0 0 0" || got["NoNewPrivs"] != "0" {
		t.Errorf("this process has changed: %v", got)
	}
}

// network is the namespace that a program is in.
func network(t *testing.T, rights host.Rights) string {
	t.Helper()
	out, err := with(rights, "/usr/bin/readlink", "/proc/self/ns/net").run(t.Context())
	if err != nil || out.ExitCode != 0 {
		t.Fatalf("%v, %+v", err, out)
	}
	return strings.TrimSpace(out.Stdout)
}

// A right over the network goes with a network of its own, unless the machine's is to be changed.
func TestNetworkOfItsOwn(t *testing.T) {
	here := network(t, host.Own)
	for rights, same := range map[host.Rights]bool{host.Checking: true, host.CheckingAsNobody: true, host.CheckingApart: false, host.Loading: true, host.Owning: true} {
		if got := network(t, rights); (got == here) != same {
			t.Errorf("rights %d: it is in %s, and we are in %s", rights, got, here)
		}
	}
}

// Who checks reads the staged files, what every program reads, and nothing else: neither what the whole machine may read, nor may it write
// or run anything.
func TestCheckersSeeTheirFilesAlone(t *testing.T) {
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
			{"/bin/cp", "/etc/passwd", public}, {"/bin/touch", filepath.Join(filepath.Dir(public), "new")}, {"/bin/cp", "/etc/passwd", file}, {"/bin/touch", filepath.Join(staged, "new")},
			{"/bin/chmod", "666", file}, {"/bin/rm", "-f", file}, {"/usr/bin/env", "/bin/true"}, {"/bin/sh", "-c", "/bin/true"},
		} {
			if out := run(rights, argv...); out.ExitCode == 0 || !strings.Contains(out.Stderr, "Permission denied") && !strings.Contains(out.Stderr, "not permitted") {
				t.Errorf("rights %d: it may %q: %+v", rights, argv, out)
			}
		}
	}
	// The same is no secret to others.
	if out := run(host.Own, "/bin/cat", public); out.ExitCode != 0 {
		t.Errorf("%+v", out)
	}
}

// Who must own its files reads and writes those of its folders. What else belongs to root it neither reads nor writes, and it can do nothing
// that only root can.
func TestOwnersSeeTheirFoldersAlone(t *testing.T) {
	own, others := t.TempDir(), t.TempDir()
	data := filepath.Join(own, "data")
	secret := filepath.Join(others, "secret")
	if err := errors.Join(os.Mkdir(data, 0o700), os.WriteFile(filepath.Join(own, "config"), nil, 0o600), os.WriteFile(secret, nil, 0o600)); err != nil {
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
	for _, argv := range [][]string{{"/bin/cat", filepath.Join(own, "config")}, {"/bin/touch", file}, {"/bin/chmod", "600", file}, {"/usr/bin/truncate", "-s", "1", file}, {"/bin/mv", file, file + "-moved"}, {"/bin/rm", file + "-moved"}} {
		if out := run(argv...); out.ExitCode != 0 {
			t.Errorf("it may not %q: %+v", argv, out)
		}
	}
	for _, argv := range [][]string{
		{"/bin/cat", secret}, {"/bin/cat", "/etc/shadow"}, {"/bin/cp", "/etc/passwd", secret}, {"/bin/touch", filepath.Join(others, "new")}, {"/bin/touch", filepath.Join(own, "new")}, {"/bin/rm", "-f", secret},
		{"/bin/chown", "65534", filepath.Join(own, "config")}, {"/usr/bin/env", "/bin/true"}, {"/bin/ip", "link", "set", "lo", "mtu", "65535"},
	} {
		if out := run(argv...); out.ExitCode == 0 || !strings.Contains(out.Stderr, "Permission denied") && !strings.Contains(out.Stderr, "not permitted") {
			t.Errorf("it may %q: %+v", argv, out)
		}
	}
}

// A checker that is asked to read what is not the gateway's says that it cannot, and nothing of it.
func TestCheckersTellNoSecrets(t *testing.T) {
	table := "include \"/etc/shadow\"\n"
	_, err := at("").Run(t.Context(), nftables.Check, host.Input{Staged: []host.File{{Place: nftables.Table, Content: []byte(table)}}})
	var exit *host.ExitError
	if !errors.As(err, &exit) || !strings.Contains(exit.Output.Stderr, "Could not open") || strings.Contains(exit.Output.Stderr, "root:") {
		t.Errorf("%v", err)
	}
}
