// Package nettest runs a package's tests in a network namespace of their own, so that they can change the real kernel.
package nettest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// inside is set in the environment within the namespace, so that a test which starts its own program again stays in it.
const inside = "GATEWAY_NETTEST_INSIDE"

// Main runs the tests of a package in a new network namespace. Call it from TestMain.
func Main(m *testing.M) {
	Enter()
	os.Exit(m.Run())
}

// Enter is Main for packages that run the tests themselves: it returns in the namespace. It restarts the whole program there,
// because a namespace belongs to a thread, and all goroutines and children must be in it. Only the loopback interface exists, and
// it is up.
func Enter() {
	if os.Getenv(inside) == "" {
		os.Exit(again())
	}
	if err := loopbackUp(); err != nil {
		fmt.Fprintln(os.Stderr, "bringing up the loopback interface:", err)
		os.Exit(1)
	}
}

func again() int {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests need root to create a network namespace")
		return 1
	}
	runtime.LockOSThread() // Pdeathsig fires when this thread exits, not the process
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "starting the tests in a network namespace:", err)
		return 1
	}
	// go test sends signals to get goroutine dumps and to stop; pass them on to the child.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if code := exit.ExitCode(); code > 0 {
			return code
		}
		return 1
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "running the tests in a network namespace:", err)
		return 1
	}
	return 0
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}
