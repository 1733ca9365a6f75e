package tunnel

import (
	"crypto/ecdh"
	"crypto/rand"
	"fmt"
	"reflect"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

func generate() (Key, error) {
	var raw [32]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return Key{}, fmt.Errorf("making a key: %w", err)
	}
	// Like wg genkey: set the bits that every private key of the curve has.
	raw[0] &= 248
	raw[31] = raw[31]&127 | 64
	return keyOf(raw), nil
}

func public(private Key) (Key, error) {
	raw := private.Bytes()
	k, err := ecdh.X25519().NewPrivateKey(raw[:])
	if err != nil {
		return Key{}, fmt.Errorf("reading a private key: %w", err)
	}
	return keyOf([32]byte(k.PublicKey().Bytes())), nil
}

// checkKey refuses an invalid new key without revealing it.
func checkKey(c *check.List, field string, s secret.Text) {
	plain, fresh := s.Fresh()
	if !fresh {
		return
	}
	if _, err := value.Parse[Key](plain); err != nil {
		c.Add(field, "%v", err)
	}
}

// fresh returns a newly entered key.
func fresh(field string, s secret.Text) (k Key, ok bool, err error) {
	plain, ok := s.Fresh()
	if !ok {
		return Key{}, false, nil
	}
	if k, err = value.Parse[Key](plain); err != nil {
		return Key{}, false, fault.Field(field, "%v", err)
	}
	return k, true, nil
}

// comesBack reports whether a private key belongs to a row that is being restored: nobody has entered it, and it is not the stored one.
func comesBack(key, stored secret.Text) bool {
	_, entered := key.Fresh()
	return key.Set() && !entered && !reflect.DeepEqual(key, stored)
}
