package password

import (
	"context"
	"database/sql/driver"
	"fmt"
	"log/slog"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/secret"
)

type Hash string

func (Hash) String() string       { return secret.Mask }
func (Hash) GoString() string     { return secret.Mask }
func (Hash) LogValue() slog.Value { return slog.StringValue(secret.Mask) }

// Value returns the hash for the database. Without it the driver would store the mask that String returns.
func (h Hash) Value() (driver.Value, error) { return string(h), nil }

// Scan reads what Value stored.
func (h *Hash) Scan(src any) error {
	s, ok := src.(string)
	if !ok {
		return fmt.Errorf("cannot read %T as a hash", src)
	}
	*h = Hash(s)
	return nil
}

// Stored is the password field of a resource: write-only in JSON, a hash in the database. Prepare hashes a new password. Without
// Prepare it is stored as the empty hash, which matches nothing.
type Stored struct {
	hidden
	hash    Hash
	chosen  Chosen
	changed bool
	by      *Hasher
}

// Field returns the field of a new resource.
func (h *Hasher) Field() Stored { return Stored{by: h} }

func (s Stored) Set() bool { return s.hash != "" || s.chosen.Set() }

func (s Stored) Changed() bool { return s.changed }

func (s Stored) Hash() Hash { return s.hash }

// UnmarshalText sets a new password; the mask keeps the stored one.
func (s *Stored) UnmarshalText(b []byte) error {
	if string(b) == secret.Mask {
		return nil
	}
	var c Chosen
	if err := c.UnmarshalText(b); err != nil {
		return err
	}
	s.hash, s.chosen, s.changed = "", c, true
	return nil
}

func (s *Stored) Prepare(ctx context.Context) error {
	if !s.chosen.Set() {
		return nil
	}
	turn, err := s.by.Turn(ctx, Place{Lane: actor.From(ctx).Name, Known: true})
	if err != nil {
		return err
	}
	defer turn.End()
	s.hash, err = turn.Hash(s.chosen)
	s.chosen = Chosen{}
	return err
}

func (s Stored) Value() (driver.Value, error) { return s.hash.Value() }

func (s *Stored) Scan(src any) error { return s.hash.Scan(src) }
