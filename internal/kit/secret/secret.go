// Package secret keeps secrets: sealed with AES-256-GCM at rest, and never printed, logged or encoded.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"
)

const (
	keySize = 32
	idSize  = 8
	// overhead is what sealing adds: the key's id, the nonce and the tag.
	overhead = idSize + 12 + 16
)

// Mask is what a client may send back in place of a secret that it did not change.
const Mask = "***SET***"

// ErrOtherKey says that a secret was sealed with another master key: it must be entered again.
var ErrOtherKey = errors.New("sealed under another master key")

// Box seals and opens secrets with the master key. A node that joins a cluster adopts the cluster's key while its programs run.
type Box struct {
	path string // of the key file; empty if there is none
	key  atomic.Pointer[master]
}

type master struct {
	plain [keySize]byte
	id    [idSize]byte
	aead  cipher.AEAD
}

// Make reads the master key file, and creates it (mode 0600) if it does not exist. Only gateway-api does so.
func Make(path string) (*Box, error) {
	if _, err := File(path, keySize); err != nil {
		return nil, fmt.Errorf("master key: %w", err)
	}
	return Open(path)
}

// Open reads the master key file. The error is fs.ErrNotExist until gateway-api has created it.
func Open(path string) (*Box, error) {
	key, err := read(path, keySize)
	if err != nil {
		return nil, fmt.Errorf("master key: %w", err)
	}
	b, err := NewBox(key)
	if err != nil {
		return nil, err
	}
	b.path = path
	return b, nil
}

func NewBox(key []byte) (*Box, error) {
	b := new(Box)
	return b, b.Adopt(key)
}

// Adopt replaces the key. What was sealed before can no longer be opened.
func (b *Box) Adopt(key []byte) error {
	if len(key) != keySize {
		return fmt.Errorf("a master key has %d bytes, and not %d", keySize, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	m := &master{plain: [keySize]byte(key)}
	if m.aead, err = cipher.NewGCM(block); err != nil {
		return err
	}
	sum := sha256.Sum256(append([]byte("gateway master key id\x00"), key...))
	copy(m.id[:], sum[:])
	b.key.Store(m)
	return nil
}

// Key returns the key itself, for a node that joins the cluster.
func (b *Box) Key() []byte { m := b.key.Load(); return m.plain[:] }

// KeyID identifies the key without revealing it.
func (b *Box) KeyID() string { return hex.EncodeToString(b.key.Load().id[:]) }

// keyOf returns the key that something was sealed with. If it is not the current one, another program may have replaced the key
// file.
func (b *Box) keyOf(id [idSize]byte) (*master, error) {
	if m := b.key.Load(); m.id == id {
		return m, nil
	}
	if b.path != "" {
		if key, err := read(b.path, keySize); err == nil {
			if err := b.Adopt(key); err != nil {
				return nil, err
			}
		}
	}
	if m := b.key.Load(); m.id == id {
		return m, nil
	}
	return nil, ErrOtherKey
}

// Seal encrypts a secret for one column of one row. It cannot be opened for any other.
func (b *Box) Seal(plain, table, column, row string) ([]byte, error) {
	m := b.key.Load()
	nonce := make([]byte, m.aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	sealed := append(m.id[:len(m.id):len(m.id)], nonce...)
	return m.aead.Seal(sealed, nonce, []byte(plain), place(table, column, row)), nil
}

// Open decrypts what Seal encrypted for the same place.
func (b *Box) Open(sealed []byte, table, column, row string) (string, error) {
	if len(sealed) < overhead {
		return "", errors.New("sealed secret is too short")
	}
	m, err := b.keyOf([idSize]byte(sealed))
	if err != nil {
		return "", err
	}
	head := idSize + m.aead.NonceSize()
	plain, err := m.aead.Open(nil, sealed[idSize:head], sealed[head:], place(table, column, row))
	if err != nil {
		return "", errors.New("sealed secret does not belong here or was changed")
	}
	return string(plain), nil
}

func place(table, column, row string) []byte {
	return []byte(strings.Join([]string{table, column, row}, "\x00"))
}

// Text is a secret field of a resource: write-only in JSON, sealed in the database.
type Text struct {
	plain  string
	sealed []byte
}

// New returns a secret that is not sealed yet.
func New(plain string) Text { return Text{plain: plain} }

// FromSealed returns a secret from its form in the database.
func FromSealed(b []byte) Text { return Text{sealed: b} }

// IsZero is always true, so that omitzero leaves the field out of every answer.
func (Text) IsZero() bool { return true }

func (t Text) Set() bool { return t.plain != "" || len(t.sealed) > 0 }

// Fresh returns the plain text if it was set in this request.
func (t Text) Fresh() (string, bool) { return t.plain, t.plain != "" }

// Sealed returns the form of the secret in the database.
func (t Text) Sealed(b *Box, table, column, row string) ([]byte, error) {
	if t.plain == "" {
		return t.sealed, nil
	}
	return b.Seal(t.plain, table, column, row)
}

// Open decrypts the secret.
func (t Text) Open(b *Box, table, column, row string) (string, error) {
	if t.plain != "" || len(t.sealed) == 0 {
		return t.plain, nil
	}
	return b.Open(t.sealed, table, column, row)
}

// Readable reports whether a secret was sealed with the current master key. An absent one is readable.
func (b *Box) Readable(t Text) bool {
	if t.plain != "" || len(t.sealed) < overhead {
		return true
	}
	_, err := b.keyOf([idSize]byte(t.sealed))
	return err == nil
}

// UnmarshalJSON sets a new secret; the mask keeps the stored one.
func (t *Text) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New("must be text")
	}
	if s != Mask {
		*t = Text{plain: s}
	}
	return nil
}

func (Text) MarshalJSON() ([]byte, error) { return []byte(`"` + Mask + `"`), nil }

func (Text) String() string       { return Mask }
func (Text) GoString() string     { return Mask }
func (Text) LogValue() slog.Value { return slog.StringValue(Mask) }
