package app_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	random "math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/test/edits"
)

// A row of every kind is edited field by field, and edits that are not the newest are reverted. A field that another edit has
// changed since is a conflict, and nothing happens until one chooses; all other fields stay as they are. A long run and
// GATEWAY_REVERTS increase the number.
func TestRevertsLoseNoLaterEditOfAnyKind(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	h.connect(t, admin)
	seed := longtest.Seed(t, 5)
	e := edits.NewOfAll(seed, h.caller(t, admin), nil)
	targets, err := e.Furnish()
	if err != nil {
		t.Fatal(err)
	}
	forms := h.forms(t)
	fixed := map[string]string{
		"forward-proxy.settings": "enabled", // there is no squid, and it takes seconds to notice that
		// these decide how values are written
		"dns.record": "type", "firewall.address-object": "kind", "forward-proxy.acl": "type",
	}
	runs := longtest.Number(t, "GATEWAY_REVERTS", 300, 2500)
	// The last one first, because others may refer to a row until they are gone.
	for _, x := range slices.Backward(targets) {
		if x.Kind == "user" { // not the user of this test
			x.ID, _ = h.user(t, admin, "ann@example.net", "viewer")
		}
		early := time.Now().UTC().Format(time.RFC3339Nano)
		t.Run(x.Kind, func(t *testing.T) {
			r := &edited{
				house: h, Target: x, fields: forms[x.Kind], admin: admin, Rand: random.New(random.NewPCG(seed, uint64(len(x.Kind)))),
				values: map[string][]func() any{}, names: map[string]bool{},
			}
			for _, table := range h.Resources.Tables() {
				if table.Kind == x.Kind {
					r.table = table
				}
			}
			r.explore(t, fixed[x.Kind])
			for range runs / len(targets) {
				if r.IntN(3) == 0 {
					r.editSome(t)
				} else {
					r.takeBack(t, r.edits[r.IntN(len(r.edits))])
				}
			}
			// Whatever was drawn, at least one edit must be reverted despite a later one, and at least one must not be.
			missing := func() bool { return r.kept == 0 && len(r.values) > 1 || r.torn == 0 && r.many }
			for round := 0; round == 0 || missing() && round < 5; round++ {
				for _, name := range slices.Sorted(maps.Keys(r.values)) {
					r.overlap(t, name)
				}
			}
			if missing() {
				t.Error("not everything has happened")
			}
			t.Logf("%d edits of %v: %d taken back beside later ones, %d met by later ones, %d refused", len(r.edits), slices.Sorted(maps.Keys(r.names)), r.kept, r.torn, r.refused)
			r.remove(t)
		})
		// Something that is turned on now may be slow to apply.
		h.call(t, admin, http.MethodPost, "/configuration/revert", map[string]any{"at": early, "kinds": []string{x.Kind}, "partial": true})
	}
}

// form is what the API document says about a field.
type form struct {
	Enum     []any
	Examples []string
	Minimum  *float64
	Maximum  *float64
	Secret   bool `json:"writeOnly"`
	Type     any
	Items    struct{ Examples []string }
}

// forms returns the fields of an update, by kind.
func (h house) forms(t *testing.T) map[string]map[string]form {
	t.Helper()
	content, err := os.ReadFile("../../api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Paths map[string]map[string]struct {
			ID   string `json:"operationId"`
			Body struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			} `json:"requestBody"`
		}
		Components struct {
			Schemas map[string]struct{ Properties map[string]form }
		}
	}
	if err := json.Unmarshal(content, &spec); err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]form{}
	for _, path := range spec.Paths {
		for _, operation := range path {
			if kind, update := strings.CutSuffix(operation.ID, ".update"); update {
				ref := operation.Body.Content["application/json"].Schema.Ref
				found[kind] = spec.Components.Schemas[ref[strings.LastIndex(ref, "/")+1:]].Properties
			}
		}
	}
	return found
}

// guesses returns values that the field may or may not accept.
func (f form) guesses(now any) (list []func() any) {
	is := func(values ...any) {
		for _, v := range values {
			list = append(list, func() any { return v })
		}
	}
	texts := func(examples []string) (all []string) {
		for _, x := range examples {
			all = append(all, x, strings.Replace(x, "2", "3", 1), strings.Replace(x, "0", "7", 1), "e"+x, x+"e")
		}
		return append(all, "edit-1", "edit-2", "Another edit")
	}
	kind, _ := f.Type.(string)
	if either, ok := f.Type.([]any); ok {
		kind, _ = either[0].(string)
	}
	switch {
	case len(f.Enum) > 0:
		is(slices.DeleteFunc(slices.Clone(f.Enum), func(x any) bool { return x == now })...)
		is(now)
	case f.Secret:
		// A secret is sealed with a random nonce, and two of them must differ.
		list = append(list, func() any { return "a secret " + rand.Text() }, func() any {
			key := make([]byte, 32)
			_, _ = rand.Read(key)
			return base64.StdEncoding.EncodeToString(key)
		})
	case kind == "boolean":
		is(now != true, now == true)
	case kind == "integer":
		n, _ := now.(float64)
		is(n+1, n+2, n-1)
		for _, bound := range []*float64{f.Minimum, f.Maximum} {
			if bound != nil {
				is(*bound)
			}
		}
	case kind == "string":
		for _, x := range texts(f.Examples) {
			is(x)
		}
	case kind == "array":
		is([]any{})
		for _, x := range texts(f.Items.Examples) {
			is([]any{x})
		}
	}
	return list
}

// enough is how many values of a field suffice.
const enough = 3

// edited is a row that is edited.
type edited struct {
	house
	edits.Target
	*random.Rand
	fields map[string]form
	table  resource.Table
	admin  string
	values map[string][]func() any // by field
	edits  []edit
	names  map[string]bool // of the columns that edits have changed
	many   bool            // some field has had a third value, so that a later edit may conflict with the revert of an earlier one
	// How often a revert kept later edits, met them, and was refused for another reason.
	kept, torn, refused int
}

// edit is a change of some columns of the row.
type edit struct {
	set      string
	was, now map[string]string
}

// stored returns the editable columns of the row in the database, except those without history; nil if the row does not exist.
func (r *edited) stored(t *testing.T) map[string]string {
	t.Helper()
	query, args := "SELECT to_jsonb(x) FROM "+r.table.Name+" x", []any(nil)
	if r.ID != "" {
		query, args = query+" WHERE "+r.table.Key+" = $1", []any{r.ID}
	}
	var columns map[string]json.RawMessage
	err := r.DB.QueryRow(t.Context(), query, args...).Scan(&columns)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	row := map[string]string{}
	for name := range r.fields {
		if value, there := columns[name]; there && !slices.Contains(r.table.Unkept, name) && !slices.Contains(r.table.LocalColumns, name) {
			row[name] = string(value)
		}
	}
	return row
}

// edit changes fields of the row, and reports whether anything has changed.
func (r *edited) edit(t *testing.T, body map[string]any) bool {
	t.Helper()
	was := r.stored(t)
	update := func() *kittest.Answer {
		return r.call(t, r.admin, http.MethodPost, "/change-sets", map[string]any{"operations": []edits.Operation{{Kind: r.Kind, Verb: "update", ID: r.ID, Body: body}}})
	}
	a := update()
	if a.Status == 400 { // some fields are required in every update
		for place, complaint := range a.Error.Fields {
			name := strings.TrimPrefix(place, "operations.0.body.")
			if value, there := was[name]; there && complaint == "This field is required." {
				body[name] = json.RawMessage(value)
			}
		}
		a = update()
	}
	if a.Status != 200 && a.Status != 400 && a.Status != 409 {
		t.Fatalf("%v: %d %s", body, a.Status, a.Body)
	}
	return r.note(was, r.stored(t), a.Header.Get(httpd.ChangeSetHeader))
}

// note records a change as an edit.
func (r *edited) note(was, now map[string]string, set string) bool {
	x := edit{set, map[string]string{}, map[string]string{}}
	for name, value := range now {
		if was != nil && value != was[name] {
			x.was[name], x.now[name] = was[name], value
			r.names[name] = true
		}
	}
	if len(x.now) > 0 {
		r.edits = append(r.edits, x)
	}
	return len(x.now) > 0
}

// explore edits every field except the fixed one, and collects values that it accepts.
func (r *edited) explore(t *testing.T, fixed string) {
	t.Helper()
	if r.Change != nil {
		r.edit(t, r.Change())
		r.edit(t, r.Change())
	}
	for _, name := range slices.Sorted(maps.Keys(r.fields)) {
		if name == fixed || slices.Contains(r.table.Unkept, name) {
			continue
		}
		var now any
		if text, ok := r.stored(t)[name]; ok {
			if err := json.Unmarshal([]byte(text), &now); err != nil {
				t.Fatal(err)
			}
		}
		for _, guess := range r.fields[name].guesses(now) {
			if len(r.values[name]) < enough && r.edit(t, map[string]any{name: guess()}) {
				r.values[name] = append(r.values[name], guess)
				r.many = r.many || r.fields[name].Secret || len(r.values[name]) == enough
			}
		}
	}
	if len(r.edits) < 2 {
		t.Fatalf("nothing can be edited")
	}
}

// editSome gives some fields other values, by the editor or on its own.
func (r *edited) editSome(t *testing.T) {
	t.Helper()
	if r.Change != nil && r.IntN(3) == 0 {
		r.edit(t, r.Change())
		return
	}
	body := map[string]any{}
	names := slices.Sorted(maps.Keys(r.values))
	for range min(1+r.IntN(3), len(names)) {
		name := names[r.IntN(len(names))]
		body[name] = r.values[name][r.IntN(len(r.values[name]))]()
	}
	r.edit(t, body)
}

// overlap edits a field and then another one, and reverts the first edit; it does so again after each of some more edits of the
// first field.
func (r *edited) overlap(t *testing.T, name string) {
	t.Helper()
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(r.values)), func(other string) bool { return other == name })
	change := func(name string) bool {
		return slices.ContainsFunc(r.values[name], func(value func() any) bool { return r.edit(t, map[string]any{name: value()}) })
	}
	if !change(name) {
		return // given the other fields, it accepts no other value
	}
	first := r.edits[len(r.edits)-1]
	r.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	_ = slices.ContainsFunc(others, change) // not every field accepts another value
	r.takeBack(t, first)
	for _, value := range r.values[name] {
		r.edit(t, map[string]any{name: value()})
		r.takeBack(t, first)
	}
}

// refusal is the answer to a refused revert.
type refusal struct {
	Error struct {
		Details struct {
			Conflicts  []resource.Conflict
			Unrestored []resource.Unrestored
		}
	}
}

func (r *edited) conflicts(t *testing.T, a *kittest.Answer) (fields []string) {
	t.Helper()
	var out refusal
	if err := json.Unmarshal(a.Body, &out); err != nil {
		t.Fatal(err)
	}
	for _, c := range out.Error.Details.Conflicts {
		if r.ID != "" && c.ID.String() != r.ID || c.Kind != r.Kind {
			t.Errorf("a conflict with another row: %+v", c)
		}
		fields = append(fields, c.Field)
	}
	slices.Sort(fields)
	return fields
}

// takeBack reverts an edit, and compares the result.
func (r *edited) takeBack(t *testing.T, x edit) {
	t.Helper()
	before := r.stored(t)
	want, torn := maps.Clone(before), []string(nil)
	beside := false // another field was edited later
	for _, later := range r.edits[slices.IndexFunc(r.edits, func(e edit) bool { return e.set == x.set })+1:] {
		for name := range later.now {
			if _, own := x.now[name]; !own {
				beside = true
			}
		}
	}
	for name := range x.now {
		switch before[name] {
		case x.was[name]:
		case x.now[name]:
			want[name] = x.was[name]
		default:
			torn = append(torn, name)
		}
	}
	slices.Sort(torn)
	a := r.call(t, r.admin, http.MethodPost, "/change-sets/"+x.set+"/revert", nil)
	if named := r.conflicts(t, a); !slices.Equal(named, torn) {
		t.Fatalf("%v, and now %v: the conflicts are %v instead of %v: %s", x, before, named, torn, a.Body)
	}
	if len(torn) > 0 {
		r.torn++
		r.becomes(t, a, before, before)
		take := []string{"then", "now"}[r.IntN(2)]
		for _, name := range torn {
			if take == "then" {
				want[name] = x.was[name]
			}
		}
		a = r.call(t, r.admin, http.MethodPost, "/change-sets/"+x.set+"/revert", map[string]any{"take": take})
	}
	r.becomes(t, a, before, want)
	switch {
	case maps.Equal(before, want):
	case a.Status != 200:
		r.refused++ // it would not be valid any more
	case beside && len(torn) == 0:
		r.kept++
	}
}

// becomes fails unless the row is what a revert should make of it; a refused revert leaves it unchanged.
func (r *edited) becomes(t *testing.T, a *kittest.Answer, before, want map[string]string) {
	t.Helper()
	switch {
	case a.Status == 409:
		want = before
	case a.Status != 200:
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	now := r.stored(t)
	if !maps.Equal(now, want) {
		for name := range want {
			if now[name] != want[name] {
				t.Errorf("%s: %s became %s instead of %s", name, before[name], now[name], want[name])
			}
		}
		t.Fatalf("%d: %s", a.Status, a.Body)
	}
	r.note(before, now, a.Header.Get(httpd.ChangeSetHeader))
}

// remove reverts the creation of the row, and then an edit of it: neither is done without a choice.
func (r *edited) remove(t *testing.T) {
	t.Helper()
	if r.Made == "" {
		return
	}
	revert := func(set, take string) *kittest.Answer {
		t.Helper()
		a := r.call(t, r.admin, http.MethodPost, "/change-sets/"+set+"/revert", map[string]any{"take": take})
		if a.Status != 200 && a.Status != 409 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		return a
	}
	last := r.stored(t)
	if named := r.conflicts(t, revert(r.Made, "")); !slices.Equal(named, []string{""}) || !maps.Equal(r.stored(t), last) {
		t.Fatalf("the conflicts of its making are %q, and it became %v", named, r.stored(t))
	}
	if revert(r.Made, "now"); !maps.Equal(r.stored(t), last) {
		t.Fatalf("it became %v", r.stored(t))
	}
	if a := revert(r.Made, "then"); (a.Status == 200) != (r.stored(t) == nil) {
		t.Fatalf("%d: it became %v: %s", a.Status, r.stored(t), a.Body)
	}
	if r.stored(t) != nil {
		return // others need it
	}
	if named := r.conflicts(t, revert(r.edits[0].set, "")); !slices.Equal(named, []string{""}) || r.stored(t) != nil {
		t.Fatalf("the conflicts of an edit are %q after it was deleted, and it became %v", named, r.stored(t))
	}
}
