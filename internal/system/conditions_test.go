package system_test

import (
	"errors"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/watch/watchtest"
	"edge.internal/gateway/internal/system"
)

func TestMachineIsFull(t *testing.T) {
	t.Parallel()
	w := watchtest.New(t, system.MachineCheck)
	at := func(memory, disk, conntrack uint64) {
		w.Answers["/system/resources"] = system.Resources{
			MemoryTotal: 1000, MemoryAvailable: 1000 - memory, DiskTotal: 1000, DiskFree: 1000 - disk, ConntrackMax: 1000, ConntrackCount: conntrack,
		}
	}
	at(899, 899, 799)
	w.Want(t)
	at(900, 900, 800)
	w.Want(t, "system.conntrack warning", "system.disk warning", "system.memory warning")
	at(950, 950, 950)
	w.Want(t, "system.conntrack error", "system.disk error", "system.memory error")
	at(0, 0, 0)
	w.Want(t)
	w.Answers["/system/resources"] = system.Resources{}
	w.Want(t)
}

// A component, a daemon or the service itself raises an alarm after a minute in a bad state.
func TestComponentsRun(t *testing.T) {
	t.Parallel()
	w := watchtest.New(t, system.ComponentCheck)
	list := []apply.Status{
		{Name: "ntp", State: apply.Degraded, LastError: "chronyd refuses it"}, {Name: "dns", State: apply.Live, Daemon: apply.Down}, {Name: "dhcp", State: apply.Live},
		{Name: apply.WAF, State: apply.Live, Daemon: apply.Down}, // which has its own alarm
	}
	w.Answers["/system/components"] = list
	w.Want(t)
	w.Clock.Move(59 * time.Second)
	w.Want(t)
	w.Clock.Move(time.Second)
	w.Want(t, "component.degraded error ntp", "daemon.down error dns")
	list[0].State = apply.Live
	w.Want(t, "daemon.down error dns")
	// One that recovered in the meantime starts over.
	list[0].State = apply.Degraded
	w.Want(t, "daemon.down error dns")
	w.Answers["/system/components"] = []apply.Status{}
	w.Want(t)

	w.Err = errors.New("connection refused")
	if err := w.Look(t); err == nil {
		t.Error("the check has not failed")
	}
	w.Clock.Move(time.Minute)
	w.Want(t, "daemon.down critical gateway-api")
	w.Err = nil
	w.Want(t)
}
