// Package certificate owns the TLS certificates: those of a certificate authority, ordered and renewed by ACME, those that
// operators bring, and those that the gateway signs itself until it has better ones.
package certificate

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/go-acme/lego/v5/log"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

// feeds: the proxy shows the certificates.
var feeds = []apply.ID{apply.ReverseProxy}

// Deps is what the room needs of others.
type Deps struct {
	// FQDN is the gateway's own name; it is empty before the setup.
	FQDN func() string
	// Wanted lists what the active domains and the gateway itself need.
	Wanted func(ctx context.Context, q db.Querier) ([]Wanted, error)
	// Users are the domains that were told to show a certificate.
	Users func(ctx context.Context, q db.Querier, certificate uuid.UUID) ([]resource.User, error)
	// ACME is how certificates are ordered, and SetACME changes it.
	ACME    func() ACME
	SetACME func(ACME) error
	// Served is the fingerprint of the certificate that the proxy shows for a name. Nil stands for a TLS handshake with the
	// listener on port 443.
	Served func(ctx context.Context, name string) (fingerprint string, err error)
	// Spread waits, but not for ever, until the other nodes of a cluster have what was stored here. It may be nil.
	Spread func(ctx context.Context)
	// Resolvers are the name servers that the machine asks. Nil stands for those of the system.
	Resolvers func() []string
}

// Room is the certificates.
type Room struct {
	*kit.Kit
	deps         Deps
	certificates resource.Kind[Certificate]
	providers    resource.Kind[DNSProvider]
	opened       opened
	own          atomic.Pointer[tls.Certificate]
	responder    responder
	accounts     sync.Mutex // held while an account is read, made or changed
	signal       chan struct{}
	ask          chan struct{} // has the certificate authority asked when it wants to renew
	running      running
	waiting      atomic.Bool // for the proxy to take a change
}

// New builds the room.
func New(k *kit.Kit, deps Deps) *Room {
	if deps.Served == nil {
		deps.Served = served
	}
	if deps.Resolvers == nil {
		deps.Resolvers = systemResolvers
	}
	log.SetDefault(slog.New(warnings{k.Log.Handler()}))
	r := &Room{Kit: k, deps: deps, signal: make(chan struct{}, 1), ask: make(chan struct{}, 1)}
	r.responder.db, r.responder.spread = k.DB, deps.Spread
	r.certificates, r.providers = r.certificateKind(), r.providerKind()
	return r
}

func (r *Room) Mount() {
	r.Resources.Declare("certificate_challenges", resource.Passing)
	r.certificates.Mount(r.Resources)
	r.providers.Mount(r.Resources)
	r.mountSettings()
	r.mountStatus()
	r.mountPreflight()
}

// Wake has the worker look at once whether there is something to do.
func (r *Room) Wake() { nudge(r.signal) }

// nudge leaves a message, if there is none yet.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

const tag httpd.Tag = "certificate"
