package backup_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/backup"
)

// A machine that is not set up yet accepts one archive at a time, inspects it as any gateway does, and has root restore it.
func TestOwnerRestores(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const passphrase = "correct horse battery"
	made := b.make(t, map[string]any{"passphrase": passphrase})
	content := b.download(t, "admin", made.ID.String()).Body.Bytes()
	brought := func() (x backup.Backup) {
		t.Helper()
		w := b.uploadAt(t, "/setup/restore/upload", "", bytes.NewReader(content))
		if decode(t, w, &x); w.Code != 201 || !x.Encrypted {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return x
	}
	first, second := brought(), brought()
	b.Get(t, "/backups/"+first.ID.String()).Want(t, 404) // the second replaced it
	b.Get(t, "/backups/"+made.ID.String()).Want(t, 200)  // it was not uploaded
	if b.Audited(t, "setup.restore.upload") != 2 {
		t.Error("the audit log does not know")
	}
	post := func(verb string, more map[string]any) map[string]any {
		t.Helper()
		body := map[string]any{"backup_id": second.ID, "passphrase": passphrase}
		for name, value := range more {
			body[name] = value
		}
		var out map[string]any
		b.Do(t, "", http.MethodPost, "/setup/restore/"+verb, body).Want(t, 200).Into(t, &out)
		return out
	}
	b.Do(t, "", http.MethodPost, "/setup/restore/plan", map[string]any{"backup_id": second.ID}).WantField(t, "passphrase")
	b.Do(t, "", http.MethodPost, "/setup/restore/plan", map[string]any{}).WantField(t, "backup_id")
	b.Do(t, "", http.MethodPost, "/setup/restore/plan", map[string]any{"backup_id": uuid.New()}).Want(t, 404)
	if p := post("plan", nil); p["host"] != "gateway" || p["version"] != "1.0.0" || len(p["blockers"].([]any)) != 0 {
		t.Errorf("%+v", p)
	}
	b.Do(t, "", http.MethodPost, "/setup/restore/begin", map[string]any{"backup_id": second.ID, "passphrase": passphrase, "interfaces": map[string]string{"wan0": "none9"}}).WantField(t, "interfaces.wan0")
	if r := post("begin", nil); r["state"] != "running" || r["backup_id"] != second.ID.String() {
		t.Errorf("%+v", r)
	}
	var last backup.Restore
	if b.Do(t, "", http.MethodGet, "/setup/restore", nil).Want(t, 200).Into(t, &last); last.State != "running" {
		t.Errorf("%+v", last)
	}
	if w := b.uploadAt(t, "/setup/restore/upload", "", bytes.NewReader(content)); w.Code != 409 {
		t.Errorf("another archive while a restore runs: %d %s", w.Code, w.Body)
	}
}

// Other files are refused and leave nothing behind, and repeated uploads of them must wait.
func TestOwnerBringsNonsense(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	content := b.download(t, "admin", b.make(t, nil).ID.String()).Body.Bytes()
	bad := bytes.Clone(content)
	bad[len(bad)/2] ^= 4
	before := len(b.folder(t))
	for i := range backup.Tries.Source {
		nonsense := [][]byte{bad, content[:len(content)/2], []byte(strings.Repeat("x", 5000)), {}}[i%4]
		if w := b.uploadAt(t, "/setup/restore/upload", "", bytes.NewReader(nonsense)); w.Code != 400 {
			t.Fatalf("%d: %d %s", i, w.Code, w.Body)
		}
	}
	if w := b.uploadAt(t, "/setup/restore/upload", "", bytes.NewReader(content)); w.Code != 429 || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if after := len(b.folder(t)); after != before {
		t.Errorf("%d files instead of %d", after, before)
	}
}
