package host

import (
	"context"
	"os"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// BackupFolder holds the backups. It belongs to the gateway's user and is itself never backed up.
const BackupFolder = "/var/lib/gateway-backups"

// BackupFile returns the path of a backup's archive.
func BackupFile(id uuid.UUID) string { return BackupFolder + "/" + id.String() + ".archive" }

// RestoreHold is a file that, while it exists, keeps the gateway's programs from starting: a restore creates it.
const RestoreHold = "/var/lib/gateway-restore/hold"

// Backups runs PostgreSQL's own programs for backups.
type Backups interface {
	// DumpDatabase dumps the database as of a snapshot, uncompressed and in PostgreSQL's custom format. Of the tables in without it
	// leaves out the rows.
	DumpDatabase(ctx context.Context, snapshot string, without []string, into *os.File) error
	// ReadDump converts the rows of a dump to SQL text, without the schema. It needs no database.
	ReadDump(ctx context.Context, dump, into *os.File) error
}

var backupsVerbs = daemon.Verbs{
	"DumpDatabase": daemon.Local, "ReadDump": daemon.Local,
}
