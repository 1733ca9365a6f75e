// Package actor says who does something, in which request, and from where.
package actor

import (
	"context"
	"net/netip"

	"github.com/google/uuid"
)

// Role says what an actor may do.
type Role string

// Roles of users. Viewer reads; Admin does everything.
const (
	Viewer Role = "viewer"
	Admin  Role = "admin"
)

// Actor is who makes a request.
type Actor struct {
	// Name is written to the audit log: an e-mail address, the name of a program, or token:<name> (<address>).
	Name string
	// UserID is the row of the user; the nil UUID for programs, and while the database is unavailable.
	UserID uuid.UUID
	Role   Role
	// Session is the session of the request, if it has one. Programs and API tokens have none.
	Session uuid.UUID
	// Token is the API token of the request, if it has one.
	Token uuid.UUID
	// Method is how the caller was authenticated: how the session began, or by a token.
	Method string
	// Offline marks the setup store's administrator while the database is unavailable, who may use only the system routes.
	Offline bool
}

// System returns the actor for a program of the gateway.
func System(program string) Actor { return Actor{Name: program, Role: Admin} }

// ID identifies an actor in the log, which must not contain people's addresses.
func (a Actor) ID() string {
	switch {
	case a.Token != uuid.Nil:
		return a.Token.String()
	case a.UserID != uuid.Nil:
		return a.UserID.String()
	case a.Offline:
		return "setup-admin"
	case a.Role != "":
		return a.Name
	}
	return ""
}

type (
	key        struct{}
	requestKey struct{}
	addressKey struct{}
)

func With(ctx context.Context, a Actor) context.Context { return context.WithValue(ctx, key{}, a) }

// From returns the actor; without one, the zero Actor, who may do nothing.
func From(ctx context.Context) Actor {
	a, _ := ctx.Value(key{}).(Actor)
	return a
}

func WithRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// Request returns the id of the request; empty for what the gateway does on its own.
func Request(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// WithAddress adds the address that a request came from to a context.
func WithAddress(ctx context.Context, from netip.Addr) context.Context {
	return context.WithValue(ctx, addressKey{}, from)
}

// Address returns the address that the request came from; invalid for what the gateway does on its own and for requests on the
// machine itself.
func Address(ctx context.Context) netip.Addr {
	from, _ := ctx.Value(addressKey{}).(netip.Addr)
	return from
}
