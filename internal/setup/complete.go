package setup

import (
	"net/http"
	"reflect"
	"regexp"
	"strings"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/throttle"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/wire"
)

// Proof proves that the caller owns the machine.
type Proof struct {
	SetupToken secret.Text `json:"setup_token,omitzero" doc:"The token that the service prints at start; required unless the request comes from the machine itself."`
}

func (p Proof) token() string {
	token, _ := p.SetupToken.Fresh()
	return token
}

// Site is what every gateway must know about itself.
type Site struct {
	FQDN             value.DomainName `json:"fqdn" required:"true" doc:"Full host name of the gateway."`
	ACMEEnabled      bool             `json:"acme_enabled" doc:"Order certificates automatically."`
	ACMEEmail        value.Email      `json:"acme_email" doc:"Contact address for the certificate authority; required with ACME."`
	ACMEDirectoryURL value.URL        `json:"acme_directory_url" doc:"Directory of the certificate authority; empty for the default one."`
	IPv6Enabled      bool             `json:"ipv6_enabled" doc:"Listen on IPv6 as well."`
}

// Validate checks that ACME has what it needs.
func (s *Site) Validate() error {
	var c check.List
	c.That(!s.ACMEEnabled || !s.ACMEEmail.IsZero(), "acme_email", "is required with ACME")
	return c.Err()
}

func (s *Site) settle(state *State) {
	state.FQDN, state.ACMEEmail, state.ACMEDirectoryURL = s.FQDN, s.ACMEEmail, s.ACMEDirectoryURL
	state.ACMEEnabled, state.IPv6Enabled, state.IPv6Kept = s.ACMEEnabled, s.IPv6Enabled, false
}

// Gateway is the setup of a gateway with its own administrator.
type Gateway struct {
	Proof
	Site
	AdminEmail    value.Email     `json:"admin_email" required:"true" doc:"The administrator logs in with it."`
	AdminPassword password.Chosen `json:"admin_password,omitzero" required:"true" doc:"At least 12 characters."`
}

// Node is the setup of a cluster's node: its accounts come from the cluster.
type Node struct {
	Proof
	Site
}

// Join is the request to become a node of a running cluster.
type Join struct {
	Proof
	PrimaryFQDN   value.DomainName `json:"primary_fqdn" required:"true" doc:"Full name of the primary node."`
	JoinToken     secret.Text      `json:"join_token,omitzero" required:"true" doc:"Created on the primary node. It works once."`
	CAFingerprint string           `json:"ca_fingerprint" maxLength:"128" doc:"SHA-256 of the cluster's certificate authority; no other one is accepted when it is given."`
}

var fingerprint = regexp.MustCompile(`^[0-9A-Fa-f]{64}$`)

// Validate checks the form of the fingerprint.
func (j *Join) Validate() error {
	var c check.List
	c.That(j.CAFingerprint == "" || fingerprint.MatchString(strings.ReplaceAll(j.CAFingerprint, ":", "")), "ca_fingerprint", "must be a SHA-256 fingerprint: 64 hexadecimal digits")
	return c.Err()
}

// request is the body of a setup, which contains a proof of ownership.
type request[T any] interface {
	*T
	token() string
}

var errCompleted = fault.New(fault.Conflict, "The setup is already complete.")

// mount adds a route that works until the setup is complete, and after that for callers that late allows. Errors in the body are
// revealed only to the machine's owner.
func mount[T any, P request[T]](r *Room, path string, d httpd.Doc, late func(c *httpd.Call) bool, do func(c *httpd.Call, in P) error) {
	d.Tag = "setup"
	r.Router.Add(httpd.Route{
		Doc: d, Method: http.MethodPost, Path: path, Policy: httpd.Public.BeforeSetup().Here(), In: reflect.TypeFor[struct{}](),
		Body: &httpd.SchemaSource{Type: reflect.TypeFor[T](), Suffix: "Input", New: true},
		Out:  &httpd.SchemaSource{Type: reflect.TypeFor[Status]()},
	}, func(c *httpd.Call) error {
		if r.Completed() && (late == nil || !late(c)) {
			return errCompleted
		}
		body, err := httpd.ReadBody(c.Request)
		if err != nil {
			return err
		}
		in := P(new(T))
		_, complaints := wire.Decode(body, in)
		if err := r.prove(c.Client(), in.token()); err != nil {
			return r.late(err)
		}
		if complaints != nil {
			return complaints
		}
		if err := do(c, in); err != nil {
			return err
		}
		return c.Reply(r.status(c))
	})
}

func (r *Room) complete(c *httpd.Call, in *Gateway) error {
	hash, err := r.hash(c, in.AdminPassword)
	if err != nil {
		return err
	}
	return r.settle(c, in.AdminEmail.String(), in.FQDN.String(), func(s *State) error {
		if s.IsClusterNode {
			return errJoined
		}
		in.Site.settle(s)
		s.Admin = Admin{Email: in.AdminEmail, Hash: hash}
		return nil
	})
}

// hash hashes the administrator's password, unless someone else has completed the setup in the meantime.
func (r *Room) hash(c *httpd.Call, chosen password.Chosen) (password.Hash, error) {
	turn, err := r.deps.Passwords.Turn(c, password.Place{Lane: throttle.Address(c.Client()).Lane()})
	if err != nil {
		return "", err
	}
	defer turn.End()
	if r.Completed() {
		return "", errCompleted
	}
	return turn.Hash(chosen)
}

var (
	errBusy      = fault.New(fault.Conflict, "This machine is already being set up.")
	errNotJoined = fault.New(fault.Conflict, "This machine is not in a cluster yet. Join one first: its accounts come from there.")
	errJoined    = fault.New(fault.Conflict, "This machine has joined a cluster, where its accounts come from. Complete its setup as that of a node.")
)

func (r *Room) completeNode(c *httpd.Call, in *Node) error {
	return r.settle(c, "setup", in.FQDN.String(), func(s *State) error {
		if !s.IsClusterNode {
			return errNotJoined
		}
		if in.FQDN != s.FQDN {
			return fault.Field("fqdn", "must be the name that the node has joined with: %s", s.FQDN)
		}
		in.Site.settle(s)
		return nil
	})
}

// again reports whether a machine whose setup is complete may join a cluster: only if it has left another one, and its root asks.
func (r *Room) again(c *httpd.Call) bool { return c.Local() && r.deps.Store.View().HasLeft }

// joinCluster makes the machine a node of a cluster. completeNode then sets up what is local to the node.
func (r *Room) joinCluster(c *httpd.Call, in *Join) error {
	if !r.joining.TryLock() {
		return errBusy
	}
	defer r.joining.Unlock()
	if r.deps.Store.View().IsClusterNode {
		return errJoined
	}
	c.Unhurried()
	if err := r.deps.Join(c, *in); err != nil {
		return err
	}
	return r.deps.Store.Update(func(s *State) error {
		s.IsClusterNode, s.HasLeft, s.PrimaryFQDN = true, false, in.PrimaryFQDN
		return nil
	})
}

// settle completes the setup. Of several concurrent callers, one succeeds.
func (r *Room) settle(c *httpd.Call, who, fqdn string, decide func(*State) error) error {
	if !r.joining.TryRLock() {
		return errBusy
	}
	defer r.joining.RUnlock()
	// While the database is unavailable, the entry waits for it.
	err := r.Audit.Do(actor.With(c, actor.Actor{Name: who}), "setup.complete", fqdn, func() (details any, err error) {
		err = r.deps.Store.Update(func(s *State) error {
			if s.Completed {
				return errCompleted
			}
			if err := decide(s); err != nil {
				return err
			}
			s.Completed = true
			details = map[string]any{
				"is_cluster_node": s.IsClusterNode, "acme_enabled": s.ACMEEnabled, "ipv6_enabled": s.IPv6Enabled, "remote_ip": c.Client(),
			}
			return nil
		})
		return details, err
	})
	if err != nil {
		return err
	}
	// The setup is complete whatever happens from here on; a token that remains is useless.
	if err := removeToken(r.Paths); err != nil {
		r.Log.Warn("the setup token was not removed", "err", err)
	}
	r.Log.Info("the setup is complete")
	if r.deps.Decided != nil {
		r.deps.Decided(c)
	}
	r.Engine.Converge() // some components depend on the gateway's name and flags
	return nil
}
