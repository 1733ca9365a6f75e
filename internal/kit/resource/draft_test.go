package resource_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
)

// drafting returns a bench whose callers are users, who may have drafts.
func drafting(t *testing.T) *kittest.Bench {
	t.Helper()
	b := remembering(t)
	for _, role := range []string{"admin", "viewer"} {
		dbtest.Exec(t, b.DB, fmt.Sprintf(`INSERT INTO account_users (id, created_at, updated_at, email, name, role, active, password, totp_enabled, oidc_subject)
			VALUES ('%s', now(), now(), '%s@example.net', '', '%s', true, '', false, '')`, userID(role), role, role))
	}
	return b
}

func userID(role string) string { return uuid.NewSHA1(uuid.Nil, []byte(role)).String() }

func add(t *testing.T, b *kittest.Bench, verb, kind, id, body string) *kittest.Answer {
	t.Helper()
	op := fmt.Sprintf(`{"kind":%q,"verb":%q`, kind, verb)
	if id != "" {
		op += fmt.Sprintf(`,"id":%q`, id)
	}
	if body != "" {
		op += `,"body":` + body
	}
	return b.Do(t, "admin", http.MethodPost, "/draft/operations", `{"operations":[`+op+`}]}`)
}

func drafted(t *testing.T, a *kittest.Answer) (d resource.Draft) {
	t.Helper()
	a.Want(t, 200).Into(t, &d)
	return d
}

func previewed(t *testing.T, b *kittest.Bench, options string) (out resource.DraftResult) {
	t.Helper()
	b.Do(t, "admin", http.MethodPost, "/draft/preview", options).Want(t, 200).Into(t, &out)
	return out
}

func TestDraftIsAppliedAtOnce(t *testing.T) {
	b := drafting(t)
	ball := create(t, b, `{"name":"ball","count":1}`)
	old := create(t, b, `{"name":"old"}`)
	before := rows(t, b, "/toys")

	d := drafted(t, add(t, b, "create", "toy", "", `{"name":"kite","color":"blue"}`))
	kite := d.Operations[0].ID.String()
	add(t, b, "create", "wheel", "", `{"toy_id":"`+kite+`","name":"front"}`).Want(t, 200)
	add(t, b, "update", "toy", ball.ID.String(), `{"count":2,"name":"ball"}`).Want(t, 200)
	d = drafted(t, add(t, b, "delete", "toy", old.ID.String(), ""))
	if len(d.Operations) != 4 || d.Version == nil || d.UpdatedAt == nil {
		t.Fatalf("%+v", d)
	}
	if _, given := d.Operations[0].Fields["priority"]; given {
		t.Error("a new row goes last, and has no place before that")
	}
	if usual := d.Operations[0].Usual; !slices.Contains(usual, "count") || slices.Contains(usual, "color") {
		t.Errorf("what a new row has in common with every new row: %v", usual)
	}
	if x := d.Operations[2]; x.Verb != "update" || x.Name != "ball" || len(x.Fields) != 1 || string(x.Fields["count"][1]) != "2" || !strings.Contains(string(x.Before), `"count":1`) || !strings.Contains(string(x.After), `"count":2`) {
		t.Errorf("%+v", x)
	}
	if rows(t, b, "/toys") != before {
		t.Fatal("a draft changes nothing")
	}
	out := previewed(t, b, `{}`)
	if len(out.Changes) != 4 || len(out.Conflicts) != 0 || len(out.Refused) != 0 || *out.Version != *d.Version {
		t.Fatalf("%+v", out)
	}
	if usual := out.Changes[0].Usual; !slices.Contains(usual, "count") || slices.Contains(usual, "color") || len(out.Changes[2].Usual) > 0 {
		t.Errorf("%+v", out.Changes)
	}
	if rows(t, b, "/toys") != before {
		t.Fatal("a preview changes nothing")
	}
	applied := b.Do(t, "admin", http.MethodPost, "/draft/apply", fmt.Sprintf(`{"reason":"spring","basis":%q,"version":%q}`, out.Basis, out.Version)).Want(t, 200)
	set := whole(t, b, applied.Header.Get(httpd.ChangeSetHeader))
	if set.Reason != "spring" || len(set.Rows) != 4 {
		t.Errorf("%+v", set)
	}
	var toy Toy
	b.Get(t, "/toys/"+kite).Want(t, 200).Into(t, &toy)
	if toy.Name != "kite" || toy.Color != "blue" {
		t.Errorf("%+v", toy)
	}
	b.Get(t, "/toys/"+old.ID.String()).Want(t, 404)
	if d = drafted(t, b.Get(t, "/draft")); len(d.Operations) != 0 || d.Version != nil {
		t.Errorf("the draft is still there: %+v", d)
	}
	b.Do(t, "admin", http.MethodPost, "/draft/apply", `{}`).Want(t, 409)
	if n := b.Audited(t, "draft.add"); n != 4 {
		t.Errorf("%d entries", n)
	}
}

func TestOperationsOfOneRowAreOne(t *testing.T) {
	b := drafting(t)
	toy := create(t, b, `{"name":"a","count":1,"secret":"first-canary"}`)
	id := toy.ID.String()
	verbs := func(d resource.Draft) string {
		var list []string
		for _, x := range d.Operations {
			list = append(list, x.Verb+" "+x.Name)
		}
		return strings.Join(list, ", ")
	}
	// create + update = create
	d := drafted(t, add(t, b, "create", "toy", "", `{"name":"new","secret":"second-canary"}`))
	made := d.Operations[0].ID.String()
	d = drafted(t, add(t, b, "update", "toy", made, `{"name":"newer","secret":"***SET***","count":7}`))
	if verbs(d) != "create newer" || !slices.Equal(d.Operations[0].Secrets, []string{"secret"}) {
		t.Errorf("%s %+v", verbs(d), d.Operations[0])
	}
	add(t, b, "create", "toy", made, `{"name":"again"}`).Want(t, 409)
	// update + update = update; a field that equals the stored one is no change
	add(t, b, "update", "toy", id, `{"count":2,"color":"blue"}`).Want(t, 200)
	d = drafted(t, add(t, b, "update", "toy", id, `{"count":1,"name":"z"}`))
	if x := d.Operations[1]; verbs(d) != "create newer, update z" || len(x.Fields) != 2 || x.Fields["count"][1] != nil {
		t.Errorf("%s %+v", verbs(d), x)
	}
	if d = drafted(t, add(t, b, "update", "toy", id, `{"color":"red","name":"a"}`)); verbs(d) != "create newer" {
		t.Error(verbs(d))
	}
	// update + delete = delete, after which the row cannot be updated
	add(t, b, "update", "toy", id, `{"count":9}`).Want(t, 200)
	if d = drafted(t, add(t, b, "delete", "toy", id, "")); verbs(d) != "create newer, delete a" {
		t.Error(verbs(d))
	}
	add(t, b, "update", "toy", id, `{"count":8}`).Want(t, 409)
	if d = drafted(t, add(t, b, "delete", "toy", id, "")); verbs(d) != "create newer, delete a" {
		t.Error(verbs(d))
	}
	if d = drafted(t, b.Do(t, "admin", http.MethodDelete, "/draft/operations/toy/"+id, nil)); verbs(d) != "create newer" {
		t.Error(verbs(d))
	}
	b.Do(t, "admin", http.MethodDelete, "/draft/operations/toy/"+id, nil).Want(t, 404)
	// create + delete = nothing
	if d = drafted(t, add(t, b, "delete", "toy", made, "")); verbs(d) != "" || d.Version != nil {
		t.Errorf("%+v", d)
	}
	add(t, b, "update", "toy", uuid.NewString(), `{"count":2}`).Want(t, 404)
}

// A masked secret in a second operation keeps that of the first, and is applied to the row.
func TestDraftKeepsSecretsToItself(t *testing.T) {
	b := drafting(t)
	toy := create(t, b, `{"name":"a","secret":"first-canary"}`)
	path := "/toys/" + toy.ID.String()
	a := add(t, b, "update", "toy", toy.ID.String(), `{"secret":"second-canary"}`).Want(t, 200)
	b2 := add(t, b, "update", "toy", toy.ID.String(), `{"secret":"***SET***","color":"blue"}`).Want(t, 200)
	p := b.Do(t, "admin", http.MethodPost, "/draft/preview", `{}`).Want(t, 200)
	for _, answer := range []*kittest.Answer{a, b2, p, b.Get(t, "/draft")} {
		if bytes.Contains(answer.Body, []byte("canary")) {
			t.Errorf("an answer shows a secret: %s", answer.Body)
		}
	}
	var content []byte
	if err := b.DB.QueryRow(t.Context(), `SELECT content FROM change_drafts`).Scan(&content); err != nil || bytes.Contains(content, []byte("canary")) || bytes.Contains(content, []byte("toy")) {
		t.Errorf("the draft is in clear: %q %v", content, err)
	}
	sealed := func() (s []byte) {
		t.Helper()
		if err := b.DB.QueryRow(t.Context(), `SELECT secret FROM toys`).Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	b.Do(t, "admin", http.MethodPost, "/draft/apply", `{}`).Want(t, 200)
	if plain, err := b.Secrets.Open(sealed(), "toys", "secret", toy.ID.String()); err != nil || plain != "second-canary" {
		t.Errorf("%q %v", plain, err)
	}
	// A secret that was changed in the meantime is a conflict that reveals neither value.
	add(t, b, "update", "toy", toy.ID.String(), `{"secret":"third-canary"}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, path, `{"secret":"fourth-canary"}`).Want(t, 200)
	p = b.Do(t, "admin", http.MethodPost, "/draft/preview", `{}`).Want(t, 200)
	var out resource.DraftResult
	p.Into(t, &out)
	if len(out.Conflicts) != 1 || out.Conflicts[0].Field != "secret" || bytes.Contains(p.Body, []byte("canary")) {
		t.Errorf("%s", p.Body)
	}
	b.Do(t, "admin", http.MethodPost, "/draft/apply", `{"take":"then"}`).Want(t, 200)
	if plain, err := b.Secrets.Open(sealed(), "toys", "secret", toy.ID.String()); err != nil || plain != "third-canary" {
		t.Errorf("%q %v", plain, err)
	}
}

func TestDraftMeetsChangesOfOthers(t *testing.T) {
	b := drafting(t)
	toy := create(t, b, `{"name":"a","color":"red","count":1,"tags":["x"]}`)
	path := "/toys/" + toy.ID.String()
	add(t, b, "update", "toy", toy.ID.String(), `{"name":"a","color":"blue","count":2,"tags":["x"]}`).Want(t, 200)
	seen := previewed(t, b, `{}`)
	b.Do(t, "admin", http.MethodPut, path, `{"count":5,"tags":["y"]}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPost, "/draft/apply", fmt.Sprintf(`{"take":"then","basis":%q}`, seen.Basis)).Want(t, 412)

	out := previewed(t, b, `{}`)
	if len(out.Conflicts) != 1 || len(out.Changes) != 1 {
		t.Fatalf("%+v", out)
	}
	if x := out.Conflicts[0]; x.Field != "count" || string(x.Then) != "2" || string(x.Now) != "5" || x.Actor != "admin@example.net" || x.At == nil || x.Taken != "" {
		t.Errorf("%+v", x)
	}
	b.Do(t, "admin", http.MethodPost, "/draft/apply", `{}`).Want(t, 409)
	choice := fmt.Sprintf(`{"choices":[{"kind":"toy","id":%q,"field":"count","take":"now"}]}`, toy.ID)
	if out = previewed(t, b, choice); !strings.Contains(string(out.Changes[0].After), `"count":5`) {
		t.Errorf("%s", out.Changes[0].After)
	}
	b.Do(t, "admin", http.MethodPost, "/draft/apply", choice).Want(t, 200)
	var got Toy
	b.Get(t, path).Want(t, 200).Into(t, &got)
	if got.Color != "blue" || got.Count != 5 || got.Tags[0] != "y" {
		t.Errorf("%+v", got)
	}

	// Someone else has made the same change, or deleted the row.
	add(t, b, "update", "toy", toy.ID.String(), `{"count":6}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, path, `{"count":6}`).Want(t, 200)
	if a := b.Do(t, "admin", http.MethodPost, "/draft/apply", `{}`).Want(t, 200); a.Header.Get(httpd.ChangeSetHeader) != "" {
		t.Error("nothing was left to change")
	}
	add(t, b, "update", "toy", toy.ID.String(), `{"count":7}`).Want(t, 200)
	b.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200)
	if out = previewed(t, b, `{}`); len(out.Conflicts) != 1 || out.Conflicts[0].Field != "" || out.Conflicts[0].Now != nil && string(out.Conflicts[0].Now) != "null" {
		t.Fatalf("%+v", out)
	}
	b.Do(t, "admin", http.MethodPost, "/draft/apply", `{"take":"then"}`).Want(t, 200)
	b.Get(t, path).Want(t, 200).Into(t, &got)
	if got.Count != 7 || got.Color != "blue" || got.ID != toy.ID {
		t.Errorf("%+v", got)
	}

	// A row that others have changed is not deleted without a choice.
	add(t, b, "delete", "toy", toy.ID.String(), "").Want(t, 200)
	b.Do(t, "admin", http.MethodPut, path, `{"count":8}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPost, "/draft/apply", `{}`).Want(t, 409)
	b.Do(t, "admin", http.MethodPost, "/draft/apply", `{"take":"now"}`).Want(t, 200)
	b.Get(t, path).Want(t, 200)
	if d := drafted(t, b.Get(t, "/draft")); len(d.Operations) != 0 {
		t.Errorf("%+v", d)
	}
}

// Rows that a delete cascades to are known when it is drafted. Those that others add or change later are not deleted without a
// choice.
func TestDraftedDeleteSparesWhatCameLater(t *testing.T) {
	b := drafting(t)
	dbtest.Exec(t, b.DB, `ALTER TABLE wheels DROP CONSTRAINT wheels_toy_id_fkey, ADD CONSTRAINT wheels_toy_id_fkey FOREIGN KEY (toy_id) REFERENCES toys ON DELETE CASCADE`)
	toy := create(t, b, `{"name":"car"}`)
	var front, rear resource.Meta
	b.Do(t, "admin", http.MethodPost, "/wheels", fmt.Sprintf(`{"toy_id":%q,"name":"front"}`, toy.ID)).Want(t, 201).Into(t, &front)
	add(t, b, "delete", "toy", toy.ID.String(), "").Want(t, 200)
	if out := previewed(t, b, `{}`); len(out.Conflicts) != 0 {
		t.Fatalf("%+v", out.Conflicts)
	}
	b.Do(t, "admin", http.MethodPost, "/wheels", fmt.Sprintf(`{"toy_id":%q,"name":"rear"}`, toy.ID)).Want(t, 201).Into(t, &rear)
	out := previewed(t, b, `{}`)
	if len(out.Conflicts) != 1 || !strings.Contains(string(out.Conflicts[0].Now), rear.ID.String()) || strings.Contains(string(out.Conflicts[0].Now), front.ID.String()) {
		t.Fatalf("%+v", out.Conflicts)
	}
	b.Do(t, "admin", http.MethodPost, "/draft/apply", `{}`).Want(t, 409)
	b.Do(t, "admin", http.MethodPost, "/draft/apply", `{"take":"then"}`).Want(t, 200)
	b.Get(t, "/toys/"+toy.ID.String()).Want(t, 404)
}

func TestDraftRefusesWhatCannotBeDone(t *testing.T) {
	b := drafting(t)
	a := create(t, b, `{"name":"a"}`)
	add(t, b, "create", "toy", "", `{"name":"","count":99}`).WantField(t, "operations.0.body.name").WantField(t, "operations.0.body.count")
	add(t, b, "create", "toy", "", `{"name":"forbidden"}`).WantField(t, "operations.0.body.name")
	add(t, b, "create", "toy", a.ID.String(), `{"name":"b"}`).Want(t, 409)
	add(t, b, "create", "nothing", "", `{}`).WantField(t, "operations.0.kind")
	add(t, b, "create", "wheel", "", fmt.Sprintf(`{"toy_id":%q,"name":"w"}`, uuid.NewString())).Want(t, 400)
	if d := drafted(t, b.Get(t, "/draft")); len(d.Operations) != 0 {
		t.Fatalf("%+v", d)
	}
	// An operation that becomes impossible later is reported for its row, and can be removed.
	d := drafted(t, add(t, b, "create", "toy", "", `{"name":"kite"}`))
	add(t, b, "update", "toy", a.ID.String(), `{"count":4}`).Want(t, 200)
	create(t, b, `{"name":"kite"}`)
	out := previewed(t, b, `{}`)
	if len(out.Refused) != 1 || out.Refused[0].Name != "kite" || out.Refused[0].Reason == "" || len(out.Changes) != 1 {
		t.Fatalf("%+v", out)
	}
	b.Do(t, "admin", http.MethodPost, "/draft/apply", `{"take":"then"}`).Want(t, 409)
	add(t, b, "update", "toy", a.ID.String(), `{"color":"blue"}`).Want(t, 200) // not the refused one
	b.Do(t, "admin", http.MethodDelete, "/draft/operations/toy/"+d.Operations[0].ID.String(), nil).Want(t, 200)
	b.Do(t, "admin", http.MethodPost, "/draft/apply", `{}`).Want(t, 200)
	if got := rows(t, b, "/toys"); !strings.Contains(got, "count:4") || !strings.Contains(got, "color:blue") {
		t.Error(got)
	}
}

func TestDraftBelongsToItsUser(t *testing.T) {
	b := drafting(t)
	for method, path := range map[string]string{http.MethodGet: "/draft", http.MethodDelete: "/draft", http.MethodPost: "/draft/preview"} {
		b.Do(t, "viewer", method, path, nil).Want(t, 403)
	}
	b.Do(t, "viewer", http.MethodPost, "/draft/operations", `{"operations":[{"kind":"toy","verb":"create","body":{"name":"a"}}]}`).Want(t, 403)
	add(t, b, "create", "toy", "", `{"name":"a"}`).Want(t, 200)
	b.Do(t, "viewer", http.MethodPost, "/draft/apply", `{}`).Want(t, 403)
	dbtest.Exec(t, b.DB, `DELETE FROM account_users WHERE id = '`+userID("admin")+`'`)
	var left int
	if err := b.DB.QueryRow(t.Context(), `SELECT count(*) FROM change_drafts`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d drafts are left of a deleted user: %v", left, err)
	}
}

func TestDraftIsThrownAway(t *testing.T) {
	b := drafting(t)
	add(t, b, "create", "toy", "", `{"name":"a"}`).Want(t, 200)
	// A draft that can no longer be read can still be discarded.
	dbtest.Exec(t, b.DB, `UPDATE change_drafts SET content = set_byte(content, 0, get_byte(content, 0) # 1)`)
	b.Get(t, "/draft").Want(t, 409)
	b.Do(t, "admin", http.MethodDelete, "/draft", nil).Want(t, 200)
	if d := drafted(t, b.Get(t, "/draft")); len(d.Operations) != 0 {
		t.Errorf("%+v", d)
	}
	if n := b.Audited(t, "draft.discard"); n != 1 {
		t.Errorf("%d entries", n)
	}
	b.Do(t, "admin", http.MethodDelete, "/draft", nil).Want(t, 200)
}

func TestDraftHasALimit(t *testing.T) {
	b := drafting(t)
	ops := make([]string, 1000)
	for i := range ops {
		ops[i] = fmt.Sprintf(`{"kind":"toy","verb":"create","body":{"name":"toy %d"}}`, i)
	}
	b.Do(t, "admin", http.MethodPost, "/draft/operations", `{"operations":[`+strings.Join(ops, ",")+`]}`).Want(t, 200)
	add(t, b, "create", "toy", "", `{"name":"one more"}`).Want(t, 409)
	b.Do(t, "admin", http.MethodPost, "/draft/apply", `{}`).Want(t, 200)
	var n int
	if err := b.DB.QueryRow(t.Context(), `SELECT count(*) FROM toys`).Scan(&n); err != nil || n != 1000 {
		t.Errorf("%d toys: %v", n, err)
	}
}
