// Package nettest gives the tests of a package a network namespace of their own, so that they may ask the real kernel.
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

// inside marks the environment of the program that runs in the namespace, and of its children: a test that starts its own
// program again stays where it is.
const inside = "GATEWAY_NETTEST_INSIDE"

// Main runs the tests of a package in a network namespace of their own. Call it from TestMain.
func Main(m *testing.M) {
	Enter()
	os.Exit(m.Run())
}

// Enter is Main for those who run the tests themselves: it returns in the namespace. The whole program is started anew there,
// because a namespace belongs to a thread: this way every goroutine and every child of the tests lives in it. The loopback
// interface is up, and there is no other.
func Enter() {
	if os.Getenv(inside) == "" {
		os.Exit(again())
	}
	if err := loopbackUp(); err != nil {
		fmt.Fprintln(os.Stderr, "setting the loopback interface up:", err)
		os.Exit(1)
	}
}

// again runs this program in a new network namespace, and returns its exit code.
func again() int {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests need root, for a network namespace of their own")
		return 1
	}
	runtime.LockOSThread() // the child is to end with its parent, which the kernel takes for the thread that started it
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "starting the tests in a network namespace of their own:", err)
		return 1
	}
	// go test asks for goroutine dumps and for an end by signals; those are for the child.
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
		fmt.Fprintln(os.Stderr, "running the tests in a network namespace of their own:", err)
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
