package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/internal/backup/archive"
	"edge.internal/gateway/internal/backup/restore"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/hosttest"
	"edge.internal/gateway/internal/kit/host/machine/backups"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/schema"
)

// bench is a room on a real database, with PostgreSQL's real programs.
type bench struct {
	*kittest.Bench
	room *backup.Room
	// problems is what a trial finds, and tried lists the databases that were tried.
	problems map[string]string
	tried    []string
	// uploading is called while an archive is sent.
	uploading func()
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Bench: kittest.New(t)}
	b.Machine.LendPostgreSQL(backups.New(home.Home{}, nil, dbtest.Address(b.DB), nil))
	deps := backup.Deps{
		Server: b.DB.Server(), Migrations: schema.Migrations, Keep: func() int { return 14 },
		Links: func(context.Context, db.Querier) ([]string, error) { return []string{"wan0", "lan0"}, nil },
		Try: func(ctx context.Context, database, _ string, _ *secret.Box) (map[string]string, error) {
			d, err := b.DB.Beside(database)
			if err != nil {
				return nil, err
			}
			defer d.Close()
			b.tried = append(b.tried, database)
			return b.problems, d.Attach(ctx, schema.Migrations)
		},
		Uploads: b,
	}
	b.room = backup.New(b.Kit, deps)
	b.room.Mount()
	b.Start(t)
	for name, content := range map[string]string{"setup.json": `{"completed":true}`, "jwt-secret": "canary", "acme/acme-v02.json": "{}", "unrelated": "x"} {
		path := b.Paths.State(name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(b.Paths.Config(""), 0o700), os.WriteFile(b.Paths.Config("node.conf"), []byte("ROLE=standalone\n"), 0o600), os.WriteFile(b.Paths.Config("master.key"), bytes.Repeat([]byte{7}, 32), 0o600)); err != nil {
		t.Fatal(err)
	}
	return b
}

var target = uuid.MustParse("00000000-0000-7000-8000-0000000000aa")

func (b *bench) UploadAll(_ context.Context, a backup.Archive, report func([]backup.UploadResult)) []backup.UploadResult {
	if b.uploading != nil {
		report([]backup.UploadResult{{RemoteID: target, Target: "sftp://backup.example.net", Status: "running", Sent: 1}})
		b.uploading()
	}
	info, err := os.Stat(a.Path)
	if err != nil || info.Size() != a.Size {
		return []backup.UploadResult{{RemoteID: target, Status: "failed", Error: "not finished"}}
	}
	return []backup.UploadResult{{RemoteID: target, Target: "sftp://backup.example.net", Status: "success"}}
}

func (b *bench) make(t *testing.T, body any) backup.Backup {
	t.Helper()
	var made backup.Backup
	b.Do(t, "admin", http.MethodPost, "/backups", body).Want(t, 201).Into(t, &made)
	return made
}

func (b *bench) download(t *testing.T, role, id string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, httpd.Prefix+"/backups/"+id+"/download", nil)
	req.Header.Set("Authorization", "Bearer "+role)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.Handler().ServeHTTP(w, req)
	return w
}

func (b *bench) upload(t *testing.T, role string, content []byte) *httptest.ResponseRecorder {
	t.Helper()
	return b.uploadAt(t, "/backups/upload", role, bytes.NewReader(content))
}

func (b *bench) uploadAt(t *testing.T, path, role string, content io.Reader) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(http.MethodPost, httpd.Prefix+path, content)
	req.Header.Set("Authorization", "Bearer "+role)
	req.Header.Set("Content-Type", "application/octet-stream")
	w := httptest.NewRecorder()
	b.Handler().ServeHTTP(w, req)
	return w
}

// folder lists the files of the backups.
func (b *bench) folder(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(b.Paths.Backups(""))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// BK01: the description matches the archive and its manifest; the newest comes first; deleting removes both.
func TestBK01Backup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.make(t, nil)
	if first.Status != "success" || first.Kind != "manual" || first.Error != "" || first.FinishedAt == nil || first.Encrypted || first.KeyID != b.Secrets.KeyID() {
		t.Fatalf("%+v", first)
	}
	w := b.download(t, "admin", first.ID.String())
	sum := sha256.Sum256(w.Body.Bytes())
	if w.Code != 200 || int64(w.Body.Len()) != first.Size || hex.EncodeToString(sum[:]) != first.SHA256 || !strings.Contains(w.Header().Get("Content-Disposition"), first.File) {
		t.Fatalf("%d, %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
	m, err := archive.Verify(bytes.NewReader(w.Body.Bytes()), first.Size, "")
	if err != nil {
		t.Fatal(err)
	}
	database, files := m.Bytes()
	if m.Version != b.Version || m.Kind != "manual" || m.Host != "gateway" || m.KeyID != first.KeyID || m.Schema != first.SchemaVersion || database != first.DatabaseBytes || files != first.FilesBytes || !slices.Equal(m.Interfaces, []string{"lan0", "wan0"}) {
		t.Errorf("%+v", m)
	}
	var names []string
	for _, p := range m.Parts {
		names = append(names, p.Name)
	}
	if want := []string{"database.dump", "state/setup.json", "state/jwt-secret", "config/node.conf", "state/acme/acme-v02.json"}; !slices.Equal(names, want) {
		t.Errorf("%q instead of %q", names, want)
	}
	if got := m.Tables["ntp_pools"].Rows; int(got) != b.Rows(t, "ntp_pools") {
		t.Errorf("%d pools", got)
	}
	if len(first.RemoteUploads) != 1 || first.RemoteUploads[0].Status != "success" {
		t.Errorf("%+v", first.RemoteUploads)
	}
	second := b.make(t, map[string]string{})
	var list []backup.Backup
	b.Get(t, "/backups").Want(t, 200).Into(t, &list)
	if len(list) != 2 || list[0].ID != second.ID || list[1].ID != first.ID {
		t.Fatalf("%+v", list)
	}
	var one backup.Backup
	b.Get(t, "/backups/"+first.ID.String()).Want(t, 200).Into(t, &one)
	if one.SHA256 != first.SHA256 {
		t.Errorf("%+v", one)
	}
	b.Do(t, "admin", http.MethodDelete, "/backups/"+first.ID.String(), nil).Want(t, 200)
	b.Get(t, "/backups/"+first.ID.String()).Want(t, 404)
	if left := b.folder(t); len(left) != 2 || !strings.HasPrefix(left[0], second.ID.String()) {
		t.Errorf("%q", left)
	}
	if b.Audited(t, "backup.create") != 2 || b.Audited(t, "backup.delete") != 1 {
		t.Error("not audited")
	}
}

// While an archive is sent, everyone sees its progress at each target.
func TestUploadsAreFollowed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var seen []backup.Backup
	b.uploading = func() { b.Do(t, "viewer", http.MethodGet, "/backups", nil).Want(t, 200).Into(t, &seen) }
	b.make(t, nil)
	if len(seen) != 1 || seen[0].Phase != "upload" || len(seen[0].RemoteUploads) != 1 || seen[0].RemoteUploads[0].Status != "running" || seen[0].RemoteUploads[0].Sent != 1 || seen[0].RemoteUploads[0].FinishedAt != nil {
		t.Errorf("%+v", seen)
	}
	b.Get(t, "/backups").Want(t, 200).Into(t, &seen)
	if seen[0].Phase != "" || seen[0].RemoteUploads[0].Status != "success" {
		t.Errorf("%+v", seen)
	}
}

func TestDownload(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made := b.make(t, nil)
	whole := b.download(t, "admin", made.ID.String()).Body.Bytes()
	part := b.download(t, "admin", made.ID.String(), "Range", "bytes=100-", "If-Range", `"`+made.SHA256+`"`)
	if part.Code != 206 || !bytes.Equal(part.Body.Bytes(), whole[100:]) {
		t.Errorf("%d, %d bytes", part.Code, part.Body.Len())
	}
	if w := b.download(t, "viewer", made.ID.String()); w.Code != 403 || bytes.Contains(w.Body.Bytes(), []byte("canary")) {
		t.Errorf("%d", w.Code)
	}
	for _, role := range []string{"viewer", ""} {
		want := map[string]int{"viewer": 403, "": 401}[role]
		for path, method := range map[string]string{"": "POST", "/" + made.ID.String(): "DELETE", "/" + made.ID.String() + "/verify": "POST", "/" + made.ID.String() + "/restore": "POST", "/" + made.ID.String() + "/restore-plan": "POST"} {
			b.Do(t, role, method, "/backups"+path, nil).Want(t, want)
		}
	}
}

// BK02: an id is an id.
func TestBK02Ids(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"..%2f..%2fetc%2fpasswd", "%00", "x", "..%2Fmaster.key", uuid.NewString(), strings.ToUpper(uuid.NewString())} {
		for path, method := range map[string]string{"": "GET", "/": "DELETE", "/download": "GET", "/verify": "POST", "/restore": "POST", "/restore-plan": "POST"} {
			w := httptest.NewRecorder()
			req := httptest.NewRequest(method, httpd.Prefix+"/backups/"+id+strings.TrimSuffix(path, "/"), nil)
			req.Header.Set("Authorization", "Bearer admin")
			b.Handler().ServeHTTP(w, req)
			if w.Code < 400 || w.Code > 499 {
				t.Errorf("%s %s%s: %d", method, id, path, w.Code)
			}
		}
	}
}

// Only one operation runs at a time; a second one is refused and learns what runs.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made := b.make(t, nil)
	entered, leave := make(chan struct{}), make(chan struct{})
	b.Machine.LendPostgreSQL(hosttest.HeldDump{Backups: backups.New(home.Home{}, nil, dbtest.Address(b.DB), nil), Entered: entered, Leave: leave})
	var done sync.WaitGroup
	done.Go(func() { b.make(t, nil) })
	<-entered
	for path, method := range map[string]string{"": "POST", "/" + made.ID.String() + "/verify": "POST", "/" + made.ID.String(): "DELETE", "/" + made.ID.String() + "/restore": "POST", "/scheduled": "POST"} {
		if a := b.Do(t, "admin", method, "/backups"+path, nil).Want(t, 409); !strings.Contains(a.Error.Message, "A backup is running") {
			t.Errorf("%s: %s", path, a.Error.Message)
		}
	}
	var list []backup.Backup
	b.Do(t, "viewer", http.MethodGet, "/backups", nil).Want(t, 200).Into(t, &list)
	if len(list) != 2 || list[0].Status != "running" || list[0].Phase != "dump" {
		t.Errorf("%+v", list[0])
	}
	close(leave)
	done.Wait()
	b.Machine.SetJob(job.Restore, job.Record{ID: "1", State: job.Running})
	if a := b.Do(t, "admin", http.MethodPost, "/backups", nil).Want(t, 409); !strings.Contains(a.Error.Message, "A restore is running") {
		t.Error(a.Error.Message)
	}
}

// What a previous process left unfinished is marked as interrupted, and its files are removed.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made := b.make(t, nil)
	content, err := os.ReadFile(b.Paths.Backups(made.ID.String() + ".json"))
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.New()
	left := bytes.ReplaceAll(bytes.ReplaceAll(content, []byte(`"success"`), []byte(`"running"`)), []byte(made.ID.String()), []byte(id.String()))
	for name, content := range map[string][]byte{id.String() + ".json": left, ".unfinished-123": nil, uuid.NewString() + ".archive": nil, "." + id.String() + ".json1": nil} {
		if err := os.WriteFile(b.Paths.Backups(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { b.room.Run(ctx); close(ended) }()
	var one backup.Backup
	waittest.UntilNil(t, "what was interrupted has failed", func() error {
		if b.Get(t, "/backups/"+id.String()).Want(t, 200).Into(t, &one); one.Status != "failed" {
			return fmt.Errorf("%+v", one)
		}
		return nil
	})
	if one.Error != "It was interrupted." {
		t.Errorf("%+v", one)
	}
	waittest.UntilNil(t, "what is left of others is removed", func() error {
		if files := b.folder(t); len(files) != 3 {
			return fmt.Errorf("%q", files)
		}
		return nil
	})
	cancel()
	<-ended
	b.Get(t, "/backups/"+made.ID.String()).Want(t, 200).Into(t, &one)
	if one.Status != "success" {
		t.Errorf("%+v", one)
	}
}

// The newest successful backups are kept; uploaded ones do not count.
func TestPrune(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.make(t, nil)
	content := b.download(t, "admin", first.ID.String()).Body.Bytes()
	if w := b.upload(t, "admin", content); w.Code != 201 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	b.problems = map[string]string{"dns": "no"}
	b.Do(t, "admin", http.MethodPost, "/backups/"+first.ID.String()+"/verify", nil).Want(t, 200)
	b.wantOpen(t, 1)
	for range 15 {
		if got := b.make(t, nil); got.Status != "success" {
			t.Fatalf("%+v", got)
		}
	}
	b.wantOpen(t, 0)
	var list []backup.Backup
	b.Get(t, "/backups").Want(t, 200).Into(t, &list)
	uploaded := 0
	for _, x := range list {
		if x.Uploaded {
			uploaded++
		}
		if x.ID == first.ID {
			t.Error("the oldest is still there")
		}
	}
	if len(list) != 15 || uploaded != 1 || len(b.folder(t)) != 30 {
		t.Errorf("%d backups, %d uploaded, %d files", len(list), uploaded, len(b.folder(t)))
	}
}

// BK11: a full disk fails the backup, states the cause, and leaves nothing behind; a scheduled one raises an alarm.
func TestBK11FullDisk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	folder := b.Paths.Backups("")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=128k"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(folder, unix.MNT_DETACH)
	for path, status := range map[string]int{"/backups": 201, "/backups/scheduled": 200} {
		var made backup.Backup
		b.Do(t, "admin", http.MethodPost, path, nil).Want(t, status).Into(t, &made)
		if made.Status != "failed" || !strings.Contains(strings.ToLower(made.Error), "no space left") || made.FinishedAt == nil {
			t.Errorf("%+v", made)
		}
		b.Do(t, "admin", http.MethodPost, "/backups/"+made.ID.String()+"/verify", nil).Want(t, 409)
	}
	for _, name := range b.folder(t) {
		if !strings.HasSuffix(name, ".json") {
			t.Errorf("%s is left", name)
		}
	}
	if n := b.Rows(t, "alarm_events"); n != 1 {
		t.Errorf("%d alarms", n)
	}
	var list []backup.Backup
	b.Do(t, "viewer", http.MethodGet, "/backups", nil).Want(t, 200).Into(t, &list)
	if strings.Contains(list[0].Error, "space") {
		t.Error("a viewer reads the words of programs")
	}
}

// A backup is proven by loading it, comparing its rows, and asking the daemons; a failure is reported and raises an alarm.
func TestProof(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var made backup.Backup
	b.Do(t, "admin", http.MethodPost, "/backups/scheduled", nil).Want(t, 200).Into(t, &made)
	if p := made.Proof; made.Kind != "scheduled" || p == nil || p.Status != "proven" || p.Rows == 0 || p.Tables < 20 || p.FinishedAt == nil || p.Error != "" {
		t.Fatalf("%+v %+v", made, made.Proof)
	}
	if there, err := b.DB.Server().Exists(t.Context(), b.tried[0]); err != nil || there || b.tried[0] == b.DB.Server().Live() {
		t.Errorf("the database %s is left: %v", b.tried[0], err)
	}
	dbtest.Exec(t, b.DB, "UPDATE ntp_pools SET prefer = NOT prefer")
	b.Do(t, "admin", http.MethodPost, "/backups/"+made.ID.String()+"/verify", nil).Want(t, 200).Into(t, &made)
	if made.Proof.Status != "proven" || !slices.Contains(made.Proof.Changed, "ntp_pools") {
		t.Errorf("%+v", made.Proof)
	}
	b.problems = map[string]string{"dns": "no"}
	b.Do(t, "admin", http.MethodPost, "/backups/"+made.ID.String()+"/verify", nil).Want(t, 200).Into(t, &made)
	if made.Proof.Status != "failed" || !strings.Contains(made.Proof.Error, "dns: no") || b.Rows(t, "alarm_events") != 1 {
		t.Errorf("%+v", made.Proof)
	}
	b.problems = nil
	// Change one byte of the archive.
	path := b.Paths.Backups(made.ID.String() + ".archive")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	b.Do(t, "admin", http.MethodPost, "/backups/"+made.ID.String()+"/verify", nil).Want(t, 200).Into(t, &made)
	if made.Proof.Status != "failed" || !strings.Contains(made.Proof.Error, "damaged") {
		t.Errorf("%+v", made.Proof)
	}
	// BK05: it is not restored either.
	if a := b.Do(t, "admin", http.MethodPost, "/backups/"+made.ID.String()+"/restore", nil).Want(t, 409); !strings.Contains(a.Error.Message, "damaged") {
		t.Error(a.Error.Message)
	}
	if _, err := job.Restore.Last(b.Machine); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a restore has begun", err)
	}
	// A deleted backup is no longer reported.
	b.wantOpen(t, 1)
	b.Do(t, "admin", http.MethodDelete, "/backups/"+made.ID.String(), nil).Want(t, 200)
	b.wantOpen(t, 0)
}

// wantOpen fails unless n alarms are open.
func (b *bench) wantOpen(t *testing.T, n int) {
	t.Helper()
	if open, err := b.Alarms.Open(t.Context()); err != nil || len(open) != n {
		t.Fatalf("%+v %v", open, err)
	}
}

// An encrypted backup carries the master key, and opens with its passphrase alone.
func TestPassphrase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Do(t, "admin", http.MethodPost, "/backups", map[string]string{"passphrase": "short"}).WantField(t, "passphrase")
	made := b.make(t, map[string]string{"passphrase": "correct horse battery"})
	if !made.Encrypted || made.Status != "success" || !strings.HasSuffix(made.File, ".age") {
		t.Fatalf("%+v", made)
	}
	content := b.download(t, "admin", made.ID.String()).Body.Bytes()
	m, err := archive.Verify(bytes.NewReader(content), made.Size, "correct horse battery")
	if err != nil || !m.Has(archive.MasterKey) {
		t.Fatalf("%+v %v", m, err)
	}
	for _, path := range []string{"verify", "restore", "restore-plan"} {
		b.Do(t, "admin", http.MethodPost, "/backups/"+made.ID.String()+"/"+path, nil).WantField(t, "passphrase")
		b.Do(t, "admin", http.MethodPost, "/backups/"+made.ID.String()+"/"+path, map[string]string{"passphrase": "another passphrase"}).WantField(t, "passphrase")
	}
	b.Do(t, "admin", http.MethodPost, "/backups/"+made.ID.String()+"/verify", map[string]string{"passphrase": "correct horse battery"}).Want(t, 200).Into(t, &made)
	if made.Proof.Status != "proven" {
		t.Errorf("%+v", made.Proof)
	}
	// After an upload it is unknown until its passphrase is given.
	var back backup.Backup
	w := b.upload(t, "admin", content)
	decode(t, w, &back)
	if w.Code != 201 || !back.Encrypted || back.Host != "" || !back.Uploaded {
		t.Errorf("%d %+v", w.Code, back)
	}
	b.Do(t, "admin", http.MethodPut, "/backup-settings", map[string]any{"passphrase": "correct horse battery"}).Want(t, 200)
	if a := b.Get(t, "/backup-settings").Want(t, 200); bytes.Contains(a.Body, []byte("horse")) || !bytes.Contains(a.Body, []byte(`"passphrase_configured":true`)) {
		t.Errorf("%s", a.Body)
	}
	b.Do(t, "admin", http.MethodPut, "/backup-settings", map[string]any{"passphrase": "short"}).WantField(t, "passphrase")
	if again := b.make(t, nil); !again.Encrypted {
		t.Errorf("%+v", again)
	}
	b.Do(t, "admin", http.MethodPost, "/backups/"+back.ID.String()+"/restore-plan", nil).Want(t, 200)
	if strings.Contains(b.Logs.String(), "horse") {
		t.Error("the log tells the passphrase")
	}
}

func decode(t *testing.T, w *httptest.ResponseRecorder, into any) {
	t.Helper()
	answer := struct{ Data any }{into}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
}

// An upload is an archive, or is refused.
func TestUpload(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made := b.make(t, nil)
	content := b.download(t, "admin", made.ID.String()).Body.Bytes()
	var back backup.Backup
	w := b.upload(t, "admin", content)
	decode(t, w, &back)
	if w.Code != 201 || back.ID == made.ID || back.SHA256 != made.SHA256 || back.Host != made.Host || !back.StartedAt.Equal(made.StartedAt) || w.Header().Get("Location") == "" {
		t.Fatalf("%d %+v", w.Code, back)
	}
	if w := b.upload(t, "viewer", content); w.Code != 403 {
		t.Errorf("%d", w.Code)
	}
	bad := bytes.Clone(content)
	bad[len(bad)-3] ^= 4
	before := len(b.folder(t))
	for name, content := range map[string][]byte{"nothing": {}, "no archive": []byte(strings.Repeat("x", 5000)), "damaged": bad, "cut off": content[:len(content)/2], "a plain tar": plainTar(t)} {
		if w := b.upload(t, "admin", content); w.Code != 400 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if after := len(b.folder(t)); after != before {
		t.Errorf("%d files instead of %d", after, before)
	}
	req := httptest.NewRequest(http.MethodPost, httpd.Prefix+"/backups/upload", bytes.NewReader(content))
	req.Header.Set("Authorization", "Bearer admin")
	req.Header.Set("Content-Type", "application/json")
	refused := httptest.NewRecorder()
	if b.Handler().ServeHTTP(refused, req); refused.Code != 415 {
		t.Errorf("%d", refused.Code)
	}
}

func plainTar(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "manifest.json", Size: 2, Mode: 0o600}), second(w.Write([]byte("{}"))), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func second(_ int, err error) error { return err }

// The plan describes a restore before anything is touched.
func TestRestorePlan(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made := b.make(t, nil)
	var p backup.Plan
	b.Do(t, "admin", http.MethodPost, "/backups/"+made.ID.String()+"/restore-plan", nil).Want(t, 200).Into(t, &p)
	if p.Key != "same" || p.Version != b.Version || p.SchemaVersion != p.ThisSchema || len(p.Blockers) != 0 || p.Rows == 0 || !slices.Contains(p.Files, "state/setup.json") {
		t.Errorf("%+v", p)
	}
	if len(p.Interfaces) != 2 || p.Interfaces[0].Here != slices.Contains(p.Links, "lan0") {
		t.Errorf("%+v, links %q", p.Interfaces, p.Links)
	}
	// Another machine: its own key, other interfaces, an older and a newer schema, a file that only this machine has.
	foreign := func(change func(m *archive.Manifest)) backup.Plan {
		t.Helper()
		var back backup.Backup
		w := b.upload(t, "admin", forge(t, b, made, change, nil))
		decode(t, w, &back)
		if w.Code != 201 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		var p backup.Plan
		b.Do(t, "admin", http.MethodPost, "/backups/"+back.ID.String()+"/restore-plan", nil).Want(t, 200).Into(t, &p)
		if len(p.Blockers) > 0 {
			b.Do(t, "admin", http.MethodPost, "/backups/"+back.ID.String()+"/restore", nil).Want(t, 409)
		}
		return p
	}
	p = foreign(func(m *archive.Manifest) {
		m.KeyID, m.Host, m.Interfaces = "0000000000000000", "elsewhere", []string{"ens3"}
	})
	if p.Key != "other" || len(p.Warnings) != 3 || !strings.Contains(strings.Join(p.Warnings, " "), "tokens again") || p.Interfaces[0].Here {
		t.Errorf("%+v", p)
	}
	if p = foreign(func(m *archive.Manifest) { m.Schema = 9000 }); len(p.Blockers) != 1 || !strings.Contains(p.Blockers[0], "newer version") {
		t.Errorf("%+v", p.Blockers)
	}
	if p = foreign(func(m *archive.Manifest) { m.Schema-- }); len(p.Blockers) != 0 || !strings.Contains(strings.Join(p.Warnings, " "), "older version") {
		t.Errorf("%+v", p)
	}
}

// forge copies an archive with another manifest and another dump.
func forge(t *testing.T, b *bench, from backup.Backup, change func(m *archive.Manifest), dump func([]byte) []byte) []byte {
	t.Helper()
	f, err := os.Open(b.Paths.Backups(from.ID.String() + ".archive"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := archive.Open(f, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m := r.Manifest
	var sources []archive.Source
	for {
		p, in, err := r.Next()
		if err == io.EOF {
			break
		}
		content, read := io.ReadAll(in)
		if err := errors.Join(err, read); err != nil {
			t.Fatal(err)
		}
		if p.Name == archive.Database && dump != nil {
			content = dump(content)
		}
		if p, err = archive.Measure(p.Name, bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, archive.Source{Part: p, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }})
	}
	if change != nil {
		change(&m)
	}
	var out bytes.Buffer
	if _, err := archive.Write(&out, m, sources, ""); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A restore is started through root's job, with a checked request.
func TestRestore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made := b.make(t, nil)
	path := "/backups/" + made.ID.String() + "/restore"
	if a := b.Get(t, "/backups/restore").Want(t, 200); !strings.Contains(string(a.Data), `"state":"none"`) {
		t.Errorf("%s", a.Data)
	}
	b.Machine.SetLinks(host.Link{Name: "wan0"}, host.Link{Name: "lan9"})
	for field, wanted := range map[string]map[string]string{
		"interfaces.wan0": {"wan0": "none9"}, "interfaces.eth7": {"eth7": "lo"},
		"interfaces.lan0": {"lan0": "wan0"}, // which the backup has, too
	} {
		b.Do(t, "admin", http.MethodPost, path, map[string]any{"interfaces": wanted}).WantField(t, field)
	}
	b.Machine.RefuseJob(job.Restore, host.ErrNotInstalled)
	b.Do(t, "admin", http.MethodPost, path, nil).Want(t, 501)
	b.Machine.RefuseJob(job.Restore, job.ErrUpgradeRuns)
	b.Do(t, "admin", http.MethodPost, path, nil).Want(t, 409)
	b.Machine.RefuseJob(job.Restore, nil)
	var begun backup.Restore
	b.Do(t, "admin", http.MethodPost, path, nil).Want(t, 200).Into(t, &begun)
	if begun.State != "running" || begun.BackupID != made.ID.String() || b.Audited(t, "backup.restore") != 1 {
		t.Errorf("%+v", begun)
	}
	b.Do(t, "admin", http.MethodPost, path, nil).Want(t, 409)
	at := time.Date(2026, 6, 1, 2, 0, 0, 0, time.UTC)
	for state, want := range map[job.State]string{
		job.Done: "was restored from the backup of gateway", job.Refused: "Nothing was changed", job.TakenBack: "previous data was restored", job.Stuck: "so did the return",
	} {
		steps := []job.Step{{Name: "swap", State: job.StepFailed, BeganAt: at, Output: "canary", Error: "canary"}}
		b.Machine.SetJob(job.Restore, restore.Restore{
			Record: job.Record{ID: "1", State: state, Reason: "canary", BeganAt: at, EndedAt: at, Steps: steps},
			Backup: made.ID.String(), Host: "gateway", MadeAt: at, Warnings: []string{"canary"},
		})
		for role, words := range map[string]int{"admin": 4, "viewer": 0} {
			a := b.Do(t, role, http.MethodGet, "/backups/restore", nil).Want(t, 200)
			if strings.Count(string(a.Data), "canary") != words || !strings.Contains(string(a.Data), want) {
				t.Errorf("%s, %s: %s", state, role, a.Data)
			}
		}
	}
}

// footed adds a correct footer to a forged stream.
func footed(content []byte) []byte {
	sum := sha256.Sum256(content)
	return append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(content, 0x184D2A5E), 32), sum[:]...)
}

// Malicious dumps are refused, and none of their content is executed.
func TestHostileDumps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made := b.make(t, nil)
	folder, err := os.MkdirTemp("/tmp", "m") // the statement has little room
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	mark := filepath.Join(folder, "x")
	// statement replaces the COPY statement in the dump. The length must stay the same.
	statement := func(sql string) func([]byte) []byte {
		return func(d []byte) []byte {
			was := regexp.MustCompile(`COPY public\.ntp_pools \([^)]*\) FROM stdin;\n`).Find(d)
			if len(was) < len(sql)+1 {
				t.Fatalf("%q has no room for %q", was, sql)
			}
			return bytes.Replace(d, was, []byte(sql+strings.Repeat(" ", len(was)-len(sql)-1)+"\n"), 1)
		}
	}
	// named replaces the table's name in the dump's list of contents; the rows are loaded by another statement.
	named := func(name string) func([]byte) []byte {
		entry := func(name string) []byte {
			return append([]byte{0, byte(len(name)), 0, 0, 0}, name...)
		}
		return func(d []byte) []byte { return bytes.ReplaceAll(d, entry("ntp_pools"), entry(name)) }
	}
	tables := b.Rows(t, "ntp_pools")
	for name, dump := range map[string]func([]byte) []byte{
		"a program that gets rows": statement("COPY ntp_pools TO PROGRAM 'touch " + mark + "';"),
		"a program that has rows":  statement("COPY ntp_pools FROM PROGRAM 'touch " + mark + "';"),
		"a command for psql":       statement("\\! touch " + mark),
		"another statement": func(d []byte) []byte {
			return bytes.Replace(d, []byte("COPY public.ntp_pools ("), []byte("DROP DATABASE gateway;-"), 1)
		},
		"a table that there is not": func(d []byte) []byte {
			return bytes.Replace(d, []byte("COPY public.ntp_pools ("), []byte("COPY public.ntp_poolx ("), 1)
		},
		"another schema": func(d []byte) []byte {
			return bytes.Replace(d, []byte("COPY public.ntp_pools ("), []byte("COPY pg_cat.ntp_pools ("), 1)
		},
		"a name that is a statement":  named("DROP x;--"),
		"a name that runs a program":  named("TO 'touch"),
		"a name that psql would obey": named("\\! touch "),
		"no dump at all":              func([]byte) []byte { return []byte("SELECT 1;\n") },
		"a script": func([]byte) []byte {
			return []byte("\\! touch " + mark + "\nCOPY x TO PROGRAM 'touch " + mark + "';\n")
		},
		"a dump that is cut": func(d []byte) []byte { return d[:len(d)-len(d)/4] },
		"other rows": func(d []byte) []byte {
			return bytes.Replace(d, []byte("0.debian.pool.ntp.org"), []byte("9.debian.pool.ntp.org"), 1)
		},
	} {
		content := forge(t, b, made, nil, dump)
		var back backup.Backup
		decode(t, b.upload(t, "admin", content), &back)
		b.Do(t, "admin", http.MethodPost, "/backups/"+back.ID.String()+"/verify", nil).Want(t, 200).Into(t, &back)
		if back.Proof.Status != "failed" || back.Proof.Error == "" {
			t.Errorf("%s is taken: %+v", name, back.Proof)
		}
		t.Logf("%s: %s", name, back.Proof.Error)
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("%s was executed", name)
		}
	}
	if b.Rows(t, "ntp_pools") != tables {
		t.Error("the live database was changed")
	}
}

// A forged stream with a correct footer but an invalid tar is refused, too.
func TestForgedStream(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(plainTar(t)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if w := b.upload(t, "admin", footed(packed.Bytes())); w.Code != 400 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
