package alert

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
)

// Sources tell a watcher how things are. One that is nil is not asked.
type Sources struct {
	Load         func(ctx context.Context) (Load, error)
	Certificates func(ctx context.Context) ([]Certificate, error)
	Backends     func(ctx context.Context) ([]Backend, error)
	Tunnels      func(ctx context.Context) ([]Tunnel, error)
	Clock        func(ctx context.Context) (Clock, error)
	License      func(ctx context.Context) (License, error)
	Components   func(ctx context.Context) ([]Component, error)
	Inspection   func(ctx context.Context) (Inspection, error)
	Nodes        func(ctx context.Context) (Cluster, error)
}

// Load is how much of the machine is in use.
type Load struct {
	MemoryTotal, MemoryAvailable uint64
	DiskTotal, DiskFree          uint64
	ConntrackCount, ConntrackMax uint64
	Uptime                       time.Duration
}

// Certificate is one that is shown to visitors.
type Certificate struct {
	ID, Name            string
	NotBefore, NotAfter time.Time
	// Renewed says that the gateway renews it itself.
	Renewed bool
}

// Backend is a group of servers behind the reverse proxy, with what the proxy says about each.
type Backend struct {
	ID, Name string
	Servers  []string
}

// Tunnel is a tunnel to another gateway.
type Tunnel struct {
	ID, Name      string
	Since         time.Time // when it was last changed
	LastHandshake *time.Time
}

// Clock is what the time daemon says about the clock.
type Clock struct {
	Stratum     int
	ReferenceID string
	Uptime      time.Duration
}

// License is how the license stands.
type License struct {
	Invalid bool
	Reason  string
}

// Component is a part of the gateway that follows what is stored.
type Component struct {
	Name     string
	Degraded bool
	Error    string
	// Down says that its daemon does not run although it should.
	Down bool
}

// Inspection is how the web application firewall does.
type Inspection struct {
	Up     bool
	Reason string
	// Blocking and Detecting are how many domains it has in each mode.
	Blocking, Detecting int
	// Missed are the domains with requests of the last minute that were not inspected.
	Missed []Missed
}

// Missed are requests of a domain that were not inspected.
type Missed struct {
	ID, Name            string
	Passed, Refused     int
	Reason              string // of the last one
	FirstSeen, LastSeen time.Time
}

// Cluster is how the cluster does, as this node sees it.
type Cluster struct {
	// Split says that two nodes were the primary at the same time.
	Split bool
	// Nodes are the other ones.
	Nodes []Node
}

// Node is another node of the cluster.
type Node struct {
	ID, Name string
	Online   bool
	// Standby says that it is to follow the primary, and Streaming that it does.
	Standby, Streaming bool
	Lag                time.Duration
	// Drift are the tables in which it differs.
	Drift []string
	// Refused says that it is not synchronised because more than half of what it has would go.
	Refused bool
	// Lost says that the primary has not kept the changes that it needs.
	Lost bool
}

// clockSettles is how long the clock of a machine that has just started may take to follow a source.
const clockSettles = 10 * time.Minute

// Watcher looks whether something is wrong.
type Watcher struct {
	*Room
	Sources
	// since is when something was first seen to be wrong that counts only when it lasts.
	since map[string]time.Time
	// stopped is when a node was first seen not to follow the primary.
	stopped map[string]time.Time
	// uninspected is when the web application firewall was first seen not to answer.
	uninspected time.Time
}

// NewWatcher makes a watcher. Its looks are not for several goroutines at once, except different ones.
func NewWatcher(r *Room, s Sources) *Watcher { return &Watcher{Room: r, Sources: s} }

// percent is a part of a whole; of nothing it is nothing.
func percent(part, whole uint64) int {
	if whole == 0 {
		return 0
	}
	return int(part * 100 / whole)
}

// Machine looks at memory, disk and connection tracking.
func (w *Watcher) Machine(ctx context.Context) error {
	s, err := w.settings.Load(ctx, w.DB)
	if err != nil {
		return err
	}
	x, err := w.Load(ctx)
	if err != nil {
		return err
	}
	used := func(total, free uint64) uint64 { return total - min(total, free) }
	for _, y := range []struct {
		kind           alarm.Kind
		used           int
		warning, error int
		subject        string
		message        string
	}{
		{alarm.Memory, percent(used(x.MemoryTotal, x.MemoryAvailable), x.MemoryTotal), s.MemoryWarning, s.MemoryError, "Memory", "%d %% of the memory is in use."},
		{alarm.Disk, percent(used(x.DiskTotal, x.DiskFree), x.DiskTotal), s.DiskWarning, s.DiskError, "Disk", "%d %% of the disk is in use. When it is full, changes cannot be saved and backups fail."},
		{alarm.Conntrack, percent(x.ConntrackCount, x.ConntrackMax), s.ConntrackWarning, s.ConntrackError, "Connection tracking", "%d %% of the connection table is in use. When it is full, new connections are dropped."},
	} {
		var found []alarm.Alarm
		if y.used >= y.warning {
			a := alarm.Alarm{Kind: y.kind, Severity: alarm.Warning, Subject: y.subject, Message: fmt.Sprintf(y.message, y.used)}
			if y.used >= y.error {
				a.Severity = alarm.Error
			}
			found = append(found, a)
		}
		if err := w.Alarms.Settle(ctx, y.kind, found); err != nil {
			return err
		}
	}
	return nil
}

// Certs looks for certificates that end soon.
func (w *Watcher) Certs(ctx context.Context) error {
	s, err := w.settings.Load(ctx, w.DB)
	if err != nil {
		return err
	}
	list, err := w.Certificates(ctx)
	if err != nil {
		return err
	}
	const day = 24 * time.Hour
	now := w.Room.Clock.Now()
	var found []alarm.Alarm
	for _, c := range list {
		warning, bad := time.Duration(s.CertWarningDays)*day, time.Duration(s.CertErrorDays)*day
		// One that lives for a few days only, and is renewed in its last third, is not to be warned of all its life.
		if life := c.NotAfter.Sub(c.NotBefore); c.Renewed && life < 3*warning {
			warning, bad = life/4, min(bad, life/8)
		}
		left := c.NotAfter.Sub(now)
		if left >= warning {
			continue
		}
		a := alarm.Alarm{Kind: alarm.CertExpiring, Key: c.ID, Severity: alarm.Warning, Subject: "Certificate of " + c.Name}
		if left < bad {
			a.Severity = alarm.Error
		}
		switch days := int(left / day); {
		case left <= 0:
			a.Message = fmt.Sprintf("It expired on %s. Browsers refuse it.", c.NotAfter.UTC().Format("2 January 2006, 15:04 UTC"))
		case days == 1:
			a.Message = "It expires in 1 day."
		case days == 0:
			a.Message = "It expires within a day."
		default:
			a.Message = fmt.Sprintf("It expires in %d days.", days)
		}
		found = append(found, a)
	}
	return w.Alarms.Settle(ctx, alarm.CertExpiring, found)
}

// Proxied looks for backends of which no server answers.
func (w *Watcher) Proxied(ctx context.Context) error {
	list, err := w.Backends(ctx)
	if err != nil {
		return err
	}
	var found []alarm.Alarm
	for _, b := range list {
		down, usable := 0, false
		for _, status := range b.Servers {
			switch status {
			case "DOWN":
				down++
			case "MAINT":
			default:
				usable = true
			}
		}
		if down == 0 || usable {
			continue
		}
		message := fmt.Sprintf("All %d servers are down.", down)
		if down == 1 {
			message = "Its only server is down."
		}
		found = append(found, alarm.Alarm{Kind: alarm.BackendDown, Key: b.ID, Subject: "Backend " + b.Name, Message: message})
	}
	return w.Alarms.Settle(ctx, alarm.BackendDown, found)
}

// neverYet is how long a tunnel may take for its first handshake.
const neverYet = time.Minute

// Tunnelled looks for tunnels to other gateways that have no contact.
func (w *Watcher) Tunnelled(ctx context.Context) error {
	s, err := w.settings.Load(ctx, w.DB)
	if err != nil {
		return err
	}
	list, err := w.Tunnels(ctx)
	if err != nil {
		return err
	}
	now, limit := w.Room.Clock.Now(), time.Duration(s.TunnelDownMinutes)*time.Minute
	var found []alarm.Alarm
	for _, t := range list {
		message := ""
		switch {
		case t.LastHandshake == nil && now.Sub(t.Since) > neverYet:
			message = "There has been no handshake yet."
		case t.LastHandshake != nil && now.Sub(*t.LastHandshake) > limit:
			message = fmt.Sprintf("The last handshake was at %s.", t.LastHandshake.UTC().Format("2006-01-02 15:04 UTC"))
		default:
			continue
		}
		found = append(found, alarm.Alarm{Kind: alarm.TunnelDown, Key: t.ID, Subject: "Tunnel " + t.Name, Message: message})
	}
	return w.Alarms.Settle(ctx, alarm.TunnelDown, found)
}

// Time looks whether the clock follows a source.
func (w *Watcher) Time(ctx context.Context) error {
	x, err := w.Sources.Clock(ctx)
	if err != nil || x.Uptime < clockSettles {
		return err
	}
	var found []alarm.Alarm
	if x.Stratum == 0 || x.Stratum >= 16 || strings.Trim(x.ReferenceID, "0") == "" {
		found = append(found, alarm.Alarm{Kind: alarm.ClockUnsync, Subject: "Clock", Message: "The clock is not synchronised. Check that the time sources can be reached."})
	}
	return w.Alarms.Settle(ctx, alarm.ClockUnsync, found)
}

// Licensed looks at the license.
func (w *Watcher) Licensed(ctx context.Context) error {
	x, err := w.License(ctx)
	if err != nil {
		return err
	}
	var found []alarm.Alarm
	if x.Invalid {
		found = append(found, alarm.Alarm{Kind: alarm.LicenseInvalid, Subject: "License", Message: x.Reason})
	}
	return w.Alarms.Settle(ctx, alarm.LicenseInvalid, found)
}

// Running looks whether what is stored runs, and whether the daemons do.
func (w *Watcher) Running(ctx context.Context) error {
	s, err := w.settings.Load(ctx, w.DB)
	if err != nil {
		return err
	}
	now, limit := w.Room.Clock.Now(), time.Duration(s.DegradedSeconds)*time.Second
	list, err := w.Components(ctx)
	if err != nil {
		// Nothing is known about the components but that the API does not tell.
		if w.lasts("gateway-api", now, limit) {
			return w.Alarms.Raise(ctx, alarm.Alarm{Kind: alarm.DaemonDown, Key: "gateway-api", Severity: alarm.Critical, Subject: "gateway-api", Message: "The console and the API do not answer. Traffic continues with the last configuration."})
		}
		return err
	}
	wrong := map[string]bool{}
	var degraded, down []alarm.Alarm
	for _, c := range list {
		if c.Degraded {
			wrong["degraded "+c.Name] = true
			if w.lasts("degraded "+c.Name, now, limit) {
				message := "The saved configuration is not running. The last known good configuration is."
				if c.Error != "" {
					message += "\n" + c.Error
				}
				degraded = append(degraded, alarm.Alarm{Kind: alarm.Degraded, Key: c.Name, Subject: "Component " + c.Name, Message: message})
			}
		}
		if c.Down {
			wrong["down "+c.Name] = true
			if w.lasts("down "+c.Name, now, limit) {
				down = append(down, alarm.Alarm{Kind: alarm.DaemonDown, Key: c.Name, Subject: "Daemon of " + c.Name, Message: "It is not running although it should. The gateway tries to start it again."})
			}
		}
	}
	maps.DeleteFunc(w.since, func(what string, _ time.Time) bool { return !wrong[what] })
	if err := w.Alarms.Settle(ctx, alarm.Degraded, degraded); err != nil {
		return err
	}
	return w.Alarms.Settle(ctx, alarm.DaemonDown, down)
}

// lasts tells whether something has been wrong for longer than a limit.
func (w *Watcher) lasts(what string, now time.Time, limit time.Duration) bool {
	if w.since == nil {
		w.since = map[string]time.Time{}
	}
	first, seen := w.since[what]
	if !seen {
		w.since[what] = now
		return false
	}
	return now.Sub(first) >= limit
}

// restarts is how long the agent of the web application firewall may take to start again. Requests that are not inspected for no longer
// than that are in its records, and need no alarm.
const restarts = 10 * time.Second

// Inspected looks whether requests are inspected that should be.
func (w *Watcher) Inspected(ctx context.Context) error {
	x, err := w.Inspection(ctx)
	if err != nil {
		return err
	}
	now := w.Room.Clock.Now()
	switch {
	case x.Up:
		w.uninspected = time.Time{}
	case w.uninspected.IsZero():
		w.uninspected = now
	}
	var found []alarm.Alarm
	if !x.Up && x.Blocking+x.Detecting > 0 && now.Sub(w.uninspected) >= restarts {
		a := alarm.Alarm{Kind: alarm.InspectionDown, Severity: alarm.Warning, Subject: "Web application firewall", Message: x.Reason + fmt.Sprintf("\nRequests to %d domains pass without inspection.", x.Detecting)}
		if x.Blocking > 0 {
			a.Severity = alarm.Critical
			a.Message = x.Reason + fmt.Sprintf("\n%d domains are in blocking mode. Their requests are refused, unless the domain is set to let requests pass.", x.Blocking)
		}
		found = append(found, a)
	}
	if err := w.Alarms.Settle(ctx, alarm.InspectionDown, found); err != nil || !x.Up {
		return err // while it is down, each domain has requests that are not inspected
	}
	var missed []alarm.Alarm
	for _, m := range x.Missed {
		if m.LastSeen.Sub(m.FirstSeen) < restarts {
			continue
		}
		a := alarm.Alarm{Kind: alarm.Uninspected, Key: m.ID, Severity: alarm.Warning, Subject: "Domain " + m.Name, Message: fmt.Sprintf("Within a minute, at least %d requests passed without inspection. Why: %s.", m.Passed, m.Reason)}
		if m.Refused > 0 {
			a.Severity = alarm.Critical
			a.Message = fmt.Sprintf("Within a minute, at least %d requests were refused because they could not be inspected. Why: %s.", m.Refused, m.Reason)
		}
		missed = append(missed, a)
	}
	return w.Alarms.Settle(ctx, alarm.Uninspected, missed)
}

// Logins looks for many logins that failed.
func (w *Watcher) Logins(ctx context.Context) error {
	s, err := w.settings.Load(ctx, w.DB)
	if err != nil {
		return err
	}
	n, by, err := w.Audit.Tally(ctx, "auth.login.failed", "remote_ip", w.Room.Clock.Now().Add(-time.Duration(s.FailedLoginsMinutes)*time.Minute))
	if err != nil {
		return err
	}
	var found []alarm.Alarm
	if n >= s.FailedLogins {
		// The names that were tried are left out: they are what a stranger typed.
		from := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })
		message := fmt.Sprintf("At least %d logins failed within %d minutes, from %d addresses.", s.FailedLogins, s.FailedLoginsMinutes, len(from))
		if len(from) == 1 {
			message = fmt.Sprintf("At least %d logins failed within %d minutes, all from %s.", s.FailedLogins, s.FailedLoginsMinutes, from[0])
		} else {
			message += fmt.Sprintf(" Most of them came from %s.", from[0])
		}
		found = append(found, alarm.Alarm{Kind: alarm.FailedLogins, Subject: "Failed logins", Message: message})
	}
	return w.Alarms.Settle(ctx, alarm.FailedLogins, found)
}

// Clustered looks at the other nodes.
func (w *Watcher) Clustered(ctx context.Context) error {
	s, err := w.settings.Load(ctx, w.DB)
	if err != nil {
		return err
	}
	x, err := w.Nodes(ctx)
	if err != nil {
		return err
	}
	now, limit := w.Room.Clock.Now(), time.Duration(s.ReplicationLag)*time.Second
	found := map[alarm.Kind][]alarm.Alarm{alarm.NodeOffline: nil, alarm.ReplicationLag: nil, alarm.ReplicationDrift: nil, alarm.SlotLost: nil, alarm.SplitBrain: nil}
	if x.Split {
		found[alarm.SplitBrain] = []alarm.Alarm{{Kind: alarm.SplitBrain, Subject: "Cluster", Message: "Two nodes were the primary at the same time. Neither accepts changes. Promote the one with the changes that you want to keep; the other one keeps its own in a file."}}
	}
	still := map[string]time.Time{}
	for _, n := range x.Nodes {
		raise := func(kind alarm.Kind, severity alarm.Severity, message string) {
			found[kind] = append(found[kind], alarm.Alarm{Kind: kind, Key: n.ID, Severity: severity, Subject: "Node " + n.Name, Message: message})
		}
		if n.Lost {
			raise(alarm.SlotLost, "", "It was away for longer than the primary keeps changes for it. Repair its replication.")
		}
		if !n.Online {
			raise(alarm.NodeOffline, "", "It cannot be reached.")
			continue
		}
		switch {
		case n.Refused:
			raise(alarm.ReplicationDrift, "", "It is not synchronised with the primary, because it would lose more than half of its data. Check that the primary is the right one, then repair the node with force.")
		case len(n.Drift) > 0:
			raise(alarm.ReplicationDrift, "", "Its configuration differs from this node's, in "+strings.Join(n.Drift, ", ")+". Repair its replication.")
		}
		// A standby that does not follow falls behind from when it stopped.
		if n.Standby && !n.Streaming {
			since, known := w.stopped[n.ID]
			if !known {
				since = now
			}
			still[n.ID] = since
			n.Lag = max(n.Lag, now.Sub(since))
		}
		switch {
		case n.Lag >= 10*limit:
			raise(alarm.ReplicationLag, alarm.Error, fmt.Sprintf("Its database is more than %d seconds behind.", 10*s.ReplicationLag))
		case n.Lag >= limit:
			raise(alarm.ReplicationLag, alarm.Warning, fmt.Sprintf("Its database is more than %d seconds behind.", s.ReplicationLag))
		}
	}
	w.stopped = still
	for kind, list := range found {
		if err := w.Alarms.Settle(ctx, kind, list); err != nil {
			return err
		}
	}
	return nil
}
