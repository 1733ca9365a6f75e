package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// SealedPrefix begins a secret in a configuration document.
const SealedPrefix = "sealed:"

// ErrElsewhere says that a secret of a document belongs to another place, or was changed.
var ErrElsewhere = errors.New("sealed for another place")

// forDocuments returns the derived keys for secrets in documents.
func (m *master) forDocuments() (aead cipher.AEAD, nonces []byte, err error) {
	derive := func(purpose string) []byte {
		h := hmac.New(sha256.New, m.plain[:])
		h.Write([]byte(purpose))
		return h.Sum(nil)
	}
	block, err := aes.NewCipher(derive("gateway document secrets"))
	if err != nil {
		return nil, nil, err
	}
	aead, err = cipher.NewGCM(block)
	return aead, derive("gateway document nonces"), err
}

// Write seals a secret for one place of a configuration document. The result is deterministic, so that two documents of the same
// configuration are equal; the nonce is derived from the secret and the place.
func (b *Box) Write(plain string, at ...string) (string, error) {
	m := b.key.Load()
	aead, nonces, err := m.forDocuments()
	if err != nil {
		return "", err
	}
	where := []byte(strings.Join(at, "\x00"))
	h := hmac.New(sha256.New, nonces)
	h.Write(where)
	h.Write([]byte{0})
	h.Write([]byte(plain))
	nonce := h.Sum(nil)[:aead.NonceSize()]
	sealed := aead.Seal(append(m.id[:len(m.id):len(m.id)], nonce...), nonce, []byte(plain), where)
	return SealedPrefix + base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Read decrypts what Write has sealed for the same place.
func (b *Box) Read(text string, at ...string) (string, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, SealedPrefix))
	if err != nil || len(sealed) < overhead {
		return "", ErrElsewhere
	}
	m, err := b.keyOf([idSize]byte(sealed))
	if err != nil {
		return "", err
	}
	aead, _, err := m.forDocuments()
	if err != nil {
		return "", err
	}
	head := idSize + aead.NonceSize()
	plain, err := aead.Open(nil, sealed[idSize:head], sealed[head:], []byte(strings.Join(at, "\x00")))
	if err != nil {
		return "", ErrElsewhere
	}
	return string(plain), nil
}

// Show encodes a value with secrets inside as JSON, replacing each secret that is set by the result of show.
func Show(v any, show func(m Masked) (string, error)) ([]byte, error) {
	masked := json.MarshalToFunc(func(e *jsontext.Encoder, m Masked) error {
		if !m.Set() {
			return e.WriteToken(jsontext.String(""))
		}
		text, err := show(m)
		if err != nil {
			return err
		}
		return e.WriteToken(jsontext.String(text))
	})
	return json.Marshal(v, json.WithMarshalers(masked), json.Deterministic(true))
}
