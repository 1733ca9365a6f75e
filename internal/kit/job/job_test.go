package job

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The end of the output of a step's programs is kept.
func TestTail(t *testing.T) {
	var long tail
	for range 3000 {
		fmt.Fprintln(&long, "a line that is neither short nor long")
	}
	fmt.Fprintln(&long, "the last one")
	if text := long.String(); len(text) > outputLimit+8 || !strings.HasPrefix(text, "…\na line") || !strings.HasSuffix(text, "the last one\n") {
		t.Errorf("%d bytes: %.20q", len(text), text)
	}
}

func TestHide(t *testing.T) {
	for text, want := range map[string]string{
		"Err:1 https://user:canary@apt.example.net stable":    "Err:1 https://…apt.example.net stable",
		"W: http://apt.example.net/x@y":                       "W: http://apt.example.net/x@y",
		"--dbname=postgres:///gateway?password=canary&host=x": "--dbname=postgres:///gateway?password=…&host=x",
	} {
		if got := Hide(text); got != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
}

// Of two existing wishes, the earlier one is granted.
func TestEarlierWishIsFirst(t *testing.T) {
	root := t.TempDir()
	upgrades, err := OpenFolder(root, Upgrade, -1)
	if err != nil {
		t.Fatal(err)
	}
	restores, err := OpenFolder(root, Restore, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := upgrades.Wish(Wish{ID: "2"}); err != nil {
		t.Fatal(err)
	}
	if err := restores.Wish(Wish{ID: "1"}); !errors.Is(err, ErrUpgradeRuns) {
		t.Fatal(err)
	}
	if err := upgrades.first(); err != nil {
		t.Error(err)
	}
	if err := restores.Save(wishFile, Wish{ID: "1"}); err != nil {
		t.Fatal(err)
	}
	if err := upgrades.first(); !errors.Is(err, ErrRestoreRuns) {
		t.Errorf("the later one goes on: %v", err)
	}
	if err := restores.first(); err != nil {
		t.Errorf("the earlier one is refused: %v", err)
	}
}
