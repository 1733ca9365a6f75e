package cluster

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
)

var errNoRows = pgx.ErrNoRows

// Status is what this node knows about another one.
type Status string

const (
	// Pending has a join token, but has not used it.
	Pending Status = "pending"
	// Joining has its certificate, but has not registered.
	Joining Status = "joining"
	// Online answers heartbeats.
	Online Status = "online"
	// Offline has missed three heartbeats.
	Offline Status = "offline"
	// Leaving is being removed.
	Leaving Status = "leaving"
	// Unknown cannot be determined.
	Unknown Status = "unknown"
)

// placeholder is the prefix of the ids of expected nodes; the name follows.
const placeholder = "prenode-"

// Member is a node in the list that every node has.
type Member struct {
	ID         string
	CreatedAt  time.Time
	FQDN       string
	PublicIP   string
	InternalIP string
	MgmtIP     string
	// APIURL is the address of its agent listener.
	APIURL string
	// What this node knows about it.
	Status     Status
	Version    string
	ConfigHash string
}

// Expected reports whether the node has not joined yet.
func (m Member) Expected() bool { return strings.HasPrefix(m.ID, placeholder) }

// Addresses returns the addresses by which other nodes know it.
func (m Member) Addresses() []netip.Addr {
	var list []netip.Addr
	for _, text := range []string{m.InternalIP, m.PublicIP, m.MgmtIP} {
		if a, err := netip.ParseAddr(text); err == nil && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

func (m Member) node() Node { return Node{m.ID, m.FQDN} }

const selectMembers = `SELECT id, created_at, fqdn, public_ip, internal_ip, mgmt_ip, api_url, status, version, config_hash FROM ha_nodes`

// Members lists the nodes by name, including this one.
func Members(ctx context.Context, q db.Querier) ([]Member, error) {
	rows, err := q.Query(ctx, selectMembers+` ORDER BY fqdn`)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Member])
	for i, m := range list {
		// Only the primary knows the progress of an expected node; other nodes only see whether it has its certificate.
		if m.Expected() && m.Status == Unknown {
			if list[i].Status = Pending; m.PublicIP != "" {
				list[i].Status = Joining
			}
		}
	}
	return list, err
}

func member(ctx context.Context, q db.Querier, id string) (m Member, ok bool, err error) {
	rows, err := q.Query(ctx, selectMembers+` WHERE id = $1`, id)
	if err != nil {
		return m, false, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Member])
	if err != nil || len(list) == 0 {
		return m, false, err
	}
	return list[0], true, nil
}

// Peers lists the other nodes that have joined.
func (r *Room) Peers(ctx context.Context, q db.Querier) ([]Member, error) {
	list, err := Members(ctx, q)
	return slices.DeleteFunc(list, func(m Member) bool { return m.Expected() || m.ID == r.node().ID }), err
}

// PeerAddresses returns the addresses of the other nodes and of those that are joining, for access to the ports for nodes.
func (r *Room) PeerAddresses(ctx context.Context, q db.Querier) ([]netip.Addr, error) {
	list, err := Members(ctx, q)
	var addresses []netip.Addr
	for _, m := range list {
		if m.ID != r.node().ID {
			addresses = append(addresses, m.Addresses()...)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses), err
}

// store changes the list of nodes, and renders what depends on it.
func (r *Room) store(ctx context.Context, change func(tx *db.Tx) error) error {
	_, err := r.Engine.Commit(ctx, r.deps.Feeds, func(tx *db.Tx) ([]apply.Row, error) { return nil, change(tx) })
	return err
}

// commit calls store, and then opens the database to the nodes in the list.
func (r *Room) commit(ctx context.Context, change func(tx *db.Tx) error) error {
	if err := r.store(ctx, change); err != nil {
		return err
	}
	return r.publishMembers(ctx)
}

// publishMembers announces the current members.
func (r *Room) publishMembers(ctx context.Context) error {
	members, err := Members(ctx, r.DB)
	if err != nil {
		return err
	}
	r.writeNodeFile(ctx, members)
	if r.deps.MembersChanged == nil {
		return nil
	}
	return r.deps.MembersChanged(ctx, members)
}

// writeNodeFile describes the node for people and scripts on the machine.
func (r *Room) writeNodeFile(ctx context.Context, members []Member) {
	s, err := Load(ctx, r.DB)
	if err != nil {
		return
	}
	mgmt, peers := "", []string{}
	for _, m := range members {
		switch {
		case m.ID == r.node().ID:
			mgmt = m.MgmtIP
		case !m.Expected():
			peers = append(peers, m.FQDN)
		}
	}
	text := "NODE_ID=" + r.node().ID + "\nHOSTNAME=" + r.node().Name + "\nMGMT_IP=" + mgmt + "\nROLE=" + string(s.Role) + "\nPEER_HOSTS=" + strings.Join(peers, ",") + "\n"
	if was, err := r.Host.Read(host.NodeFile); err == nil && string(was) == text {
		return
	}
	if err := r.Host.Install(host.NodeFile, []byte(text)); err != nil {
		r.Log.Warn("the file that describes this node was not written", "err", err)
	}
}

// think stores what this node knows about another one.
func (r *Room) think(ctx context.Context, id string, s Status, version, hash string) error {
	return r.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue(`UPDATE ha_nodes SET status = $2, version = $3, config_hash = $4 WHERE id = $1 AND status <> 'leaving' AND (status, version, config_hash) IS DISTINCT FROM ($2, $3, $4)`, id, s, version, hash)
		return nil
	})
}

// Registration is what a node reports when it registers.
type Registration struct {
	InternalIP string `json:"internal_ip" maxLength:"64" doc:"Address by which it reaches the primary."`
	MgmtIP     string `json:"mgmt_ip" maxLength:"64" doc:"Address of its management."`
	APIPort    int    `json:"api_port" minimum:"1" maximum:"65535" required:"true" doc:"Port of its agent listener."`
	Version    string `json:"version" maxLength:"64" doc:"Version that it runs."`
}

func (n *Registration) Validate() error {
	for field, text := range map[string]string{"internal_ip": n.InternalIP, "mgmt_ip": n.MgmtIP} {
		if text == "" {
			continue
		}
		if a, err := netip.ParseAddr(text); err != nil || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() {
			return fault.Field(field, "must be an address of the node")
		}
	}
	return nil
}

// register adds a node to the list whose certificate has proved its identity. All placeholders of its name are deleted, but their address
// is kept.
func (r *Room) register(ctx context.Context, id, fqdn string, n Registration) error {
	now := r.Clock.Now()
	return r.commit(ctx, func(tx *db.Tx) error {
		var public, internal string
		created := now
		err := tx.QueryRow(ctx, `SELECT public_ip, internal_ip, created_at FROM ha_nodes WHERE fqdn = $1 FOR UPDATE`, fqdn).Scan(&public, &internal, &created)
		if err != nil {
			return err
		}
		if n.InternalIP == "" {
			n.InternalIP = public
		}
		url := apiURL(n.InternalIP, n.APIPort)
		tx.Queue(`DELETE FROM ha_nodes WHERE fqdn = $1 AND starts_with(id, $2)`, fqdn, placeholder)
		tx.Queue(`INSERT INTO ha_nodes (id, created_at, updated_at, fqdn, public_ip, internal_ip, mgmt_ip, api_url, status, version) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT (id) DO UPDATE SET updated_at = $3, internal_ip = $6, mgmt_ip = $7, api_url = $8, status = $9, version = $10`,
			id, created, now, fqdn, public, n.InternalIP, n.MgmtIP, url, Online, n.Version)
		return r.Audit.WriteAs(ctx, tx, fqdn, "cluster.register", fqdn, map[string]any{"id": id, "public_ip": public, "internal_ip": n.InternalIP, "version": n.Version})
	})
}
