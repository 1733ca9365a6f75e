// Package password has the policy for passwords, their storage, and the queue that keeps hashing from starving everything else.
package password

import (
	"errors"
	"fmt"
	"log/slog"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"edge.internal/gateway/internal/kit/secret"
)

// The policy for new passwords. bcrypt ignores what exceeds MaxBytes.
const (
	MinCharacters = 12
	MaxBytes      = 72
)

func check(plain string) error {
	switch {
	case utf8.RuneCountInString(plain) < MinCharacters:
		return fmt.Errorf("must have at least %d characters", MinCharacters)
	case len(plain) > MaxBytes:
		return fmt.Errorf("must have at most %d bytes", MaxBytes)
	}
	return nil
}

// hidden keeps a type that embeds it out of answers, logs and messages.
type hidden struct{}

// IsZero is always true, so that omitzero leaves the field out of every answer.
func (hidden) IsZero() bool { return true }

func (hidden) MarshalText() ([]byte, error) { return []byte(secret.Mask), nil }

func (hidden) String() string       { return secret.Mask }
func (hidden) GoString() string     { return secret.Mask }
func (hidden) LogValue() slog.Value { return slog.StringValue(secret.Mask) }

// Schema documents the field as a write-only string.
func (hidden) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, WriteOnly: true}
}

// Typed is a password that someone entered to log in. The policy does not apply to it.
type Typed struct {
	hidden
	plain string
}

func Type(plain string) Typed { return Typed{plain: plain} }

// Reveal returns what was typed, for another node that knows the password.
func (t Typed) Reveal() string { return t.plain }

func (t Typed) Set() bool { return t.plain != "" }

func (t *Typed) UnmarshalText(b []byte) error {
	t.plain = string(b)
	return nil
}

// Chosen is a new password that follows the policy.
type Chosen struct {
	hidden
	plain string
}

// Choose returns a new password; the error is a sentence for the person who chose it.
func Choose(plain string) (Chosen, error) {
	if err := check(plain); err != nil {
		return Chosen{}, err
	}
	return Chosen{plain: plain}, nil
}

func (c Chosen) Set() bool { return c.plain != "" }

// UnmarshalText accepts a password that follows the policy.
func (c *Chosen) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		return errors.New("is required")
	}
	*c, err = Choose(string(b))
	return err
}
