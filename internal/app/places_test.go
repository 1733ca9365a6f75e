package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
)

type column struct {
	Table, Name       string
	Key, Has, NotNull bool // part of the primary key; has a default; cannot be null
}

// gather reads rows of a catalogue.
func gather[T any](t *testing.T, h house, sql string) []T {
	t.Helper()
	rows, err := h.DB.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Every table is declared once, by the room that owns it; publication and guards match the declarations, column by column; and
// nothing is published that replication cannot handle.
func TestEveryTableHasItsPlace(t *testing.T) {
	h := build(t, kittest.New(t))
	columns := map[string][]column{}
	for _, c := range gather[column](t, h, `
		SELECT c.relname::text, a.attname::text, coalesce(a.attnum = ANY (i.indkey), false), a.atthasdef, a.attnotnull
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> 'goose_db_version' ORDER BY a.attname`) {
		columns[c.Table] = append(columns[c.Table], c)
	}
	if len(columns) < 60 {
		t.Fatalf("%d tables", len(columns))
	}
	declared := map[string]resource.Table{}
	for _, x := range h.Resources.Tables() {
		if _, twice := declared[x.Name]; twice {
			t.Errorf("%s is declared twice", x.Name)
		}
		if columns[x.Name] == nil {
			t.Errorf("%s is declared and not there", x.Name)
		}
		declared[x.Name] = x
	}
	var published, guarded []string
	for name, has := range columns {
		x, known := declared[name]
		if !known {
			t.Errorf("nobody declares %s: Registry.Declare says where its rows are", name)
			continue
		}
		if x.Where == resource.Local {
			if len(x.LocalColumns) > 0 {
				t.Errorf("%s is local, and so is each of its columns", name)
			}
			continue
		}
		var shared []string
		for _, c := range has {
			switch own := slices.Contains(x.LocalColumns, c.Name); {
			case !own:
				shared = append(shared, c.Name)
			case c.Key:
				t.Errorf("%s.%s is part of the key, and cannot be local", name, c.Name)
			case c.NotNull && !c.Has:
				t.Errorf("%s.%s is local and cannot be null: without a default, no row arrives from another node", name, c.Name)
			}
		}
		for _, own := range x.LocalColumns {
			if !slices.ContainsFunc(has, func(c column) bool { return c.Name == own }) {
				t.Errorf("%s has no column %s", name, own)
			}
		}
		if !slices.ContainsFunc(has, func(c column) bool { return c.Key }) {
			t.Errorf("%s has no primary key: its rows could be neither changed nor deleted", name)
		}
		published = append(published, name+" "+strings.Join(shared, ","))
		of := ""
		if len(x.LocalColumns) > 0 {
			of = strings.Join(shared, ",")
		}
		guarded = append(guarded, name+" "+of)
	}
	equal := func(what string, want, got []string) {
		t.Helper()
		slices.Sort(want)
		slices.Sort(got)
		for _, x := range got {
			if !slices.Contains(want, x) {
				t.Errorf("%s, and not declared so: %s", what, x)
			}
		}
		for _, x := range want {
			if !slices.Contains(got, x) {
				t.Errorf("declared, and not %s: %s (ha_share in a migration)", what, x)
			}
		}
	}
	equal("published", published, texts(t, h, `SELECT tablename || ' ' || array_to_string((SELECT array_agg(n ORDER BY n) FROM unnest(attnames) n), ',') FROM pg_publication_tables WHERE pubname = 'gateway'`))
	// 62 is BEFORE, for each statement, of INSERT, DELETE, UPDATE and TRUNCATE.
	equal("guarded", guarded, texts(t, h, `SELECT c.relname || ' ' || coalesce((SELECT string_agg(a.attname, ',' ORDER BY a.attname) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (t.tgattr)), '')
		FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE t.tgname = 'ha_guard' AND t.tgenabled = 'O' AND t.tgtype = 62 AND t.tgfoid = 'ha_guard'::regproc`))

	for _, sequence := range texts(t, h, `SELECT relname::text FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace AND relname NOT LIKE 'goose_db_version%'`) {
		t.Errorf("%s: sequences are not replicated, and a node that is promoted would give numbers twice", sequence)
	}
	for _, key := range gather[struct{ Name, From, To string }](t, h, `SELECT conname::text, conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f'`) {
		if (declared[key.From].Where == resource.Local) != (declared[key.To].Where == resource.Local) {
			t.Errorf("%s leads from one place to another: replication does not heed it", key.Name)
		}
	}
	for _, function := range texts(t, h, `SELECT DISTINCT p.proname::text FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgenabled IN ('A', 'R') AND NOT t.tgisinternal
		AND p.prosrc ~* '\m(from|into|update|join)\s+(?!public\.|pg_|only\M|set\M|unnest\M)[a-z_]+'`) {
		t.Errorf("%s runs when rows arrive, where there is no search path: name public with each table", function)
	}
}

func texts(t *testing.T, h house, sql string) []string {
	t.Helper()
	var list []string
	for _, x := range gather[struct{ Text string }](t, h, sql) {
		list = append(list, x.Text)
	}
	return list
}

// Entries that wait for the primary have the same columns as those in its log.
func TestOutboxHasTheFormOfTheLog(t *testing.T) {
	h := build(t, kittest.New(t))
	form := func(table string) string {
		return fmt.Sprint(texts(t, h, `SELECT a.attname || ' ' || format_type(a.atttypid, a.atttypmod) FROM pg_attribute a WHERE attrelid = '`+table+`'::regclass AND attnum > 0 ORDER BY attnum`))
	}
	if form("audit_entries") != form("audit_outbox") || form("audit_entries") != form("audit_log") {
		t.Errorf("%s\n%s\n%s", form("audit_entries"), form("audit_outbox"), form("audit_log"))
	}
}
