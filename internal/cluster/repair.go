package cluster

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/secret"
)

// Repair says which node to repair.
type Repair struct {
	NodeID string `json:"node_id" maxLength:"64" doc:"The standby, if this is the primary; without it, all that answer."`
	Force  bool   `json:"force" doc:"Do it although more than half of the rows would go."`
}

// Job is the repair of this node. Its progress is in a file of this room, because nodes are also synchronised without a request.
var Job = job.Kind[RepairWish, job.Record]{Name: job.Repair, Begun: func(RepairWish) job.Record { return job.Record{} }}

// RepairWish asks gateway-repair to repair this node.
type RepairWish struct {
	job.Wish
	Force bool `json:"force"`
}

// Check accepts every request.
func (RepairWish) Check() error { return nil }

// Repairing is the progress of a repair.
type Repairing struct {
	State     string                        `json:"state" enum:"none,running,succeeded,failed,delegated" doc:"How far it has come. delegated: the standbys do it."`
	Nodes     []string                      `json:"nodes,omitempty" doc:"The standbys that do it."`
	StartedAt *time.Time                    `json:"started_at" doc:"When it began."`
	EndedAt   *time.Time                    `json:"ended_at" doc:"When it ended."`
	Error     string                        `json:"error" doc:"Why it failed; empty when it did not."`
	Force     bool                          `json:"force" doc:"Whether more than half of the rows may go."`
	Tables    map[string]replica.Difference `json:"tables,omitempty" doc:"Number of rows that differed from the primary, by table."`
}

// TooMuch reports whether it failed because it would have deleted more than half of the node's rows.
func (s Repairing) TooMuch() bool {
	return s.State == "failed" && s.Error == replica.ErrTooMuch.Message
}

// some returns nil if there was no repair.
func (s Repairing) some() *Repairing {
	if s.State == "" || s.State == "none" {
		return nil
	}
	return &s
}

// repairs records the last synchronisation of this node with its primary.
type repairs struct {
	Repairing `json:",embed"`
	// Wish is the id of the request; empty if the node synchronised itself.
	Wish string `json:"wish"`
}

const repairFile = "repair.json"

var errFollows = fault.New(fault.Conflict, "This node is already being synchronised.")

// note stores the progress of a repair, for all programs and across restarts.
func (r *Room) note(s repairs) {
	b, err := json.Marshal(s)
	if err == nil {
		err = secret.Save(r.file(repairFile), b)
	}
	if err != nil {
		r.Log.Warn("the progress of the repair was not stored", "err", err)
	}
}

func (r *Room) noted() (s repairs, err error) {
	s.State = "none"
	b, err := os.ReadFile(r.file(repairFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// repairing returns the running repair, which may be requested but not started yet, or the last one.
func (r *Room) repairing() (Repairing, error) {
	if wish, err := Job.Wish(r.Host); err == nil {
		return Repairing{State: "running", StartedAt: &wish.At, Force: wish.Force}, nil
	}
	last, err := r.noted()
	return last.Repairing, err
}

// endInterrupted marks what an earlier run of this program began as ended: it was rolled back with its transaction, and is started again
// if still needed. A requested repair belongs to another program, and continues.
func (r *Room) endInterrupted() {
	last, err := r.noted()
	if _, noWish := Job.Wish(r.Host); err != nil || noWish == nil || last.State != "running" {
		return
	}
	last.State, last.Error, last.EndedAt = "failed", "It was interrupted.", new(r.Clock.Now())
	r.note(last)
}

// repair synchronises a standby with its primary again: this node, or others on behalf of the primary, which never does it to itself.
func (r *Room) repair(c *httpd.Call, in struct{ Body *Repair }) (Repairing, error) {
	var wish Repair
	if in.Body != nil {
		wish = *in.Body
	}
	s, err := Load(c, r.DB)
	if err != nil {
		return Repairing{}, err
	}
	if s.Role != Primary {
		return r.beginRepair(c, wish.Force)
	}
	peers, err := r.Peers(c, r.DB)
	if err != nil {
		return Repairing{}, err
	}
	if wish.NodeID != "" {
		if wish.NodeID == r.node().ID {
			return Repairing{}, refuse(s, "a standby")
		}
		peers = slices.DeleteFunc(peers, func(m Member) bool { return m.ID != wish.NodeID })
		if len(peers) == 0 {
			return Repairing{}, fault.Field("node_id", "must be the id of another node of the cluster")
		}
	}
	out := Repairing{State: "delegated", StartedAt: new(r.Clock.Now())}
	var failed error
	for _, m := range peers {
		if _, err := Ask[Repairing](c, r, m, http.MethodPost, "/agent/cluster/repair-replication", Repair{Force: wish.Force}); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		out.Nodes = append(out.Nodes, m.FQDN)
	}
	if len(out.Nodes) == 0 {
		if failed == nil {
			failed = fault.New(fault.Conflict, "There is no standby.")
		}
		return Repairing{}, failed
	}
	return out, r.Audit.Record(c, "cluster.repair", out.Nodes[0], out)
}

// beginRepair asks gateway-repair to synchronise this node, and does not wait for it.
func (r *Room) beginRepair(ctx context.Context, force bool) (Repairing, error) {
	s, err := Load(ctx, r.DB)
	if err != nil {
		return Repairing{}, err
	}
	if s.Role != Standby && s.Role != Fenced {
		return Repairing{}, refuse(s, "a standby")
	}
	if _, err := r.followed(ctx, s); err != nil {
		return Repairing{}, err
	}
	if !r.follows.TryLock() {
		return Repairing{}, errFollows
	}
	defer r.follows.Unlock()
	if err := r.Audit.Do(ctx, "cluster.repair", r.node().Name, func() (any, error) { return nil, unable(Job.Begin(ctx, r.Host, RepairWish{Force: force}, "")) }); err != nil {
		return Repairing{}, err
	}
	return r.repairing()
}

// unable explains to the caller why the machine refused.
func unable(err error) error {
	switch {
	case errors.Is(err, job.ErrRepairRuns):
		return errFollows
	case errors.Is(err, job.ErrUpgradeRuns), errors.Is(err, job.ErrRestoreRuns):
		return fault.Wrap(fault.Conflict, err, "An upgrade or a restore of this node is running. Wait until it is finished.")
	case errors.Is(err, host.ErrNotInstalled):
		return fault.Wrap(fault.NotSupported, err, "This gateway was not installed from a package, so it cannot repair replication.")
	}
	return err
}

// followed returns the primary that this node follows, or should follow.
func (r *Room) followed(ctx context.Context, s State) (Member, error) {
	primary, ok, err := member(ctx, r.DB, s.PrimaryID)
	if err == nil && !ok {
		err = fault.New(fault.Conflict, "This node does not know which node is the primary.")
	}
	return primary, err
}

// GrantRepair does the requested repair, or continues an interrupted one. Without a request it does nothing. An error means that it could
// not be completed now.
func (r *Room) GrantRepair(ctx context.Context) error {
	ctx = actor.With(ctx, actor.System("cluster"))
	wish, err := Job.Wish(r.Host)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if last, err := r.noted(); err != nil || last.Wish != wish.ID || last.State == "running" {
		s, err := Load(ctx, r.DB)
		if err != nil {
			return err
		}
		primary, unknown := r.followed(ctx, s)
		// The record has the result.
		_, _ = r.follow(ctx, primary, unknown, Repairing{Force: wish.Force}, wish.ID)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return r.Host.EndJob(ctx, job.Repair, wish.ID)
}

// followMember makes this node a standby of another one.
func (r *Room) followMember(ctx context.Context, primary Member, force bool) (Repairing, error) {
	state, err := r.followOnce(ctx, primary, force)
	if err != nil {
		return state, err
	}
	return state, r.publishMembers(ctx)
}

// followOnce is followMember without notifying the other nodes, who may be slow. Of several calls at once, in this program or in
// gateway-repair, only one runs.
func (r *Room) followOnce(ctx context.Context, primary Member, force bool) (Repairing, error) {
	if !r.follows.TryLock() {
		return Repairing{}, errFollows
	}
	defer r.follows.Unlock()
	if _, err := Job.Wish(r.Host); err == nil {
		return Repairing{}, errFollows
	}
	return r.follow(ctx, primary, nil, Repairing{Force: force}, "")
}

// follow makes this node a standby, unless err already says why that is impossible, and records the progress.
func (r *Room) follow(ctx context.Context, primary Member, err error, now Repairing, wish string) (Repairing, error) {
	state := repairs{now, wish}
	state.State, state.StartedAt = "running", new(r.Clock.Now())
	r.note(state)
	var result replica.Result
	conninfo := ""
	if err == nil {
		conninfo, err = r.deps.Database(primary)
	}
	if err == nil {
		result, err = r.Follow(ctx, primary.node(), conninfo, now.Force)
	}
	if ctx.Err() != nil {
		return state.Repairing, ctx.Err() // the program ends, and its next run continues
	}
	state.State, state.EndedAt = "succeeded", new(r.Clock.Now())
	if state.Tables = result.Tables; err != nil {
		state.State, state.Error = "failed", fault.From(err).Message
		r.Log.Warn("this node could not be synchronised with the primary", "primary", primary.FQDN, "err", err)
	}
	r.note(state)
	return state.Repairing, err
}
