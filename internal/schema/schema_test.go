package schema_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/schema"
)

// dump returns the schema of a database as SQL, without comments.
func dump(t *testing.T, url string) []string {
	t.Helper()
	// What a superuser creates is not part of the schema.
	if out, err := exec.CommandContext(t.Context(), "psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--command=DROP EVENT TRIGGER IF EXISTS gateway_subscription_stays", url).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "pg_dump", "--schema-only", "--no-owner", "--no-privileges", "--exclude-schema=gateway_cluster", url).Output()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "--") || strings.HasPrefix(line, `\`)
	})
}

// SY07: a database of each released version, brought up to date, has the schema of a fresh one. testdata holds pg_dump's output
// for each version.
func TestSY07UpgradesEndInTheFreshSchema(t *testing.T) {
	fresh := dump(t, dbtest.URL(t))
	if len(fresh) < 300 {
		t.Fatalf("the schema has %d lines", len(fresh))
	}
	released, err := filepath.Glob("testdata/*.sql")
	if err != nil || len(released) == 0 {
		t.Fatal("no released schema", err)
	}
	for _, file := range released {
		d, url := restore(t, file)
		if err := d.Attach(t.Context(), schema.Migrations); err != nil {
			t.Fatal(err)
		}
		upgraded := dump(t, url)
		if slices.Equal(upgraded, fresh) {
			continue
		}
		for i := range max(len(upgraded), len(fresh)) {
			if i >= len(upgraded) || i >= len(fresh) || upgraded[i] != fresh[i] {
				t.Fatalf("%s, from line %d on, is\n%s\ninstead of\n%s", file, i+1, strings.Join(upgraded[min(i, len(upgraded)):min(i+5, len(upgraded))], "\n"), strings.Join(fresh[min(i, len(fresh)):min(i+5, len(fresh))], "\n"))
			}
		}
	}
}

func restore(t *testing.T, file string) (d *db.DB, url string) {
	t.Helper()
	url = dbtest.EmptyURL(t)
	if out, err := exec.CommandContext(t.Context(), "psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output="+os.DevNull, "--file="+file, url).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d, err := db.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, url
}

// The ids of the pools that come with the gateway are UUIDs of version 7, the same everywhere. Those that an operator has changed
// keep theirs.
func TestSeededPoolsHaveFixedIDs(t *testing.T) {
	seeds := func(d *db.DB) (list string) {
		t.Helper()
		if err := d.QueryRow(t.Context(), `SELECT string_agg(left(address, 1) || ' ' || id, ', ' ORDER BY address) FROM ntp_pools WHERE substr(id::text, 15, 1) = '7'`).Scan(&list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	const id = " 00000000-0000-7000-8000-00000000001"
	fresh, err := db.Open(dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if err := fresh.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	if got := seeds(fresh); got != "0"+id+"0, 1"+id+"1, 2"+id+"2, 3"+id+"3" {
		t.Error(got)
	}
	old, url := restore(t, "testdata/1.0.0.sql")
	if out, err := exec.CommandContext(t.Context(), "psql", "--quiet", "--no-psqlrc", "--command=UPDATE ntp_pools SET prefer = true, updated_at = now() WHERE address LIKE '2%'", url).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := old.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	if got := seeds(old); got != "0"+id+"0, 1"+id+"1, 3"+id+"3" {
		t.Error(got)
	}
}
