package schema_test

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/schema"
)

// rolling is the first migration that must be compatible with nodes of other versions: during the update of a cluster, the
// standby has it and the primary does not.
const rolling = 23

var (
	remarks   = regexp.MustCompile(`(?m)--.*$`)
	bodies    = regexp.MustCompile(`(?s)\$(\w*)\$.*?\$(\w*)\$`)
	made      = regexp.MustCompile(`(?i)^CREATE TABLE (?:IF NOT EXISTS )?(\w+)`)
	altered   = regexp.MustCompile(`(?is)^ALTER TABLE (?:ONLY )?(\w+) (.*)$`)
	rows      = regexp.MustCompile(`(?i)^(?:INSERT INTO|UPDATE|DELETE FROM|TRUNCATE(?: TABLE)?) (?:ONLY )?(\w+)`)
	added     = regexp.MustCompile(`(?is)^ADD (?:COLUMN )?(?:IF NOT EXISTS )?\w+ (.*)$`)
	stricter  = regexp.MustCompile(`(?is)^(?:ADD (?:CONSTRAINT|UNIQUE|CHECK|FOREIGN|PRIMARY|EXCLUDE)|ALTER (?:COLUMN )?\w+ SET NOT NULL|VALIDATE)`)
	goes      = regexp.MustCompile(`(?is)^(?:DROP (?:COLUMN )?|RENAME)`)
	droppable = regexp.MustCompile(`(?is)^DROP (?:CONSTRAINT|DEFAULT)`)
	unique    = regexp.MustCompile(`(?is)^CREATE UNIQUE INDEX (?:IF NOT EXISTS )?\w+ ON (\w+)`)
)

// problems lists what in a migration would stop replication from a primary that does not have it yet. Tables that the migration
// itself creates have no rows that could be replicated.
func problems(sql string, shared []string) []string {
	sql = remarks.ReplaceAllString(sql, "")
	blocks := bodies.FindAllString(sql, -1)
	sql = bodies.ReplaceAllString(sql, "$$$$")
	var own, found []string
	is := func(table string) bool { return slices.Contains(shared, table) && !slices.Contains(own, table) }
	say := func(statement, why string) {
		found = append(found, why+": "+strings.Join(strings.Fields(statement), " "))
	}
	for statement := range strings.SplitSeq(sql, ";") {
		statement = strings.TrimSpace(statement)
		if m := made.FindStringSubmatch(statement); m != nil {
			own = append(own, m[1])
		}
		if m := rows.FindStringSubmatch(statement); m != nil && is(m[1]) {
			say(statement, "changes rows that the primary changes too: do it in a DO block, if ha_writable()")
		}
		if m := unique.FindStringSubmatch(statement); m != nil && is(m[1]) {
			say(statement, "refuses rows that the primary may send: one release later")
		}
		if strings.HasPrefix(strings.ToUpper(statement), "DROP TABLE") && slices.ContainsFunc(shared, func(t string) bool { return regexp.MustCompile(`\b` + t + `\b`).MatchString(statement) }) {
			say(statement, "takes away what the primary sends: one release later")
		}
		m := altered.FindStringSubmatch(statement)
		if m == nil || !is(m[1]) {
			continue
		}
		for _, action := range actions(m[2]) {
			column := added.FindStringSubmatch(action)
			switch {
			case goes.MatchString(action) && !droppable.MatchString(action):
				say(statement, "takes away what the primary sends: one release later")
			case stricter.MatchString(action):
				say(statement, "refuses rows that the primary may send: one release later")
			case column != nil && regexp.MustCompile(`(?i)\bNOT NULL\b`).MatchString(column[1]) && !regexp.MustCompile(`(?i)\bDEFAULT\b`).MatchString(column[1]):
				say(statement, "the primary sends rows without that column: give it a default")
			case regexp.MustCompile(`(?i)^ALTER (?:COLUMN )?\w+ DROP DEFAULT`).MatchString(action):
				say(statement, "the primary sends rows without that column: drop its default one release later")
			}
		}
	}
	for _, block := range blocks {
		for _, table := range shared {
			if regexp.MustCompile(`(?i)(?:INSERT INTO|UPDATE|DELETE FROM) (?:public\.)?`+table+`\b`).MatchString(block) && is(table) && !strings.Contains(block, "ha_writable()") && !strings.Contains(block, "trigger") {
				say(block, "changes rows that the primary changes too: ask ha_writable() first")
			}
		}
	}
	return found
}

// actions splits an ALTER TABLE into its parts.
func actions(text string) []string {
	var list []string
	depth, from := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			list, from = append(list, strings.TrimSpace(text[from:i])), i+1
		}
	}
	return append(list, strings.TrimSpace(text[from:]))
}

// A standby that is updated first continues to follow a primary that is not.
func TestMigrationsFitARollingUpdate(t *testing.T) {
	d, err := db.Open(dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Attach(t.Context(), schema.Migrations); err != nil {
		t.Fatal(err)
	}
	found, err := d.Query(t.Context(), "SELECT tablename::text FROM pg_publication_tables WHERE pubname = 'gateway'")
	if err != nil {
		t.Fatal(err)
	}
	shared, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil || len(shared) < 30 {
		t.Fatalf("%d tables, %v", len(shared), err)
	}
	names, err := fs.Glob(schema.Migrations, "*.sql")
	if err != nil || len(names) < rolling-1 {
		t.Fatalf("%d migrations, %v", len(names), err)
	}
	for _, name := range names {
		content, err := fs.ReadFile(schema.Migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		if name < "0023" {
			continue
		}
		for _, problem := range problems(string(content), shared) {
			t.Errorf("%s %s", name, problem)
		}
	}
}

// The test above finds what it must, and nothing else.
func TestRulesOfRollingUpdates(t *testing.T) {
	shared := []string{"ntp_pools", "dns_zones", "new_things"}
	for sql, bad := range map[string]bool{
		"CREATE TABLE new_things (id uuid PRIMARY KEY, x text NOT NULL); INSERT INTO new_things VALUES (1); SELECT ha_share('new_things');": false,
		"CREATE TABLE new_things (id uuid PRIMARY KEY); CREATE UNIQUE INDEX a ON new_things (x);":                                           false,
		"ALTER TABLE ntp_pools ADD COLUMN nts boolean NOT NULL DEFAULT false;":                                                              false,
		"ALTER TABLE ntp_pools ADD COLUMN nts boolean;":                                                                                     false,
		"ALTER TABLE ntp_pools ALTER COLUMN minpoll TYPE bigint;":                                                                           false,
		"ALTER TABLE ntp_pools DROP CONSTRAINT ntp_pools_kind_check;":                                                                       false,
		"ALTER TABLE ntp_settings ADD COLUMN nts boolean NOT NULL;":                                                                         false,
		"UPDATE ntp_settings SET rtcsync = true;":                                                                                           false,
		"DO $$ BEGIN IF ha_writable() THEN UPDATE ntp_pools SET prefer = true; END IF; END $$;":                                             false,
		"-- UPDATE ntp_pools SET prefer = true;":                                                                                            false,

		"ALTER TABLE ntp_pools ADD COLUMN nts boolean NOT NULL;":                                              true,
		"ALTER TABLE ntp_pools ADD COLUMN a text, ADD COLUMN nts numeric(3, 1) NOT NULL;":                     true,
		"ALTER TABLE ntp_pools ADD COLUMN nts boolean NOT NULL DEFAULT false, ALTER COLUMN nts DROP DEFAULT;": true,
		"ALTER TABLE ntp_pools DROP COLUMN prefer;":                                                           true,
		"ALTER TABLE ntp_pools RENAME COLUMN prefer TO preferred;":                                            true,
		"ALTER TABLE ntp_pools RENAME TO ntp_sources;":                                                        true,
		"ALTER TABLE ntp_pools ALTER COLUMN prefer SET NOT NULL;":                                             true,
		"ALTER TABLE ntp_pools ADD CONSTRAINT x CHECK (minpoll > 3);":                                         true,
		"CREATE UNIQUE INDEX x ON dns_zones (description);":                                                   true,
		"DROP TABLE dns_zones;":                           true,
		"UPDATE ntp_pools SET prefer = true;":             true,
		"UPDATE ntp_pools SET prefer = true WHERE false;": true,
		"INSERT INTO dns_zones VALUES (1);":               true,
		"DO $$ BEGIN DELETE FROM ntp_pools; END $$;":      true,
		"CREATE TABLE other (id uuid PRIMARY KEY);\nALTER TABLE dns_zones ADD other uuid REFERENCES other NOT NULL;\n": true,
	} {
		if found := problems(sql, shared); len(found) > 0 != bad {
			t.Errorf("%s: %q", sql, found)
		}
	}
}
