// Package recovery unpacks an archive: its files into a folder, and its database beside the gateway's own. It proves that a backup can be
// restored, and is the first half of a restore.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/backup/archive"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/child"
)

// OpenFile opens an archive. It does not follow a link.
func OpenFile(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("the archive is not a plain file")
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// headroom is the space that must stay free.
const headroom = 32 << 20

// Unpack verifies a whole archive, and writes its parts into a new folder. No part may be used unless it succeeds. If the disk is too
// small for what the manifest announces, it fails before the first byte.
func Unpack(ctx context.Context, path, passphrase, folder string) (m archive.Manifest, err error) {
	in, size, err := OpenFile(path)
	if err != nil {
		return m, err
	}
	defer in.Close()
	r, err := archive.Open(contextReader{ctx, in}, size, passphrase)
	if err != nil {
		return m, err
	}
	defer r.Close()
	if err := os.RemoveAll(folder); err != nil {
		return m, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return m, err
	}
	database, files := r.Manifest.Bytes()
	if err := room(folder, database+files+headroom); err != nil {
		return r.Manifest, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return m, err
	}
	defer root.Close()
	for {
		part, content, err := r.Next()
		if err == io.EOF { //nolint:errorlint // io.EOF is never wrapped; a wrapped one is a failure
			return r.Manifest, nil
		}
		if err == nil {
			err = write(root, part.Name, content)
		}
		if err != nil {
			return r.Manifest, err
		}
	}
}

func room(folder string, need int64) error {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return err
	}
	if free := int64(s.Bavail) * s.Frsize; free < need {
		return fmt.Errorf("there is not enough space: %d MiB are left, and unpacking takes %d MiB", free>>20, need>>20)
	}
	return nil
}

func write(root *os.Root, name string, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// contextReader fails when its context ends.
type contextReader struct {
	ctx context.Context
	in  io.Reader
}

func (r contextReader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.in.Read(b)
}

// ErrSchema refuses an archive whose schema is newer than this version's.
var ErrSchema = errors.New("a newer version of the gateway has made this backup: install that version first")

// CheckSchema refuses an archive whose database does not fit this version.
func CheckSchema(m archive.Manifest, migrations fs.FS) error {
	newest, has, err := db.Newest(migrations)
	switch {
	case err != nil:
		return err
	case m.Schema > newest:
		return fmt.Errorf("%w (version %s, schema %d; this one has %d)", ErrSchema, m.Version, m.Schema, newest)
	case !has(m.Schema):
		return fmt.Errorf("no version of the gateway has the schema %d", m.Schema)
	}
	return nil
}

// Load creates a database from the dump of an unpacked archive. Its schema is that of the archive's version; attaching it migrates it.
// Use Compare to check its content.
func Load(ctx context.Context, machine host.Backups, server *db.Server, name string, migrations fs.FS, m archive.Manifest, folder string) error {
	if err := CheckSchema(m, migrations); err != nil {
		return err
	}
	dump, err := os.Open(filepath.Join(folder, archive.Database))
	if err != nil {
		return err
	}
	defer dump.Close()
	if err := server.Create(ctx, name); err != nil {
		return fmt.Errorf("making a database beside the gateway's: %w", err)
	}
	rows, script, err := child.Pipe()
	if err != nil {
		return err
	}
	defer rows.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read := make(chan error, 1)
	go func() {
		err := machine.ReadDump(ctx, dump, script)
		read <- errors.Join(err, script.Close())
	}()
	var without []string
	for table, t := range m.Tables {
		if t.Rows == 0 {
			without = append(without, table)
		}
	}
	loaded := server.Load(ctx, name, migrations, m.Schema, without, rows)
	if loaded != nil {
		cancel()
		rows.Close()
	}
	// An interrupted reader has nothing to report.
	if err := <-read; err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("PostgreSQL cannot read the dump: %w", err)
	}
	return loaded
}

// Compare returns an error unless the content of a freshly loaded database matches the manifest.
func Compare(ctx context.Context, server *db.Server, name string, m archive.Manifest) error {
	found, err := server.Contents(ctx, name)
	if err != nil {
		return err
	}
	if differ := Differ(m.Tables, found); len(differ) > 0 {
		return fmt.Errorf("what was loaded is not what was backed up: %s", strings.Join(differ, ", "))
	}
	return nil
}

// Differ returns the tables whose content has changed since the backup.
func Differ(was map[string]archive.Table, now map[string]db.Content) []string {
	var names []string
	for name, t := range was {
		if c, ok := now[name]; !ok || c.Rows != t.Rows || c.Sum != t.Sum {
			names = append(names, name)
		}
	}
	for name := range now {
		if _, ok := was[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
