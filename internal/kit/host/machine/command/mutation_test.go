package command

import (
	"bufio"
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

// mutate changes one file of a rendering in a few places, mostly with words of what was refused before.
func mutate(r *rand.Rand, s subject) subject {
	files := slices.Clone(s.Files)
	at := r.IntN(len(files))
	if r.IntN(2) == 0 {
		at = 0 // the one with the directives
	}
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
	for range n {
		s := mutate(r, originals[r.IntN(len(originals))])
		if !slices.ContainsFunc(s.Files, func(f host.File) bool { return guard.Admit(f) != nil }) {
			admitted = append(admitted, s)
		}
	}
	t.Logf("GATEWAY_SEED=%d: %d files, %d of them admitted", seed, n, len(admitted)-len(originals))
	for i, complaint := range trace(t, admitted) {
		t.Errorf("%s: %s\n%s", admitted[i].Command, strings.Join(complaint, "\n"), admitted[i].changed)
	}
}

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

var (
	call    = regexp.MustCompile(`^(\d+) +(\w+)\((.*)`)
	ended   = regexp.MustCompile(`^(\d+) +\+\+\+ `)
	resumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>`)
	path    = regexp.MustCompile(`^(?:AT_FDCWD, |\d+, )?"((?:[^"\\]|\\.)*)"`)
	result  = regexp.MustCompile(`\) += (-?\d+)`)
)

// trace has subjects checked while strace watches, and answers what each of the checkers did that it has no business with.
func trace(t *testing.T, subjects []subject) map[int][]string {
	t.Helper()
	folder := t.TempDir()
	content, err := cbor.Marshal(subjects)
	if err != nil {
		t.Fatal(err)
	}
	input, output := filepath.Join(folder, "subjects"), filepath.Join(folder, "trace")
	if err := os.WriteFile(input, content, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("strace", "--follow-forks", "--seccomp-bpf", "--string-limit=4096", "--signal=none", "--quiet=attach,personality", "--output="+output,
		"--trace=?open,openat,openat2,?creat,execve,execveat,connect,?unlink,unlinkat,?rename,?renameat,renameat2,?mkdir,mkdirat,setuid,clone,clone3,?fork,?vfork",
		self, "-test.run=^TestTracedChecks$", "-test.timeout=60m")
	cmd.Env = append(os.Environ(), traced+"="+input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := os.Open(output)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := newWatcher(self)
	for _, s := range subjects {
		spec, err := s.Command.Spec()
		if err != nil {
			t.Fatal(err)
		}
		w.programs[spec.Argv[0]] = true
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		w.line(lines.Text())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if w.subject != len(subjects)-1 || w.checked != len(subjects) {
		t.Fatalf("of %d subjects %d were checked", len(subjects), w.checked)
	}
	return w.found
}

// watcher reads a trace.
type watcher struct {
	self     string            // the program that starts the checkers
	programs map[string]bool   // the checkers
	user     map[string]string // who a process has become
	checks   map[string]string // the checker that a process is or was started by
	gone     map[string]bool   // processes that have ended while this subject is checked
	subject  int               // which is being checked
	checked  int
	found    map[int][]string
}

func newWatcher(self string) *watcher {
	return &watcher{
		self: self, programs: map[string]bool{}, user: map[string]string{}, checks: map[string]string{}, gone: map[string]bool{}, found: map[int][]string{}, subject: -1,
	}
}

// The thread of a checker may end before the call that started it does. Its number is free then, also for the next checker.
func TestOracleKnowsCheckersByTheirNumber(t *testing.T) {
	w := newWatcher("/self")
	w.programs["/usr/sbin/kea-dhcp4"] = true
	for line := range strings.Lines(`7 openat(AT_FDCWD, "/subject/0", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)
8 setuid(65534) = 0
8 execve("/usr/sbin/kea-dhcp4", ["kea-dhcp4"], []) = 0
8 clone3({flags=CLONE_VM|CLONE_THREAD} <unfinished ...>
9 +++ exited with 0 +++
8 <... clone3 resumed> => {parent_tid=[9]}, 88) = 9
8 +++ exited with 0 +++
7 openat(AT_FDCWD, "/subject/1", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)
9 setuid(65534) = 0
9 execve("/usr/sbin/kea-dhcp4", ["kea-dhcp4"], []) = 0
9 clone3({flags=CLONE_VM|CLONE_THREAD} <unfinished ...>
9 <... clone3 resumed> => {parent_tid=[8]}, 88) = 8
8 openat(AT_FDCWD, "/srv/secret", O_RDONLY) = 3
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
	file := ""
	if p := path.FindStringSubmatch(rest); p != nil {
		file = p[1]
	}
	switch program := w.checks[pid]; {
	case name == "setuid":
		w.user[pid], _, _ = strings.Cut(rest, ")")
	case strings.HasPrefix(name, "exec") && program == "":
		// What a checker starts may do so before it is known to be a checker's.
		if !w.programs[file] && file != w.self {
			w.complain(line)
		}
		if w.programs[file] {
			w.checks[pid] = file
			w.checked++
			if w.user[pid] == "" || w.user[pid] == "0" {
				w.complain("it is root")
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
	case name == "open" || name == "openat":
		if !strings.Contains(rest, "O_PATH") && !allowed(file) { // which opens a name, and not what it stands for
			w.complain(line)
		}
	default:
		w.complain(line)
	}
}

// started notes that a checker has started another process, or a thread. That may have ended before the checker hears of it.
func (w *watcher) started(pid, name, child string) {
	if program := w.checks[pid]; program != "" && !w.gone[child] && (strings.HasPrefix(name, "clone") || strings.HasSuffix(name, "fork")) {
		w.checks[child] = program
	}
}

func (w *watcher) complain(what string) { w.found[w.subject] = append(w.found[w.subject], what) }

// asks is what programs talk to wherever they run: who knows names of users and hosts, and the log. They have no way to other machines.
var asks = regexp.MustCompile(`sa_family=AF_(INET|INET6|NETLINK)\b|sun_path="(/var/run/nscd/socket|/dev/log|/run/systemd/userdb/[^/"]*)"`)

// names is where programs look for users of systemd's.
var names = []string{"/run/systemd/userdb", "/etc/userdb", "/run/userdb", "/run/host/userdb"}

// allowed tells whether a checker may open a file.
func allowed(file string) bool {
	if !filepath.IsAbs(file) { // relative to its folder, which is the staged one, or the root while it begins
		return !slices.Contains(strings.Split(file, "/"), "..") && !strings.HasPrefix(file, "etc/")
	}
	file = filepath.Clean(file)
	if strings.HasPrefix(file, filepath.Join(os.TempDir(), staging)) || strings.HasPrefix(file, "/lib") || file == os.DevNull {
		return true
	}
	return slices.ContainsFunc(slices.Concat(everybodys, names), func(p string) bool { return file == p || strings.HasPrefix(file, p+"/") })
}

// staging begins the names of folders with staged files.
const staging = "stage-"
