// Package resource derives a kind's REST routes, audit entries, documentation and effect on the machine from one declaration.
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

// Meta holds the fields that every resource has. Embed it first.
type Meta struct {
	ID        uuid.UUID `json:"id" readOnly:"true" doc:"Id, assigned by the gateway."`
	CreatedAt time.Time `json:"created_at" readOnly:"true" doc:"When it was created."`
	UpdatedAt time.Time `json:"updated_at" readOnly:"true" doc:"When it was last changed."`
}

func (m *Meta) meta() *Meta { return m }

// Labeled is a resource with a name for people, which the audit log uses.
type Labeled interface{ Label() string }

// Kind is a kind of row with the five verbs. T embeds Meta; its JSON names are its column names. All fields must be set before
// Mount; rows are read and changed after it.
type Kind[T any] struct {
	// Name identifies the kind in change sets and audit actions, such as ntp.pool.
	Name string
	// Title is what people call a row, such as "NTP source".
	Title string
	// Path is the URL path of the collection.
	Path string
	// Table holds the rows. Its name begins with that of the room.
	Table string
	// Key is the id column, if it has another name than id.
	Key string
	// Order is the SQL order of lists. The id is appended to it.
	Order string
	// Feeds are the components that depend on the rows.
	Feeds []apply.ID
	// Local rows belong to this node alone: they are neither replicated nor part of the configuration hash.
	Local bool
	// LocalColumns of shared rows are local to each node, such as when something was last seen. They need a default in the
	// schema.
	LocalColumns []string
	// Unkept are the columns without history, such as passwords: nothing restores an old value.
	Unkept []string
	// Apart kinds are excluded when everything is reverted to a past time: who may log in is not part of that.
	Apart bool
	// AdminOnly rows are hidden from viewers.
	AdminOnly bool
	// Natural are the fields that identify rows in a configuration document, if labels do not.
	Natural []string
	// Canonical, if set, brings these fields into the form in which they are stored, because Check may accept other forms in
	// documents, too. of is the name of the row that the first reference among them points to.
	Canonical func(now *T, of string)
	// Refers maps fields to the tables that they refer to without a foreign key: by a list of ids, or by name.
	Refers map[string]string
	// Made lists the fields of a row that the gateway has generated. Documents omit them. While the row exists, no revert
	// restores an old value of them or of the row's read-only fields.
	Made func(v *T) []string
	// Unforeseen says, for each area in which the effect of a change cannot be worked out, why not.
	Unforeseen map[Area]string
	// Passing reports whether the gateway creates and deletes a row itself, or the row has expired. Documents omit such rows.
	Passing func(v *T) bool
	// Notes are the fields that feed no component, such as remarks. PATCH changes only these.
	Notes []string

	// New returns a row with its defaults.
	New func() T
	// NewID, if set, chooses the id of a new row whose creator has not. If it returns the nil UUID, the row gets a fresh one.
	NewID func(ctx context.Context, tx *db.Tx, now *T) (uuid.UUID, error)
	// Prepare, if set, does slow work such as generating a key. It runs before the transaction, so that no lock is held
	// meanwhile. Previews store nothing and skip it. was is nil for a new row; now is the row as it will be unless something else
	// changes it first. If Prepare returns a function, that adds the result to the row in the transaction.
	Prepare func(ctx context.Context, was, now *T) (give func(now *T), err error)
	// Check validates a change in its transaction: references, built-in rows, guards. was is nil for a new row, now is nil for a
	// delete. It may complete now.
	Check func(ctx context.Context, tx *db.Tx, was, now *T) error
	// View completes or masks a row before it is served. It must depend on the row alone: lists are cached until a row changes.
	View func(v *T)
	// Join completes rows with data from the tables in Joins. Lists are cached until a row of these changes, too.
	Join  func(ctx context.Context, q db.Querier, rows []*T) error
	Joins []string

	kind *kind // set by Mount
}

// Singleton is a kind with exactly one row, which a migration creates. It has GET and PUT.
type Singleton[T any] struct {
	Name, Title, Path, Table string
	Feeds                    []apply.ID
	Local                    bool
	AdminOnly, Apart         bool
	Unforeseen               map[Area]string
	Prepare                  func(ctx context.Context, was, now *T) (give func(now *T), err error)
	Check                    func(ctx context.Context, tx *db.Tx, was, now *T) error
	View                     func(v *T)

	kind *kind // set by Mount
}

// Child is a kind whose rows belong to a parent, below which they are listed and created.
type Child[T any] struct {
	Kind[T]
	// Under is the collection below the parent, such as /backends/{parent}/servers. If Kind.Path is set, the rows live there, and
	// all of them can be listed and created there, too. Otherwise they live below their parent, and are not found below any
	// other.
	Under string
	// Column is the reference to the parent.
	Column string
	Parent string
}

// Extension is a kind that extends the rows of another table: each of these has at most one row, with the same id. Extensions are
// neither created nor deleted; reading returns the defaults until the first update stores a row. It has GET for the list of
// stored rows, and GET and PUT for each.
type Extension[T any] struct {
	Kind[T]
	// Of is the extended table.
	Of string
}

// User is a row that uses another one.
type User struct {
	Kind string    `json:"kind" doc:"Name of the kind, for example firewall.rule."`
	ID   uuid.UUID `json:"id" doc:"Which row."`
	Name string    `json:"name" doc:"Its name."`
}

// InUse returns the error for a delete of something that others use, and names them; nil if there are none.
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
