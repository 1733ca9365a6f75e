// Package backups has PostgreSQL's own programs write the database to a file and read such a file, and PostgreSQL take its settings.
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

// Backups is PostgreSQL's programs on one machine.
type Backups struct {
	home     home.Home
	units    jobs.Starter
	database string
	user     *syscall.Credential
}

// New returns those of a machine. Without someone who starts units, the settings stay what they are.
func New(h home.Home, units jobs.Starter, database string, user *syscall.Credential) *Backups {
	return &Backups{h, units, database, user}
}

// PostgreSQL's programs, and how long they may take.
const (
	pgDump    = "/usr/bin/pg_dump"
	pgRestore = "/usr/bin/pg_restore"

	within = 30 * time.Minute
)

// snapshotForm is that of the name that PostgreSQL gives to a state.
var snapshotForm = regexp.MustCompile(`^[0-9A-F]+(?:-[0-9A-F]+)*$`)

// tableForm is that of the name of a table, which pg_dump takes for a pattern.
var tableForm = regexp.MustCompile(`^[a-z][a-z_]*$`)

// DumpDatabase has pg_dump write a state of the database down.
func (b *Backups) DumpDatabase(ctx context.Context, snapshot string, without []string, into *os.File) error {
	if b.database == "" {
		return errors.New("this program does not know the gateway's database")
	}
	if !snapshotForm.MatchString(snapshot) {
		return fmt.Errorf("%.40q is not the name of a state", snapshot)
	}
	address, env := program.WithoutPassword(b.database)
	// What it writes is compressed once, with all the rest.
	argv := []string{pgDump, "--format=custom", "--compress=0", "--no-password", "--exclude-schema=gateway_cluster", "--no-subscriptions", "--snapshot=" + snapshot, "--dbname=" + address}
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

// contents are the forms of the entries in the table of contents of a dump of the gateway's database, as pg_restore lists them: what it is, its
// schema, its names and its owner.
var contents = regexp.MustCompile(strings.NewReplacer("NAME", `"?[a-z0-9_]+"?`, "OWNER", `[A-Za-z0-9_-]+`).Replace(`^[0-9]+; [0-9]+ [0-9]+ (?:` + strings.Join([]string{
	`(?:TABLE|TABLE DATA|INDEX|SEQUENCE|SEQUENCE SET|SEQUENCE OWNED BY|VIEW) public NAME OWNER`,
	`(?:CONSTRAINT|FK CONSTRAINT|CHECK CONSTRAINT|TRIGGER|DEFAULT) public NAME NAME OWNER`,
	`FUNCTION public NAME\([a-z0-9_ ,\[\]]*\) OWNER`,
	`(?:ACL|COMMENT) (?:public|-) (?:SCHEMA|TABLE|SEQUENCE|COLUMN|INDEX) NAME(?:\.NAME)? OWNER`,
	`(?:ACL|COMMENT) public FUNCTION NAME\([a-z0-9_ ,\[\]]*\) OWNER`,
	`SCHEMA - public OWNER`,
	`EVENT TRIGGER - gateway_subscription_stays OWNER`, `PUBLICATION - NAME OWNER`, `PUBLICATION TABLE public NAME NAME OWNER`,
}, "|") + `)$`))

// checkContents refuses a dump that has anything but the gateway's data and their tables.
func (b *Backups) checkContents(ctx context.Context, dump *os.File) error {
	list, err := program.Run(ctx, program.Program{Argv: []string{pgRestore, "--list"}, As: b.user, In: dump, Within: within})
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != ';' && !contents.MatchString(line) {
			return fmt.Errorf("it has %.80q, which is no part of the gateway's database", line)
		}
	}
	_, err = dump.Seek(0, io.SeekStart)
	return err
}

// ReadDump has pg_restore write the rows out. It reads and writes open files, and reaches no database.
func (b *Backups) ReadDump(ctx context.Context, dump, into *os.File) error {
	if err := b.checkContents(ctx, dump); err != nil {
		return err
	}
	_, err := program.Run(ctx, program.Program{Argv: []string{pgRestore, "--data-only", "--no-owner", "--no-privileges", "--file=-"}, As: b.user, In: dump, Out: into, Within: within})
	return err
}

// LoadDatabaseSettings starts the job that gives PostgreSQL what the gateway needs.
func (b *Backups) LoadDatabaseSettings(ctx context.Context) error {
	if b.units == nil || b.home.Foreign {
		return fmt.Errorf("this machine has no unit that manages PostgreSQL: %w", host.ErrNotInstalled)
	}
	return b.units.Begin(ctx, job.Database)
}
