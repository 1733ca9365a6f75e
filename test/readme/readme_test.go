// Package readme runs the commands of the README, and checks their output.
package readme

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// promises has, for every command of the README in order, how it begins and what its output must match. The test runs the
// commands that start the lab in another way.
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
	{"curl -sk -b $JAR $API/network/setup", `(?i)gateway-apply: dhcp=live, dns=live, network=live, ntp=live, packet-filter=live`},
	{"bin/gateway-lab exec lan -- ping", ` 0% packet loss`},
	{"curl -sk -b $JAR -i $API/ntp/pools", `(?i)gateway-apply: ntp=live`},
	{"ZONE=", `^$`},
	{"curl -sk -b $JAR $API/dns/records", `"name":"printer"`},
	{"bin/gateway-lab exec lan -- dig", `^10\.10\.0\.9\n$`},
	{"mkdir -p /tmp/shop", `^$`},
	{"bin/gateway-lab exec lan -- python3", `^$`},
	{`curl -sk -b $JAR $API/change-sets -i --json '{"operations": [` + "\n" + `  {"kind": "proxy`, `(?i)gateway-apply: .*reverse-proxy=live`},
	{"bin/gateway-lab exec wan -- curl", `^Hello from the shop\n$`},
	{"curl -sk -b $JAR $API/firewall/explain", `"verdict":"accept".*lan to wan`},
	{"TUNNEL=", `^$`},
	{"PEER=", `^$`},
	{"curl -sk -b $JAR $API/peers/$PEER/config", `(?s)\[Interface\].*\nPrivateKey = .*\[Peer\].*\nAllowedIPs = .*10\.10\.0\.0/24`},
	{"make package repository", ""},
	{"apt update && apt install -y ca-certificates curl", ``}, // this machine has them
	{"curl -fsSo /etc/apt/keyrings/gateway.asc", `^$`},
	{"curl -fsSo /etc/apt/sources.list.d/gateway.sources", `^$`},
	{"apt update && apt install gateway", `(?m)^Inst gateway \(1\.0\.0 Gateway:stable \[`},
}

// TestReadme runs every command of the README, in order, in one shell with a fresh lab.
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
	server := repository(t, programs)
	sh.run(t, aptHere)
	// The test uses its own folder and address for the lab, the programs that were built, and its own
	// repository.
	here := strings.NewReplacer("/etc/apt", filepath.Join(sh.dir, "apt"), "https://packages.example.net/gateway", server, "bin/gateway-lab ", "bin/gateway-lab --dir "+l.Dir()+" ", "127.0.0.1:3443", l.UI, "/tmp/shop", filepath.Join(sh.dir, "shop"))
	for i, command := range commands {
		if i >= len(promises) || !strings.HasPrefix(command, promises[i].begins) {
			t.Fatalf("the promise of %q is missing, or it is not the next one", command)
		}
		if target, ok := strings.CutPrefix(command, "make "); ok {
			target, _, _ = strings.Cut(target, "#")
			words := append([]string{"-C", filepath.Dir(programs), "-n"}, strings.Fields(target)...)
			if out, err := exec.Command("make", words...).CombinedOutput(); err != nil {
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

// aptHere is apt with separate folders, which only simulates the installation: test/appliance installs the package.
const aptHere = `mkdir -p apt/keyrings apt/sources.list.d apt/state/lists/partial apt/cache/archives/partial; touch apt/status apt/sources.list.d/gateway.sources
apt() {
	if [ "$*" = "install -y ca-certificates curl" ]; then return; fi
	sed -i "s#/etc/apt#$PWD/apt#" apt/sources.list.d/gateway.sources
	apt-get -o Dir::State=$PWD/apt/state -o Dir::State::Status=$PWD/apt/status -o Dir::Cache=$PWD/apt/cache -o Dir::Etc::SourceList=/dev/null \
		-o Dir::Etc::SourceParts=$PWD/apt/sources.list.d -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any -o APT::Get::Simulate=true "$@"
}`

// repository serves a signed repository, created as in the README, of a package that is empty but for its name.
func repository(t *testing.T, programs string) (url string) {
	t.Helper()
	// gpg keeps its sockets below it, whose paths must be short.
	dist, err := os.MkdirTemp("", "readme-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dist) })
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(dist, "apt"))))
	t.Cleanup(server.Close)
	control := "Package: gateway\nVersion: 1.0.0\nArchitecture: all\nMaintainer: Test <test@example.net>\nDescription: a name\n"
	if err := os.MkdirAll(filepath.Join(dist, "empty/DEBIAN"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dist, "empty/DEBIAN/control"), []byte(control), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{"dpkg-deb", "--build", filepath.Join(dist, "empty"), filepath.Join(dist, "gateway_1.0.0_all.deb")},
		{"make", "-C", filepath.Dir(programs), "repository", "DIST=" + dist, "REPOSITORY_URL=" + server.URL},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", argv, err, out)
		}
	}
	return server.URL
}

// commandsOf returns the commands in the fenced blocks of a text. A command continues while a quote is open, and ends
// with an optional comment after a #.
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

// run runs a command and returns its output. If the command fails, so does the test.
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
