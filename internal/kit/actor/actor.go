// Package actor says who does something, in which request, and from where.
package actor

import (
	"context"
	"net/netip"

	"github.com/google/uuid"
)

// Role is what somebody may do.
type Role string

// The roles. Viewer reads; Admin does everything.
const (
	Viewer Role = "viewer"
	Admin  Role = "admin"
)

// Actor is who makes a request.
type Actor struct {
	// Name is written into the audit log: an e-mail address, the name of a program, or token:<name> (<address>).
	Name string
	// UserID is the row of the user; the nil UUID for programs and while the database is away.
	UserID uuid.UUID
	Role   Role
	// Session is the session of the request, if it has one. Programs and API tokens have none.
	Session uuid.UUID
	// Token is the API token of the request, if it has one.
	Token uuid.UUID
	// Method is how the caller proved who it is: how the session began, or that it has a token.
	Method string
	// Offline marks the setup store's admin while the database is away: system routes alone.
	Offline bool
}

// System is the service itself.
func System(program string) Actor { return Actor{Name: program, Role: Admin} }

// ID tells actors apart in the log, where addresses of people have no place.
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

// With puts the actor into a context.
func With(ctx context.Context, a Actor) context.Context { return context.WithValue(ctx, key{}, a) }

// From finds the actor; without one it is the zero Actor, who may do nothing.
func From(ctx context.Context) Actor {
	a, _ := ctx.Value(key{}).(Actor)
	return a
}

// WithRequest puts the id of a request into a context.
func WithRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// Request is the id of the request that something is done in; empty for what the service does on its own.
func Request(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// WithAddress puts the address that a request came from into a context.
func WithAddress(ctx context.Context, from netip.Addr) context.Context {
	return context.WithValue(ctx, addressKey{}, from)
}

// Address is where the request came from that something is done in; not valid for what the service does on its own and for what was asked
// on the machine itself.
func Address(ctx context.Context) netip.Addr {
	from, _ := ctx.Value(addressKey{}).(netip.Addr)
	return from
}
