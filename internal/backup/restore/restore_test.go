package restore

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/backup/archive"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/hosttest"
	"edge.internal/gateway/internal/kit/job"
)

// bench is a runner whose database role is not a superuser, as on a real gateway. No API answers there.
type bench struct {
	*Runner
	super string // connects as the superuser
}

func newBench(t *testing.T) *bench {
	t.Helper()
	super := dbtest.EmptyURL(t)
	u, err := url.Parse(super)
	if err != nil {
		t.Fatal(err)
	}
	role := "owner_" + strings.ToLower(rand.Text())
	b := &bench{super: super}
	conn := b.session(t, strings.TrimPrefix(u.Path, "/"))
	for _, sql := range []string{"CREATE ROLE " + role + " LOGIN CREATEDB", "ALTER DATABASE " + strings.TrimPrefix(u.Path, "/") + " OWNER TO " + role} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	conn.Close(t.Context())
	u.User = url.User(role)
	d, err := db.Open(u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	h := home.Home{Root: t.TempDir()}
	folder, err := job.OpenFolder(h.Root, job.Restore, -1)
	if err != nil {
		t.Fatal(err)
	}
	b.Runner = &Runner{
		Folder: folder, Archive: func(id uuid.UUID) string { return h.Path(host.BackupFile(id)) }, Log: slog.New(slog.DiscardHandler), Units: hosttest.New(), Server: d.Server(),
		Files:   Files{State: filepath.Join(h.Root, "state"), Config: filepath.Join(h.Root, "config"), UID: -1, GID: -1},
		Service: job.Service{Control: filepath.Join(h.Root, "none")},
		Waiting: job.Waiting{Patience: time.Millisecond, Silence: time.Millisecond, Every: time.Millisecond},
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Server.Drop(context.Background(), b.next()), b.Server.Drop(context.Background(), b.former())); err != nil {
			t.Error(err)
		}
	})
	return b
}

// session opens a superuser's session in a database.
func (b *bench) session(t *testing.T, database string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(b.super)
	if err != nil {
		t.Fatal(err)
	}
	config.Database = database
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (b *bench) create(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := b.Server.Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *bench) exists(t *testing.T, name string, want bool) {
	t.Helper()
	if is, err := b.Server.Exists(t.Context(), name); err != nil || is != want {
		t.Fatalf("%s is there: %t, %v", name, is, err)
	}
}

// wanted runs another restore, of a backup that does not exist, and returns why it was refused.
func (b *bench) wanted(t *testing.T) string {
	t.Helper()
	wish := Wish{Wish: job.Wish{ID: uuid.NewString(), At: time.Now()}, Backup: uuid.NewString()}
	if err := b.Folder.Save(job.Restore.WishFile(), wish); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rec Record
	if err := b.Folder.Load(job.Restore.RecordFile(), &rec); err != nil || rec.ID != wish.ID || rec.State != job.Refused {
		t.Fatalf("%+v, %v", rec, err)
	}
	return rec.Reason
}

// Restored signing secrets are not used, and warnings from the database are reported.
func TestCheckLeavesTheSigningSecretOut(t *testing.T) {
	b := newBench(t)
	kept, signing := filepath.Join(b.Folder.Path(unpacked), "state", "setup.json"), filepath.Join(b.Folder.Path(unpacked), "state", "jwt-secret")
	for _, file := range []string{kept, signing} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	b.KeyID = func() (string, error) { return "", nil }
	b.Adapt = func(context.Context, string, string, string, map[string]string) ([]string, error) {
		return []string{"Bob is back."}, nil
	}
	b.Try = func(context.Context, string, string, string) (map[string]string, error) { return nil, nil }
	rec := &Record{}
	for range 2 { // it may be interrupted
		if err := b.check(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(rec.Warnings, []string{"Bob is back."}) {
		t.Errorf("%q", rec.Warnings)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(signing); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the secret that signs sessions comes back", err)
	}
}

// A database that the last restore could not drop is dropped by the next one. If that fails, the restore is refused before anything live
// is touched.
func TestWhatALastRestoreLeftIsDroppedFirst(t *testing.T) {
	b := newBench(t)
	b.create(t, b.former())
	conn := b.session(t, b.former())
	if why := b.wanted(t); !strings.Contains(why, b.former()+" is left from another restore and cannot be dropped. End the sessions in it") {
		t.Error(why)
	}
	b.exists(t, b.former(), true)
	conn.Close(t.Context())
	if why := b.wanted(t); strings.Contains(why, b.former()) {
		t.Error(why)
	}
	b.exists(t, b.former(), false)
}

// Only people delete the data from before a restore that got stuck.
func TestWhatAStuckRestoreLeftStays(t *testing.T) {
	b := newBench(t)
	b.create(t, b.former())
	stuck := Record{Restore: Restore{Record: job.Record{ID: uuid.NewString(), State: job.Stuck}}}
	if err := b.Folder.Save(job.Restore.RecordFile(), stuck); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if why := b.wanted(t); !strings.Contains(why, b.former()+" is left from a restore that got stuck") {
			t.Error(why)
		}
		b.exists(t, b.former(), true)
	}
	if err := b.Server.Drop(t.Context(), b.former()); err != nil {
		t.Fatal(err)
	}
	if why := b.wanted(t); strings.Contains(why, b.former()) {
		t.Error(why)
	}
	// It no longer belongs to the stuck restore.
	b.create(t, b.former())
	if why := b.wanted(t); strings.Contains(why, b.former()) {
		t.Error(why)
	}
	b.exists(t, b.former(), false)
}

// The files are put back, whatever the databases are called.
func TestFilesArePutBack(t *testing.T) {
	for name, x := range map[string]struct {
		databases func(b *bench) []string
		failed    string
	}{
		"the database was not replaced":               {func(b *bench) []string { return []string{b.next()} }, ""},
		"another restore has left a database":         {func(b *bench) []string { return []string{b.next(), b.former()} }, ""},
		"the database from before is there no longer": {func(*bench) []string { return nil }, "the database cannot be put back"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.create(t, x.databases(b)...)
			file := filepath.Join(b.Files.State, "jwt-secret")
			write := func(content string) {
				t.Helper()
				if err := errors.Join(os.MkdirAll(b.Files.State, 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			write("from before")
			if err := b.Files.keep(b.Folder.Path(kept)); err != nil {
				t.Fatal(err)
			}
			write("of the backup")
			rec := &Record{Restore: Restore{Record: job.Record{ID: uuid.NewString(), State: job.Running, Step: stepSwap}}, Kept: true}
			if err := b.goBack(t.Context(), rec); err == nil {
				t.Fatal("no API answers here")
			}
			if content, err := os.ReadFile(file); err != nil || string(content) != "from before" {
				t.Errorf("%s, %v", content, err)
			}
			step := rec.Steps[0]
			if step.Name != stepReturn || (step.State == job.StepFailed) != (x.failed != "") || !strings.Contains(step.Error, x.failed) {
				t.Errorf("%+v", step)
			}
		})
	}
}

// A link that the gateway's user puts in the place of a file is not followed, neither out of the folder nor within it.
func TestLinksAreNotRead(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := Files{State: t.TempDir(), Config: t.TempDir(), UID: -1, GID: -1}
	plain, link := "", ""
	for _, name := range archive.Names() {
		rest, ok := strings.CutPrefix(name, archive.State)
		switch {
		case !ok || strings.Contains(rest, "/"):
		case plain == "":
			plain = name
		case link == "":
			link = name
		}
	}
	at := func(part string) string { return filepath.Join(f.State, strings.TrimPrefix(part, archive.State)) }
	if err := os.WriteFile(at(plain), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{outside, filepath.Base(at(plain))} {
		if err := errors.Join(os.RemoveAll(at(link)), os.Symlink(target, at(link))); err != nil {
			t.Fatal(err)
		}
		if content, err := f.read(link); err == nil {
			t.Errorf("a link to %s is read: %q", target, content)
		}
	}
	if err := errors.Join(os.Remove(at(link)), syscall.Mkfifo(at(link), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.read(link); err == nil {
		t.Error("a pipe is read")
	}
	// A folder of accounts that is a link is treated as empty.
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(f.State, "acme")); err != nil {
		t.Fatal(err)
	}
	present, err := f.present()
	if err != nil || len(present) != 1 || !present[plain] {
		t.Errorf("%v, %v", present, err)
	}
	aside := filepath.Join(t.TempDir(), "aside")
	if err := f.keep(aside); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(aside, plain)); string(content) != "mine" {
		t.Errorf("%q, %v", content, err)
	}
}
