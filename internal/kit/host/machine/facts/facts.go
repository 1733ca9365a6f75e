// Package facts reads a machine's identity and load, and looks up the vendors of MAC addresses.
package facts

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/disk"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

// Known reads the facts of a machine. It caches the machine id and the vendors that it has looked up.
type Known struct {
	home      home.Home
	machineID func() string
	vendors   vendors
}

func New(h home.Home) *Known {
	f := &Known{home: h}
	f.machineID = sync.OnceValue(f.readMachineID)
	return f
}

// Facts returns the machine's identity. Facts that cannot be read are empty.
func (s *Known) Facts() host.Facts {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		slog.Warn("reading uname", "err", err)
	}
	_, noJournal := os.Stat(s.home.Path("/run/systemd/journal"))
	return host.Facts{
		Hostname:  unix.ByteSliceToString(name.Nodename[:]),
		OS:        osName("/etc/os-release"),
		Kernel:    unix.ByteSliceToString(name.Release[:]),
		MachineID: s.machineID(),
		Journal:   noJournal == nil,
	}
}

// osName reads PRETTY_NAME of os-release.
func osName(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		value, ok := strings.CutPrefix(lines.Text(), "PRETTY_NAME=")
		if !ok {
			continue
		}
		if unquoted, err := strconv.Unquote(value); err == nil {
			return unquoted
		}
		return value
	}
	return ""
}

var machineIDForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// readMachineID returns /etc/machine-id. Many containers have none; then it creates one in the state folder.
func (s *Known) readMachineID() string {
	own := s.home.Path("/var/lib/gateway/machine-id")
	for _, path := range []string{"/etc/machine-id", own} {
		content, err := os.ReadFile(path)
		if id := strings.TrimSpace(string(content)); machineIDForm.MatchString(id) {
			return id
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			slog.Warn("reading the machine id", "err", err)
		}
	}
	id := make([]byte, 16)
	rand.Read(id)
	text := hex.EncodeToString(id)
	err := disk.MakeFolder(filepath.Dir(own), 0o755)
	if err == nil {
		err = renameio.WriteFile(own, []byte(text+"\n"), 0o644)
	}
	if err != nil {
		slog.Warn("storing the machine id", "err", err)
	}
	return text
}
