package host

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryPlaceIsComplete(t *testing.T) {
	for p, spec := range places {
		if !filepath.IsAbs(spec.Path) || spec.Mode == 0 || spec.Owner == "" || spec.Group == "" {
			t.Errorf("%s: %+v", p, spec)
		}
	}
}

func TestEveryCommandIsComplete(t *testing.T) {
	for c, spec := range commands {
		if !filepath.IsAbs(spec.Argv[0]) || spec.Timeout == 0 {
			t.Errorf("%s: %+v", c, spec)
		}
		for _, arg := range spec.Argv {
			if name, ok := strings.CutPrefix(arg, "{"); ok {
				if Place(strings.TrimSuffix(strings.TrimSuffix(name, "/.."), "}")).Path() == "" {
					t.Errorf("%s: no place for %s", c, arg)
				}
				if spec.Rights == Own {
					t.Errorf("%s reads a staged file, and may do what the helper may", c)
				}
			}
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
			t.Errorf("%s is not installed on this machine.", spec.Unit)
		}
		if spec.Unit == Chrony && spec.Argv[1] != "-x" {
			t.Error("chronyd may touch the clock")
		}
	}
}
