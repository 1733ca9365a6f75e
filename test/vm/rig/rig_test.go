package rig

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// script creates a test program from shell code.
func script(t *testing.T, name, words string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+words+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMachineThatPanics(t *testing.T) {
	m := Machine{Limit: 10 * time.Minute, Counted: true, Files: []string{script(t, "file", "echo data")}, Tests: []string{
		script(t, "fails", "echo $1; sh /data/file; nproc; printf unfinished; exit 3"), script(t, "panics", "echo c >/proc/sysrq-trigger"), script(t, "late", "echo late"),
	}, Arguments: []string{"argument"}}
	var lines []string
	r, err := m.Run(t.Context(), func(i int, line string) {
		if i == 0 {
			lines = append(lines, line)
		}
	})
	if !slices.Equal(r.Exits, []int{3}) || !slices.Equal(lines, []string{"argument", "data", "1", "unfinished"}) {
		t.Errorf("%+v, %q", r, lines)
	}
	if err == nil || !strings.Contains(err.Error(), "died with 1 of 3 test programs run") || !strings.Contains(err.Error(), "Kernel panic") {
		t.Error(err)
	}
}

func TestMachineThatHangs(t *testing.T) {
	m := Machine{Limit: time.Second, Tests: []string{script(t, "hangs", "sleep 1000")}}
	start := time.Now()
	_, err := m.Run(t.Context(), func(int, string) {})
	if err == nil || !strings.Contains(err.Error(), "was stopped after") {
		t.Error(err)
	}
	if took := time.Since(start); took > 2*time.Minute {
		t.Errorf("took %s", took)
	}
}

func TestMachineWithoutAProgram(t *testing.T) {
	m := Machine{Programs: []string{filepath.Join(t.TempDir(), "missing")}, Limit: time.Minute}
	if _, err := m.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "make test-packages") {
		t.Error(err)
	}
}
