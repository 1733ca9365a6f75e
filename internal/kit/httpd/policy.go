package httpd

import (
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
)

// Policy says who may call a route. Every route must have one; the zero Policy is rejected.
type Policy struct {
	name        string
	public      bool
	owner       bool
	admin       bool
	beforeSetup bool
	offline     bool
	bySession   bool
	where       where
}

// where says which node of a cluster handles a route.
type where string

const (
	here      where = "node"
	onPrimary where = "primary"
)

// Policies of routes.
var (
	// Public routes need no session.
	Public = Policy{name: "public", public: true}
	// Owner is for the owner of a machine that is not set up yet: the caller is on the machine itself, or knows the setup token.
	// Once the setup is complete, the route is closed to everyone.
	Owner = Policy{name: "owner", owner: true, beforeSetup: true}
	// Read is for everyone with a session; the route changes nothing.
	Read = Policy{name: "read"}
	// Own is for everyone with a session; the route changes nothing but the caller's own account.
	Own = Policy{name: "own"}
	// AdminRead is for administrators although it changes nothing: what it shows is secret.
	AdminRead = Policy{name: "admin-read", admin: true}
	// Write is for administrators: the route changes something.
	Write = Policy{name: "write", admin: true}
)

// BeforeSetup lets the route answer before the initial setup is complete.
func (p Policy) BeforeSetup() Policy { p.beforeSetup = true; return p }

// Offline lets the setup store's administrator call the route while the database is unavailable.
func (p Policy) Offline() Policy { p.offline = true; return p }

// BySession is for people who have logged in: API tokens may not call the route, and neither may programs if it is about the
// caller's own account. The machine's root is an administrator like any other.
func (p Policy) BySession() Policy { p.bySession = true; return p }

// Here makes the node that receives the request handle it, even a standby: it changes only local data, or nothing.
func (p Policy) Here() Policy { p.where = here; return p }

// OnPrimary makes the primary of the cluster handle the request: it changes shared data. A standby passes the request on.
func (p Policy) OnPrimary() Policy { p.where = onPrimary; return p }

// Where returns which node handles the request: node for the one that receives it, or primary. It is empty if that depends on the
// request.
func (p Policy) Where() string { return string(p.where) }

// String returns the policy's name, for the documentation and for tests.
func (p Policy) String() string { return p.name }

// IsPublic reports whether the route needs no session.
func (p Policy) IsPublic() bool { return p.public }

// IsOwner reports whether the route is for the owner of a machine that is not set up yet.
func (p Policy) IsOwner() bool { return p.owner }

// IsAdmin reports whether the route is only for administrators.
func (p Policy) IsAdmin() bool { return p.admin }

// IsBeforeSetup reports whether the route answers before the initial setup is complete.
func (p Policy) IsBeforeSetup() bool { return p.beforeSetup }

// IsOffline reports whether the setup store's administrator may call the route while the database is unavailable.
func (p Policy) IsOffline() bool { return p.offline }

// IsBySession reports whether the route is closed to API tokens.
func (p Policy) IsBySession() bool { return p.bySession }

// allow returns an error unless an authenticated actor may call the route.
func (p Policy) allow(a actor.Actor) error {
	switch {
	case a.Offline && !p.offline:
		return fault.New(fault.Unavailable, "The database is unavailable. Until it is back, only the system routes work.")
	case p.bySession && (a.Token != uuid.Nil || a.Session == uuid.Nil && !p.admin):
		return fault.New(fault.Forbidden, "This requires a login. API tokens and programs cannot do it.")
	case p.admin && a.Role != actor.Admin:
		return fault.New(fault.Forbidden, "Only an administrator may do this.")
	}
	return nil
}
