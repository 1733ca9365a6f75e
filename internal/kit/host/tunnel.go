package host

import (
	"context"
	"net/netip"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// TunnelProtocol is the number that addresses, routes and rules of tunnels carry in the kernel. It is not that of the rest of
// the network, so that each side removes its own alone.
const TunnelProtocol = 251

// OwnTunnel begins the alias of every link of a tunnel that the gateway made; the id of the interface comes behind it.
const OwnTunnel = "gateway-tunnel:"

// DirectMark is on packets that keep to the main routing table where a tunnel has everything else: those of the tunnels
// themselves, and answers to who did not come through one.
const DirectMark = 51251

// Tunnels makes, changes and reads WireGuard links. It is the same whether the kernel does the work or, where that knows no
// WireGuard, the program wireguard-go. Addresses and routes are Network's.
type Tunnels interface {
	// TunnelDevices lists the WireGuard links, whoever made them.
	TunnelDevices(ctx context.Context) ([]TunnelDevice, error)
	// CreateTunnel makes a WireGuard link. It has no key and is not up yet.
	CreateTunnel(ctx context.Context, name, alias string) error
	// ChangeTunnel changes what is given, and nothing else: its cost does not depend on how many peers there are.
	ChangeTunnel(ctx context.Context, name string, c TunnelChange) error
	// RemoveTunnel removes a link that carries the alias of a tunnel of the gateway; one that is gone already is no error.
	RemoveTunnel(ctx context.Context, name string) error
	// Rules lists the routing rules of tunnels.
	Rules(ctx context.Context) ([]Rule, error)
	// AddRule adds a routing rule; one that is there already is no error.
	AddRule(ctx context.Context, r Rule) error
	// RemoveRule removes a routing rule of a tunnel; one that is gone already is no error.
	RemoveRule(ctx context.Context, r Rule) error
	// TunnelFiles reads the configuration files that the machine has for WireGuard, by name.
	TunnelFiles(ctx context.Context) ([]TunnelFile, error)
}

var tunnelsVerbs = daemon.Verbs{
	"Rules":         daemon.Local,
	"TunnelDevices": daemon.Repeatable, "TunnelFiles": daemon.Repeatable,
	"CreateTunnel": daemon.Served, "ChangeTunnel": daemon.Served, "RemoveTunnel": daemon.Served, "AddRule": daemon.Served, "RemoveRule": daemon.Served,
}

// TunnelKey is a key of WireGuard. All zeros are no key.
type TunnelKey [32]byte

// PublicKey is the public key of a private one; no key has none.
func (k TunnelKey) PublicKey() TunnelKey {
	if k == (TunnelKey{}) {
		return k
	}
	return TunnelKey(wgtypes.Key(k).PublicKey())
}

// TunnelDevice is a WireGuard link.
type TunnelDevice struct {
	Name       string
	Kind       string // kernel, userspace
	PublicKey  TunnelKey
	ListenPort int
	Mark       int // that its packets carry on their way out
	Peers      []TunnelPeer
}

// TunnelPeer is one peer of a WireGuard link.
type TunnelPeer struct {
	PublicKey     TunnelKey
	PresharedKey  TunnelKey
	Endpoint      netip.AddrPort // not valid while nobody knows where it is
	Keepalive     int            // seconds; 0 for none
	LastHandshake time.Time      // zero for never
	Rx, Tx        int64
	AllowedIPs    []netip.Prefix
}

// TunnelChange is what shall be different about a WireGuard link; what is nil stays as it is.
type TunnelChange struct {
	PrivateKey *TunnelKey
	ListenPort *int
	Mark       *int
	Peers      []TunnelPeerChange
}

// TunnelPeerChange is what shall be different about one peer, which is made if it is not there. What is nil stays as it is.
type TunnelPeerChange struct {
	PublicKey    TunnelKey
	Remove       bool
	PresharedKey *TunnelKey
	Endpoint     netip.AddrPort // not valid: stays as it is
	Keepalive    *int           // seconds; 0 for none
	AllowedIPs   *[]netip.Prefix
}

// Rule is a routing rule: packets that it fits look for their way in a table.
type Rule struct {
	Family   string // inet, inet6
	Priority int    // the lowest is asked first
	From     netip.Prefix
	NotMark  int // it fits all packets but those with this mark; 0 asks for none
	Table    uint32
	Specific bool // the table's default route does not count
}

// TunnelFile is a configuration file of WireGuard.
type TunnelFile struct {
	Name    string // of the interface
	Content []byte
	Problem string // why it could not be read
}
