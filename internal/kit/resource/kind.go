// Package resource gives a kind of row its REST verbs, audit entries, documentation and effect on the machine, all from
// one declaration.
package resource

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
)

// Meta is what every resource has. Embed it first.
type Meta struct {
	ID        uuid.UUID `json:"id" readOnly:"true" doc:"Id, assigned by the gateway."`
	CreatedAt time.Time `json:"created_at" readOnly:"true" doc:"When it was created."`
	UpdatedAt time.Time `json:"updated_at" readOnly:"true" doc:"When it was last changed."`
}

func (m *Meta) meta() *Meta { return m }

// Labeled is a resource that people know by a name; the audit log uses it.
type Labeled interface{ Label() string }

// Kind is a kind of row with the five verbs. T embeds Meta; its JSON names are its column names. It is declared as
// a whole before Mount, and read and changed after it.
type Kind[T any] struct {
	// Name is the kind's name in change sets and audit actions, such as ntp.pool.
	Name string
	// Title is what people call one of them, such as "NTP source".
	Title string
	// Path is where the collection lives.
	Path string
	// Table holds the rows; it carries the room's name.
	Table string
	// Key is the column that holds the id, where it is not called so.
	Key string
	// Order is the SQL order of lists; the id comes last by itself.
	Order string
	// Feeds are the components that depend on the rows.
	Feeds []apply.ID
	// Local rows belong to this node alone: they are neither replicated nor part of the configuration hash.
	Local bool
	// LocalColumns of rows that all nodes share belong to each node alone, such as what was last seen. They have a default in the schema.
	LocalColumns []string
	// Unkept are the columns of which no history is kept, such as passwords: nothing brings an old one back.
	Unkept []string
	// Apart rows stay what they are when everything goes back to a time: who may log in is not part of that.
	Apart bool
	// AdminOnly rows are secret to viewers.
	AdminOnly bool
	// Natural are the fields that tell the rows of a configuration document apart, where their labels do not.
	Natural []string
	// Canonical, where there is one, writes these fields in the one way in which they are stored, because documents may have
	// other ways that Check understands, too. of is what documents call the row that the first reference among them is to.
	Canonical func(now *T, of string)
	// Refers are the tables that fields refer to without a foreign key: by ids in a list, or by a name.
	Refers map[string]string
	// Made names the fields of a row that the gateway has made itself. Documents do not have them, and while the row is there no revert brings
	// an old one back, nor what the gateway says about it in read-only fields.
	Made func(v *T) []string
	// Unforeseen says of an area why it cannot be worked out whom a change of the rows reaches there.
	Unforeseen map[Area]string
	// Passing tells of a row that the gateway makes and deletes itself, or whose time is over. Documents do not have it.
	Passing func(v *T) bool
	// Notes are the fields that feed no component, such as the remarks of operators. PATCH changes these alone.
	Notes []string

	// New makes a row with its defaults.
	New func() T
	// Prepare, where there is one, does what takes its time, such as making a key, before the transaction, so that no lock waits
	// for it. A preview stores nothing and does without. was is nil for a new row; now is the row as it would be, if nothing
	// else changes it meanwhile. What it answers, if anything, gives the result to the row in the transaction.
	Prepare func(ctx context.Context, was, now *T) (give func(now *T), err error)
	// Check looks at a change in its transaction: references, builtins, guards. was is nil for a new row, now is nil for
	// a delete. It may complete now.
	Check func(ctx context.Context, tx *db.Tx, was, now *T) error
	// View completes or masks a row before it is shown, from the row alone: lists are kept as long as the rows are the
	// same.
	View func(v *T)
	// Join completes rows with what other tables hold, which are named: lists are kept as long as these are the same, too.
	Join  func(ctx context.Context, q db.Querier, rows []*T) error
	Joins []string

	kind *kind // since Mount
}

// Singleton is a kind with exactly one row, which a migration makes. It has GET and PUT.
type Singleton[T any] struct {
	Name, Title, Path, Table string
	Feeds                    []apply.ID
	Local                    bool
	AdminOnly, Apart         bool
	Unforeseen               map[Area]string
	Prepare                  func(ctx context.Context, was, now *T) (give func(now *T), err error)
	Check                    func(ctx context.Context, tx *db.Tx, was, now *T) error
	View                     func(v *T)

	kind *kind // since Mount
}

// Child is a kind whose rows belong to a parent, and are listed and made below it.
type Child[T any] struct {
	Kind[T]
	// Under is the collection below the parent, such as /backends/{parent}/servers. With Kind.Path the rows live there, and
	// all of them are listed and made there too. Without it they live below their parent, and one that is addressed through
	// another parent is not found.
	Under string
	// Column refers to the parent's id.
	Column string
	// Parent is the parent's table.
	Parent string
}

// Extension is a kind that adds to the rows of another table: for each of these it has one row at most, which has the same id. There is
// no creating or deleting one. Reading gives the defaults until the first update has stored them. It has GET of all that are stored, and GET
// and PUT of one.
type Extension[T any] struct {
	Kind[T]
	// Of is the other table.
	Of string
}

// User is a row that uses another one.
type User struct {
	Kind string    `json:"kind" doc:"Name of the kind, for example firewall.rule."`
	ID   uuid.UUID `json:"id" doc:"Which row."`
	Name string    `json:"name" doc:"Its name."`
}

// InUse refuses to delete what others use, and names them.
func InUse(title string, users []User) error {
	if len(users) == 0 {
		return nil
	}
	names := make([]string, 0, len(users))
	for _, u := range users {
		names = append(names, u.Name)
	}
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("and %d more", len(users)-3))
	}
	return &fault.Error{Kind: fault.Conflict, Message: strings.ToUpper(title[:1]) + title[1:] + " is still used by " + strings.Join(names, ", ") + ".", Details: map[string]any{"used_by": users}}
}
