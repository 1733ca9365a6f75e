package host

import (
	"context"
	"net/netip"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// TunnelProtocol marks addresses, routes and rules of tunnels in the kernel. It differs from RouteProtocol, so that tunnels and the
// rest of the network each remove only their own.
const TunnelProtocol = 251

// OwnTunnel is the prefix of the alias of every tunnel link that the gateway made; the interface's id follows.
const OwnTunnel = "gateway-tunnel:"

// DirectMark marks packets that use the main routing table even if a tunnel carries all other traffic: the tunnels' own packets,
// and answers to clients that did not come through a tunnel.
const DirectMark = 51251

// Tunnels manages WireGuard links, either in the kernel or, if it has no WireGuard, with wireguard-go. Addresses and routes are
// Network's.
type Tunnels interface {
	// TunnelDevices returns all WireGuard links, also those that the gateway did not make.
	TunnelDevices(ctx context.Context) ([]TunnelDevice, error)
	// CreateTunnel creates a WireGuard link without a key. It is down at first.
	CreateTunnel(ctx context.Context, name, alias string) error
	// ChangeTunnel changes only what is given, so that its cost does not depend on the number of peers.
	ChangeTunnel(ctx context.Context, name string, c TunnelChange) error
	// RemoveTunnel removes a link with the gateway's tunnel alias, if it exists.
	RemoveTunnel(ctx context.Context, name string) error
	Rules(ctx context.Context) ([]Rule, error)
	AddRule(ctx context.Context, r Rule) error
	// RemoveRule removes a tunnel's routing rule, if it exists.
	RemoveRule(ctx context.Context, r Rule) error
	// TunnelFiles reads the machine's own WireGuard configuration files, sorted by name, for import.
	TunnelFiles(ctx context.Context) ([]TunnelFile, error)
}

var tunnelsVerbs = daemon.Verbs{
	"Rules":         daemon.Local,
	"TunnelDevices": daemon.Repeatable, "TunnelFiles": daemon.Repeatable,
	"CreateTunnel": daemon.Served, "ChangeTunnel": daemon.Served, "RemoveTunnel": daemon.Served, "AddRule": daemon.Served, "RemoveRule": daemon.Served,
}

// TunnelKey is a WireGuard key. All zeros mean no key.
type TunnelKey [32]byte

// PublicKey derives the public key of a private one; no key gives no key.
func (k TunnelKey) PublicKey() TunnelKey {
	if k == (TunnelKey{}) {
		return k
	}
	return TunnelKey(wgtypes.Key(k).PublicKey())
}

type TunnelDevice struct {
	Name       string
	Kind       string // kernel, userspace
	PublicKey  TunnelKey
	ListenPort int
	Mark       int // of the packets that it sends
	Peers      []TunnelPeer
}

type TunnelPeer struct {
	PublicKey     TunnelKey
	PresharedKey  TunnelKey
	Endpoint      netip.AddrPort // invalid while unknown
	Keepalive     int            // seconds; 0 for none
	LastHandshake time.Time      // zero for never
	Rx, Tx        int64
	AllowedIPs    []netip.Prefix
}

// TunnelChange changes a WireGuard link. Fields that are nil stay as they are.
type TunnelChange struct {
	PrivateKey *TunnelKey
	ListenPort *int
	Mark       *int
	Peers      []TunnelPeerChange
}

// TunnelPeerChange adds, changes or removes a peer. Fields that are nil stay as they are.
type TunnelPeerChange struct {
	PublicKey    TunnelKey
	Remove       bool
	PresharedKey *TunnelKey
	Endpoint     netip.AddrPort // invalid: stays as it is
	Keepalive    *int           // seconds; 0 for none
	AllowedIPs   *[]netip.Prefix
}

type Rule struct {
	Family   string // inet, inet6
	Priority int    // the lowest comes first
	From     netip.Prefix
	NotMark  int // matches packets without this mark; 0 matches all
	Table    uint32
	Specific bool // ignores the table's default route
}

type TunnelFile struct {
	Name    string // of the interface
	Content []byte
	Problem string // why it could not be read
}
