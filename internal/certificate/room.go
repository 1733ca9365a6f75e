// Package certificate manages TLS certificates: those that a certificate authority issues and renews through ACME, those that operators
// upload, and self-signed ones until there are better ones.
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

// feeds: the proxy serves the certificates.
var feeds = []apply.ID{apply.ReverseProxy}

// Deps holds what the room needs from others.
type Deps struct {
	// FQDN returns the gateway's own name; it is empty before the setup.
	FQDN func() string
	// Wanted lists what the active domains and the gateway itself need.
	Wanted func(ctx context.Context, q db.Querier) ([]Wanted, error)
	// Users returns the domains that are configured to use a certificate.
	Users func(ctx context.Context, q db.Querier, certificate uuid.UUID) ([]resource.User, error)
	// ACME returns how certificates are ordered, and SetACME changes it.
	ACME    func() ACME
	SetACME func(ACME) error
	// Served returns the fingerprint of the certificate that the proxy serves for a name. If nil, a TLS handshake with the listener on
	// port 443 is used.
	Served func(ctx context.Context, name string) (fingerprint string, err error)
	// Spread waits for a limited time until the other nodes of a cluster have what was stored here. It may be nil.
	Spread func(ctx context.Context)
	// Resolvers returns the machine's name servers. If nil, the system's are used.
	Resolvers func() []string
}

// Room manages certificates.
type Room struct {
	*kit.Kit
	deps         Deps
	certificates resource.Kind[Certificate]
	providers    resource.Kind[DNSProvider]
	opened       opened
	own          atomic.Pointer[tls.Certificate]
	responder    responder
	accounts     sync.Mutex // held while an account is read, created or changed
	signal       chan struct{}
	ask          chan struct{} // triggers a request for the authority's renewal times
	running      running
	waiting      atomic.Bool // until the proxy has applied a change
}

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

// Wake makes the worker check for work at once.
func (r *Room) Wake() { nudge(r.signal) }

// nudge leaves a message unless one is waiting.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

const tag httpd.Tag = "certificate"
