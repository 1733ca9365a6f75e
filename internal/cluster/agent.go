package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

// registerPath is the only route open to a node that is not in the list yet.
const registerPath = "/agent/cluster/register"

// serverTLS accepts only nodes of the cluster, with their certificates.
func (r *Room) serverTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			i := r.identity.Load()
			if i == nil {
				return nil, errors.New("this node is not in a cluster")
			}
			return &tls.Config{
				MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}, Time: r.Clock.Now, Certificates: []tls.Certificate{i.own},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: i.pool,
				SessionTicketsDisabled: true, // every connection is authenticated afresh
			}, nil
		},
	}
}

// Agents serves the other nodes until the context ends. hold opens the listener while the node is in a cluster, and release closes it.
func (r *Room) Agents(ctx context.Context, l net.Listener, hold func(context.Context) error, release func() error) error {
	go func() {
		for {
			do := func() error { return hold(ctx) }
			if r.identity.Load() == nil {
				do = release
			}
			if err := do(); err != nil {
				r.Log.Warn("the port for other nodes is not as it should be", "err", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-r.changed:
			case <-r.Clock.After(r.deps.Pace.Beat): // whether to listen on IPv6, too, may have changed
			}
		}
	}()
	return (&httpd.Server{Handler: r.agents.Handler(http.NotFoundHandler()), Log: r.Log}).Serve(ctx, tls.NewListener(l, r.serverTLS()))
}

// SetAgentPort overrides AgentPort.
func (r *Room) SetAgentPort(port int) { r.port.Store(int64(port)) }

func (r *Room) agentPort() int {
	if p := r.port.Load(); p != 0 {
		return int(p)
	}
	return AgentPort
}

type callerKey struct{}

// caller returns the node that makes a request.
func caller(ctx context.Context) Member {
	m, _ := ctx.Value(callerKey{}).(Member)
	return m
}

var errNoMember = fault.New(fault.Forbidden, "Only nodes of the cluster may use this.")

// door admits nodes that are in the list now, and a node that has just got its certificate, for registering only. A certificate of the
// cluster alone is not enough: it may belong to a node that has left.
func (r *Room) door(req *http.Request) (context.Context, error) {
	ctx := db.Impatient(req.Context())
	if req.TLS == nil || len(req.TLS.VerifiedChains) == 0 {
		return nil, fault.New(fault.Unauthenticated, "A certificate issued by the cluster is required.")
	}
	leaf, now := req.TLS.PeerCertificates[0], r.Clock.Now()
	// A connection may outlive the certificate it began with.
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) || len(leaf.DNSNames) != 1 {
		return nil, errNoMember
	}
	m, known, err := member(ctx, r.DB, leaf.Subject.CommonName)
	if err != nil {
		return nil, err
	}
	switch {
	case !known:
		id, err := joining(ctx, r.DB, leaf.DNSNames[0])
		if err != nil {
			return nil, err
		}
		if id != leaf.Subject.CommonName || req.Method != http.MethodPost || req.URL.Path != httpd.Prefix+registerPath {
			return nil, errNoMember
		}
		m = Member{ID: id, FQDN: leaf.DNSNames[0]}
	case m.Expected() || m.FQDN != leaf.DNSNames[0] || m.ID == r.node().ID || m.Status == Leaving || stale(leaf, m):
		return nil, errNoMember
	}
	return context.WithValue(ctx, callerKey{}, m), nil
}

// stale reports whether a certificate predates the node's present membership: the node has left since and joined again with another one.
func stale(leaf *x509.Certificate, m Member) bool {
	return leaf.NotBefore.Add(backdate + time.Minute).Before(m.CreatedAt)
}

// nodes authenticates callers of the agent listener, which the door has already checked.
type nodes struct{}

func (nodes) Authenticate(req *http.Request) (actor.Actor, error) {
	m := caller(req.Context())
	if m.ID == "" {
		return actor.Actor{}, errNoMember
	}
	return actor.Actor{Name: m.FQDN, Role: actor.Viewer}, nil
}

// Identity is what a node reports about itself.
type Identity struct {
	ID         string            `json:"id"`
	FQDN       string            `json:"fqdn"`
	Role       Role              `json:"role"`
	Epoch      int64             `json:"epoch"`
	PrimaryID  string            `json:"primary_id"`
	Split      bool              `json:"split"`
	Version    string            `json:"version"`
	ConfigHash string            `json:"config_hash"`
	Hashes     map[string]string `json:"hashes,omitempty"`
	Streaming  bool              `json:"streaming"`
	SyncedAt   *time.Time        `json:"synced_at"`
	HoldsVIP   bool              `json:"holds_vip"`
	Repair     Repairing         `json:"repair"`
	Components map[string]string `json:"components"`
	Settings   map[string]string `json:"settings,omitempty"`
	// Slots are the primary's replication slots.
	Slots []replica.Slot `json:"slots,omitempty"`
	// Newest is the newest audit entry of the primary that a standby has.
	Newest uuid.UUID `json:"newest,omitzero"`
	// Refused means that a resync would delete more than half of the node's rows.
	Refused bool `json:"refused,omitempty"`
}

// Key is the master key, in transit to a node.
type Key struct {
	MasterKey string `json:"master_key"`
}

// mountAgents adds the routes for other nodes.
func (r *Room) mountAgents() {
	r.agents.Door, r.agents.Sessions, r.agents.SetupDone = r.door, nodes{}, func() bool { return true }
	httpd.Handle(r.agents, http.MethodGet, "/agent/cluster/identity", httpd.Own, tag.Doc("agent.identity", "What this node is"),
		func(c *httpd.Call, _ struct{}) (Identity, error) { return r.identify(c) })
	httpd.Handle(r.agents, http.MethodGet, "/agent/cluster/version", httpd.Own, tag.Doc("agent.version", "Version that this node runs"),
		func(c *httpd.Call, in struct {
			Offers bool `query:"offers" doc:"Tell which version apt offers, too."`
		}) (Release, error) {
			return r.release(c, in.Offers)
		})
	httpd.Handle(r.agents, http.MethodGet, "/agent/cluster/master-key", httpd.Own, tag.Doc("agent.master-key", "The master key, for a node that joins"), r.giveKey)
	httpd.Handle(r.agents, http.MethodPost, registerPath, httpd.Own.Here(), tag.Doc("agent.register", "Be in the list of nodes"),
		func(c *httpd.Call, in struct{ Body Registration }) (Primacy, error) {
			m := caller(c)
			if err := r.register(c, m.ID, m.FQDN, in.Body); err != nil {
				return Primacy{}, err
			}
			return r.primacy(c)
		})
	httpd.Handle(r.agents, http.MethodPost, "/agent/cluster/certificates", httpd.Own.Here(), tag.Doc("agent.certificates", "Renew the certificate of the node that asks"),
		func(c *httpd.Call, in struct{ Body Renewal }) (Certified, error) { return r.renew(c, in.Body) })
	httpd.Handle(r.agents, http.MethodPost, "/agent/cluster/step-down", httpd.Own.Here(), tag.Doc("agent.step-down", "Take no more changes, for another node becomes the primary"),
		func(c *httpd.Call, _ struct{}) (Last, error) {
			last, err := r.StepDown(actor.With(c, actor.System(caller(c).FQDN)))
			return Last{last}, err
		})
	httpd.Handle(r.agents, http.MethodPost, "/agent/cluster/leave", httpd.Own.Here(), tag.Doc("agent.leave", "Leave the cluster"),
		func(c *httpd.Call, _ struct{}) (struct{}, error) { return struct{}{}, r.fromPrimary(c, r.left) })
	httpd.Handle(r.agents, http.MethodPost, "/agent/cluster/repair-replication", httpd.Own.Here(), tag.Doc("agent.repair-replication", "Be the same as the primary again"),
		func(c *httpd.Call, in struct{ Body Repair }) (out Repairing, err error) {
			err = r.fromPrimary(c, func(ctx context.Context) (err error) { out, err = r.beginRepair(ctx, in.Body.Force); return err })
			return out, err
		})
	httpd.Handle(r.agents, http.MethodPost, "/agent/cluster/drain", httpd.Own.Here(), tag.Doc("agent.drain", "Give the virtual addresses to another node, or end that"),
		func(c *httpd.Call, in struct{ Body Draining }) (struct{}, error) {
			c.Unhurried()
			return struct{}{}, r.fromPrimary(c, func(ctx context.Context) error { return r.drain(ctx, in.Body.Drain) })
		})
	httpd.Handle(r.agents, http.MethodGet, "/agent/cluster/rolling-update", httpd.Own, tag.Doc("agent.rolling-update", "The update of all nodes that this node does or has last tried"),
		func(*httpd.Call, struct{}) (RollingUpdate, error) {
			u, err := r.rollingUpdate()
			return u.RollingUpdate, err
		})
	httpd.Handle(r.agents, http.MethodPost, "/agent/cluster/trigger-update", httpd.Own.Here(), tag.Doc("agent.trigger-update", "Install another version"),
		func(c *httpd.Call, in struct{ Body Update }) (Accepted, error) {
			err := r.fromPrimary(c, func(ctx context.Context) error { return r.deps.Update(ctx, in.Body.Version) })
			return Accepted{err == nil}, err
		})
}

// Last is the last audit entry of a primary that has stepped down.
type Last struct {
	AuditID uuid.UUID `json:"audit_id"`
}

// Update requests an upgrade.
type Update struct {
	Version string `json:"version" maxLength:"64" doc:"Version to install; empty for the available one."`
}

// Accepted means that an operation has begun.
type Accepted struct {
	Accepted bool `json:"accepted"`
}

// fromPrimary runs an operation that only the primary may request, as that node.
func (r *Room) fromPrimary(ctx context.Context, do func(context.Context) error) error {
	s, err := Load(ctx, r.DB)
	if err != nil {
		return err
	}
	m := caller(ctx)
	if s.Role != Standby && s.Role != Fenced || s.PrimaryID != m.ID {
		return fault.New(fault.Forbidden, "Only the primary that this node follows may ask for this.")
	}
	return do(actor.With(ctx, actor.System(m.FQDN)))
}

// giveKey gives a node the master key, because it has a copy of the sealed secrets. The audit log records which node got it.
func (r *Room) giveKey(c *httpd.Call, _ struct{}) (Key, error) {
	if err := r.Audit.RecordAs(c, caller(c).FQDN, "cluster.master-key", caller(c).FQDN, nil); err != nil {
		return Key{}, err
	}
	return Key{hex.EncodeToString(r.Secrets.Key())}, nil
}

// Renewal requests a new certificate.
type Renewal struct {
	CSR string `json:"csr" required:"true" maxLength:"16384" doc:"Certificate request, in PEM form."`
}

// renew issues a new certificate to a node, with the same id and name.
func (r *Room) renew(ctx context.Context, in Renewal) (Certified, error) {
	m := caller(ctx)
	csr, err := readRequest(in.CSR, m.FQDN)
	if err != nil {
		return Certified{}, err
	}
	if csr.Subject.CommonName != m.ID {
		return Certified{}, fault.Field("csr", "must have the id of the node that asks")
	}
	var out Certified
	err = r.DB.Write(ctx, func(tx *db.Tx) error {
		if out, err = r.issue(ctx, tx, m, csr); err != nil {
			return err
		}
		return r.Audit.WriteAs(ctx, tx, m.FQDN, "cluster.certificate.renew", m.FQDN, map[string]any{"id": m.ID, "expires_at": out.ExpiresAt})
	})
	return out, err
}
