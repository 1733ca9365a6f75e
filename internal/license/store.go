package license

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/license/document"
)

type Status string

// The statuses. None of them disables a function of the gateway.
const (
	Active  Status = "active"
	Trial   Status = "trial"
	Expired Status = "expired"
	Invalid Status = "invalid"
)

// Standing is the status at a moment, with its reason.
type Standing struct {
	Status Status
	// Reason is a sentence for people.
	Reason string
	// Installed reports whether a key is stored.
	Installed bool
	// License is the content of the license; nil if none has a valid signature.
	License *document.License
	// CheckedAt is when the signature was verified.
	CheckedAt time.Time
}

// Store holds the license key and the result of its verification, each in a file, so that a backup has both. Only the key decides: a
// cache of another key is ignored, whatever a crash or a restored backup has left. Any program may ask for the standing; only gateway-api
// changes it.
type Store struct {
	keyPath, cachePath string
	public             ed25519.PublicKey
	clock              clock.Clock
	mu                 sync.Mutex
	found              finding
	file               fs.FileInfo // the key file that found is about; nil if it must be checked
}

// finding is the result of a verification, without what depends on the clock.
type finding struct {
	// KeySHA256 and PublicKey identify the verified key and the issuer's.
	KeySHA256 string    `json:"key_sha256"`
	PublicKey string    `json:"public_key"`
	CheckedAt time.Time `json:"checked_at"`
	// Problem is why the license is not accepted; empty if it is.
	Problem string            `json:"problem"`
	License *document.License `json:"license"`
}

// NewStore returns a store. Without a public key it accepts no license.
func NewStore(paths kit.Paths, public ed25519.PublicKey, c clock.Clock) *Store {
	return &Store{keyPath: paths.State("license.key"), cachePath: paths.State("license-cache.json"), public: public, clock: c}
}

// Accepts reports whether licenses can be verified here at all.
func (s *Store) Accepts() bool { return s.public != nil }

// View returns the present standing. It writes nothing.
func (s *Store) View() Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.judge()
}

// refresh verifies the stored key if it has changed.
func (s *Store) refresh() {
	file, err := os.Stat(s.keyPath)
	if err == nil && s.file != nil && os.SameFile(file, s.file) && file.ModTime().Equal(s.file.ModTime()) && file.Size() == s.file.Size() {
		return
	}
	s.look()
	if at, ok := s.cached(); ok {
		s.found.CheckedAt = at
	}
	s.file = nil
	if err == nil && s.found.KeySHA256 != "" {
		s.file = file
	}
}

// look verifies the stored key.
func (s *Store) look() {
	text, err := document.Read(s.keyPath, nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.found = finding{}
	case err != nil:
		s.found = finding{CheckedAt: s.clock.Now(), Problem: "its file cannot be read"}
	default:
		s.found = s.verify(text)
	}
}

func (s *Store) verify(text string) finding {
	sum := sha256.Sum256([]byte(text))
	f := finding{KeySHA256: hex.EncodeToString(sum[:]), PublicKey: document.FormatPublicKey(s.public), CheckedAt: s.clock.Now()}
	if !s.Accepts() {
		f.Problem = "this build of the gateway has no public key to verify licenses"
		return f
	}
	sealed, err := document.Parse(text)
	if err != nil {
		f.Problem = err.Error()
		return f
	}
	l, err := sealed.Verify(s.public)
	if err != nil {
		f.Problem = err.Error()
		return f
	}
	f.License = &l
	return f
}

const moment = "2 January 2006, 15:04 UTC"

// judge derives the standing from the finding and the clock.
func (s *Store) judge() Standing {
	f := s.found
	at := Standing{Installed: f != finding{}, License: f.License, CheckedAt: f.CheckedAt}
	if !at.Installed {
		at.Status, at.Reason = Trial, "No license is installed. All features work, without limits."
		if !s.Accepts() {
			at.Reason += " This build of the gateway has no public key to verify licenses, so it accepts none."
		}
		return at
	}
	now := s.clock.Now()
	switch at.Status, at.Reason = Active, ""; {
	case f.Problem != "":
		at.Status, at.Reason = Invalid, fmt.Sprintf("The stored license is not valid: %s.", f.Problem)
	case now.Before(f.License.NotBefore):
		at.Status = Invalid
		at.Reason = fmt.Sprintf("The license is valid from %s. The clock of the gateway says %s.", f.License.NotBefore.Format(moment), now.Format(moment))
	case now.After(f.License.NotAfter):
		at.Status, at.Reason = Expired, fmt.Sprintf("The license expired on %s.", f.License.NotAfter.Format(moment))
	default:
		at.Reason = fmt.Sprintf("The license is valid until %s.", f.License.NotAfter.Format(moment))
		return at
	}
	at.Reason += " Everything keeps working."
	return at
}

// Check returns the content of a license that may be stored now: it must be genuine and valid, so that an invalid license never replaces
// a valid one.
func (s *Store) Check(text string) (document.Sealed, document.License, error) {
	sealed, err := document.Parse(text)
	if err != nil {
		return sealed, document.License{}, err
	}
	l, err := sealed.Verify(s.public)
	now := s.clock.Now()
	switch {
	case err != nil:
		return sealed, l, err
	case now.Before(l.NotBefore):
		return sealed, l, fmt.Errorf("it is valid from %s: install it then, or correct the clock, which says %s", l.NotBefore.Format(moment), now.Format(moment))
	case now.After(l.NotAfter):
		return sealed, l, fmt.Errorf("it expired on %s", l.NotAfter.Format(moment))
	}
	return sealed, l, nil
}

// Set stores a license. The cache is written first: the license is installed at the moment when the key is in place, after everything
// that can fail.
func (s *Store) Set(sealed document.Sealed) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := sealed.Text()
	if err := s.save(s.verify(text)); err != nil {
		return err
	}
	if err := secret.Save(s.keyPath, []byte(text)); err != nil {
		return fmt.Errorf("writing the license key: %w", err)
	}
	s.refresh()
	return nil
}

// Clear removes the license. A leftover cache is removed at the next start.
func (s *Store) Clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := secret.Remove(s.keyPath); err != nil {
		return fmt.Errorf("removing the license key: %w", err)
	}
	s.refresh()
	_ = secret.Remove(s.cachePath)
	return nil
}

// Verify verifies the stored key again, and stores the result.
func (s *Store) Verify() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file = nil
	s.look()
	return s.save(s.found)
}

// Settle makes the cache match the stored key, at the start of the program that changes both.
func (s *Store) Settle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	if _, ok := s.cached(); ok {
		return nil
	}
	return s.save(s.found)
}

// cached returns when the key was verified according to the cache, if the cache is about the same key and issuer.
func (s *Store) cached() (at time.Time, ok bool) {
	b, err := os.ReadFile(s.cachePath)
	if err != nil || s.found.KeySHA256 == "" {
		return at, false
	}
	var f finding
	if err := json.Unmarshal(b, &f); err != nil {
		return at, false
	}
	return f.CheckedAt, f.KeySHA256 == s.found.KeySHA256 && f.PublicKey == s.found.PublicKey
}

// save writes the cache, or removes it without a license.
func (s *Store) save(f finding) error {
	if f == (finding{}) {
		if err := secret.Remove(s.cachePath); err != nil {
			return fmt.Errorf("removing the license cache: %w", err)
		}
		return nil
	}
	b, err := json.Marshal(f, jsontext.Multiline(true))
	if err != nil {
		return fmt.Errorf("encoding the license cache: %w", err)
	}
	if err := secret.Save(s.cachePath, append(b, '\n')); err != nil {
		return fmt.Errorf("writing the license cache: %w", err)
	}
	return nil
}
