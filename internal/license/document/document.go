// Package document owns the form of a license: what it says, how it is signed and verified, and how it is written down.
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

// MaxText is how many bytes the text of a license may have.
const MaxText = 16 << 10

// The lines around the text of a license.
const (
	Begin = "-----BEGIN GATEWAY LICENSE-----"
	End   = "-----END GATEWAY LICENSE-----"
)

// version is that of the document's form. Fields may be added to it; a change of their meaning needs another version.
const version = 1

// domain is put before what is signed, so that no signature made for something else is one of a license.
const domain = "gateway-license-v1\n"

// columns is how long the lines of the text are.
const columns = 64

// License is what a license says.
type License struct {
	ID      string `json:"id"`
	Subject string `json:"subject"`
	Plan    string `json:"plan"`
	Limits  Limits `json:"limits"`
	// Features is empty in a license for all of them.
	Features []string `json:"features"`
	// The license is valid from NotBefore to NotAfter, both included.
	NotBefore time.Time `json:"not_before"`
	NotAfter  time.Time `json:"not_after"`
}

// Limits says how much the license is for. Nil is without a limit.
type Limits struct {
	Nodes       *int `json:"nodes"`
	Domains     *int `json:"domains"`
	TunnelPeers *int `json:"tunnel_peers"`
}

var (
	idForm      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	featureForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
)

// Validate says what is wrong with what a license says. It does not look at the signature.
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

// Sealed is a license as it is handed out: the document and its signature.
type Sealed struct {
	content   []byte
	signature []byte
}

// form is the document as it is encoded.
type form struct {
	Version int `json:"version"`
	License `json:",embed"`
}

// Sign seals a license.
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

// Parse reads the text of a license. White space is ignored wherever it is, because mail programs break and indent
// lines; there must be nothing else around the license.
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

// Read reads the text of a license from a file, or for "-" from the standard input: at most one byte more than it may
// have, whatever the file is.
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

// squeeze leaves white space out, and what editors and mail programs hide in a text.
func squeeze(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '\ufeff' || r == '\u200b' {
			return -1
		}
		return r
	}, text)
}

// Text is the license as people pass it on.
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

// ErrSignature says that a license was not signed with the private key that belongs to the public one.
var ErrSignature = errors.New("its signature is not the issuer's: it was changed, or issued for another product")

// Verify tells what a license says, if the owner of the public key has signed it.
func (s Sealed) Verify(public ed25519.PublicKey) (License, error) {
	if !ed25519.Verify(public, slices.Concat([]byte(domain), s.content), s.signature) {
		return License{}, ErrSignature
	}
	return s.Unverified()
}

// Unverified tells what a license says without a look at its signature.
func (s Sealed) Unverified() (License, error) {
	var f form
	// A field that this version does not know is not a reason to refuse a license.
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

// ParsePublicKey reads a public key: the base64 of its 32 bytes.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, errors.New("a public key is the base64 of 32 bytes")
	}
	return b, nil
}

// FormatPublicKey writes a public key as ParsePublicKey reads it.
func FormatPublicKey(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }
