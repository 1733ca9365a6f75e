package command

import (
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/helper/guard/fuzz"
	"edge.internal/gateway/internal/kit/longtest"
)

const rooms = "../../../.." // the folder internal

// traced names, for the child of TestWhatTheGuardAdmitsDoesNothing, the file with the subjects to check.
const traced = "COMMAND_TEST_TRACED"

// TestTracedChecks runs in that child.
func TestTracedChecks(t *testing.T) {
	path := os.Getenv(traced)
	if path == "" {
		return // it runs only as a child
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var admitted []fuzz.Subject
	if err := cbor.Unmarshal(content, &admitted); err != nil {
		t.Fatal(err)
	}
	s := at("")
	for i, a := range admitted {
		_, _ = os.Open(fuzz.Marker + strconv.Itoa(i))
		_, _ = s.Run(t.Context(), a.Command, host.Input{Staged: a.Files, Timeout: time.Minute})
	}
}

// Whatever a file contains: if the guard admits it, its checker opens only the staged files and those that every program reads, starts no
// program, opens no connection, and is not root. GATEWAY_MUTATIONS sets the number of files, and GATEWAY_SEED repeats them.
func TestWhatTheGuardAdmitsDoesNothing(t *testing.T) {
	n, seed := longtest.Number(t, "GATEWAY_MUTATIONS", 300, 10_000), longtest.Seed(t, uint64(time.Now().UnixNano()))
	r := rand.New(rand.NewPCG(seed, 0))
	originals, err := fuzz.Subjects(rooms)
	if err != nil {
		t.Fatal(err)
	}
	admitted := slices.Clone(originals) // unchanged, they test that the oracle reports nothing that is allowed
	take := func(original fuzz.Subject) bool {
		s := original.Mutate(r)
		if !s.Admitted() {
			return false
		}
		admitted = append(admitted, s)
		return true
	}
	// A guard that admits only the originals would make this test empty: a mutation of each must be admitted.
	for _, original := range originals {
		tries := 0
		for ; tries < enough && !take(original); tries++ {
		}
		if tries == enough {
			t.Errorf("%s: none of %d files is admitted", original.Command, enough)
		}
	}
	taken := 0
	for range n {
		if take(originals[r.IntN(len(originals))]) {
			taken++
		}
	}
	found := trace(t, admitted)
	for i, complaint := range found {
		t.Errorf("%s: %s\n%s", admitted[i].Command, strings.Join(complaint, "\n"), admitted[i].Changed)
	}
	user, _ := checker(host.Checking)
	t.Logf("GATEWAY_SEED=%d: %d mutations, %d admitted, %d refused, %d checks, %d findings, staged in %s, as the users %d and %d",
		seed, n, taken, n-taken, len(admitted), len(found), stagedIn(t), user, nobody)
}

// enough is so many mutations of a file that one of them is sure to be harmless.
const enough = 5000

// The oracle finds what the guard prevents: without the guard, these try to open files that they must not read.
func TestOracleFindsWhatCheckersOpen(t *testing.T) {
	bad := []fuzz.Subject{
		{Command: nftables.Check, Files: []host.File{{Place: nftables.Table, Content: []byte("include \"/etc/shadow\"\n")}}},
		{Command: unbound.Check, Files: []host.File{{Place: unbound.DropIn, Content: []byte("include: \"/etc/shadow\"\n")}}},
		{Command: chrony.Check, Files: []host.File{{Place: chrony.DropIn, Content: []byte("include /etc/shadow\n")}}},
		{Command: haproxy.Check, Files: []host.File{{Place: haproxy.Config, Content: []byte("frontend x\n acl a src -f /etc/shadow\n")}}},
		{Command: squid.Check, Files: []host.File{{Place: squid.DropIn, Content: []byte("acl a src \"/etc/shadow\"\n")}}},
	}
	if found := trace(t, bad); len(found) != len(bad) {
		t.Errorf("found in %d of %d: %v", len(found), len(bad), found)
	}
}

// misbehaving names a folder, for the child of TestOracleFindsWhatProgramsDo and the program that the child starts.
const misbehaving = "COMMAND_TEST_MISBEHAVING"

// misdeeds are actions that no checker may take, by their trace in strace's output. They run in a folder with a file "it".
var misdeeds = map[string]func() error{
	`"it", O_RDONLY`:         func() error { return open("it") },
	`"../it", O_RDONLY`:      func() error { return open("../it") },
	`"/proc/self/cwd/it"`:    func() error { return open("/proc/self/cwd/it") },
	`"/etc/shadow"`:          func() error { return open("/etc/shadow") },
	`"it", 0600`:             func() error { return os.Chmod("it", 0o600) },
	`fchmod(`:                func() error { return withFile("it", func(f *os.File) error { return f.Chmod(0o600) }) },
	`"it", 0, 0, 0)`:         func() error { return os.Chown("it", 0, 0) },
	`"it", 0, 0, AT_SYMLINK`: func() error { return os.Lchown("it", 0, 0) },
	`fchown(`:                func() error { return withFile("it", func(f *os.File) error { return f.Chown(0, 0) }) },
	`truncate("it"`:          func() error { return os.Truncate("it", 0) },
	`"linked"`:               func() error { return os.Link("it", "linked") },
	`"symbolic"`:             func() error { return os.Symlink("it", "symbolic") },
	`"folder"`:               func() error { return os.Mkdir("folder", 0o700) },
	`"pipe"`:                 func() error { return unix.Mkfifo("pipe", 0o600) },
	`"renamed"`:              func() error { return os.Rename("folder", "renamed") },
	`unlinkat(`:              func() error { return os.Remove("symbolic") },
	`sun_path="bound"`:       func() error { return socket(unix.Bind, &unix.SockaddrUnix{Name: "bound"}) },
	`sun_path="met"`:         func() error { return socket(unix.Connect, &unix.SockaddrUnix{Name: "met"}) },
	`sin_port=htons(0), `:    func() error { return socket(unix.Bind, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}) },
	`sin_port=htons(53), `:   func() error { return socket(unix.Connect, &unix.SockaddrInet4{Port: 53, Addr: [4]byte{192, 0, 2, 1}}) },
	`sin_port=htons(80), `:   func() error { return socket(unix.Connect, &unix.SockaddrInet4{Port: 80, Addr: [4]byte{192, 0, 2, 1}}) },
	`sin6_port=htons(81), `:  func() error { return socket(unix.Connect, &unix.SockaddrInet6{Port: 81, Addr: [16]byte{15: 1}}) },
	`execve("/usr/bin/true"`: func() error { return exec.Command("/usr/bin/true").Run() },
}

func open(name string) error { return withFile(name, func(*os.File) error { return nil }) }

func withFile(name string, do func(*os.File) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return do(f)
}

// socket calls do with a socket of the address's family. The oracle ignores whether it succeeds.
func socket(do func(int, unix.Sockaddr) error, to unix.Sockaddr) error {
	family := unix.AF_UNIX
	switch to.(type) {
	case *unix.SockaddrInet4:
		family = unix.AF_INET
	case *unix.SockaddrInet6:
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_ = do(fd, to)
	return nil
}

// TestMisbehaves is that child and, when it runs in the folder, the program.
func TestMisbehaves(t *testing.T) {
	folder := os.Getenv(misbehaving)
	switch at, err := os.Getwd(); {
	case err != nil:
		t.Fatal(err)
	case folder == "":
		return // it runs only as a child
	case at != folder:
		_, _ = os.Open(fuzz.Marker + "0")
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestMisbehaves$")
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	for _, text := range slices.Sorted(maps.Keys(misdeeds)) {
		if err := misdeeds[text](); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The oracle finds everything that a program could do to files and to other processes.
func TestOracleFindsWhatProgramsDo(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "x")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"it", "../it"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := strings.Join(watch(t, "TestMisbehaves", misbehaving+"="+folder, map[string]string{"/proc/self/exe": "0"}).Found[0], "\n")
	for text := range misdeeds {
		if !strings.Contains(found, text) {
			t.Errorf("%s is not found", text)
		}
	}
	if t.Failed() {
		t.Log(found)
	}
}

// trace checks subjects under strace, and returns the forbidden actions of each checker.
func trace(t *testing.T, subjects []fuzz.Subject) map[int][]string {
	t.Helper()
	content, err := cbor.Marshal(subjects)
	if err != nil {
		t.Fatal(err)
	}
	input := filepath.Join(t.TempDir(), "subjects")
	if err := os.WriteFile(input, content, 0o600); err != nil {
		t.Fatal(err)
	}
	programs := map[string]string{}
	for _, s := range subjects {
		spec, err := s.Command.Spec()
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := checker(spec.Rights)
		programs[spec.Argv[0]] = strconv.Itoa(uid)
	}
	w := watch(t, "TestTracedChecks", traced+"="+input, programs)
	if w.Subject != len(subjects)-1 || w.Checked != len(subjects) {
		t.Fatalf("of %d subjects %d were checked", len(subjects), w.Checked)
	}
	return w.Found
}

// watch runs a test in a child process, with a variable in its environment, and watches those of the programs that it starts. The values
// of programs are the users that they must run as.
func watch(t *testing.T, test, variable string, programs map[string]string) *fuzz.Checks {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(t.TempDir(), "trace")
	cmd := fuzz.Strace(output, "--seccomp-bpf", self, "-test.run=^"+test+"$", "-test.timeout=60m")
	cmd.Env = append(os.Environ(), variable)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w := &fuzz.Checks{Starts: self, Staging: stagedIn(t), Programs: programs, Reads: fuzz.Reads(CommonFiles)}
	if err := fuzz.Read(output, w.Look); err != nil {
		t.Fatal(err)
	}
	return w
}

// stagedIn returns the folder that files are staged in on this machine: that of a gateway, or the one for temporary files.
func stagedIn(t *testing.T) string {
	t.Helper()
	_, gid := checker(host.Checking)
	staged, remove, err := at("").files.Stage(nil, gid)
	if err != nil {
		t.Fatal(err)
	}
	remove()
	return filepath.Dir(staged)
}

// A checker's thread may end before the call that started it returns. Its id can then be reused, even by the next checker.
func TestOracleKnowsCheckersByTheirNumber(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(trace, []byte(`7 openat(AT_FDCWD</>, "/subject/0", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)
8 setuid(65534) = 0
8 execve("/usr/sbin/kea-dhcp4", ["kea-dhcp4"], []) = 0
8 clone3({flags=CLONE_VM|CLONE_THREAD} <unfinished ...>
9 +++ exited with 0 +++
8 <... clone3 resumed> => {parent_tid=[9]}, 88) = 9
8 +++ exited with 0 +++
7 openat(AT_FDCWD</>, "/subject/1", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)
9 setuid(65534) = 0
9 execve("/usr/sbin/kea-dhcp4", ["kea-dhcp4"], []) = 0
9 clone3({flags=CLONE_VM|CLONE_THREAD} <unfinished ...>
9 <... clone3 resumed> => {parent_tid=[8]}, 88) = 8
8 openat(AT_FDCWD</>, "/srv/secret", O_RDONLY) = 3
`), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &fuzz.Checks{Starts: "/self", Staging: "/tmp", Programs: map[string]string{"/usr/sbin/kea-dhcp4": "65534"}}
	if err := fuzz.Read(trace, w.Look); err != nil {
		t.Fatal(err)
	}
	if w.Checked != 2 || len(w.Found) != 1 || len(w.Found[1]) != 1 || !strings.Contains(w.Found[1][0], "/srv/secret") {
		t.Errorf("%d were checked, and the findings are %v", w.Checked, w.Found)
	}
}
