package app

import (
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/control"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/hosttest"
	"edge.internal/gateway/internal/kit/host/machine/backups"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/setup"
)

// slowly is an empty archive that takes a while to read.
type slowly struct{ leave chan struct{} }

func (s slowly) Read([]byte) (int, error) {
	<-s.leave
	return 0, io.EOF
}

// obstacle keeps a backup from beginning.
type obstacle struct {
	name, reason string
	busy         func(t *testing.T) (free func())
}

// heldReading wraps PostgreSQL's programs so that reading a dump waits: it closes entered, and begins when leave is closed.
type heldReading struct {
	host.Backups
	entered, leave chan struct{}
}

func (h heldReading) ReadDump(ctx context.Context, dump, into *os.File) error {
	close(h.entered)
	<-h.leave
	return h.Backups.ReadDump(ctx, dump, into)
}

// slowObstacles returns those that take seconds to set up.
func slowObstacles(b *kittest.Bench) []obstacle {
	programs := backups.New(home.Home{}, nil, dbtest.Address(b.DB), nil)
	return []obstacle{
		{"a proof", "The proof of a backup is running.", func(t *testing.T) func() {
			made, err := control.Ask[backup.Backup](t.Context(), b.Paths, http.MethodPost, "/backups", nil)
			if err != nil {
				t.Fatal(err)
			}
			entered, leave := make(chan struct{}), make(chan struct{})
			b.Machine.LendPostgreSQL(heldReading{programs, entered, leave})
			return held(t, b, programs, "/backups/"+made.ID.String()+"/verify", entered, leave)
		}},
		{"settings that are locked", "", func(t *testing.T) func() {
			locked, leave, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				if err := b.DB.Write(t.Context(), func(tx *db.Tx) error {
					if _, err := tx.Exec(t.Context(), "LOCK TABLE backup_settings"); err != nil {
						return err
					}
					close(locked)
					<-leave
					return nil
				}); err != nil {
					t.Error(err)
				}
			}()
			<-locked
			return func() {
				close(leave)
				<-ended
			}
		}},
	}
}

// held posts a request whose programs have been set up to wait, and returns when they do. release lets them continue.
func held(t *testing.T, b *kittest.Bench, programs host.Backups, path string, entered <-chan struct{}, leave chan<- struct{}) (release func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := control.Ask[backup.Backup](t.Context(), b.Paths, http.MethodPost, path, nil); err != nil {
			t.Error(err)
		}
	}()
	<-entered
	return func() {
		close(leave)
		<-ended
		b.Machine.LendPostgreSQL(programs)
	}
}

// obstacles returns all other obstacles.
func obstacles(b *kittest.Bench) []obstacle {
	programs := backups.New(home.Home{}, nil, dbtest.Address(b.DB), nil)
	b.Machine.LendPostgreSQL(programs)
	return []obstacle{
		{"another backup", "A backup is running.", func(t *testing.T) func() {
			entered, leave := make(chan struct{}), make(chan struct{})
			b.Machine.LendPostgreSQL(hosttest.HeldDump{Backups: programs, Entered: entered, Leave: leave})
			return held(t, b, programs, "/backups", entered, leave)
		}},
		{"an upload", "The upload of a backup is running.", func(t *testing.T) func() {
			archive, ended := slowly{make(chan struct{})}, make(chan struct{})
			files := func() int {
				list, err := os.ReadDir(b.Paths.Backups(""))
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				return len(list)
			}
			before := files()
			go func() {
				defer close(ended)
				if _, err := control.Send[backup.Backup](t.Context(), b.Paths, time.Minute, http.MethodPost, "/backups/upload", "application/octet-stream", archive); err == nil {
					t.Error("an empty archive is taken")
				}
			}()
			waittest.Until(t, "the gateway writes what comes into a file", func() bool { return files() > before })
			return func() {
				close(archive.leave)
				<-ended
			}
		}},
		{"a restore", "A restore is running.", func(*testing.T) func() {
			b.Machine.SetJob(job.Restore, job.Record{ID: "1", State: job.Running})
			return func() { b.Machine.SetJob(job.Restore, nil) }
		}},
		{"an upgrade", "An upgrade is running.", func(*testing.T) func() {
			b.Machine.SetJob(job.Upgrade, job.Record{ID: "1", State: job.Running})
			return func() { b.Machine.SetJob(job.Upgrade, nil) }
		}},
		{"a passphrase of another master key", "stored with another master key", func(t *testing.T) func() {
			set := func(value any) {
				if err := b.DB.Write(t.Context(), func(tx *db.Tx) error {
					tx.Queue("UPDATE backup_settings SET passphrase = $1", value)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := control.Ask[backup.Settings](t.Context(), b.Paths, http.MethodPut, "/backup-settings", []byte(`{"passphrase": "correct horse battery"}`)); err != nil {
				t.Fatal(err)
			}
			var sealed []byte
			if err := b.DB.QueryRow(t.Context(), "SELECT passphrase FROM backup_settings").Scan(&sealed); err != nil {
				t.Fatal(err)
			}
			sealed[1] ^= 1 // the id of the key
			set(sealed)
			return func() { set(nil) }
		}},
		{"the API is down", "gateway-api does not answer", func(t *testing.T) func() {
			socket, aside := control.Socket(b.Paths), control.Socket(b.Paths)+".aside"
			if err := os.Rename(socket, aside); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := os.Rename(aside, socket); err != nil {
					t.Fatal(err)
				}
			}
		}},
	}
}

// A scheduled backup that cannot begin is reported and retried, whatever the reason: its error is of the kind that does not use
// up the day's run.
func TestScheduledBackupThatCannotBegin(t *testing.T) {
	b := kittest.New(t)
	store := serve(t, b)
	const none = "nothing"
	for _, x := range slices.Concat(obstacles(b), slowObstacles(b), []obstacle{{name: none, busy: func(*testing.T) func() { return func() {} }}}) {
		t.Run(x.name, func(t *testing.T) {
			free := x.busy(t)
			err := scheduledBackup(t.Context(), b.Kit, store)
			message, found := reported(t, b)
			free()
			if x.name == none {
				if err != nil || found {
					t.Fatalf("%v, reported: %s", err, message)
				}
				return
			}
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.From(err).Message, x.reason) {
				t.Errorf("%v", err)
			}
			if !found || !strings.Contains(message, x.reason) {
				t.Errorf("reported: %v, %q", found, message)
			}
			if err := scheduledBackup(t.Context(), b.Kit, store); err != nil {
				t.Error(err)
			}
			if message, found := reported(t, b); found {
				t.Errorf("it is still reported after a good backup: %s", message)
			}
		})
	}
	if err := store.Update(func(s *setup.State) error { s.Completed = false; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := scheduledBackup(t.Context(), b.Kit, store); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	if message, found := reported(t, b); found {
		t.Errorf("there is nothing to back up before setup: %s", message)
	}
}

// For each reason, sixteen days on each of which the backup cannot begin: each day it is reported once, however often it is
// tried, and the next retry is always soon.
func TestEveryDayWithoutABackupIsReported(t *testing.T) {
	b := kittest.New(t)
	store := serve(t, b)
	now := clock.NewFake(time.Now())
	k := *b.Kit
	k.Clock, k.Alarms = now, alarm.New(b.DB, now)
	raised := func() (n int) {
		t.Helper()
		if err := b.DB.QueryRow(t.Context(), "SELECT count(*) FROM alarm_events WHERE kind = $1 AND resolves IS NULL", backup.Failed.Name).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, x := range obstacles(b) {
		before := raised()
		for day := range 16 {
			free := x.busy(t)
			for try := range 3 {
				// the scheduler retries within a minute
				if err := scheduledBackup(t.Context(), &k, store); !fault.Is(err, fault.Unavailable) {
					t.Errorf("day %d, try %d, %s: %v", day, try, x.name, err)
				}
				now.Move(time.Minute)
			}
			if n := raised() - before; n != day+1 {
				t.Fatalf("day %d, %s: told %d times", day, x.name, n)
			}
			free()
			now.Move(24 * time.Hour)
		}
	}
}

// reported returns the open alarm about the scheduled backup.
func reported(t *testing.T, b *kittest.Bench) (message string, found bool) {
	t.Helper()
	open, err := b.Alarms.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range open {
		if c.Kind == backup.Failed.Name {
			return c.Message, true
		}
	}
	return "", false
}
