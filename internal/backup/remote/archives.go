package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

// Listing lists the archives at a target.
type Listing struct {
	Archives []Archive `json:"archives" doc:"Archives of this gateway and of others, the newest first."`
	Error    string    `json:"error" doc:"Why the target cannot be asked; empty when it can."`
}

type Archive struct {
	File       string    `json:"file" doc:"What it is called there."`
	Name       string    `json:"name" doc:"What its gateway calls it."`
	Host       string    `json:"host" doc:"Host name of the gateway that wrote it."`
	Own        bool      `json:"own" doc:"Whether that was this gateway."`
	Size       int64     `json:"size" doc:"How long it is, in bytes."`
	ModifiedAt time.Time `json:"modified_at" doc:"When it was written, by the target's clock."`
}

type idInput struct {
	ID uuid.UUID `path:"id" doc:"Id of the target."`
}

func (r *Room) mountArchives() {
	httpd.Handle(r.Router, http.MethodGet, "/backup-remotes/{id}/archives", httpd.AdminRead,
		httpd.Doc{ID: "backup.remote.archives", Tag: "backup", Summary: "List the archives at an off-site target"},
		func(c *httpd.Call, in idInput) (Listing, error) {
			ctx, cancel := context.WithTimeout(c, r.bounds.look)
			defer cancel()
			list, err := r.List(ctx, in.ID)
			if f, ok := errors.AsType[*failure](err); ok {
				return Listing{Error: f.sentence}, nil
			}
			return Listing{Archives: list}, err
		})
}

// Wanted selects an archive at a target.
type Wanted struct {
	File string `json:"file" required:"true" maxLength:"255" doc:"What it is called there, as the list of archives says."`
}

func (r *Room) mountFetch() {
	httpd.Handle(r.Router, http.MethodPost, "/backup-remotes/{id}/fetch", httpd.Write.Here(),
		httpd.Doc{ID: "backup.remote.fetch", Tag: "backup", Summary: "Copy an archive from an off-site target to the gateway, to restore it", Audit: "backup.remote.fetch", Creates: backup.Path},
		func(c *httpd.Call, in struct {
			ID   uuid.UUID `path:"id" doc:"Id of the target."`
			Body Wanted
		}) (b backup.Backup, err error) {
			if !fileForm.MatchString(in.Body.File) {
				return b, fault.Field("file", "must be the file name of an archive, as the list of archives says")
			}
			v, err := r.remotes.Get(c, r.DB, in.ID)
			if err != nil {
				return b, err
			}
			// It may take longer than the caller waits.
			ctx := context.WithoutCancel(c)
			err = r.Audit.Do(c, "backup.remote.fetch", v.Label(), func() (any, error) {
				b, err = pass(ctx, func(ctx context.Context, to io.Writer) error {
					_, _, err := r.fetch(ctx, v, in.Body.File, to, maxArchive)
					return err
				}, r.deps.Adopt)
				return map[string]any{"file": in.Body.File, "backup": b.ID}, err
			})
			return b, err
		})
}

// pass streams an archive from a target to its receiver.
func pass(ctx context.Context, fetch func(ctx context.Context, to io.Writer) error, take func(context.Context, io.Reader) (backup.Backup, error)) (backup.Backup, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := io.Pipe()
	lost := make(chan error, 1)
	go func() {
		err := fetch(ctx, to)
		_ = to.CloseWithError(err)
		lost <- err
	}()
	b, err := take(ctx, from)
	_ = from.CloseWithError(context.Canceled)
	why := <-lost
	if _, ok := errors.AsType[*UnknownKey](why); ok {
		return b, why
	}
	if f, ok := errors.AsType[*failure](why); ok && err != nil {
		return b, fault.New(fault.Unavailable, "The archive was not copied: %s.", f.sentence)
	}
	return b, err
}

// maxArchive is larger than any gateway's archive; the disk sets the real limit.
const maxArchive = 1 << 40

// List returns the archives of this gateway and of others at a target, newest first. It ignores other files.
func (r *Room) List(ctx context.Context, id uuid.UUID) ([]Archive, error) {
	v, err := r.remotes.Get(ctx, r.DB, id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.bounds.ask)
	defer cancel()
	t, err := r.connect(ctx, v, maxAnswer)
	if err != nil {
		return nil, explain(err)
	}
	defer t.close()
	return archives(ctx, t, r.mine)
}

// archives returns the files whose names are those of archives.
func archives(ctx context.Context, t target, mine func(name string) bool) ([]Archive, error) {
	entries, err := t.list(ctx, anyGateway)
	if err != nil {
		return nil, explain(err)
	}
	slices.SortFunc(entries, newestFirst)
	list := []Archive{}
	for _, e := range entries {
		if m := fileForm.FindStringSubmatch(e.name); m != nil && e.size >= 0 {
			list = append(list, Archive{File: e.name, Name: m[3], Host: m[1], Own: mine(e.name), Size: e.size, ModifiedAt: e.modified})
		}
	}
	return list, nil
}

// Fetch copies one archive, by its name in List, and returns its size and its SHA-256. It accepts at most that many bytes.
func (r *Room) Fetch(ctx context.Context, id uuid.UUID, file string, to io.Writer, most int64) (size int64, sum string, err error) {
	if !fileForm.MatchString(file) {
		return 0, "", fault.New(fault.NotFound, "The archive does not exist.")
	}
	v, err := r.remotes.Get(ctx, r.DB, id)
	if err != nil {
		return 0, "", err
	}
	return r.fetch(ctx, v, file, to, most)
}

func (r *Room) fetch(ctx context.Context, v *Remote, file string, to io.Writer, most int64) (size int64, sum string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The time limit can only be set once the size is known.
	patience := time.AfterFunc(r.bounds.ask, cancel)
	defer patience.Stop()
	t, err := r.connect(ctx, v, 0)
	if err != nil {
		return 0, "", explain(err)
	}
	defer t.close()
	return fetch(ctx, t, file, to, most, func(size int64) { patience.Reset(r.bounds.within(size)) })
}

// local is a writer whose errors are distinguished from the target's.
type local struct {
	io.Writer
	err error
}

func (l *local) Write(b []byte) (n int, err error) {
	n, l.err = l.Writer.Write(b)
	return n, l.err
}

func fetch(ctx context.Context, t target, file string, to io.Writer, most int64, begins func(size int64)) (size int64, sum string, err error) {
	from, size, err := t.get(ctx, file)
	if err != nil {
		return 0, "", explain(err)
	}
	defer from.Close()
	if size > most {
		return 0, "", failed(true, "the archive has %d bytes, which is more than the %d that fit", size, most)
	}
	begins(size)
	h, here := sha256.New(), &local{Writer: to}
	// Read one byte more than announced, to notice excess data. The large buffer lets SFTP request all of it at once.
	n, err := io.CopyBuffer(io.MultiWriter(here, h), io.LimitReader(from, size+1), make([]byte, 1<<20))
	switch {
	case here.err != nil:
		return n, "", here.err
	case err != nil:
		return n, "", explain(err)
	case n != size:
		return n, "", failed(false, "the archive is not as long as the target said")
	}
	return n, hex.EncodeToString(h.Sum(nil)), nil
}
