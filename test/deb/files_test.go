package deb

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/app"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
)

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "packaging/deb", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestDaemonsReadTheGatewaysFiles compares the paths in the drop-ins with those that the gateway writes.
func TestDaemonsReadTheGatewaysFiles(t *testing.T) {
	for file, place := range map[string]host.Place{
		"share/haproxy.env": haproxy.Config, "share/unbound.env": unbound.Main, "systemd/dropins/chrony.conf": chrony.Main,
		"systemd/dropins/squid.conf": squid.Main, "systemd/dropins/kea-dhcp4-server.conf": kea.Config,
		"systemd/dropins/crowdsec.conf": crowdsec.Config, "systemd/dropins/crowdsec-firewall-bouncer.conf": crowdsec.BouncerConfig,
	} {
		if !regexp.MustCompile(`(?m)^(ExecStart|CONFIG|DAEMON_OPTS)=(.* )?` + regexp.QuoteMeta(place.Path()) + `$`).MatchString(read(t, file)) {
			t.Errorf("%s does not name %s", file, place.Path())
		}
	}
	for unit, place := range map[host.Unit]host.Place{
		haproxy.Unit: haproxy.Config, unbound.Unit: unbound.Main, chrony.Unit: chrony.Main, squid.Unit: squid.Main, kea.Unit: kea.Config, freeradius.Unit: freeradius.Config,
		crowdsec.Unit: crowdsec.Config, crowdsec.Bouncer: crowdsec.BouncerConfig,
	} {
		if !strings.Contains(read(t, "systemd/dropins/"+string(unit)+".conf"), "\nConditionPathExists="+place.Path()+"\n") {
			t.Errorf("%s is started before %s is there", unit, place.Path())
		}
	}
	if !strings.HasSuffix(read(t, "share/freeradius.env"), " "+filepath.Dir(freeradius.Config.Path())+"\n") {
		t.Error("freeradius.env does not name the folder of radiusd.conf")
	}
	for _, spec := range host.UnitSpecs() {
		if spec.Binary == "" {
			continue
		}
		dropIn := read(t, "systemd/dropins/"+string(spec.Unit)+".conf")
		if env := regexp.MustCompile(`EnvironmentFile=/usr/share/gateway/(.*)`).FindStringSubmatch(dropIn); env != nil {
			dropIn = read(t, "share/"+env[1])
		}
		// The lab uses the same file.
		if last := spec.Argv[len(spec.Argv)-1]; !strings.Contains(dropIn, last) {
			t.Errorf("the drop-in of %s does not name %s, as the lab does", spec.Unit, last)
		}
	}
}

// TestUnitsReload compares the signals that have daemons read their files again with those of Debian's units.
func TestUnitsReload(t *testing.T) {
	for _, spec := range host.UnitSpecs() {
		if spec.Reload == 0 {
			continue
		}
		debians, err := os.ReadFile("/lib/systemd/system/" + spec.Unit.Service())
		if err != nil {
			t.Fatal(err)
		}
		unit := string(debians) + read(t, "systemd/dropins/"+string(spec.Unit)+".conf")
		want := "ExecReload=/bin/kill -" + strings.TrimPrefix(unix.SignalName(spec.Reload), "SIG") + " $MAINPID"
		if reloads := regexp.MustCompile(`(?m)^ExecReload=.*$`).FindAllString(unit, -1); !slices.Equal(reloads, []string{want}) {
			t.Errorf("%s: %q, and not %s", spec.Unit, reloads, want)
		}
	}
}

// TestFoldersAreMade checks that the package creates each folder of the gateway.
func TestFoldersAreMade(t *testing.T) {
	made := read(t, "gateway.tmpfiles") + read(t, "postinst")
	for _, unit := range []string{"api", "helper", "scheduler", "waf"} {
		made += read(t, "systemd/gateway-"+unit+".service")
	}
	for _, spec := range host.UnitSpecs() {
		for _, f := range spec.Folders {
			if !strings.Contains(f.Path, "gateway") {
				continue // it comes with the daemon's package
			}
			under := strings.NewReplacer("/var/lib/", "StateDirectory=", "/var/log/", "LogsDirectory=", "/run/", "RuntimeDirectory=").Replace(f.Path)
			if !regexp.MustCompile(`(?m)(^d | )` + regexp.QuoteMeta(f.Path) + `( |$)|^` + regexp.QuoteMeta(under) + `$`).MatchString(made) {
				t.Errorf("nothing makes %s, which %s needs", f.Path, spec.Unit)
			}
		}
	}
}

// TestSandboxes checks the programs' exposure levels by systemd. gateway-restore must reach a database on another machine.
func TestSandboxes(t *testing.T) {
	for unit, most := range map[string]string{"gateway-api": "20", "gateway-scheduler": "20", "gateway-repair": "20", "gateway-waf": "20", "gateway-probe": "20", "gateway-helper": "35", "gateway-database": "35", "gateway-firewall": "35", "gateway-restore": "40"} {
		must(t, "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+most, "packaging/deb/systemd/"+unit+".service")
	}
}

// TestDaemonsAreConfined checks the exposure levels of Debian's daemons with the package's drop-ins.
func TestDaemonsAreConfined(t *testing.T) {
	for unit, most := range map[string]string{
		"haproxy": "30", "squid": "30", "unbound": "30", "chrony": "35", "kea-dhcp4-server": "25", "freeradius": "20", "keepalived": "32", "crowdsec": "25", "crowdsec-firewall-bouncer": "25",
	} {
		debians, err := os.ReadFile("/lib/systemd/system/" + unit + ".service")
		if err != nil {
			t.Fatal(err)
		}
		whole := filepath.Join(t.TempDir(), unit+".service")
		ours := read(t, "systemd/dropins/"+unit+".conf")
		if unit != "chrony" { // which Debian confines
			ours = read(t, "systemd/confined.conf") + ours
		}
		if err := os.WriteFile(whole, append(debians, "\n"+ours...), 0o600); err != nil {
			t.Fatal(err)
		}
		must(t, "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold="+most, whole)
		// A process that can create files in /run can add udev rules and systemd units. Debian's AppArmor profiles allow two daemons no other place.
		open := regexp.MustCompile(`(?m)^ReadWritePaths=(.* )?-?/run/?( |$)|^ReadOnlyPaths=$`).MatchString(ours) || !strings.Contains(ours, "\nReadOnlyPaths=/run\n")
		if open != (unit == "unbound" || unit == "chrony") {
			t.Errorf("%s may write to other folders of /run than its own, or no longer has to", unit)
		}
	}
}

// TestKeepalivedWritesInItsFolder checks which PID files keepalived creates. It may only create files in one folder of /run, and
// does not start if one is elsewhere.
func TestKeepalivedWritesInItsFolder(t *testing.T) {
	spec, err := keepalived.Unit.Spec()
	if err != nil {
		t.Fatal(err)
	}
	usage, _ := exec.Command(spec.Binary, "--help").CombinedOutput()
	options := regexp.MustCompile(`--([a-z_]*pid)=FILE`).FindAllStringSubmatch(string(usage), -1)
	if len(options) < 4 {
		t.Fatalf("it tells of %q:\n%s", options, usage)
	}
	dropIn := read(t, "systemd/dropins/keepalived.conf")
	for _, option := range options {
		if !strings.Contains(dropIn, " --"+option[1]+"=/run/keepalived/") && !strings.Contains(dropIn, "\t--"+option[1]+"=/run/keepalived/") {
			t.Errorf("it makes the file of --%s elsewhere", option[1])
		}
	}
}

// TestHelperIsBounded: an attacker may control its callers.
func TestHelperIsBounded(t *testing.T) {
	for _, limit := range []string{"MemoryMax", "TasksMax"} {
		if !regexp.MustCompile(`(?m)^` + limit + `=[0-9]+G?$`).MatchString(read(t, "systemd/gateway-helper.service")) {
			t.Errorf("gateway-helper has no %s", limit)
		}
	}
}

// TestScripts has a shell read the maintainer scripts and what the package runs.
func TestScripts(t *testing.T) {
	for _, script := range []string{"postinst", "prerm", "postrm", "share/gateway-database"} {
		if content := read(t, script); !strings.Contains(content, "\nset -e\n") {
			t.Errorf("%s goes on after an error", script)
		}
		must(t, "dash", "-n", "packaging/deb/"+script)
	}
}

// TestManualPages compares the pages with what the programs say about themselves.
func TestManualPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "packaging/deb/man/*"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	text := map[string]string{}
	for _, page := range pages {
		cmd := exec.Command("man", "--warnings", "--encoding=UTF-8", "--no-hyphenation", "--local-file", page)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANWIDTH=200")
		var complaints strings.Builder
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil || complaints.Len() > 0 {
			t.Errorf("%s: %v: %s", page, err, complaints.String())
		}
		text[filepath.Base(page)] = string(out)
	}
	for _, program := range strings.Fields("gateway-acl gateway-api gateway-ctl gateway-database gateway-helper gateway-repair gateway-restore gateway-scheduler gateway-upgrade gateway-waf") {
		if text[program+".8"] == "" {
			t.Errorf("%s has no page", program)
		}
	}
	bin := filepath.Join(filepath.Dir(thePackage(t)), "build", version, "bin")
	for _, program := range []string{"gateway-api", "gateway-helper", "gateway-repair", "gateway-restore", "gateway-upgrade", "gateway-waf"} {
		usage, _ := exec.Command(filepath.Join(bin, program), "--help").CombinedOutput()
		flags := regexp.MustCompile(`(?m)^  -(\S+)`).FindAllStringSubmatch(string(usage), -1)
		if len(flags) == 0 {
			t.Errorf("%s tells no flags: %s", program, usage)
		}
		for _, flag := range flags {
			if !strings.Contains(text[program+".8"], "--"+flag[1]) {
				t.Errorf("the page of %s does not have --%s", program, flag[1])
			}
		}
	}
	var commands []string
	var list func(c *cobra.Command)
	list = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			commands = append(commands, strings.TrimPrefix(sub.CommandPath(), "gateway-ctl "))
			list(sub)
		}
	}
	list(app.Ctl())
	if !slices.Contains(commands, "license set") {
		t.Errorf("commands of gateway-ctl: %q", commands)
	}
	for _, command := range commands {
		if !regexp.MustCompile(`(?m)^ +` + command + `( |$)`).MatchString(text["gateway-ctl.8"]) {
			t.Errorf("the page of gateway-ctl does not have the command %s", command)
		}
	}
	for _, name := range []string{"GATEWAY_DB", "GATEWAY_WAF_DB", "GATEWAY_LISTEN", "GATEWAY_LOG_LEVEL"} {
		if !strings.Contains(text["gateway.conf.5"], name) || !strings.Contains(read(t, "share/gateway.conf"), name) {
			t.Errorf("%s is not in gateway.conf or not in its page", name)
		}
	}
}
