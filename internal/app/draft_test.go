package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/test/edits"
)

// fieldsOf returns the fields of a row as texts, without its times.
func fieldsOf(t *testing.T, row []byte) map[string]string {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(row, &all); err != nil {
		t.Fatalf("%s: %v", row, err)
	}
	texts := map[string]string{}
	for name, v := range all {
		if name != "created_at" && name != "updated_at" {
			texts[name] = string(v)
		}
	}
	return texts
}

// effects returns the results of changes, without those that change nothing.
func effects(t *testing.T, list []resource.Change) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, c := range list {
		before, after := fieldsOf(t, c.Before), fieldsOf(t, c.After)
		if c.Kind == "tunnel.interface" && c.Verb == "create" {
			delete(after, "public_key") // the gateway generates another pair each time
		}
		if !maps.Equal(before, after) {
			found[c.Kind+" "+c.ID] = fmt.Sprint(after)
		}
	}
	return found
}

// drafter is a user with a draft, and random ideas.
type drafter struct {
	house
	*edits.Editor
	token string
}

func (h house) drafter(t *testing.T, seed uint64, token string) drafter {
	t.Helper()
	return drafter{h, edits.New(seed, h.caller(t, token)), token}
}

// caller makes the requests of an editor. A refusal comes with its whole answer.
func (h house) caller(t *testing.T, token string) edits.Call {
	return func(method, path string, body any) (int, string, []byte, error) {
		a := h.call(t, token, method, path, body)
		if a.Status != http.StatusOK {
			return a.Status, "", a.Body, nil
		}
		return a.Status, a.Header.Get(httpd.ChangeSetHeader), a.Data, nil
	}
}

// idea returns a change set that the gateway would accept now, and its effects. New rows have ids, so that both ways of applying
// it do the same.
func (d drafter) idea(t *testing.T) ([]edits.Operation, map[string]string) {
	t.Helper()
	for range 100 {
		set, err := d.Next()
		if err != nil {
			t.Fatal(err)
		}
		for i := range set {
			if set[i].Verb == "create" {
				set[i].ID = uuid.NewString()
			}
		}
		if a := d.call(t, d.token, http.MethodPost, "/change-sets", map[string]any{"operations": set, "preview": true}); a.Status == 200 {
			var out resource.Result
			a.Into(t, &out)
			if does := effects(t, out.Changes); len(does) > 0 {
				return set, does
			}
		}
	}
	t.Fatal("a hundred sets in a row are refused or change nothing")
	return nil, nil
}

func (d drafter) add(t *testing.T, set []edits.Operation) {
	t.Helper()
	for _, op := range set {
		d.call(t, d.token, http.MethodPost, "/draft/operations", map[string]any{"operations": []edits.Operation{op}}).Want(t, 200)
	}
}

// drafts is how many random drafts a test makes.
func drafts(t *testing.T) int { return longtest.Number(t, "GATEWAY_DRAFTS", 8, 20) }

// A draft that collects the operations of a random change set one at a time does what the change set would do.
func TestRandomDraftsDoWhatTheirChangeSetsDo(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	h.connect(t, admin)
	d := h.drafter(t, 1, admin)
	for n := range drafts(t) {
		set, want := d.idea(t)
		d.add(t, set)
		var out resource.DraftResult
		h.call(t, admin, http.MethodPost, "/draft/preview", `{}`).Want(t, 200).Into(t, &out)
		if got := effects(t, out.Changes); !maps.Equal(got, want) || len(out.Conflicts)+len(out.Refused) > 0 {
			t.Fatalf("draft %d of %v does\n%v\ninstead of\n%v\n%v %v", n, set, got, want, out.Conflicts, out.Refused)
		}
		h.call(t, admin, http.MethodPost, "/draft/apply", map[string]any{"basis": out.Basis, "version": out.Version}).Want(t, 200).Into(t, &out)
		if got := effects(t, out.Changes); !maps.Equal(got, want) {
			t.Fatalf("draft %d of %v did\n%v\ninstead of\n%v", n, set, got, want)
		}
	}
}

// Random drafts, and random changes by another user before they are applied: none of the latter are lost.
func TestRandomDraftsLoseNothingOfOthers(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	_, another := h.user(t, admin, "another@example.net", "admin")
	h.connect(t, admin)
	mine, theirs := h.drafter(t, 2, admin), h.drafter(t, 3, another)
	for range 5 { // rows that both can change
		set, _ := theirs.idea(t)
		h.call(t, another, http.MethodPost, "/change-sets", map[string]any{"operations": set}).Want(t, 200)
	}
	met := 0
	for n := range drafts(t) {
		for range 2 {
			if set, _ := mine.idea(t); n%2 == 0 || len(set) < 3 {
				for _, op := range set { // the second set may change what the first one deletes
					h.call(t, admin, http.MethodPost, "/draft/operations", map[string]any{"operations": []edits.Operation{op}})
				}
			}
		}
		set, _ := theirs.idea(t)
		var done resource.Result
		h.call(t, another, http.MethodPost, "/change-sets", map[string]any{"operations": set}).Want(t, 200).Into(t, &done)
		met += h.applyDraft(t, admin)
		for _, c := range done.Changes {
			h.keeps(t, admin, c)
		}
	}
	if longtest.On && met == 0 {
		t.Error("no draft met the change of another")
	}
}

// applyDraft applies a draft, gives way to others, and removes what they have made impossible. It returns how often that
// happened.
func (h house) applyDraft(t *testing.T, token string) (met int) {
	t.Helper()
	var d resource.Draft
	if h.call(t, token, http.MethodGet, "/draft", nil).Want(t, 200).Into(t, &d); len(d.Operations) == 0 {
		return 0
	}
	var out resource.DraftResult
	h.call(t, token, http.MethodPost, "/draft/preview", `{"take":"now"}`).Want(t, 200).Into(t, &out)
	for _, x := range out.Refused {
		h.call(t, token, http.MethodDelete, "/draft/operations/"+x.Kind+"/"+x.ID.String(), nil).Want(t, 200)
	}
	if len(out.Refused) == len(d.Operations) {
		return met
	}
	h.call(t, token, http.MethodPost, "/draft/apply", `{"take":"now"}`).Want(t, 200)
	return len(out.Conflicts) + len(out.Refused)
}

// keeps fails if a change of another user was lost.
func (h house) keeps(t *testing.T, token string, c resource.Change) {
	t.Helper()
	status, row := 404, []byte(nil)
	for _, k := range edits.Paths() {
		if k.Kind == c.Kind {
			path := k.Path + "/" + c.ID
			if k.One {
				path = k.Path
			}
			a := h.call(t, token, http.MethodGet, path, nil)
			status, row = a.Status, a.Data
		}
	}
	if c.Verb == "delete" || status != 200 {
		if (c.Verb == "delete") != (status == 404) {
			t.Fatalf("%s of %s %s: it answers %d", c.Verb, c.Kind, c.Name, status)
		}
		return
	}
	before, after, now := fieldsOf(t, c.Before), fieldsOf(t, c.After), fieldsOf(t, row)
	for field, v := range after {
		if before[field] != v && now[field] != v {
			t.Fatalf("%s %s: %s was %s, someone made it %s, and it is %s", c.Kind, c.Name, field, before[field], v, now[field])
		}
	}
}
