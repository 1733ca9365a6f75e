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

// largest is the maximum size of the published package, in bytes.
const largest = 26_000_000

func TestSize(t *testing.T) {
	info, err := os.Stat(thePackage(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > largest {
		t.Errorf("the package has %d bytes, and may have %d", info.Size(), largest)
	}
}

func TestLintian(t *testing.T) {
	out := must(t, "lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", thePackage(t))
	if strings.TrimSpace(out) != "" {
		t.Error(out)
	}
}
