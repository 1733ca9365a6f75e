package fuzz

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Marker is the beginning of a name that is opened, and does not exist, to say in a trace which subject comes next.
const Marker = "/subject/"

var (
	call    = regexp.MustCompile(`^(\d+) +(\w+)\((.*)`)
	ended   = regexp.MustCompile(`^(\d+) +\+\+\+ `)
	resumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>`)
	// path is the first name that a call has, and the folder that it is relative to.
	path   = regexp.MustCompile(`^(?:(?:AT_FDCWD|\d+)<((?:[^>\\]|\\.)*)>, )?"((?:[^"\\]|\\.)*)"`)
	result = regexp.MustCompile(`\) += (-?\d+)`)
	number = regexp.MustCompile(`^\d+`)
)

// Event is a system call that begins or ends, or a program that has ended.
type Event struct {
	PID   string
	Call  string // empty if the program has ended
	Args  string // as strace writes them; empty if the call has begun before
	File  string // the first name among them
	Child string // the process or thread that it has started
}

// parse reads a line of a trace. Others than these say nothing here.
func parse(line string) (e Event, ok bool) {
	if m := ended.FindStringSubmatch(line); m != nil {
		return Event{PID: m[1]}, true
	}
	m := resumed.FindStringSubmatch(line)
	if m != nil {
		e = Event{PID: m[1], Call: m[2]}
	} else if m = call.FindStringSubmatch(line); m != nil {
		e = Event{PID: m[1], Call: m[2], Args: m[3], File: named(m[3])}
	} else {
		return e, false
	}
	if r := result.FindStringSubmatch(line); r != nil && (strings.HasPrefix(e.Call, "clone") || strings.HasSuffix(e.Call, "fork")) {
		e.Child = r[1]
	}
	return e, true
}

// Read calls look with the events of a trace.
func Read(trace string, look func(Event)) error {
	f, err := os.Open(trace)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if e, ok := parse(lines.Text()); ok {
			look(e)
		}
	}
	return lines.Err()
}

// watched are the calls that strace tells of: those that open, make, change or remove a file, run a program, or talk to others.
var watched = strings.Join([]string{
	"?open,openat,openat2,?creat,?unlink,unlinkat,?rmdir,?rename,?renameat,renameat2,?mkdir,mkdirat,?mknod,mknodat,?link,linkat,?symlink,symlinkat,truncate",
	"?chmod,fchmod,fchmodat,?fchmodat2,?chown,?lchown,fchown,fchownat,setxattr,mount,ptrace",
	"execve,execveat,connect,bind,setuid,setreuid,setresuid,clone,clone3,?fork,?vfork",
}, ",")

// Strace is the command that writes the calls of programs to a file.
func Strace(output string, of ...string) *exec.Cmd {
	return exec.Command("strace", append([]string{
		"--follow-forks", "--string-limit=4096", "--signal=none", "--quiet=personality", "--decode-fds=path", "--output=" + output, "--trace=" + watched,
	}, of...)...)
}

// Checks judges what checkers do, and those who start them.
type Checks struct {
	Starts   string            // a program besides that may be started by who is no checker
	Staging  string            // the folder that files are staged in
	Programs map[string]string // the checkers, with the user that each has to be
	Reads    []string          // what every program reads
	Subject  int               // which is being checked
	Checked  int
	Found    map[int][]string // what is wrong, by subject

	user   map[string]string // who a process has become
	checks map[string]string // the checker that a process is or was started by
	gone   map[string]bool   // processes that have ended while this subject is checked
}

// Look judges an event. Each checker has the user that it has to be, starts nothing, changes nothing, talks to no one, and opens what is staged
// and what every program reads.
func (w *Checks) Look(e Event) {
	if w.Found == nil {
		w.Subject = -1
		w.Found, w.user, w.checks, w.gone = map[int][]string{}, map[string]string{}, map[string]string{}, map[string]bool{}
	}
	// A process or thread may have ended before the checker hears that it has started it.
	if program := w.checks[e.PID]; program != "" && e.Child != "" && !w.gone[e.Child] {
		w.checks[e.Child] = program
	}
	switch program := w.checks[e.PID]; {
	case e.Call == "": // the next one may have the same id
		delete(w.checks, e.PID)
		delete(w.user, e.PID)
		w.gone[e.PID] = true
	case e.Call == "setuid" && program == "":
		w.user[e.PID] = number.FindString(e.Args)
	case strings.HasPrefix(e.Call, "exec") && program == "" && e.Args != "":
		w.executes(e)
	case strings.HasPrefix(e.File, Marker):
		w.Subject, _ = strconv.Atoi(strings.TrimPrefix(e.File, Marker))
		clear(w.gone)
	case program != "" && e.Args != "" && !w.harmless(program, e):
		w.complain(e.String())
	}
}

// executes judges a program that is started by who is no checker. What a checker starts may be told before it is known to be a checker's.
func (w *Checks) executes(e Event) {
	user, known := w.Programs[e.File]
	if !known && e.File != w.Starts {
		w.complain(e.String())
	}
	if known {
		w.checks[e.PID] = e.File
		w.Checked++
		if w.user[e.PID] != user || user == "0" {
			w.complain(fmt.Sprintf("it is user %q, and has to be %q, who is not root", w.user[e.PID], user))
		}
	}
}

// harmless tells whether a checker may do something.
func (w *Checks) harmless(program string, e Event) bool {
	switch e.Call {
	case "clone", "clone3", "fork", "vfork":
		return true
	case "connect":
		return asks.MatchString(e.Args)
	case "bind":
		return binds.MatchString(e.Args)
	case "open", "openat": // O_PATH opens a name, and not what it stands for
		return strings.Contains(e.Args, "O_PATH") || strings.HasPrefix(filepath.Clean(e.File), filepath.Join(w.Staging, "stage-")) || ReadByAll(e.File, w.Reads) ||
			own[program] != nil && own[program].MatchString(e.File)
	}
	return false
}

func (w *Checks) complain(what string) { w.Found[w.Subject] = append(w.Found[w.Subject], what) }

func (e Event) String() string { return e.PID + " " + e.Call + "(" + e.Args }

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

// own is what some try to open whatever they are given, and may not: HAProxy 3 keeps what it says at first in shared memory, and its allocator
// asks how large pages are.
var own = map[string]*regexp.Regexp{
	"/usr/sbin/haproxy": regexp.MustCompile(`^(/dev/shm/haproxy_startup_logs_[0-9]+|/sys/kernel/mm/transparent_hugepage/enabled)$`),
}

// asks is what programs talk to wherever they run: who knows names of users and hosts, and the log; and port 0, by which they learn how they
// would reach someone.
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

// ReadByAll tells whether a file is one that programs read wherever they run: among some, or where users of systemd's are. A name without a
// folder is that of none.
func ReadByAll(file string, some []string) bool {
	file = filepath.Clean(file)
	return !elsewhere.MatchString(file) && (strings.HasPrefix(file, "/lib") || file == os.DevNull || Within(file, some...) || Within(file, names...))
}

// Within tells whether a file is one of some paths, or below one of them.
func Within(file string, paths ...string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return file == p || strings.HasPrefix(file, p+"/") })
}
