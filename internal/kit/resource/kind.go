// Package resource gives a kind of row its REST verbs, audit entries, documentation and effect on the machine, all from
// one declaration.
package resource

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
)

// Meta is what every resource has. Embed it first.
type Meta struct {
	ID        uuid.UUID `json:"id" readOnly:"true" doc:"Id, made by the service."`
	CreatedAt time.Time `json:"created_at" readOnly:"true" doc:"When it was created."`
	UpdatedAt time.Time `json:"updated_at" readOnly:"true" doc:"When it was last changed."`
}

func (m *Meta) meta() *Meta { return m }

// Labeled is a resource that people know by a name; the audit log uses it.
type Labeled interface{ Label() string }

// Kind is a kind of row with the five verbs. T embeds Meta; its JSON names are its column names.
type Kind[T any] struct {
	// Name is the kind's name in change sets and audit actions, such as ntp.pool.
	Name string
	// Title is what people call one of them, such as "NTP source".
	Title string
	// Path is where the collection lives.
	Path string
	// Table holds the rows; it carries the room's name.
	Table string
	// Order is the SQL order of lists; the id comes last by itself.
	Order string
	// Feeds are the components that depend on the rows.
	Feeds []apply.ID
	// Local rows belong to this node alone: they are neither replicated nor part of the configuration hash.
	Local bool
	// AdminOnly rows are secret to viewers.
	AdminOnly bool

	// New makes a row with its defaults.
	New func() T
	// Check looks at a change in its transaction: references, builtins, guards. was is nil for a new row, now is nil for
	// a delete. It may complete now.
	Check func(ctx context.Context, tx *db.Tx, was, now *T) error
	// View completes or masks a row before it is shown, from the row alone: lists are kept as long as the rows are the
	// same.
	View func(v *T)

	single  bool // it has one row, which nobody makes or deletes
	codec   codec
	listing *atomic.Pointer[listing]
}

// Singleton is a kind with exactly one row, which a migration makes. It has GET and PUT.
type Singleton[T any] struct {
	Name, Title, Path, Table string
	Feeds                    []apply.ID
	Local                    bool
	AdminOnly                bool
	Check                    func(ctx context.Context, tx *db.Tx, was, now *T) error
	View                     func(v *T)

	kind Kind[T]
}

// Child is a kind whose rows belong to a parent. Lists and creates go through the parent's path.
type Child[T any] struct {
	Kind[T]
	// Under is the collection below the parent, such as /backends/{parent}/servers. Without Kind.Path the rows live there
	// too, and one that is addressed through another parent is not found.
	Under string
	// Column refers to the parent's id.
	Column string
	// Parent is the parent's table.
	Parent string
}

func (k *Kind[T]) fresh() *T {
	v := new(T)
	if k.New != nil {
		*v = k.New()
	}
	return v
}

func metaOf[T any](v *T) *Meta {
	return any(v).(interface{ meta() *Meta }).meta()
}

func labelOf[T any](v *T) string {
	if l, ok := any(v).(Labeled); ok {
		return l.Label()
	}
	return metaOf(v).ID.String()
}
