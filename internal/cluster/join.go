package cluster

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/throttle"
)

const (
	// managementPort is the port where a node asks to join.
	managementPort = "3443"
	// registerTimes is how often a node tries to register, and registerEvery the pause between attempts.
	registerTimes = 3
	registerEvery = 2 * time.Second
)

var (
	fingerprintForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	errNoName       = fault.New(fault.Conflict, "This gateway has no name yet. Complete its setup first.")
)

// elsewhere refers the caller to the primary.
func elsewhere(s State) error {
	f := fault.New(fault.Unavailable, "This node is %s. Ask the primary, %s.", s.Role.words(), s.PrimaryName)
	f.Details = map[string]any{"primary": s.PrimaryName}
	return f
}

// primaryOf returns the primary known to this node, or a refusal.
func (r *Room) primaryOf(ctx context.Context, s State) (Member, error) {
	primary, known, err := member(ctx, r.DB, s.PrimaryID)
	if err == nil && !known {
		err = elsewhere(s)
	}
	return primary, err
}

// Request is a node's request for its first certificate.
type Request struct {
	JoinToken secret.Text `json:"join_token,omitzero" required:"true" doc:"Join token of the node."`
	CSR       string      `json:"csr" required:"true" maxLength:"16384" doc:"Certificate request in PEM form: the subject is the id of the node, and the only name that of the token."`
	APIPort   int         `json:"api_port" minimum:"0" maximum:"65535" doc:"Port of the node's agent listener; 0 for the usual one."`
}

// Certified is a node's certificate, with the authority and the primary.
type Certified struct {
	Certificate string    `json:"certificate" doc:"Certificate of the node, in PEM form."`
	CA          string    `json:"ca" doc:"Certificate authority of the cluster, in PEM form."`
	ExpiresAt   time.Time `json:"expires_at" doc:"When the certificate ends. The node renews it before."`
	Primacy     `json:",embed"`
}

// Primacy identifies the primary.
type Primacy struct {
	PrimaryID   string `json:"primary_id" doc:"Id of the primary."`
	PrimaryFQDN string `json:"primary_fqdn" doc:"Full name of the primary."`
	PrimaryURL  string `json:"primary_url" doc:"Where its agent listener is."`
}

// primacy describes this node, which is the primary.
func (r *Room) primacy(ctx context.Context) (Primacy, error) {
	m, ok, err := member(ctx, r.DB, r.node().ID)
	if err != nil || !ok {
		return Primacy{}, errors.Join(err, errNoAuthority)
	}
	return Primacy{m.ID, m.FQDN, m.APIURL}, nil
}

func (r *Room) issue(ctx context.Context, tx *db.Tx, m Member, csr *x509.CertificateRequest) (Certified, error) {
	ca, err := r.authority(ctx, tx)
	if err != nil {
		return Certified{}, err
	}
	c, err := ca.issue(m.subject(), csr.PublicKey, r.Clock.Now())
	if err != nil {
		return Certified{}, err
	}
	out := Certified{Certificate: string(encodePEM("CERTIFICATE", c.Raw)), CA: string(encodePEM("CERTIFICATE", ca.cert.Raw)), ExpiresAt: c.NotAfter}
	me, ok, err := member(ctx, tx, r.node().ID)
	if err != nil || !ok {
		return Certified{}, errors.Join(err, errNoAuthority)
	}
	out.Primacy = Primacy{me.ID, me.FQDN, me.APIURL}
	return out, nil
}

// certify gives a node with a join token its first certificate. By the time it is answered, the firewall admits the node.
func (r *Room) certify(c *httpd.Call, in struct{ Body Request }) (Certified, error) {
	attempt, err := r.guesses.Begin("", throttle.Address(c.Client()))
	if err != nil {
		return Certified{}, err
	}
	token, _ := in.Body.JoinToken.Fresh()
	claimed, err := r.verifyToken(token)
	if err != nil {
		return Certified{}, err // and the attempt counts
	}
	attempt.Withdraw()
	csr, err := readRequest(in.Body.CSR, claimed.FQDN.String())
	if err != nil {
		return Certified{}, err
	}
	port := in.Body.APIPort
	if port == 0 {
		port = AgentPort
	}
	client, server, _ := c.Connection()
	from, here := reachable(client.Addr()), reachable(server.Addr())
	if from == "" {
		return Certified{}, fault.New(fault.Invalid, "A node must join over the network.")
	}
	if r.deps.Virtual != nil {
		if virtual, err := r.deps.Virtual(c, here); err != nil {
			return Certified{}, err
		} else if virtual {
			return Certified{}, fault.New(fault.Conflict, "The node reached this one at %s, a virtual address that can move to another node. Make %s resolve to an address that stays with this node, and join again with the same token.", here, r.node().Name)
		}
	}
	fqdn, id, now := claimed.FQDN.String(), csr.Subject.CommonName, r.Clock.Now()
	var out Certified
	err = r.store(c, func(tx *db.Tx) error {
		issued, err := r.spend(c, tx, claimed, csr)
		if err != nil {
			return err
		}
		if _, taken, err := member(c, tx, id); err != nil || taken {
			return errors.Join(err, fault.Taken(map[string]string{"csr": "has the id of a node of the cluster: let that one leave first"}))
		}
		done, err := tx.Exec(c, `UPDATE ha_nodes SET updated_at = $2, public_ip = $3, api_url = $4, status = $5 WHERE id = $1`, placeholder+fqdn, now, from, apiURL(from, port), Joining)
		if err != nil {
			return err
		}
		if done.RowsAffected() != 1 {
			return fault.New(fault.Conflict, "%s is no longer expected. Create another join token on the primary.", fqdn)
		}
		// Nodes can use the address by which this request arrived.
		tx.Queue(`UPDATE ha_nodes SET updated_at = $2, public_ip = CASE WHEN public_ip = '' THEN $3 ELSE public_ip END, internal_ip = CASE WHEN internal_ip = '' THEN $3 ELSE internal_ip END,
			api_url = $4 WHERE id = $1 AND api_url = '' AND $3 <> ''`, r.node().ID, now, here, apiURL(here, r.agentPort()))
		if out, err = r.issue(c, tx, Member{ID: id, FQDN: fqdn, PublicIP: from}, csr); err != nil {
			return err
		}
		if issued != "" {
			again, err := parseCertificate([]byte(issued))
			if err != nil {
				return err
			}
			out.Certificate, out.ExpiresAt = issued, again.NotAfter
		}
		tx.Queue(`UPDATE ha_join_tokens SET certificate = $2 WHERE id = $1`, claimed.ID, out.Certificate)
		return r.Audit.WriteAs(c, tx, fqdn, "cluster.certificate.issue", fqdn, map[string]any{"id": id, "remote_ip": from, "expires_at": out.ExpiresAt, "again": issued != ""})
	})
	return out, err
}

// Wish is what a node must know to join.
type Wish struct {
	// Primary is the full name of the primary.
	Primary string
	Token   string
	// Fingerprint is that of the cluster's authority, if it was entered besides the token.
	Fingerprint string
}

// Joining returns the step in progress while the node joins a cluster; empty otherwise.
func (r *Room) Joining() string {
	if step := r.joins.Load(); step != nil {
		return *step
	}
	return ""
}

// Join makes this node, which must be in no cluster, a node of one: it gets a certificate, registers, takes over the cluster's master key
// and follows the primary. named gets the node's name in the cluster before it is used. A failed join keeps its progress: the same token
// resumes it, and another token replaces it.
func (r *Room) Join(ctx context.Context, w Wish, named func(fqdn string) error) error {
	// It empties and fills every table, and the caller waits for that.
	ctx = db.Bulk(actor.With(ctx, actor.System("setup")))
	step := func(name string) { r.joins.Store(&name) }
	defer r.joins.Store(nil)
	claimed, _, _, err := readToken(w.Token)
	if err != nil {
		return fault.Field("join_token", "must be a join token as the primary has made it")
	}
	pin := strings.ToLower(strings.ReplaceAll(w.Fingerprint, ":", ""))
	if pin != "" && pin != claimed.CA {
		return fault.Field("ca_fingerprint", "must be that of the cluster which the token is of: the token has %s", claimed.CA)
	}
	s, err := Load(ctx, r.DB)
	if err != nil {
		return err
	}
	primary, begun, err := r.begun(ctx, claimed)
	switch {
	case err != nil:
		return err
	case s.Role == Standby && begun:
		return named(claimed.FQDN.String()) // only this is left
	case s.Role != Single:
		return refuse(s, "a node without a cluster")
	}
	if err := named(claimed.FQDN.String()); err != nil {
		return err
	}
	if !begun {
		if !r.Clock.Now().Before(time.Unix(claimed.Expires, 0)) {
			return fault.Field("join_token", "has expired: make another one on the primary")
		}
		step("certificate")
		key, err := r.joiningKey(claimed)
		if err != nil {
			return err
		}
		out, err := r.requestCertificate(ctx, w, claimed, key)
		if err != nil {
			return err
		}
		if primary, err = r.acquaint(ctx, out, claimed, key); err != nil {
			return err
		}
	}
	step("register")
	if err := r.enrol(ctx, primary); err != nil {
		return err
	}
	step("master-key")
	if err := r.takeKey(ctx, primary); err != nil {
		return err
	}
	step("sync")
	if _, err = r.followMember(ctx, primary, true); err != nil {
		return err
	}
	// A fresh machine only has the rows that every machine starts with.
	files, err := r.differences()
	for _, f := range files {
		err = errors.Join(err, r.removeDifferences(f.Name))
	}
	return err
}

// begun reports whether this node already has a certificate from an unfinished join, and from which node.
func (r *Room) begun(ctx context.Context, claimed claims) (primary Member, begun bool, err error) {
	i := r.identity.Load()
	if i == nil || fingerprint(i.ca) != claimed.CA || i.own.Leaf.DNSNames[0] != claimed.FQDN.String() || i.own.Leaf.NotBefore.Add(backdate+tokenLasts).Unix() < claimed.Expires {
		return Member{}, false, nil // or it belongs to an earlier token
	}
	peers, err := r.Peers(ctx, r.DB)
	if err != nil || len(peers) == 0 {
		return Member{}, false, err
	}
	return peers[0], true, nil
}

// joiningKey returns the key to join with: that of the last attempt with the same token, because the cluster may have issued its
// certificate.
func (r *Room) joiningKey(claimed claims) (crypto.Signer, error) {
	kept := r.file(joiningFile)
	if b, err := os.ReadFile(kept); err == nil {
		if block, _ := pem.Decode(b); block != nil && block.Headers["Token"] == claimed.ID.String() {
			if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
				return key.(crypto.Signer), nil
			}
		}
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, secret.Save(kept, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Headers: map[string]string{"Token": claimed.ID.String()}, Bytes: der}))
}

// requestCertificate asks the cluster for a certificate. Before anything is sent, it checks that the server has a certificate of the
// authority in the token; no other authority is trusted.
func (r *Room) requestCertificate(ctx context.Context, w Wish, claimed claims, key crypto.Signer) (out Certified, err error) {
	csr, err := request(r.node().ID, claimed.FQDN.String(), key)
	if err != nil {
		return out, err
	}
	address := net.JoinHostPort(w.Primary, managementPort)
	if r.deps.Management != nil {
		address = r.deps.Management(w.Primary)
	}
	ctx, cancel := context.WithTimeout(ctx, doWithin)
	defer cancel()
	client := &http.Client{CheckRedirect: noRedirect, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: JoinName, NextProtos: []string{"http/1.1"}, Time: r.Clock.Now,
		InsecureSkipVerify: true, // the next function verifies instead
		VerifyConnection:   func(s tls.ConnectionState) error { return pinned(s.PeerCertificates, claimed.CA, r.Clock.Now()) },
	}}}
	to := (&url.URL{Scheme: "https", Host: address, Path: httpd.Prefix + "/cluster/certificates"}).String()
	out, err = send[Certified](ctx, client, http.MethodPost, to, map[string]any{"join_token": w.Token, "csr": csr, "api_port": r.agentPort()})
	switch {
	case err != nil && fault.From(err).Kind == fault.Internal:
		return out, fault.Wrap(fault.Unavailable, err, "The primary, %s, cannot be reached: %s", w.Primary, reason(err))
	case fault.Is(err, fault.Unauthenticated):
		return out, fault.Field("join_token", "is not valid at %s, or has expired: make another one there", w.Primary)
	}
	return out, err
}

// pinned refuses a server without a join certificate of the authority with this fingerprint.
func pinned(chain []*x509.Certificate, pin string, now time.Time) error {
	for _, ca := range chain {
		if fingerprint(ca) != pin {
			continue
		}
		roots := x509.NewCertPool()
		roots.AddCert(ca)
		_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: JoinName, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		return err
	}
	return errOtherCluster
}

var errOtherCluster = errors.New("it is not the cluster that the token is of")

// reason explains why a node could not be reached.
func reason(err error) string {
	var refused *net.OpError
	switch {
	case errors.Is(err, errOtherCluster):
		return "who answers there is not the cluster that the token is of."
	case errors.Is(err, context.DeadlineExceeded):
		return "it does not answer."
	case errors.As(err, &refused):
		return "it cannot be reached."
	}
	return "its answer is not that of a gateway in a cluster."
}

// acquaint stores the certificate, and adds the primary to this node's list so that it is admitted.
func (r *Room) acquaint(ctx context.Context, out Certified, claimed claims, key crypto.Signer) (Member, error) {
	certificate, err := parseCertificate([]byte(out.Certificate))
	if err != nil {
		return Member{}, err
	}
	ca, err := parseCertificate([]byte(out.CA))
	if err != nil {
		return Member{}, err
	}
	if fingerprint(ca) != claimed.CA {
		return Member{}, errOtherCluster
	}
	if err := issuedBy(ca, certificate, key, r.node().ID); err != nil {
		return Member{}, fmt.Errorf("the certificate that the primary has issued: %w", err)
	}
	at, err := url.Parse(out.PrimaryURL)
	if err != nil || at.Scheme != "https" || at.Port() == "" {
		return Member{}, fault.New(fault.Unavailable, "The primary does not say at which address it can be reached.")
	}
	primary := Member{ID: out.PrimaryID, FQDN: out.PrimaryFQDN, APIURL: out.PrimaryURL, PublicIP: at.Hostname(), CreatedAt: certificate.NotBefore.Add(-authorityLasts)}
	if a, err := netip.ParseAddr(primary.PublicIP); err != nil || !a.IsValid() {
		return Member{}, fault.New(fault.Unavailable, "The primary does not say at which address it can be reached.")
	}
	primary.InternalIP = primary.PublicIP
	if err := r.commit(ctx, func(tx *db.Tx) error {
		tx.Queue(`DELETE FROM ha_nodes`)
		tx.Queue(`INSERT INTO ha_nodes (id, created_at, updated_at, fqdn, public_ip, internal_ip, api_url, status) VALUES ($1, $2, $3, $4, $5, $5, $6, $7)`,
			primary.ID, primary.CreatedAt, r.Clock.Now(), primary.FQDN, primary.PublicIP, primary.APIURL, Unknown)
		return r.Audit.Write(ctx, tx, "cluster.join", claimed.FQDN.String(), map[string]any{"primary": primary.FQDN})
	}); err != nil {
		return Member{}, err
	}
	if err := r.saveIdentity(newIdentity(ca, certificate, key)); err != nil {
		return Member{}, err
	}
	return primary, secret.Remove(r.file(joiningFile))
}

// enrol registers this node with the primary, in up to three attempts.
func (r *Room) enrol(ctx context.Context, primary Member) error {
	to, err := url.Parse(primary.APIURL)
	if err != nil {
		return err
	}
	own := ""
	if conn, err := new(net.Dialer).DialContext(ctx, "udp", to.Host); err == nil { // which sends nothing
		if a, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil {
			own = reachable(a.Addr())
		}
		conn.Close()
	}
	for n := range registerTimes {
		if n > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-r.Clock.After(registerEvery):
			}
		}
		if _, err = Ask[Primacy](ctx, r, primary, http.MethodPost, registerPath, Registration{InternalIP: own, MgmtIP: own, APIPort: r.agentPort(), Version: r.Version}); err == nil {
			return nil
		}
		r.Log.Warn("this node could not register with the primary", "primary", primary.FQDN, "try", n+1, "err", err)
	}
	return fmt.Errorf("registering at the primary: %w", err)
}

// takeKey adopts the cluster's master key. Nothing that this node has sealed before is still needed.
func (r *Room) takeKey(ctx context.Context, primary Member) error {
	out, err := Ask[Key](ctx, r, primary, http.MethodGet, "/agent/cluster/master-key", nil)
	if err != nil {
		return err
	}
	key, err := hex.DecodeString(out.MasterKey)
	if err != nil || len(key) != 32 {
		return fault.New(fault.Unavailable, "The primary did not answer with a master key.")
	}
	if err := r.Host.Install(host.MasterKey, key); err != nil {
		return fmt.Errorf("keeping the cluster's master key: %w", err)
	}
	return r.Secrets.Adopt(key)
}
