// Package backups dumps the database and reads dumps with PostgreSQL's own programs, and has PostgreSQL load its settings.
package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/jobs"
	"edge.internal/gateway/internal/kit/host/machine/program"
	"edge.internal/gateway/internal/kit/job"
)

type Backups struct {
	home     home.Home
	units    jobs.Starter
	database string
	user     *syscall.Credential
}

// New accepts nil units; then LoadDatabaseSettings fails.
func New(h home.Home, units jobs.Starter, database string, user *syscall.Credential) *Backups {
	return &Backups{h, units, database, user}
}

const (
	pgDump    = "/usr/bin/pg_dump"
	pgRestore = "/usr/bin/pg_restore"

	within = 30 * time.Minute
)

// snapshotForm is the form of the names that pg_export_snapshot returns.
var snapshotForm = regexp.MustCompile(`^[0-9A-F]+(?:-[0-9A-F]+)*$`)

// tableForm lets no wildcards through: pg_dump takes a table's name as a pattern.
var tableForm = regexp.MustCompile(`^[a-z][a-z_]*$`)

// DumpDatabase writes a snapshot of the database to a file, leaving out the rows of some tables.
func (b *Backups) DumpDatabase(ctx context.Context, snapshot string, without []string, into *os.File) error {
	if b.database == "" {
		return errors.New("this program does not know the gateway's database")
	}
	if !snapshotForm.MatchString(snapshot) {
		return fmt.Errorf("%.40q is not the name of a snapshot", snapshot)
	}
	address, env := program.WithoutPassword(b.database)
	// The archive that the dump becomes part of is compressed as a whole.
	argv := []string{
		pgDump, "--format=custom", "--compress=0", "--no-password", "--exclude-schema=gateway_cluster", "--no-subscriptions",
		"--snapshot=" + snapshot, "--dbname=" + address,
	}
	for _, table := range without {
		if !tableForm.MatchString(table) {
			return fmt.Errorf("%.40q is not the name of a table", table)
		}
		argv = append(argv, "--exclude-table-data=public."+table)
	}
	_, err := program.Run(ctx, program.Program{
		Argv: argv, Env: env, As: b.user, Out: into, Within: within,
	})
	return err
}

// contents matches the lines that pg_restore --list prints for a dump of the gateway's database: an entry's type, schema, names and
// owner.
var contents = regexp.MustCompile(strings.NewReplacer("NAME", `"?[a-z0-9_]+"?`, "OWNER", `[A-Za-z0-9_-]+`).Replace(
	`^[0-9]+; [0-9]+ [0-9]+ (?:` + strings.Join([]string{
		`(?:TABLE|TABLE DATA|INDEX|SEQUENCE|SEQUENCE SET|SEQUENCE OWNED BY|VIEW) public NAME OWNER`,
		`(?:CONSTRAINT|FK CONSTRAINT|CHECK CONSTRAINT|TRIGGER|DEFAULT) public NAME NAME OWNER`,
		`FUNCTION public NAME\([a-z0-9_ ,\[\]]*\) OWNER`,
		`(?:ACL|COMMENT) (?:public|-) (?:SCHEMA|TABLE|SEQUENCE|COLUMN|INDEX) NAME(?:\.NAME)? OWNER`,
		`(?:ACL|COMMENT) public FUNCTION NAME\([a-z0-9_ ,\[\]]*\) OWNER`,
		`SCHEMA - public OWNER`,
		`EVENT TRIGGER - gateway_subscription_stays OWNER`, `PUBLICATION - NAME OWNER`, `PUBLICATION TABLE public NAME NAME OWNER`,
	}, "|") + `)$`,
))

// checkContents refuses a dump that contains anything but the gateway's tables and data.
func (b *Backups) checkContents(ctx context.Context, dump *os.File) error {
	list, err := program.Run(ctx, program.Program{Argv: []string{pgRestore, "--list"}, As: b.user, In: dump, Within: within})
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != ';' && !contents.MatchString(line) {
			return fmt.Errorf("it has %.80q, which is not part of the gateway's database", line)
		}
	}
	_, err = dump.Seek(0, io.SeekStart)
	return err
}

// ReadDump has pg_restore write a dump's rows as text. It works on open files alone and connects to no database.
func (b *Backups) ReadDump(ctx context.Context, dump, into *os.File) error {
	if err := b.checkContents(ctx, dump); err != nil {
		return err
	}
	argv := []string{pgRestore, "--data-only", "--no-owner", "--no-privileges", "--file=-"}
	_, err := program.Run(ctx, program.Program{Argv: argv, As: b.user, In: dump, Out: into, Within: within})
	return err
}

// LoadDatabaseSettings starts the job that gives PostgreSQL the settings that the gateway needs.
func (b *Backups) LoadDatabaseSettings(ctx context.Context) error {
	if b.units == nil || b.home.Foreign {
		return fmt.Errorf("this machine has no unit that manages PostgreSQL: %w", host.ErrNotInstalled)
	}
	return b.units.Begin(ctx, job.Database)
}
