// Package archive defines the format of a backup: one file with a manifest, a dump of the database, and state files.
//
// It is a tar compressed with zstd, followed by the hash of everything before it in a frame that zstd skips. An encrypted archive wraps
// all of this in an age file. The manifest comes first and has the size and the hash of each part. A reader verifies everything in one
// pass and accepts only the parts in the manifest, in their order, whatever else the tar contains.
package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Format is the version of the format.
const Format = 1

// Parts with a fixed name.
const (
	manifestName = "manifest.json"
	// Database is the dump, in PostgreSQL's custom format, uncompressed.
	Database = "database.dump"
	// MasterKey is only in encrypted archives.
	MasterKey = "config/master.key"
)

// Folders of the other parts: State is below the gateway's state folder, Config below the machine's configuration.
const (
	State  = "state/"
	Config = "config/"
)

// PartLimit is the maximum size of a part other than the dump.
const PartLimit = 4 << 20

// manifestLimit is the maximum size of the manifest.
const manifestLimit = 1 << 20

// ratio limits how many times larger than the archive its content may be, unless the content is small. A dump of text compresses perhaps
// 20 times.
const (
	ratio      = 200
	ratioFloor = 64 << 20
)

// parts lists the files that an archive may carry besides the dump.
var parts = []string{
	State + "setup.json", State + "license.key", State + "license-cache.json", State + "jwt-secret", State + "radius.secret",
	Config + "node.conf", MasterKey,
}

// account matches the file of an ACME account.
var account = regexp.MustCompile(`^` + State + `acme/[A-Za-z0-9][A-Za-z0-9._-]{0,200}\.json$`)

// Known reports whether an archive may carry a part of this name.
func Known(name string) bool {
	return name == Database || slices.Contains(parts, name) || account.MatchString(name)
}

// Names returns the parts with a fixed name. Files of ACME accounts come in addition.
func Names() []string { return slices.Clone(parts) }

// Manifest describes the content of an archive.
type Manifest struct {
	Format    int       `json:"format"`
	Version   string    `json:"version"` // of the gateway
	Schema    int64     `json:"schema"`  // of the database
	Kind      string    `json:"kind"`
	Host      string    `json:"host"`
	CreatedAt time.Time `json:"created_at"`
	KeyID     string    `json:"key_id"` // names the master key that the secrets are sealed with
	// Interfaces lists the machine's interfaces that the configuration uses.
	Interfaces []string `json:"interfaces"`
	// Tables describes the content of each table in the dump.
	Tables map[string]Table `json:"tables"`
	Parts  []Part           `json:"parts"`
}

// Table describes the content of a table.
type Table struct {
	Rows int64 `json:"rows"`
	// Sum adds up a hash of each row, so it does not depend on their order.
	Sum string `json:"sum"`
}

// Part is one file of an archive.
type Part struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Bytes returns the size of the dump and the size of everything else.
func (m Manifest) Bytes() (database, files int64) {
	for _, p := range m.Parts {
		if p.Name == Database {
			database += p.Size
		} else {
			files += p.Size
		}
	}
	return database, files
}

// Has reports whether an archive carries a part.
func (m Manifest) Has(name string) bool {
	return slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Name == name })
}

// ErrDamaged is wrapped by every error about an archive that was changed since it was written, or never was an archive.
var ErrDamaged = errors.New("the archive is damaged")

// ErrPassphrase means that the passphrase is missing or wrong.
var ErrPassphrase = errors.New("the passphrase does not open the archive")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// parse reads a manifest, and refuses one that no gateway writes. size is the archive's size, or negative if unknown.
func parse(content []byte, size int64) (m Manifest, err error) {
	if err := json.Unmarshal(content, &m); err != nil {
		return m, damaged("its manifest cannot be read")
	}
	if m.Format != Format {
		return m, fmt.Errorf("the archive has the form %d, and this version of the gateway knows %d", m.Format, Format)
	}
	seen, total := map[string]bool{}, int64(0)
	for i, p := range m.Parts {
		switch {
		case !Known(p.Name):
			return m, damaged("it may not carry %.80q", p.Name)
		case seen[p.Name]:
			return m, damaged("it carries %s twice", p.Name)
		case (p.Name == Database) != (i == 0):
			return m, damaged("the dump of the database must come first")
		case p.Size < 0 || p.Name != Database && p.Size > PartLimit:
			return m, damaged("%s cannot have %d bytes", p.Name, p.Size)
		case !digestForm.MatchString(p.SHA256):
			return m, damaged("%s has no hash", p.Name)
		}
		seen[p.Name] = true
		if total += p.Size; total < 0 || size >= 0 && total > max(ratioFloor, ratio*size) {
			return m, damaged("it says that it unpacks to more than %d times its size", ratio)
		}
	}
	if !seen[Database] {
		return m, damaged("it carries no database")
	}
	return m, nil
}

// summing counts and hashes what is written to it.
type summing struct {
	n   int64
	sum interface {
		io.Writer
		Sum([]byte) []byte
	}
}

func newSumming() *summing { return &summing{sum: sha256.New()} }

func (s *summing) Write(b []byte) (int, error) {
	s.n += int64(len(b))
	return s.sum.Write(b)
}

func (s *summing) hex() string { return hex.EncodeToString(s.sum.Sum(nil)) }

// Measure reads a file to its end and describes it as a part.
func Measure(name string, r io.Reader) (Part, error) {
	s := newSumming()
	_, err := io.Copy(s, r)
	return Part{Name: name, Size: s.n, SHA256: s.hex()}, err
}

// StateFile returns the name of a part below the state folder, if it belongs there.
func StateFile(name string) (string, bool) { return strings.CutPrefix(name, State) }

// ConfigFile returns the name of a part below the configuration folder, if it belongs there.
func ConfigFile(name string) (string, bool) { return strings.CutPrefix(name, Config) }
