package cluster

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/secret"
)

// Files of a node: its certificate with the key, the cluster's authority, and what the reverse proxy serves to joining nodes.
const (
	nodeFile      = "node.pem"
	authorityFile = "ca.pem"
	joinFile      = "join.pem"
	joiningFile   = "joining.pem" // this node's own key, while it joins
)

// JoinName is the server name that a joining node requests. No site has it, and no resolver knows it.
const JoinName = "join.gateway.invalid"

// identity proves to other nodes who this node is, and verifies theirs.
type identity struct {
	own  tls.Certificate
	ca   *x509.Certificate
	pool *x509.CertPool
}

func newIdentity(ca, certificate *x509.Certificate, key crypto.Signer) *identity {
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &identity{tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key, Leaf: certificate}, ca, pool}
}

// issuedBy refuses a certificate of another authority, another key or another node.
func issuedBy(ca, certificate *x509.Certificate, key crypto.Signer, id string) error {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	switch {
	case certificate.CheckSignatureFrom(ca) != nil:
		return errors.New("it is not of the cluster's certificate authority")
	case !ok || !public.Equal(certificate.PublicKey):
		return errors.New("it is of another key")
	case certificate.Subject.CommonName != id || certificate.IsCA || len(certificate.DNSNames) != 1:
		return errors.New("it is of another node")
	}
	return nil
}

// loadIdentity reads the node's certificate, if it has one.
func (r *Room) loadIdentity() error {
	both, err := os.ReadFile(r.file(nodeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(both, both)
	if err != nil {
		return fmt.Errorf("%s: %w", nodeFile, err)
	}
	text, err := os.ReadFile(r.file(authorityFile))
	if err != nil {
		return err
	}
	ca, err := parseCertificate(text)
	if err != nil {
		return fmt.Errorf("%s: %w", authorityFile, err)
	}
	key := pair.PrivateKey.(crypto.Signer)
	if err := issuedBy(ca, pair.Leaf, key, r.node().ID); err != nil {
		return fmt.Errorf("the certificate of this node: %w", err)
	}
	r.become(newIdentity(ca, pair.Leaf, key))
	return nil
}

func (r *Room) become(i *identity) {
	r.identity.Store(i)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// saveIdentity stores the node's certificate, and starts using it.
func (r *Room) saveIdentity(i *identity) error {
	b, err := withKey(i.own.Leaf, i.own.PrivateKey.(crypto.Signer))
	if err != nil {
		return err
	}
	if err := secret.Save(r.file(authorityFile), encodePEM("CERTIFICATE", i.ca.Raw)); err != nil {
		return err
	}
	if err := secret.Save(r.file(nodeFile), b); err != nil {
		return err
	}
	r.become(i)
	return nil
}

// withKey encodes a certificate followed by its key.
func withKey(c *x509.Certificate, key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return append(encodePEM("CERTIFICATE", c.Raw), encodePEM("PRIVATE KEY", der)...), err
}

func newKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// forget deletes the node's certificate.
func (r *Room) forget() error {
	r.become(nil)
	if r.deps.Left != nil {
		if err := r.deps.Left(); err != nil {
			return err
		}
	}
	return errors.Join(secret.Remove(r.file(nodeFile)), secret.Remove(r.file(joinFile)), secret.Remove(r.file(authorityFile)))
}

// certifySelf issues the own certificates of a node that has the authority: the node's, and the one for joining nodes. Those that are
// valid long enough are kept.
func (r *Room) certifySelf(ctx context.Context) error {
	now := r.Clock.Now()
	due := func(c *x509.Certificate) bool { return now.After(c.NotAfter.Add(-renewBefore)) }
	ca, err := r.authority(ctx, r.DB)
	if err != nil {
		return err
	}
	if i := r.identity.Load(); i == nil || due(i.own.Leaf) || !i.ca.Equal(ca.cert) {
		me, ok, err := member(ctx, r.DB, r.node().ID)
		if err != nil || !ok {
			return errors.Join(err, errors.New("this node is not in its own list"))
		}
		key, err := newKey()
		if err != nil {
			return err
		}
		c, err := ca.issue(me.subject(), key.Public(), now)
		if err != nil {
			return err
		}
		if err := r.saveIdentity(newIdentity(ca.cert, c, key)); err != nil {
			return err
		}
	}
	if kept, err := tls.LoadX509KeyPair(r.file(joinFile), r.file(joinFile)); err == nil && !due(kept.Leaf) && kept.Leaf.CheckSignatureFrom(ca.cert) == nil {
		return nil
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	c, err := ca.issueJoin(key.Public(), now)
	if err != nil {
		return err
	}
	b, err := withKey(c, key)
	if err != nil {
		return err
	}
	// A joining node knows the authority only by its fingerprint.
	if err := secret.Save(r.file(joinFile), append(b, encodePEM("CERTIFICATE", ca.cert.Raw)...)); err != nil {
		return err
	}
	// The reverse proxy must serve it before anyone gets a token.
	if r.deps.Shown != nil {
		r.deps.Shown(ctx)
	}
	return nil
}

// JoinCertificate returns the certificate for JoinName with its key; nil if there is none.
func (r *Room) JoinCertificate() (*tls.Certificate, []byte) {
	b, err := os.ReadFile(r.file(joinFile))
	if err != nil {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(b, b)
	if err != nil {
		return nil, nil
	}
	return &pair, b
}

func (m Member) subject() subject { return subject{m.ID, m.FQDN, []string{m.InternalIP, m.PublicIP}} }

// Initialise makes a node without a cluster a primary: with a certificate authority, itself in the list of nodes, and its own
// certificate. On a primary it adds what is missing.
func (r *Room) Initialise(ctx context.Context) error {
	if r.node().Name == "" {
		return errNoName
	}
	err := r.decide(ctx, func(tx *db.Tx, was State) error {
		switch was.Role {
		case Single:
			become(tx, Primary, was.Epoch+1, r.node(), r.Clock.Now())
			if err := r.Audit.Write(ctx, tx, "cluster.found", r.node().Name, map[string]any{"epoch": was.Epoch + 1}); err != nil {
				return err
			}
		case Primary:
		default:
			return elsewhere(was)
		}
		var has bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM ha_ca)`).Scan(&has); err != nil {
			return err
		}
		if !has {
			ca, err := newAuthority(r.Clock.Now())
			if err != nil {
				return err
			}
			if err := ca.store(r, tx); err != nil {
				return err
			}
		}
		tx.Queue(`INSERT INTO ha_nodes (id, created_at, updated_at, fqdn, status, version) VALUES ($1, $2, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING`,
			r.node().ID, r.Clock.Now(), r.node().Name, Online, r.Version)
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.certifySelf(ctx); err != nil {
		return err
	}
	return r.publishMembers(ctx)
}
