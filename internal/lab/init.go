package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host/child"
	"edge.internal/gateway/internal/kit/host/machine/units"
)

// initName is the name under which Up starts its own program again.
const initName = "gateway-lab-init"

// Files that init inherits.
const (
	planFD   = 3
	reportFD = 4
	laidFD   = 5 // first of the existing namespaces
)

// Init runs the lab's init, and never returns, if Up has started this program for that; otherwise it does nothing. A program or
// test that calls Up must call Init first.
func Init() {
	if os.Args[0] != initName {
		return
	}
	for _, fd := range []int{planFD, reportFD} {
		syscall.CloseOnExec(fd) // not for the units
	}
	reports := json.NewEncoder(os.NewFile(reportFD, "reports"))
	if err := runInit(reports); err != nil {
		_ = reports.Encode(report{Error: err.Error()})
		slog.Error("the lab's init ends", "err", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runInit(reports *json.Encoder) error {
	// The kernel drops signals to the first process of a namespace unless it handles them.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	reapOrphans()
	p, err := readPlan(os.NewFile(planFD, "plan"))
	if err != nil {
		return err
	}
	if p.isolated() {
		err := isolate(p)
		if err == nil {
			err = connect(p)
		}
		if err != nil {
			return reports.Encode(report{Denied: err.Error()})
		}
		_ = reports.Encode(report{Step: "namespaces: wan — " + p.name() + " — lan"})
	}
	s := newSupervisor(p)
	defer s.stopAll()
	socket, err := listenUnits(p.path(units.SupervisorSocket))
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- units.Serve(ctx, socket, s) }()
	if err := s.startAll(ctx, func(step string) { _ = reports.Encode(report{Step: step}) }); err != nil {
		return err
	}
	_ = reports.Encode(report{Ready: true})
	return <-served
}

// readPlan reads the plan, and then watches for the end of Up. The kernel kills init with the thread that started it; this is a
// fallback.
func readPlan(f *os.File) (p plan, err error) {
	r := bufio.NewReader(f)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return plan{}, fmt.Errorf("reading the plan: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, r)
		os.Exit(1)
	}()
	return p, json.Unmarshal(line, &p)
}

// reapOrphans reaps processes whose parents have died.
func reapOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // in case init is not the first process of its namespace
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		for range died {
			child.Reap()
		}
	}()
}

func listenUnits(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o666) // the supervisor decides who may do what
}
