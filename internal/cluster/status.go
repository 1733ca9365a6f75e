package cluster

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/peering"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/value"
)

type NodeStatus struct {
	ID         string     `json:"id" doc:"Id of the node, taken from its machine. Before it has joined, prenode- followed by its name."`
	FQDN       string     `json:"fqdn" doc:"Full name of the node."`
	PublicIP   string     `json:"public_ip" doc:"Address that it joined from."`
	InternalIP string     `json:"internal_ip" doc:"Address by which other nodes reach it."`
	MgmtIP     string     `json:"mgmt_ip" doc:"Address of its management."`
	APIURL     string     `json:"api_url" doc:"Where it answers other nodes."`
	ConsoleURL string     `json:"console_url" doc:"Where its console is, by its name; empty until it has joined."`
	Local      bool       `json:"local" doc:"Whether it is this node."`
	Role       Role       `json:"role" enum:"single,primary,stepping-down,standby,fenced" doc:"Its role. fenced: a former primary that accepts no changes."`
	Status     Status     `json:"status" enum:"pending,joining,online,offline,leaving,unknown" doc:"Whether it answers."`
	Version    string     `json:"version" doc:"Version that it runs; empty until it has said so."`
	ConfigHash string     `json:"config_hash" doc:"Hash of what all nodes share. Nodes of the same version have the same."`
	Epoch      int64      `json:"epoch" doc:"Counts the changes of the primary. Of two primaries the one with the newer epoch is right."`
	Streaming  bool       `json:"streaming" doc:"Whether it follows the primary at the moment."`
	Behind     *int64     `json:"behind_bytes" doc:"How many bytes of changes it has not confirmed, if it is connected."`
	Lag        *float64   `json:"lag_seconds" doc:"For how many seconds it has not confirmed what there was, if it is connected."`
	SlotLost   bool       `json:"slot_lost" doc:"Whether it was unavailable for longer than the primary keeps changes for it. It is synchronised when it answers."`
	Drift      []string   `json:"drift" doc:"Tables that differ from this node's although neither node is changing."`
	Differ     []string   `json:"settings_differ" doc:"Settings that each node has for itself, and that should be the same on all but are not the same as here."`
	HoldsVIP   bool       `json:"holds_vip" doc:"Whether the virtual addresses are there."`
	SyncedAt   *time.Time `json:"synced_at" doc:"When all of it was last compared with the primary."`
	SeenAt     *time.Time `json:"seen_at" doc:"When it last answered this node."`
	Repair     *Repairing `json:"repair" doc:"Its running repair, or the last one; null if there was none."`
	Error      string     `json:"error" doc:"Why it does not answer; empty when it does."`
}

type ClusterStatus struct {
	LocalID    string       `json:"local_id" doc:"Id of this node."`
	LocalNode  NodeStatus   `json:"local_node" doc:"This node."`
	Peers      []NodeStatus `json:"peers" doc:"The other nodes, and those that are expected."`
	Mode       string       `json:"mode" enum:"single-node,cluster" doc:"Whether there are other nodes."`
	Health     string       `json:"health" enum:"OK,degraded,split-brain" doc:"split-brain: two nodes were the primary at the same time. Neither accepts changes until one of them is promoted."`
	Problems   []string     `json:"problems" doc:"What is wrong, a sentence each."`
	DriftFound bool         `json:"drift_found" doc:"Whether a node's configuration differs from this one's."`
	PrimaryID  string       `json:"primary_id" doc:"Id of the node that takes changes; empty while there is none."`
	UpdatedAt  time.Time    `json:"updated_at" doc:"When the nodes were asked."`
}

// lookAgain is how long a difference between two nodes must last to be drift, not a change in transit.
const lookAgain = 400 * time.Millisecond

// compared polls a node until its configuration equals this node's, or both are idle and differ.
func (r *Room) compared(drift func(id string, tables []string)) func(context.Context, Member) (Identity, error) {
	return func(ctx context.Context, m Member) (Identity, error) {
		until, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		var mine, theirs replica.Hash
		var last Identity
		for {
			answer, err := r.askIdentity(until, m)
			if err != nil && last.ID != "" {
				return last, nil
			}
			if err != nil || answer.Version != r.Version || answer.Hashes == nil {
				return answer, err
			}
			here, err := r.rehash(until)
			if err != nil {
				return answer, nil //nolint:nilerr // this node cannot compare, but the other one has answered
			}
			differ := here.Differ(answer.Hashes)
			if len(differ) == 0 {
				return answer, nil
			}
			if mine != nil && len(mine.Differ(here)) == 0 && len(theirs.Differ(answer.Hashes)) == 0 {
				drift(m.ID, differ)
				return answer, nil
			}
			mine, theirs, last = here, answer.Hashes, answer
			select {
			case <-until.Done():
				return answer, nil
			case <-time.After(lookAgain):
			}
		}
	}
}

// Status asks all nodes, and returns the health of the cluster. It takes two seconds if a node does not answer.
func (r *Room) Status(ctx context.Context) (ClusterStatus, error) { return r.status(ctx, nil, true) }

// status skips the nodes that are known to be silent. It only compares configurations if asked to, because that takes a moment while they
// change.
func (r *Room) status(ctx context.Context, silent map[string]error, compare bool) (ClusterStatus, error) {
	mine, err := Load(ctx, r.DB)
	if err != nil {
		return ClusterStatus{}, err
	}
	found := make(chan struct {
		id     string
		tables []string
	}, 64)
	ask := r.askIdentity
	if compare {
		ask = r.compared(func(id string, tables []string) {
			found <- struct {
				id     string
				tables []string
			}{id, tables}
		})
	}
	answers, err := r.askAll(ctx, func(ctx context.Context, m Member) (Identity, error) {
		if err := silent[m.ID]; err != nil {
			return Identity{}, err
		}
		return ask(ctx, m)
	})
	if err != nil {
		return ClusterStatus{}, err
	}
	close(found)
	drift := map[string][]string{}
	for f := range found {
		drift[f.id] = f.tables
	}
	members, err := Members(ctx, r.DB) // an expected node may have joined
	if err != nil {
		return ClusterStatus{}, err
	}
	me, err := r.identify(ctx)
	if err != nil {
		return ClusterStatus{}, err
	}
	slots := me.Slots
	if mine.Role == Standby {
		slots = r.answers.last(mine.PrimaryID).Slots
	}
	out := ClusterStatus{LocalID: r.node().ID, Peers: []NodeStatus{}, UpdatedAt: r.Clock.Now(), Problems: []string{}}
	out.LocalNode = NodeStatus{ID: me.ID, FQDN: me.FQDN, Local: true, Role: me.Role, Status: Online, Version: me.Version, ConfigHash: me.ConfigHash, HoldsVIP: me.HoldsVIP, Drift: []string{}, Differ: []string{}}
	for _, m := range members {
		n := r.view(mine, m)
		n.follow(slots)
		if n.Local {
			n.Role, n.Epoch, n.Version, n.ConfigHash = me.Role, me.Epoch, me.Version, me.ConfigHash
			n.Streaming, n.HoldsVIP, n.SyncedAt, n.SeenAt = me.Streaming, me.HoldsVIP, me.SyncedAt, &out.UpdatedAt
			n.Repair = me.Repair.some()
			out.LocalNode = n
			continue
		}
		n.Drift = append(n.Drift, drift[m.ID]...)
		if answer := r.answers.last(m.ID); answer.err == nil {
			n.Differ = differ(me.Settings, answer.Settings)
		}
		out.Peers = append(out.Peers, n)
	}
	out.judge(mine, append(answers, asked{Member: Member{ID: me.ID, FQDN: me.FQDN}, answer: me}))
	return out, nil
}

// unjudged is the status of a node that has lost its own database: it lists the nodes that it knows, but cannot judge them.
func (r *Room) unjudged() ClusterStatus {
	out := ClusterStatus{
		LocalID: r.node().ID, Peers: []NodeStatus{}, Mode: "single-node", Health: "degraded", UpdatedAt: r.Clock.Now(),
		Problems: []string{"The database of this node does not answer, so the state of the nodes is not known."},
	}
	out.LocalNode = NodeStatus{ID: out.LocalID, FQDN: r.node().Name, Local: true, Role: cmp.Or(r.Role(), Single), Status: Unknown, Version: r.Version, Drift: []string{}, Differ: []string{}}
	if r.identity.Load() != nil {
		out.Mode, out.LocalNode.Role = "cluster", cmp.Or(r.Role(), Standby)
	}
	for _, x := range r.answers.all() {
		if x.ID == "" {
			continue
		}
		out.Peers = append(out.Peers, NodeStatus{
			ID: x.ID, FQDN: x.FQDN, Role: x.Role, Epoch: x.Epoch, Status: Unknown, Version: x.Version, SyncedAt: x.SyncedAt, SeenAt: &x.at, Repair: x.Repair.some(),
			Drift: []string{}, Differ: []string{},
		})
	}
	return out
}

// view describes a node from its last answer.
func (r *Room) view(mine State, m Member) NodeStatus {
	n := NodeStatus{
		ID: m.ID, FQDN: m.FQDN, PublicIP: m.PublicIP, InternalIP: m.InternalIP, MgmtIP: m.MgmtIP, APIURL: m.APIURL, Local: m.ID == r.node().ID,
		Role: Standby, Status: m.Status, Version: m.Version, ConfigHash: m.ConfigHash, Drift: []string{}, Differ: []string{},
	}
	if !m.Expected() {
		n.ConsoleURL = "https://" + net.JoinHostPort(m.FQDN, managementPort)
	}
	if m.ID == mine.PrimaryID {
		n.Role = Primary
	}
	if n.Local {
		n.Role, n.Epoch, n.Status, n.SyncedAt = mine.Role, mine.Epoch, Online, mine.SyncedAt
		return n
	}
	x := r.answers.last(m.ID)
	if x.ID != "" {
		n.Role, n.Epoch, n.SyncedAt, n.SeenAt, n.Repair = x.Role, x.Epoch, x.SyncedAt, &x.at, x.Repair.some()
	}
	if x.err != nil {
		n.Error = fault.From(x.err).Message
	} else {
		n.Streaming, n.HoldsVIP = x.Streaming, x.HoldsVIP
	}
	return n
}

// follow adds the primary's slot for the node.
func (n *NodeStatus) follow(slots []replica.Slot) {
	for _, s := range slots {
		if !s.Of(n.ID) {
			continue
		}
		n.SlotLost = n.SlotLost || s.Lost
		if s.Active {
			n.Behind, n.Lag = &s.Behind, &s.Late
		}
	}
}

// late reports whether the node lacks more of the primary's changes than usual.
func (n *NodeStatus) late() bool {
	return n.Behind != nil && *n.Behind > lagLimit || n.Lag != nil && *n.Lag > lateLimit
}

// differ names the settings that both nodes have with different values.
func differ(here, there map[string]string) []string {
	names := []string{}
	for _, name := range slices.Sorted(maps.Keys(here)) {
		if is, ok := there[name]; ok && is != here[name] {
			names = append(names, name)
		}
	}
	return names
}

// judge determines mode and health. The answers include this node.
func (s *ClusterStatus) judge(mine State, answers []asked) {
	problem := func(text string) { s.Problems = append(s.Problems, text) }
	joined := 0
	primaries := map[int64]int{}
	split := false
	for _, a := range answers {
		if a.Expected() || a.err != nil {
			continue
		}
		split = split || a.answer.Split
		if a.answer.Role == Primary {
			primaries[a.answer.Epoch]++
			split = split || primaries[a.answer.Epoch] > 1
		}
		if a.answer.Refused {
			problem(a.FQDN + " is not synchronised with the primary, because it would lose more than half of its data. Check that the primary is the right one, then repair the node with force.")
		}
	}
	for _, n := range s.Peers {
		if n.Status == Pending || n.Status == Joining {
			continue
		}
		joined++
		switch {
		case n.Status != Online || n.Error != "":
			problem(n.FQDN + " does not answer.")
		case n.Role == Standby && !n.Streaming:
			problem(n.FQDN + " is not replicating from the primary at the moment.")
		case n.Role == Fenced:
			problem(n.FQDN + " is a former primary and is not replicating from the new one yet.")
		}
		if n.late() {
			problem(n.FQDN + " is far behind the primary.")
		}
		if len(n.Drift) > 0 {
			s.DriftFound = true
			problem(n.FQDN + " does not have the same configuration as this node.")
		}
		if n.SlotLost {
			problem(n.FQDN + " was unavailable for longer than the primary keeps changes for it. It is synchronised when it answers.")
		}
		if len(n.Differ) > 0 {
			problem("Settings differ on " + n.FQDN + ": " + strings.Join(n.Differ, ", ") + ".")
		}
		if n.Role == Primary && n.Status == Online {
			s.PrimaryID = n.ID
		}
	}
	switch mine.Role {
	case Primary, Single:
		s.PrimaryID = s.LocalID
	case Standby:
		if !s.LocalNode.Streaming {
			problem("This node is not replicating from the primary at the moment.")
		}
		if s.LocalNode.late() {
			problem("This node is far behind the primary.")
		}
	default:
		problem("This node accepts no changes at the moment.")
	}
	if s.Mode = "single-node"; joined > 0 || mine.Role != Single && mine.Role != Primary {
		s.Mode = "cluster"
	}
	switch {
	case split:
		s.Health, s.PrimaryID = "split-brain", ""
		problem("Two nodes were the primary at the same time. Promote the one that has what you want to keep; the other one keeps its changes in a file.")
	case len(s.Problems) > 0:
		s.Health = "degraded"
	default:
		s.Health = "OK"
	}
}

const tag httpd.Tag = "cluster"

// mountPublic adds the routes for people, and the one for joining nodes.
func (r *Room) mountPublic() {
	httpd.Handle(r.Router, http.MethodGet, "/cluster/status", httpd.Read.Offline(), tag.Doc("cluster.status", "How the cluster is doing. All nodes are asked"),
		func(c *httpd.Call, _ struct{}) (ClusterStatus, error) {
			s, err := r.Status(c)
			if db.Away(err) {
				return r.unjudged(), nil
			}
			return s, err
		})
	httpd.Handle(r.Router, http.MethodGet, "/cluster/nodes", httpd.Read.Offline(), tag.Doc("cluster.nodes", "The nodes, as they were last seen"), r.nodes)
	token := tag.Audited("cluster.join-token.create", "Expect another node, and make its join token. The first one makes this gateway the primary of a cluster")
	token.Creates = "/cluster/nodes"
	httpd.Handle(r.Router, http.MethodPost, "/cluster/join-tokens", httpd.Write.OnPrimary(), token, func(c *httpd.Call, in struct{ Body Expect }) (Token, error) {
		return r.makeToken(c, in.Body.NodeFQDN)
	})
	httpd.Handle(r.Router, http.MethodPost, "/cluster/certificates", httpd.Public.Here(), tag.Audited("cluster.certificate.issue", "Certificate for a node that joins, for its token"), r.certify)
	httpd.Handle(r.Router, http.MethodPost, "/cluster/initialise", httpd.Write.Here(), httpd.Doc{ID: "cluster.initialise", Tag: tag, Summary: "Make this gateway the primary of a cluster, or what is missing for that", Audit: "cluster.found"},
		func(c *httpd.Call, _ struct{}) (ClusterStatus, error) {
			if err := r.Initialise(c); err != nil {
				return ClusterStatus{}, err
			}
			return r.Status(c)
		})
	httpd.Handle(r.Router, http.MethodPost, "/cluster/promote", httpd.Write.Here(), tag.Audited("cluster.promote", "Make this standby the primary"), r.promote)
	leave := tag.Audited("cluster.leave", "Take a node out of the cluster")
	leave.OnPrimary = r.leavesThere
	httpd.Handle(r.Router, http.MethodPost, "/cluster/nodes/{id}/leave", httpd.Write.OnPrimary(), leave, r.leave)
	httpd.Handle(r.Router, http.MethodGet, "/cluster/repair-replication", httpd.Read, tag.Doc("cluster.repair.get", "The running repair of this node, or the last one"),
		func(*httpd.Call, struct{}) (Repairing, error) { return r.repairing() })
	httpd.Handle(r.Router, http.MethodPost, "/cluster/repair-replication", httpd.Write.Here(), tag.Audited("cluster.repair", "Make a standby the same as the primary again. The primary has the standby do it"), r.repair)
	httpd.Handle(r.Router, http.MethodGet, "/cluster/rolling-update", httpd.Read, tag.Doc("cluster.rolling-update.get", "The update of all nodes that the primary does or has last tried"), r.showRolling)
	httpd.Handle(r.Router, http.MethodPost, "/cluster/rolling-update", httpd.Write.OnPrimary(), tag.Audited("cluster.rolling-update", "Update all nodes to the version that apt offers, the standbys first. The answer comes when that has started"), r.beginRolling)
}

// Expect names an expected node.
type Expect struct {
	NodeFQDN value.DomainName `json:"node_fqdn" required:"true" doc:"Full name of the node."`
}

func (r *Room) nodes(c *httpd.Call, _ struct{}) ([]NodeStatus, error) {
	s, err := Load(c, r.DB)
	if db.Away(err) {
		u := r.unjudged()
		return append([]NodeStatus{u.LocalNode}, u.Peers...), nil
	}
	if err != nil {
		return nil, err
	}
	members, err := Members(c, r.DB)
	list := make([]NodeStatus, len(members))
	for i, m := range members {
		list[i] = r.view(s, m)
	}
	return list, err
}

// Promoting says how a standby becomes the primary.
type Promoting struct {
	Force bool `json:"force" doc:"Do it although the primary does not answer. What it has not sent is lost, until it comes back: then it is kept in a file."`
}

// forcedWithin limits the wait for a node that did not answer last time when a promotion is forced: an operator who is sure that the
// primary is gone should not have to wait. A node that did answer may just be slow, or a primary of a newer epoch, and gets the usual
// time.
const forcedWithin = time.Second

// patience returns how long a node may take to answer during a promotion.
func (r *Room) patience(id string, force bool) time.Duration {
	if force && r.answers.last(id).err != nil {
		return forcedWithin
	}
	return askWithin
}

// promote makes this standby the primary. The present primary steps down first, if it answers.
func (r *Room) promote(c *httpd.Call, in struct{ Body *Promoting }) (ClusterStatus, error) {
	force := in.Body != nil && in.Body.Force
	s, err := Load(c, r.DB)
	if err != nil {
		return ClusterStatus{}, err
	}
	if s.Role != Standby && s.Role != Fenced {
		return ClusterStatus{}, refuse(s, "a standby")
	}
	answers, err := r.askAll(c, func(ctx context.Context, m Member) (Identity, error) {
		ctx, cancel := context.WithTimeout(ctx, r.patience(m.ID, force))
		defer cancel()
		return r.askIdentity(ctx, m)
	})
	if err != nil {
		return ClusterStatus{}, err
	}
	p := Promotion{Forced: true}
	var primary *Member
	var ahead error
	silent := map[string]error{}
	for i, a := range answers {
		if a.err != nil {
			silent[a.ID] = a.err
			continue
		}
		if a.Expected() {
			continue
		}
		p.Newest = max(p.Newest, a.answer.Epoch)
		switch a.answer.Role {
		case Primary, SteppingDown:
			primary = &answers[i].Member
		case Standby:
			if err := r.behind(c, s, a); err != nil {
				ahead = err
			}
		}
	}
	switch {
	case primary != nil:
		last, err := Ask[Last](c, r, *primary, http.MethodPost, "/agent/cluster/step-down", nil)
		if err == nil {
			p.Forced, p.Last = false, last.AuditID
			break
		}
		if !force {
			return ClusterStatus{}, err
		}
	case !force && !s.split():
		return ClusterStatus{}, fault.New(fault.Unavailable, "The primary, %s, does not answer. With force, this node becomes the primary anyway, and changes that it does not have are lost unless the former primary comes back.", s.PrimaryName)
	}
	if p.Forced && ahead != nil {
		return ClusterStatus{}, ahead
	}
	if _, err := r.Promote(c, p); err != nil {
		return ClusterStatus{}, err
	}
	if err := errors.Join(r.certifySelf(c), r.publishMembers(c)); err != nil {
		r.Log.Warn("this node is the primary, and something is left to do", "err", err)
	}
	return r.status(c, silent, false)
}

// behind refuses to promote this node while another standby has more of the primary's changes.
func (r *Room) behind(ctx context.Context, s State, other asked) error {
	if other.answer.Epoch < s.Epoch || s.split() {
		return nil
	}
	var has bool
	if err := r.DB.QueryRow(ctx, "SELECT EXISTS (SELECT FROM audit_entries WHERE id = $1)", other.answer.Newest).Scan(&has); err != nil {
		return err
	}
	if has || other.answer.Newest == uuid.Nil {
		return nil
	}
	return fault.New(fault.Conflict, "%s has changes from the primary that this node does not have. Promote that node instead.", other.FQDN)
}

// Left is the result of removing a node.
type Left struct {
	ID       string `json:"id" doc:"Id of the node."`
	Reached  bool   `json:"reached" doc:"Whether the node knows, and is now a single gateway. One that does not know is refused by all nodes, and accepts no changes until it leaves, too."`
	FQDN     string `json:"fqdn" doc:"Full name of the node."`
	Expected bool   `json:"expected" doc:"Whether it had not come yet."`
}

// leave removes a node from the list. A node that is in no list is admitted nowhere.
func (r *Room) leave(c *httpd.Call, in struct {
	ID string `path:"id" doc:"Id of the node."`
}) (Left, error) {
	s, err := Load(c, r.DB)
	if err != nil {
		return Left{}, err
	}
	m, ok, err := member(c, r.DB, in.ID)
	switch {
	case err != nil:
		return Left{}, err
	case s.Role != Primary && s.Role != Single && in.ID == r.node().ID: // whether or not it is still in the list
		return r.leaveAlone(c, s)
	case !ok:
		return Left{}, fault.New(fault.NotFound, "This node does not exist.")
	case s.Role != Primary:
		return Left{}, elsewhere(s)
	case m.ID == r.node().ID:
		return Left{}, fault.New(fault.Conflict, "The primary cannot leave. Promote another node first.")
	}
	out := Left{ID: m.ID, FQDN: m.FQDN, Expected: m.Expected()}
	if !m.Expected() {
		_, failed := Ask[struct{}](c, r, m, http.MethodPost, "/agent/cluster/leave", nil)
		if out.Reached = failed == nil; !out.Reached {
			r.Log.Warn("removing a node that does not answer", "node", m.FQDN, "err", failed)
		}
		if err := r.think(c, m.ID, Leaving, m.Version, m.ConfigHash); err != nil {
			return Left{}, err
		}
	}
	err = r.commit(c, func(tx *db.Tx) error {
		tx.Queue(`DELETE FROM ha_nodes WHERE id = $1`, m.ID)
		tx.Queue(`DELETE FROM ha_join_tokens WHERE fqdn = $1`, m.FQDN)
		return r.Audit.Write(c, tx, "cluster.leave", m.FQDN, out)
	})
	return out, err
}

// leavesThere reports whether the primary must remove the node: always, except for this node if the primary no longer answers it.
func (r *Room) leavesThere(c *httpd.Call) (bool, error) {
	if c.Request.PathValue("id") != r.node().ID {
		return true, nil
	}
	s, err := Load(c, r.DB)
	if err != nil {
		return false, err
	}
	return r.hasPrimary(c, s)
}

// hasPrimary reports whether the primary answers this node: it may be down, or have removed this node from its list.
func (r *Room) hasPrimary(ctx context.Context, s State) (bool, error) {
	primary, ok, err := member(ctx, r.DB, s.PrimaryID)
	if err != nil || !ok {
		return false, err
	}
	_, err = r.askIdentity(ctx, primary)
	return err == nil, nil
}

// leaveAlone removes this node from a cluster that no longer has a primary for it.
func (r *Room) leaveAlone(ctx context.Context, s State) (Left, error) {
	has, err := r.hasPrimary(ctx, s)
	switch {
	case err != nil:
		return Left{}, err
	case has:
		return Left{}, elsewhere(s)
	}
	return Left{ID: r.node().ID, FQDN: r.node().Name, Reached: true}, r.left(ctx)
}

// left makes this node a gateway without a cluster, with its present configuration. The virtual addresses stay with the cluster.
func (r *Room) left(ctx context.Context) error {
	_, err := r.Engine.CommitBoth(ctx, nil, r.deps.Feeds, func(tx *db.Tx) ([]apply.Row, error) {
		was, err := alone(ctx, tx)
		if err != nil {
			return nil, err
		}
		tx.Queue("SELECT gateway_cluster.unsubscribe()")
		become(tx, Single, was.Epoch, Node{}, r.Clock.Now())
		tx.Queue("UPDATE ha_state SET slot = '', synced_at = NULL")
		for _, table := range []string{"ha_nodes", "ha_ca", "ha_join_tokens"} {
			tx.Queue("DELETE FROM " + table)
		}
		r.Audit.TakeOver(tx)
		if r.deps.Leave != nil {
			if err := r.deps.Leave(ctx, tx); err != nil {
				return nil, err
			}
		}
		return nil, r.Audit.Write(ctx, tx, "cluster.left", r.node().Name, map[string]any{"was": was.PrimaryName})
	})
	if err != nil {
		return err
	}
	r.see(ctx)
	r.writeNodeFile(ctx, nil)
	return r.forget()
}

// dismissed makes the database of a node that has left stop listening for other nodes. This may restart PostgreSQL.
func (r *Room) dismissed(ctx context.Context) error {
	r.admits.Lock()
	defer r.admits.Unlock()
	// The file removed last still exists if an earlier attempt was interrupted.
	if _, err := r.Host.Read(postgresql.Authority); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, host.ErrNotInstalled) {
			return nil
		}
		return err
	}
	return peering.Remove(ctx, r.Host, r.DB)
}

func portOf(at string) int {
	u, err := url.Parse(at)
	if err != nil {
		return AgentPort
	}
	n, err := strconv.Atoi(u.Port())
	if err != nil {
		return AgentPort
	}
	return n
}
