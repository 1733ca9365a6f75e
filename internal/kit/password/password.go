// Package password owns what a password must be, how it is kept, and the queue that keeps hashing from starving the rest.
package password

import (
	"errors"
	"fmt"
	"log/slog"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"edge.internal/gateway/internal/kit/secret"
)

// The policy for new passwords. What is longer than MaxBytes, bcrypt would not look at.
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

// hidden keeps what embeds it out of answers, logs and messages.
type hidden struct{}

// IsZero is always true, so that omitzero leaves the field out of every answer.
func (hidden) IsZero() bool { return true }

// MarshalText never tells.
func (hidden) MarshalText() ([]byte, error) { return []byte(secret.Mask), nil }

func (hidden) String() string       { return secret.Mask }
func (hidden) GoString() string     { return secret.Mask }
func (hidden) LogValue() slog.Value { return slog.StringValue(secret.Mask) }

// Schema documents the field as a string that is only written.
func (hidden) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, WriteOnly: true}
}

// Typed is a password that somebody typed to prove who they are. The policy does not matter for it.
type Typed struct {
	hidden
	plain string
}

// Type makes a typed password.
func Type(plain string) Typed { return Typed{plain: plain} }

// Reveal is what was typed, for another node that knows the password.
func (t Typed) Reveal() string { return t.plain }

// Set tells whether something was typed.
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

// Choose makes a new password; the error is a sentence for the person who chose it.
func Choose(plain string) (Chosen, error) {
	if err := check(plain); err != nil {
		return Chosen{}, err
	}
	return Chosen{plain: plain}, nil
}

// Set tells whether there is a password.
func (c Chosen) Set() bool { return c.plain != "" }

// UnmarshalText takes a password that follows the policy.
func (c *Chosen) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		return errors.New("is required")
	}
	*c, err = Choose(string(b))
	return err
}
