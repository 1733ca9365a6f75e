//go:build long

package backup_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
)

// A backup, its proof and its upload handle a database larger than the memory that they may use.
func TestLargeDatabaseInLittleMemory(t *testing.T) {
	b := newBench(t)
	dbtest.Exec(t, b.DB, `INSERT INTO audit_entries (id, created_at, actor, action, subject, node_id, details)
		SELECT gen_random_uuid(), now(), 'bench', 'bench', (SELECT string_agg(md5(i || '.' || n), '') FROM generate_series(1, 50) n), '', '{}' FROM generate_series(1, 45000) i`)
	memory := kittest.WatchMemory(t)
	made := b.make(t, nil)
	if made.Status != "success" || made.DatabaseBytes < 70<<20 || made.Size < 32<<20 {
		t.Fatalf("%+v", made)
	}
	b.Do(t, "admin", http.MethodPost, "/backups/"+made.ID.String()+"/verify", nil).Want(t, 200).Into(t, &made)
	if made.Proof.Status != "proven" || made.Proof.Rows < 45000 {
		t.Fatalf("%+v", made.Proof)
	}
	archive, err := os.Open(b.Paths.Backups(made.ID.String() + ".archive"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if w := b.uploadAt(t, "/backups/upload", "admin", archive); w.Code != 201 || !strings.Contains(w.Body.String(), made.SHA256) {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if grown := memory(); grown > 64<<20 {
		t.Errorf("%d MiB of memory for a dump of %d MiB", grown>>20, made.DatabaseBytes>>20)
	} else {
		t.Logf("%d MiB of memory for a dump of %d MiB", grown>>20, made.DatabaseBytes>>20)
	}
}
