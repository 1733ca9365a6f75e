package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/value"
)

// BackupFolder is where backups are. It belongs to the gateway's user, and is no part of what a backup has.
const BackupFolder = "/var/lib/gateway-backups"

// BackupFile is where the archive of a backup is.
func BackupFile(id uuid.UUID) string { return BackupFolder + "/" + id.String() + ".archive" }

// RestoreFolder is where root keeps what a restore needs. The gateway's user may read there.
const RestoreFolder = "/var/lib/gateway-restore"

// Files of the folder.
const (
	// RestoreWishFile is there from the wish for a restore until the restore has ended.
	RestoreWishFile = RestoreFolder + "/wish.json"
	// RestoreFile is the running or the last restore.
	RestoreFile = RestoreFolder + "/restore.json"
	// RestoreHold is there while the gateway's programs must not run, because only half of their data is in its place.
	RestoreHold = RestoreFolder + "/hold"
	// RestorePassphrase opens the archive of the wish. Root alone reads it.
	RestorePassphrase = RestoreFolder + "/passphrase"
)

// ErrRestoreRuns says that a restore has not ended yet.
var ErrRestoreRuns = errors.New("a restore is already running")

// Backups is what PostgreSQL's own programs do, and the restore of the gateway.
type Backups interface {
	// DumpDatabase writes a state of the gateway's database to a file, in PostgreSQL's custom format and not compressed, without the rows of
	// some tables.
	DumpDatabase(ctx context.Context, snapshot string, without []string, into *os.File) error
	// ReadDump writes the rows of a dump out as text. It needs no database.
	ReadDump(ctx context.Context, dump, into *os.File) error
	// BeginRestore has the gateway's data replaced by those of a backup, and does not wait for it. While a restore runs it is ErrRestoreRuns,
	// and while an upgrade does ErrUpgradeRuns; on a machine that has no such job it is ErrNotInstalled.
	BeginRestore(ctx context.Context, wish RestoreWish) error
	// LastRestore is the running restore or the last one; fs.ErrNotExist when there was none.
	LastRestore() (Restore, error)
}

// RestoreWish asks for a restore.
type RestoreWish struct {
	ID     string    `json:"id"`
	Backup string    `json:"backup"` // id of the backup
	At     time.Time `json:"at"`
	// Interfaces says how the links of the backup are called on this machine, where that is not the same.
	Interfaces map[string]string `json:"interfaces"`
	// Passphrase is kept in a file of its own.
	Passphrase string `json:"-" cbor:"passphrase"`
}

var idForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Check complains about a wish that no gateway makes.
func (w RestoreWish) Check() error {
	if !idForm.MatchString(w.Backup) {
		return fmt.Errorf("%.40q is not the id of a backup", w.Backup)
	}
	if len(w.Interfaces) > 256 {
		return errors.New("there are too many interfaces")
	}
	for was, now := range w.Interfaces {
		for _, name := range []string{was, now} {
			if _, err := value.Parse[value.IfName](name); err != nil {
				return fmt.Errorf("%.40q is not the name of an interface: %w", name, err)
			}
		}
	}
	return nil
}

// Restore is one restore of the gateway.
type Restore struct {
	ID      string    `json:"id"`
	Backup  string    `json:"backup"`
	State   JobState  `json:"state"`
	Reason  string    `json:"reason"` // why it did not succeed, in a sentence; empty when it did
	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	Steps   []JobStep `json:"steps"`
	// Host and MadeAt tell which machine was backed up, and when; empty until the archive was read.
	Host   string    `json:"host"`
	MadeAt time.Time `json:"made_at,omitzero"`
	// Warnings say what is to be done by hand after it.
	Warnings []string `json:"warnings"`
}
