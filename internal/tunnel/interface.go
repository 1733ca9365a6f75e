package tunnel

import (
	"context"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

const (
	interfaceTable = "tunnel_interfaces"

	server = "server"
	client = "client"

	// usualPort is WireGuard's default port.
	usualPort = 51820
	// usualKeepalive keeps the path through common NAT open, in seconds.
	usualKeepalive = 25
)

// everything is the default of what goes through an upstream.
var everything = value.Must[Networks]("0.0.0.0/0,::/0")

// Interface is a WireGuard interface: a server for peers, or a client of an upstream.
type Interface struct {
	resource.Meta
	resource.Secrets
	Name                           value.IfName `json:"name" required:"true" doc:"Name of the interface. A network interface of type wireguard with this name gives it a zone."`
	Mode                           string       `json:"mode" enum:"server,client" doc:"Whether it serves peers or is the client of one upstream. An interface with peers must stay a server."`
	AddressCIDR                    Addresses    `json:"address_cidr" required:"true" doc:"Address of the gateway in the tunnel with its prefix length; several are separated by commas."`
	ListenPort                     int          `json:"listen_port" minimum:"0" maximum:"65535" doc:"UDP port. With 0, a server uses the first free port from 51820, and a client any free port."`
	ClientRoutes                   Networks     `json:"client_routes" doc:"For a server: networks that peers reach through the tunnel besides its own, separated by commas. They are part of the peers' configuration; 0.0.0.0/0,::/0 is everything."`
	DNS                            Resolvers    `json:"dns" doc:"For a server: addresses of DNS servers for peers, separated by commas."`
	MTU                            *int         `json:"mtu" minimum:"1280" maximum:"9000" doc:"Largest packet (MTU), for the interface and for peers; null for WireGuard's default, 1420."`
	EndpointHost                   value.Host   `json:"endpoint_host" doc:"For a server: name or address at which peers reach the gateway; empty for its host name."`
	PublicKey                      Key          `json:"public_key" readOnly:"true" doc:"Public key, derived from the private key."`
	PrivateKey                     secret.Text  `json:"private_key,omitzero" doc:"Private key. Leave it out for a new interface to generate one."`
	UpstreamPublicKey              Key          `json:"upstream_public_key" doc:"For a client: public key of the upstream."`
	UpstreamEndpoint               Endpoint     `json:"upstream_endpoint" doc:"For a client: endpoint of the upstream, host:port."`
	UpstreamPresharedKey           secret.Text  `json:"upstream_preshared_key,omitzero" doc:"For a client: preshared key, if the upstream uses one."`
	UpstreamPresharedKeyConfigured bool         `json:"upstream_preshared_key_configured" readOnly:"true" db:"-" doc:"Whether there is a preshared key."`
	UpstreamAllowedIPs             Networks     `json:"upstream_allowed_ips" doc:"For a client: networks reached through the upstream, separated by commas. 0.0.0.0/0 is all of IPv4; more specific routes of the gateway, for example to its own networks, still apply, and so do its answers on its other addresses."`
	UpstreamKeepalive              int          `json:"upstream_keepalive" minimum:"0" maximum:"65535" doc:"For a client: seconds between keepalive packets; 0 sends none."`
	Active                         bool         `json:"active" doc:"When off, the interface is removed, but the tunnel and its peers are kept."`
}

func (i *Interface) Label() string { return i.Name.String() }

// Validate reports settings that the mode needs but lacks, and settings that it does not take.
func (i *Interface) Validate() error {
	var c check.List
	checkKey(&c, "private_key", i.PrivateKey)
	checkKey(&c, "upstream_preshared_key", i.UpstreamPresharedKey)
	if i.Mode == client {
		c.That(!i.UpstreamPublicKey.IsZero(), "upstream_public_key", "is required for a client")
		c.That(!i.UpstreamEndpoint.IsZero(), "upstream_endpoint", "is required for a client")
		c.That(!i.UpstreamAllowedIPs.IsZero(), "upstream_allowed_ips", "is required for a client. Use 0.0.0.0/0,::/0 for everything")
		c.That(i.ClientRoutes.IsZero(), "client_routes", "applies to a server only")
		c.That(i.DNS.IsZero(), "dns", "applies to a server only")
		c.That(i.EndpointHost.IsZero(), "endpoint_host", "applies to a server only")
		return c.Err()
	}
	const alone = "applies to a client only"
	c.That(i.UpstreamPublicKey.IsZero(), "upstream_public_key", alone)
	c.That(i.UpstreamEndpoint.IsZero(), "upstream_endpoint", alone)
	c.That(!i.UpstreamPresharedKey.Set(), "upstream_preshared_key", alone)
	c.That(i.UpstreamAllowedIPs == everything, "upstream_allowed_ips", alone+": leave it out")
	c.That(i.UpstreamKeepalive == usualKeepalive, "upstream_keepalive", alone+": leave it out")
	return c.Err()
}

func (r *Room) interfaceKind() resource.Kind[Interface] {
	return resource.Kind[Interface]{
		Name: "tunnel.interface", Title: "tunnel interface", Path: "/tunnel/interfaces", Table: interfaceTable, Order: "name", Feeds: feeds,
		New: func() Interface {
			return Interface{Mode: server, UpstreamAllowedIPs: everything, UpstreamKeepalive: usualKeepalive, Active: true}
		},
		Check: r.checkInterface,
	}
}

func (r *Room) checkInterface(ctx context.Context, tx *db.Tx, was, now *Interface) error {
	if now == nil {
		return nil
	}
	if err := now.takeKey(was); err != nil {
		return err
	}
	all, err := r.interfaces.All(ctx, tx)
	if err != nil {
		return err
	}
	var others []Interface
	for _, o := range all {
		if o.ID != now.ID {
			others = append(others, o)
		}
	}
	if now.Mode == server && now.ListenPort == 0 {
		now.ListenPort = freePort(others)
	}
	var c check.List
	for _, o := range others {
		now.compare(&c, &o)
	}
	if was != nil && was.Mode != now.Mode && now.Mode == client {
		var peers int
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM tunnel_peers WHERE interface_id = $1", now.ID).Scan(&peers); err != nil {
			return err
		}
		c.That(peers == 0, "mode", "must stay server while there are peers (%d). Delete them first", peers)
	}
	return c.Err()
}

// takeKey generates the key of a new interface, or derives the public key of an entered one. Otherwise the stored key stays.
func (i *Interface) takeKey(was *Interface) error {
	private, given, err := fresh("private_key", i.PrivateKey)
	var stored secret.Text
	if was != nil {
		stored = was.PrivateKey
	}
	switch {
	case err != nil:
		return err
	case comesBack(i.PrivateKey, stored):
		return nil // with its public key
	case !given && was != nil:
		i.PrivateKey = was.PrivateKey
		return nil
	case !given:
		if private, err = generate(); err != nil {
			return err
		}
		i.PrivateKey = secret.New(private.String())
	}
	i.PublicKey, err = public(private)
	return err
}

// freePort returns the first port that no other interface has.
func freePort(others []Interface) int {
	taken := map[int]bool{}
	for _, o := range others {
		taken[o.ListenPort] = true
	}
	port := usualPort
	for taken[port] {
		port++
	}
	return port
}

// compare refuses what two interfaces cannot both have.
func (i *Interface) compare(c *check.List, o *Interface) {
	c.Unique(i.Name != o.Name, "name", "is taken by another tunnel interface")
	c.Unique(i.ListenPort == 0 || i.ListenPort != o.ListenPort, "listen_port", "is already used by %s", o.Name)
	c.Unique(i.PublicKey != o.PublicKey, "private_key", "is already the key of %s. Each interface needs its own key", o.Name)
	if !i.Active || !o.Active {
		return
	}
	for _, n := range i.AddressCIDR.Networks() {
		for _, m := range o.AddressCIDR.Networks() {
			c.That(!n.Netip().Overlaps(m.Netip()), "address_cidr", "must not overlap: it contains %s, and %s has %s", n, o.Name, m)
		}
	}
	if i.Mode != client || o.Mode != client {
		return
	}
	for _, n := range i.UpstreamAllowedIPs.List() {
		for _, m := range o.UpstreamAllowedIPs.List() {
			c.That(n != m, "upstream_allowed_ips", "must not contain %s, which is already routed through %s. Remove it from one of them, or turn one of them off", n, o.Name)
		}
	}
}
