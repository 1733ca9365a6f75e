package host

import (
	"context"
	"os"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// BackupFolder is where backups are. It belongs to the gateway's user, and is no part of what a backup has.
const BackupFolder = "/var/lib/gateway-backups"

// BackupFile is where the archive of a backup is.
func BackupFile(id uuid.UUID) string { return BackupFolder + "/" + id.String() + ".archive" }

// RestoreHold keeps the gateway's programs from starting in the middle of a restore.
const RestoreHold = "/var/lib/gateway-restore/hold"

// Backups is what PostgreSQL's own programs do, and the restore of the gateway.
type Backups interface {
	// DumpDatabase writes a state of the gateway's database to a file, in PostgreSQL's custom format and not compressed, without the rows of
	// some tables.
	DumpDatabase(ctx context.Context, snapshot string, without []string, into *os.File) error
	// ReadDump writes the rows of a dump out as text. It needs no database.
	ReadDump(ctx context.Context, dump, into *os.File) error
}

var backupsVerbs = daemon.Verbs{
	"DumpDatabase": daemon.Local, "ReadDump": daemon.Local,
}
