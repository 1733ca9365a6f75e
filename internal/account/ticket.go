package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// newTicket makes a text that cannot be guessed, for somebody to hold, and the hash by which the database knows it. A
// plain hash is enough: 256 random bits are not found by trying.
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
