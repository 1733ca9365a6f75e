// Package proxy manages the reverse proxy: domains with their headers, backends with their servers, routing rules, and the HAProxy that
// carries the traffic.
package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/resource"
)

var feeds = []apply.ID{apply.ReverseProxy}

// Deps holds what the room needs from others.
type Deps struct {
	// FQDN returns the gateway's own name; it is empty before the setup.
	FQDN func() string
	// IPv6 reports whether the gateway listens on IPv6, and Maintenance whether every site is in maintenance.
	IPv6        func(ctx context.Context, q db.Querier) (bool, error)
	Maintenance func() bool
	// Certificates returns the certificates that can be served, and Default the one served if none matches.
	Certificates func(ctx context.Context, q db.Querier) ([]Certificate, error)
	Default      func() ([]byte, error)
	// Changed returns a certificate before and after a change, each nil if it does not exist. ok is false if the change is about
	// something else.
	Changed func(row apply.Row) (was, now *Certificate, ok bool)
	// Rivals returns those of the certificates that have one of these names, or one of these ids.
	Rivals func(ctx context.Context, q db.Querier, names []string, ids []uuid.UUID) ([]Certificate, error)
	// Inspections lists the domains whose requests are inspected. InspectionOf returns the inspection of one domain, or nil.
	Inspections  func(ctx context.Context, q db.Querier) ([]Inspection, error)
	InspectionOf func(ctx context.Context, q db.Querier, domain uuid.UUID) (*Inspection, error)
	// InspectionChanged returns a domain's inspection before and after a change, each nil if there is none. ok is false if the change is
	// about something else.
	InspectionChanged func(row apply.Row) (domain uuid.UUID, was, now *Inspection, ok bool)
	// SitesChanged is called when other certificates may be needed.
	SitesChanged func()
	// Management returns who answers on the management port.
	Management func() string
}

// Room manages the reverse proxy.
type Room struct {
	*kit.Kit
	deps     Deps
	domains  resource.Kind[Domain]
	headers  resource.Child[Header]
	backends resource.Kind[Backend]
	servers  resource.Child[Server]
	rules    resource.Kind[Rule]

	// reloads and changes count HAProxy's reloads and runtime changes since the service started.
	reloads, changes atomic.Int64
	history          trafficHistory
	// reread means that HAProxy has just read its files.
	reread atomic.Bool

	mu        sync.Mutex
	capable   Features
	capableAt time.Time
	// worker and shape are those of the last verified HAProxy; shape is nil if unknown. spares are the names of its spare backends.
	worker int
	shape  *shape
	spares map[string]bool
}

func New(k *kit.Kit, deps Deps) *Room {
	r := &Room{Kit: k, deps: deps, headers: headerKind(), servers: serverKind(), rules: ruleKind(), history: trafficHistory{Point: traffic}}
	r.domains, r.backends = r.domainKind(), r.backendKind()
	apply.Register(k.Engine, apply.Component[*Config]{
		ID: apply.ReverseProxy, Unit: unit, Early: true, Load: r.load, Amend: r.amend, Render: render, Check: r.check, Reduce: reduce, Apply: r.reload, Verify: r.verify,
		Runtime: &apply.Runtime[*Config]{Can: r.can, Do: r.change, Plan: r.plan},
	})
	return r
}

// Site is an active domain with the names that it answers to.
type Site struct {
	DomainID uuid.UUID
	Names    []string
	// CertificateID is the certificate that it is configured to use.
	CertificateID *uuid.UUID
}

// Sites returns the active domains.
func (r *Room) Sites(ctx context.Context, q db.Querier) ([]Site, error) {
	domains, err := r.domains.All(ctx, q)
	var list []Site
	for i := range domains {
		if d := &domains[i]; d.Active {
			list = append(list, Site{d.ID, d.names(), d.CertificateID})
		}
	}
	return list, err
}

// DomainTable is the table of the domains, for foreign keys.
const DomainTable = "proxy_domains"

func (r *Room) DomainNames(ctx context.Context, q db.Querier) (map[uuid.UUID]string, error) {
	domains, err := r.domains.All(ctx, q)
	names := make(map[uuid.UUID]string, len(domains))
	for i := range domains {
		names[domains[i].ID] = domains[i].Label()
	}
	return names, err
}

// CountDomains returns the number of domains, active or not.
func (r *Room) CountDomains(ctx context.Context, q db.Querier) (n int, err error) {
	err = q.QueryRow(ctx, "SELECT count(*) FROM proxy_domains").Scan(&n)
	return n, err
}

// CertificateUsers returns the domains that are configured to use a certificate.
func (r *Room) CertificateUsers(ctx context.Context, q db.Querier, id uuid.UUID) ([]resource.User, error) {
	domains, err := r.domains.Where(ctx, q, "certificate_id = $1", id)
	var list []resource.User
	for i := range domains {
		list = append(list, resource.User{Kind: r.domains.Name, ID: domains[i].ID, Name: domains[i].Label()})
	}
	return list, err
}

func (r *Room) Mount() {
	r.Resources.Declare("proxy_spares", resource.Shared)
	r.domains.Mount(r.Resources)
	r.headers.Mount(r.Resources)
	r.backends.Mount(r.Resources)
	r.servers.Mount(r.Resources)
	r.rules.Mount(r.Resources)
	r.mountStats()
	r.mountImpact()
}
