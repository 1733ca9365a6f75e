// Package document defines the format of a license: its content, signature and text form.
package document

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
)

// MaxText is the maximum size of a license's text in bytes.
const MaxText = 16 << 10

// The lines around the text of a license.
const (
	Begin = "-----BEGIN GATEWAY LICENSE-----"
	End   = "-----END GATEWAY LICENSE-----"
)

// version is the version of the format. Fields may be added to it; a change of their meaning needs another version.
const version = 1

// domain is prepended to what is signed, so that a signature made for anything else is never one of a license.
const domain = "gateway-license-v1\n"

// columns is the length of the text's lines.
const columns = 64

type License struct {
	ID      string `json:"id"`
	Subject string `json:"subject"`
	Plan    string `json:"plan"`
	Limits  Limits `json:"limits"`
	// Features is empty in a license for all features.
	Features []string `json:"features"`
	// The license is valid from NotBefore to NotAfter, inclusive.
	NotBefore time.Time `json:"not_before"`
	NotAfter  time.Time `json:"not_after"`
}

// Limits are the limits of a license. Nil means unlimited.
type Limits struct {
	Nodes       *int `json:"nodes"`
	Domains     *int `json:"domains"`
	TunnelPeers *int `json:"tunnel_peers"`
}

var (
	idForm      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	featureForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
)

// Validate checks the content of a license, but not the signature.
func (l *License) Validate() error {
	switch {
	case !idForm.MatchString(l.ID):
		return errors.New("its id must have 1 to 64 letters, digits, dots, hyphens or underscores")
	case !printable(l.Subject):
		return errors.New("its subject must have 1 to 200 printable characters")
	case !printable(l.Plan):
		return errors.New("its plan must have 1 to 200 printable characters")
	case l.NotBefore.IsZero() || l.NotAfter.IsZero():
		return errors.New("it must say from when and until when it is valid")
	case l.NotAfter.Before(l.NotBefore):
		return errors.New("it must not end before it begins")
	case len(l.Features) > 64:
		return errors.New("it must name at most 64 features")
	}
	for _, limit := range []*int{l.Limits.Nodes, l.Limits.Domains, l.Limits.TunnelPeers} {
		if limit != nil && *limit < 0 {
			return errors.New("its limits must not be negative")
		}
	}
	for i, feature := range l.Features {
		if !featureForm.MatchString(feature) {
			return fmt.Errorf("the name of its feature %q must have 1 to 64 lower-case letters, digits or hyphens", feature)
		}
		if slices.Contains(l.Features[:i], feature) {
			return fmt.Errorf("it names the feature %q twice", feature)
		}
	}
	return nil
}

func printable(text string) bool {
	n := 0
	for _, r := range text {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return false
		}
		n++
	}
	return 0 < n && n <= 200 && strings.TrimSpace(text) == text
}

// Sealed is a license with its signature, as it is handed out.
type Sealed struct {
	content   []byte
	signature []byte
}

// form is the encoded document.
type form struct {
	Version int `json:"version"`
	License `json:",embed"`
}

// Sign validates and signs a license.
func Sign(l License, key ed25519.PrivateKey) (Sealed, error) {
	if err := l.Validate(); err != nil {
		return Sealed{}, err
	}
	l.NotBefore, l.NotAfter = l.NotBefore.UTC().Truncate(time.Second), l.NotAfter.UTC().Truncate(time.Second)
	content, err := json.Marshal(form{Version: version, License: l}, json.Deterministic(true))
	if err != nil {
		return Sealed{}, err
	}
	s := Sealed{content: content, signature: ed25519.Sign(key, slices.Concat([]byte(domain), content))}
	if len(s.Text()) > MaxText {
		return Sealed{}, fmt.Errorf("its text would have more than %d bytes", MaxText)
	}
	return s, nil
}

// Parse parses the text of a license. White space is ignored everywhere, because mail programs break and indent lines; there must be no
// other text around the license.
func Parse(text string) (Sealed, error) {
	if len(text) > MaxText {
		return Sealed{}, fmt.Errorf("it has more than %d bytes", MaxText)
	}
	rest, ok := strings.CutPrefix(squeeze(text), squeeze(Begin))
	if !ok {
		return Sealed{}, fmt.Errorf("it must begin with the line %s", Begin)
	}
	rest, ok = strings.CutSuffix(rest, squeeze(End))
	if !ok {
		return Sealed{}, fmt.Errorf("it must end with the line %s", End)
	}
	b, err := base64.StdEncoding.Strict().DecodeString(rest)
	if err != nil || len(b) <= ed25519.SignatureSize {
		return Sealed{}, errors.New("its text is incomplete or damaged: copy all of it again")
	}
	return Sealed{signature: b[:ed25519.SignatureSize], content: b[ed25519.SignatureSize:]}, nil
}

// Read reads the text of a license from a file, or from standard input for "-". It reads at most one byte more than the limit, whatever
// the file is.
func Read(path string, stdin io.Reader) (string, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, MaxText+1))
	return string(b), err
}

// squeeze removes white space and invisible characters added by editors and mail programs.
func squeeze(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '\ufeff' || r == '\u200b' {
			return -1
		}
		return r
	}, text)
}

// Text returns the license in its text form.
func (s Sealed) Text() string {
	encoded := base64.StdEncoding.EncodeToString(slices.Concat(s.signature, s.content))
	var b strings.Builder
	b.WriteString(Begin + "\n")
	for line := range slices.Chunk([]byte(encoded), columns) {
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteString(End + "\n")
	return b.String()
}

// ErrSignature means that a license was not signed with the issuer's private key.
var ErrSignature = errors.New("its signature is not the issuer's: it was changed, or issued for another product")

// Verify returns the content of a license if the owner of the public key has signed it.
func (s Sealed) Verify(public ed25519.PublicKey) (License, error) {
	if !ed25519.Verify(public, slices.Concat([]byte(domain), s.content), s.signature) {
		return License{}, ErrSignature
	}
	return s.Unverified()
}

// Unverified returns the content of a license without checking its signature.
func (s Sealed) Unverified() (License, error) {
	var f form
	// An unknown field is not a reason to refuse a license.
	if err := json.UnmarshalRead(bytes.NewReader(s.content), &f); err != nil {
		return License{}, errors.New("its contents cannot be read")
	}
	if f.Version != version {
		return License{}, fmt.Errorf("its format, version %d, is newer than this version of the gateway: upgrade first", f.Version)
	}
	if err := f.License.Validate(); err != nil {
		return License{}, err
	}
	return f.License, nil
}

// ParsePublicKey parses a public key: the base64 of its 32 bytes.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, errors.New("a public key is the base64 of 32 bytes")
	}
	return b, nil
}

func FormatPublicKey(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }
