package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "edge.internal/gateway/"

// source is one Go file of the repository.
type source struct {
	path    string // from the module's root
	pkg     string // its folder, from the module's root
	test    bool
	file    *ast.File
	imports []string
}

func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var list []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git" || d.Name() == ".cache" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		s := source{path: rel, pkg: filepath.ToSlash(filepath.Dir(rel)), test: strings.HasSuffix(rel, "_test.go"), file: f}
		for _, i := range f.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			s.imports = append(s.imports, name)
		}
		list = append(list, s)
		return nil
	})
	if err != nil || len(list) < 50 {
		t.Fatalf("%d files, %v", len(list), err)
	}
	return list
}

// area returns the room that a package belongs to; empty for the kit, the programs and the rest.
func area(pkg string) string {
	rest, ok := strings.CutPrefix(pkg, "internal/")
	room, _, _ := strings.Cut(rest, "/")
	if !ok || slices.Contains([]string{"kit", "app", "ctl", "start", "schema", "lab"}, room) {
		return ""
	}
	return room
}

func TestKitKnowsNoAreaAndAreasDoNotKnowEachOther(t *testing.T) {
	for _, s := range sources(t) {
		for _, i := range s.imports {
			own, ok := strings.CutPrefix(i, module)
			if !ok {
				continue
			}
			inKit, above := strings.HasPrefix(s.pkg, "internal/kit"), slices.Contains([]string{"internal/app", "internal/ctl", "internal/start"}, own)
			switch {
			case inKit && (area(own) != "" || above):
				t.Errorf("%s: the kit imports %s", s.path, own)
			case inKit && own == "internal/schema" && s.pkg != "internal/kit/db/dbtest" && !s.test:
				t.Errorf("%s: the kit imports %s", s.path, own)
			case area(s.pkg) != "" && area(own) != "" && area(own) != area(s.pkg):
				t.Errorf("%s: a room imports another, %s", s.path, own)
			case area(s.pkg) != "" && above && !s.test, s.pkg == "internal/ctl" && strings.HasPrefix(own, "internal/app"):
				t.Errorf("%s imports %s, which is above it", s.path, own)
			case area(s.pkg) != "" && reachesPast(own) && !s.test:
				t.Errorf("%s: a room reaches past the verbs of the host, to %s", s.path, own)
			}
		}
	}
}

// reachesPast tells whether a package is behind the verbs of the host. Of a daemon, rooms have the names.
func reachesPast(pkg string) bool {
	behind := []string{"machine", "helper", "daemon/home", "daemon/talk"}
	return slices.ContainsFunc(behind, func(p string) bool { return strings.HasPrefix(pkg, "internal/kit/host/"+p) })
}

// Programs that run as root and serve others import no room, because rooms read what strangers send: gateway-upgrade imports only
// the part of its room that performs the upgrade.
func TestRootKnowsNoArea(t *testing.T) {
	own := map[string]string{"cmd/gateway-upgrade": "internal/upgrade/runner"}
	imports := map[string][]string{}
	for _, s := range sources(t) {
		if !s.test {
			imports[s.pkg] = append(imports[s.pkg], s.imports...)
		}
	}
	for _, program := range []string{"cmd/gateway-helper", "cmd/gateway-upgrade"} {
		seen := map[string]bool{}
		var visit func(pkg, by string)
		visit = func(pkg, by string) {
			if seen[pkg] {
				return
			}
			seen[pkg] = true
			if area(pkg) != "" && pkg != own[program] || pkg == "internal/app" || pkg == "internal/ctl" {
				t.Errorf("%s has %s in it, by %s", program, pkg, by)
			}
			for _, i := range imports[pkg] {
				if ours, ok := strings.CutPrefix(i, module); ok {
					visit(ours, pkg)
				}
			}
		}
		visit(program, "")
		if len(seen) < 10 {
			t.Errorf("%s has %d packages in it", program, len(seen))
		}
	}
}

// doors lists the only packages that may import certain others.
var doors = map[string][]string{
	"os/exec":                           {"internal/kit/host", "internal/kit/db/private", "internal/lab", "cmd/gateway-lab", "packaging"},
	"github.com/vishvananda/netlink":    {"internal/kit/host", "internal/lab"},
	"github.com/vishvananda/netlink/nl": {"internal/kit/host"},
	"golang.zx2c4.com/wireguard/wgctrl": {"internal/kit/host"},
	"github.com/jackc/pgx/v5/pgxpool":   {"internal/kit/db"},
	"github.com/jackc/pgx/v5/pgconn":    {"internal/kit/db"},
	"github.com/jackc/pgx/v5/stdlib":    {"internal/kit/db"},
	"database/sql":                      {},
	"text/template":                     {},
	"html/template":                     {},
	"github.com/danielgtaylor/huma/v2":  {"internal/kit"},
}

func TestOnlyTheDoorsTouchTheOutside(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || strings.HasPrefix(s.pkg, "test/") {
			continue
		}
		for _, i := range s.imports {
			allowed, guarded := doors[i]
			if guarded && !slices.ContainsFunc(allowed, func(p string) bool { return s.pkg == p || strings.HasPrefix(s.pkg, p+"/") }) {
				t.Errorf("%s imports %s", s.path, i)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && regexp.MustCompile(`^"(/usr)?(/bin/)?(ba|da)?sh"$`).MatchString(lit.Value) {
				t.Errorf("%s names a shell: %s", s.path, lit.Value)
			}
			return true
		})
	}
}

// daemons are the packages of what the kit knows of each daemon.
const daemons = "internal/kit/host/daemon/"

// nameable is what rendering may use of the host and of the daemons, by package: files, and what CrowdSec has.
func nameable(all []source) map[string]map[string]bool {
	names := map[string]map[string]bool{
		"host": {"File": true, "Place": true, "Redacted": true}, "haproxy": {"Certificate": true}, "wireguard": {"State": true},
	}
	for _, s := range all {
		if s.test || s.pkg != "internal/kit/host" && filepath.ToSlash(filepath.Dir(s.pkg))+"/" != daemons {
			continue
		}
		pkg := s.file.Name.Name
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				spec := spec.(*ast.ValueSpec)
				if pkg != "crowdsec" && !isPlace(spec.Type) {
					continue
				}
				for _, name := range spec.Names {
					if names[pkg] == nil {
						names[pkg] = map[string]bool{}
					}
					names[pkg][name.Name] = true
				}
			}
		}
	}
	return names
}

// isPlace tells whether an expression is the type of places.
func isPlace(of ast.Expr) bool {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name == "Place"
	case *ast.SelectorExpr:
		return of.Sel.Name == "Place"
	}
	return false
}

// Rendering is a pure function of the configuration: it names the files that it creates, and uses nothing else.
func TestRenderingIsPure(t *testing.T) {
	all, seen := sources(t), 0
	names := nameable(all)
	for _, s := range all {
		if filepath.Base(s.path) != "render.go" {
			continue
		}
		seen++
		for _, i := range s.imports {
			own, ok := strings.CutPrefix(i, module+"internal/kit/")
			if ok && !slices.Contains([]string{"conf", "conf/nft", "host", "parts", "value"}, own) && filepath.Dir(own) != "host/daemon" || slices.Contains([]string{"os", "time", "net", "net/http", "context", "math/rand", "crypto/rand"}, i) {
				t.Errorf("%s imports %s", s.path, i)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil && names[x.Name] != nil && !names[x.Name][sel.Sel.Name] {
					t.Errorf("%s uses %s.%s", s.path, x.Name, sel.Sel.Name)
				}
			}
			return true
		})
	}
	if seen == 0 {
		t.Fatal("no render.go")
	}
}

func TestEveryPackageSaysWhatItOwns(t *testing.T) {
	docs := map[string]string{}
	for _, s := range sources(t) {
		if !s.test {
			docs[s.pkg] += s.file.Doc.Text()
		}
	}
	for pkg, doc := range docs {
		if !strings.HasPrefix(doc, "Package ") && !strings.HasPrefix(doc, "Command ") || !strings.Contains(doc, ".") {
			t.Errorf("%s has no package comment", pkg)
		}
	}
}

var (
	created = regexp.MustCompile(`CREATE TABLE (\w+)`)
	written = regexp.MustCompile(`(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)`)
)

// Only a room writes its tables, whose names begin with its name.
func TestTablesBelongToTheirRoom(t *testing.T) {
	owner := func(table string) string {
		name, _, _ := strings.Cut(table, "_")
		switch name {
		case "ha": // as in the contract
			return "cluster"
		case "change":
			return "changes"
		}
		return name
	}
	files, err := filepath.Glob("../schema/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal("no migrations", err)
	}
	rooms := map[string]bool{"alarm": true, "apply": true, "audit": true, "changes": true, "scheduler": true}
	for _, s := range sources(t) {
		rooms[area(s.pkg)] = true
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range created.FindAllStringSubmatch(string(b), -1) {
			if !rooms[owner(m[1])] {
				t.Errorf("%s: table %s carries no room's name", path, m[1])
			}
		}
	}
	for _, s := range sources(t) {
		if s.test || area(s.pkg) == "" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				for _, m := range written.FindAllStringSubmatch(lit.Value, -1) {
					if owner(m[1]) != area(s.pkg) && m[1] != "SET" && m[1] != "SKIP" {
						t.Errorf("%s writes %s", s.path, m[1])
					}
				}
			}
			return true
		})
	}
}

// A room that asks the packet filter to open something must also declare that at its component: then the engine keeps open what
// runs while something else is stored.
func TestEveryRoomThatOpensKeepsWhatRunsOpen(t *testing.T) {
	asks, keeps := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.test || !strings.HasPrefix(s.pkg, "internal/") || strings.HasPrefix(s.pkg, "internal/kit/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil && n.Name.Name == "Openings" {
					asks[s.pkg] = true
				}
			case *ast.CompositeLit:
				kind, generic := n.Type.(*ast.IndexExpr)
				if !generic {
					return true
				}
				if of, named := kind.X.(*ast.SelectorExpr); !named || of.Sel.Name != "Component" {
					return true
				}
				for _, e := range n.Elts {
					if kv, is := e.(*ast.KeyValueExpr); is && kv.Key.(*ast.Ident).Name == "Openings" {
						keeps[s.pkg] = true
					}
				}
			}
			return true
		})
	}
	if !maps.Equal(asks, keeps) || len(asks) < 6 {
		t.Errorf("these ask: %v, and these keep: %v", slices.Sorted(maps.Keys(asks)), slices.Sorted(maps.Keys(keeps)))
	}
}
