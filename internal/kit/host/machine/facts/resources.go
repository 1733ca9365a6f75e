package facts

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
)

func (s *Known) Resources() (host.Resources, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return host.Resources{}, err
	}
	load, err := proc.LoadAvg()
	if err != nil {
		return host.Resources{}, fmt.Errorf("reading the load: %w", err)
	}
	mem, err := proc.Meminfo()
	if err != nil {
		return host.Resources{}, fmt.Errorf("reading the memory: %w", err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(s.home.Path("/"), &disk); err != nil {
		return host.Resources{}, fmt.Errorf("reading the file system: %w", err)
	}
	var sys unix.Sysinfo_t
	if err := unix.Sysinfo(&sys); err != nil {
		return host.Resources{}, fmt.Errorf("reading the uptime: %w", err)
	}
	// Blocks that are reserved for root are left out, so that the share in use is the one that df shows.
	usable := disk.Blocks - disk.Bfree + disk.Bavail
	return host.Resources{
		Load1: load.Load1, Load5: load.Load5, Load15: load.Load15,
		NumCPUs:         runtime.NumCPU(),
		MemoryTotal:     deref(mem.MemTotalBytes),
		MemoryAvailable: deref(mem.MemAvailableBytes),
		DiskTotal:       usable * uint64(disk.Frsize),
		DiskFree:        disk.Bavail * uint64(disk.Frsize),
		ConntrackCount:  readCounter("/proc/sys/net/netfilter/nf_conntrack_count"),
		ConntrackMax:    readCounter("/proc/sys/net/netfilter/nf_conntrack_max"),
		Uptime:          time.Duration(sys.Uptime) * time.Second,
	}, nil
}

func deref(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}

// readCounter returns 0 if the kernel has no such file: conntrack may not be loaded.
func readCounter(path string) uint64 {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64)
	return n
}
