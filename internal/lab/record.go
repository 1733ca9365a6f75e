package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
)

const (
	terminate = syscall.SIGTERM
	kill      = syscall.SIGKILL
)

// record is what other processes need to know about a running lab. It is stored in the state folder.
type record struct {
	Outer    process   `json:"outer"`    // the process that called Up
	Init     process   `json:"init"`     // the first process of the namespaces
	UI       string    `json:"ui"`       // address of the UI, on the machine
	Programs string    `json:"programs"` // folder of the gateway's programs
	Site     int       `json:"site"`     // which networks it has
	Node     int       `json:"node"`     // index of the node, from 1
	Nodes    int       `json:"nodes"`    // number of gateways in the lab
	Reason   string    `json:"reason"`   // why there are no namespaces; empty if there are
	Started  time.Time `json:"started"`
}

func recordFile(dir string) string { return filepath.Join(dir, "lab.json") }

func readRecord(dir string) (r record, err error) {
	content, err := os.ReadFile(recordFile(dir))
	if err != nil {
		return record{}, err
	}
	return r, json.Unmarshal(content, &r)
}

func (r record) write(dir string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(recordFile(dir), append(content, '\n'), 0o600)
}

// process identifies a process even after its PID was reused.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // ticks since the machine's start
}

func newProcess(pid int) process {
	_, start, _ := stat(pid)
	return process{PID: pid, Start: start}
}

// alive reports whether the process exists and is no zombie.
func (p process) alive() bool {
	state, start, err := stat(p.PID)
	return err == nil && start == p.Start && state != "Z" && state != "X"
}

func (p process) signal(s syscall.Signal) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, s); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// waitGone waits for the process to end, and reports whether it has.
func (p process) waitGone(atMost time.Duration) bool {
	for deadline := time.Now().Add(atMost); p.alive(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// stat reads the state and the start time of a process.
func stat(pid int) (state string, start uint64, err error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, err
	}
	// The name may contain anything, but what follows its last parenthesis does not.
	_, rest, _ := strings.Cut(string(content[strings.LastIndexByte(string(content), ')'):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return "", 0, fmt.Errorf("process %d: unexpected stat", pid)
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return fields[0], start, err
}
