package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/lab"
)

// bench is a lab with its database and its API.
type bench struct {
	dir  string
	lab  *lab.Lab
	pool *pgxpool.Pool
	api  *client
}

func newBench(ctx context.Context, s settings) (*bench, error) {
	dir, err := os.MkdirTemp("", "gateway-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir}
	if err := b.start(ctx, s); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// runBench has the gateway-lab of a folder run a lab with the programs there, which may be those of another commit. It has no connection to
// the database, whose form may be another one.
func runBench(programs string) (*bench, error) {
	dir, err := os.MkdirTemp("", "gateway-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir}
	if err := b.run(programs); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) run(programs string) error {
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(programs, "gateway-lab"), "up", "--dir", b.dir, "--ui", "127.0.0.1:0", "--admin-email", email, "--admin-password", secret)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if _, err := launch(cmd); err != nil {
		return err
	}
	// The last line says how to stop it.
	for lines := bufio.NewScanner(out); !strings.HasPrefix(lines.Text(), "Stop "); {
		if !lines.Scan() {
			return fmt.Errorf("%s has ended", cmd.Path)
		}
	}
	if b.lab, err = lab.Find(b.dir); err != nil {
		return err
	}
	return b.connect()
}

func (b *bench) connect() error {
	b.api = newClient(b.lab.Path("/run/gateway/control.sock"), "http://gateway/api/v1", "")
	return b.api.waitReady()
}

func (b *bench) start(ctx context.Context, s settings) (err error) {
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return err
	}
	if b.lab, err = lab.Up(ctx, lab.Options{Dir: b.dir, UI: "127.0.0.1:0", Programs: s.programs, AdminEmail: email, AdminPassword: secret, Alone: s.alone, Nodes: s.nodes}); err != nil {
		return err
	}
	if b.pool, err = pgxpool.New(ctx, private.URL(b.lab.Path("/run/postgresql"), "gateway")); err != nil {
		return err
	}
	return b.connect()
}

func (b *bench) close() {
	if b.pool != nil {
		b.pool.Close()
	}
	if b.lab != nil {
		_ = b.lab.Down()
	}
	os.RemoveAll(b.dir)
}

// change makes a change through the API, after which the component must be live, if one is named.
func (b *bench) change(component, method, path string, body, into any) error {
	var in []byte
	if body != nil {
		var err error
		if in, err = json.Marshal(body); err != nil {
			return err
		}
	}
	res, out, err := b.api.do(method, path, in)
	switch {
	case err != nil:
		return err
	case res.StatusCode >= 300 || component != "" && !strings.Contains(res.Header.Get("Gateway-Apply"), component+"=live"):
		return fmt.Errorf("%s %s answers %d, %s: %.300s", method, path, res.StatusCode, res.Header.Get("Gateway-Apply"), out)
	case into == nil:
		return nil
	}
	return json.Unmarshal(out, &struct{ Data any }{into})
}

// outside is the number of a process of the lab, as this process sees it.
func (b *bench) outside(number int) (int, error) {
	inside := strconv.Itoa(number)
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", b.lab.Init.PID))
	if err != nil {
		return 0, err
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range all {
		if other, err := os.Readlink(dir + "/ns/pid"); err != nil || other != space {
			continue
		}
		status, err := os.ReadFile(dir + "/status")
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(status), "\nNSpid:")
		numbers, _, _ := strings.Cut(rest, "\n")
		if fields := strings.Fields(numbers); len(fields) > 0 && fields[len(fields)-1] == inside {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, fmt.Errorf("process %d of the lab is not to be seen", number)
}

// agent is another process of this program, inside a lab, so that entering namespaces is not measured.
type agent struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startAgent runs the agent of a name, which main knows.
func (b *bench) startAgent(ctx context.Context, name string) (*agent, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &agent{}
	if a.cmd, err = b.lab.Command(ctx, lab.Gateway, self, name); err != nil {
		return nil, err
	}
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.out, a.cmd.Stderr = bufio.NewScanner(out), os.Stderr
	return a, a.cmd.Start()
}

// tell makes the agent do something, and returns how long it took or what it found.
func (a *agent) tell(what string) (v float64, err error) {
	if _, err := fmt.Fprintln(a.in, what); err != nil {
		return 0, err
	}
	if !a.out.Scan() {
		return 0, errors.New("the agent in the lab has ended")
	}
	_, err = fmt.Sscan(a.out.Text(), &v)
	return v, err
}

func (a *agent) stop() {
	a.in.Close()
	_ = a.cmd.Wait()
}

// serveAgent is the agent's side: it executes commands until the other side closes.
func serveAgent(do func(verb, operand string) (float64, error)) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, operand, _ := strings.Cut(lines.Text(), " ")
		v, err := do(verb, operand)
		if err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		fmt.Println(v)
	}
	return lines.Err()
}
