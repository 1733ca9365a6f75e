package httpd

import (
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
)

// Policy says who may call a route. It is bound where the route is registered; the zero Policy is refused there.
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

// where says which node of a cluster does what a route does.
type where string

const (
	here      where = "node"
	onPrimary where = "primary"
)

// The policies.
var (
	// Public routes need no session.
	Public = Policy{name: "public", public: true}
	// Owner is for who owns a machine that is not set up yet: the caller is on it, or knows the setup token. When the setup is complete, the
	// route is closed to everyone.
	Owner = Policy{name: "owner", owner: true, beforeSetup: true}
	// Read is for everybody with a session; the route changes nothing.
	Read = Policy{name: "read"}
	// Own is for everybody with a session; the route changes nothing but the caller's own account.
	Own = Policy{name: "own"}
	// AdminRead is for admins, although it changes nothing: what it shows is secret.
	AdminRead = Policy{name: "admin-read", admin: true}
	// Write is for admins: the route changes something.
	Write = Policy{name: "write", admin: true}
)

// BeforeSetup lets the route answer before the initial setup is complete.
func (p Policy) BeforeSetup() Policy { p.beforeSetup = true; return p }

// Offline lets the setup store's admin in while the database is away.
func (p Policy) Offline() Policy { p.offline = true; return p }

// BySession is for people who have logged in: no API token may call the route, and no program if it is about the
// caller's own account. The machine's root is an admin like others.
func (p Policy) BySession() Policy { p.bySession = true; return p }

// Here says that the node which is asked does it, a standby too: it changes what that node has of its own, or nothing.
func (p Policy) Here() Policy { p.where = here; return p }

// OnPrimary says that the primary of the cluster does it: it changes what all nodes share. A standby passes the request on.
func (p Policy) OnPrimary() Policy { p.where = onPrimary; return p }

// Where names the node that does it: node for the one that is asked, or primary. It is empty for what the request itself decides.
func (p Policy) Where() string { return string(p.where) }

// String names the policy, for the documentation and the tests.
func (p Policy) String() string { return p.name }

// IsPublic tells whether the route needs no session.
func (p Policy) IsPublic() bool { return p.public }

// IsOwner tells whether the route is for who owns a machine that is not set up yet.
func (p Policy) IsOwner() bool { return p.owner }

// IsAdmin tells whether the route is for admins alone.
func (p Policy) IsAdmin() bool { return p.admin }

// IsBeforeSetup tells whether the route answers before the initial setup is complete.
func (p Policy) IsBeforeSetup() bool { return p.beforeSetup }

// IsOffline tells whether the setup store's admin may call the route while the database is away.
func (p Policy) IsOffline() bool { return p.offline }

// IsBySession tells whether the route is closed to API tokens.
func (p Policy) IsBySession() bool { return p.bySession }

// allow says whether an authenticated actor may call the route.
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
