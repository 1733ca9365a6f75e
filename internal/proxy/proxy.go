// Package proxy owns the reverse proxy: domains with their headers, backends with their servers, routing rules, and the
// HAProxy that carries the traffic.
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

// Deps is what the room needs of others.
type Deps struct {
	// FQDN is the gateway's own name; it is empty before the setup.
	FQDN func() string
	// IPv6 says whether the gateway listens on IPv6, and Maintenance whether every site is in maintenance.
	IPv6        func(ctx context.Context, q db.Querier) (bool, error)
	Maintenance func() bool
	// Certificates are those that can be shown, and Default is shown where none fits.
	Certificates func(ctx context.Context, q db.Querier) ([]Certificate, error)
	Default      func() ([]byte, error)
	// Changed is a certificate before and after a change, nil where there is none, if that is what a change is about.
	Changed func(row apply.Row) (was, now *Certificate, ok bool)
	// Contested tells whether a certificate shares a name with another one.
	Contested func(ctx context.Context, q db.Querier, certificate uuid.UUID) (bool, error)
	// Inspections are those of the domains whose requests are inspected, and InspectionOf is that of one, nil if it has none.
	Inspections  func(ctx context.Context, q db.Querier) ([]Inspection, error)
	InspectionOf func(ctx context.Context, q db.Querier, domain uuid.UUID) (*Inspection, error)
	// InspectionChanged is a domain's inspection before and after a change, nil where there is none, if that is what a change is about.
	InspectionChanged func(row apply.Row) (domain uuid.UUID, was, now *Inspection, ok bool)
	// SitesChanged hears that other certificates may be needed.
	SitesChanged func()
	// Management says who answers on the management port.
	Management func() string
}

// Room is the reverse proxy.
type Room struct {
	*kit.Kit
	deps     Deps
	domains  resource.Kind[Domain]
	headers  resource.Child[Header]
	backends resource.Kind[Backend]
	servers  resource.Child[Server]
	rules    resource.Kind[Rule]

	// reloads and changes count what HAProxy was told since the service started.
	reloads, changes atomic.Int64
	history          trafficHistory
	// reread says that HAProxy has just read its files.
	reread atomic.Bool

	mu        sync.Mutex
	capable   Features
	capableAt time.Time
	// worker and shape are those of the HAProxy that was last verified; shape is nil when it is not known.
	worker int
	shape  *shape
}

// New builds the room.
func New(k *kit.Kit, deps Deps) *Room {
	r := &Room{Kit: k, deps: deps, headers: headerKind(), servers: serverKind(), rules: ruleKind(), history: trafficHistory{Point: traffic}}
	r.domains, r.backends = r.domainKind(), r.backendKind()
	apply.Register(k.Engine, apply.Component[*Config]{
		ID: apply.ReverseProxy, Unit: unit, Load: r.load, Render: Render, Check: r.check, Apply: r.reload, Verify: r.verify,
		Runtime: &apply.Runtime[*Config]{Can: r.can, Do: r.change, Plan: r.plan},
	})
	return r
}

// Site is an active domain and the names that it answers to.
type Site struct {
	DomainID uuid.UUID
	Names    []string
	// CertificateID is the certificate that it was told to show.
	CertificateID *uuid.UUID
}

// Sites are the active domains.
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

// DomainTable is where the domains are.
const DomainTable = "proxy_domains"

func (r *Room) DomainNames(ctx context.Context, q db.Querier) (map[uuid.UUID]string, error) {
	domains, err := r.domains.All(ctx, q)
	names := make(map[uuid.UUID]string, len(domains))
	for i := range domains {
		names[domains[i].ID] = domains[i].Label()
	}
	return names, err
}

// CountDomains tells how many domains there are, active or not.
func (r *Room) CountDomains(ctx context.Context, q db.Querier) (n int, err error) {
	err = q.QueryRow(ctx, "SELECT count(*) FROM proxy_domains").Scan(&n)
	return n, err
}

// CertificateUsers are the domains that were told to show a certificate.
func (r *Room) CertificateUsers(ctx context.Context, q db.Querier, id uuid.UUID) ([]resource.User, error) {
	domains, err := r.domains.Where(ctx, q, "certificate_id = $1", id)
	var list []resource.User
	for i := range domains {
		list = append(list, resource.User{Kind: r.domains.Name, ID: domains[i].ID, Name: domains[i].Label()})
	}
	return list, err
}

func (r *Room) Mount() {
	r.domains.Mount(r.Resources)
	r.headers.Mount(r.Resources)
	r.backends.Mount(r.Resources)
	r.servers.Mount(r.Resources)
	r.rules.Mount(r.Resources)
	r.mountStats()
	r.mountImpact()
}
