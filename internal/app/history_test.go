package app_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/test/edits"
)

// Every kind keeps its history: in the place where its rows are, under its own id, and without what is not kept.
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
	// Type 29 is: after each row that is inserted, updated or deleted.
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

// Random change sets of what people configure, each taken back: rows and files are as before. A long run and GATEWAY_REVERTS ask for more of them.
func TestRandomChangesAreTakenBack(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	h.call(t, admin, http.MethodPost, "/network-interfaces", map[string]any{"name": "wan0", "type": "ethernet", "role": "wan"}).Want(t, 201)
	e := edits.New(1, func(method, path string, body any) (int, string, []byte, error) {
		a := h.call(t, admin, method, path, body)
		if a.Status != 200 {
			return a.Status, "", a.Body, nil
		}
		return a.Status, a.Header.Get(httpd.ChangeSetHeader), a.Data, nil
	})
	times, err := strconv.Atoi(os.Getenv("GATEWAY_REVERTS"))
	switch {
	case err == nil:
	case longtest.On:
		times = 25
	default:
		times = 10
	}
	for n := range times {
		if err := e.Revert(); err != nil {
			t.Fatalf("set %d: %v", n, err)
		}
	}
}
