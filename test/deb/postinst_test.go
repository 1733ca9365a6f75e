package deb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	approot "edge.internal/gateway/internal/app/root"
)

// onStandIns runs postinst with the programs of a folder only.
const onStandIns = `
mount -t tmpfs none /run
mkdir -p /run/systemd/system
[ ! -d /etc/apparmor.d ] || mount -t tmpfs none /etc/apparmor.d
PATH=$1
shift
exec sh packaging/deb/postinst "$@"
`

// starts runs postinst with stand-ins for everything that systemd or the machine would notice, and returns the commands that start the gateway's
// units. gateway-waf is turned off.
func starts(t *testing.T, policy int, args ...string) (commands []string) {
	t.Helper()
	bin := t.TempDir()
	called := filepath.Join(bin, "called")
	write := func(program, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("policy-rc.d", fmt.Sprintf("exit %d\n", policy))
	for _, program := range strings.Fields("deb-systemd-helper deb-systemd-invoke find getent hostname install squid systemctl systemd-sysusers systemd-tmpfiles") {
		write(program, fmt.Sprintf("echo '%s' \"$*\" >>%s\ncase $* in *is-enabled*-waf.* | *is-active*) exit 1 ;; esac\n", program, called))
	}
	for _, program := range []string{"cat", "cut", "grep", "readlink", "sed", "sh"} {
		path, err := exec.LookPath(program)
		if err == nil {
			err = os.Symlink(path, filepath.Join(bin, program))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	must(t, append([]string{"unshare", "--mount", "bash", "-euc", onStandIns, "-", bin}, args...)...)
	calls, err := os.ReadFile(called)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^.* (start|restart) .*gateway.*$`).FindAllString(string(calls), -1)
}

// TestUpgradeDoesNotWait: when a version hangs, dpkg must not, because its rollback comes after dpkg. Only the first installation waits, for
// the one program that creates the setup token.
func TestUpgradeDoesNotWait(t *testing.T) {
	const (
		noProgram = "deb-systemd-invoke start gateway-firewall.service gateway-helper.socket gateway-probe.socket"
		restart   = "systemctl --quiet --no-block restart gateway-helper.service gateway-database.service gateway-api.service gateway-scheduler.service"
		start     = "systemctl --quiet --no-block start gateway.target"
		await     = "deb-systemd-invoke start gateway-api.service"
		allowed   = 0
		forbidden = 101
	)
	for _, c := range []struct {
		what   string
		policy int
		args   []string
		want   []string
	}{
		{"upgrade", allowed, []string{"configure", "0.9.0"}, []string{noProgram, restart, start}},
		{"aborted upgrade", allowed, []string{"abort-upgrade", "1.1.0"}, []string{noProgram, restart, start}},
		{"first installation", allowed, []string{"configure", ""}, []string{noProgram, start, await}},
		{"upgrade where policy-rc.d forbids starts", forbidden, []string{"configure", "0.9.0"}, []string{noProgram}},
	} {
		if got := starts(t, c.policy, c.args...); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.what, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// TestSlowStartIsAwaited: a version whose programs start within systemd's limits is not taken back.
func TestSlowStartIsAwaited(t *testing.T) {
	// gateway-api starts after gateway-helper.
	whole := time.Duration(0)
	for _, unit := range []string{"helper", "api"} {
		limit := 90 * time.Second // systemd's default
		if set := regexp.MustCompile(`(?m)^TimeoutStartSec=(.*)$`).FindStringSubmatch(read(t, "systemd/gateway-"+unit+".service")); set != nil {
			var err error
			if limit, err = time.ParseDuration(set[1]); err != nil {
				t.Fatal(err)
			}
		}
		whole += limit
	}
	if approot.Waiting.Silence < whole {
		t.Errorf("an upgrade is taken back after %s, while the programs may take %s to start", approot.Waiting.Silence, whole)
	}
}
