//go:build long

package appliance

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host/child"
	"edge.internal/gateway/packaging"
	"edge.internal/gateway/test/node"
)

// emulated is a machine with a separate kernel: Debian's, which has AppArmor.
type emulated struct {
	qemu    *exec.Cmd // in the machine's WAN
	ended   chan struct{}
	answers chan string // lines of the agent

	turn    sync.Mutex // the agent does one thing at a time
	scripts io.Writer
}

// kernel is Debian's.
func kernel(t *testing.T) string {
	t.Helper()
	path, err := packaging.Path("vm.sh")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// emulationPace is how many times longer than on a node things take on an emulated machine.
const emulationPace = 5

//go:embed agent.sh
var agentScript []byte

const agentUnit = `[Service]
ExecStart=/bin/sh /srv/agent
[Install]
WantedBy=multi-user.target
`

// disk switches the node off, and creates a disk from it for emulate.
func (g *appliance) disk(t *testing.T) (image string) {
	t.Helper()
	g.write(t, "/srv/agent", agentScript)
	g.write(t, "/etc/systemd/system/agent.service", []byte(agentUnit))
	// Daemons take as much longer to start as everything else.
	g.write(t, "/etc/systemd/system.conf.d/zz-test.conf", fmt.Appendf(nil, "[Manager]\nDefaultTimeoutStartSec=%d\n", int((emulationPace*90*time.Second).Seconds())))
	// There is no udev that would do this.
	g.write(t, "/etc/modules-load.d/network-cards.conf", []byte("virtio_net\n"))
	// The machine has its own clock.
	g.sh(t, "systemctl enable agent.service 2>&1; rm /etc/systemd/system/chrony.service.d/zz-test.conf")
	image = filepath.Join(t.TempDir(), "disk")
	err := g.Off(t.Context(), func(mounts, root string) error {
		out, err := exec.Command("nsenter", "--mount="+mounts, "--wd=.", "./image.sh", root, kernel(t), image).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("making a disk of the node: %v", err)
	}
	return image
}

// emulate boots a disk, without changing it, in a machine that ends with the test.
func emulate(t *testing.T, image string) *emulated {
	t.Helper()
	console := filepath.Join(t.TempDir(), "console")
	m := &emulated{ended: make(chan struct{}), answers: make(chan string)}
	m.qemu = exec.Command("unshare", "--net", "./emulator.sh", kernel(t), image, console)
	scripts, err := m.qemu.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	m.scripts = scripts
	out, in := io.Pipe()
	var complaints strings.Builder
	m.qemu.Stdout, m.qemu.Stderr = in, &complaints
	ended, err := child.Start(m.qemu, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-ended
		in.Close()
		close(m.ended)
	}()
	go func() {
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			select {
			case m.answers <- strings.TrimSuffix(line, "\n"):
			case <-m.ended:
				return
			}
		}
	}()
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			journal, err := m.Run(ctx, "journalctl", "--no-pager", "--lines=200", "--priority=warning")
			t.Logf("journal: %v\n%s", err, journal)
		}
		m.qemu.Process.Kill()
		<-m.ended
		if t.Failed() {
			printed, err := os.ReadFile(console)
			t.Logf("qemu: %s\nconsole: %v\n%s", complaints.String(), err, node.Tail(string(printed)))
		}
	})
	select {
	case answer := <-m.answers:
		if answer != "ready" {
			t.Fatalf("the machine's agent says %q", answer)
		}
	case <-m.ended:
		t.Fatal("the machine did not boot")
	case <-time.After(4 * emulationPace * time.Minute):
		t.Fatal("the machine does not boot")
	}
	return m
}

func (m *emulated) Run(ctx context.Context, argv ...string) (string, error) {
	m.turn.Lock()
	defer m.turn.Unlock()
	var script strings.Builder
	for _, argument := range argv {
		script.WriteString("'" + strings.ReplaceAll(argument, "'", `'\''`) + "' ")
	}
	if _, err := fmt.Fprintln(m.scripts, base64.StdEncoding.EncodeToString([]byte(script.String()))); err != nil {
		return "", err
	}
	select {
	case answer := <-m.answers:
		status, encoded, _ := strings.Cut(answer, " ")
		out, err := base64.StdEncoding.DecodeString(encoded)
		if err == nil && status != "0" {
			err = fmt.Errorf("status %s", status)
		}
		return string(out), err
	case <-m.ended:
		return "", errors.New("the machine is off")
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (m *emulated) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return node.DialFrom(ctx, m.qemu.Process.Pid, network, address)
}
