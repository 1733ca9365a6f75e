// Package license manages the gateway's license: its key, the result of its verification, and the routes that show and change it. It
// reports the status, but never disables a function.
package license

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/license/document"
)

// Deps holds what the room needs besides the kit.
type Deps struct {
	// PublicKey is the issuer's; a build without one has nil, and accepts no license.
	PublicKey ed25519.PublicKey
	// Usage counts what licenses limit.
	Usage func(ctx context.Context, q db.Querier) (Usage, error)
}

// Usage holds the counts of what licenses limit.
type Usage struct{ Nodes, Domains, TunnelPeers int }

// Room manages the license.
type Room struct {
	*kit.Kit
	deps  Deps
	store *Store
	// changing is held during a change, starting before its first read of the license, so that its audit entry names what was changed.
	changing sync.Mutex
}

// New builds the room. No state of the license prevents the gateway from starting.
func New(k *kit.Kit, d Deps) *Room {
	r := &Room{Kit: k, deps: d, store: NewStore(k.Paths, d.PublicKey, k.Clock)}
	if err := r.store.Settle(); err != nil {
		k.Log.Warn("the license cache stays as it is", "err", err)
	}
	if at := r.store.View(); at.Status == Invalid || at.Status == Expired {
		k.Log.Warn("license", "status", string(at.Status), "reason", at.Reason)
	}
	return r
}

// Record is the license with its status and the use of its limits.
type Record struct {
	Status    Status     `json:"status" enum:"active,trial,expired,invalid" doc:"Status of the license. No status disables a function."`
	Reason    string     `json:"reason" doc:"A sentence that says why the status is what it is."`
	Installed bool       `json:"installed" doc:"Whether a license is stored."`
	Accepts   bool       `json:"accepts_licenses" doc:"Whether this build of the gateway can verify licenses: one without a public key accepts none."`
	ID        string     `json:"id" doc:"Id of the license; empty without one, as are the subject and the plan."`
	Subject   string     `json:"subject" doc:"Whom the license was issued to."`
	Plan      string     `json:"plan" doc:"Plan of the license."`
	NotBefore *time.Time `json:"not_before" doc:"From when the license is valid."`
	NotAfter  *time.Time `json:"not_after" doc:"Until when the license is valid."`
	DaysLeft  *int       `json:"days_left" doc:"Whole days until the license expires; 0 on its last day and after it."`
	Features  []string   `json:"features" doc:"Features in the license; none means all."`
	Limits    Limits     `json:"limits" doc:"Limits of the license and current usage."`
	Over      bool       `json:"over" doc:"Whether there is more of something than the license is for. Nothing is refused because of it."`
	CheckedAt *time.Time `json:"checked_at" doc:"When the signature of the license was verified."`
}

// Limits lists the limits with their use.
type Limits struct {
	Nodes       Limit `json:"nodes" doc:"Nodes of the cluster; a single gateway counts as one."`
	Domains     Limit `json:"domains" doc:"Domains of the reverse proxy."`
	TunnelPeers Limit `json:"tunnel_peers" doc:"Peers of the tunnels."`
}

// Limit is one limit with its present use.
type Limit struct {
	Limit *int `json:"limit" doc:"How many the license is for; null without a limit."`
	Used  *int `json:"used" doc:"Current number; null while the database is unavailable."`
	Over  bool `json:"over" doc:"Whether there are more than the license is for."`
}

// Key installs a license.
type Key struct {
	Key secret.Text `json:"key,omitzero" required:"true" doc:"The license as it was issued, from its BEGIN line to its END line. White space does not matter."`
}

// Mount adds the room's routes. They also answer without the database.
func (r *Room) Mount() {
	const tag httpd.Tag = "license"
	httpd.Handle(r.Router, http.MethodGet, "/license", httpd.Read.Offline(), tag.Doc("license.get", "The license: its status, its limits and their use"),
		func(c *httpd.Call, _ struct{}) (Record, error) { return r.record(c), nil })
	httpd.Handle(r.Router, http.MethodPost, "/license/verify", httpd.Write.Offline().Here(), tag.Audited("license.verify", "Verify the stored license again"), r.verify)
	httpd.Handle(r.Router, http.MethodPut, "/license/key", httpd.Write.Offline().Here(), tag.Audited("license.set", "Install a license. It replaces the stored one"), r.set)
	httpd.Handle(r.Router, http.MethodDelete, "/license/key", httpd.Write.Offline().Here(), tag.Audited("license.clear", "Remove the license"), r.clear)
}

func (r *Room) verify(c *httpd.Call, _ struct{}) (Record, error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	err := r.Audit.Do(c, "license.verify", subject(r.store.View()), func() (any, error) {
		if err := r.store.Verify(); err != nil {
			return nil, err
		}
		at := r.store.View()
		return map[string]any{"status": at.Status, "reason": at.Reason}, nil
	})
	if err != nil {
		return Record{}, err
	}
	return r.record(c), nil
}

func (r *Room) set(c *httpd.Call, in struct{ Body Key }) (Record, error) {
	if !r.store.Accepts() {
		return Record{}, fault.New(fault.NotSupported, "This build of the gateway has no public key to verify licenses with, and accepts none.")
	}
	text, _ := in.Body.Key.Fresh()
	sealed, l, err := r.store.Check(text)
	if err != nil {
		return Record{}, fault.Field("key", "is not a license that can be installed: %s", err)
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	err = r.Audit.Do(c, "license.set", l.Subject, func() (any, error) { return details(&l), r.store.Set(sealed) })
	if err != nil {
		return Record{}, err
	}
	return r.record(c), nil
}

func (r *Room) clear(c *httpd.Call, _ struct{}) (Record, error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	at := r.store.View()
	if !at.Installed {
		return Record{}, fault.New(fault.NotFound, "No license is installed.")
	}
	err := r.Audit.Do(c, "license.clear", subject(at), func() (any, error) { return details(at.License), r.store.Clear() })
	if err != nil {
		return Record{}, err
	}
	return r.record(c), nil
}

// subject returns the subject of an audit entry about a license.
func subject(at Standing) string {
	if at.License == nil {
		return "license"
	}
	return at.License.Subject
}

// details returns the details of an audit entry: the content of a license, but not the key itself.
func details(l *document.License) any {
	if l == nil {
		return nil
	}
	return l
}

func (r *Room) record(ctx context.Context) Record {
	at := r.store.View()
	out := Record{Status: at.Status, Reason: at.Reason, Installed: at.Installed, Accepts: r.store.Accepts(), Features: []string{}}
	if !at.CheckedAt.IsZero() {
		out.CheckedAt = &at.CheckedAt
	}
	var limits document.Limits
	if l := at.License; l != nil {
		out.ID, out.Subject, out.Plan, out.NotBefore, out.NotAfter = l.ID, l.Subject, l.Plan, &l.NotBefore, &l.NotAfter
		left := max(0, int(l.NotAfter.Sub(r.Clock.Now())/(24*time.Hour)))
		out.DaysLeft, limits = &left, l.Limits
		out.Features = append(out.Features, l.Features...)
	}
	out.Limits = Limits{Nodes: Limit{Limit: limits.Nodes}, Domains: Limit{Limit: limits.Domains}, TunnelPeers: Limit{Limit: limits.TunnelPeers}}
	usage, err := r.deps.Usage(ctx, r.DB)
	if err != nil {
		if !db.Away(err) {
			r.Log.Warn("the use of the license's limits cannot be counted", "err", err)
		}
		return out
	}
	out.Limits.Nodes.use(usage.Nodes)
	out.Limits.Domains.use(usage.Domains)
	out.Limits.TunnelPeers.use(usage.TunnelPeers)
	out.Over = out.Limits.Nodes.Over || out.Limits.Domains.Over || out.Limits.TunnelPeers.Over
	return out
}

func (l *Limit) use(n int) {
	l.Used = &n
	l.Over = l.Limit != nil && n > *l.Limit
}
