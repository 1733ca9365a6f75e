package app_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/test/edits"
)

// Every kind has a history: in the place where its rows are, under its own id, and without its unkept columns.
func TestEveryKindKeepsItsHistory(t *testing.T) {
	h := build(t, kittest.New(t))
	var want []string
	for _, x := range h.Resources.Tables() {
		if x.Kind == "" {
			continue
		}
		place := "shared"
		if x.Where == resource.Local {
			place = "local"
		}
		without := slices.Sorted(slices.Values(slices.Concat(x.LocalColumns, x.Unkept)))
		want = append(want, fmt.Sprintf("%s change_kept 29 %s %s {%s}", x.Name, x.Key, place, strings.Join(without, ",")))
	}
	// Type 29 is AFTER, for each row, of INSERT, UPDATE and DELETE.
	got := texts(t, h, `SELECT c.relname || ' ' || t.tgname || ' ' || t.tgtype || ' ' || replace(trim(both E'\\000' from encode(t.tgargs, 'escape')), E'\\000', ' ')
		FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE t.tgname LIKE 'change\_%' AND t.tgenabled = 'O'`)
	slices.Sort(want)
	slices.Sort(got)
	for _, x := range want {
		if !slices.Contains(got, x) {
			t.Errorf("no history is kept (change_keep in a migration): %s", x)
		}
	}
	for _, x := range got {
		if !slices.Contains(want, x) {
			t.Errorf("a history is kept that is no kind's, or not like this: %s", x)
		}
	}
	if len(want) < 30 {
		t.Errorf("%d triggers", len(want))
	}
}

// views returns the lists and rows of all kinds, by path: their stored fields only, because computed fields are always current.
func (h house) views(t *testing.T, token string) (answers map[string]string, kinds map[string]string) {
	t.Helper()
	answers, kinds = map[string]string{}, map[string]string{}
	look := func(kind, path string) (ids []string) {
		t.Helper()
		text, ids := h.storedAt(t, token, kind, path, "")
		answers[path], kinds[path] = text, kind
		return ids
	}
	paths := map[string]string{} // by operation id
	for _, r := range h.routes {
		if r.Method == http.MethodGet {
			paths[r.Doc.ID] = r.Path
		}
	}
	for _, table := range h.Resources.Tables() {
		kind, row := table.Kind, paths[table.Kind+".get"]
		if kind == "" || row == "" {
			continue
		}
		list := paths[kind+".list"]
		above, _, below := strings.Cut(list, "/{parent}")
		switch {
		case list == "":
			look(kind, row)
		case below:
			_, parents := h.storedAt(t, token, "", above, "")
			for _, parent := range parents {
				in := strings.NewReplacer("{parent}", parent)
				for _, id := range look(kind, in.Replace(list)) {
					look(kind, strings.ReplaceAll(in.Replace(row), "{id}", id))
				}
			}
		default:
			for _, id := range look(kind, list) {
				look(kind, strings.ReplaceAll(row, "{id}", id))
			}
		}
	}
	return answers, kinds
}

// storedAt returns the stored fields of a list or a row, now or at a time, and the ids of its rows; empty if it does not exist.
func (h house) storedAt(t *testing.T, token, kind, path, at string) (text string, ids []string) {
	t.Helper()
	if at != "" {
		path += "?at=" + at
	}
	a := h.call(t, token, http.MethodGet, path, nil)
	if a.Status == 404 {
		return "", nil
	}
	a.Want(t, 200)
	var rows []map[string]any
	if a.Data[0] == '{' {
		a.Data = slices.Concat([]byte("["), a.Data, []byte("]"))
	}
	if a.Into(t, &rows); len(rows) == 0 {
		return "", nil
	}
	for _, x := range h.Resources.Tables() {
		if x.Kind != kind || kind == "" {
			continue
		}
		for _, row := range rows {
			maps.DeleteFunc(row, func(field string, _ any) bool {
				return field != "id" && (!slices.Contains(x.Columns, field) || slices.Contains(x.Unkept, field) || slices.Contains(x.LocalColumns, field))
			})
		}
	}
	for _, row := range rows {
		id, _ := row["id"].(string)
		ids = append(ids, id)
	}
	return quoted(rows), ids
}

// Lists and rows of every kind are shown as they were before all of them were created, and before all of that was reverted.
func TestEveryKindAsItWas(t *testing.T) {
	h, admin := office(t)
	moment := func() string { return time.Now().UTC().Format(time.RFC3339Nano) }
	before, _ := h.views(t, admin)
	early := moment()
	h.document(t, admin, "apply", []byte(wholeDocument)).Want(t, 200)
	made, kinds := h.views(t, admin)
	late := moment()
	h.call(t, admin, http.MethodPost, "/configuration/revert", map[string]any{"at": early, "partial": true}).Want(t, 200)
	changed := map[string]int{}
	for path, was := range made {
		if now, _ := h.storedAt(t, admin, kinds[path], path, ""); now != was {
			changed[kinds[path]]++
		}
		if then, _ := h.storedAt(t, admin, kinds[path], path, late); then != was {
			t.Errorf("%s was\n%s\nand is said to have been\n%s", path, was, then)
		}
		if then, _ := h.storedAt(t, admin, kinds[path], path, early); then != before[path] {
			t.Errorf("%s was first\n%s\nand is said to have been\n%s", path, before[path], then)
		}
	}
	for _, table := range h.Resources.Tables() {
		if apart := table.Kind == "user" || table.Kind == "oidc.settings"; table.Kind != "" && !apart && changed[table.Kind] == 0 {
			t.Errorf("no %s has changed", table.Kind)
		}
	}
}

// What a change set first configured for a row that it created is removed with the row. A configuration that someone else has
// added since is a conflict.
func TestRevertOfASiteAndItsFirewall(t *testing.T) {
	h, admin := office(t)
	made := func(name string) (domain, set string) {
		t.Helper()
		backend := uuid.NewString()
		domain = uuid.NewString()
		a := h.call(t, admin, http.MethodPost, "/change-sets", map[string]any{"operations": []edits.Operation{
			{Kind: "proxy.backend", Verb: "create", ID: backend, Body: map[string]any{"name": name}},
			{Kind: "proxy.domain", Verb: "create", ID: domain, Body: map[string]any{"name": name + ".example.net", "backend_id": backend}},
			{Kind: "waf.config", Verb: "update", ID: domain, Body: map[string]any{"enabled": true, "paranoia_level": 2}},
		}}).Want(t, 200)
		return domain, a.Header.Get(httpd.ChangeSetHeader)
	}
	domain, set := made("shop")
	h.call(t, admin, http.MethodPost, "/change-sets/"+set+"/revert", nil).Want(t, 200)
	h.call(t, admin, http.MethodGet, "/domains/"+domain, nil).Want(t, 404)
	domain, set = made("blog")
	h.call(t, admin, http.MethodPut, "/waf/configs/"+domain, `{"paranoia_level":3}`).Want(t, 200)
	h.call(t, admin, http.MethodPost, "/change-sets/"+set+"/revert", nil).Want(t, 409)
	h.call(t, admin, http.MethodPost, "/change-sets/"+set+"/revert", `{"take":"then"}`).Want(t, 200)
	h.call(t, admin, http.MethodGet, "/domains/"+domain, nil).Want(t, 404)
}

func TestHistoryByComponentAndState(t *testing.T) {
	h, _ := confirming(t, kittest.New(t))
	admin := h.setUp(t)
	a := h.call(t, admin, http.MethodPost, "/dns/zones", map[string]any{"name": "example.net"}).Want(t, 201)
	zone, pool := a.Header.Get(httpd.ChangeSetHeader), h.try(t, admin, "one.example.net", later)
	found := func(query string) (list string) {
		t.Helper()
		var sets []resource.Stored
		h.call(t, admin, http.MethodGet, "/change-sets?"+query, nil).Want(t, 200).Into(t, &sets)
		for _, s := range sets {
			list += s.ID.String() + " "
		}
		return list
	}
	for query, want := range map[string][2]bool{"component=ntp": {false, true}, "component=dns": {true, false}, "component=radius": {false, false},
		"state=waiting": {false, true}, "state=none": {true, false}, "state=none&component=ntp": {false, false}, "state=confirmed": {false, false}} {
		if list := found(query); [2]bool{strings.Contains(list, zone), strings.Contains(list, pool)} != want {
			t.Errorf("%s finds %s, of %s and %s", query, list, zone, pool)
		}
	}
	h.call(t, admin, http.MethodPost, "/change-sets/"+pool+"/discard", nil).Want(t, 200)
	if list := found("state=taken_back"); list != pool+" " {
		t.Error(list)
	}
}

// connect gives the house what the edits refer to.
func (h house) connect(t *testing.T, token string) {
	t.Helper()
	for _, role := range []string{"wan", "lan"} {
		h.call(t, token, http.MethodPost, "/network-interfaces", map[string]any{"name": role + "0", "type": "ethernet", "role": role}).Want(t, 201)
	}
}

// The random change sets include every kind.
func TestEveryKindIsEditedAtRandom(t *testing.T) {
	h := build(t, kittest.New(t))
	edited := map[string]bool{}
	for _, p := range edits.Paths() {
		edited[p.Kind] = true
	}
	for _, table := range h.Resources.Tables() {
		if table.Kind != "" && !edited[table.Kind] {
			t.Errorf("test/edits makes no %s", table.Kind)
		}
		delete(edited, table.Kind)
	}
	for kind := range edited {
		t.Errorf("test/edits makes %s, which is no kind", kind)
	}
}

// A user's second factor is not part of the configuration: no revert removes it, or claims one that does not exist.
func TestRevertLeavesSecondFactors(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	id, _ := h.user(t, admin, "ann@example.net", "viewer")
	at := time.Now().UTC().Format(time.RFC3339Nano)
	path := "/users/" + id
	h.call(t, admin, http.MethodPut, path, `{"name":"Ann"}`).Want(t, 200)
	dbtest.Exec(t, h.DB, "UPDATE account_users SET totp_enabled = true, passkeys = 2, oidc_subject = 'ann' WHERE email = 'ann@example.net'")
	h.call(t, admin, http.MethodPost, "/configuration/revert", map[string]any{"at": at, "kinds": []string{"user"}, "id": id}).Want(t, 200)
	var now struct {
		Name        string
		TOTPEnabled bool `json:"totp_enabled"`
		Passkeys    int
		OIDCSubject string `json:"oidc_subject"`
	}
	h.call(t, admin, http.MethodGet, path, nil).Want(t, 200).Into(t, &now)
	if now.Name != "" || !now.TOTPEnabled || now.Passkeys != 2 || now.OIDCSubject != "ann" {
		t.Errorf("%+v", now)
	}
}

// A certificate that the gateway has renewed stays, and the revert says so.
func TestRevertTellsOfRenewedCertificates(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	type certificate struct {
		ID          string
		Fingerprint string `json:"fingerprint_sha256"`
		Names       []string
	}
	var was, now certificate
	h.call(t, admin, http.MethodPost, "/certificates", `{"source":"self-signed","names":["a.example.net"]}`).Want(t, 201).Into(t, &was)
	path := "/certificates/" + was.ID
	set := h.call(t, admin, http.MethodPut, path, `{"names":["a.example.net","b.example.net"]}`).Want(t, 200).Header.Get(httpd.ChangeSetHeader)
	ctl := h.root(t)
	for _, args := range [][]string{{"--preview"}, nil} {
		output, err := ctl("", append([]string{"revert", set}, args...)...)
		if err != nil || !strings.Contains(output, "made by the gateway, does not come back: certificate.certificate a.example.net, b.example.net: certificate_pem, private_key_pem\n") {
			t.Errorf("%q %v", output, err)
		}
	}
	h.call(t, admin, http.MethodGet, path, nil).Want(t, 200).Into(t, &now)
	if !slices.Equal(now.Names, was.Names) || now.Fingerprint == was.Fingerprint {
		t.Errorf("%+v and then %+v", was, now)
	}
}

// Random change sets of configuration, each reverted: rows and files are as before. A long run and GATEWAY_REVERTS increase their
// number.
func TestRandomChangesAreTakenBack(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	h.connect(t, admin)
	h.call(t, admin, http.MethodPost, "/system/ipv6", `{"enabled":true}`).Want(t, 200)
	e := edits.NewOfAll(longtest.Seed(t, 1), h.caller(t, admin), func() (string, error) { return string(h.export(t, admin, "")), nil })
	for n := range longtest.Number(t, "GATEWAY_REVERTS", 10, 25) {
		if err := e.Revert(); err != nil {
			t.Fatalf("set %d: %v", n, err)
		}
	}
}
