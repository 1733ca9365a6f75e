package command

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/helper/guard"
	"edge.internal/gateway/internal/kit/host/helper/guard/hostile"
	"edge.internal/gateway/internal/kit/longtest"
)

// subject is what a checker is given: a real rendering.
type subject struct {
	Command host.Command
	Files   []host.File
	changed string // the lines of one file that its rendering does not have
}

// checkedPlaces are those of files that checkers read, by the checker.
var checkedPlaces = map[host.Command][]host.Place{
	host.ChronyCheck:     {host.ChronyDropIn},
	host.UnboundCheck:    {host.UnboundDropIn},
	host.SquidCheck:      {host.SquidDropIn},
	host.KeaCheck:        {host.KeaConfig},
	host.VRRPCheck:       {host.VRRPConfig},
	host.FreeRADIUSCheck: {host.RadiusConfig, host.RadiusClients, host.RadiusUsers},
	host.HAProxyCheck: {host.ProxyConfig, host.ProxyInspection, host.ProxyCertificateList, host.ProxyManagementList, host.ProxyBlockedPage, host.ProxyMaintenancePage,
		host.ProxyHosts, host.ProxyWildcards, host.ProxyRoutes, host.ProxyHeaders, host.ProxySwitches},
	host.NftCheck: {host.PacketFilterTable},
}

// rooms is where the rooms are.
const rooms = "../../../../"

// subjects are the golden files of the rooms, and the packet filter of a machine that is not set up.
func subjects(t *testing.T) []subject {
	t.Helper()
	read := func(path string) []byte {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(rooms, path))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	all := []subject{{Command: host.NftCheck, Files: []host.File{{Place: host.PacketFilterTable, Content: read("app/root/first.nft")}}}}
	golden, err := filepath.Glob(rooms + "*/testdata/render/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range golden {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		contents := map[string][]byte{
			host.ProxyBlockedPage.Path(): read("proxy/blocked.html"), host.ProxyMaintenancePage.Path(): []byte("<p>Soon.</p>\n"),
		}
		for _, f := range archive.Files {
			contents[f.Name] = f.Data
		}
		for c, places := range checkedPlaces {
			s := subject{Command: c}
			for _, p := range places {
				if content, ok := contents[p.Path()]; ok {
					s.Files = append(s.Files, host.File{Place: p, Content: content})
				}
			}
			if len(s.Files) == len(places) {
				all = append(all, s)
			}
		}
	}
	seen := map[host.Command]bool{}
	for _, s := range all {
		seen[s.Command] = true
	}
	if len(seen) != len(checkedPlaces) {
		t.Fatalf("only these have renderings: %v", slices.Sorted(maps.Keys(seen)))
	}
	return all
}

// marks are what grammars read as more than a letter.
var marks = []string{"\n", " ", "\t", "\\", "\"", "'", "#", ";", "{", "}", "$", "%", "`", "(", ")", "[", "]", "<", "@", ":", "=", "/", "..", "/etc/shadow", "\\\n", "\r", "\x00", "\x0b", "é"}

// mutate changes one file of a rendering.
func mutate(r *rand.Rand, s subject) subject {
	at := r.IntN(len(s.Files))
	if r.IntN(2) == 0 {
		at = 0 // the one with the directives
	}
	return mutateFile(r, s, at)
}

// mutateFile changes a file of a rendering in a few places, mostly with words of what was refused before.
func mutateFile(r *rand.Rand, s subject, at int) subject {
	files := slices.Clone(s.Files)
	var words []string
	for _, f := range hostile.Files() {
		if f.Place == files[at].Place {
			words = append(words, string(f.Content))
			words = append(words, strings.Fields(string(f.Content))...)
		}
	}
	text := string(files[at].Content)
	words = append(append(words, marks...), strings.Fields(text)...)
	for range 1 + r.IntN(3) {
		lines := strings.SplitAfter(text, "\n")
		i := r.IntN(len(lines))
		word := words[r.IntN(len(words))]
		switch r.IntN(7) {
		case 0: // a line goes
			lines = slices.Delete(lines, i, i+1)
		case 1: // a line comes
			lines = slices.Insert(lines, i, word+"\n")
		case 2: // a line moves
			lines[i], lines[r.IntN(len(lines))] = lines[r.IntN(len(lines))], lines[i]
		case 3: // two lines are one
			lines[i] = strings.TrimSuffix(lines[i], "\n") + " "
		case 4: // one word is another
			if parts := strings.Split(lines[i], " "); len(parts) > 0 {
				parts[r.IntN(len(parts))] = word
				lines[i] = strings.Join(parts, " ")
			}
		default: // something stands somewhere
			j := r.IntN(len(lines[i]) + 1)
			lines[i] = lines[i][:j] + word + lines[i][j:]
		}
		text = strings.Join(lines, "")
	}
	was := strings.Split(string(files[at].Content), "\n")
	changed := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return slices.Contains(was, line) })
	files[at].Content = []byte(text)
	return subject{s.Command, files, string(files[at].Place) + ":\n" + strings.Join(changed, "\n")}
}

// traced tells the child of TestWhatTheGuardAdmitsDoesNothing the file with what it has to check.
const traced = "COMMAND_TEST_TRACED"

// marker is how the child says in its trace which subject comes next.
const marker = "/subject/"

// TestTracedChecks is that child.
func TestTracedChecks(t *testing.T) {
	path := os.Getenv(traced)
	if path == "" {
		return // it runs as a child alone
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var admitted []subject
	if err := cbor.Unmarshal(content, &admitted); err != nil {
		t.Fatal(err)
	}
	s := at("")
	for i, a := range admitted {
		_, _ = os.Open(marker + strconv.Itoa(i))
		_, _ = s.Run(t.Context(), a.Command, host.Input{Staged: a.Files, Timeout: time.Minute})
	}
}

// Whatever a file is made of: if the guard takes it, its checker opens nothing but the staged files and what every program reads, runs
// nothing, talks to nobody, and is not root. GATEWAY_MUTATIONS says how many files are tried, and GATEWAY_SEED repeats them.
func TestWhatTheGuardAdmitsDoesNothing(t *testing.T) {
	n := 300
	if longtest.On {
		n = 10_000
	}
	if more, err := strconv.Atoi(os.Getenv("GATEWAY_MUTATIONS")); err == nil {
		n = more
	}
	seed, err := strconv.ParseUint(os.Getenv("GATEWAY_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	r := rand.New(rand.NewPCG(seed, 0))
	originals := subjects(t)
	admitted := slices.Clone(originals) // as they are, they show that the oracle knows what is good
	take := func(original subject) bool {
		s := mutate(r, original)
		if !s.admitted() {
			return false
		}
		admitted = append(admitted, s)
		return true
	}
	// A guard that takes nothing but what it knows by heart would show nothing: of each rendering, one that differs is taken.
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
		t.Errorf("%s: %s\n%s", admitted[i].Command, strings.Join(complaint, "\n"), admitted[i].changed)
	}
	user, _ := checker(host.Checking)
	t.Logf("GATEWAY_SEED=%d: %d mutations, %d admitted, %d refused, %d checks, %d findings, staged in %s, as the users %d and %d", seed, n, taken, n-taken, len(admitted), len(found), stagedIn(t), user, nobody)
}

// admitted tells whether the guard takes all of the files.
func (s subject) admitted() bool {
	return !slices.ContainsFunc(s.Files, func(f host.File) bool { return guard.Admit(f) != nil })
}

// enough changes of a file have one among them that means nothing to its daemon.
const enough = 5000

// The oracle finds what the guard is there for: without it, these open what is not theirs, or try to.
func TestOracleFindsWhatCheckersOpen(t *testing.T) {
	bad := []subject{
		{Command: host.NftCheck, Files: []host.File{{Place: host.PacketFilterTable, Content: []byte("include \"/etc/shadow\"\n")}}},
		{Command: host.UnboundCheck, Files: []host.File{{Place: host.UnboundDropIn, Content: []byte("include: \"/etc/shadow\"\n")}}},
		{Command: host.ChronyCheck, Files: []host.File{{Place: host.ChronyDropIn, Content: []byte("include /etc/shadow\n")}}},
		{Command: host.HAProxyCheck, Files: []host.File{{Place: host.ProxyConfig, Content: []byte("frontend x\n acl a src -f /etc/shadow\n")}}},
		{Command: host.SquidCheck, Files: []host.File{{Place: host.SquidDropIn, Content: []byte("acl a src \"/etc/shadow\"\n")}}},
	}
	if found := trace(t, bad); len(found) != len(bad) {
		t.Errorf("found in %d of %d: %v", len(found), len(bad), found)
	}
}

// misbehaving tells the child of TestOracleFindsWhatProgramsDo a folder, and the program that the child starts as well.
const misbehaving = "COMMAND_TEST_MISBEHAVING"

// misdeeds are what no checker does, by what strace says of it. They are done in a folder with a file "it".
var misdeeds = map[string]func() error{
	`"it", O_RDONLY`:         func() error { return open("it") },
	`"../it", O_RDONLY`:      func() error { return open("../it") },
	`"/proc/self/cwd/it"`:    func() error { return open("/proc/self/cwd/it") },
	`"/etc/shadow"`:          func() error { return open("/etc/shadow") },
	`"it", 0600`:             func() error { return os.Chmod("it", 0o600) },
	`fchmod(`:                func() error { return through("it", func(f *os.File) error { return f.Chmod(0o600) }) },
	`"it", 0, 0, 0)`:         func() error { return os.Chown("it", 0, 0) },
	`"it", 0, 0, AT_SYMLINK`: func() error { return os.Lchown("it", 0, 0) },
	`fchown(`:                func() error { return through("it", func(f *os.File) error { return f.Chown(0, 0) }) },
	`truncate("it"`:          func() error { return os.Truncate("it", 0) },
	`"linked"`:               func() error { return os.Link("it", "linked") },
	`"symbolic"`:             func() error { return os.Symlink("it", "symbolic") },
	`"folder"`:               func() error { return os.Mkdir("folder", 0o700) },
	`"pipe"`:                 func() error { return unix.Mkfifo("pipe", 0o600) },
	`"renamed"`:              func() error { return os.Rename("folder", "renamed") },
	`unlinkat(`:              func() error { return os.Remove("symbolic") },
	`sun_path="bound"`:       func() error { return talking(unix.Bind, &unix.SockaddrUnix{Name: "bound"}) },
	`sun_path="met"`:         func() error { return talking(unix.Connect, &unix.SockaddrUnix{Name: "met"}) },
	`sin_port=htons(0), `:    func() error { return talking(unix.Bind, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}) },
	`sin_port=htons(53), `:   func() error { return talking(unix.Connect, &unix.SockaddrInet4{Port: 53, Addr: [4]byte{192, 0, 2, 1}}) },
	`sin_port=htons(80), `:   func() error { return talking(unix.Connect, &unix.SockaddrInet4{Port: 80, Addr: [4]byte{192, 0, 2, 1}}) },
	`sin6_port=htons(81), `:  func() error { return talking(unix.Connect, &unix.SockaddrInet6{Port: 81, Addr: [16]byte{15: 1}}) },
	`execve("/usr/bin/true"`: func() error { return exec.Command("/usr/bin/true").Run() },
}

func open(name string) error { return through(name, func(*os.File) error { return nil }) }

func through(name string, do func(*os.File) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return do(f)
}

// talking does something with a socket of an address's kind. Whether it succeeds is the same to the oracle.
func talking(do func(int, unix.Sockaddr) error, to unix.Sockaddr) error {
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

// TestMisbehaves is that child, and in a folder of its own the program.
func TestMisbehaves(t *testing.T) {
	folder := os.Getenv(misbehaving)
	switch at, err := os.Getwd(); {
	case err != nil:
		t.Fatal(err)
	case folder == "":
		return // it runs as a child alone
	case at != folder:
		_, _ = os.Open(marker + "0")
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestMisbehaves$")
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	for _, said := range slices.Sorted(maps.Keys(misdeeds)) {
		if err := misdeeds[said](); err != nil {
			t.Errorf("%s: %v", said, err)
		}
	}
}

// The oracle finds whatever a program could do to files and to others.
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
	found := strings.Join(watch(t, "TestMisbehaves", misbehaving+"="+folder, map[string]string{"/proc/self/exe": "0"}).found[0], "\n")
	for said := range misdeeds {
		if !strings.Contains(found, said) {
			t.Errorf("%s is not found", said)
		}
	}
	if t.Failed() {
		t.Log(found)
	}
}

var (
	call    = regexp.MustCompile(`^(\d+) +(\w+)\((.*)`)
	ended   = regexp.MustCompile(`^(\d+) +\+\+\+ `)
	resumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>`)
	// path is the first name that a call has, and the folder that it is relative to.
	path   = regexp.MustCompile(`^(?:(?:AT_FDCWD|\d+)<((?:[^>\\]|\\.)*)>, )?"((?:[^"\\]|\\.)*)"`)
	result = regexp.MustCompile(`\) += (-?\d+)`)
	number = regexp.MustCompile(`^\d+`)
)

// watched are the calls that strace tells of: those that open, make, change or remove a file, run a program, or talk to somebody.
var watched = strings.Join([]string{
	"?open,openat,openat2,?creat,?unlink,unlinkat,?rmdir,?rename,?renameat,renameat2,?mkdir,mkdirat,?mknod,mknodat,?link,linkat,?symlink,symlinkat,truncate",
	"?chmod,fchmod,fchmodat,?fchmodat2,?chown,?lchown,fchown,fchownat,setxattr,mount,ptrace",
	"execve,execveat,connect,bind,setuid,setreuid,setresuid,clone,clone3,?fork,?vfork",
}, ",")

// trace has subjects checked while strace watches, and answers what each of the checkers did that it has no business with.
func trace(t *testing.T, subjects []subject) map[int][]string {
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
	if w.subject != len(subjects)-1 || w.checked != len(subjects) {
		t.Fatalf("of %d subjects %d were checked", len(subjects), w.checked)
	}
	return w.found
}

// watch runs a test in a child with something in its environment, and watches the programs among those that it starts. Each has the user that
// it has to be.
func watch(t *testing.T, test, variable string, programs map[string]string) *watcher {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(t.TempDir(), "trace")
	cmd := strace(output, "--seccomp-bpf", self, "-test.run=^"+test+"$", "-test.timeout=60m")
	cmd.Env = append(os.Environ(), variable)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w := newWatcher(self, stagedIn(t))
	w.programs = programs
	readTrace(t, output, w.line)
	return w
}

// strace is the command that writes the calls of programs to a file.
func strace(output string, of ...string) *exec.Cmd {
	return exec.Command("strace", append([]string{
		"--follow-forks", "--string-limit=4096", "--signal=none", "--quiet=personality", "--decode-fds=path", "--output=" + output, "--trace=" + watched,
	}, of...)...)
}

// readTrace reads what strace has written.
func readTrace(t *testing.T, output string, line func(string)) {
	t.Helper()
	f, err := os.Open(output)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line(lines.Text())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// stagedIn is the folder that files are staged in on this machine: that of a gateway, or one for temporary files.
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

// watcher reads a trace.
type watcher struct {
	self     string            // the program that starts the checkers
	staging  string            // the folder that files are staged in
	programs map[string]string // the checkers, with the user that each has to be
	user     map[string]string // who a process has become
	checks   map[string]string // the checker that a process is or was started by
	gone     map[string]bool   // processes that have ended while this subject is checked
	subject  int               // which is being checked
	checked  int
	found    map[int][]string
}

func newWatcher(self, staging string) *watcher {
	return &watcher{
		self: self, staging: staging, user: map[string]string{}, checks: map[string]string{}, gone: map[string]bool{}, found: map[int][]string{}, subject: -1,
	}
}

// The thread of a checker may end before the call that started it does. Its number is free then, also for the next checker.
func TestOracleKnowsCheckersByTheirNumber(t *testing.T) {
	w := newWatcher("/self", "/tmp")
	w.programs = map[string]string{"/usr/sbin/kea-dhcp4": "65534"}
	for line := range strings.Lines(`7 openat(AT_FDCWD</>, "/subject/0", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)
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
`) {
		w.line(line)
	}
	if w.checked != 2 || len(w.found) != 1 || len(w.found[1]) != 1 || !strings.Contains(w.found[1][0], "/srv/secret") {
		t.Errorf("%d were checked, and found is %v", w.checked, w.found)
	}
}

func (w *watcher) line(line string) {
	if m := ended.FindStringSubmatch(line); m != nil { // the next one may have the same id
		delete(w.checks, m[1])
		delete(w.user, m[1])
		w.gone[m[1]] = true
		return
	}
	if m := resumed.FindStringSubmatch(line); m != nil {
		if r := result.FindStringSubmatch(line); r != nil {
			w.started(m[1], m[2], r[1])
		}
		return
	}
	m := call.FindStringSubmatch(line)
	if m == nil {
		return
	}
	pid, name, rest := m[1], m[2], m[3]
	file := named(rest)
	switch program := w.checks[pid]; {
	case name == "setuid" && program == "":
		w.user[pid] = number.FindString(rest)
	case strings.HasPrefix(name, "exec") && program == "":
		user, known := w.programs[file]
		// What a checker starts may do so before it is known to be a checker's.
		if !known && file != w.self {
			w.complain(line)
		}
		if known {
			w.checks[pid] = file
			w.checked++
			if w.user[pid] != user || user == "0" {
				w.complain(fmt.Sprintf("it is user %q, and has to be %q, who is not root", w.user[pid], user))
			}
		}
	case strings.HasPrefix(file, marker):
		w.subject, _ = strconv.Atoi(strings.TrimPrefix(file, marker))
		clear(w.gone)
	case program == "":
	case name == "clone" || name == "clone3" || name == "fork" || name == "vfork":
		if r := result.FindStringSubmatch(line); r != nil {
			w.started(pid, name, r[1])
		}
	case name == "connect":
		if !asks.MatchString(rest) {
			w.complain(line)
		}
	case name == "bind":
		if !binds.MatchString(rest) {
			w.complain(line)
		}
	case name == "open" || name == "openat":
		if !strings.Contains(rest, "O_PATH") && !w.allowed(file) { // which opens a name, and not what it stands for
			w.complain(line)
		}
	default:
		w.complain(line)
	}
}

// named is the first name that the arguments of a call have.
func named(arguments string) string {
	p := path.FindStringSubmatch(arguments)
	if p == nil {
		return ""
	}
	if !filepath.IsAbs(p[2]) && p[1] != "" {
		return filepath.Join(p[1], p[2])
	}
	return p[2]
}

// started notes that a checker has started another process, or a thread. That may have ended before the checker hears of it.
func (w *watcher) started(pid, name, child string) {
	if program := w.checks[pid]; program != "" && !w.gone[child] && (strings.HasPrefix(name, "clone") || strings.HasSuffix(name, "fork")) {
		w.checks[child] = program
	}
}

func (w *watcher) complain(what string) { w.found[w.subject] = append(w.found[w.subject], what) }

// asks is what programs talk to wherever they run: who knows names of users and hosts, and the log; and port 0, by which they learn how they
// would reach somebody.
var asks = regexp.MustCompile(`sa_family=AF_NETLINK\b|sun_path="(/var/run/nscd/socket|/dev/log|/run/systemd/userdb/[^/"]*)"|sin6?_port=htons\(0\)` + nameservers())

// nameservers are those that this machine asks.
func nameservers() (forms string) {
	content, _ := os.ReadFile("/etc/resolv.conf")
	for line := range strings.Lines(string(content)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "nameserver" {
			forms += `|_port=htons\(53\),.*"` + regexp.QuoteMeta(words[1]) + `"`
		}
	}
	return forms
}

// binds is where programs listen that only look: squid finds out whether the machine has IPv6.
var binds = regexp.MustCompile(`sa_family=AF_NETLINK\b|sin6_port=htons\(0\),.*"::1"`)

// elsewhere are links of the kernel's to files that are not below /proc.
var elsewhere = regexp.MustCompile(`^/proc/[^/]+/(?:task/[^/]+/)?(?:cwd|root|exe|fd|map_files)/`)

// names is where programs look for users of systemd's.
var names = []string{"/run/systemd/userdb", "/etc/userdb", "/run/userdb", "/run/host/userdb"}

// allowed tells whether a checker may open a file.
func (w *watcher) allowed(file string) bool {
	return strings.HasPrefix(filepath.Clean(file), filepath.Join(w.staging, "stage-")) || readByAll(file)
}

// readByAll tells whether a file is one that programs read wherever they run. A name without a folder is that of none.
func readByAll(file string) bool {
	file = filepath.Clean(file)
	return !elsewhere.MatchString(file) && (strings.HasPrefix(file, "/lib") || file == os.DevNull || within(file, slices.Concat(everybodys, names)...))
}

// within tells whether a file is one of some paths, or below one of them.
func within(file string, paths ...string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return file == p || strings.HasPrefix(file, p+"/") })
}
