// Package archive is the form of a backup: one file with a dump of the database, state files, and a manifest that comes first.
//
// It is a tar, compressed with zstd, and followed by the hash of everything before it, in a frame that zstd skips. One that is encrypted
// is all of that inside of a file of age. The manifest has the size and the hash of each part, so that a reader knows what comes before it
// comes, and one pass verifies all of it: nothing else than the parts of the manifest, in their order, is taken, whatever a tar may carry.
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

// Format is the number of this form.
const Format = 1

// The parts that have a name of their own.
const (
	manifestName = "manifest.json"
	// Database is the dump, in PostgreSQL's custom format and not compressed.
	Database = "database.dump"
	// MasterKey is only in encrypted archives.
	MasterKey = "config/master.key"
)

// The folders of the other parts: State is what is below the gateway's state folder, Config what is below the machine's configuration.
const (
	State  = "state/"
	Config = "config/"
)

// PartLimit is how long a part other than the dump may be.
const PartLimit = 4 << 20

// manifestLimit is how long the manifest may be.
const manifestLimit = 1 << 20

// ratio is how many times larger than the archive what it unpacks to may be, unless it is small anyway. A dump of text is perhaps twenty times.
const (
	ratio      = 200
	ratioFloor = 64 << 20
)

// parts are the files that an archive may carry besides the dump.
var parts = []string{
	State + "setup.json", State + "license.key", State + "license-cache.json", State + "jwt-secret", State + "radius.secret",
	Config + "node.conf", MasterKey,
}

// account is the name of a file of an ACME account.
var account = regexp.MustCompile(`^` + State + `acme/[A-Za-z0-9][A-Za-z0-9._-]{0,200}\.json$`)

// Known tells whether an archive may carry a part of this name.
func Known(name string) bool {
	return name == Database || slices.Contains(parts, name) || account.MatchString(name)
}

// Names are those of the state files that have a fixed name. Files of ACME accounts come on top.
func Names() []string { return slices.Clone(parts) }

// Manifest says what an archive is.
type Manifest struct {
	Format    int       `json:"format"`
	Version   string    `json:"version"` // of the gateway
	Schema    int64     `json:"schema"`  // of the database
	Kind      string    `json:"kind"`
	Host      string    `json:"host"`
	CreatedAt time.Time `json:"created_at"`
	KeyID     string    `json:"key_id"` // names the master key that the secrets are sealed with
	// Interfaces are the links of the machine that the configuration speaks of.
	Interfaces []string `json:"interfaces"`
	// Tables are the tables of the dump, and what they hold.
	Tables map[string]Table `json:"tables"`
	Parts  []Part           `json:"parts"`
}

// Table is what a table holds.
type Table struct {
	Rows int64 `json:"rows"`
	// Sum is that of a hash of each row, so that it does not depend on their order.
	Sum string `json:"sum"`
}

// Part is one file of an archive.
type Part struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Bytes are those of the dump and of everything else.
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

// Has tells whether an archive carries a part.
func (m Manifest) Has(name string) bool {
	return slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Name == name })
}

// ErrDamaged is in the chain of every complaint about an archive that is not what it was when it was written, or never was one.
var ErrDamaged = errors.New("the archive is damaged")

// ErrPassphrase says that an archive is encrypted with another passphrase than the given one, or none was given.
var ErrPassphrase = errors.New("the passphrase does not open the archive")

// damaged says what is wrong with an archive.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// parse reads a manifest, and complains about one that no gateway writes. size is that of the archive; negative when it is not known.
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

// summing counts and hashes what passes.
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

// Measure makes the part of a file that is read to its end.
func Measure(name string, r io.Reader) (Part, error) {
	s := newSumming()
	_, err := io.Copy(s, r)
	return Part{Name: name, Size: s.n, SHA256: s.hex()}, err
}

// StateFile is the name of a part in the state folder, if it is one that belongs there.
func StateFile(name string) (string, bool) { return strings.CutPrefix(name, State) }

// ConfigFile is the name of a part in the configuration's folder, if it is one that belongs there.
func ConfigFile(name string) (string, bool) { return strings.CutPrefix(name, Config) }
