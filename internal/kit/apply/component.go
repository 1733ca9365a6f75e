// Package apply brings the stored state to the running daemons. It has the components, the engine that brings each of them to
// what is stored, and their status.
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
	// Detection finds attacks, and Bouncer drops the packets of clients that are banned for them.
	Detection ID = "ids"
	Bouncer   ID = "ids-firewall-bouncer"
	// VRRP assigns the virtual addresses of a cluster to one of its nodes.
	VRRP ID = "vrrp"
)

// State says how far a component got.
type State string

// States of a component.
const (
	// Live: the stored state runs, which was verified.
	Live State = "live"
	// Pending: stored, but not applied yet.
	Pending State = "pending"
	// Degraded: stored, but could not be applied; the last known good configuration runs, if there is one.
	Degraded State = "degraded"
	// NotInstalled: this machine does not have the daemon.
	NotInstalled State = "not_installed"
)

// Daemon is the state of a component's daemon.
type Daemon string

// States of a daemon. A component of the kernel has none.
const (
	Running Daemon = "running"
	Down    Daemon = "down"
	Off     Daemon = "off"
)

// Component is a part of the machine that is configured from the stored state. C is everything that its configuration depends on.
// The functions are called by one goroutine at a time, except for Load, Render and Check, which also run in the transaction of a
// change.
type Component[C any] struct {
	ID ID
	// Unit is the daemon; empty if the kernel itself is configured.
	Unit host.Unit
	// Enabled, if set, reports whether the daemon should run at all. Otherwise it is stopped and disabled, and neither Apply nor
	// Verify is called.
	Enabled func(C) bool
	// Early says that a daemon that is down when the program starts is started with the files that it last ran with, as systemd does when
	// the machine starts, before the stored state is read. It is for a daemon that takes long to start.
	Early bool
	// Load reads the whole configuration, and must read nothing else.
	Load func(ctx context.Context, q db.Querier) (C, error)
	// Amend, if set, derives the configuration that Load would read after a change from the previous one and the changed rows, so
	// that a change of one row does not read all others. ok is false if that is not possible.
	Amend func(ctx context.Context, q db.Querier, was C, rows []Row) (now C, ok bool, err error)
	// Adapt, if set, updates those parts of a configuration that Load takes from the machine. It must not use the database: while
	// that is unavailable, the daemon still follows the machine.
	Adapt func(ctx context.Context, c C) (C, error)
	// Render is a pure function from the configuration to the files.
	Render func(C) ([]host.File, error)
	// Check asks the daemon's own checker about staged files.
	Check func(ctx context.Context, files []host.File) error
	// Reduce, if set, returns what Check needs of the files of a configuration after the checker has accepted those of another, so
	// that the cost of a check depends on the change. Check must refuse the result if and only if it would refuse all files, and with
	// the same error. Previews check all files.
	Reduce func(was C, accepted []host.File, now C, files []host.File) []host.File
	// Apply makes the daemon use the installed files, by a reload or restart.
	Apply func(ctx context.Context, c C, files []host.File) error
	// Atomic says that Apply needs no installed files, and takes all of them or none, which makes it the check, too. A change is
	// applied before it is committed, and undone if the commit fails. Check is used for previews.
	Atomic bool
	// Verify returns an error unless the daemon runs with the configuration c, which files were rendered from.
	Verify func(ctx context.Context, c C, files []host.File) error
	// Volatile says that the kernel loses the configuration at a reboot: it is kept, sealed, and applied by the next start if the
	// database is unavailable then.
	Volatile bool
	// Openings, if set, returns what the daemon asks of the packet filter when it runs with a configuration.
	Openings func(C) []policy.Opening
	// Runtime, if set, changes the daemon while it runs, at a cost that depends on the change and not on the size of the
	// configuration.
	Runtime *Runtime[C]
}

// Runtime changes a daemon while it runs. The files reach the same final state without a reload.
type Runtime[C any] struct {
	// Can reports whether the runtime operations can make the change; the checker is not asked then.
	Can func(was, now C) bool
	// Do makes the change. If it fails, or Verify fails afterwards, the daemon is reloaded.
	Do func(ctx context.Context, was, now C) error
	// Plan, if set, derives the operations from the changed rows, so that nothing else is read. It runs in the change's
	// transaction, and returns nil if the rows do not suffice. The step is taken after the commit; the files follow a moment
	// later.
	Plan func(ctx context.Context, tx *db.Tx, rows []Row) (Step, error)
}

// Row is what a change does to one row: pointers to it before and after; nil if it does not exist.
type Row struct {
	Kind     string
	Was, Now any
}

// Step brings a running daemon from one revision to the next.
type Step func(ctx context.Context) error

// Partial is the error of a component that took all that it could: one bad object must not stop the rest. The component is
// degraded, but does not fall back, because that would take the rest away.
type Partial struct {
	// Problems are sentences, one for each thing that failed.
	Problems []string
}

func (p *Partial) Error() string { return strings.Join(p.Problems, "; ") }

// Status says how far a component got.
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

// erased is a component with its type parameter erased.
type erased struct {
	id    ID
	unit  host.Unit
	early bool
	load  func(ctx context.Context, q db.Querier) (any, error)
	amend func(ctx context.Context, q db.Querier, was any, rows []Row) (now any, ok bool, err error)
	// adapt is nil if the configuration does not depend on the machine.
	adapt  func(ctx context.Context, c any) (any, error)
	render func(c any) ([]host.File, error)
	check  func(ctx context.Context, files []host.File) error
	reduce func(was any, accepted []host.File, now any, files []host.File) []host.File
	apply  func(ctx context.Context, c any, files []host.File) error
	atomic bool
	on     func(c any) bool
	verify func(ctx context.Context, c any, files []host.File) error
	can    func(was, now any) bool
	do     func(ctx context.Context, was, now any) error
	plan   func(ctx context.Context, tx *db.Tx, rows []Row) (Step, error)
	// decode reads a kept configuration; nil if none is kept.
	decode func(b []byte) (any, error)
	// openings is nil for a component that asks nothing of the packet filter.
	openings func(c any) []policy.Opening
}

func erase[C any](m host.Machine, c Component[C]) erased {
	e := erased{
		id: c.ID, unit: c.Unit, early: c.Early, check: c.Check, atomic: c.Atomic,
		load:   func(ctx context.Context, q db.Querier) (any, error) { return c.Load(ctx, q) },
		render: func(v any) ([]host.File, error) { return c.Render(v.(C)) },
		apply:  func(ctx context.Context, v any, files []host.File) error { return c.Apply(ctx, v.(C), files) },
		verify: func(ctx context.Context, v any, files []host.File) error { return c.Verify(ctx, v.(C), files) },
		on:     func(any) bool { return true },
		can:    func(any, any) bool { return false },
		plan:   func(context.Context, *db.Tx, []Row) (Step, error) { return nil, nil },
		amend:  func(context.Context, db.Querier, any, []Row) (any, bool, error) { return nil, false, nil },
		reduce: func(_ any, _ []host.File, _ any, files []host.File) []host.File { return files },
	}
	if c.Reduce != nil {
		e.reduce = func(was any, accepted []host.File, now any, files []host.File) []host.File {
			return c.Reduce(was.(C), accepted, now.(C), files)
		}
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

func stopped(ctx context.Context, m host.Machine, u host.Unit) error {
	state, err := m.State(ctx, u)
	if err == nil && (state.Active == "active" || state.Active == "activating") {
		err = fmt.Errorf("%s is running, but should not be", u)
	}
	return err
}

// refused reports whether the daemon's checker ran and refused.
func refused(err error) bool {
	_, ok := errors.AsType[*host.ExitError](err)
	return ok
}

// refusal returns the error for a change that the daemon's checker refuses. The checker's message may reveal more of the machine
// than viewers may see.
func refusal(ctx context.Context, id ID, err error) error {
	message := fmt.Sprintf("%s refuses this configuration", id)
	if actor.From(ctx).Role == actor.Viewer {
		message += ". Administrators can see the reason."
	} else {
		message += ": " + err.Error()
	}
	return &fault.Error{Kind: fault.Invalid, Message: message, Details: map[string]string{"component": string(id)}}
}
