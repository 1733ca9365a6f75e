package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

const peerTable = "tunnel_peers"

// maxName is the maximum length of a peer's name, in bytes.
const maxName = 120

// Peer is at the other end of an interface that serves peers: a person's device, or another site.
type Peer struct {
	resource.Meta
	resource.Secrets
	InterfaceID            uuid.UUID   `json:"interface_id" required:"true" doc:"Interface that it is a peer of. It cannot be changed."`
	Name                   value.Line  `json:"name" required:"true" maxLength:"120" doc:"Name of the peer."`
	PublicKey              Key         `json:"public_key" doc:"Public key. Leave it out for a new peer to generate a key pair, so that its configuration can be downloaded. If you replace it, the gateway forgets the private key."`
	PrivateKey             secret.Text `json:"private_key,omitzero" doc:"Private key of the peer, if you want the gateway to know it. The public key is derived from it."`
	PresharedKey           secret.Text `json:"preshared_key,omitzero" doc:"Optional preshared key. Must be the same on both ends."`
	PresharedKeyConfigured bool        `json:"preshared_key_configured" readOnly:"true" db:"-" doc:"Whether there is a preshared key."`
	AllowedIPs             Networks    `json:"allowed_ips" doc:"Allowed IPs: the peer's address in the tunnel and the networks behind it, separated by commas. Leave it out for a new peer to use the next free address."`
	Endpoint               Endpoint    `json:"endpoint" doc:"Endpoint at which the gateway reaches the peer, host:port; empty if the peer connects to the gateway."`
	Keepalive              int         `json:"keepalive" minimum:"0" maximum:"65535" doc:"Seconds between keepalive packets, at both ends; 0 sends none."`
	HasPrivateKey          bool        `json:"has_private_key" readOnly:"true" db:"-" doc:"Whether the gateway knows the private key, so that the configuration can be downloaded."`
	Warnings               []string    `json:"warnings" readOnly:"true" db:"-" doc:"Warnings, as sentences."`
	Active                 bool        `json:"active" doc:"When off, the peer is kept but cannot connect."`

	// parent caches its interface during a change of the peer.
	parent *Interface
}

func (p *Peer) Label() string { return p.Name.String() }

func (p *Peer) Validate() error {
	var c check.List
	c.That(len(p.Name.String()) <= maxName, "name", "must have at most %d bytes", maxName)
	checkKey(&c, "private_key", p.PrivateKey)
	checkKey(&c, "preshared_key", p.PresharedKey)
	return c.Err()
}

// view fills in the derived fields for display.
func (p *Peer) view() {
	p.HasPrivateKey = p.PrivateKey.Set()
	p.Warnings = []string{}
	for _, n := range p.AllowedIPs.List() {
		switch {
		case n.Netip().Bits() == 0:
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s sends all traffic without a more specific route to this peer. For a device that should reach everything through the gateway, set 0.0.0.0/0,::/0 as the client_routes of the interface instead, and its own address here.", n))
		case !single(n):
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s is more than one address, so other peers in it can no longer be reached. That is correct for a network behind the peer; for a single device, use only its own address.", n))
		}
	}
}

func (r *Room) peerKind() resource.Child[Peer] {
	return resource.Child[Peer]{
		Under: "/tunnel/interfaces/{parent}/peers", Column: "interface_id", Parent: interfaceTable,
		Kind: resource.Kind[Peer]{
			Name: "tunnel.peer", Title: "tunnel peer", Path: "/peers", Table: peerTable, Order: "name", Feeds: feeds[:1], Natural: []string{"interface_id", "name"},
			New:   func() Peer { return Peer{Active: true} },
			Check: r.checkPeer,
			View:  (*Peer).view,
		},
	}
}

func (r *Room) checkPeer(ctx context.Context, tx *db.Tx, was, now *Peer) error {
	if now == nil {
		return nil
	}
	if was != nil && was.InterfaceID != now.InterfaceID {
		return fault.Field("interface_id", "cannot be changed. Add a peer to the other interface and delete this one")
	}
	if err := now.takeKey(was); err != nil {
		return err
	}
	i, err := r.interfaces.Get(ctx, tx, now.InterfaceID)
	if fault.Is(err, fault.NotFound) {
		return fault.Field("interface_id", "has an id that does not exist")
	}
	if err != nil {
		return err
	}
	now.parent = i
	if now.AllowedIPs.IsZero() && was == nil {
		next, err := r.nextAddress(ctx, tx, i)
		if err != nil {
			return err
		}
		now.AllowedIPs = next
	}
	var c check.List
	c.That(i.Mode == server, "interface_id", "must be a server. %s is a client, which has only its upstream", i.Name)
	c.That(!now.AllowedIPs.IsZero(), "allowed_ips", "is required. Enter the peer's address in the tunnel, for example 10.8.0.2/32")
	c.That(now.PublicKey != i.PublicKey, "public_key", "must not be the key of %s itself", i.Name)
	for _, own := range i.AddressCIDR.List() {
		for _, n := range now.AllowedIPs.List() {
			c.That(n.Netip() != netip.PrefixFrom(own.Addr(), own.Addr().BitLen()), "allowed_ips", "must not contain %s, the address of the gateway itself", own.Addr())
		}
	}
	if err := c.Err(); err != nil {
		return err
	}
	return compareToOthers(ctx, tx, now)
}

// takeKey generates the key pair of a new peer without one, and keeps a stored private key as long as the public one is unchanged.
func (p *Peer) takeKey(was *Peer) error {
	private, given, err := fresh("private_key", p.PrivateKey)
	if err != nil {
		return err
	}
	stays := was != nil && was.PublicKey == p.PublicKey
	var stored secret.Text
	if was != nil {
		stored = was.PrivateKey
	}
	switch {
	case given:
	case comesBack(p.PrivateKey, stored):
		return nil // with its public key
	case was == nil && p.PublicKey.IsZero():
		if private, err = generate(); err != nil {
			return err
		}
		p.PrivateKey = secret.New(private.String())
	case p.PublicKey.IsZero():
		return fault.Field("public_key", "must not be empty. Use generate-keypair for a new pair")
	case stays:
		p.PrivateKey = was.PrivateKey
		return nil
	default:
		p.PrivateKey = secret.Text{}
		return nil
	}
	key, err := public(private)
	if err != nil {
		return err
	}
	if !p.PublicKey.IsZero() && !stays && p.PublicKey != key {
		return fault.Field("public_key", "does not match the private key. Leave it out")
	}
	p.PublicKey = key
	return nil
}

// compareToOthers refuses what another peer already has. WireGuard would silently move it to this one.
func compareToOthers(ctx context.Context, tx *db.Tx, p *Peer) error {
	var name, link string
	var network *string
	err := tx.QueryRow(ctx, `
		SELECT name, NULL, '' FROM tunnel_peers WHERE interface_id = $1 AND public_key = $2 AND id <> $3
		UNION ALL
		SELECT p.name, (SELECT x FROM unnest(string_to_array(p.allowed_ips, ',')) x WHERE x = ANY ($4) LIMIT 1), i.name
		FROM tunnel_peers p JOIN tunnel_interfaces i ON i.id = p.interface_id
		WHERE $5 AND string_to_array(p.allowed_ips, ',') && $4 AND p.id <> $3 AND p.active AND (p.interface_id = $1 OR i.active)
		LIMIT 1`,
		p.InterfaceID, p.PublicKey.String(), p.ID, split(p.AllowedIPs.String()), p.Active).Scan(&name, &network, &link)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	case network == nil:
		return fault.Taken(map[string]string{"public_key": fmt.Sprintf("is already the key of the peer %s", name)})
	}
	return fault.Taken(map[string]string{"allowed_ips": fmt.Sprintf("must not contain %s, which already belongs to the peer %s of %s", *network, name, link)})
}

// nextAddress returns the first free address of each network of an interface.
func (r *Room) nextAddress(ctx context.Context, q db.Querier, i *Interface) (Networks, error) {
	taken, err := takenAddresses(ctx, q, i.ID)
	if err != nil {
		return Networks{}, err
	}
	text := ""
	for _, own := range i.AddressCIDR.List() {
		if a, ok := firstFree(own, taken); ok {
			if text != "" {
				text += ","
			}
			text += netip.PrefixFrom(a, a.BitLen()).String()
		}
	}
	if text == "" {
		return Networks{}, fault.New(fault.Conflict, "%s has no free address left. Give it a larger network, or set allowed_ips.", i.Name)
	}
	return value.Parse[Networks](text)
}

// takenAddresses returns the single addresses of an interface's peers, active or not. One aggregated text is read several times faster than
// thousands of rows.
func takenAddresses(ctx context.Context, q db.Querier, id uuid.UUID) (map[netip.Addr]bool, error) {
	var all string
	err := q.QueryRow(ctx, "SELECT coalesce(string_agg(allowed_ips, ',') FILTER (WHERE allowed_ips <> ''), '') FROM tunnel_peers WHERE interface_id = $1", id).Scan(&all)
	if err != nil || all == "" {
		return nil, err
	}
	taken := make(map[netip.Addr]bool, strings.Count(all, ",")+1)
	for text := range strings.SplitSeq(all, ",") {
		n, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		if n.IsSingleIP() {
			taken[n.Addr()] = true
		}
	}
	return taken, nil
}

// firstFree returns the first free address of a network, after the gateway's own if possible.
func firstFree(own netip.Prefix, taken map[netip.Addr]bool) (netip.Addr, bool) {
	network := own.Masked()
	free := func(a netip.Addr) bool {
		// The first and the last address of an IPv4 network are reserved for the network itself and for broadcasts; the first of an IPv6
		// network for its routers.
		ends := func() bool {
			return network.Bits() < a.BitLen()-1 && (a == network.Addr() || a.Is4() && a == value.Last(network))
		}
		return a != own.Addr() && !taken[a] && !ends()
	}
	for a := own.Addr().Next(); network.Contains(a); a = a.Next() {
		if free(a) {
			return a, true
		}
	}
	for a := network.Addr(); a != own.Addr(); a = a.Next() {
		if free(a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}
