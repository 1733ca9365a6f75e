package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// caseInName matches the id of an acceptance case in the name of a test, as in TestAU01LoginRight and "PX06PX07ServerNames".
var caseInName = regexp.MustCompile(`^(?:Test)?((?:[A-Z]{2}[0-9]{2})+)[A-Z]`)

// testsOf returns the tests of a folder: its test functions, and the words in its strings, which name subtests.
func testsOf(t *testing.T, folder string) (functions, texts map[string]bool) {
	t.Helper()
	functions, texts = map[string]bool{}, map[string]bool{}
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				functions[f.Name.Name] = true
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if text, is := n.(*ast.BasicLit); is && text.Kind == token.STRING {
				texts[strings.Trim(text.Value, "\"`")] = true
			}
			return true
		})
	}
	return functions, texts
}

// Every acceptance case names tests that exist, and every test that names a case is listed with it.
func TestEveryAcceptanceCaseHasItsTests(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "acceptance.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]map[string]bool{} // the names of tests, by folder
	rows := map[string]string{}            // the tests of a case
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !regexp.MustCompile(`^ [A-Z]{2}-[0-9]{2} $`).MatchString(cells[1]) {
			continue
		}
		id := strings.TrimSpace(cells[1])
		if rows[id] != "" {
			t.Errorf("%s is there twice", id)
		}
		rows[id] = cells[3]
		for part := range strings.SplitSeq(strings.TrimSpace(cells[3]), "; ") {
			folder, names, found := strings.Cut(strings.TrimPrefix(part, "`"), "`: ")
			if !found {
				t.Errorf("%s: %q names no tests", id, part)
				continue
			}
			if strings.HasSuffix(folder, ".spec.ts") {
				spec, err := os.ReadFile(filepath.Join("..", "..", folder))
				if title := "'" + strings.Trim(names, `"`) + "'"; err != nil || !strings.Contains(string(spec), title) {
					t.Errorf("%s: %s has no test %s: %v", id, folder, title, err)
				}
				continue
			}
			if listed[folder] == nil {
				listed[folder] = map[string]bool{}
			}
			functions, texts := testsOf(t, folder)
			for name := range strings.SplitSeq(names, ", ") {
				listed[folder][name] = true
				parts := strings.Split(name, "/")
				if missing := slices.ContainsFunc(parts[1:], func(sub string) bool { return !texts[sub] }); missing || !functions[parts[0]] {
					t.Errorf("%s: %s has no test %s", id, folder, name)
				}
			}
		}
	}
	if len(rows) != 120 {
		t.Errorf("%d cases", len(rows))
	}
	for folder := range listed {
		functions, texts := testsOf(t, folder)
		maps.Copy(functions, texts)
		for name := range functions {
			m := caseInName.FindStringSubmatch(name)
			if m == nil {
				continue
			}
			for n := 0; n < len(m[1]); n += 4 {
				id := m[1][n:n+2] + "-" + m[1][n+2:n+4]
				if tests, known := rows[id]; known && !strings.Contains(tests, name) {
					t.Errorf("%s of %s is not listed at %s", name, folder, id)
				}
			}
		}
	}
}
