package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// newTicket returns a secret text, and the hash to store. A plain hash is enough, because 256 random bits cannot be guessed.
func newTicket(prefix string) (plain string, hash []byte) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	plain = prefix + base64.RawURLEncoding.EncodeToString(b[:])
	return plain, hashTicket(plain)
}

func hashTicket(plain string) []byte {
	sum := sha256.Sum256([]byte(plain))
	return sum[:]
}
