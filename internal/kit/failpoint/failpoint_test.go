package failpoint

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestHit(t *testing.T) {
	defer func(was string) { folder = was }(folder)
	folder = t.TempDir()
	arm := func(action, of string) {
		t.Helper()
		if err := Arm(folder, ApplyVerified, action, of); err != nil {
			t.Fatal(err)
		}
	}
	armed := func() bool {
		_, err := os.Stat(filepath.Join(folder, ApplyVerified))
		return err == nil
	}

	if err := Hit(ApplyVerified, "ntp"); err != nil {
		t.Errorf("a point that is not armed: %v", err)
	}
	arm("error", "")
	if err := Hit(ApplyReloaded, "ntp"); err != nil {
		t.Errorf("another point: %v", err)
	}
	if err := Hit(ApplyVerified, "dns"); err == nil || armed() {
		t.Errorf("a point that is armed for all: %v, and is still armed: %v", err, armed())
	}
	if err := Hit(ApplyVerified, "dns"); err != nil {
		t.Errorf("it strikes twice: %v", err)
	}

	arm("full", "ntp")
	for _, others := range [][]string{nil, {"dns"}, {"dhcp", "dns"}} {
		if err := Hit(ApplyVerified, others...); err != nil || !armed() {
			t.Errorf("%q meets a point that is armed for ntp: %v, and it is still armed: %v", others, err, armed())
		}
	}
	if err := Hit(ApplyVerified, "dns", "ntp"); !errors.Is(err, syscall.ENOSPC) || armed() {
		t.Errorf("a point that is armed for one of them: %v, and is still armed: %v", err, armed())
	}
}
