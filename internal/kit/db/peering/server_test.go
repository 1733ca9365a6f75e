package peering_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/vishvananda/netlink"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/peering"
	"edge.internal/gateway/internal/kit/db/private"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/host/nettest"
	"edge.internal/gateway/internal/schema"
)

func TestMain(m *testing.M) { nettest.Main(m) }

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	a.cert = a.sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "authority"}}, a.key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := a.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// node returns a node's certificate and key.
func (a *authority) node(t *testing.T, id string, usage ...x509.ExtKeyUsage) []byte {
	t.Helper()
	key := newKey(t)
	c := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: id}, DNSNames: []string{id + ".example.net"}, ExtKeyUsage: usage, KeyUsage: x509.KeyUsageDigitalSignature}, key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

var both = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

func certificates(t *testing.T) (ca, identity []byte) {
	a := newAuthority(t)
	return a.pem(), a.node(t, "me", both...)
}

// machine is a PostgreSQL server with its own files.
type machine struct {
	*files.Files
	opts   private.Options
	server *private.Server
	starts int
}

func (m *machine) start(ctx context.Context) error {
	s, err := private.Start(ctx, m.opts)
	if err == nil {
		m.server, m.starts = s, m.starts+1
	}
	return err
}

// Install sets a file's owner, which does not happen below a root folder.
func (m *machine) Install(p host.Place, content []byte) error {
	if err := m.Files.Install(p, content); err != nil {
		return err
	}
	spec, err := p.Spec()
	if err != nil {
		return err
	}
	uid, gid, err := files.LookupOwner(spec.Owner, spec.Group)
	if err != nil {
		return err
	}
	return os.Chown(m.Path(p), uid, gid)
}

// LoadDatabaseSettings does what gateway-database does.
func (m *machine) LoadDatabaseSettings(ctx context.Context) error {
	restart, err := private.Reload(ctx, m.server.URL("gateway"))
	if err != nil || !restart {
		return err
	}
	if err := m.server.Stop(); err != nil {
		return err
	}
	return m.start(ctx)
}

func newMachine(t *testing.T) (*machine, *db.DB) {
	t.Helper()
	dir, err := os.MkdirTemp("", "peering-") // PostgreSQL's own user must be able to reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := &machine{Files: files.New(home.Home{Root: dir})}
	m.opts = private.Options{Dir: filepath.Join(dir, "pg"), Settings: m.Path(postgresql.Settings)}
	if err := m.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.server.Stop() })
	if err := m.server.CreateDatabase(t.Context(), "gateway"); err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(m.server.URL("gateway"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	conn, err := d.Server().Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range []string{schema.Cluster, schema.Grants} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return m, d
}

// A member can connect with its certificate, from its address, to shared data; nobody else can, and it cannot after it has left.
func TestMembersAlone(t *testing.T) {
	m, d := newMachine(t)
	ca, other := newAuthority(t), newAuthority(t)
	// Connections to an address of the machine that is not a loopback one also come from it.
	peer := peering.Peer{ID: "peer", Address: netip.MustParseAddr("10.99.0.1")}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.AddrAdd(lo, &netlink.Addr{IPNet: netlink.NewIPNet(peer.Address.AsSlice())})
	}
	if err != nil {
		t.Fatal(err)
	}
	s := peering.Settings{Authority: ca.pem(), Identity: ca.node(t, "me", both...), Peers: []peering.Peer{peer}}
	for range 2 { // the second time there is nothing to do
		if err := peering.Install(t.Context(), m, d, s); err != nil {
			t.Fatal(err)
		}
	}
	if m.starts != 2 {
		t.Errorf("PostgreSQL has started %d times", m.starts)
	}

	conninfo := peering.Conninfo("me.example.net", peer.Address, m.Path)
	as := func(identity []byte, conninfo string, replication bool) (*pgx.Conn, error) {
		from, err := db.Open(m.server.URL("gateway"))
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		from.Identify(func() (*tls.Config, error) {
			roots := x509.NewCertPool()
			roots.AddCert(ca.cert)
			c := &tls.Config{RootCAs: roots}
			if identity != nil {
				pair, err := tls.X509KeyPair(identity, identity)
				c.Certificates = []tls.Certificate{pair}
				return c, err
			}
			return c, nil
		})
		conn, err := from.Server().ConnectTo(t.Context(), conninfo, replication)
		if err == nil {
			t.Cleanup(func() { conn.Close(context.Background()) })
		}
		return conn, err
	}
	member := ca.node(t, "peer", both...)
	refused := func(t *testing.T) {
		t.Helper()
		for what, identity := range map[string][]byte{
			"another authority": other.node(t, "peer", both...), "no certificate": nil, "no member": ca.node(t, "stranger", both...),
			"a server's certificate": ca.node(t, "peer", x509.ExtKeyUsageServerAuth), "the node's own": s.Identity,
		} {
			if _, err := as(identity, conninfo, false); err == nil {
				t.Errorf("%s is let in", what)
			}
		}
		for _, plain := range []string{"host=10.99.0.1 dbname=gateway user=gateway_repl sslmode=disable", "host=10.99.0.1 dbname=gateway user=gateway sslmode=disable"} {
			if _, err := as(member, plain, false); err == nil {
				t.Errorf("%s is let in", plain)
			}
		}
	}
	refused(t)
	conn, err := as(member, conninfo, false)
	if err != nil {
		t.Fatal(err)
	}
	for sql, may := range map[string]bool{
		"SELECT FROM ha_state": true, "SELECT FROM account_users": true, "SELECT FROM goose_db_version": true, "SELECT FROM account_sessions": false,
		"SELECT FROM network_interfaces": false, "DELETE FROM ntp_pools": false, "SELECT gateway_cluster.dismiss('{}', '{}')": false, "SELECT pg_reload_conf()": false,
	} {
		if _, err := conn.Exec(t.Context(), sql); (err == nil) != may {
			t.Errorf("%s: %v", sql, err)
		}
	}

	stream, err := as(member, conninfo, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Exec(t.Context(), `CREATE_REPLICATION_SLOT "`+replica.SlotsOf(peer.ID)+`1" LOGICAL pgoutput`); err != nil {
		t.Fatal(err)
	}
	if err := peering.Dismiss(t.Context(), d, s.Peers, true); err != nil {
		t.Fatal(err)
	}
	slots := func() []replica.Slot {
		list, err := replica.Slots(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if !slices.ContainsFunc(slots(), func(s replica.Slot) bool { return s.Of(peer.ID) }) || conn.Ping(t.Context()) != nil {
		t.Error("a member is disconnected")
	}

	// It leaves.
	s.Peers = nil
	if err := peering.Install(t.Context(), m, d, s); err != nil {
		t.Fatal(err)
	}
	if err := peering.Dismiss(t.Context(), d, s.Peers, true); err != nil {
		t.Fatal(err)
	}
	if left := slots(); len(left) > 0 || conn.Ping(t.Context()) == nil || stream.Ping(t.Context()) == nil {
		t.Errorf("who left is still there: %v", left)
	}
	if _, err := as(member, conninfo, false); err == nil {
		t.Error("who left is let in")
	}
	refused(t)
	if m.starts != 2 {
		t.Errorf("PostgreSQL has started %d times", m.starts)
	}
	if info, err := os.Stat(m.Path(postgresql.Identity)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}

	if err := peering.Remove(t.Context(), m, d); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(m.Path(postgresql.Identity)); !os.IsNotExist(err) {
		t.Errorf("the key is still there: %v", err)
	}
	if _, err := as(member, conninfo, false); err == nil {
		t.Error("PostgreSQL still listens")
	}
}
