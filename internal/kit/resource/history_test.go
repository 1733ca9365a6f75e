package resource_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/resource"
)

// remembering returns a bench whose toys have a history.
func remembering(t *testing.T) *kittest.Bench {
	t.Helper()
	return rememberingOf(t, toys())
}

func rememberingOf(t *testing.T, kind resource.Kind[Toy]) *kittest.Bench {
	t.Helper()
	b := benchOf(t, kind)
	for _, table := range []string{"toys", "parts", "wheels"} {
		dbtest.Exec(t, b.DB, fmt.Sprintf(`SELECT change_keep('%s', 'id', 'shared')`, table))
	}
	return b
}

func sets(t *testing.T, b *kittest.Bench, query string) (list []resource.Stored) {
	t.Helper()
	b.Get(t, "/change-sets"+query).Want(t, 200).Into(t, &list)
	return list
}

func whole(t *testing.T, b *kittest.Bench, id string) (set resource.StoredWhole) {
	t.Helper()
	b.Get(t, "/change-sets/"+id).Want(t, 200).Into(t, &set)
	return set
}

// rows returns a collection without its times.
func rows(t *testing.T, b *kittest.Bench, path string) string {
	t.Helper()
	var list []map[string]any
	b.Get(t, path).Want(t, 200).Into(t, &list)
	for _, row := range list {
		delete(row, "created_at")
		delete(row, "updated_at")
	}
	return fmt.Sprint(list)
}

func TestHistoryTellsWhoChangedWhat(t *testing.T) {
	b := remembering(t)
	made := b.Do(t, "admin", http.MethodPost, "/toys", `{"name":"ball","secret":"s3cr3t-canary"}`, "Gateway-Reason", "a%20new%20one%20%E2%9C%93").Want(t, 201)
	var toy Toy
	made.Into(t, &toy)
	path := "/toys/" + toy.ID.String()
	id := made.Header.Get(httpd.ChangeSetHeader)
	set := whole(t, b, id)
	if set.Actor != "admin@example.net" || set.Reason != "a new one ✓" || len(set.Rows) != 1 || set.RequestID == "" || set.Local {
		t.Fatalf("%+v", set)
	}
	if row := set.Rows[0]; row.Kind != "toy" || row.Verb != "create" || row.Name != "ball" || string(row.Fields["name"][1]) != `"ball"` || !slices.Equal(row.Secrets, []string{"secret"}) ||
		!slices.Equal(row.Usual, []string{"enter_again", "color", "count", "tags", "addrs", "home"}) {
		t.Errorf("%+v", row)
	}
	updated := b.Do(t, "admin", http.MethodPut, path, `{"color":"blue","secret":"another-canary"}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, path, `{"color":"blue"}`).Want(t, 200) // changes nothing
	if a := b.Do(t, "admin", http.MethodPut, path, `{"color":"blue"}`); a.Header.Get(httpd.ChangeSetHeader) != "" {
		t.Error("what changes nothing is no change set")
	}
	b.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200)
	list := sets(t, b, "")
	if len(list) != 3 || list[2].ID.String() != id || list[0].Kinds[0] != (resource.KindSum{Kind: "toy", Deleted: 1}) {
		t.Fatalf("%+v", list)
	}
	set = whole(t, b, updated.Header.Get(httpd.ChangeSetHeader))
	if row := set.Rows[0]; row.Verb != "update" || len(row.Usual) > 0 || len(row.Fields) != 1 || string(row.Fields["color"][0]) != `"red"` || !slices.Equal(row.Secrets, []string{"secret"}) {
		t.Errorf("%+v", row)
	}
	var past []resource.RowPast
	b.Get(t, path+"/history").Want(t, 200).Into(t, &past)
	if len(past) != 3 || past[0].Verb != "delete" || past[2].Reason != "a new one ✓" || past[2].Actor != "admin@example.net" {
		t.Errorf("%+v", past)
	}
	for _, path := range []string{"/change-sets", "/change-sets/" + id, path + "/history"} {
		if a := b.Get(t, path); strings.Contains(string(a.Body), "canary") {
			t.Errorf("%s shows a secret: %s", path, a.Body)
		}
	}
	var entries int
	if err := b.DB.QueryRow(t.Context(), `SELECT count(*) FROM audit_entries WHERE details ->> 'change_set' IS NOT NULL`).Scan(&entries); err != nil || entries != 3 {
		t.Errorf("%d audit entries lead to their change set: %v", entries, err)
	}
	for query, want := range map[string]int{
		"?actor=ADMIN": 3, "?actor=else": 0, "?reason=new": 1, "?kind=toy": 3, "?kind=part": 0, "?kind=toy&id=" + toy.ID.String(): 3, "?limit=2": 2, "?component=ntp": 0,
		"?before=" + list[1].ID.String(): 1, "?from=2100-01-01T00:00:00Z": 0, "?to=2100-01-01T00:00:00Z": 3,
	} {
		if got := sets(t, b, query); len(got) != want {
			t.Errorf("%s: %d sets instead of %d", query, len(got), want)
		}
	}
	b.Get(t, "/change-sets?kind=nothing").WantField(t, "kind")
	b.Get(t, "/change-sets?limit=501").WantField(t, "limit")
	b.Do(t, "admin", http.MethodPost, "/toys", `{"name":"x"}`, "Gateway-Reason", "%zz").WantField(t, "Gateway-Reason")
}

func TestStateAtATime(t *testing.T) {
	b := remembering(t)
	a := create(t, b, `{"name":"a","priority":10}`)
	create(t, b, `{"name":"b","priority":20}`)
	before := rows(t, b, "/toys")
	at := time.Now().UTC().Format(time.RFC3339Nano)
	if then := rows(t, b, "/toys?at="+at); then != before { // nothing has changed since
		t.Errorf("%s\n%s", then, before)
	}
	b.Do(t, "admin", http.MethodPut, "/toys/"+a.ID.String(), `{"name":"z","priority":30}`).Want(t, 200)
	c := create(t, b, `{"name":"c"}`)
	b.Do(t, "admin", http.MethodPost, "/toys/"+c.ID.String()+"/move", `{"after":null}`).Want(t, 200)
	b.Do(t, "admin", http.MethodDelete, "/toys/"+a.ID.String(), nil).Want(t, 200)
	if then := rows(t, b, "/toys?at="+at); then != before {
		t.Errorf("%s\n%s", then, before)
	}
	var toy Toy
	b.Get(t, "/toys/"+a.ID.String()+"?at="+at).Want(t, 200).Into(t, &toy)
	if toy.Name != "a" || toy.Priority != 10 {
		t.Errorf("%+v", toy)
	}
	b.Get(t, "/toys/"+c.ID.String()+"?at="+at).Want(t, 404)
	b.Get(t, "/toys?at=2000-01-01T00:00:00Z").WantField(t, "at")
	b.Get(t, "/toys?at=2100-01-01T00:00:00Z").WantField(t, "at")
	b.Get(t, "/toys?at=yesterday").WantField(t, "at")
}

func TestRevertOfOneChangeSet(t *testing.T) {
	b := remembering(t)
	toy := create(t, b, `{"name":"a","color":"red","count":1,"secret":"first-canary"}`)
	path := "/toys/" + toy.ID.String()
	before := rows(t, b, "/toys")
	id := b.Do(t, "admin", http.MethodPut, path, `{"color":"blue","count":2,"secret":"second-canary"}`).Want(t, 200).Header.Get(httpd.ChangeSetHeader)

	var out resource.Reverted
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", `{"preview":true}`).Want(t, 200).Into(t, &out)
	if len(out.Changes) != 1 || out.Changes[0].Name != "a" || len(out.Conflicts) != 0 || rows(t, b, "/toys") == before {
		t.Fatalf("%+v", out)
	}
	b.Do(t, "viewer", http.MethodPost, "/change-sets/"+id+"/revert", `{"preview":true}`).Want(t, 403)
	back := b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", map[string]any{"basis": out.Basis, "reason": "it was wrong"}).Want(t, 200)
	if now := rows(t, b, "/toys"); now != before {
		t.Errorf("%s\n%s", now, before)
	}
	set := whole(t, b, back.Header.Get(httpd.ChangeSetHeader))
	if set.Reverts == nil || set.Reverts.String() != id || set.Reason != "it was wrong" || whole(t, b, id).RevertedBy == nil {
		t.Errorf("%+v", set)
	}
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", map[string]any{"basis": out.Basis}).Want(t, 412)
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", nil).Want(t, 409)

	// A later edit of another field stays; one of the same field is a conflict.
	id = b.Do(t, "admin", http.MethodPut, path, `{"color":"blue","count":5}`).Want(t, 200).Header.Get(httpd.ChangeSetHeader)
	b.Do(t, "admin", http.MethodPut, path, `{"count":6,"tags":["later"]}`).Want(t, 200)
	refused := b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", nil).Want(t, 409)
	if !strings.Contains(string(refused.Body), `"field":"count"`) {
		t.Errorf("%s", refused.Body)
	}
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", `{"preview":true}`).Want(t, 200).Into(t, &out)
	if len(out.Conflicts) != 1 || out.Conflicts[0].Field != "count" || string(out.Conflicts[0].Then) != "1" || string(out.Conflicts[0].Now) != "6" || out.Conflicts[0].Actor != "admin@example.net" || out.Conflicts[0].At == nil {
		t.Fatalf("%+v", out.Conflicts)
	}
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", map[string]any{"choices": []any{map[string]any{"kind": "toy", "id": toy.ID, "field": "count", "take": "now"}}}).Want(t, 200)
	var now Toy
	if b.Get(t, path).Into(t, &now); now.Color != "red" || now.Count != 6 || len(now.Tags) != 1 {
		t.Errorf("%+v", now)
	}
}

func TestRevertOfCreatesAndDeletes(t *testing.T) {
	b := remembering(t)
	dbtest.Exec(t, b.DB, `ALTER TABLE parts DROP CONSTRAINT parts_toy_id_fkey, ADD CONSTRAINT parts_toy_id_fkey FOREIGN KEY (toy_id) REFERENCES toys ON DELETE CASCADE`)
	toy := create(t, b, `{"name":"a","secret":"first-canary"}`)
	path := "/toys/" + toy.ID.String()
	b.Do(t, "admin", http.MethodPost, path+"/parts", `{"name":"wheel"}`).Want(t, 201)
	before, parts := rows(t, b, "/toys"), rows(t, b, path+"/parts")
	id := b.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200).Header.Get(httpd.ChangeSetHeader)
	if set := whole(t, b, id); len(set.Rows) != 2 {
		t.Fatalf("%+v", set.Rows)
	}
	// Another row has taken the name.
	other := create(t, b, `{"name":"a"}`)
	var out resource.Reverted
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", `{"preview":true}`).Want(t, 200).Into(t, &out)
	if len(out.Unrestored) == 0 || out.Unrestored[0].Kind != "toy" {
		t.Fatalf("%+v", out)
	}
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", nil).Want(t, 409)
	b.Do(t, "admin", http.MethodDelete, "/toys/"+other.ID.String(), nil).Want(t, 200)
	back := b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", nil).Want(t, 200).Header.Get(httpd.ChangeSetHeader)
	if rows(t, b, "/toys") != before || rows(t, b, path+"/parts") != parts {
		t.Errorf("%s %s", rows(t, b, "/toys"), rows(t, b, path+"/parts"))
	}
	// Reverting the revert would delete what was added to the row since.
	b.Do(t, "admin", http.MethodPost, path+"/parts", `{"name":"later"}`).Want(t, 201)
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+back+"/revert", `{"preview":true}`).Want(t, 200).Into(t, &out)
	if len(out.Conflicts) != 1 || out.Conflicts[0].Field != "" || !strings.Contains(string(out.Conflicts[0].Now), "part ") {
		t.Fatalf("%+v", out.Conflicts)
	}
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+back+"/revert", `{"take":"then"}`).Want(t, 200)
	if now := rows(t, b, "/toys"); now != "[]" {
		t.Error(now)
	}
}

func TestRevertToATime(t *testing.T) {
	b := remembering(t)
	a, c := create(t, b, `{"name":"a"}`), create(t, b, `{"name":"c"}`)
	b.Do(t, "admin", http.MethodPost, "/toys/"+a.ID.String()+"/wheels", `{"name":"w"}`).Want(t, 201)
	before, wheels := rows(t, b, "/toys"), rows(t, b, "/wheels")
	at := time.Now().UTC().Format(time.RFC3339Nano)
	d := create(t, b, `{"name":"d"}`)
	b.Do(t, "admin", http.MethodPost, "/toys/"+d.ID.String()+"/wheels", `{"name":"x"}`).Want(t, 201)
	b.Do(t, "admin", http.MethodPut, "/toys/"+a.ID.String(), `{"name":"b"}`).Want(t, 200)
	b.Do(t, "admin", http.MethodDelete, "/toys/"+c.ID.String(), nil).Want(t, 200)
	create(t, b, `{"name":"a"}`)
	one := b.Do(t, "admin", http.MethodPost, "/configuration/revert", map[string]any{"at": at, "kinds": []string{"toy"}, "id": c.ID}).Want(t, 200)
	if n := len(whole(t, b, one.Header.Get(httpd.ChangeSetHeader)).Rows); n != 1 {
		t.Errorf("%d rows", n)
	}
	b.Do(t, "admin", http.MethodPost, "/configuration/revert", map[string]any{"at": at}).Want(t, 200)
	if rows(t, b, "/toys") != before || rows(t, b, "/wheels") != wheels {
		t.Errorf("%s\n%s\n%s\n%s", before, rows(t, b, "/toys"), wheels, rows(t, b, "/wheels"))
	}
	b.Do(t, "admin", http.MethodPost, "/configuration/revert", map[string]any{"at": at}).Want(t, 409)
	b.Do(t, "admin", http.MethodPost, "/configuration/revert", map[string]any{"at": at, "kinds": []string{"none"}}).WantField(t, "kinds.0")
	b.Do(t, "admin", http.MethodPost, "/configuration/revert", map[string]any{"at": at, "id": c.ID}).WantField(t, "kinds")
}

// Rows may be listed and rendered in the order of their age: a restored row keeps its age.
func TestARowThatComesBackIsAsOldAsItWas(t *testing.T) {
	b := remembering(t)
	toy := create(t, b, `{"name":"a"}`)
	path := "/toys/" + toy.ID.String()
	set := b.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200).Header.Get(httpd.ChangeSetHeader)
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+set+"/revert", nil).Want(t, 200)
	var back Toy
	if b.Get(t, path).Want(t, 200).Into(t, &back); !back.CreatedAt.Equal(toy.CreatedAt) {
		t.Errorf("%s %s", toy.CreatedAt, back.CreatedAt)
	}
}

// randomSets is how many random change sets are reverted, each of which must restore the state before it.
func randomSets(t *testing.T) int { return longtest.Number(t, "GATEWAY_REVERTS", 60, 60) }

func TestRandomChangeSetsAreReverted(t *testing.T) {
	b := remembering(t)
	dbtest.Exec(t, b.DB, `ALTER TABLE parts DROP CONSTRAINT parts_toy_id_fkey, ADD CONSTRAINT parts_toy_id_fkey FOREIGN KEY (toy_id) REFERENCES toys ON DELETE CASCADE`)
	random := rand.New(rand.NewPCG(longtest.Seed(t, 1), 2))
	for n := range randomSets(t) {
		var toys []Toy
		b.Get(t, "/toys").Into(t, &toys)
		state := func() string { return rows(t, b, "/toys") + rows(t, b, "/wheels") }
		before := state()
		var ops []any
		for i := range 1 + random.IntN(4) {
			name := fmt.Sprintf("t%d-%d", n, i)
			switch choice := random.IntN(3); {
			case choice == 0 || len(toys) == 0:
				ops = append(ops, map[string]any{"kind": "toy", "verb": "create", "body": map[string]any{"name": name, "color": []string{"red", "blue"}[random.IntN(2)], "secret": name}})
			case choice == 1:
				x := random.IntN(len(toys))
				ops = append(ops, map[string]any{"kind": "toy", "verb": "update", "id": toys[x].ID, "body": map[string]any{"name": name, "tags": []string{name}, "count": 1 + random.IntN(9)}})
			default:
				x := random.IntN(len(toys))
				ops = append(ops, map[string]any{"kind": "toy", "verb": "delete", "id": toys[x].ID})
				toys = slices.Delete(toys, x, x+1)
			}
		}
		a := b.Do(t, "admin", http.MethodPost, "/change-sets", map[string]any{"operations": ops}).Want(t, 200)
		id := a.Header.Get(httpd.ChangeSetHeader)
		after := state()
		back := b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", nil).Want(t, 200)
		if now := state(); now != before {
			t.Fatalf("set %d: %v\n%s\n%s", n, ops, before, now)
		}
		// Half of the reverts are reverted in turn.
		if random.IntN(2) == 0 {
			b.Do(t, "admin", http.MethodPost, "/change-sets/"+back.Header.Get(httpd.ChangeSetHeader)+"/revert", nil).Want(t, 200)
			if now := state(); now != after {
				t.Fatalf("set %d, again: %s\n%s", n, after, now)
			}
		}
	}
}

// Edits, and reverts of edits that are not the newest: a field that has changed since is a conflict, and nothing happens; all
// others are restored or stay as they are.
func TestRevertsLoseNoLaterEdit(t *testing.T) {
	b := remembering(t)
	random := rand.New(rand.NewPCG(longtest.Seed(t, 3), 4))
	type edit struct {
		id       string
		was, now map[string]any
	}
	fields := map[string]func() any{
		"name":  func() any { return fmt.Sprintf("n%d", random.IntN(4)) },
		"color": func() any { return []string{"red", "blue"}[random.IntN(2)] },
		"count": func() any { return float64(1 + random.IntN(4)) },
	}
	path := "/toys/" + create(t, b, `{"name":"n0"}`).ID.String()
	current := func() map[string]any {
		var toy map[string]any
		b.Get(t, path).Want(t, 200).Into(t, &toy)
		return map[string]any{"name": toy["name"], "color": toy["color"], "count": toy["count"]}
	}
	var edits []edit
	conflicts, reverted := 0, 0
	for range 4 * randomSets(t) {
		was := current()
		if len(edits) == 0 || random.IntN(3) > 0 {
			body := map[string]any{}
			for _, name := range slices.Sorted(maps.Keys(fields)) {
				if random.IntN(2) == 0 {
					body[name] = fields[name]()
				}
			}
			a := b.Do(t, "admin", http.MethodPut, path, body).Want(t, 200)
			e := edit{a.Header.Get(httpd.ChangeSetHeader), map[string]any{}, map[string]any{}}
			for name, value := range current() {
				if value != was[name] {
					e.was[name], e.now[name] = was[name], value
				}
			}
			if len(e.now) > 0 {
				edits = append(edits, e)
			}
			continue
		}
		e := edits[random.IntN(len(edits))]
		want, torn, idle := maps.Clone(was), false, true
		for name := range e.now {
			switch was[name] {
			case e.was[name]:
			case e.now[name]:
				want[name], idle = e.was[name], false
			default:
				torn = true
			}
		}
		a := b.Do(t, "admin", http.MethodPost, "/change-sets/"+e.id+"/revert", nil)
		switch {
		case torn:
			a.Want(t, 409)
			want = was
			conflicts++
		case idle:
			a.Want(t, 409) // nothing to revert
		default:
			a.Want(t, 200)
			reverted++
		}
		if now := current(); !maps.Equal(now, want) {
			t.Fatalf("%v, %v: %v instead of %v", e, was, now, want)
		}
	}
	if conflicts == 0 || reverted == 0 {
		t.Errorf("%d conflicts, %d reverts", conflicts, reverted)
	}
}

func TestHistoryIsPruned(t *testing.T) {
	b := remembering(t)
	var toy Toy
	for i := range 10 {
		toy = create(t, b, fmt.Sprintf(`{"name":"t%d"}`, i))
	}
	early := time.Now().UTC().Format(time.RFC3339Nano)
	b.Do(t, "admin", http.MethodPut, "/toys/"+toy.ID.String(), `{"count":9}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, "/toys/"+toy.ID.String(), `{"count":8}`).Want(t, 200)
	if n, err := b.Changes.Prune(t.Context(), time.Now().Add(-time.Hour), 1); err != nil || n != 11 {
		t.Fatal(n, err)
	}
	if list := sets(t, b, ""); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	b.Get(t, "/toys?at="+early).WantField(t, "at")
	var left int
	if err := b.DB.QueryRow(t.Context(), `SELECT count(*) FROM change_rows`).Scan(&left); err != nil || left != 1 {
		t.Errorf("%d rows are left: %v", left, err)
	}
	if n, err := b.Changes.Prune(t.Context(), time.Now().Add(time.Hour), 100); err != nil || n != 1 {
		t.Error(n, err)
	}
}

func TestWhatWaitsIsNotPruned(t *testing.T) {
	b := remembering(t)
	toy := create(t, b, `{"name":"a"}`)
	path := "/toys/" + toy.ID.String()
	id := waiting(t, b, http.MethodPut, path, `{"color":"blue"}`)
	create(t, b, `{"name":"c"}`)
	if n, err := b.Changes.Prune(t.Context(), time.Now().Add(time.Hour), 1); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	if out := discard(t, b, id); out.State != "taken_back" || len(out.Unrestored) != 0 {
		t.Errorf("%+v", out)
	}
	if b.Get(t, path).Into(t, &toy); toy.Color != "red" {
		t.Errorf("%+v", toy)
	}
}

// However much is changed, and however often components apply it, the history on disk stays within its retention.
func TestHistoryOnDiskIsBoundedByTheRetention(t *testing.T) {
	b := remembering(t)
	const keep, components, rounds, settled = 20, 2, 8, 3
	path := "/toys/" + create(t, b, `{"name":"a"}`).ID.String()
	kept := []string{"change_sets", "change_rows", "change_applies"}
	text := make([]byte, 4<<10) // incompressible
	random := rand.NewChaCha8([32]byte{})
	var first int64
	for round := range rounds {
		for i := range 3 * keep {
			b.Do(t, "admin", http.MethodPut, path, fmt.Sprintf(`{"count":%d}`, 1+i%9)).Want(t, 200)
		}
		for i := range 5 * keep { // a component that fails and is retried again and again
			if _, err := random.Read(text); err != nil {
				t.Fatal(err)
			}
			a := changes.Apply{Component: fmt.Sprintf("c%d", i%components), Revision: 1, EndedAt: time.Now(), Way: changes.Reload, State: "degraded", Files: []changes.File{{Path: "/etc/x", Diff: fmt.Sprintf("%x", text)}}}
			if err := b.Changes.Applied(t.Context(), []changes.Apply{a}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Changes.Prune(t.Context(), time.Now().Add(-time.Hour), keep); err != nil {
			t.Fatal(err)
		}
		for i, table := range kept {
			if n, most := b.Rows(t, table), []int{keep, keep, components * keep}[i]; n == 0 || n > most {
				t.Errorf("%s has %d rows, which may have %d", table, n, most)
			}
			dbtest.Exec(t, b.DB, "VACUUM "+table) // as autovacuum does
		}
		var bytes int64
		if err := b.DB.QueryRow(t.Context(), `SELECT sum(pg_total_relation_size(x::regclass)) FROM unnest($1::text[]) x`, kept).Scan(&bytes); err != nil {
			t.Fatal(err)
		}
		if round < settled {
			first = bytes
		}
		if bytes > first+first/2 {
			t.Errorf("after round %d the history has %d bytes, and %d after round %d", round, bytes, first, settled)
		}
	}
}

// Applies are pruned beyond their limit even if no set is old enough to be pruned.
func TestAppliesArePrunedWithoutSets(t *testing.T) {
	b := remembering(t)
	create(t, b, `{"name":"a"}`)
	list := make([]changes.Apply, 9)
	for i := range list {
		list[i] = changes.Apply{Component: "c", Revision: 1, EndedAt: time.Now(), Way: changes.None, State: "degraded"}
	}
	if err := b.Changes.Applied(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Changes.Prune(t.Context(), time.Now().Add(-time.Hour), 4); err != nil || n != 0 || b.Rows(t, "change_applies") != 4 {
		t.Errorf("%d sets, %d applies, %v", n, b.Rows(t, "change_applies"), err)
	}
}
