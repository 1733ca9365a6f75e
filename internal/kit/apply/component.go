// Package apply owns the way from the stored state to the running daemons: the components, the engine that brings each
// of them to what is stored, and what is known about how far it got.
package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/actor"
	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/policy"
)

// ID names a component.
type ID string

// The components. A resource may feed one that this machine does not have.
const (
	NTP          ID = "ntp"
	Network      ID = "network"
	PacketFilter ID = "packet-filter"
	ReverseProxy ID = "reverse-proxy"
	DNS          ID = "dns"
	ForwardProxy ID = "forward-proxy"
	DHCP         ID = "dhcp"
	RADIUS       ID = "radius"
	Tunnel       ID = "tunnel"
	// WAF inspects the requests of the reverse proxy.
	WAF ID = "waf"
	// Detection finds attacks, and Bouncer drops the packets of who is banned for them.
	Detection ID = "ids"
	Bouncer   ID = "ids-firewall-bouncer"
	// VRRP has the virtual addresses of a cluster be on one of its nodes.
	VRRP ID = "vrrp"
)

// State says how far a component is.
type State string

// The states.
const (
	// Live: what is stored is what runs, and that was verified.
	Live State = "live"
	// Pending: stored, and not applied yet.
	Pending State = "pending"
	// Degraded: stored, and could not be applied; the last known good configuration runs, if there is one.
	Degraded State = "degraded"
	// NotInstalled: there is no such daemon on this machine.
	NotInstalled State = "not_installed"
)

// Daemon says what the daemon behind a component does.
type Daemon string

// What a daemon does. A component of the kernel has none.
const (
	Running Daemon = "running"
	Down    Daemon = "down"
	Off     Daemon = "off"
)

// Component is a part of the machine that is configured from the stored state. C is all that its configuration
// depends on. The functions are called by one goroutine at a time, but for Load, Render and Check, which also run in
// the transaction of a change.
type Component[C any] struct {
	ID ID
	// Unit is the daemon behind the component; there is none where the kernel itself is configured.
	Unit host.Unit
	// Enabled, where there is one, says whether the daemon shall run at all. One that shall not is stopped, now and at the
	// next boot, and neither Apply nor Verify is asked.
	Enabled func(C) bool
	// Load reads the whole configuration; it must read nothing else.
	Load func(ctx context.Context, q db.Querier) (C, error)
	// Amend, where there is one, makes the configuration that Load would read after a change from the one before it and the rows that the change has
	// touched, so that a change of one row does not read all others. It says no when it takes more than that.
	Amend func(ctx context.Context, q db.Querier, was C, rows []Row) (now C, ok bool, err error)
	// Adapt, where there is one, brings into a configuration what the machine is like by now, as Load does. It asks no database: while that is
	// away, the daemon still follows the machine.
	Adapt func(ctx context.Context, c C) (C, error)
	// Render is a pure function from the configuration to the files.
	Render func(C) ([]host.File, error)
	// Check asks the daemon's own checker about files that are staged, not live.
	Check func(ctx context.Context, files []host.File) error
	// Apply makes the daemon take the files, which are installed: reload or restart.
	Apply func(ctx context.Context, c C, files []host.File) error
	// Atomic says that Apply needs no installed files, and takes all of them or refuses all: then it is the check, too. A
	// change is applied before it is committed, and what was there comes back if it is not. Check is asked for previews.
	Atomic bool
	// Verify says whether the daemon runs with the configuration, which is that of the files.
	Verify func(ctx context.Context, c C, files []host.File) error
	// Volatile says that the kernel forgets at a reboot what was applied: the configuration is kept, sealed, and applied at the next
	// start if the database is away then.
	Volatile bool
	// Openings, where there are any, are what the daemon asks of the packet filter when it runs with a configuration.
	Openings func(C) []policy.Opening
	// Runtime, where the daemon has one, is the way to change it while it runs, whose cost depends on the change and not
	// on the size of the configuration.
	Runtime *Runtime[C]
}

// Runtime changes a daemon while it runs. The files are brought to the same end state, without a reload.
type Runtime[C any] struct {
	// Can says whether the typed operations can carry the change; then no checker is asked.
	Can func(was, now C) bool
	// Do carries it out. When it fails, or the daemon is not as it should be afterwards, the full way is taken.
	Do func(ctx context.Context, was, now C) error
	// Plan, where there is one, finds the operations from the rows that a change touches alone, so that nothing else is read.
	// It runs in the change's transaction, and says nil when it takes more than that. The step is taken after the commit;
	// the files follow a moment later.
	Plan func(ctx context.Context, tx *db.Tx, rows []Row) (Step, error)
}

// Row is what a change does to one row: pointers to it before and after, nil where there is none.
type Row struct {
	Kind     string
	Was, Now any
}

// Step brings a running daemon from one revision to the next.
type Step func(ctx context.Context) error

// Partial is the error of a component that took all that it could: one bad object must not stop the rest. The component is
// degraded, and no earlier configuration is put back, because that would take the rest away.
type Partial struct {
	// Problems are sentences, one for each thing that is not as it should be.
	Problems []string
}

func (p *Partial) Error() string { return strings.Join(p.Problems, "; ") }

// Status is how far a component is.
type Status struct {
	Name            ID         `json:"name" doc:"Name of the component."`
	State           State      `json:"state" enum:"live,pending,degraded,not_installed" doc:"Whether the saved configuration is running."`
	Revision        int64      `json:"revision" doc:"Number of saved changes."`
	AppliedRevision int64      `json:"applied_revision" doc:"The newest saved change that is live."`
	Daemon          Daemon     `json:"daemon" enum:",running,down,off" doc:"State of its daemon. off: turned off in the settings. down: not running although it should. Empty if it has no daemon."`
	LastError       string     `json:"last_error" doc:"Why it is not live, in a sentence; empty when it is."`
	Detail          string     `json:"detail" doc:"The daemon's own message behind last_error, for administrators; empty for other users."`
	LastAppliedAt   *time.Time `json:"last_applied_at" doc:"When it last became live."`
	DurationMS      int64      `json:"duration_ms" doc:"How long the last apply took."`
}

// erased is a component whose configuration type is hidden from the engine.
type erased struct {
	id   ID
	unit host.Unit
	// load reads the configuration.
	load  func(ctx context.Context, q db.Querier) (any, error)
	amend func(ctx context.Context, q db.Querier, was any, rows []Row) (now any, ok bool, err error)
	// adapt is nil for a component whose configuration is all stored.
	adapt  func(ctx context.Context, c any) (any, error)
	render func(c any) ([]host.File, error)
	check  func(ctx context.Context, files []host.File) error
	apply  func(ctx context.Context, c any, files []host.File) error
	atomic bool
	on     func(c any) bool
	verify func(ctx context.Context, c any, files []host.File) error
	can    func(was, now any) bool
	do     func(ctx context.Context, was, now any) error
	plan   func(ctx context.Context, tx *db.Tx, rows []Row) (Step, error)
	// decode reads a configuration that was kept; nil where none is.
	decode func(b []byte) (any, error)
	// openings is nil for a component that asks nothing of the packet filter.
	openings func(c any) []policy.Opening
}

func erase[C any](m host.Machine, c Component[C]) erased {
	e := erased{
		id: c.ID, unit: c.Unit, check: c.Check, atomic: c.Atomic,
		load:   func(ctx context.Context, q db.Querier) (any, error) { return c.Load(ctx, q) },
		render: func(v any) ([]host.File, error) { return c.Render(v.(C)) },
		apply:  func(ctx context.Context, v any, files []host.File) error { return c.Apply(ctx, v.(C), files) },
		verify: func(ctx context.Context, v any, files []host.File) error { return c.Verify(ctx, v.(C), files) },
		on:     func(any) bool { return true },
		can:    func(any, any) bool { return false },
		plan:   func(context.Context, *db.Tx, []Row) (Step, error) { return nil, nil },
		amend:  func(context.Context, db.Querier, any, []Row) (any, bool, error) { return nil, false, nil },
	}
	if c.Amend != nil {
		e.amend = func(ctx context.Context, q db.Querier, was any, rows []Row) (any, bool, error) {
			return c.Amend(ctx, q, was.(C), rows)
		}
	}
	if c.Volatile {
		e.decode = func(b []byte) (any, error) {
			var v C
			err := json.Unmarshal(b, &v)
			return v, err
		}
	}
	if c.Adapt != nil {
		e.adapt = func(ctx context.Context, v any) (any, error) { return c.Adapt(ctx, v.(C)) }
	}
	if c.Openings != nil {
		e.openings = func(v any) []policy.Opening { return c.Openings(v.(C)) }
	}
	if c.Enabled != nil {
		e.on = func(v any) bool { return c.Enabled(v.(C)) }
		e.apply = func(ctx context.Context, v any, files []host.File) error {
			on := c.Enabled(v.(C))
			switch err := m.Enable(ctx, c.Unit, on); {
			case err != nil:
				return err
			case on:
				return c.Apply(ctx, v.(C), files)
			}
			return m.Stop(ctx, c.Unit)
		}
		e.verify = func(ctx context.Context, v any, files []host.File) error {
			if c.Enabled(v.(C)) {
				return c.Verify(ctx, v.(C), files)
			}
			return stopped(ctx, m, c.Unit)
		}
	}
	if c.Runtime != nil {
		e.can = func(was, now any) bool { return was != nil && c.Runtime.Can(was.(C), now.(C)) }
		e.do = func(ctx context.Context, was, now any) error { return c.Runtime.Do(ctx, was.(C), now.(C)) }
		if c.Runtime.Plan != nil {
			e.plan = c.Runtime.Plan
		}
	}
	return e
}

// stopped complains about a daemon that runs.
func stopped(ctx context.Context, m host.Machine, u host.Unit) error {
	state, err := m.State(ctx, u)
	if err == nil && (state.Active == "active" || state.Active == "activating") {
		err = fmt.Errorf("%s runs, and should not", u)
	}
	return err
}

// refused is an error of a daemon's checker: the daemon was asked and said no.
func refused(err error) bool {
	_, ok := errors.AsType[*host.ExitError](err)
	return ok
}

// refusal is a change that the daemon's checker refuses. What it says may show more of the machine than a viewer's preview may.
func refusal(ctx context.Context, id ID, err error) error {
	message := fmt.Sprintf("%s refuses this configuration", id)
	if actor.From(ctx).Role == actor.Viewer {
		message += ". Administrators can see the reason."
	} else {
		message += ": " + err.Error()
	}
	return &fault.Error{Kind: fault.Invalid, Message: message, Details: map[string]string{"component": string(id)}}
}
