package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"net/netip"
	"os"
	"time"

	"edge.internal/gateway/internal/kit/db/peering"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
)

// ClientTLS returns the TLS configuration for connections to another node's database.
func (r *Room) ClientTLS() (*tls.Config, error) {
	i := r.identity.Load()
	if i == nil {
		return nil, errNoAuthority
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Time: r.Clock.Now, Certificates: []tls.Certificate{i.own}, RootCAs: i.pool}, nil
}

// Conninfo returns the connection string of another node's database, with this node's certificate. PostgreSQL then has no reason to
// restart while it follows the other node.
func (r *Room) Conninfo(m Member) (string, error) {
	address, err := netip.ParseAddr(m.InternalIP)
	if err != nil {
		return "", fault.New(fault.Unavailable, "The address of the database on %s is not known.", m.FQDN)
	}
	ctx := context.Background()
	members, err := Members(ctx, r.DB)
	if err != nil {
		return "", err
	}
	return peering.Conninfo(m.FQDN, address, r.Host.Path), r.Admit(ctx, members)
}

// refusedFor is how long to wait, unless a person asks for it, before trying the settings for other nodes again if PostgreSQL failed to
// start with them: each attempt is an outage.
const refusedFor = time.Hour

func (r *Room) refusedLately() bool {
	at := r.unready.Load()
	return at != 0 && r.Clock.Now().Sub(time.Unix(at, 0)) < refusedFor
}

// Admit makes PostgreSQL accept the members and no other node; a node that has left is disconnected.
func (r *Room) Admit(ctx context.Context, members []Member) error {
	r.admits.Lock()
	defer r.admits.Unlock()
	var s peering.Settings
	var err error
	if s.Identity, err = os.ReadFile(r.file(nodeFile)); errors.Is(err, os.ErrNotExist) {
		return nil // in no cluster, or about to join one
	} else if err != nil {
		return err
	}
	if s.Authority, err = os.ReadFile(r.file(authorityFile)); err != nil {
		return err
	}
	for _, m := range members {
		if address, err := netip.ParseAddr(m.InternalIP); err == nil && !m.Expected() && m.ID != r.node().ID {
			s.Peers = append(s.Peers, peering.Peer{ID: m.ID, Address: address})
		}
	}
	err = peering.Install(ctx, r.Host, r.DB, s)
	if r.unready.Store(0); errors.Is(err, peering.ErrRefused) {
		r.unready.Store(r.Clock.Now().Unix())
	}
	if err != nil {
		if errors.Is(err, host.ErrNotInstalled) {
			r.Log.Warn("PostgreSQL is not this gateway's to configure: other nodes reach it if its settings let them", "err", err)
			return nil
		}
		return err
	}
	is, err := Load(ctx, r.DB)
	if err != nil {
		return err
	}
	return peering.Dismiss(ctx, r.DB, s.Peers, is.Role != Standby)
}
