package remote_test

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/internal/backup/remote"
	"edge.internal/gateway/internal/kit/audit"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/test/offsite"
)

// s3Example and sftpExample are settings of targets that nothing is sent to.
func s3Example() map[string]any {
	return map[string]any{"endpoint": "s3.example.net", "bucket": "backups", "access_key": "AK", "secret_key": "secret-canary"}
}

func sftpExample() map[string]any {
	return map[string]any{"host": "sftp.example.net", "username": "backup", "password": "password-canary"}
}

// BK09: secrets are masked in every answer. A masked value keeps the stored secret, and a new value replaces it.
func TestBK09SecretsAreMaskedAndKept(t *testing.T) {
	t.Parallel()
	server, sshd := offsite.NewS3(t, false), offsite.NewSSHD(t)
	h := newHouse(t)
	bucket, folder := h.add(t, "s3", server.Settings()), h.add(t, "sftp", sshd.Settings())
	if bucket.Settings["secret_key"] != "***SET***" || bucket.Settings["host"] != nil || folder.Settings["private_key"] != "***SET***" || folder.Settings["password"] != "" || folder.Settings["bucket"] != nil {
		t.Fatalf("%v %v", bucket.Settings, folder.Settings)
	}
	if want := "s3://" + server.Endpoint + "/backups"; bucket.TargetURL != want {
		t.Errorf("%s instead of %s", bucket.TargetURL, want)
	}
	if want := fmt.Sprintf("sftp://root@127.0.0.1:%d%s", sshd.Port, sshd.Dir); folder.TargetURL != want {
		t.Errorf("%s instead of %s", folder.TargetURL, want)
	}
	for _, id := range []string{bucket.ID, folder.ID} {
		// Send back everything that was read.
		read := h.Get(t, "/backup-remotes/"+id).Want(t, http.StatusOK)
		h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+id, string(read.Data)).Want(t, http.StatusOK)
		if x := h.test(t, id); !x.OK {
			t.Errorf("the stored secret is gone: %+v", x)
		}
		// Settings that are not sent stay unchanged.
		h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+id, map[string]any{"keep": 3, "settings": map[string]any{}}).Want(t, http.StatusOK)
		if x := h.test(t, id); !x.OK {
			t.Errorf("the settings are gone: %+v", x)
		}
	}
	h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+bucket.ID, map[string]any{"settings": map[string]any{"secret_key": "wrong-canary"}}).Want(t, http.StatusOK)
	if x := h.test(t, bucket.ID); x.OK || x.failure() != "the secret key is wrong" {
		t.Errorf("%+v", x)
	}
	h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+bucket.ID, map[string]any{"settings": map[string]any{"access_key": "unknown"}}).Want(t, http.StatusOK)
	if x := h.test(t, bucket.ID); x.OK || x.failure() != "the service does not know the access key" {
		t.Errorf("%+v", x)
	}
	h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+folder.ID, map[string]any{"settings": map[string]any{"private_key": ""}}).WantField(t, "settings.password")
	h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+folder.ID, map[string]any{"settings": map[string]any{"private_key": "", "password": "wrong-canary"}}).Want(t, http.StatusOK)
	if x := h.test(t, folder.ID); x.OK || x.failure() != "the server does not accept the user with this password or key" {
		t.Errorf("%+v", x)
	}
	// No secret appears in plain text anywhere.
	var exposed strings.Builder
	exposed.Write(h.Get(t, "/backup-remotes").Body)
	entries, err := h.Audit.Search(t.Context(), audit.Filter{Limit: audit.MaxLimit})
	if err != nil || len(entries) < 6 {
		t.Fatal(len(entries), err)
	}
	if err := json.NewEncoder(&exposed).Encode(entries); err != nil {
		t.Fatal(err)
	}
	var dump string
	if err := h.DB.QueryRow(t.Context(), "SELECT string_agg(r::text, ' ') FROM backup_remotes r").Scan(&dump); err != nil {
		t.Fatal(err)
	}
	exposed.WriteString(dump + h.Logs.String())
	for _, secret := range []string{server.SecretKey, sshd.Key, "wrong-canary"} {
		if strings.Contains(exposed.String(), secret) {
			t.Errorf("a secret is exposed: %s", exposed.String())
		}
	}
}

// A stored secret is never sent to another server than the one it was entered for.
func TestSecretsStayWithTheirServer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	bucket, folder := h.add(t, "s3", s3Example()), h.add(t, "sftp", sftpExample())
	put := func(id string, body any) func(field string) {
		return func(field string) {
			t.Helper()
			h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+id, body).WantField(t, field)
		}
	}
	put(bucket.ID, map[string]any{"settings": map[string]any{"endpoint": "s3.example.com"}})("settings.secret_key")
	put(folder.ID, map[string]any{"settings": map[string]any{"host": "other.example.net", "password": "***SET***"}})("settings.password")
	put(folder.ID, map[string]any{"settings": map[string]any{"port": 2222}})("settings.password")
	other := s3Example()
	maps.Copy(other, map[string]any{"host": "", "username": "", "password": ""})
	put(folder.ID, map[string]any{"kind": "s3", "settings": other})("kind")
	h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+folder.ID, map[string]any{"settings": map[string]any{"port": 2222, "password": "again"}}).Want(t, http.StatusOK)
}

// Bad input is refused at its field, and nothing is stored.
func TestBadInput(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	with := func(base map[string]any, name string, value any) map[string]any {
		changed := maps.Clone(base)
		changed[name] = value
		return changed
	}
	for _, x := range []struct {
		kind     string
		settings any
		field    string
	}{
		{"ftp", s3Example(), "kind"},
		{"s3", nil, "settings"},
		{"s3", "text", "settings"},
		{"s3", with(s3Example(), "nonsense", 1), "settings"},
		{"s3", with(s3Example(), "endpoint", ""), "settings.endpoint"},
		{"s3", with(s3Example(), "endpoint", "https://s3.example.net"), "settings.endpoint"},
		{"s3", with(s3Example(), "endpoint", "s3.example.net/x"), "settings.endpoint"},
		{"s3", with(s3Example(), "endpoint", "s3.example.net:0"), "settings.endpoint"},
		{"s3", with(s3Example(), "endpoint", "user@s3.example.net"), "settings.endpoint"},
		{"s3", with(s3Example(), "bucket", "a/b"), "settings.bucket"},
		{"s3", with(s3Example(), "bucket", "../etc"), "settings.bucket"},
		{"s3", with(s3Example(), "bucket", ""), "settings.bucket"},
		{"s3", with(s3Example(), "region", "a b"), "settings.region"},
		{"s3", with(s3Example(), "access_key", "a\nb"), "settings.access_key"},
		{"s3", with(s3Example(), "secret_key", ""), "settings.secret_key"},
		{"s3", with(s3Example(), "secret_key", "a\r\nb"), "settings.secret_key"},
		{"s3", with(s3Example(), "path_prefix", "../up"), "settings.path_prefix"},
		{"s3", with(s3Example(), "path_prefix", "/rooted"), "settings.path_prefix"},
		{"s3", with(s3Example(), "path_prefix", "a//b"), "settings.path_prefix"},
		{"s3", with(s3Example(), "path_prefix", "a\x00"), "settings.path_prefix"},
		{"s3", with(s3Example(), "ca_certificate", "nonsense"), "settings.ca_certificate"},
		{"s3", with(s3Example(), "host", "sftp.example.net"), "settings.host"},
		{"s3", with(s3Example(), "https", "yes"), "settings"},
		{"sftp", with(sftpExample(), "host", ""), "settings.host"},
		{"sftp", with(sftpExample(), "host", "a b"), "settings"},
		{"sftp", with(sftpExample(), "port", 0), "settings.port"},
		{"sftp", with(sftpExample(), "port", 65536), "settings.port"},
		{"sftp", with(sftpExample(), "username", "a b"), "settings.username"},
		{"sftp", with(sftpExample(), "password", ""), "settings.password"},
		{"sftp", with(sftpExample(), "password", "a\nb"), "settings.password"},
		{"sftp", with(sftpExample(), "private_key", "nonsense"), "settings.private_key"},
		{"sftp", with(sftpExample(), "private_key", "AAAA"), "settings.private_key"},
		{"sftp", with(sftpExample(), "remote_dir", "/a/../b"), "settings.remote_dir"},
		{"sftp", with(sftpExample(), "remote_dir", "a\nb"), "settings.remote_dir"},
		{"sftp", with(sftpExample(), "host_key_fingerprint", "MD5:00"), "settings.host_key_fingerprint"},
		{"sftp", with(sftpExample(), "bucket", "backups"), "settings.bucket"},
	} {
		h.Do(t, "admin", http.MethodPost, "/backup-remotes", map[string]any{"kind": x.kind, "settings": x.settings}).WantField(t, x.field)
	}
	h.Do(t, "admin", http.MethodPost, "/backup-remotes", map[string]any{"kind": "s3", "settings": s3Example(), "keep": 0}).WantField(t, "keep")
	if n := h.Rows(t, "backup_remotes"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// Viewers see targets without their secrets, and cannot operate them.
func TestViewers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.add(t, "s3", s3Example())
	if a := h.Do(t, "viewer", http.MethodGet, "/backup-remotes", nil).Want(t, http.StatusOK); strings.Contains(string(a.Body), "canary") {
		t.Errorf("%s", a.Body)
	}
	h.Do(t, "viewer", http.MethodPost, "/backup-remotes/"+v.ID+"/test", nil).Want(t, http.StatusForbidden)
	h.Do(t, "viewer", http.MethodGet, "/backup-remotes/"+v.ID+"/archives", nil).Want(t, http.StatusForbidden)
	h.Do(t, "admin", http.MethodPost, "/backup-remotes/"+uuid.NewString()+"/test", nil).Want(t, http.StatusNotFound)
	h.Get(t, "/backup-remotes/"+uuid.NewString()+"/archives").Want(t, http.StatusNotFound)
}

// recorded is a proxy to the S3 server that records the requests.
func recorded(t *testing.T, server *offsite.S3) (endpoint string, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var list []string
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: server.Endpoint})
		r.Out.Host = r.In.Host // it is signed
		mu.Lock()
		defer mu.Unlock()
		length := r.In.Header.Get("X-Amz-Decoded-Content-Length")
		list = append(list, strings.TrimSpace(r.In.Method+" "+r.In.URL.Path+" "+length))
	}}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	return strings.TrimPrefix(front.URL, "http://"), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

// BK12: the test sends a file of 1 KB, deletes it, and reports each step.
func TestBK12TestSendsAProbeAndDeletesIt(t *testing.T) {
	t.Parallel()
	server, sshd := offsite.NewS3(t, false), offsite.NewSSHD(t)
	h := newHouse(t)
	endpoint, asked := recorded(t, server)
	settings := server.Settings()
	settings["endpoint"], settings["path_prefix"] = endpoint, "some/where"
	bucket, folder := h.add(t, "s3", settings), h.add(t, "sftp", sshd.Settings())
	if x := h.test(t, bucket.ID); !x.OK || len(x.Steps) != 3 {
		t.Fatalf("%+v", x)
	}
	var put, deleted string
	for _, line := range asked() {
		if name, is := strings.CutPrefix(line, "PUT "); is {
			put = name
		}
		if name, is := strings.CutPrefix(line, "DELETE "); is {
			deleted = name
		}
	}
	if !strings.HasPrefix(put, "/backups/some/where/gateway-probe-") || put != deleted+" 1024" {
		t.Errorf("%q was sent, %q deleted: %q", put, deleted, asked())
	}
	if x := h.test(t, folder.ID); !x.OK || len(x.Steps) != 3 {
		t.Fatalf("%+v", x)
	}
	if log := sshd.FileLog(); !strings.Contains(log, "written 1024") || !strings.Contains(log, "remove name \""+sshd.Dir+"/gateway-probe-") {
		t.Errorf("%s", log)
	}
	if left := files(t, sshd.Dir); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	// A user without write permission.
	if err := os.RemoveAll(sshd.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sshd.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if x := h.test(t, folder.ID); x.OK || x.failure() == "" {
		t.Errorf("%+v", x)
	}
	h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+bucket.ID, map[string]any{"settings": map[string]any{"bucket": "another"}}).Want(t, http.StatusOK)
	if x := h.test(t, bucket.ID); x.OK || x.failure() != "the bucket does not exist" {
		t.Errorf("%+v", x)
	}
	if n := h.Audited(t, "backup.remote.test"); n != 4 {
		t.Errorf("%d entries", n)
	}
}

// BK12: each active target has its own result, and a failure does not affect the others.
func TestBK12EveryTargetHasItsOwnResult(t *testing.T) {
	t.Parallel()
	server, secure, sshd := offsite.NewS3(t, false), offsite.NewS3(t, true), offsite.NewSSHD(t)
	h := newHouse(t)
	away := server.Settings()
	away["endpoint"] = "127.0.0.1:1"
	wrong := server.Settings()
	wrong["secret_key"] = "wrong"
	rows := []row{
		h.add(t, "s3", server.Settings()), h.add(t, "s3", away), h.add(t, "sftp", sshd.Settings(), "name", "the vault"), h.add(t, "s3", wrong),
		h.add(t, "s3", secure.Settings()),
	}
	h.add(t, "s3", server.Settings(), "active", false)
	content := make([]byte, 3<<20)
	_, _ = rand.Read(content)
	a := newArchive(t, content)
	results := h.upload(t, a, "20260102T030405Z.tar")
	if len(results) != len(rows) {
		t.Fatalf("%d results", len(results))
	}
	// They are ordered by name, as the targets are.
	place := func(x remote.Result) int {
		return slices.IndexFunc(rows, func(r row) bool { return r.ID == x.RemoteID.String() })
	}
	slices.SortFunc(results, func(a, b remote.Result) int { return cmp.Compare(place(a), place(b)) })
	for i, want := range []struct {
		error    string
		attempts int
	}{
		{"", 1}, {"it refuses the connection: nothing listens there, or a firewall is in between", 3}, {"", 1}, {"the secret key is wrong", 1}, {"", 1},
	} {
		got, v := results[i], h.get(t, rows[i].ID)
		if got.RemoteID.String() != rows[i].ID || got.OK != (want.error == "") || got.Error != want.error || got.Attempts != want.attempts || got.Warning != "" {
			t.Errorf("%d: %+v", i, got)
		}
		if v.LastError != want.error || (v.LastUploadAt != nil) != got.OK {
			t.Errorf("%d: %+v", i, v)
		}
	}
	// Each failed target has an alarm until it works again or is switched off.
	if got := h.alarms(t); !slices.Equal(got, []string{rows[1].ID, rows[3].ID}) {
		t.Errorf("alarms about %v", got)
	}
	if results[2].Name != "the vault" {
		t.Errorf("%+v", results[2])
	}
	for _, dir := range []string{server.Dir, secure.Dir, sshd.Dir} {
		b, err := os.ReadFile(filepath.Join(dir, h.room.Own()+"20260102T030405Z.tar"))
		if err != nil || !bytes.Equal(b, content) {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		if names := files(t, dir); len(names) != 1 {
			t.Errorf("%v", names)
		}
	}
	// What was sent can be fetched back, and a success clears the alarm.
	for _, i := range []int{0, 2, 4} {
		list := h.archives(t, rows[i].ID)
		if list.Error != "" || len(list.Archives) != 1 || !list.Archives[0].Own || list.Archives[0].Size != a.size || list.Archives[0].Name != "20260102T030405Z.tar" {
			t.Fatalf("%+v", list)
		}
		var back bytes.Buffer
		n, sum, err := h.room.Fetch(t.Context(), uuid.MustParse(rows[i].ID), list.Archives[0].File, &back, 1<<30)
		if err != nil || n != a.size || sum != a.sum || !bytes.Equal(back.Bytes(), content) {
			t.Errorf("%d bytes, %s, %v", n, sum, err)
		}
		h.Do(t, "admin", http.MethodPost, "/backup-remotes/"+rows[i].ID+"/fetch", map[string]any{"file": list.Archives[0].File}).Want(t, http.StatusCreated)
		if !bytes.Equal(h.adopted, content) {
			t.Errorf("%d bytes were adopted", len(h.adopted))
		}
		missing := h.Do(t, "admin", http.MethodPost, "/backup-remotes/"+rows[i].ID+"/fetch", map[string]any{"file": h.room.Own() + "other.tar"}).Want(t, http.StatusServiceUnavailable)
		if !strings.Contains(string(missing.Body), "the archive does not exist") {
			t.Errorf("%s", missing.Body)
		}
		if _, _, err := h.room.Fetch(t.Context(), uuid.MustParse(rows[i].ID), list.Archives[0].File, &back, a.size-1); err == nil {
			t.Error("more was taken than fits")
		}
		if _, _, err := h.room.Fetch(t.Context(), uuid.MustParse(rows[i].ID), list.Archives[0].File, full{}, 1<<30); !errors.Is(err, errFull) {
			t.Errorf("a full disk: %v", err)
		}
		if _, _, err := h.room.Fetch(t.Context(), uuid.MustParse(rows[i].ID), h.room.Own()+"other.tar", &back, 1<<30); err == nil || err.Error() != "the archive does not exist" {
			t.Errorf("%v", err)
		}
	}
	h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+rows[3].ID, map[string]any{"settings": map[string]any{"secret_key": server.SecretKey}}).Want(t, http.StatusOK)
	h.upload(t, a, "20260103T030405Z.tar")
	if got := h.alarms(t); !slices.Equal(got, []string{rows[1].ID}) {
		t.Errorf("alarms about %v", got)
	}
	h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+rows[1].ID, map[string]any{"active": false}).Want(t, http.StatusOK)
	if got := h.alarms(t); len(got) != 0 {
		t.Errorf("alarms about %v", got)
	}
	if v := h.get(t, rows[3].ID); v.LastError != "" || v.LastUploadAt == nil {
		t.Errorf("%+v", v)
	}
	// A changed archive is not sent.
	if err := os.WriteFile(a.path, content[1:], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, result := range h.upload(t, a, "20260104T030405Z.tar") {
		if result.OK || result.Error != "the archive on the disk is not what was written, so it was not sent" {
			t.Errorf("another file was sent: %+v", result)
		}
	}
	for _, result := range h.upload(t, newArchive(t, content), "../20260104T030405Z.tar") {
		if result.OK {
			t.Errorf("a name that leads elsewhere was taken: %+v", result)
		}
	}
	h.Do(t, "admin", http.MethodPost, "/backup-remotes/"+rows[0].ID+"/fetch", map[string]any{"file": "../../etc/passwd"}).WantField(t, "file")
	h.Do(t, "viewer", http.MethodPost, "/backup-remotes/"+rows[0].ID+"/fetch", map[string]any{"file": h.room.Own() + "x"}).Want(t, http.StatusForbidden)
	// The backup displays the results in its own form.
	made := newArchive(t, content)
	id := uuid.MustParse("01a1e39f-4bae-752c-b03c-87a991632b26")
	for i, result := range h.room.UploadAll(t.Context(), backup.Archive{
		ID: id, Name: "gateway-fw.tar-20260105T030405Z.tar.zst.age", Path: made.path, Size: made.size, SHA256: made.sum, MadeAt: time.Date(2026, 1, 5, 3, 4, 5, 0, time.UTC),
	}, func([]backup.UploadResult) {}) {
		if result.Status != "success" || result.Error != "" || result.Target == "" || result.FinishedAt == nil {
			t.Errorf("%d: %+v", i, result)
		}
	}
	if _, err := os.Stat(filepath.Join(sshd.Dir, h.room.Own()+"20260105T030405Z-91632b26.tar.zst.age")); err != nil {
		t.Error(err)
	}
}

var errFull = errors.New("no space left on device")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// The certificate of a service must come from a trusted authority.
func TestServiceWithACertificateOfItsOwn(t *testing.T) {
	t.Parallel()
	server := offsite.NewS3(t, true)
	h := newHouse(t)
	settings := server.Settings()
	delete(settings, "ca_certificate")
	v := h.add(t, "s3", settings)
	if x := h.test(t, v.ID); x.OK || x.failure() != "its certificate is from an authority that this gateway does not trust" {
		t.Errorf("%+v", x)
	}
	h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+v.ID, map[string]any{"settings": map[string]any{"https": false}}).Want(t, http.StatusOK)
	if x := h.test(t, v.ID); x.OK {
		t.Errorf("%+v", x)
	}
	h.Do(t, "admin", http.MethodPut, "/backup-remotes/"+v.ID, map[string]any{"settings": map[string]any{"https": true, "ca_certificate": server.CA}}).Want(t, http.StatusOK)
	if x := h.test(t, v.ID); !x.OK {
		t.Errorf("%+v", x)
	}
}

// Only archives written by this gateway are ever deleted, the oldest first.
func TestRetentionDeletesItsOwnOldestAlone(t *testing.T) {
	t.Parallel()
	server, sshd := offsite.NewS3(t, false), offsite.NewSSHD(t)
	h := newHouse(t)
	bucket, folder := h.add(t, "s3", server.Settings(), "keep", 2), h.add(t, "sftp", sshd.Settings(), "keep", 2)
	old := time.Now().Add(-100 * time.Hour)
	others := []string{
		"gateway_other_0123456789ab_20200101T000000Z.tar", // another host
		strings.Replace(h.room.Own(), "0123456789ab", "ffffffffffff", 1) + "20200101T000000Z.tar",
		h.room.Own() + "$(reboot).tar", h.room.Own() + "new\nline", h.room.Own() + "-rf", "notes.txt", h.room.Own(),
	}
	left := "." + h.room.Own() + "20200101T000000Z.tar.part"
	for _, dir := range []string{server.Dir, sshd.Dir} {
		for _, name := range append(slices.Clone(others), left) {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(dir, h.room.Own()+"folder.tar"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a := newArchive(t, []byte("archive"))
	for i := range 5 {
		for _, dir := range []string{server.Dir, sshd.Dir} {
			// By the target's clock, all of them are newer than the next upload, which is kept regardless.
			for j := range i {
				path := filepath.Join(dir, fmt.Sprintf("%s2026010%dT030405Z.tar", h.room.Own(), j))
				if at := time.Now().Add(time.Duration(j) * time.Minute); os.Chtimes(path, at, at) != nil {
					continue // deleted already
				}
			}
		}
		for _, result := range h.upload(t, a, fmt.Sprintf("2026010%dT030405Z.tar", i)) {
			if !result.OK || result.Warning != "" || result.Deleted != min(1, max(0, i-1)) {
				t.Errorf("%d: %+v", i, result)
			}
		}
	}
	for i, dir := range []string{server.Dir, sshd.Dir} {
		want := append(slices.Clone(others), h.room.Own()+"folder.tar", h.room.Own()+"20260103T030405Z.tar", h.room.Own()+"20260104T030405Z.tar")
		slices.Sort(want)
		if got := files(t, dir); !slices.Equal(got, want) {
			t.Errorf("%d: %q instead of %q", i, got, want)
		}
	}
	// Files that are not named like archives are not listed either.
	for _, id := range []string{bucket.ID, folder.ID} {
		list := h.archives(t, id)
		if list.Error != "" || len(list.Archives) != 4 {
			t.Fatalf("%+v", list)
		}
		for _, x := range list.Archives {
			if x.Own != strings.HasPrefix(x.File, h.room.Own()) || x.Host == "" {
				t.Errorf("%+v", x)
			}
		}
		for _, name := range append(others[2:], "../../etc/passwd", "") {
			if _, _, err := h.room.Fetch(t.Context(), uuid.MustParse(id), name, full{}, 1); !fault.Is(err, fault.NotFound) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

// An archive of any size is sent and fetched in little memory.
func TestArchivesAreStreamed(t *testing.T) {
	server, sshd := offsite.NewS3(t, false), offsite.NewSSHD(t)
	h := newHouse(t)
	rows := []row{h.add(t, "s3", server.Settings()), h.add(t, "sftp", sshd.Settings())}
	size := 96 << 20
	if longtest.On {
		size *= 2
	}
	content := make([]byte, size)
	for i := 0; i < len(content); i += 4096 {
		_, _ = rand.Read(content[i : i+64])
	}
	a := newArchive(t, content)
	content = nil
	memory := kittest.WatchMemory(t)
	for _, result := range h.upload(t, a, "large.tar") {
		if !result.OK {
			t.Errorf("%+v", result)
		}
	}
	for _, v := range rows {
		to, err := os.Create(filepath.Join(t.TempDir(), "back"))
		if err != nil {
			t.Fatal(err)
		}
		if n, sum, err := h.room.Fetch(t.Context(), uuid.MustParse(v.ID), h.room.Own()+"large.tar", to, 1<<30); err != nil || n != a.size || sum != a.sum {
			t.Errorf("%d bytes, %s, %v", n, sum, err)
		}
		to.Close()
	}
	if grown := memory(); grown > 48<<20 {
		t.Errorf("%d MiB of memory for an archive of %d MiB", grown>>20, a.size>>20)
	}
}

// While an archive is sent, its progress at each target is reported.
func TestUploadTellsHowFarItIs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.add(t, "sftp", offsite.NewSSHD(t).Settings())
	h.add(t, "s3", offsite.NewS3(t, false).Settings())
	a := newArchive(t, bytes.Repeat([]byte("an archive "), 1<<20))
	var reports [][]remote.Result
	results, err := h.room.Upload(t.Context(), a.path, "20260102T030405Z.tar", a.size, a.sum, func(so []remote.Result) { reports = append(reports, so) })
	if err != nil || len(results) != 2 || len(reports) < 3 {
		t.Fatal(results, len(reports), err)
	}
	for i, r := range results {
		if !r.OK || r.Sent != a.size || r.FinishedAt.IsZero() {
			t.Errorf("%+v", r)
		}
		if first := reports[0][i]; first.RemoteID != r.RemoteID || first.Sent != 0 || !first.FinishedAt.IsZero() {
			t.Errorf("at first %+v", first)
		}
		for n := 1; n < len(reports); n++ {
			if reports[n][i].Sent < reports[n-1][i].Sent {
				t.Errorf("%d bytes after %d", reports[n][i].Sent, reports[n-1][i].Sent)
			}
		}
	}
}
