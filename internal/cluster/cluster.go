// Package cluster manages the cluster: the role and epoch of this gateway, the nodes that it knows, and which node it follows.
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

// Role is a node's role in the cluster. Only a single node and the primary accept changes of shared data; the guard in the database
// enforces it.
type Role string

const (
	// Single is a node without a cluster.
	Single Role = "single"
	// Primary accepts changes.
	Primary Role = "primary"
	// SteppingDown has just been the primary, and becomes it again if no other node does.
	SteppingDown Role = "stepping-down"
	// Standby follows the primary.
	Standby Role = "standby"
	// Fenced was the primary and knows of a newer one, but does not follow it yet.
	Fenced Role = "fenced"
)

// State is the state of this node in the cluster.
type State struct {
	Role Role
	// Epoch is the newest epoch that the node is in, follows, or knows of. Of two primaries the one with the newer epoch is right.
	Epoch int64
	// PrimaryID and PrimaryName identify the primary.
	PrimaryID, PrimaryName string
	Slot                   string
	ChangedAt              time.Time
	// SyncedAt is when everything was last compared with the primary.
	SyncedAt *time.Time
}

// Load reads the state of this node.
func Load(ctx context.Context, q db.Querier) (State, error) {
	rows, err := q.Query(ctx, `SELECT role, epoch, primary_id, primary_name, slot, changed_at, synced_at FROM ha_state`)
	if err != nil {
		return State{}, err
	}
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[State])
	return s, err
}

// Deps holds what the room needs from others.
type Deps struct {
	// Node returns how other nodes know this gateway.
	Node func() Node
	// Database returns the connection string of another node's database. See Reach.
	Database func(Member) (conninfo string, err error)
	// MembersChanged is called when nodes have joined or left, before the other nodes know: it opens the database to them or closes it.
	// It may be nil.
	MembersChanged func(ctx context.Context, members []Member) error
	// Feeds lists the components that are rendered from the list of nodes.
	Feeds []apply.ID
	// Update starts an upgrade to another version, and does not wait for it.
	Update func(ctx context.Context, version string) error
	// Pace defaults to the usual one if nil.
	Pace *Pace
	// Settings returns the node's own settings that should be the same on all nodes, by field name. It may be nil.
	Settings func(ctx context.Context) (map[string]string, error)
	// Leave is part of the transaction in which this node leaves its cluster. It may be nil.
	Leave func(ctx context.Context, tx *db.Tx) error
	// Left is called after that transaction. It may be nil.
	Left func() error
	// Shown returns once the reverse proxy serves JoinCertificate, or has failed to. It may be nil.
	Shown func(ctx context.Context)
	// Drain moves the virtual addresses to another node and returns when that is done, or lets this node have them again. It may be nil.
	Drain func(ctx context.Context, on bool) error
	// HoldsVIP reports whether this node has the virtual addresses. It may be nil.
	HoldsVIP func(ctx context.Context) bool
	// Virtual reports whether an address moves between the nodes, so that it identifies none of them. It may be nil.
	Virtual func(ctx context.Context, address string) (bool, error)
	// Accounts checks users' logins. It may be nil.
	Accounts Accounts
	// Management returns the address of a primary's API, which issues certificates. See Manage.
	Management func(primary string) (address string)
}

// Room manages the cluster.
type Room struct {
	*kit.Kit
	deps Deps
	// role caches what Role returns.
	role atomic.Value
	// tokens is the secret that signs join tokens.
	tokens   []byte
	guesses  *throttle.Throttle
	agents   *httpd.Router
	identity atomic.Pointer[identity] // nil while the node is in no cluster
	changed  chan struct{}            // notified when the identity has changed
	port     atomic.Int64             // the agent listener's
	answers  peerAnswers
	joins    atomic.Pointer[string] // the step in progress while the node joins a cluster
	follows  sync.Mutex             // held while following another node
	admits   sync.Mutex             // held while the database's settings are changed
	unready  atomic.Int64           // when PostgreSQL failed to start with the settings for other nodes, in seconds; 0 if it did start
	rolls    rolls
	line     atomic.Pointer[line]
	api      func() http.Handler
}

// Node identifies a gateway to the others.
type Node struct {
	ID, Name string
}

// Reach sets Deps.Database. Call it before the room is used.
func (r *Room) Reach(database func(Member) (conninfo string, err error)) { r.deps.Database = database }

// Manage sets Deps.Management. Call it before the room is used.
func (r *Room) Manage(management func(primary string) (address string)) {
	r.deps.Management = management
}

func (r *Room) node() Node { return r.deps.Node() }

// Role returns the last known role of this node; empty before the first check.
func (r *Room) Role() Role {
	role, _ := r.role.Load().(Role)
	return role
}

// see updates what Role returns.
func (r *Room) see(ctx context.Context) {
	if s, err := Load(ctx, r.DB); err == nil {
		r.role.Store(s.Role)
	}
}

// New builds the room, and creates the secret for join tokens if there is none.
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
		k.Log.Error("this node's certificate cannot be used", "err", err)
	}
	return r, nil
}

func (r *Room) file(name string) string { return r.Paths.State(filepath.Join(Folder, name)) }

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

// Run watches the other nodes until the context ends, and resumes replication that an interrupted sync has stopped.
func (r *Room) Run(ctx context.Context) {
	ctx = actor.With(ctx, actor.System("cluster"))
	for looked := false; ; {
		if s, err := Load(ctx, r.DB); err == nil {
			// A repair in another program may have made a former primary a standby.
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
					r.Log.Warn("replication had stopped because a sync was interrupted, and was resumed")
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

// decideWithin is how long a change of the role waits for running changes: a preview has ten seconds.
const decideWithin = "15s"

// decide changes the role in a transaction that excludes changes of shared rows: running ones have ended, and waiting ones see the new
// role.
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

// alone waits until no change of shared rows runs beside the transaction, and returns the node's state.
func alone(ctx context.Context, tx *db.Tx) (State, error) {
	tx.Queue("SET LOCAL lock_timeout = '" + decideWithin + "'")
	tx.Queue("SET LOCAL statement_timeout = '" + decideWithin + "'")
	tx.Queue("SELECT pg_advisory_xact_lock(22, 0)")
	return Load(ctx, tx)
}

// become stores a new role.
func become(tx *db.Tx, role Role, epoch int64, primary Node, at time.Time) {
	tx.Queue(`UPDATE ha_state SET role = $1, epoch = $2, primary_id = $3, primary_name = $4, changed_at = $5`, role, epoch, primary.ID, primary.Name, at)
}

// refuse explains that an operation needs another role.
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

func (r *Room) Found(ctx context.Context) error {
	return r.decide(ctx, func(tx *db.Tx, was State) error {
		if was.Role != Single {
			return refuse(was, "a node without a cluster")
		}
		become(tx, Primary, was.Epoch+1, r.node(), r.Clock.Now())
		return r.Audit.Write(ctx, tx, "cluster.found", r.node().Name, map[string]any{"epoch": was.Epoch + 1})
	})
}

// StepDown makes the primary refuse changes. It returns the id of its last audit entry: a node that has this entry has everything.
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

// Resume makes a primary that stepped down accept changes again. The caller must have checked that there is no newer primary.
func (r *Room) Resume(ctx context.Context) error {
	return r.decide(ctx, func(tx *db.Tx, was State) error {
		if was.Role != SteppingDown {
			return refuse(was, "a primary that is stepping down")
		}
		become(tx, Primary, was.Epoch, r.node(), r.Clock.Now())
		return r.Audit.Write(ctx, tx, "cluster.resume", r.node().Name, map[string]any{"epoch": was.Epoch})
	})
}

// Fence makes a primary refuse changes if there is a newer one. It reports whether this happened; other roles are not affected.
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

// Split makes a primary refuse changes if there is another one of the same epoch: nobody can tell which one is right until a person
// promotes one of them. It reports whether this happened.
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

// split reports whether the node was one of two primaries of the same epoch, and no one has decided yet.
func (s State) split() bool { return s.Role == Fenced && s.PrimaryID == "" }

// Promotion says how a node becomes the primary.
type Promotion struct {
	// Last is the id of the last audit entry of the primary that has stepped down. Without it, whatever has not arrived here is lost.
	Last uuid.UUID
	// Newest is the newest known epoch.
	Newest int64
	Forced bool
}

const (
	// arrivesWithin is how long to wait for the primary's last changes, and arrivesEvery how often to check.
	arrivesWithin = 10 * time.Second
	arrivesEvery  = 20 * time.Millisecond
)

// Promote makes a node the primary of a newer epoch. If it fails, the node stays what it was.
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

// describe wraps an error about the other node.
func describe(err error) error {
	return fault.Wrap(fault.Unavailable, err, "This node cannot replicate from that node: %s.", err)
}

// follows checks whether the other node may be followed.
func follows(mine, other State) error {
	switch {
	case other.Role != Primary:
		return describe(fmt.Errorf("%w: %s", errNoPrimary, other.Role.words()))
	case other.Epoch < mine.Epoch:
		return describe(fmt.Errorf("it is a primary of the epoch %d, and this node knows one of the epoch %d", other.Epoch, mine.Epoch))
	}
	return nil
}
