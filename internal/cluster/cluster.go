// Package cluster owns what this gateway is among others: its role and epoch, the nodes that it knows, and when it follows another one.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/throttle"
)

// Role is what a node is in the cluster. Only a single node and the primary take changes of what all nodes share; the guard in the database sees to it.
type Role string

// The roles.
const (
	// Single has no cluster.
	Single Role = "single"
	// Primary is written.
	Primary Role = "primary"
	// SteppingDown was the primary a moment ago, and is it again if no other node becomes it.
	SteppingDown Role = "stepping-down"
	// Standby follows the primary.
	Standby Role = "standby"
	// Fenced was the primary and has heard of a newer one, which it does not follow yet.
	Fenced Role = "fenced"
)

// State is what this node is.
type State struct {
	Role Role
	// Epoch is that of the primary which it is, or follows, or has heard of. Of two primaries the one with the newer epoch is right.
	Epoch int64
	// PrimaryID and PrimaryName say which node is written.
	PrimaryID, PrimaryName string
	Slot                   string
	ChangedAt              time.Time
	// SyncedAt is when all of it was last compared with the primary.
	SyncedAt *time.Time
}

// Load reads what a node is.
func Load(ctx context.Context, q db.Querier) (State, error) {
	rows, err := q.Query(ctx, `SELECT role, epoch, primary_id, primary_name, slot, changed_at, synced_at FROM ha_state`)
	if err != nil {
		return State{}, err
	}
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[State])
	return s, err
}

// Deps is what the room needs of others.
type Deps struct {
	// Node is who this gateway is to the others.
	Node func() Node
	// Database is how the database of another node is reached, as PostgreSQL takes it. See Reach.
	Database func(Member) (conninfo string, err error)
	// MembersChanged hears that nodes have come or gone, before the others hear of it: the database is opened to them, or closed. It may be nil.
	MembersChanged func(ctx context.Context, members []Member) error
	// Feeds are the components that are rendered from the list of nodes.
	Feeds []apply.ID
	// Update has the gateway replaced by another version, and does not wait for it.
	Update func(ctx context.Context, version string) error
	// Pace is the usual one if it is nil.
	Pace *Pace
	// Settings are those of this node alone that should be the same on all nodes, by the names of their fields. It may be nil.
	Settings func(ctx context.Context) (map[string]string, error)
	// Leave is part of the transaction that makes this node one without a cluster. It may be nil.
	Leave func(ctx context.Context, tx *db.Tx) error
	// Left hears when that is done. It may be nil.
	Left func() error
	// Shown returns when the reverse proxy shows what JoinCertificate has, or has failed to. It may be nil.
	Shown func(ctx context.Context)
	// Drain has another node take the virtual addresses, and returns when that is done, or lets this one have them again. It may be nil.
	Drain func(ctx context.Context, on bool) error
	// HoldsVIP tells whether the virtual addresses are here. It may be nil.
	HoldsVIP func(ctx context.Context) bool
	// Virtual tells whether an address moves between the nodes, so that none of them is found by it. It may be nil.
	Virtual func(ctx context.Context, address string) (bool, error)
	// Accounts are those that users log in with. It may be nil.
	Accounts Accounts
	// Management is where the API of the primary with a name is asked for a certificate. See Manage.
	Management func(primary string) (address string)
}

// Room is the cluster.
type Room struct {
	*kit.Kit
	deps Deps
	// role is what Role tells.
	role atomic.Value
	// tokens is the secret that join tokens are signed with.
	tokens   []byte
	guesses  *throttle.Throttle
	agents   *httpd.Router
	identity atomic.Pointer[identity] // nil while the node is in no cluster
	changed  chan struct{}            // told when the identity has changed
	port     atomic.Int64             // the agent listener's
	heard    heard
	joins    atomic.Pointer[string] // what is being done while the node joins a cluster
	follows  sync.Mutex             // held by whoever follows another node
	admits   sync.Mutex             // held by whoever has the database take its settings
	unready  atomic.Int64           // when PostgreSQL did not start with the settings for other nodes, in seconds; 0 if it did
	rolls    rolls
	line     atomic.Pointer[line]
	api      func() http.Handler
}

// Node is who this gateway is to the others.
type Node struct {
	ID, Name string
}

// Reach says how the database of another node is reached, before the room is used.
func (r *Room) Reach(database func(Member) (conninfo string, err error)) { r.deps.Database = database }

// Manage says where the management port of a primary is, if it is not the usual one of its name, before the room is used.
func (r *Room) Manage(management func(primary string) (address string)) {
	r.deps.Management = management
}

func (r *Room) node() Node { return r.deps.Node() }

// Role is what this node was last seen to be; empty if it has not been looked yet.
func (r *Room) Role() Role {
	role, _ := r.role.Load().(Role)
	return role
}

// see has Role tell what the node is now.
func (r *Room) see(ctx context.Context) {
	if s, err := Load(ctx, r.DB); err == nil {
		r.role.Store(s.Role)
	}
}

// New builds the room. The secret of join tokens is made when there is none.
func New(k *kit.Kit, d Deps) (*Room, error) {
	r := &Room{Kit: k, deps: d, guesses: throttle.New(k.Clock, throttle.Guessing), agents: httpd.NewRouter(k.Log), changed: make(chan struct{}, 1)}
	if r.deps.Pace == nil {
		r.deps.Pace = &usual
	}
	r.rolls.begun = make(chan struct{}, 1)
	r.api = sync.OnceValue(func() http.Handler { return k.Router.Handler(http.NotFoundHandler()) })
	var err error
	if r.tokens, err = secret.File(r.file("join-secret"), tokenSecret); err != nil {
		return nil, fmt.Errorf("the secret of join tokens: %w", err)
	}
	if err := r.loadIdentity(); err != nil {
		k.Log.Error("this node cannot prove to others who it is", "err", err)
	}
	return r, nil
}

func (r *Room) file(name string) string { return r.Paths.State(filepath.Join(Folder, name)) }

// Mount declares the room's tables and adds its routes.
func (r *Room) Mount() {
	r.Resources.Declare("ha_state", resource.Local)
	r.Resources.Declare("ha_join_tokens", resource.Local)
	r.Resources.Declare("ha_nodes", resource.Shared, "status", "version", "config_hash")
	r.Resources.Declare("ha_ca", resource.Shared)
	r.mountPublic()
	r.mountAgents()
	r.mountForward()
	r.mountOutbox()
	r.mountDifferences()
}

// Run watches the other nodes, and lets replication go on that a sync which was killed has stopped, until the context ends.
func (r *Room) Run(ctx context.Context) {
	ctx = actor.With(ctx, actor.System("cluster"))
	for looked := false; ; {
		if s, err := Load(ctx, r.DB); err == nil {
			// A repair, which is done by another program, may have made a former primary a standby.
			if was := r.role.Swap(s.Role); was != nil && was != s.Role {
				r.Engine.Converge()
			}
			if !looked {
				looked = true
				r.endInterrupted()
			}
			if s.Role == Standby {
				switch healed, err := replica.Heal(ctx, r.DB); {
				case err != nil && !db.Away(err):
					r.Log.Warn("cannot tell whether replication has stopped", "err", err)
				case healed:
					r.Log.Warn("replication stood still because a sync was interrupted, and goes on")
				}
			}
			if s.Role != Single || r.identity.Load() != nil {
				r.beat(ctx, s)
			} else if err := r.dismissed(ctx); err != nil {
				r.Log.Warn("PostgreSQL still listens to the nodes of the cluster that this one has left", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-r.Clock.After(r.deps.Pace.Beat):
		}
	}
}

// decideWithin is how long a change of the role waits for changes that are under way: a preview has ten seconds.
const decideWithin = "15s"

// decide changes the role in a transaction that no change of shared rows runs beside: those that were under way are over, and those that
// wait see the new role.
func (r *Room) decide(ctx context.Context, f func(tx *db.Tx, was State) error) error {
	defer r.see(ctx)
	err := r.DB.Write(ctx, func(tx *db.Tx) error {
		was, err := alone(ctx, tx)
		if err != nil {
			return err
		}
		return f(tx, was)
	})
	if err == nil {
		r.Engine.Converge() // the role decides what runs here
	}
	return err
}

// alone waits until no change of shared rows runs beside a transaction, and tells what the node is.
func alone(ctx context.Context, tx *db.Tx) (State, error) {
	tx.Queue("SET LOCAL lock_timeout = '" + decideWithin + "'")
	tx.Queue("SET LOCAL statement_timeout = '" + decideWithin + "'")
	tx.Queue("SELECT pg_advisory_xact_lock(22, 0)")
	return Load(ctx, tx)
}

// become is what changes in the database when the role does.
func become(tx *db.Tx, role Role, epoch int64, primary Node, at time.Time) {
	tx.Queue(`UPDATE ha_state SET role = $1, epoch = $2, primary_id = $3, primary_name = $4, changed_at = $5`, role, epoch, primary.ID, primary.Name, at)
}

// refuse says that the role does not fit.
func refuse(was State, want string) error {
	return fault.New(fault.Conflict, "This node is %s, and only %s can do this.", was.Role.words(), want)
}

func (r Role) words() string {
	switch r {
	case Single:
		return "not in a cluster"
	case Primary:
		return "the primary"
	case SteppingDown:
		return "stepping down as the primary"
	case Fenced:
		return "a former primary that accepts no changes"
	default:
		return "a standby"
	}
}

// Found makes a single node the primary of a cluster.
func (r *Room) Found(ctx context.Context) error {
	return r.decide(ctx, func(tx *db.Tx, was State) error {
		if was.Role != Single {
			return refuse(was, "a node without a cluster")
		}
		become(tx, Primary, was.Epoch+1, r.node(), r.Clock.Now())
		return r.Audit.Write(ctx, tx, "cluster.found", r.node().Name, map[string]any{"epoch": was.Epoch + 1})
	})
}

// StepDown has the primary take no more changes, and answers the id of its last audit entry: a node that has that has all.
func (r *Room) StepDown(ctx context.Context) (last uuid.UUID, err error) {
	err = r.decide(ctx, func(tx *db.Tx, was State) (err error) {
		if was.Role != Primary {
			return refuse(was, "the primary")
		}
		if last, err = r.Audit.WriteMark(ctx, tx, "cluster.step-down", r.node().Name, map[string]any{"epoch": was.Epoch}); err != nil {
			return err
		}
		become(tx, SteppingDown, was.Epoch, r.node(), r.Clock.Now())
		return nil
	})
	return last, err
}

// Resume has a primary that stepped down for nobody take changes again. Whether a newer primary is there must have been asked before.
func (r *Room) Resume(ctx context.Context) error {
	return r.decide(ctx, func(tx *db.Tx, was State) error {
		if was.Role != SteppingDown {
			return refuse(was, "a primary that is stepping down")
		}
		become(tx, Primary, was.Epoch, r.node(), r.Clock.Now())
		return r.Audit.Write(ctx, tx, "cluster.resume", r.node().Name, map[string]any{"epoch": was.Epoch})
	})
}

// Fence has a primary that hears of a newer one take no more changes. It tells whether that was so: what is no primary goes on.
func (r *Room) Fence(ctx context.Context, epoch int64, newer Node) (fenced bool, err error) {
	err = r.decide(ctx, func(tx *db.Tx, was State) error {
		if fenced = (was.Role == Primary || was.Role == SteppingDown) && epoch > was.Epoch; fenced {
			become(tx, Fenced, epoch, newer, r.Clock.Now())
			return r.Audit.Write(ctx, tx, "cluster.fence", r.node().Name, map[string]any{"epoch": epoch, "primary": newer.Name})
		}
		return nil
	})
	return fenced, err
}

// Split has a primary take no more changes that hears of another one of the same epoch: no one can say which of both is right until a person promotes
// one of them. It tells whether that was so.
func (r *Room) Split(ctx context.Context, epoch int64, other Node) (split bool, err error) {
	err = r.decide(ctx, func(tx *db.Tx, was State) error {
		if split = was.Role == Primary && epoch == was.Epoch; split {
			become(tx, Fenced, epoch, Node{}, r.Clock.Now())
			return r.Audit.Write(ctx, tx, "cluster.split-brain", r.node().Name, map[string]any{"epoch": epoch, "other": other.Name})
		}
		return nil
	})
	return split, err
}

// split tells whether the node was one of two primaries of the same epoch, and no one has decided yet.
func (s State) split() bool { return s.Role == Fenced && s.PrimaryID == "" }

// Promotion says how a node becomes the primary.
type Promotion struct {
	// Last is the id of the last audit entry of the primary that has stepped down; without it, what this node has not got is lost.
	Last uuid.UUID
	// Newest is the newest epoch that was heard of.
	Newest int64
	Forced bool
}

const (
	// arrivesWithin is how long what the primary had may take to arrive, and arrivesEvery how often we look.
	arrivesWithin = 10 * time.Second
	arrivesEvery  = 20 * time.Millisecond
)

// Promote makes a node the primary of a newer epoch. One that fails leaves it what it was.
func (r *Room) Promote(ctx context.Context, p Promotion) (epoch int64, err error) {
	if !p.Forced {
		if err := failpoint.Hit("promote.stepped-down"); err != nil {
			return 0, err
		}
		if err := r.await(ctx, p.Last); err != nil {
			return 0, err
		}
	}
	if err := failpoint.Hit("promote.arrived"); err != nil {
		return 0, err
	}
	err = r.decide(ctx, func(tx *db.Tx, was State) error {
		if was.Role != Standby && was.Role != Fenced {
			return refuse(was, "a standby")
		}
		var free bool
		if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(22, 1)").Scan(&free); err != nil {
			return err
		}
		if !free {
			return fault.New(fault.Conflict, "This node is being synchronised. Try again when that is over.")
		}
		epoch = max(was.Epoch, p.Newest) + 1
		tx.Queue("SELECT gateway_cluster.unsubscribe()")
		become(tx, Primary, epoch, r.node(), r.Clock.Now())
		tx.Queue("UPDATE ha_state SET slot = ''")
		if err := r.takeOver(ctx, tx); err != nil {
			return err
		}
		if err := r.Audit.Write(ctx, tx, "cluster.promote", r.node().Name, map[string]any{"epoch": epoch, "was": was.PrimaryName, "forced": p.Forced}); err != nil {
			return err
		}
		return failpoint.Hit("promote.written")
	})
	if err == nil {
		err = failpoint.Hit("promote.committed")
	}
	return epoch, err
}

// await waits for the last entry of the primary.
func (r *Room) await(ctx context.Context, last uuid.UUID) error {
	has, err := r.arrived(ctx, last, arrivesWithin)
	if err == nil && !has {
		err = fault.New(fault.Unavailable, "The last changes of the primary have not arrived here. Nothing was done: try again when replication has caught up.")
	}
	return err
}

var errNoPrimary = errors.New("it is not the primary")

// describe is an error about the other node.
func describe(err error) error {
	return fault.Wrap(fault.Unavailable, err, "This node cannot replicate from that node: %s.", err)
}

// follows judges whether the state of another node is one to follow.
func follows(mine, other State) error {
	switch {
	case other.Role != Primary:
		return describe(fmt.Errorf("%w: %s", errNoPrimary, other.Role.words()))
	case other.Epoch < mine.Epoch:
		return describe(fmt.Errorf("it is a primary of the epoch %d, and this node knows one of the epoch %d", other.Epoch, mine.Epoch))
	}
	return nil
}
