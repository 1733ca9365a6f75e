//go:build long

package deb

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestTwoBuildsAreTheSame(t *testing.T) {
	one, err := os.ReadFile(thePackage(t))
	if err != nil {
		t.Fatal(err)
	}
	again, err := build("two")
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(again)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Errorf("%d and %d bytes, and not the same ones", len(one), len(two))
	}
}

func TestLintian(t *testing.T) {
	out := must(t, "lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", thePackage(t))
	if strings.TrimSpace(out) != "" {
		t.Error(out)
	}
}
