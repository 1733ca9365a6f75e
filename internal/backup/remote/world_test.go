package remote_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/internal/backup/remote"
	"edge.internal/gateway/internal/kit/kittest"
)

// house is the room with its routes.
type house struct {
	*kittest.Bench
	room *remote.Room
	// adopted is the last archive from a target.
	adopted []byte
}

func (h *house) adopt(_ context.Context, in io.Reader) (b backup.Backup, err error) {
	if h.adopted, err = io.ReadAll(in); err != nil {
		return b, err
	}
	b.ID, b.Size = uuid.New(), int64(len(h.adopted))
	return b, nil
}

func newHouse(t *testing.T) *house {
	t.Helper()
	return mounted(t, kittest.New(t))
}

func mounted(t *testing.T, b *kittest.Bench) *house {
	t.Helper()
	h := &house{Bench: b}
	h.room = remote.New(b.Kit, remote.Deps{Adopt: h.adopt, Replace: h.adopt})
	h.room.Hurry()
	h.room.Mount()
	h.Start(t)
	return h
}

// row is a target as the API returns it.
type row struct {
	ID           string         `json:"id"`
	TargetURL    string         `json:"target_url"`
	Settings     map[string]any `json:"settings"`
	Active       bool           `json:"active"`
	Keep         int            `json:"keep"`
	LastUploadAt *time.Time     `json:"last_upload_at"`
	LastError    string         `json:"last_error"`
}

// add creates a target. Those of the tests are on loopback.
func (h *house) add(t *testing.T, kind string, settings map[string]any, more ...any) row {
	t.Helper()
	body := map[string]any{"kind": kind, "settings": settings, "allow_internal": true}
	for i := 0; i < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	var v row
	h.Do(t, "admin", http.MethodPost, "/backup-remotes", body).Want(t, http.StatusCreated).Into(t, &v)
	return v
}

func (h *house) get(t *testing.T, id string) (v row) {
	t.Helper()
	h.Get(t, "/backup-remotes/"+id).Want(t, http.StatusOK).Into(t, &v)
	return v
}

type test struct {
	OK    bool `json:"ok"`
	Steps []struct {
		Name  string `json:"name"`
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	} `json:"steps"`
}

// failure returns the error of the last step.
func (x test) failure() string { return x.Steps[len(x.Steps)-1].Error }

func (h *house) test(t *testing.T, id string) (x test) {
	t.Helper()
	h.Do(t, "admin", http.MethodPost, "/backup-remotes/"+id+"/test", nil).Want(t, http.StatusOK).Into(t, &x)
	if len(x.Steps) == 0 {
		t.Fatal("no steps")
	}
	return x
}

type listing struct {
	Archives []struct {
		File string `json:"file"`
		Name string `json:"name"`
		Host string `json:"host"`
		Own  bool   `json:"own"`
		Size int64  `json:"size"`
	} `json:"archives"`
	Error string `json:"error"`
}

func (h *house) archives(t *testing.T, id string) (l listing) {
	t.Helper()
	h.Get(t, "/backup-remotes/"+id+"/archives").Want(t, http.StatusOK).Into(t, &l)
	return l
}

// archive is a file to be sent.
type archive struct {
	path, sum string
	size      int64
}

func newArchive(t *testing.T, content []byte) archive {
	t.Helper()
	a := archive{path: filepath.Join(t.TempDir(), "archive"), size: int64(len(content))}
	if err := os.WriteFile(a.path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	a.sum = hex.EncodeToString(sum[:])
	return a
}

func (h *house) upload(t *testing.T, a archive, name string) []remote.Result {
	t.Helper()
	results, err := h.room.Upload(t.Context(), a.path, name, a.size, a.sum, func([]remote.Result) {})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// files returns the names in a folder, without the S3 server's own.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".sgwtmp" {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// alarms returns the targets with an open alarm.
func (h *house) alarms(t *testing.T) (ids []string) {
	t.Helper()
	open, err := h.Alarms.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range open {
		if c.Kind != remote.UploadFailed.Name || c.Message == "" {
			t.Errorf("%+v", c)
		}
		ids = append(ids, c.Key)
	}
	slices.Sort(ids)
	return ids
}
