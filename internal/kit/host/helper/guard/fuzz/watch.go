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

// Marker is the prefix of a nonexistent file. Opening it marks in the trace which subject is checked next.
const Marker = "/subject/"

var (
	call    = regexp.MustCompile(`^(\d+) +(\w+)\((.*)`)
	ended   = regexp.MustCompile(`^(\d+) +\+\+\+ `)
	resumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>`)
	// path matches the first file name in a call's arguments, and the folder that it is relative to.
	path   = regexp.MustCompile(`^(?:(?:AT_FDCWD|\d+)<((?:[^>\\]|\\.)*)>, )?"((?:[^"\\]|\\.)*)"`)
	result = regexp.MustCompile(`\) += (-?\d+)`)
	number = regexp.MustCompile(`^\d+`)
)

// Event is the start or the end of a system call, or the exit of a process.
type Event struct {
	PID   string
	Call  string // empty if the process has exited
	Args  string // in strace's notation; empty at the end of a call whose start was another event
	File  string // the first file name among them
	Child string // the process or thread that it has created
}

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

// watched are the traced calls: those that open, create, change or remove a file, run a program, or communicate.
var watched = strings.Join([]string{
	"?open,openat,openat2,?creat,?unlink,unlinkat,?rmdir,?rename,?renameat,renameat2,?mkdir,mkdirat,?mknod,mknodat,?link,linkat,?symlink,symlinkat,truncate",
	"?chmod,fchmod,fchmodat,?fchmodat2,?chown,?lchown,fchown,fchownat,setxattr,mount,ptrace",
	"execve,execveat,connect,bind,setuid,setreuid,setresuid,clone,clone3,?fork,?vfork",
}, ",")

// Strace returns a command that traces a program into a file.
func Strace(output string, of ...string) *exec.Cmd {
	return exec.Command("strace", append([]string{
		"--follow-forks", "--string-limit=4096", "--signal=none", "--quiet=personality", "--decode-fds=path", "--output=" + output, "--trace=" + watched,
	}, of...)...)
}

// Checks finds forbidden actions of checkers in a trace, and of the programs that start them.
type Checks struct {
	Starts   string            // a program that the starting processes may also run
	Staging  string            // folder of the staged files
	Programs map[string]string // user id that each checker must run as, by its path
	Reads    []string          // files that any program may read
	Subject  int               // the one being checked
	Checked  int
	Found    map[int][]string // forbidden actions by subject

	user   map[string]string // user id that a process has switched to
	checks map[string]string // the checker that a process belongs to
	gone   map[string]bool   // processes that have exited during this subject
}

// Look checks an event. A checker must run as its own user, start no program, change nothing, communicate with nobody, and open
// only staged files and what any program reads.
func (w *Checks) Look(e Event) {
	if w.Found == nil {
		w.Subject = -1
		w.Found, w.user, w.checks, w.gone = map[int][]string{}, map[string]string{}, map[string]string{}, map[string]bool{}
	}
	// A child may have exited before the event that its parent has created it.
	if program := w.checks[e.PID]; program != "" && e.Child != "" && !w.gone[e.Child] {
		w.checks[e.Child] = program
	}
	switch program := w.checks[e.PID]; {
	case e.Call == "": // the id may be reused
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

// executes checks a program that something other than a checker starts. If a checker starts a program, the event may come before
// the process is known to belong to the checker.
func (w *Checks) executes(e Event) {
	user, known := w.Programs[e.File]
	if !known && e.File != w.Starts {
		w.complain(e.String())
	}
	if known {
		w.checks[e.PID] = e.File
		w.Checked++
		if w.user[e.PID] != user || user == "0" {
			w.complain(fmt.Sprintf("runs as user %q instead of %q, which must not be root", w.user[e.PID], user))
		}
	}
}

// harmless reports whether a checker may make a call.
func (w *Checks) harmless(program string, e Event) bool {
	switch e.Call {
	case "clone", "clone3", "fork", "vfork":
		return true
	case "connect":
		return asks.MatchString(e.Args)
	case "bind":
		return binds.MatchString(e.Args)
	case "open", "openat": // O_PATH does not open the file's content
		return strings.Contains(e.Args, "O_PATH") || strings.HasPrefix(filepath.Clean(e.File), filepath.Join(w.Staging, "stage-")) || ReadByAll(e.File, w.Reads) ||
			own[program] != nil && own[program].MatchString(e.File)
	}
	return false
}

func (w *Checks) complain(what string) { w.Found[w.Subject] = append(w.Found[w.Subject], what) }

func (e Event) String() string { return e.PID + " " + e.Call + "(" + e.Args }

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

// own has files that a checker tries to open with any input, although it may not: HAProxy 3 keeps its startup log in shared memory,
// and its allocator looks up the page size.
var own = map[string]*regexp.Regexp{
	"/usr/sbin/haproxy": regexp.MustCompile(`^(/dev/shm/haproxy_startup_logs_[0-9]+|/sys/kernel/mm/transparent_hugepage/enabled)$`),
}

// asks matches the sockets that programs use in any case: for user and host names, for the log, and port 0, with which they look up
// a route.
var asks = regexp.MustCompile(`sa_family=AF_NETLINK\b|sun_path="(/var/run/nscd/socket|/dev/log|/run/systemd/userdb/[^/"]*)"|sin6?_port=htons\(0\)` + nameservers())

// nameservers matches this machine's DNS servers.
func nameservers() (forms string) {
	content, _ := os.ReadFile("/etc/resolv.conf")
	for line := range strings.Lines(string(content)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "nameserver" {
			forms += `|_port=htons\(53\),.*"` + regexp.QuoteMeta(words[1]) + `"`
		}
	}
	return forms
}

// binds matches the sockets that checkers bind only to find out something: squid tests whether the machine has IPv6.
var binds = regexp.MustCompile(`sa_family=AF_NETLINK\b|sin6_port=htons\(0\),.*"::1"`)

// elsewhere matches links in /proc to files outside of it.
var elsewhere = regexp.MustCompile(`^/proc/[^/]+/(?:task/[^/]+/)?(?:cwd|root|exe|fd|map_files)/`)

// names are folders in which programs look for systemd's users.
var names = []string{"/run/systemd/userdb", "/etc/userdb", "/run/userdb", "/run/host/userdb"}

// ReadByAll reports whether any program may read a file: one of some, or one about systemd's users. A relative name is never one.
func ReadByAll(file string, some []string) bool {
	file = filepath.Clean(file)
	return !elsewhere.MatchString(file) && (strings.HasPrefix(file, "/lib") || file == os.DevNull || Within(file, some...) || Within(file, names...))
}

func Within(file string, paths ...string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return file == p || strings.HasPrefix(file, p+"/") })
}
