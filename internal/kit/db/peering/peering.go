// Package peering decides which databases of other nodes reach that of this one: PostgreSQL's settings, its list of who may connect from where,
// and that of the members whose certificates it takes.
package peering

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
)

// Role is whom other nodes connect as. It reads the tables that all share; as one that replicates, it could follow changes of others, too.
const Role = "gateway_repl"

// Peer is another member of the cluster.
type Peer struct {
	ID      string // the common name of its certificate
	Address netip.Addr
}

// Settings is all that PostgreSQL has to know.
type Settings struct {
	Peers []Peer
	// Authority is the certificate of the cluster's authority, and Identity this node's own, followed by its key.
	Authority, Identity []byte
}

// idForm is that of a node's id: what stands in PostgreSQL's list must not be taken for something else.
var idForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]{0,63}$`)

// everywhere is where PostgreSQL listens. It starts before the gateway gives the machine its addresses, and would not listen on one that is not there yet.
// Who gets in is decided by the packet filter, and by the list below.
const everywhere = "*"

func (s Settings) check() error {
	if !x509.NewCertPool().AppendCertsFromPEM(s.Authority) {
		return errors.New("the authority is no certificate")
	}
	if _, err := tls.X509KeyPair(s.Identity, s.Identity); err != nil {
		return fmt.Errorf("the node's certificate: %w", err)
	}
	for _, p := range s.Peers {
		if !idForm.MatchString(p.ID) || !p.Address.IsValid() || p.Address.Zone() != "" {
			return fmt.Errorf("%q at %s is no node", p.ID, p.Address)
		}
	}
	return nil
}

// where tells where a place is.
type where func(host.Place) string

// Files renders the settings, in the order in which they are to be installed: the last one names the others.
func (s Settings) Files(path where) ([]host.File, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	peers := slices.SortedFunc(slices.Values(s.Peers), func(a, b Peer) int { return strings.Compare(a.ID, b.ID) })
	// Local users are who they are to the machine. Loopback is as Debian has it.
	access := []string{"local all all peer map=gateway", "host all all 127.0.0.1/32 scram-sha-256", "host all all ::1/128 scram-sha-256"}
	members := []string{`gateway /^(.*)$ \1`, "gateway root gateway"}
	for _, p := range peers {
		access = append(access, fmt.Sprintf("hostssl gateway %s %s/%d cert clientcert=verify-full map=cluster", Role, p.Address, p.Address.BitLen()))
		members = append(members, "cluster "+p.ID+" "+Role)
	}
	settings := []string{
		"listen_addresses = '" + everywhere + "'",
		"hba_file = '" + path(postgresql.Access) + "'",
		"ident_file = '" + path(postgresql.Members) + "'",
		"ssl = on",
		"ssl_min_protocol_version = 'TLSv1.3'",
		"ssl_ca_file = '" + path(postgresql.Authority) + "'",
		"ssl_cert_file = '" + path(postgresql.Identity) + "'",
		"ssl_key_file = '" + path(postgresql.Identity) + "'",
		"wal_sender_timeout = '15s'",
		"wal_receiver_timeout = '15s'",
		"wal_retrieve_retry_interval = '1s'",
		"max_slot_wal_keep_size = '1GB'",
	}
	text := func(lines []string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }
	return []host.File{
		{Place: postgresql.Authority, Content: s.Authority}, {Place: postgresql.Identity, Content: s.Identity, Redact: host.Redacted},
		{Place: postgresql.Members, Content: text(members)}, {Place: postgresql.Access, Content: text(access)}, {Place: postgresql.Settings, Content: text(settings)},
	}, nil
}

// Conninfo is how PostgreSQL reaches the database of another node, which it knows by its name. The programs of the gateway, which cannot read PostgreSQL's key, put their own
// certificate in the place of the files: see db.DB.Identify.
func Conninfo(name string, peer netip.Addr, path where) string {
	identity := path(postgresql.Identity)
	return fmt.Sprintf("host=%s hostaddr=%s port=5432 dbname=gateway user=%s sslmode=verify-full ssl_min_protocol_version=TLSv1.3 sslrootcert=%s sslcert=%s sslkey=%s connect_timeout=5 tcp_user_timeout=15000",
		name, peer, Role, path(postgresql.Authority), identity, identity)
}

// Machine is what is asked of the machine.
type Machine interface {
	host.Files
	postgresql.Database
}

const (
	// takenWithin is how long PostgreSQL may take to have new settings, and askEvery how often we ask it to.
	takenWithin = time.Minute
	askEvery    = 5 * time.Second
	lookEvery   = 50 * time.Millisecond
)

// Install has PostgreSQL take the settings, and returns when it has. What is there already is not written again.
func Install(ctx context.Context, m Machine, d *db.DB, s Settings) error {
	files, err := s.Files(m.Path)
	if err != nil {
		return err
	}
	began := time.Now()
	changed, err := write(m, files)
	if err != nil {
		return err
	}
	want := server{listen: everywhere, access: m.Path(postgresql.Access), members: m.Path(postgresql.Members), tls: true}
	if !changed {
		if is, err := look(ctx, d); err == nil && is.same(want) {
			return nil
		}
	}
	return load(ctx, m, d, began, func(is server) (bool, error) {
		if is.same(want) {
			return true, nil
		}
		// Whoever restarts PostgreSQL takes the settings away with which it does not start.
		if _, err := m.Read(postgresql.Settings); errors.Is(err, fs.ErrNotExist) {
			return false, ErrRefused
		}
		return false, nil
	})
}

// ErrRefused says that PostgreSQL does not start with the settings for other nodes.
var ErrRefused = fault.New(fault.Unavailable, "PostgreSQL does not start with the settings for other nodes, so it runs with its former ones. The log of gateway-database has its reason.")

// write installs the files that differ.
func write(m host.Files, files []host.File) (changed bool, err error) {
	for _, f := range files {
		switch is, err := m.Read(f.Place); {
		case err == nil && string(is) == string(f.Content):
			continue
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return changed, err
		}
		if err := m.Install(f.Place, f.Content); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// Remove has PostgreSQL listen to no other node any more, and forgets the node's key. Cut short, it can be done again; the authority goes last.
func Remove(ctx context.Context, m Machine, d *db.DB) error {
	began := time.Now()
	if err := m.Remove(postgresql.Settings); err != nil {
		return err
	}
	if err := load(ctx, m, d, began, func(is server) (bool, error) { return is.access != m.Path(postgresql.Access), nil }); err != nil {
		return err
	}
	for _, p := range []host.Place{postgresql.Access, postgresql.Members, postgresql.Identity, postgresql.Authority} {
		if err := m.Remove(p); err != nil {
			return err
		}
	}
	return nil
}

// server is what PostgreSQL has taken.
type server struct {
	listen, access, members string
	tls                     bool
	loaded                  time.Time
	faults                  int
}

func (s server) same(want server) bool {
	return s.listen == want.listen && s.access == want.access && s.members == want.members && s.tls == want.tls
}

// look asks on a connection of its own: one that was there before may not know of the change yet.
func look(ctx context.Context, d *db.DB) (s server, err error) {
	conn, err := d.Server().Connect(ctx)
	if err != nil {
		return s, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, "SELECT listen, access, members, tls, loaded, faults FROM gateway_cluster.listens()").Scan(&s.listen, &s.access, &s.members, &s.tls, &s.loaded, &s.faults)
	return s, err
}

// load asks for the settings to be taken until they are.
func load(ctx context.Context, m Machine, d *db.DB, began time.Time, so func(server) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, takenWithin)
	defer cancel()
	var asked time.Time
	for {
		if time.Since(asked) > askEvery {
			if err := m.LoadDatabaseSettings(ctx); err != nil {
				return err
			}
			asked = time.Now()
		}
		is, err := look(ctx, d)
		switch {
		case err == nil && is.faults > 0 && is.loaded.After(began):
			return fmt.Errorf("PostgreSQL does not take the list of who may connect: %d lines are wrong", is.faults)
		case err == nil && is.loaded.After(began):
			taken, refused := so(is)
			if refused != nil {
				return refused
			}
			// After a restart, the connections of the others are new, too.
			if taken {
				if err = d.QueryRow(ctx, "SELECT 1").Scan(nil); err == nil {
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("PostgreSQL has not taken its settings within %s", takenWithin), err)
		case <-time.After(lookEvery):
		}
	}
}

// Dismiss ends what nodes have here that are none of the peers: their sessions and their slots. The settings without them must have been taken before,
// else they come back. A node that is no primary keeps nothing for others.
func Dismiss(ctx context.Context, d *db.DB, peers []Peer, primary bool) error {
	ctx, cancel := context.WithTimeout(ctx, takenWithin)
	defer cancel()
	slots, addresses := []string{}, []netip.Addr{}
	for _, p := range peers {
		addresses = append(addresses, p.Address)
		if primary {
			slots = append(slots, replica.SlotsOf(p.ID))
		}
	}
	for {
		var left int
		if err := d.QueryRow(ctx, "SELECT gateway_cluster.dismiss($1, $2)", slots, addresses).Scan(&left); err != nil {
			return db.Fault(err)
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d sessions and slots of other nodes are still there", left)
		case <-time.After(lookEvery):
		}
	}
}
