package host

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
)

func TestEveryPlaceIsComplete(t *testing.T) {
	for p, spec := range daemon.Places() {
		if !filepath.IsAbs(spec.Path) || spec.Mode == 0 || spec.Owner == "" || spec.Group == "" {
			t.Errorf("%s: %+v", p, spec)
		}
	}
}

func TestEveryCommandIsComplete(t *testing.T) {
	for c, spec := range daemon.Commands() {
		if !filepath.IsAbs(spec.Argv[0]) || spec.Timeout == 0 {
			t.Errorf("%s: %+v", c, spec)
		}
		if path := callersFile(spec.Argv); path != "" && spec.Rights == Own {
			t.Errorf("%s reads %s with the helper's own rights", c, path)
		}
		for _, arg := range spec.Argv {
			if name, ok := strings.CutPrefix(arg, "{"); ok {
				if Place(strings.TrimSuffix(strings.TrimSuffix(name, "/.."), "}")).Path() == "" {
					t.Errorf("%s: no place for %s", c, arg)
				}
				if spec.Rights == Own {
					t.Errorf("%s reads a staged file with the helper's own rights", c)
				}
			}
		}
	}
}

// callersFile returns the first argument that names a file which the helper's caller can write, or a folder with such a file.
func callersFile(argv []string) string {
	for _, arg := range argv[1:] {
		at := strings.Index(arg, "/")
		if at < 0 || strings.HasPrefix(arg, "{") {
			continue
		}
		path := filepath.Clean(arg[at:])
		below := strings.TrimSuffix(path, "/") + "/"
		if IsPlace(path) || slices.ContainsFunc(daemon.Families(), func(f daemon.Family) bool { return strings.HasPrefix(f.Folder, below) }) {
			return arg
		}
		for _, spec := range daemon.Places() {
			if strings.HasPrefix(spec.Path, below) {
				return arg
			}
		}
		for _, f := range stateFolders {
			if f.Owner == User && strings.HasPrefix(path+"/", f.Path+"/") {
				return arg
			}
		}
	}
	return ""
}

func TestCallersFilesAreRecognised(t *testing.T) {
	for _, arg := range []string{
		"/etc/squid/gateway.conf", "--config=/etc/crowdsec/gateway/config.yaml", "-f/etc/haproxy/gateway/haproxy.cfg", "/etc/freeradius/gateway", "/etc/freeradius/gateway/", "/", "/etc",
		"/etc/haproxy/gateway/certificates", "/var/lib/gateway-helper/tunnels", "/var/lib/gateway-helper/tunnels/wg0.conf", "/var/lib/gateway/x", "/run/gateway/../gateway/x",
	} {
		if callersFile([]string{"/usr/sbin/x", arg}) == "" {
			t.Errorf("%s is not recognised as the caller's", arg)
		}
	}
	for _, arg := range []string{"4/4", "-f", "/etc/squid/squid.conf", "/etc/passwd", "/var/lib/gatewayx", "{squid.dropin}", "{freeradius.config}/.."} {
		if callersFile([]string{"/etc/squid/gateway.conf", arg}) != "" {
			t.Errorf("%s is mistaken for the caller's", arg)
		}
	}
}

func TestEveryUnitIsComplete(t *testing.T) {
	for _, spec := range UnitSpecs() {
		if spec.Stop == 0 || spec.Grace == 0 || len(spec.Folders) == 0 {
			t.Errorf("%+v", spec)
		}
		if (spec.Binary == "") != (len(spec.Argv) == 0) || spec.Binary != "" && !slices.Contains(spec.Argv, spec.Binary) {
			t.Errorf("%s: binary %q, argv %q", spec.Unit, spec.Binary, spec.Argv)
		}
		if !spec.Installed() {
			t.Errorf("%s is not installed on this machine", spec.Unit)
		}
		if spec.Unit == chrony.Unit && spec.Argv[1] != "-x" {
			t.Error("chronyd may touch the clock")
		}
	}
}
