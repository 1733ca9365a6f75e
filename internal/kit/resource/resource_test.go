package resource_test

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// Toy is a kind that uses every feature of kinds.
type Toy struct {
	resource.Meta
	resource.Secrets
	Name             string        `json:"name" required:"true" maxLength:"20"`
	Color            string        `json:"color" enum:"red,blue"`
	Count            int           `json:"count" minimum:"1" maximum:"9"`
	Tags             []string      `json:"tags"`
	Addrs            []value.Addr  `json:"addrs"`
	Home             *value.Prefix `json:"home"`
	Priority         int           `json:"priority"`
	Secret           secret.Text   `json:"secret,omitzero"`
	SecretConfigured bool          `json:"secret_configured" readOnly:"true" db:"-"`
}

func (t *Toy) Label() string { return t.Name }

type Part struct {
	resource.Meta
	ToyID uuid.UUID `json:"toy_id" readOnly:"true"`
	Name  string    `json:"name" required:"true"`
}

// Wheel belongs to a toy, but all wheels share a collection.
type Wheel struct {
	resource.Meta
	ToyID uuid.UUID `json:"toy_id"`
	Name  string    `json:"name" required:"true"`
}

const tables = `
	CREATE TABLE toys (id uuid PRIMARY KEY, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL,
		name text NOT NULL CONSTRAINT toys_name_key UNIQUE, color text NOT NULL, count int NOT NULL, tags text[] NOT NULL, addrs text[] NOT NULL,
		home text, priority int NOT NULL, secret bytea);
	CREATE TABLE parts (id uuid PRIMARY KEY, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL,
		toy_id uuid NOT NULL CONSTRAINT parts_toy_id_fkey REFERENCES toys, name text NOT NULL);
	CREATE TABLE wheels (id uuid PRIMARY KEY, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL,
		toy_id uuid NOT NULL CONSTRAINT wheels_toy_id_fkey REFERENCES toys, name text NOT NULL)`

func toys() resource.Kind[Toy] {
	return resource.Kind[Toy]{
		Name: "toy", Title: "toy", Path: "/toys", Table: "toys", Order: "priority, name",
		New: func() Toy { return Toy{Color: "red", Count: 3} },
		Check: func(_ context.Context, _ *db.Tx, _, now *Toy) error {
			if now != nil && now.Name == "forbidden" {
				return fault.Field("name", "is forbidden")
			}
			return nil
		},
	}
}

func bench(t *testing.T) *kittest.Bench {
	t.Helper()
	return benchOf(t, toys())
}

// benchOf returns a bench with a variant of the toy kind.
func benchOf(t *testing.T, kind resource.Kind[Toy]) *kittest.Bench {
	t.Helper()
	b := kittest.New(t)
	dbtest.Exec(t, b.DB, tables)
	kind.Mount(b.Resources)
	nested := resource.Child[Part]{Kind: resource.Kind[Part]{Name: "part", Title: "part", Table: "parts"}, Under: "/toys/{parent}/parts", Column: "toy_id", Parent: "toys"}
	nested.Mount(b.Resources)
	flat := resource.Child[Wheel]{Kind: resource.Kind[Wheel]{Name: "wheel", Title: "wheel", Path: "/wheels", Table: "wheels"}, Under: "/toys/{parent}/wheels", Column: "toy_id", Parent: "toys"}
	flat.Mount(b.Resources)
	b.Resources.MountChangeSets()
	b.Start(t)
	return b
}

func create(t *testing.T, b *kittest.Bench, body string) Toy {
	t.Helper()
	var toy Toy
	b.Do(t, "admin", http.MethodPost, "/toys", body).Want(t, 201).Into(t, &toy)
	return toy
}

// The documented defaults are those that a minimal new row gets.
func TestDefaultsAreDocumented(t *testing.T) {
	b := bench(t)
	schemas := b.Router.Spec("1").Components.Schemas.Map()
	var made map[string]any
	b.Do(t, "admin", http.MethodPost, "/toys", `{"name":"ball"}`).Want(t, 201).Into(t, &made)
	documented := 0
	for name, property := range schemas["Resource_testToyCreate"].Properties {
		if property.Default == nil {
			continue
		}
		documented++
		if !reflect.DeepEqual(property.Default, made[name]) {
			t.Errorf("%s is %v in a new row, and %v in the documentation", name, made[name], property.Default)
		}
	}
	if documented != 4 {
		t.Errorf("%d defaults", documented)
	}
	// A new row's priority has no default, and updates have no defaults at all.
	if p := schemas["Resource_testToyCreate"].Properties; p["priority"].Default != nil || schemas["Resource_testToyUpdate"].Properties["count"].Default != nil {
		t.Error("there is a default of the place, or of a change")
	}
}

func TestPutKeepsWhatIsAbsentAndNullClears(t *testing.T) {
	b := bench(t)
	toy := create(t, b, `{"name":"a","color":"blue","tags":["x"],"addrs":["::ffff:192.0.2.1"],"home":"192.0.2.9/24"}`)
	if toy.Addrs[0].String() != "192.0.2.1" || toy.Home.String() != "192.0.2.0/24" {
		t.Fatalf("not canonical: %+v", toy)
	}
	path := "/toys/" + toy.ID.String()
	var got Toy
	b.Do(t, "admin", http.MethodPut, path, `{"count":5}`).Want(t, 200).Into(t, &got)
	if got.Color != "blue" || got.Count != 5 || len(got.Tags) != 1 || got.Home == nil || !got.UpdatedAt.After(toy.UpdatedAt) {
		t.Fatalf("%+v", got)
	}
	b.Do(t, "admin", http.MethodPut, path, `{"home":null,"tags":null}`).Want(t, 200).Into(t, &got)
	if read := b.Get(t, path).Want(t, 200); !strings.Contains(string(read.Data), `"tags":[]`) || !strings.Contains(string(read.Data), `"home":null`) {
		t.Fatalf("not cleared: %s", read.Data)
	}
	b.Do(t, "admin", http.MethodPut, path, `{"name":null}`).WantField(t, "name")
}

func TestAuditTellsBeforeAndAfter(t *testing.T) {
	b := bench(t)
	toy := create(t, b, `{"name":"a","tags":["x","y"],"home":"192.0.2.0/24"}`)
	b.Do(t, "admin", http.MethodPut, "/toys/"+toy.ID.String(), `{"tags":["z"],"home":"198.51.100.0/24","count":3}`).Want(t, 200)
	var details string
	if err := b.DB.QueryRow(t.Context(), `SELECT (details - 'change_set' - 'remote_ip')::text FROM audit_entries WHERE action = 'toy.update'`).Scan(&details); err != nil {
		t.Fatal(err)
	}
	want := `{"id": "` + toy.ID.String() + `", "fields": {"home": ["192.0.2.0/24", "198.51.100.0/24"], "tags": [["x", "y"], ["z"]]}}`
	if details != want {
		t.Fatalf("%s instead of %s", details, want)
	}
}

func TestReadCanBeSentBack(t *testing.T) {
	b := bench(t)
	toy := create(t, b, `{"name":"a","secret":"s3cr3t-canary"}`)
	path := "/toys/" + toy.ID.String()
	read := b.Get(t, path).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, path, string(read.Data)).Want(t, 200)
	after := b.Get(t, path).Want(t, 200)
	if !strings.Contains(string(after.Data), `"secret_configured":true`) {
		t.Fatalf("the secret is lost: %s", after.Data)
	}
}

func TestSecretsStayInside(t *testing.T) {
	b := bench(t)
	const canary = "s3cr3t-canary"
	toy := create(t, b, `{"name":"a","secret":"`+canary+`"}`)
	path := "/toys/" + toy.ID.String()
	var sealed []byte
	if err := b.DB.QueryRow(t.Context(), `SELECT secret FROM toys`).Scan(&sealed); err != nil || len(sealed) == 0 || strings.Contains(string(sealed), canary) {
		t.Fatalf("stored %q, %v", sealed, err)
	}
	if plain, err := b.Secrets.Open(sealed, "toys", "secret", toy.ID.String()); err != nil || plain != canary {
		t.Fatalf("opened %q, %v", plain, err)
	}
	if _, err := b.Secrets.Open(sealed, "toys", "secret", uuid.NewString()); err == nil {
		t.Fatal("a secret opens in another row")
	}
	var details string
	if err := b.DB.QueryRow(t.Context(), `SELECT string_agg(details::text, ' ') FROM audit_entries`).Scan(&details); err != nil {
		t.Fatal(err)
	}
	seen := details + b.Logs.String() + fmt.Sprintf("%v %+v %#v", secret.New(canary), secret.New(canary), secret.New(canary))
	for _, a := range []*kittest.Answer{
		b.Get(t, path), b.Get(t, "/toys"),
		b.Do(t, "admin", http.MethodPut, path, `{"secret":"`+canary+`","count":99}`),
		b.Do(t, "admin", http.MethodPost, "/change-sets", `{"preview":true,"operations":[{"kind":"toy","verb":"update","id":"`+toy.ID.String()+`","body":{"secret":"`+canary+`"}}]}`),
	} {
		seen += string(a.Body)
	}
	if strings.Contains(seen, canary) {
		t.Fatal("the secret came out")
	}
	// The mask keeps the stored secret, a new value replaces it, null clears it.
	for _, step := range []struct{ body, want string }{{`{"secret":"***SET***"}`, canary}, {`{"secret":"new"}`, "new"}, {`{"secret":null}`, ""}} {
		b.Do(t, "admin", http.MethodPut, path, step.body).Want(t, 200)
		if err := b.DB.QueryRow(t.Context(), `SELECT secret FROM toys`).Scan(&sealed); err != nil {
			t.Fatal(err)
		}
		plain, err := secret.FromSealed(sealed).Open(b.Secrets, "toys", "secret", toy.ID.String())
		if err != nil || plain != step.want {
			t.Fatalf("%s: %q, %v", step.body, plain, err)
		}
	}
}

func TestBadInputNamesEveryField(t *testing.T) {
	b := bench(t)
	a := b.Do(t, "admin", http.MethodPost, "/toys", `{"name":"","color":"green","count":10,"addrs":["x"],"home":"192.0.2.0/33","tags":[1],"other":1}`).Want(t, 400)
	for _, field := range []string{"name", "color", "count", "addrs", "home", "tags", "other"} {
		if a.Error.Fields[field] == "" {
			t.Errorf("no complaint about %s: %s", field, a.Body)
		}
	}
	for _, body := range []string{``, `null`, `[]`, `"x"`, `{`, `{"name":"a"} x`, `{"name":"a","name":"b"}`, `{"Name":"a"}`, "{\"name\":\"\x00\"}", `{"name":"a\u0000"}`, "{\"name\":\"\xff\"}", strings.Repeat("[", 10000)} {
		b.Do(t, "admin", http.MethodPost, "/toys", body).Want(t, 400)
	}
	b.Do(t, "admin", http.MethodPost, "/toys", `{"name":"`+strings.Repeat("a", 2<<20)+`"}`).Want(t, 413)
	if b.Rows(t, "toys") != 0 || b.Rows(t, "audit_entries") != 0 {
		t.Fatal("something was stored")
	}
}

func TestDuplicateIsAConflictAtItsField(t *testing.T) {
	b := bench(t)
	create(t, b, `{"name":"a"}`)
	a := b.Do(t, "admin", http.MethodPost, "/toys", `{"name":"a"}`).Want(t, 409)
	if a.Error.Code != "conflict" || a.Error.Fields["name"] == "" {
		t.Fatalf("%s", a.Body)
	}
}

func TestCheckRollsBack(t *testing.T) {
	b := bench(t)
	b.Do(t, "admin", http.MethodPost, "/toys", `{"name":"forbidden"}`).WantField(t, "name")
	toy := create(t, b, `{"name":"a"}`)
	b.Do(t, "admin", http.MethodPut, "/toys/"+toy.ID.String(), `{"name":"forbidden"}`).WantField(t, "name")
	if b.Rows(t, "toys") != 1 || b.Audited(t, "toy.create") != 1 || b.Audited(t, "toy.update") != 0 {
		t.Fatal("a refused change left something")
	}
}

func TestETags(t *testing.T) {
	b := bench(t)
	toy := create(t, b, `{"name":"a"}`)
	path := "/toys/" + toy.ID.String()
	for _, p := range []string{path, "/toys"} {
		tag := b.Get(t, p).Want(t, 200).Header.Get("ETag")
		if tag == "" {
			t.Fatalf("%s has no ETag", p)
		}
		b.Do(t, "admin", http.MethodGet, p, nil, "If-None-Match", tag).Want(t, 304)
	}
	stale := b.Get(t, path).Header.Get("ETag")
	b.Do(t, "admin", http.MethodPut, path, `{"count":4}`, "If-Match", stale).Want(t, 200)
	if a := b.Do(t, "admin", http.MethodPut, path, `{"count":5}`, "If-Match", stale).Want(t, 412); a.Error.Code != "stale" {
		t.Fatalf("%s", a.Body)
	}
	b.Do(t, "admin", http.MethodDelete, path, nil, "If-Match", stale).Want(t, 412)
	b.Do(t, "admin", http.MethodPut, path, `{"count":6}`).Want(t, 200)
	b.Do(t, "admin", http.MethodGet, "/toys", nil, "If-None-Match", stale).Want(t, 200)
}

// The precondition of a create or a move is the tag of the whole list.
func TestIfMatchOfTheList(t *testing.T) {
	b := bench(t)
	first, second := create(t, b, `{"name":"a"}`), create(t, b, `{"name":"b"}`)
	tag := func(path string) string { return b.Get(t, path).Want(t, 200).Header.Get("ETag") }
	stale := tag("/toys")
	create(t, b, `{"name":"c"}`)
	order := fmt.Sprintf(`{"ids":[%q,%q]}`, second.ID, first.ID)
	move := "/toys/" + second.ID.String() + "/move"
	for path, body := range map[string]string{"/toys": `{"name":"d"}`, "/toys/reorder": order, move: `{"after":null}`} {
		b.Do(t, "admin", http.MethodPost, path, body, "If-Match", stale).Want(t, 412)
	}
	if names(t, b) != "abc" {
		t.Fatal("a refused change was made")
	}
	b.Do(t, "admin", http.MethodPost, "/toys", `{"name":"d"}`, "If-Match", tag("/toys")).Want(t, 201)
	b.Do(t, "admin", http.MethodPost, move, `{"after":null}`, "If-Match", tag("/toys/"+second.ID.String())).Want(t, 412)
	b.Do(t, "admin", http.MethodPost, move, `{"after":null}`, "If-Match", tag("/toys")).Want(t, 200)
	under := "/toys/" + first.ID.String() + "/parts"
	b.Do(t, "admin", http.MethodPost, under, `{"name":"x"}`, "If-Match", tag("/toys")).Want(t, 412)
	b.Do(t, "admin", http.MethodPost, under, `{"name":"x"}`, "If-Match", tag(under)).Want(t, 201)
	b.Do(t, "admin", http.MethodPost, "/change-sets", `{"operations":[{"kind":"toy","verb":"create","body":{"name":"e"}}]}`, "If-Match", tag("/toys")).Want(t, 412)
	if names(t, b) != "bacd" {
		t.Errorf("the order is %s", names(t, b))
	}
}

// A cached list is never stale, whoever wrote.
func TestKeptListFollowsEveryWriter(t *testing.T) {
	b := bench(t)
	names := func() string {
		t.Helper()
		var list []Toy
		b.Get(t, "/toys").Want(t, 200).Into(t, &list)
		var s string
		for _, x := range list {
			s += x.Name
		}
		return s
	}
	create(t, b, `{"name":"a"}`)
	create(t, b, `{"name":"b"}`)
	for _, step := range []struct {
		sql, want string
	}{
		{`UPDATE toys SET name = 'c' WHERE name = 'b'`, "ac"},
		{`UPDATE toys SET name = name`, "ac"},
		{`DELETE FROM toys WHERE name = 'c'`, "a"},
		{`INSERT INTO toys SELECT gen_random_uuid(), now(), now(), 'd', 'red', 1, '{}', '{}', null, 90, null`, "ad"},
		{`TRUNCATE toys CASCADE`, ""},
	} {
		names() // fill the cache
		dbtest.Exec(t, b.DB, step.sql)
		if got := names(); got != step.want {
			t.Fatalf("after %s: %q", step.sql, got)
		}
	}
	// A transaction that began earlier and commits later is noticed, too.
	create(t, b, `{"name":"x"}`)
	create(t, b, `{"name":"y"}`)
	err := b.DB.Write(t.Context(), func(tx *db.Tx) error {
		if _, err := tx.Exec(t.Context(), `UPDATE toys SET name = 'x2' WHERE name = 'x'`); err != nil {
			return err
		}
		dbtest.Exec(t, b.DB, `UPDATE toys SET name = 'y2' WHERE name = 'y'`)
		if got := names(); got != "xy2" {
			t.Fatalf("before the commit: %q", got)
		}
		return nil
	})
	if got := names(); err != nil || got != "x2y2" {
		t.Fatalf("after the commit: %q, %v", got, err)
	}
}

func TestParallelEditsWithIfMatchHaveOneWinner(t *testing.T) {
	b := bench(t)
	toy := create(t, b, `{"name":"a"}`)
	path := "/toys/" + toy.ID.String()
	tag := b.Get(t, path).Header.Get("ETag")
	statuses := make(chan int, 20)
	for range cap(statuses) {
		go func() { statuses <- b.Do(t, "admin", http.MethodPut, path, `{"count":4}`, "If-Match", tag).Status }()
	}
	wins := 0
	for range cap(statuses) {
		switch <-statuses {
		case 200:
			wins++
		case 412:
		default:
			t.Error("neither 200 nor 412")
		}
	}
	if wins != 1 {
		t.Fatalf("%d winners", wins)
	}
}

func TestUnknownAndMalformedIDs(t *testing.T) {
	b := bench(t)
	for _, id := range []string{uuid.NewString(), "x", "..%2f..%2fetc%2fpasswd", "%00", "0", "urn:uuid:" + uuid.NewString(), strings.Repeat("9", 5000)} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			body := `{"count":1}`
			if method == http.MethodDelete {
				body = ""
			}
			b.Do(t, "admin", method, "/toys/"+id, body).Want(t, 404)
		}
	}
}

func TestPriorityAndReorder(t *testing.T) {
	b := bench(t)
	first, second, third := create(t, b, `{"name":"c"}`), create(t, b, `{"name":"b"}`), create(t, b, `{"name":"a","priority":1}`)
	if first.Priority != 10 || second.Priority != 20 || third.Priority != 1 {
		t.Fatalf("priorities %d %d %d", first.Priority, second.Priority, third.Priority)
	}
	order := func() string {
		var list []Toy
		b.Get(t, "/toys").Into(t, &list)
		var names string
		for _, x := range list {
			names += x.Name
		}
		return names
	}
	if order() != "acb" {
		t.Fatalf("order %s", order())
	}
	b.Do(t, "admin", http.MethodPost, "/toys/reorder", fmt.Sprintf(`{"ids":[%q,%q,%q]}`, second.ID, third.ID, first.ID)).Want(t, 200)
	if order() != "bac" {
		t.Fatalf("order %s", order())
	}
	b.Do(t, "admin", http.MethodPost, "/toys/reorder", fmt.Sprintf(`{"ids":[%q,%q]}`, second.ID, third.ID)).WantField(t, "ids")
	b.Do(t, "admin", http.MethodPost, "/toys/reorder", fmt.Sprintf(`{"ids":[%q,%q,%q]}`, second.ID, second.ID, first.ID)).WantField(t, "ids")
	var details string
	if err := b.DB.QueryRow(t.Context(), `SELECT (details - 'change_set' - 'remote_ip')::text FROM audit_entries WHERE action = 'toy.reorder'`).Scan(&details); err != nil || details != `{"order": ["b", "a", "c"]}` {
		t.Errorf("audited %s, %v", details, err)
	}
	if order() != "bac" || b.Audited(t, "toy.reorder") != 1 {
		t.Fatalf("a refused order changed something: %s", order())
	}
}

func names(t *testing.T, b *kittest.Bench) string {
	t.Helper()
	var list []Toy
	b.Get(t, "/toys").Want(t, 200).Into(t, &list)
	var s string
	for _, x := range list {
		s += x.Name
	}
	return s
}

func TestMoveChangesOneRow(t *testing.T) {
	b := bench(t)
	toys := map[string]Toy{}
	for _, name := range []string{"a", "b", "c", "d"} {
		toys[name] = create(t, b, `{"name":"`+name+`"}`)
	}
	updated := func() (n int) {
		t.Helper()
		if err := b.DB.QueryRow(t.Context(), `SELECT count(*) FROM toys WHERE updated_at > created_at`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		dbtest.Exec(t, b.DB, `UPDATE toys SET updated_at = created_at`)
		return n
	}
	move := func(name, after string) *kittest.Answer {
		t.Helper()
		body := `{"after":null}`
		if after != "" {
			body = fmt.Sprintf(`{"after":%q}`, toys[after].ID)
		}
		return b.Do(t, "admin", http.MethodPost, "/toys/"+toys[name].ID.String()+"/move", body)
	}
	for _, step := range []struct {
		name, after, want string
		rows              int
	}{
		{"d", "", "dabc", 1},
		{"a", "c", "dbca", 1},
		{"d", "b", "bdca", 1},
		{"d", "b", "bdca", 1}, // it is there already
		{"c", "b", "bcda", 1},
		{"a", "b", "bacd", 1},
		{"d", "b", "bdac", 4}, // no room is left
		{"c", "b", "bcda", 1},
		{"a", "b", "bacd", 1},
	} {
		var got Toy
		a := move(step.name, step.after).Want(t, 200)
		a.Into(t, &got)
		if order := names(t, b); order != step.want || got.Name != step.name {
			t.Fatalf("%s after %q: order %s instead of %s, answer %s", step.name, step.after, order, step.want, a.Body)
		}
		if a.Header.Get("ETag") == "" || a.Header.Get("ETag") != b.Get(t, "/toys/"+got.ID.String()).Header.Get("ETag") {
			t.Errorf("the answer's ETag is %q", a.Header.Get("ETag"))
		}
		if n := updated(); n != step.rows {
			t.Errorf("%s after %q: %d rows have changed instead of %d", step.name, step.after, n, step.rows)
		}
	}
	var subject, details string
	audited := func(n int) {
		t.Helper()
		if err := b.DB.QueryRow(t.Context(), `SELECT subject, (details - 'change_set' - 'remote_ip')::text FROM audit_entries WHERE action = 'toy.move' ORDER BY id LIMIT 1 OFFSET $1`, n).Scan(&subject, &details); err != nil {
			t.Fatal(err)
		}
	}
	audited(0)
	if want := `{"id": "` + toys["d"].ID.String() + `", "after": null, "fields": {"priority": [40, 0]}}`; subject != "d" || details != want {
		t.Errorf("audited %s %s", subject, details)
	}
	if audited(1); subject != "a" || !strings.Contains(details, `"after": "c"`) {
		t.Errorf("audited %s %s", subject, details)
	}
	entries := b.Audited(t, "toy.move")
	move("a", "a").WantField(t, "after")
	path := "/toys/" + toys["a"].ID.String() + "/move"
	b.Do(t, "admin", http.MethodPost, path, fmt.Sprintf(`{"after":%q}`, uuid.NewString())).WantField(t, "after")
	b.Do(t, "admin", http.MethodPost, path, `{}`).WantField(t, "after")
	b.Do(t, "admin", http.MethodPost, "/toys/"+uuid.NewString()+"/move", `{"after":null}`).Want(t, 404)
	b.Do(t, "viewer", http.MethodPost, path, `{"after":null}`).Want(t, 403)
	if names(t, b) != "bacd" || b.Audited(t, "toy.move") != entries {
		t.Error("a refused move changed something")
	}
}

// Equal and extreme priorities leave no room, but moves still work.
func TestMoveAmongAnyPriorities(t *testing.T) {
	b := bench(t)
	dbtest.Exec(t, b.DB, `ALTER TABLE toys ALTER priority TYPE bigint`)
	for _, x := range []struct{ name, priority string }{{"a", "-9223372036854775808"}, {"b", "7"}, {"c", "7"}, {"d", "9223372036854775807"}} {
		create(t, b, `{"name":"`+x.name+`","priority":`+x.priority+`}`)
	}
	for _, step := range []struct{ name, after, want string }{{"a", "d", "bcda"}, {"b", "c", "cbda"}, {"a", "", "acbd"}} {
		var list []Toy
		b.Get(t, "/toys").Into(t, &list)
		ids := map[string]string{"": "null"}
		for _, toy := range list {
			ids[toy.Name] = `"` + toy.ID.String() + `"`
		}
		b.Do(t, "admin", http.MethodPost, "/toys/"+strings.Trim(ids[step.name], `"`)+"/move", `{"after":`+ids[step.after]+`}`).Want(t, 200)
		if got := names(t, b); got != step.want {
			t.Fatalf("%s after %q: %s instead of %s", step.name, step.after, got, step.want)
		}
	}
}

// If rows share a priority, moving one to its own place makes room for another between them.
func TestMoveMakesRoom(t *testing.T) {
	b := bench(t)
	a := create(t, b, `{"name":"a","priority":10}`)
	second := create(t, b, `{"name":"b","priority":10}`)
	create(t, b, `{"name":"c","priority":20}`)
	b.Do(t, "admin", http.MethodPost, "/toys/"+second.ID.String()+"/move", map[string]any{"after": a.ID}).Want(t, 200)
	create(t, b, `{"name":"x","priority":10}`)
	if got := names(t, b); got != "axbc" {
		t.Errorf("%s", got)
	}
}

// An order may list more rows than other lists have items.
func TestOrderOfManyRows(t *testing.T) {
	b := bench(t)
	dbtest.Exec(t, b.DB, `INSERT INTO toys SELECT gen_random_uuid(), now(), now(), 't' || n, 'red', 1, '{}', '{}', null, n, null FROM generate_series(1, 1600) n`)
	var list []Toy
	b.Get(t, "/toys").Into(t, &list)
	ids := make([]uuid.UUID, len(list))
	for i, toy := range list {
		ids[len(ids)-1-i] = toy.ID
	}
	b.Do(t, "admin", http.MethodPost, "/toys/reorder", map[string]any{"ids": ids}).Want(t, 200)
	b.Do(t, "admin", http.MethodPost, "/toys/"+ids[1599].String()+"/move", map[string]any{"after": ids[0]}).Want(t, 200)
	b.Get(t, "/toys").Into(t, &list)
	if list[0].ID != ids[0] || list[1].ID != ids[1599] || list[2].ID != ids[1] || list[1599].ID != ids[1598] {
		t.Fatal("another order than the wanted one")
	}
	var subject string
	if err := b.DB.QueryRow(t.Context(), `SELECT subject FROM audit_entries WHERE action = 'toy.reorder'`).Scan(&subject); err != nil || subject != "every toy" {
		t.Errorf("the entry's subject is %q, %v", subject, err)
	}
	b.Do(t, "admin", http.MethodPost, "/toys", map[string]any{"name": "many", "tags": make([]string, 1001)}).WantField(t, "tags")
}

func TestChildrenBelongToTheirParent(t *testing.T) {
	b := bench(t)
	mine, other := create(t, b, `{"name":"a"}`), create(t, b, `{"name":"b"}`)
	var part Part
	under := "/toys/" + mine.ID.String() + "/parts"
	made := b.Do(t, "admin", http.MethodPost, under, `{"name":"wheel"}`).Want(t, 201)
	made.Into(t, &part)
	if part.ToyID != mine.ID || made.Header.Get("Location") != "/api/v1"+under+"/"+part.ID.String() {
		t.Fatalf("%s %v", made.Body, made.Header)
	}
	wrong := "/toys/" + other.ID.String() + "/parts/" + part.ID.String()
	b.Get(t, wrong).Want(t, 404)
	b.Do(t, "admin", http.MethodPut, wrong, `{"name":"x"}`).Want(t, 404)
	b.Do(t, "admin", http.MethodDelete, wrong, nil).Want(t, 404)
	b.Do(t, "admin", http.MethodPost, "/toys/"+uuid.NewString()+"/parts", `{"name":"x"}`).Want(t, 404)
	b.Get(t, "/toys/"+uuid.NewString()+"/parts").Want(t, 404)
	b.Do(t, "admin", http.MethodPut, under+"/"+part.ID.String(), `{"name":"axle"}`).Want(t, 200)
	if a := b.Do(t, "admin", http.MethodDelete, "/toys/"+mine.ID.String(), nil).Want(t, 409); a.Error.Code != "conflict" {
		t.Fatalf("%s", a.Body)
	}
	b.Do(t, "admin", http.MethodDelete, under+"/"+part.ID.String(), nil).Want(t, 200)
	b.Do(t, "admin", http.MethodDelete, "/toys/"+mine.ID.String(), nil).Want(t, 200)
}

func TestChildrenWithAPlaceOfTheirOwn(t *testing.T) {
	b := bench(t)
	mine, other := create(t, b, `{"name":"a"}`), create(t, b, `{"name":"b"}`)
	under := "/toys/" + mine.ID.String() + "/wheels"
	for _, path := range []string{under, "/wheels"} {
		var wheel Wheel
		made := b.Do(t, "admin", http.MethodPost, path, fmt.Sprintf(`{"name":"front","toy_id":%q}`, mine.ID)).Want(t, 201)
		made.Into(t, &wheel)
		if wheel.ToyID != mine.ID || made.Header.Get("Location") != "/api/v1/wheels/"+wheel.ID.String() {
			t.Fatalf("%s: %s %v", path, made.Body, made.Header)
		}
		b.Get(t, "/wheels/"+wheel.ID.String()).Want(t, 200)
	}
	b.Do(t, "admin", http.MethodPost, under, `{"name":"rear"}`).Want(t, 201)
	b.Do(t, "admin", http.MethodPost, "/wheels", fmt.Sprintf(`{"name":"rear","toy_id":%q}`, other.ID)).Want(t, 201)
	b.Do(t, "admin", http.MethodPost, under, fmt.Sprintf(`{"name":"x","toy_id":%q}`, other.ID)).WantField(t, "toy_id")
	b.Do(t, "admin", http.MethodPost, "/wheels", fmt.Sprintf(`{"name":"x","toy_id":%q}`, uuid.NewString())).WantField(t, "toy_id")
	b.Do(t, "admin", http.MethodPost, "/toys/"+uuid.NewString()+"/wheels", `{"name":"x"}`).Want(t, 404)
	for path, want := range map[string]int{under: 3, "/toys/" + other.ID.String() + "/wheels": 1, "/wheels": 4} {
		var list []Wheel
		if b.Get(t, path).Want(t, 200).Into(t, &list); len(list) != want {
			t.Errorf("%s has %d instead of %d", path, len(list), want)
		}
	}
	if n := b.Audited(t, "wheel.create"); n != 4 {
		t.Errorf("%d audited", n)
	}
}

func TestChangeSetIsAllOrNothing(t *testing.T) {
	b := bench(t)
	id := uuid.NewString()
	set := func(last string) string {
		return `{"reason":"spring","operations":[
			{"kind":"toy","verb":"create","id":"` + id + `","body":{"name":"a"}},
			{"kind":"toy","verb":"update","id":"` + id + `","body":{"count":5}},
			{"kind":"toy","verb":"create","body":` + last + `}]}`
	}
	a := b.Do(t, "admin", http.MethodPost, "/change-sets", set(`{"name":"forbidden"}`)).Want(t, 400)
	if a.Error.Fields["operations.2.body.name"] == "" {
		t.Fatalf("%s", a.Body)
	}
	if b.Rows(t, "toys") != 0 || b.Rows(t, "audit_entries") != 0 {
		t.Fatal("half a change set")
	}
	b.Do(t, "admin", http.MethodPost, "/change-sets", set(`{"name":"b"}`)).Want(t, 200)
	if b.Rows(t, "toys") != 2 || b.Audited(t, "toy.create") != 2 || b.Audited(t, "toy.update") != 1 {
		t.Fatal("not the whole change set")
	}
	b.Do(t, "admin", http.MethodPost, "/change-sets", `{"operations":[{"kind":"toy","verb":"explode"}]}`).Want(t, 400)
	b.Do(t, "admin", http.MethodPost, "/change-sets", `{"operations":[{"kind":"nothing","verb":"create","body":{}}]}`).WantField(t, "operations.0.kind")
	b.Do(t, "admin", http.MethodPost, "/change-sets", `{"operations":[]}`).WantField(t, "operations")
	if b.Rows(t, "toys") != 2 {
		t.Fatal("a refused change set changed something")
	}
}

func TestViewersOnlyRead(t *testing.T) {
	b := bench(t)
	toy := create(t, b, `{"name":"a"}`)
	b.Do(t, "viewer", http.MethodGet, "/toys", nil).Want(t, 200)
	b.Do(t, "viewer", http.MethodHead, "/toys", nil).Want(t, 200)
	for _, path := range []string{"/toys/" + toy.ID.String(), "/toys/x"} {
		b.Do(t, "viewer", http.MethodPut, path, `{`).Want(t, 403)
		b.Do(t, "viewer", http.MethodDelete, path, nil).Want(t, 403)
	}
	b.Do(t, "viewer", http.MethodPost, "/toys", `{`).Want(t, 403)
	b.Do(t, "", http.MethodGet, "/toys", nil).Want(t, 401)
	b.Do(t, "", http.MethodPost, "/toys", `{`).Want(t, 401)
	if b.Audited(t, "toy.create") != 1 {
		t.Fatal("a refused request was audited")
	}
}
