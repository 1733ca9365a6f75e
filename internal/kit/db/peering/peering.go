// Package peering decides which other nodes may connect to this node's database: PostgreSQL's settings, its list of clients and
// addresses, and the map of certificates it accepts.
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

// Role is what other nodes connect as. It can read the shared tables; as it may replicate, it could also follow changes of
// others.
const Role = "gateway_repl"

// Peer is another member of the cluster.
type Peer struct {
	ID      string // common name of its certificate
	Address netip.Addr
}

// Settings is everything that PostgreSQL must know.
type Settings struct {
	Peers []Peer
	// Authority is the certificate of the cluster's authority; Identity is this node's own, followed by its key.
	Authority, Identity []byte
}

// idForm restricts a node's id: nothing in PostgreSQL's lists may be mistaken for something else.
var idForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]{0,63}$`)

// everywhere makes PostgreSQL listen on all addresses. It starts before the gateway has assigned the machine's addresses, and
// would not listen on one that does not exist yet. The packet filter and the list below decide who may connect.
const everywhere = "*"

func (s Settings) check() error {
	if !x509.NewCertPool().AppendCertsFromPEM(s.Authority) {
		return errors.New("the authority is not a certificate")
	}
	if _, err := tls.X509KeyPair(s.Identity, s.Identity); err != nil {
		return fmt.Errorf("the node's certificate: %w", err)
	}
	for _, p := range s.Peers {
		if !idForm.MatchString(p.ID) || !p.Address.IsValid() || p.Address.Zone() != "" {
			return fmt.Errorf("%q at %s is not a node", p.ID, p.Address)
		}
	}
	return nil
}

type where func(host.Place) string

// Files renders the settings in the order in which they must be installed: the last file refers to the others.
func (s Settings) Files(path where) ([]host.File, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	peers := slices.SortedFunc(slices.Values(s.Peers), func(a, b Peer) int { return strings.Compare(a.ID, b.ID) })
	// Local users are identified by the machine. The lines for loopback are Debian's.
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

// Conninfo returns the connection string for the database of another node, which is verified by name. The programs of the gateway
// cannot read PostgreSQL's key, and use their own certificate instead of the files: see db.DB.Identify.
func Conninfo(name string, peer netip.Addr, path where) string {
	identity := path(postgresql.Identity)
	return fmt.Sprintf("host=%s hostaddr=%s port=5432 dbname=gateway user=%s sslmode=verify-full ssl_min_protocol_version=TLSv1.3 sslrootcert=%s sslcert=%s sslkey=%s connect_timeout=5 tcp_user_timeout=15000",
		name, peer, Role, path(postgresql.Authority), identity, identity)
}

// Machine is what peering needs of the machine.
type Machine interface {
	host.Files
	postgresql.Database
}

const (
	// takenWithin is how long PostgreSQL may take to apply new settings, and askEvery how often it is asked to.
	takenWithin = time.Minute
	askEvery    = 5 * time.Second
	lookEvery   = 50 * time.Millisecond
)

// Install makes PostgreSQL apply the settings, and returns once it has. Unchanged files are not rewritten.
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
		// The restart removes the settings if PostgreSQL does not start with them.
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

// Remove makes PostgreSQL stop listening to other nodes, and deletes the node's key. If it is interrupted, it can be repeated:
// the authority is deleted last.
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

// server holds the settings that PostgreSQL uses.
type server struct {
	listen, access, members string
	tls                     bool
	loaded                  time.Time
	faults                  int
}

func (s server) same(want server) bool {
	return s.listen == want.listen && s.access == want.access && s.members == want.members && s.tls == want.tls
}

// look queries a new connection: an existing one may not have seen the change yet.
func look(ctx context.Context, d *db.DB) (s server, err error) {
	conn, err := d.Server().Connect(ctx)
	if err != nil {
		return s, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, "SELECT listen, access, members, tls, loaded, faults FROM gateway_cluster.listens()").Scan(&s.listen, &s.access, &s.members, &s.tls, &s.loaded, &s.faults)
	return s, err
}

// load asks PostgreSQL to reload its settings until they are in use.
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
			return fmt.Errorf("PostgreSQL refuses the list of clients: %d lines are wrong", is.faults)
		case err == nil && is.loaded.After(began):
			taken, refused := so(is)
			if refused != nil {
				return refused
			}
			// After a restart, the pooled connections must be new, too.
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

// Dismiss ends the sessions and slots of nodes that are not among the peers. The settings without them must be in use already, or
// they will reconnect. A node that is not the primary keeps no slots.
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
