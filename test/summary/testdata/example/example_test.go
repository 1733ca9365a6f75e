// Package example has one test for each outcome that the runner must distinguish.
package example

import (
	"os"
	"testing"
)

func TestPasses(*testing.T) {}

// TestFailsOnce fails until its file exists.
func TestFailsOnce(t *testing.T) {
	f, err := os.OpenFile(os.Getenv("EXAMPLE_FILE"), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	f.Close()
	t.Error("the first try fails")
}

// TestPartFailsOnce has a part that needs the one before it.
func TestPartFailsOnce(t *testing.T) {
	ready := false
	t.Run("first", func(*testing.T) { ready = true })
	t.Run("second", func(t *testing.T) {
		if !ready {
			t.Fatal("it was tried without the part before it")
		}
		TestFailsOnce(t)
	})
}

func TestFailsTwice(t *testing.T) { t.Error("every try fails") }

func TestIsSkipped(t *testing.T) { t.Skip("there is no daemon") }

func TestOneOfEleven1(t *testing.T)  { TestFailsTwice(t) }
func TestOneOfEleven2(t *testing.T)  { TestFailsTwice(t) }
func TestOneOfEleven3(t *testing.T)  { TestFailsTwice(t) }
func TestOneOfEleven4(t *testing.T)  { TestFailsTwice(t) }
func TestOneOfEleven5(t *testing.T)  { TestFailsTwice(t) }
func TestOneOfEleven6(t *testing.T)  { TestFailsTwice(t) }
func TestOneOfEleven7(t *testing.T)  { TestFailsTwice(t) }
func TestOneOfEleven8(t *testing.T)  { TestFailsTwice(t) }
func TestOneOfEleven9(t *testing.T)  { TestFailsTwice(t) }
func TestOneOfEleven10(t *testing.T) { TestFailsTwice(t) }
func TestOneOfEleven11(t *testing.T) { TestFailsTwice(t) }
