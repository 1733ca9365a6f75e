package cluster

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"reflect"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/secret"
)

// Accounts checks users' logins.
type Accounts interface {
	// Check reports whether a password is right.
	Check(ctx context.Context, client netip.Addr, email, password string) (bool, error)
	// Spend marks a second step of a login as used; it returns Unauthenticated if it already was.
	Spend(ctx context.Context, user uuid.UUID, kind, value string) error
	// HandOver reports to the primary the second steps that were used while it was away. TakeOver does the same on a node that becomes
	// the primary.
	HandOver(ctx context.Context) error
	TakeOver(ctx context.Context, tx *db.Tx) error
}

const (
	// deliverEvery is how often a standby checks whether it has something to deliver.
	deliverEvery = 2 * time.Second
	// batch is how many audit entries are sent at once, and batchLimit their maximum size in bytes.
	batch      = 100
	batchLimit = 64 << 20
	auditPath  = "/agent/audit"
)

// Credentials are what a user has typed at another node.
type Credentials struct {
	Email    string      `json:"email" required:"true" maxLength:"254" doc:"The user's address."`
	Password secret.Text `json:"password,omitzero" required:"true" doc:"The user's password."`
	Client   string      `json:"client" maxLength:"64" doc:"Address that the user comes from."`
}

// Checked says whether a password is right. Each node knows itself what the user may do.
type Checked struct {
	Right bool `json:"right"`
}

// Spending is a second step that was used at another node.
type Spending struct {
	UserID uuid.UUID `json:"user_id" required:"true" doc:"Whose it is."`
	Kind   string    `json:"kind" required:"true" enum:"totp,recovery,passkey" doc:"What it is."`
	Value  string    `json:"value" required:"true" maxLength:"2048" doc:"Which one it is."`
}

// mountOutbox adds the routes for what other nodes deliver to the primary.
func (r *Room) mountOutbox() {
	httpd.Handle(r.agents, http.MethodPost, "/agent/auth/check", httpd.Own.Here(), tag.Doc("agent.auth-check", "Whether a password is right"),
		func(c *httpd.Call, in struct{ Body Credentials }) (Checked, error) {
			if err := r.asPrimary(c); err != nil {
				return Checked{}, err
			}
			client, _ := netip.ParseAddr(in.Body.Client)
			plain, _ := in.Body.Password.Fresh()
			right, err := r.deps.Accounts.Check(c, client, in.Body.Email, plain)
			return Checked{right}, err
		})
	httpd.Handle(r.agents, http.MethodPost, "/agent/auth/spend", httpd.Own.Here(), tag.Doc("agent.auth-spend", "Have a second step of a login count as used"),
		func(c *httpd.Call, in struct{ Body Spending }) (struct{}, error) {
			if err := r.asPrimary(c); err != nil {
				return struct{}{}, err
			}
			return struct{}{}, r.deps.Accounts.Spend(c, in.Body.UserID, in.Body.Kind, in.Body.Value)
		})
	r.agents.Add(httpd.Route{
		Doc: tag.Doc("agent.audit", "Take audit entries of another node"), Method: http.MethodPost, Path: auditPath, Policy: httpd.Own.Here(),
		In: reflect.TypeFor[struct{}](), Out: &httpd.SchemaSource{Type: reflect.TypeFor[struct{}]()}, Takes: "application/json",
	}, func(c *httpd.Call) error {
		body, err := io.ReadAll(io.LimitReader(c.Body(), batchLimit))
		var entries []audit.Entry
		if err == nil {
			err = json.Unmarshal(body, &entries)
		}
		if err != nil {
			return fault.Wrap(fault.Invalid, err, "These are not audit entries.")
		}
		// A node may only deliver its own entries.
		if err := r.Audit.Adopt(c, caller(c).ID, entries); err != nil {
			return err
		}
		return c.Reply(struct{}{})
	})
}

// asPrimary refuses what only the primary can decide.
func (r *Room) asPrimary(ctx context.Context) error {
	s, err := Load(ctx, r.DB)
	if err == nil && (s.Role != Primary || r.deps.Accounts == nil) {
		err = elsewhere(s)
	}
	return err
}

// Away reports whether changes belong to another node.
func (r *Room) Away(ctx context.Context) (bool, error) {
	if r.identity.Load() == nil {
		return false, nil
	}
	s, err := Load(ctx, r.DB)
	return s.Role != Single && s.Role != Primary, err
}

// askPrimary asks the primary that this node follows. Any reason for a missing answer is Unavailable.
func askPrimary[T any](ctx context.Context, r *Room, path string, in any) (out T, err error) {
	s, err := Load(ctx, r.DB)
	if err != nil {
		return out, err
	}
	primary, err := r.primaryOf(ctx, s)
	if err == nil && primary.ID == r.node().ID {
		err = elsewhere(s)
	}
	if err != nil {
		return out, err
	}
	out, err = Ask[T](ctx, r, primary, http.MethodPost, path, in)
	if fault.Is(err, fault.NotFound) { // an older version, while the cluster is updated
		err = fault.Wrap(fault.Unavailable, err, "The primary cannot do this yet. Upgrade it first.")
	}
	return out, err
}

// Check asks the primary whether a password is right.
func (r *Room) Check(ctx context.Context, client netip.Addr, email, password string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	out, err := askPrimary[Checked](ctx, r, "/agent/auth/check", map[string]string{"email": email, "password": password, "client": client.String()})
	return out.Right, err
}

// Spend marks a second step as used on the primary.
func (r *Room) Spend(ctx context.Context, user uuid.UUID, kind, value string) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	_, err := askPrimary[struct{}](ctx, r, "/agent/auth/spend", Spending{user, kind, value})
	return err
}

// takeOver adopts what was waiting for the primary as this node's own.
func (r *Room) takeOver(ctx context.Context, tx *db.Tx) error {
	r.Audit.TakeOver(tx)
	if r.deps.Accounts == nil {
		return nil
	}
	return r.deps.Accounts.TakeOver(ctx, tx)
}

// Deliver sends the primary what it does not have from this node, until the context ends.
func (r *Room) Deliver(ctx context.Context) {
	ctx = actor.With(ctx, actor.System("cluster"))
	lastFailure := ""
	for {
		if err := r.deliver(ctx); err == nil {
			lastFailure = ""
		} else if text := err.Error(); text != lastFailure && ctx.Err() == nil {
			lastFailure = text
			r.Log.Warn("delivering to the primary failed", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.Clock.After(deliverEvery):
		}
	}
}

func (r *Room) deliver(ctx context.Context) error {
	if !r.DB.Attached() {
		return nil
	}
	var waits bool
	if err := r.DB.QueryRow(ctx, "SELECT EXISTS (SELECT FROM audit_outbox) OR EXISTS (SELECT FROM account_spent)").Scan(&waits); err != nil || !waits {
		return err
	}
	s, err := Load(ctx, r.DB)
	switch {
	case err != nil:
		return err
	case s.Role == Single || s.Role == Primary: // has become so
		return r.DB.Write(ctx, func(tx *db.Tx) error { return r.takeOver(ctx, tx) })
	case s.Role != Standby:
		return nil
	}
	for {
		entries, err := r.Audit.Waiting(ctx, batch)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			break
		}
		if _, err := askPrimary[struct{}](ctx, r, auditPath, entries); err != nil {
			return err
		}
		// The entries come back by replication, which ends their wait.
		if _, err := r.arrived(ctx, entries[len(entries)-1].ID, arrivesWithin); err != nil {
			return err
		}
		if gone, err := r.Audit.Returned(ctx); err != nil || gone == 0 {
			return err
		}
	}
	if r.deps.Accounts == nil {
		return nil
	}
	return r.deps.Accounts.HandOver(ctx)
}
