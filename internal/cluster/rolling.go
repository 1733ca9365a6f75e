package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/secret"
)

// Phase is the phase of a rolling update.
type Phase string

// There is no phase for the end: the new program of the primary removes the file.
const (
	Idle              Phase = "idle"
	UpdatingSecondary Phase = "updating-secondary"
	WaitingSecondary  Phase = "waiting-secondary"
	UpdatingPrimary   Phase = "updating-primary"
	UpdateFailed      Phase = "error"
)

const (
	rollingFile = "rolling-update.json"
	// updatedWithin is how long a standby may take to run the new version, and to follow and serve with it.
	updatedWithin = 10 * time.Minute
	// rollEvery is how often a node that is being updated is polled.
	rollEvery = time.Second
	// drainWithin is how long a node may take to give its virtual addresses away.
	drainWithin = 30 * time.Second
	// refreshTimes is how often a standby is asked to compare everything with the primary after all nodes are updated.
	refreshTimes = 5
)

// RollingUpdate is the update of all nodes, the standbys first.
type RollingUpdate struct {
	Phase     Phase      `json:"phase" enum:"idle,updating-secondary,waiting-secondary,updating-primary,error" doc:"How far it has come. idle: none is running. After error the primary is as it was, unless it is the node that failed."`
	Node      string     `json:"node" doc:"Full name of the node that is being updated, or that failed."`
	From      string     `json:"from" doc:"Version that the primary had when it began."`
	To        string     `json:"to" doc:"Version that all nodes get."`
	StartedAt *time.Time `json:"started_at" doc:"When it began."`
	Error     string     `json:"error" doc:"Why it stopped, for administrators; empty otherwise."`
	Updated   []string   `json:"updated" doc:"Nodes that run the new version."`
}

// rolling is a rolling update with what it needs to continue after a restart of this program.
type rolling struct {
	RollingUpdate `json:",embed"`
	NodeID        string `json:"node_id"`
	// Since is the machine's uptime in seconds when the phase began; nil before the first phase. The clock may be set in the meantime.
	Since *float64 `json:"since_uptime"`
	// Upgrade is the id of the node's previous upgrade, and Live lists its components that were live.
	Upgrade string   `json:"upgrade"`
	Live    []string `json:"live"`
	// Drained means that the node was asked to give its virtual addresses away.
	Drained bool `json:"drained"`
}

// rolls is the rolling update in this program.
type rolls struct {
	mu     sync.Mutex // held while the file is changed
	begun  chan struct{}
	within time.Duration
}

// UpdateWithin sets how long a standby may take to run its new version. Call it before the room is used.
func (r *Room) UpdateWithin(d time.Duration) { r.rolls.within = d }

// Release is the version that a node runs, and the one that it could install.
type Release struct {
	Version string `json:"version"`
	// Offered is the newer version that apt would install, if requested; empty for none.
	Offered string `json:"offered,omitempty"`
	// The result of its last upgrade.
	Upgrade string    `json:"upgrade,omitempty"`
	State   job.State `json:"state,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

// release returns the version of this node.
func (r *Room) release(ctx context.Context, offers bool) (Release, error) {
	out := Release{Version: r.Version}
	last, err := job.Upgrade.Last(r.Host)
	if err == nil {
		out.Upgrade, out.State, out.Reason = last.ID, last.State, last.Reason
	} else if !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	if !offers {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, doWithin-askWithin)
	defer cancel()
	known, err := r.Host.PackageVersions(ctx)
	if err != nil {
		return out, fault.Wrap(fault.Unavailable, err, "%s cannot read the versions from apt at the moment. Try again.", r.node().Name)
	}
	for _, p := range known.Packages {
		if p.Name == host.GatewayPackage && p.Installed != "" && slices.Contains(p.Newer, p.Available) {
			out.Offered = p.Available
		}
	}
	return out, nil
}

func (r *Room) askRelease(ctx context.Context, m Member, offers bool) (Release, error) {
	path, within := "/agent/cluster/version", askWithin
	if offers {
		path, within = path+"?offers=true", doWithin
	}
	return askFor[Release](ctx, r, m, within, http.MethodGet, path, nil)
}

// Draining says whether a node gives its virtual addresses away.
type Draining struct {
	Drain bool `json:"drain"`
}

func (r *Room) drain(ctx context.Context, on bool) error {
	if r.deps.Drain == nil {
		return nil
	}
	return r.deps.Drain(ctx, on)
}

// drainNode makes a node give its virtual addresses away, or ends that.
func (r *Room) drainNode(ctx context.Context, id string, on bool) error {
	if id == r.node().ID {
		return r.drain(ctx, on)
	}
	m, ok, err := member(ctx, r.DB, id)
	if err != nil || !ok {
		return err // a node that has left keeps none
	}
	_, err = askFor[struct{}](ctx, r, m, drainWithin, http.MethodPost, "/agent/cluster/drain", Draining{on})
	return err
}

// rollingUpdate reads the progress of the update.
func (r *Room) rollingUpdate() (u rolling, err error) {
	u.Phase, u.Updated = Idle, []string{}
	b, err := os.ReadFile(r.Paths.State(rollingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &u)
	}
	return u, err
}

// showRolling returns the primary's progress. A standby asks the primary.
func (r *Room) showRolling(c *httpd.Call, _ struct{}) (u RollingUpdate, err error) {
	s, err := Load(c, r.DB)
	if err != nil {
		return u, err
	}
	if s.Role == Standby {
		var primary Member
		if primary, err = r.primaryOf(c, s); err == nil {
			u, err = Ask[RollingUpdate](c, r, primary, http.MethodGet, "/agent/cluster/rolling-update", nil)
		}
	} else {
		var own rolling
		own, err = r.rollingUpdate()
		u = own.RollingUpdate
	}
	if c.Actor.Role != actor.Admin {
		u.Error = ""
	}
	return u, err
}

func (r *Room) saveRolling(u rolling) error {
	b, err := json.Marshal(u)
	if err != nil {
		return err
	}
	return secret.Save(r.Paths.State(rollingFile), b)
}

// beginRolling starts to update all nodes, if each of them is healthy and offers the same version.
func (r *Room) beginRolling(c *httpd.Call, _ struct{}) (RollingUpdate, error) {
	c.Unhurried()
	r.rolls.mu.Lock()
	defer r.rolls.mu.Unlock()
	mine, err := Load(c, r.DB)
	if err != nil {
		return RollingUpdate{}, err
	}
	switch mine.Role {
	case Primary:
	case Single:
		return RollingUpdate{}, refuse(mine, "the primary of a cluster")
	default:
		return RollingUpdate{}, elsewhere(mine)
	}
	switch is, err := r.rollingUpdate(); {
	case err != nil:
		return RollingUpdate{}, err
	case is.Phase != Idle && is.Phase != UpdateFailed:
		return RollingUpdate{}, fault.New(fault.Conflict, "The nodes are already being updated.")
	}
	own, err := r.release(c, true)
	if err != nil {
		return RollingUpdate{}, err
	}
	switch {
	case own.State == job.Running:
		return RollingUpdate{}, fault.New(fault.Conflict, "An upgrade of this node is already running. Wait until it is finished.")
	case own.Offered == "":
		return RollingUpdate{}, fault.New(fault.Conflict, "This node already has the latest version that apt offers, %s. Refresh the package lists to look for a newer one.", own.Version)
	}
	if err := r.mayRoll(c, own); err != nil {
		return RollingUpdate{}, err
	}
	u := rolling{RollingUpdate: RollingUpdate{Phase: UpdatingSecondary, From: own.Version, To: own.Offered, StartedAt: new(r.Clock.Now()), Updated: []string{}}}
	err = r.Audit.Do(c, "cluster.rolling-update", u.To, func() (any, error) {
		return map[string]string{"from": u.From, "to": u.To}, r.saveRolling(u)
	})
	if err != nil {
		return RollingUpdate{}, err
	}
	select {
	case r.rolls.begun <- struct{}{}:
	default:
	}
	return u.RollingUpdate, nil
}

// mayRoll refuses the update if any node is not healthy. A node that already has the new version is skipped.
func (r *Room) mayRoll(ctx context.Context, own Release) error {
	status, err := r.Status(ctx)
	if err != nil {
		return err
	}
	var wrong []string
	for _, p := range status.Peers {
		if p.Status == Joining {
			wrong = append(wrong, p.FQDN+" is joining.")
		}
	}
	if wrong = append(wrong, status.Problems...); len(wrong) > 0 {
		return fault.New(fault.Conflict, "All nodes must be healthy before an update. %s", strings.Join(wrong, " "))
	}
	peers, err := r.Peers(ctx, r.DB)
	if err != nil {
		return err
	}
	if len(peers) == 0 {
		return fault.New(fault.Conflict, "There is no other node. Upgrade this one.")
	}
	for _, m := range peers {
		switch is, err := r.askRelease(ctx, m, true); {
		case err != nil:
			return err
		case is.State == job.Running:
			return fault.New(fault.Conflict, "An upgrade of %s is already running. Wait until it is finished.", m.FQDN)
		case is.Version == own.Offered:
		case is.Version != own.Version:
			return fault.New(fault.Conflict, "%s runs version %s, and this node %s. A rolling update needs the same version on all nodes.", m.FQDN, is.Version, own.Version)
		case is.Offered != own.Offered:
			return fault.New(fault.Conflict, "The package lists of %s offer %s, and those of this node version %s. Refresh the package lists on both nodes, and make sure that they use the same repository.",
				m.FQDN, offered(is.Offered), own.Offered)
		}
	}
	return nil
}

func offered(version string) string {
	if version == "" {
		return "no newer version"
	}
	return "version " + version
}

// Roll continues a rolling update until it is done or the context ends, even if another run of this program has begun it.
func (r *Room) Roll(ctx context.Context) {
	ctx = actor.With(ctx, actor.System("cluster"))
	for {
		wait := r.deps.Pace.Beat
		if r.rollOn(ctx) {
			wait = rollEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-r.rolls.begun:
		case <-time.After(wait):
		}
	}
}

// errStops is an error that ends a rolling update. Other errors are retried until the limit.
type errStops struct{ error }

func stops(format string, a ...any) error { return errStops{fmt.Errorf(format, a...)} }

// rollOn does the next step, saves the progress, and reports whether there is more to do.
func (r *Room) rollOn(ctx context.Context) (more bool) {
	r.rolls.mu.Lock()
	defer r.rolls.mu.Unlock()
	u, err := r.rollingUpdate()
	switch {
	case err != nil:
		r.Log.Error("the progress of the rolling update cannot be read", "err", err)
		return false
	case u.Phase == Idle || u.Phase == UpdateFailed && !u.Drained:
		return false
	case !r.DB.Attached():
		return true
	case u.Phase == UpdateFailed:
		// The node may have its addresses back once it answers.
		if r.drainNode(ctx, u.NodeID, false) == nil {
			u.Drained = false
			r.keepRolling(u)
		}
		return u.Drained
	}
	was := u.Phase
	err = r.step(ctx, &u)
	if ctx.Err() != nil {
		return false // the next run of this program continues
	}
	final, over := errors.AsType[errStops](err)
	within := r.rolls.within
	if within == 0 {
		within = updatedWithin
	}
	if !over && err != nil && r.Version != u.To && r.lasts(u, within) {
		final, over = errStops{fmt.Errorf("%s: not within %s: %w", u.Node, within, err)}, true
	}
	switch {
	case over:
		u.Phase, u.Error = UpdateFailed, strings.TrimSuffix(final.Error(), ".")+"."
		r.Log.Error("the update of the nodes has stopped", "node", u.Node, "phase", was, "err", final)
		r.keepRolling(u)
		if err := r.Audit.Record(ctx, "cluster.rolling-update.error", u.Node, u.RollingUpdate); err != nil {
			r.Log.Warn("the audit log has no entry about the stopped update", "err", err)
		}
	case err != nil:
		r.Log.Debug("waiting for the node that is being updated", "node", u.Node, "phase", u.Phase, "err", err)
	}
	return true
}

func (r *Room) keepRolling(u rolling) {
	if err := r.saveRolling(u); err != nil {
		r.Log.Error("the progress of the rolling update was not stored", "err", err)
	}
}

// step does what comes next. Errors are retried, except errStops.
func (r *Room) step(ctx context.Context, u *rolling) error {
	if u.Phase == UpdatingPrimary && r.Version == u.To {
		return r.endRolling(ctx, u)
	}
	s, err := Load(ctx, r.DB)
	if err != nil {
		return err
	}
	if s.Role != Primary {
		return stops("This node is no longer the primary")
	}
	switch u.Phase {
	case UpdatingSecondary:
		return r.updateSecondary(ctx, u)
	case WaitingSecondary:
		return r.awaitSecondary(ctx, u)
	default:
		return r.updatePrimary(ctx, u)
	}
}

// uptime returns the machine's uptime in seconds.
func (r *Room) uptime() (float64, error) {
	x, err := r.Host.Resources()
	return x.Uptime.Seconds(), err
}

// lasts reports whether the phase has lasted longer than the limit. After a reboot the time counts from the boot.
func (r *Room) lasts(u rolling, limit time.Duration) bool {
	now, err := r.uptime()
	if err != nil || u.Since == nil {
		return false
	}
	began := *u.Since
	if began > now {
		began = 0
	}
	return now-began > limit.Seconds()
}

// enter begins a phase, and returns when it is on disk.
func (r *Room) enter(u *rolling, p Phase) error {
	now, err := r.uptime()
	if err != nil {
		return err
	}
	u.Phase, u.Since = p, &now
	if err := r.saveRolling(*u); err != nil {
		return err
	}
	return failpoint.Hit("rolling." + string(p))
}

// next chooses the next node to update: a standby without the new version, or else the primary.
func (r *Room) next(ctx context.Context, u *rolling) error {
	peers, err := r.Peers(ctx, r.DB)
	if err != nil {
		return err
	}
	u.Updated = []string{}
	var chosen *Member
	for i, m := range peers {
		is, err := r.askRelease(ctx, m, false)
		switch {
		case err != nil:
			u.Node = m.FQDN
			return err
		case is.Version == u.To:
			u.Updated = append(u.Updated, m.FQDN)
		case chosen == nil:
			chosen, u.Upgrade = &peers[i], is.Upgrade
		}
	}
	if chosen == nil {
		own, err := r.release(ctx, false)
		if err != nil {
			return err
		}
		u.Node, u.NodeID, u.Upgrade = r.node().Name, r.node().ID, own.Upgrade
		return r.enter(u, UpdatingPrimary)
	}
	is, err := r.askIdentity(ctx, *chosen)
	if err != nil {
		return err
	}
	u.Node, u.NodeID, u.Live = chosen.FQDN, chosen.ID, nil
	for name, state := range is.Components {
		if state == string(apply.Live) {
			u.Live = append(u.Live, name)
		}
	}
	slices.Sort(u.Live)
	return r.enter(u, UpdatingSecondary)
}

// updateSecondary makes a standby give its virtual addresses away and start its upgrade.
func (r *Room) updateSecondary(ctx context.Context, u *rolling) error {
	if u.NodeID == "" {
		if u.Since == nil { // it counts from the first try
			if err := r.enter(u, UpdatingSecondary); err != nil {
				return err
			}
		}
		return r.next(ctx, u)
	}
	m, is, err := r.updated(ctx, u)
	if err != nil {
		return err
	}
	if is.Version != u.To && is.Upgrade == u.Upgrade {
		if !u.Drained {
			u.Drained = true
			if err := r.saveRolling(*u); err != nil {
				return err
			}
		}
		if err := r.drainNode(ctx, u.NodeID, true); err != nil {
			return stops("%s: %s", u.Node, fault.From(err).Message)
		}
		if err := failpoint.Hit("rolling.drained"); err != nil {
			return err
		}
		// If it did not answer, the next check shows whether it has begun.
		if _, err := askFor[Accepted](ctx, r, m, drainWithin, http.MethodPost, "/agent/cluster/trigger-update", Update{Version: u.To}); err != nil {
			if fault.Is(err, fault.Unavailable) {
				return err
			}
			return stops("%s: %s", u.Node, fault.From(err).Message)
		}
		if err := failpoint.Hit("rolling.triggered"); err != nil {
			return err
		}
	}
	return r.enter(u, WaitingSecondary)
}

// updated asks the node that is being updated for its version.
func (r *Room) updated(ctx context.Context, u *rolling) (Member, Release, error) {
	m, ok, err := member(ctx, r.DB, u.NodeID)
	if err != nil {
		return m, Release{}, err
	}
	if !ok {
		return m, Release{}, stops("%s has left the cluster", u.Node)
	}
	is, err := r.askRelease(ctx, m, false)
	return m, is, err
}

// awaitSecondary checks whether a standby is as before, with the new version.
func (r *Room) awaitSecondary(ctx context.Context, u *rolling) error {
	m, is, err := r.updated(ctx, u)
	if err != nil {
		return err
	}
	if failed := is.failed(u); failed != nil {
		return failed
	}
	if is.Version != u.To || is.State == job.Running {
		return fmt.Errorf("it runs version %s", is.Version)
	}
	answer, err := r.askIdentity(ctx, m)
	if err != nil {
		return err
	}
	if answer.Role != Standby || !answer.Streaming {
		return errors.New("it has the new version, and does not follow the primary")
	}
	for _, name := range u.Live {
		if answer.Components[name] != string(apply.Live) {
			return fmt.Errorf("it has the new version, and %s is no longer live", name)
		}
	}
	if err := r.drainNode(ctx, u.NodeID, false); err != nil {
		return err
	}
	u.Drained = false
	if err := failpoint.Hit("rolling.back"); err != nil {
		return err
	}
	return r.next(ctx, u)
}

// failed returns an error if an upgrade that was begun did not succeed.
func (is Release) failed(u *rolling) error {
	switch is.State {
	case job.Refused, job.TakenBack, job.Stuck:
		if is.Upgrade != u.Upgrade {
			return stops("%s: the upgrade to version %s was %s: %s", u.Node, u.To, strings.ReplaceAll(string(is.State), "_", " "), is.Reason)
		}
	}
	return nil
}

// updatePrimary makes this node give its virtual addresses away and start its own upgrade; the new program ends the update. Errors are
// returned here only if that was impossible.
func (r *Room) updatePrimary(ctx context.Context, u *rolling) error {
	is, err := r.release(ctx, false)
	if err != nil {
		return err
	}
	if failed := is.failed(u); failed != nil {
		return failed
	}
	if is.State == job.Running {
		return nil
	}
	if is.Upgrade != u.Upgrade {
		return stops("Version %s is installed here, and version %s is what runs", u.To, r.Version)
	}
	u.Drained = true
	if err := r.saveRolling(*u); err != nil {
		return err
	}
	if err := r.drain(ctx, true); err != nil {
		return errStops{err}
	}
	if err := failpoint.Hit("rolling.primary-drained"); err != nil {
		return err
	}
	if err := r.deps.Update(ctx, u.To); err != nil {
		if fault.Is(err, fault.Unavailable) {
			return err // apt is slow on a busy machine
		}
		return stops("%s: %s", u.Node, fault.From(err).Message)
	}
	return failpoint.Hit("rolling.primary-triggered")
}

// endRolling runs in the new program of the primary. The standbys compare everything with it, because there may be new tables whose rows
// they do not have.
func (r *Room) endRolling(ctx context.Context, u *rolling) error {
	if is, err := r.release(ctx, false); err != nil || is.State == job.Running {
		return err // it is confirmed or reverted first
	}
	if err := r.drain(ctx, false); err != nil {
		return err
	}
	if err := failpoint.Hit("rolling.primary-back"); err != nil {
		return err
	}
	peers, err := r.Peers(ctx, r.DB)
	if err != nil {
		return err
	}
	for _, m := range peers {
		for range refreshTimes {
			if _, err = Ask[Repairing](ctx, r, m, http.MethodPost, "/agent/cluster/repair-replication", Repair{}); err == nil || fault.Is(err, fault.Conflict) {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(rollEvery):
			}
		}
		if err != nil {
			r.Log.Warn("a standby was not asked to compare everything with the primary", "node", m.FQDN, "err", err)
		}
	}
	if err := failpoint.Hit("rolling.compared"); err != nil {
		return err
	}
	if err := r.Audit.Record(ctx, "cluster.rolling-update.end", u.To, u.RollingUpdate); err != nil {
		return err
	}
	if err := failpoint.Hit("rolling.told"); err != nil {
		return err
	}
	r.Log.Info("all nodes are updated", "version", u.To)
	return secret.Remove(r.Paths.State(rollingFile))
}
