package units

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	"github.com/coreos/go-systemd/v22/unit"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/wireguard"
	"edge.internal/gateway/internal/kit/host/machine/command"
	"edge.internal/gateway/internal/kit/job"
)

// Systemd runs the units of a real gateway. Each verb has a connection of its own, so that a restart of the bus hurts nobody.
type Systemd struct{}

func (Systemd) State(ctx context.Context, u host.Unit) (host.UnitState, error) {
	spec, err := u.Spec()
	if err != nil {
		return host.UnitState{}, err
	}
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return host.UnitState{}, fmt.Errorf("reaching systemd: %w", err)
	}
	defer conn.Close()
	return systemdState(ctx, conn, spec)
}

func (s Systemd) Start(ctx context.Context, u host.Unit) error {
	return s.job(ctx, u, "start", (*dbus.Conn).StartUnitContext)
}
func (s Systemd) Stop(ctx context.Context, u host.Unit) error {
	return s.job(ctx, u, "stop", (*dbus.Conn).StopUnitContext)
}
func (s Systemd) Restart(ctx context.Context, u host.Unit) error {
	return s.job(ctx, u, "restart", (*dbus.Conn).RestartUnitContext)
}

// Reload sends the daemon's first process the signal that Debian's unit would. That does so by /bin/kill, which a bare Debian does not have.
func (Systemd) Reload(ctx context.Context, u host.Unit) error {
	spec, err := u.Spec()
	if err != nil {
		return err
	}
	if spec.Reload == 0 {
		return fmt.Errorf("%s cannot reload, it must restart", u)
	}
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return fmt.Errorf("reaching systemd: %w", err)
	}
	defer conn.Close()
	if err := conn.KillUnitWithTarget(ctx, u.Service(), dbus.Main, int32(spec.Reload)); err != nil {
		return fmt.Errorf("%s did not reload: %w", u.Service(), err)
	}
	return nil
}

const (
	// watchBuffer is how many changes of units may wait: systemd tells those of all units of the machine.
	watchBuffer = 1024
	// watchAlive is how often a watch looks whether it still hears something.
	watchAlive = 5 * time.Second
)

// Watch hears the changes that systemd tells on the bus.
func (Systemd) Watch(ctx context.Context, told func(host.Unit)) error {
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return fmt.Errorf("reaching systemd: %w", err)
	}
	defer conn.Close()
	updates, lost := make(chan *dbus.PropertiesUpdate, watchBuffer), make(chan error, 1)
	conn.SetPropertiesSubscriber(updates, lost)
	if err := conn.Subscribe(); err != nil {
		return fmt.Errorf("watching the units: %w", err)
	}
	for _, spec := range host.UnitSpecs() {
		told(spec.Unit)
	}
	alive := time.NewTicker(watchAlive)
	defer alive.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-lost:
			return fmt.Errorf("watching the units: %w", err)
		case <-alive.C:
			if !conn.Connected() {
				return errors.New("watching the units: systemd's bus went away")
			}
		case update := <-updates:
			if u, ok := changedUnit(update.UnitName, update.Changed); ok {
				told(u)
			}
		}
	}
}

// changedUnit is the unit of ours whose state a signal is about.
func changedUnit[V any](service string, changed map[string]V) (host.Unit, bool) {
	if _, state := changed["ActiveState"]; !state {
		return "", false
	}
	for _, spec := range host.UnitSpecs() {
		if spec.Unit.Service() == service {
			return spec.Unit, true
		}
	}
	return "", false
}

// job queues a job for the unit and waits for its result.
func (Systemd) job(ctx context.Context, u host.Unit, verb string, queue queue) error {
	spec, err := u.Spec()
	if err != nil {
		return err
	}
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return fmt.Errorf("reaching systemd: %w", err)
	}
	defer conn.Close()
	state, err := systemdState(ctx, conn, spec)
	if err != nil {
		return err
	}
	if !state.Installed {
		return spec.NotInstalled()
	}
	return await(ctx, conn, spec.Unit.Service(), verb, queue)
}

// StartWireguard starts the program that does WireGuard's work for a link where the kernel does not.
func (Systemd) StartWireguard(ctx context.Context, link string) error {
	spec, err := wireguard.Go.Spec()
	if err != nil {
		return err
	}
	if _, err := os.Stat(spec.Argv[0]); err != nil {
		return fmt.Errorf("%w: %s", host.ErrNotInstalled, spec.Argv[0])
	}
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return fmt.Errorf("reaching systemd: %w", err)
	}
	defer conn.Close()
	return await(ctx, conn, "gateway-wireguard@"+unit.UnitNameEscape(link)+".service", "start", (*dbus.Conn).StartUnitContext)
}

// queue asks systemd for a job.
type queue func(c *dbus.Conn, ctx context.Context, name, mode string, result chan<- string) (int, error)

// await queues a job and waits for its result.
func await(ctx context.Context, conn *dbus.Conn, service, verb string, queue queue) error {
	// systemd refuses a unit that is started often in a short time. That is meant for one that dies; an operator may make as many
	// changes as he likes.
	_ = conn.ResetFailedUnitContext(ctx, service)
	result := make(chan string, 1)
	if _, err := queue(conn, ctx, service, "replace", result); err != nil {
		return fmt.Errorf("%s did not %s: %w", service, verb, err)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s to %s: %w", service, verb, context.Cause(ctx))
	case r := <-result:
		if r == "done" {
			return nil
		}
		why := "job " + r
		if props, err := conn.GetAllPropertiesContext(ctx, service); err == nil {
			why = join(why, unitState("", props).Detail)
		}
		return fmt.Errorf("%s did not %s: %s", service, verb, join(why, lastWords(ctx, service)))
	}
}

// Begin starts a job and does not wait for it.
func (Systemd) Begin(ctx context.Context, j job.Name) error {
	service, err := j.Service()
	if err != nil {
		return err
	}
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return fmt.Errorf("reaching systemd: %w", err)
	}
	defer conn.Close()
	load, err := conn.GetUnitPropertyContext(ctx, service, "LoadState")
	if err != nil {
		return fmt.Errorf("reading the state of %s: %w", service, err)
	}
	if is, _ := load.Value.Value().(string); is == "not-found" {
		return fmt.Errorf("%s: %w", service, host.ErrNotInstalled)
	}
	if _, err := conn.StartUnitContext(ctx, service, "replace", nil); err != nil {
		return fmt.Errorf("%s did not start: %w", service, err)
	}
	return nil
}

// join joins what was said, if more was.
func join(said, more string) string {
	if more == "" {
		return said
	}
	return said + ": " + more
}

// lastWords are what the processes of a service's last run have said at last, as the journal has it; nothing when it cannot be asked.
func lastWords(ctx context.Context, service string) string {
	out, err := command.Exec(ctx, []string{"/usr/bin/journalctl", "--unit=" + service, "--lines=50", "--output=json", "--output-fields=MESSAGE,_PID,_SYSTEMD_INVOCATION_ID", "--quiet"}, 5*time.Second)
	if err != nil {
		return ""
	}
	return wordsOf(out.Stdout)
}

// wordsOf picks the last run's words out of entries of the journal.
func wordsOf(entries string) string {
	const lines = 5
	var said []string
	run := ""
	for line := range strings.Lines(entries) {
		var e struct {
			Message string `json:"MESSAGE"`
			PID     string `json:"_PID"`
			Run     string `json:"_SYSTEMD_INVOCATION_ID"`
		}
		// systemd itself says that the service started and ended. A message that is not text is a list of bytes.
		if json.Unmarshal([]byte(line), &e) != nil || e.PID == "1" {
			continue
		}
		if e.Run != run {
			said, run = nil, e.Run
		}
		said = append(said, e.Message)
	}
	return host.FirstLines(strings.Join(said[max(0, len(said)-lines):], "\n"))
}

func (Systemd) Enable(ctx context.Context, u host.Unit, on bool) error {
	spec, err := u.Spec()
	if err != nil {
		return err
	}
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return fmt.Errorf("reaching systemd: %w", err)
	}
	defer conn.Close()
	props, err := conn.GetAllPropertiesContext(ctx, spec.Unit.Service())
	if err != nil {
		return fmt.Errorf("reading the state of %s: %w", spec.Unit.Service(), err)
	}
	if !unitState(u, props).Installed {
		return spec.NotInstalled()
	}
	if is, _ := props["UnitFileState"].(string); is == map[bool]string{true: "enabled", false: "disabled"}[on] {
		return nil // what follows would make systemd read all its files
	}
	files := []string{spec.Unit.Service()}
	if on {
		_, _, err = conn.EnableUnitFilesContext(ctx, files, false, true)
	} else {
		_, err = conn.DisableUnitFilesContext(ctx, files, false)
	}
	if err != nil {
		return fmt.Errorf("enabling %s (%t): %w", spec.Unit.Service(), on, err)
	}
	return conn.ReloadContext(ctx)
}

// systemdState reads a unit's properties.
func systemdState(ctx context.Context, conn *dbus.Conn, spec host.UnitSpec) (host.UnitState, error) {
	props, err := conn.GetAllPropertiesContext(ctx, spec.Unit.Service())
	if err != nil {
		return host.UnitState{}, fmt.Errorf("reading the state of %s: %w", spec.Unit.Service(), err)
	}
	state := unitState(spec.Unit, props)
	if state.Active == "failed" {
		state.Detail = join(state.Detail, lastWords(ctx, spec.Unit.Service()))
	}
	return state, nil
}

// unitState translates systemd's properties.
func unitState(u host.Unit, props map[string]any) host.UnitState {
	if load, _ := props["LoadState"].(string); load == "not-found" {
		return host.UnitState{Unit: u}
	}
	state := host.UnitState{Unit: u, Installed: true}
	state.Active, _ = props["ActiveState"].(string)
	if pid, ok := props["MainPID"].(uint32); ok {
		state.PID = int(pid)
	}
	// StateChangeTimestamp would also move with the substate, such as at a reload.
	entered := "InactiveEnterTimestamp"
	switch state.Active {
	case "active", "reloading":
		entered = "ActiveEnterTimestamp"
	case "activating":
		entered = "InactiveExitTimestamp"
	case "deactivating":
		entered = "ActiveExitTimestamp"
	}
	if at, _ := props[entered].(uint64); at != 0 {
		state.Since = time.UnixMicro(int64(at))
	}
	if result, _ := props["Result"].(string); result != "" && result != "success" {
		status, _ := props["ExecMainStatus"].(int32)
		state.Detail = fmt.Sprintf("result %s, status %d", result, status)
	}
	return state
}
