// Package example has tests of which each does something that the runner must tell apart.
package example

import (
	"os"
	"strconv"
	"testing"
)

func TestPasses(*testing.T) {}

// TestFailsOnce fails until its file is there.
func TestFailsOnce(t *testing.T) {
	f, err := os.OpenFile(os.Getenv("EXAMPLE_FILE"), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	f.Close()
	t.Error("the first try fails")
}

func TestFailsTwice(t *testing.T) { t.Error("every try fails") }

func TestIsSkipped(t *testing.T) { t.Skip("there is no daemon") }

func TestFailsElevenTimes(t *testing.T) {
	for i := range 11 {
		t.Run(strconv.Itoa(i), func(t *testing.T) { t.Error("as do all the others") })
	}
}
