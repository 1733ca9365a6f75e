package system

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/watch"
)

var (
	memoryFull = &alarm.Kind{
		Name: "system.memory", Severity: alarm.Warning, Mutable: true, Meaning: "The memory of this machine is nearly full.",
	}
	conntrackFull = &alarm.Kind{
		Name: "system.conntrack", Severity: alarm.Warning, Mutable: true,
		Meaning: "The connection table is nearly full. When it is full, new connections are dropped.",
	}
	diskFull = &alarm.Kind{
		Name: "system.disk", Severity: alarm.Warning, Mutable: true, Meaning: "The disk of this machine is nearly full.",
	}
	degraded = &alarm.Kind{
		Name: "component.degraded", Severity: alarm.Error, Mutable: true, After: degradedAfter,
		Meaning: "The saved configuration of a component is not running. The last known good configuration is.",
	}
	daemonDown = &alarm.Kind{
		Name: "daemon.down", Severity: alarm.Error, Mutable: true, After: degradedAfter,
		Meaning: "A daemon is not running although it should.",
	}
)

func degradedAfter(l *alarm.Limits) time.Duration {
	return time.Duration(l.DegradedSeconds) * time.Second
}

// MachineCheck checks memory, disk and connection tracking.
var MachineCheck = watch.Check{
	Name: "watch.machine", Title: "Check memory, disk and connection tracking", Every: time.Minute,
	Kinds: []*alarm.Kind{memoryFull, diskFull, conntrackFull}, Conditions: machineConditions,
}

// ComponentCheck checks whether the stored configuration is in force, and whether the daemons run.
var ComponentCheck = watch.Check{
	Name: "watch.components", Title: "Check that the saved configuration is running", Every: 30 * time.Second,
	Kinds: []*alarm.Kind{degraded, daemonDown}, Conditions: componentConditions,
}

func machineConditions(ctx context.Context, s *watch.Scene) (found []alarm.Alarm, err error) {
	x, err := watch.Get[Resources](ctx, s, "/system/resources")
	if err == nil && x.Error != "" {
		err = errors.New(x.Error)
	}
	if err != nil {
		return nil, err
	}
	for _, y := range []struct {
		kind           *alarm.Kind
		used, total    uint64
		warning, error int
		subject        string
		message        string
	}{
		{memoryFull, x.MemoryTotal - min(x.MemoryTotal, x.MemoryAvailable), x.MemoryTotal, s.MemoryWarning, s.MemoryError, "Memory", "%d %% of the memory is in use."},
		{diskFull, x.DiskTotal - min(x.DiskTotal, x.DiskFree), x.DiskTotal, s.DiskWarning, s.DiskError, "Disk", "%d %% of the disk is in use. When it is full, changes cannot be saved and backups fail."},
		{conntrackFull, x.ConntrackCount, x.ConntrackMax, s.ConntrackWarning, s.ConntrackError, "Connection tracking", "%d %% of the connection table is in use. When it is full, new connections are dropped."},
	} {
		if y.total == 0 {
			continue
		}
		percent := int(y.used * 100 / y.total)
		if percent < y.warning {
			continue
		}
		a := alarm.Alarm{Kind: y.kind, Subject: y.subject, Message: fmt.Sprintf(y.message, percent)}
		if percent >= y.error {
			a.Severity = alarm.Error
		}
		found = append(found, a)
	}
	return found, nil
}

func componentConditions(ctx context.Context, s *watch.Scene) (found []alarm.Alarm, err error) {
	list, err := watch.Get[[]apply.Status](ctx, s, "/system/components")
	if err != nil {
		// Without the API, the state of the components is unknown.
		return []alarm.Alarm{{Kind: daemonDown, Key: "gateway-api", Severity: alarm.Critical, Subject: "gateway-api", Message: "The console and the API do not answer. Traffic continues with the last configuration."}}, err
	}
	for _, c := range list {
		name := string(c.Name)
		if c.State == apply.Degraded {
			message := "The saved configuration is not running. The last known good configuration is."
			if c.LastError != "" {
				message += "\n" + c.LastError
			}
			found = append(found, alarm.Alarm{Kind: degraded, Key: name, Subject: "Component " + name, Message: message})
		}
		// The web application firewall has its own alarm, whose severity depends on the domains.
		if c.Daemon == apply.Down && c.Name != apply.WAF {
			found = append(found, alarm.Alarm{Kind: daemonDown, Key: name, Subject: "Daemon of " + name, Message: "It is not running although it should. The gateway tries to start it again."})
		}
	}
	return found, nil
}
