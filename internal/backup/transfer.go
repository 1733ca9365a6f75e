package backup

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"reflect"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/backup/archive"
	"edge.internal/gateway/internal/kit/disk"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
)

const mimeType = "application/octet-stream"

func (r *Room) mountTransfer() {
	r.Router.Add(httpd.Route{
		Doc:    httpd.Doc{ID: "backup.download", Tag: "backup", Summary: "Download the archive of a backup. It contains secrets. An interrupted download can be resumed", Audit: "backup.download"},
		Method: http.MethodGet, Path: "/backups/{id}/download", Policy: httpd.AdminRead.Offline().BySession(), In: reflect.TypeFor[byID](), MIME: mimeType,
	}, func(c *httpd.Call) error {
		id, err := httpd.PathID(c.Request, "id")
		if err != nil {
			return err
		}
		return r.download(c, id)
	})
	r.Router.Add(httpd.Route{
		Doc:    httpd.Doc{ID: "backup.upload", Tag: "backup", Summary: "Upload an archive of this or another gateway, to restore it. A damaged archive is refused", Audit: "backup.upload", Creates: Path},
		Method: http.MethodPost, Path: "/backups/upload", Policy: httpd.Write.Offline().Here().BySession(), In: reflect.TypeFor[struct{}](), Out: &httpd.SchemaSource{Type: reflect.TypeFor[Backup]()}, Takes: mimeType,
	}, func(c *httpd.Call) error {
		b, err := r.upload(c)
		if err != nil {
			return err
		}
		return c.Reply(b)
	})
}

func (r *Room) download(c *httpd.Call, id uuid.UUID) error {
	b, err := r.complete(id)
	if err != nil {
		return err
	}
	f, err := os.Open(r.archiveAt(id))
	if err != nil {
		return err
	}
	defer f.Close()
	// A resumed download counts too: nothing leaves without an audit entry.
	if c.Request.Method != http.MethodHead {
		err := r.Audit.Do(c, "backup.download", b.File, func() (any, error) { return map[string]any{"host": b.Host, "sha256": b.SHA256}, nil })
		if err != nil {
			return err
		}
	}
	c.ReplyFile(mimeType, b.File, b.SHA256, *b.FinishedAt, f)
	return nil
}

func (r *Room) upload(c *httpd.Call) (b Backup, err error) {
	return r.uploaded(c, "backup.upload", r.Adopt)
}

// uploaded takes the archive from the request's body.
func (r *Room) uploaded(c *httpd.Call, action string, take func(context.Context, io.Reader) (Backup, error)) (b Backup, err error) {
	err = r.Audit.Do(c, action, "an archive", func() (any, error) {
		if b, err = take(c, c.Body()); err != nil {
			return nil, err
		}
		return map[string]any{"file": b.File, "host": b.Host, "sha256": b.SHA256}, nil
	})
	return b, err
}

// spare is the space that must stay free.
const spare = 64 << 20

// Adopt adds an archive from elsewhere to the backups. It refuses damaged archives and other files; the content of an encrypted one is
// only known once its passphrase is.
func (r *Room) Adopt(ctx context.Context, in io.Reader) (b Backup, err error) {
	return r.adopt(ctx, in, func() error { return nil })
}

func (r *Room) adopt(ctx context.Context, in io.Reader, prepare func() error) (b Backup, err error) {
	end, err := r.begin("The upload of a backup")
	if err != nil {
		return b, err
	}
	defer end()
	passphrase, err := r.passphrase(ctx, nil)
	if err != nil {
		return b, err
	}
	if err := prepare(); err != nil {
		return b, err
	}
	return r.Bring(in, passphrase)
}

// Bring is Adopt for a caller that has already reserved the room. It needs no database.
func (r *Room) Bring(in io.Reader, passphrase string) (b Backup, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return b, err
	}
	if err := os.MkdirAll(r.Paths.Backups(""), 0o700); err != nil {
		return b, err
	}
	out, err := os.CreateTemp(r.Paths.Backups(""), unfinished)
	if err != nil {
		return b, err
	}
	defer os.Remove(out.Name()) // unless it was renamed
	defer out.Close()
	whole, err := archive.Measure("", io.TeeReader(bounded(in, out), out))
	if err != nil {
		return b, arrival(err)
	}
	b = Backup{
		ID: id, CreatedAt: *r.now(), StartedAt: *r.now(), FinishedAt: r.now(), Status: success, Uploaded: true, Size: whole.Size, SHA256: whole.SHA256, RemoteUploads: []UploadResult{},
		File: "gateway-uploaded-" + r.now().Format("20060102T150405Z") + ".tar.zst.age",
	}
	if err := describe(&b, out, passphrase); err != nil {
		return b, err
	}
	if err := out.Sync(); err != nil {
		return b, err
	}
	if err := os.Rename(out.Name(), r.archiveAt(id)); err != nil {
		return b, err
	}
	if err := errors.Join(disk.Sync(r.Paths.Backups("")), r.save(&b)); err != nil {
		return b, errors.Join(err, os.Remove(r.archiveAt(id)))
	}
	return b, nil
}

// describe reads the manifest of an archive into its description.
func describe(b *Backup, f *os.File, passphrase string) error {
	begin := make([]byte, 64)
	if _, err := f.ReadAt(begin, 0); err != nil && err != io.EOF {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	b.Encrypted = archive.Encrypted(begin)
	m, err := archive.Verify(f, b.Size, passphrase)
	if errors.Is(err, archive.ErrPassphrase) {
		return nil
	}
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "%s", sentence(err))
	}
	b.Kind, b.Host, b.Version, b.SchemaVersion, b.KeyID, b.StartedAt = m.Kind, m.Host, m.Version, m.Schema, m.KeyID, m.CreatedAt
	b.DatabaseBytes, b.FilesBytes = m.Bytes()
	b.File = name(m.Host, m.CreatedAt, b.Encrypted)
	return nil
}

// bounded fails when the upload leaves too little space.
func bounded(in io.Reader, into *os.File) io.Reader {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(into.Fd()), &s); err != nil {
		return in
	}
	return &boundedReader{in: in, left: int64(s.Bavail)*s.Frsize - spare}
}

type boundedReader struct {
	in   io.Reader
	left int64
}

var errNoSpace = fault.New(fault.TooLarge, "There is not enough space on the gateway's disk for this archive.")

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errNoSpace
	}
	return n, err
}

// arrival explains why an archive did not arrive.
func arrival(err error) error {
	if errors.Is(err, errNoSpace) || errors.Is(err, unix.ENOSPC) {
		return errNoSpace
	}
	return fault.Wrap(fault.Invalid, err, "The archive was not received completely.")
}
