// Package rig boots a small virtual machine with Debian's kernel and runs test programs in it as root.
package rig

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/child"
	"edge.internal/gateway/packaging"
)

// Machine is a virtual machine in memory: a kernel, busybox, and the files named here.
type Machine struct {
	Programs  []string // programs of this machine, by their absolute paths; their libraries are included
	Tests     []string // static programs, run one after the other
	Arguments []string // of each test; without spaces in them
	Files     []string // found in /data by their last names
	// Counted gives the machine one processor, whose clock is the count of its instructions: it measures the same however
	// busy this machine is. Idle time is skipped.
	Counted bool
	Limit   time.Duration
}

// Result is what came of a run.
type Result struct {
	Boot  time.Duration // from power to the first test
	Exits []int         // the status of each test, in their order
}

//go:embed init.sh
var initScript []byte

// always are the programs in every machine. Busybox is its shell; modprobe lets the kernel load modules on demand, as on any Debian.
var always = []string{"/bin/busybox", "/sbin/modprobe"}

// modules are the included folders of kernel modules. The other three quarters are file systems and network cards.
var modules = []string{
	"arch/x86/crypto", "crypto", "lib", "net",
	"drivers/net/bonding", "drivers/net/dummy.ko", "drivers/net/ifb.ko", "drivers/net/ipvlan", "drivers/net/macvlan.ko",
	"drivers/net/tun.ko", "drivers/net/veth.ko", "drivers/net/vrf.ko", "drivers/net/vxlan", "drivers/net/wireguard",
}

const remedy = "make test-packages brings what it is made of"

// Run boots the machine and passes each line that test number i prints to say. It returns when the machine is off. An
// error means that the machine did not run all tests to their end, and contains the last lines of its console; a failed test
// is not an error but a status.
func (m Machine) Run(ctx context.Context, say func(i int, line string)) (Result, error) {
	var r Result
	dir, err := os.MkdirTemp("", "gateway-vm-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	leave, err := packaging.Place(ctx, dir)
	if err != nil {
		return r, err
	}
	defer leave()
	initrd, console := filepath.Join(dir, "initrd"), filepath.Join(dir, "console")
	kernel, err := packaging.Path("vm.sh")
	if err != nil {
		return r, err
	}
	if err := m.pack(filepath.Join(dir, "root"), kernel, initrd); err != nil {
		return r, fmt.Errorf("packing the virtual machine: %w (%s)", err, remedy)
	}

	ctx, cancel := context.WithTimeout(ctx, m.Limit)
	defer cancel()
	// Emulated, so that it runs anywhere. A kernel that panics reboots, and a machine that reboots ends. Early on, the
	// kernel counts timer interrupts for a moment and panics if too few arrive, which they do when the host is busy:
	// no_timer_check tells it to trust its timer.
	args := []string{"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-M", "q35", "-cpu", "qemu64", "-m", "1024",
		"-kernel", filepath.Join(kernel, "vmlinuz"), "-initrd", initrd, "-append", "console=ttyS0 quiet no_timer_check oops=panic panic=-1",
		"-serial", "file:" + console, "-serial", "stdio"}
	if m.Counted {
		args = append(args, "-accel", "tcg,thread=single", "-smp", "1", "-icount", "shift=1,sleep=off")
	} else {
		args = append(args, "-accel", "tcg,thread=multi", "-smp", "2")
	}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, in := io.Pipe()
	cmd.Stdout = in
	start := time.Now()
	ended, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return r, fmt.Errorf("starting the virtual machine: %w (%s)", err, remedy)
	}
	done := make(chan error, 1)
	go func() {
		err := <-ended
		_ = in.Close()
		done <- err
	}()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		status, exit := strings.CutPrefix(line, "RIG-EXIT:")
		n, notNumber := strconv.Atoi(status)
		switch {
		case line == "RIG-UP" && r.Boot == 0:
			r.Boot = time.Since(start)
		case exit && notNumber == nil:
			r.Exits = append(r.Exits, n)
		case r.Boot != 0 && line != "":
			say(len(r.Exits), line)
		}
		if err != nil {
			break
		}
	}

	err = <-done
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("the virtual machine was stopped after %s: %w", time.Since(start).Round(time.Second), ctx.Err())
	case err != nil:
		err = fmt.Errorf("the virtual machine: %w", err)
	case len(r.Exits) != len(m.Tests):
		err = errors.New("the virtual machine died")
	default:
		return r, nil
	}
	return r, fmt.Errorf("%w with %d of %d test programs run; its console ends with\n%s%s", err, len(r.Exits), len(m.Tests), complaints.String(), tail(console, 80))
}

// tail returns the last n lines of a file.
func tail(path string, n int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(content), "\r", "")), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// pack creates the machine's files below root, laid out as on Debian, and builds an initrd from them.
func (m Machine) pack(root, kernel, initrd string) error {
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, "usr", name), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+name, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{
		"init":       string(initScript),
		"arguments":  strings.Join(m.Arguments, " "),
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
		"etc/group":  "root:x:0:\n",
	} {
		if err := write(filepath.Join(root, name), []byte(content)); err != nil {
			return err
		}
	}
	if err := os.Symlink("busybox", filepath.Join(root, "bin/sh")); err != nil {
		return err
	}
	for _, program := range slices.Concat(always, m.Programs) {
		libraries, err := libraries(program)
		if err != nil {
			return err
		}
		for _, path := range append(libraries, program) {
			if err := copyFile(path, filepath.Join(root, path)); err != nil {
				return err
			}
		}
	}
	for i, test := range m.Tests {
		// The number keeps their order.
		if err := copyFile(test, filepath.Join(root, "tests", fmt.Sprintf("%03d-%s", i, filepath.Base(test)))); err != nil {
			return err
		}
	}
	for _, file := range m.Files {
		if err := copyFile(file, filepath.Join(root, "data", filepath.Base(file))); err != nil {
			return err
		}
	}
	if err := packModules(root, kernel); err != nil {
		return err
	}
	return archive(root, initrd)
}

func packModules(root, kernel string) error {
	base, err := filepath.Glob(filepath.Join(kernel, "lib/modules/*"))
	if err != nil || len(base) != 1 {
		return fmt.Errorf("modules of %d kernels in %s", len(base), kernel)
	}
	indexes, err := filepath.Glob(filepath.Join(base[0], "modules.*"))
	if err != nil || len(indexes) == 0 {
		return fmt.Errorf("no index of the modules in %s", base[0])
	}
	wanted := indexes
	for _, name := range modules {
		wanted = append(wanted, filepath.Join(base[0], "kernel", name))
	}
	for _, from := range wanted {
		err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(kernel, path)
			if err != nil {
				return err
			}
			return copyFile(path, filepath.Join(root, rel))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

var absolute = regexp.MustCompile(`(?m)(?:^\s*|=> )(/\S+)`)

// libraries returns what the dynamic linker would load for a program.
func libraries(program string) ([]string, error) {
	if _, err := os.Stat(program); err != nil {
		return nil, err
	}
	out, err := exec.Command("ldd", program).CombinedOutput()
	if bytes.Contains(out, []byte("not a dynamic executable")) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("libraries of %s: %w: %s", program, err, out)
	}
	var list []string
	for _, match := range absolute.FindAllSubmatch(out, -1) {
		list = append(list, string(match[1]))
	}
	return list, nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, content)
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o755)
}

// archive writes all below root in the format that the kernel unpacks.
func archive(root, to string) error {
	var names bytes.Buffer
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		fmt.Fprintln(&names, rel)
		return err
	})
	if err != nil {
		return err
	}
	cmd := exec.Command("cpio", "--quiet", "-o", "-H", "newc", "-R", "root:root", "-O", to)
	cmd.Dir, cmd.Stdin = root, &names
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cpio: %w: %s", err, out)
	}
	return nil
}
