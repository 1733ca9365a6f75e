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

// Systemd runs the units of a real gateway. Each call opens its own connection, so that it survives a restart of the bus.
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

// Reload sends the daemon's main process the signal that Debian's unit would. The unit needs /bin/kill, which a minimal Debian lacks.
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
	// watchBuffer is how many changes may wait. systemd reports those of all units of the machine.
	watchBuffer = 1024
	// watchAlive is how often a watch checks that it is still connected.
	watchAlive = 5 * time.Second
)

// Watch first calls changed for every unit, and then for each unit whose change systemd signals on the bus.
func (Systemd) Watch(ctx context.Context, changed func(host.Unit)) error {
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
		changed(spec.Unit)
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
				return errors.New("watching the units: the connection to systemd was lost")
			}
		case update := <-updates:
			if u, ok := changedUnit(update.UnitName, update.Changed); ok {
				changed(u)
			}
		}
	}
}

// changedUnit returns the gateway's unit whose state changed according to a signal.
func changedUnit[V any](service string, properties map[string]V) (host.Unit, bool) {
	if _, state := properties["ActiveState"]; !state {
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

// StartWireguard starts the userspace implementation of WireGuard for an interface, where the kernel has none.
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

type queue func(c *dbus.Conn, ctx context.Context, name, mode string, result chan<- string) (int, error)

// await queues a job and waits for its result.
func await(ctx context.Context, conn *dbus.Conn, service, verb string, queue queue) error {
	// systemd refuses to start a unit often in a short time. The limit is meant for daemons that crash, not for an operator who makes
	// many changes.
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
			why = appendDetail(why, unitState("", props).Detail)
		}
		return fmt.Errorf("%s did not %s: %s", service, verb, appendDetail(why, lastMessages(ctx, service)))
	}
}

// Begin starts a job without waiting for it.
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

func appendDetail(text, more string) string {
	if more == "" {
		return text
	}
	return text + ": " + more
}

// lastMessages returns the end of the log of a service's last run; nothing if the journal cannot be read.
func lastMessages(ctx context.Context, service string) string {
	out, err := command.Exec(ctx, []string{
		journalctl, "--unit=" + service, "--lines=50", "--output=json", "--output-fields=MESSAGE,_PID,_SYSTEMD_INVOCATION_ID", "--quiet",
	}, 5*time.Second)
	if err != nil {
		return ""
	}
	return lastRun(out.Stdout)
}

// lastRun picks the messages of the last run out of journal entries.
func lastRun(entries string) string {
	const lines = 5
	var messages []string
	run := ""
	for line := range strings.Lines(entries) {
		var e struct {
			Message string `json:"MESSAGE"`
			PID     string `json:"_PID"`
			Run     string `json:"_SYSTEMD_INVOCATION_ID"`
		}
		// PID 1 is systemd, which logs that the service started and ended. A binary message is a list of bytes, which fails here.
		if json.Unmarshal([]byte(line), &e) != nil || e.PID == "1" {
			continue
		}
		if e.Run != run {
			messages, run = nil, e.Run
		}
		messages = append(messages, e.Message)
	}
	return host.FirstLines(strings.Join(messages[max(0, len(messages)-lines):], "\n"))
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
		return nil // saves systemd from reloading all unit files
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

func systemdState(ctx context.Context, conn *dbus.Conn, spec host.UnitSpec) (host.UnitState, error) {
	props, err := conn.GetAllPropertiesContext(ctx, spec.Unit.Service())
	if err != nil {
		return host.UnitState{}, fmt.Errorf("reading the state of %s: %w", spec.Unit.Service(), err)
	}
	state := unitState(spec.Unit, props)
	if state.Active == "failed" {
		state.Detail = appendDetail(state.Detail, lastMessages(ctx, spec.Unit.Service()))
	}
	return state, nil
}

func unitState(u host.Unit, props map[string]any) host.UnitState {
	if load, _ := props["LoadState"].(string); load == "not-found" {
		return host.UnitState{Unit: u}
	}
	state := host.UnitState{Unit: u, Installed: true}
	state.Active, _ = props["ActiveState"].(string)
	if pid, ok := props["MainPID"].(uint32); ok {
		state.PID = int(pid)
	}
	// Not StateChangeTimestamp: it also changes with the substate, such as at a reload.
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
