// Package readme runs what the README tells a newcomer to type, and holds its promises.
package readme

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m) }

// promises says, for every command of the README in order, how it begins and what its output must match. The commands that start the
// lab itself are run by the test in another way.
var promises = []struct{ begins, want string }{
	{"make run", ""},
	{"make test", ""},
	{"bin/gateway-lab status", `gateway-api +active`},
	{"bin/gateway-lab exec gateway -- chronyc", `^$|[.^=#]`},
	{"bin/gateway-lab exec lan -- ip route", `default via 10\.10\.0\.1`},
	{"bin/gateway-lab logs gateway-api", `level=INFO`},
	{"API=", `^$`},
	{"curl -sk $API/setup/complete", `"error":null`},
	{"curl -sk -c $JAR $API/auth/login", `"email":"admin@example.net"`},
	{`curl -sk -b $JAR $API/change-sets -i --json '{"operations": [` + "\n" + `  {"kind": "network`, `(?i)gateway-apply: .*network=live, packet-filter=live`},
	{"curl -sk -b $JAR -i $API/ntp/pools", `(?i)gateway-apply: ntp=live`},
	{"curl -sk -b $JAR -X PUT $API/dns/settings", `"listen_addresses":\["10.10.0.1"\]`},
	{"ZONE=", `^$`},
	{"curl -sk -b $JAR $API/dns/records", `"name":"printer"`},
	{"bin/gateway-lab exec lan -- dig", `^10\.10\.0\.9\n$`},
	{"mkdir -p /tmp/shop", `^$`},
	{"bin/gateway-lab exec lan -- python3", `^$`},
	{`curl -sk -b $JAR $API/change-sets -i --json '{"operations": [` + "\n" + `  {"kind": "proxy`, `(?i)gateway-apply: .*reverse-proxy=live`},
	{"bin/gateway-lab exec wan -- curl", `^Hello from the shop\n$`},
	{"curl -sk -b $JAR -i $API/firewall/rules", `(?i)gateway-apply: packet-filter=live`},
	{"curl -sk -b $JAR -i $API/nat-rules", `(?i)gateway-apply: packet-filter=live`},
	{"bin/gateway-lab exec lan -- ping", ` 0% packet loss`},
	{"curl -sk -b $JAR $API/firewall/explain", `"verdict":"accept".*LAN out`},
	{"TUNNEL=", `^$`},
	{"PEER=", `^$`},
	{"curl -sk -b $JAR $API/peers/$PEER/config", `(?s)\[Interface\].*\nPrivateKey = .*\[Peer\].*\nAllowedIPs = .*10\.10\.0\.0/24`},
}

// TestReadme types every command of the README, in order, into one shell beside a fresh lab.
func TestReadme(t *testing.T) {
	programs := labtest.Programs(t)
	text, err := os.ReadFile(filepath.Join(programs, "../README.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := commandsOf(string(text))
	if len(commands) != len(promises) {
		t.Errorf("%d commands and %d promises: every command of the README needs one", len(commands), len(promises))
	}
	l := labtest.Up(t, lab.Options{Volatile: true})
	sh := startShell(t, programs)
	// The lab of the test has a folder and an address of its own, and each of its programs is the one that was built.
	here := strings.NewReplacer("bin/gateway-lab ", "bin/gateway-lab --dir "+l.Dir()+" ", "127.0.0.1:3443", l.UI, "/tmp/shop", filepath.Join(sh.dir, "shop"))
	for i, command := range commands {
		if i >= len(promises) || !strings.HasPrefix(command, promises[i].begins) {
			t.Fatalf("the promise of %q is missing, or it is not the next one", command)
		}
		if target, ok := strings.CutPrefix(command, "make "); ok {
			target, _, _ = strings.Cut(target, " ")
			if out, err := exec.Command("make", "-C", filepath.Dir(programs), "-n", target).CombinedOutput(); err != nil {
				t.Errorf("make %s: %v: %s", target, err, out)
			}
			continue
		}
		output := sh.run(t, here.Replace(command))
		if !regexp.MustCompile(promises[i].want).MatchString(output) {
			t.Errorf("%s\nprints:\n%s\ninstead of %s", command, output, promises[i].want)
		}
	}
}

// commandsOf are the commands in the fenced blocks of a text. A command goes on while a quote is open, and what follows a # at
// its end is a comment.
func commandsOf(text string) []string {
	var commands []string
	var open string
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			continue
		}
		open += line
		if strings.Count(open, "'")%2 == 0 {
			commands = append(commands, strings.TrimSpace(open))
			open = ""
		}
	}
	return commands
}

// shell is a bash as a newcomer has it, in an empty folder with the built programs in bin.
type shell struct {
	dir string
	in  io.Writer
	out *bufio.Reader
}

func startShell(t *testing.T, programs string) *shell {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(programs, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "--norc")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		fmt.Fprintln(in, "kill $(jobs -p) 2>/dev/null")
		in.Close()
		_ = cmd.Wait()
	})
	return &shell{dir: dir, in: in, out: bufio.NewReader(out)}
}

// run types a command and returns what it prints. One that fails fails the test.
func (s *shell) run(t *testing.T, command string) string {
	t.Helper()
	const end = "-- end of the command: "
	fmt.Fprintf(s.in, "{ %s\n} </dev/null; ended=$?; echo; echo '%s'$ended\n", command, end)
	var output strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%s\nended the shell: %s%s", command, output.String(), line)
		}
		if status, ok := strings.CutPrefix(line, end); ok {
			if status != "0\n" {
				t.Errorf("%s\nfails with %s", command, status)
			}
			return strings.TrimSuffix(output.String(), "\n")
		}
		output.WriteString(line)
	}
}
