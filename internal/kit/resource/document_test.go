package resource_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
)

func document(t *testing.T, b *kittest.Bench, role, what, doc string, headers ...string) *kittest.Answer {
	t.Helper()
	return b.Do(t, role, http.MethodPost, "/configuration/"+what, doc, append(headers, "Content-Type", "application/yaml")...)
}

func export(t *testing.T, b *kittest.Bench, role, query string) string {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, httpd.Prefix+"/configuration"+query, nil).WithContext(t.Context())
	req.Header.Set("Authorization", "Bearer "+role)
	w := httptest.NewRecorder()
	b.Handler().ServeHTTP(w, req)
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func toyNames(t *testing.T, b *kittest.Bench) string {
	t.Helper()
	var list []Toy
	b.Get(t, "/toys").Want(t, 200).Into(t, &list)
	var names []string
	for _, toy := range list {
		names = append(names, toy.Name)
	}
	return strings.Join(names, " ")
}

func TestADocumentIsAChangeSet(t *testing.T) {
	b := bench(t)
	dbtest.Exec(t, b.DB, `SELECT change_keep('toys', 'id', 'shared')`)
	var plan resource.Planned
	doc := "gateway: 1\ntoy:\n  - name: a\n    count: 5\n  - name: b\nwheel:\n  - name: w\n    toy_id: b\n"
	document(t, b, "viewer", "plan", doc).Want(t, 200).Into(t, &plan)
	if len(plan.Changes) != 3 || plan.Changes[0].Verb != "create" || plan.Changes[0].Line != 3 || string(plan.Changes[0].Fields["count"][1]) != "5" || plan.Basis != nil || b.Rows(t, "toys") != 0 {
		t.Fatalf("%+v", plan)
	}
	document(t, b, "viewer", "apply", doc).Want(t, 403)
	answer := document(t, b, "admin", "apply", doc, "Gateway-Reason", "review").Want(t, 200)
	if answer.Header.Get("Gateway-Change-Set") == "" || b.Audited(t, "toy.create") != 2 || b.Audited(t, "wheel.create") != 1 {
		t.Error("it is no change set")
	}
	// Fields and rows that the document does not mention stay.
	create(t, b, `{"name":"c"}`)
	document(t, b, "admin", "apply", "gateway: 1\ntoy:\n  - name: a\n    color: blue\n").Want(t, 200)
	if doc := export(t, b, "admin", "?kinds=toy"); !strings.Contains(doc, "  - name: a\n    color: blue\n    count: 5\n") || toyNames(t, b) != "a b c" {
		t.Error(doc)
	}
	// A basis that is not the newest change set is refused.
	document(t, b, "admin", "plan", "gateway: 1\ntoy:\n  - name: a\n    color: red\n").Want(t, 200).Into(t, &plan)
	create(t, b, `{"name":"d"}`)
	document(t, b, "admin", "apply?basis="+plan.Basis.String(), "gateway: 1\ntoy:\n  - name: a\n    color: red\n").Want(t, 412)
	// Pruning affects only the kinds in the document.
	document(t, b, "admin", "plan?prune=true", "gateway: 1\nwheel: []\n").Want(t, 200).Into(t, &plan)
	if len(plan.Changes) != 1 || plan.Changes[0].Verb != "delete" || plan.Changes[0].Kind != "wheel" {
		t.Errorf("%+v", plan.Changes)
	}
	document(t, b, "admin", "apply?prune=true", "gateway: 1\ntoy:\n  - name: a\nwheel: []\n").Want(t, 200)
	if toyNames(t, b) != "a" || b.Rows(t, "wheels") != 0 {
		t.Error(toyNames(t, b))
	}
}

func TestTheOrderOfADocumentIsThatOfTheRows(t *testing.T) {
	b := bench(t)
	for i := range 6 {
		create(t, b, fmt.Sprintf(`{"name":"%c"}`, 'a'+i))
	}
	var plan resource.Planned
	for _, x := range []struct {
		doc, want string
		moved     int
	}{
		{"f", "a b c d e f", 0},
		{"b a", "b a c d e f", 1},                     // c to f are not mentioned, and stay
		{"f b a c d e", "f b a c d e", 1},             // one row moves
		{"f x b y z a c d e", "f x b y z a c d e", 3}, // new rows follow their predecessor in the document
		{"e d c a z y b x f", "e d c a z y b x f", 8},
		{"w e", "w e d c a z y b x f", 1},
		{"e 1 2 3 4 5 6 7 8 9 10 11 12 d", "w e 1 2 3 4 5 6 7 8 9 10 11 12 d c a z y b x f", 0}, // no room: all get new numbers
	} {
		doc := "gateway: 1\ntoy:\n"
		for name := range strings.FieldsSeq(x.doc) {
			doc += fmt.Sprintf("  - name: %q\n", name)
		}
		document(t, b, "admin", "apply", doc).Want(t, 200).Into(t, &plan)
		if got := toyNames(t, b); got != x.want {
			t.Fatalf("%s: %s instead of %s", x.doc, got, x.want)
		}
		if x.moved > 0 && len(plan.Changes) != x.moved {
			t.Errorf("%s: %d changes", x.doc, len(plan.Changes))
		}
		if document(t, b, "admin", "plan", doc).Want(t, 200).Into(t, &plan); len(plan.Changes) != 0 {
			t.Errorf("%s: %+v", x.doc, plan.Changes)
		}
	}
}

func TestComplaintsNameThePlaceInTheDocument(t *testing.T) {
	b := bench(t)
	for doc, want := range map[string]string{
		"toy: []\n":                                                                               "must begin with gateway: 1",
		"gateway: 2\n":                                                                            "Line 1: This gateway reads documents with gateway: 1.",
		"gateway: 1\ntoy:\n  - name: [\n":                                                         "not valid YAML",
		"gateway: 1\ntoy: []\ntoy: []\n":                                                          "Line 3: toy is given twice.",
		"gateway: 1\ntoy:\n  - name: a\n    name: b\n":                                            "Line 4: name is given twice.",
		"gateway: 1\n---\ngateway: 1\n":                                                           "one document",
		"gateway: 1\nnone: []\n":                                                                  `"line 2: none":"There is no kind \"none\"."`,
		"gateway: 1\ntoy:\n  name: a\n":                                                           "must be a list",
		"gateway: 1\ntoy:\n  - name: a\n    size: 1\n":                                            `"line 4: toy[a].size"`,
		"gateway: 1\ntoy:\n  - name: a\n    count: 99\n":                                          `"line 4: toy[a].count":"This field must be between 1 and 9."`,
		"gateway: 1\ntoy:\n  - name: a\n    count: 0x1\n":                                         "Line 4",
		"gateway: 1\ntoy:\n  - name: a\n    priority: 1\n":                                        "the order is that of the list",
		"gateway: 1\ntoy:\n  - name: forbidden\n":                                                 `"line 3: toy[forbidden].name":"This field is forbidden."`,
		"gateway: 1\nwheel:\n  - name: w\n    toy_id: none\n":                                     `"line 4: wheel[`,
		"gateway: 1\ntoy:\n  - name: a\n    secret: sealed:AAAA\n":                                "sealed for another row",
		`{"gateway":1,"toy":[{"name":"a","name":"b"}]}`:                                           "twice",
		`{"gateway":1,"toy":[{"name":"a","count":99}]}`:                                           `"toy[a].count"`,
		"gateway: 1\ntoy:\n  - &a\n    name: a\n    tags: [" + strings.Repeat("*b, ", 3) + "x]\n": "not valid YAML",
	} {
		a := document(t, b, "admin", "plan", doc)
		if a.Status < 400 || a.Status >= 500 || !strings.Contains(string(a.Body), want) {
			t.Errorf("%s: %d %s", doc, a.Status, a.Body)
		}
	}
	// Aliases are resolved, but bounded.
	document(t, b, "admin", "apply", "gateway: 1\ntoy:\n  - name: a\n    tags: &tags [x, y]\n  - name: b\n    tags: *tags\n").Want(t, 200)
	bomb := "gateway: 1\ntoy:\n  - name: c\n    tags:\n      - &l0 [a, a, a, a, a, a, a, a, a, a]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("      - &l%d [%s]\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d, ", i), 10), ", "))
	}
	if a := document(t, b, "admin", "plan", bomb).Want(t, 400); !strings.Contains(string(a.Body), "too large") {
		t.Errorf("%s", a.Body)
	}
}

func TestSecretsOfADocument(t *testing.T) {
	b := bench(t)
	create(t, b, `{"name":"a","secret":"s3cr3t-canary"}`)
	create(t, b, `{"name":"b"}`)
	doc := export(t, b, "admin", "")
	if strings.Contains(doc, "canary") || strings.Count(doc, "secret: sealed:") != 1 || doc != export(t, b, "admin", "?secrets=sealed") {
		t.Fatal(doc)
	}
	if strings.Contains(export(t, b, "viewer", ""), "sealed") || strings.Contains(export(t, b, "admin", "?secrets=omit"), "sealed") {
		t.Error("secrets are exported")
	}
	b.Do(t, "viewer", http.MethodGet, "/configuration?secrets=sealed", nil).Want(t, 403)
	var plan resource.Planned
	for _, same := range []string{doc, strings.ReplaceAll(doc, "count: 3", "count: 3 # three"), "gateway: 1\ntoy:\n  - name: a\n    secret: s3cr3t-canary\n"} {
		if document(t, b, "admin", "plan", same).Want(t, 200).Into(t, &plan); len(plan.Changes) > 0 {
			t.Errorf("%s: %+v", same, plan.Changes)
		}
	}
	// A viewer cannot find a secret by trying, but can plan a document with sealed ones.
	document(t, b, "viewer", "plan", "gateway: 1\ntoy:\n  - name: a\n    secret: s3cr3t-canary\n").Want(t, 403)
	document(t, b, "viewer", "plan", strings.ReplaceAll(doc, "count: 3", "count: 4")).Want(t, 200)
	// A sealed secret is valid only for its own row, and is restored there.
	moved := strings.ReplaceAll(doc, "name: a\n", "name: z\n")
	if a := document(t, b, "admin", "plan", moved).Want(t, 400); !strings.Contains(string(a.Body), "sealed for another row") {
		t.Errorf("%s", a.Body)
	}
	document(t, b, "admin", "apply?prune=true", "gateway: 1\ntoy: []\n").Want(t, 200)
	a := document(t, b, "admin", "apply", doc).Want(t, 200)
	if strings.Contains(string(a.Body), "canary") || strings.Contains(string(a.Body), "sealed:") {
		t.Errorf("%s", a.Body)
	}
	if again := export(t, b, "admin", ""); again != doc {
		t.Error(again)
	}
}

// The cost of reading a document is bounded before its meaning is known, more tightly for viewers than for administrators.
func TestReadingADocumentIsBounded(t *testing.T) {
	b := bench(t)
	refused := func(role, doc string, status int, why string) {
		t.Helper()
		if a := document(t, b, role, "plan", doc).Want(t, status); !strings.Contains(string(a.Body), why) {
			t.Errorf("%s", a.Body)
		}
	}
	// Few but long nodes.
	aliases := "gateway: 1\ntoy:\n  - name: &a " + strings.Repeat("x", 100_000) + "\n    tags: [" + strings.Repeat("*a, ", 2000) + "*a]\n"
	refused("viewer", aliases, 400, "too large when its aliases are followed")
	refused("admin", aliases, 400, "too large when its aliases are followed")
	names := "gateway: 1\ntoy:\n  - name: &a {"
	for i := range 100 {
		names += fmt.Sprintf("%s%d: 1, ", strings.Repeat("x", 1000), i)
	}
	names += "x: 1}\n    tags: [" + strings.Repeat("*a, ", 2000) + "*a]\n"
	refused("admin", names, 400, "too large when its aliases are followed")
	var many strings.Builder
	many.WriteString("gateway: 1\ntoy:\n")
	for i := range 3000 {
		fmt.Fprintf(&many, "  - name: toy-%d\n", i)
	}
	refused("viewer", many.String(), 400, "at most 2000 rows, unless you are an administrator")
	refused("viewer", "# "+strings.Repeat("x", 1<<20), 413, "at most 1 MiB")
	var plan resource.Planned
	for _, doc := range []string{many.String(), strings.ReplaceAll(many.String(), "  - ", "- ")} {
		if document(t, b, "admin", "plan", doc).Want(t, 200).Into(t, &plan); len(plan.Changes) != 3000 {
			t.Errorf("%d changes", len(plan.Changes))
		}
	}
}

// Plans queue like other previews.
func TestPlansQueue(t *testing.T) {
	b := bench(t)
	var done []func()
	for range 2 {
		end, err := b.DB.Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, end)
	}
	document(t, b, "viewer", "plan", "gateway: 1\ntoy: []\n").Want(t, 429)
	done[0]()
	document(t, b, "viewer", "plan", "gateway: 1\ntoy: []\n").Want(t, 200)
	done[1]()
}

// Doll counts how often its name is read.
type Doll struct {
	resource.Meta
	Name string `json:"name" required:"true"`
}

var dollLabelled = func() {}

func (d *Doll) Label() string { dollLabelled(); return d.Name }

// A plan is cancelled with its caller's request.
func TestAPlanEndsWithItsCaller(t *testing.T) {
	b := kittest.New(t)
	dbtest.Exec(t, b.DB, `CREATE TABLE dolls (id uuid PRIMARY KEY, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, name text NOT NULL)`)
	dolls := resource.Kind[Doll]{Name: "doll", Title: "doll", Path: "/dolls", Table: "dolls", Order: "name"}
	dolls.Mount(b.Resources)
	b.Resources.MountChangeSets()
	b.Start(t)
	ctx, hangUp := context.WithCancel(t.Context())
	labelled := 0
	dollLabelled = func() { labelled++; hangUp() }
	defer func() { dollLabelled = func() {} }()
	doc := "gateway: 1\ndoll:\n" + strings.Repeat("  - name: a\n", 1000)
	req := httptest.NewRequest(http.MethodPost, httpd.Prefix+"/configuration/plan", strings.NewReader(doc)).WithContext(ctx)
	req.Header.Set("Authorization", "Bearer viewer")
	req.Header.Set("Content-Type", "application/yaml")
	b.Handler().ServeHTTP(httptest.NewRecorder(), req)
	if labelled == 0 || labelled > 10 {
		t.Errorf("%d rows were named", labelled)
	}
}
