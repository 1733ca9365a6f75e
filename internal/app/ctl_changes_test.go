package app_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
)

func TestCtlChanges(t *testing.T) {
	h, _ := confirming(t, kittest.New(t))
	admin := h.setUp(t)
	ctl := h.root(t)
	pool := func(address string, more ...string) (row struct{ ID string }, set string) {
		t.Helper()
		headers := append([]string{"Authorization", "Bearer " + admin, "X-Test-Client", loopback}, more...)
		a := kittest.Call(t, h.Handler(), http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": address}, headers...).Want(t, 201)
		a.Into(t, &row)
		return row, a.Header.Get(httpd.ChangeSetHeader)
	}
	want := func(output string, err error, words ...string) {
		t.Helper()
		for _, word := range words {
			if err != nil || !strings.Contains(output, word) {
				t.Errorf("no %q in %q, %v", word, output, err)
			}
		}
	}
	_, first := pool("one.example.net", httpd.ReasonHeader, "ticket%204711")
	_, second := pool("two.example.net", httpd.ConfirmWithinHeader, "600")
	output, err := ctl("", "changes")
	want(output, err, "Waiting: "+second+" by "+adminEmail, "gateway-ctl confirm "+second, "+1 ntp.pool", "ticket 4711")
	if strings.Index(output, "\n"+second) > strings.Index(output, "\n"+first) {
		t.Errorf("the newest is not first: %s", output)
	}
	if output, err = ctl("", "changes", "--limit", "1"); err != nil || strings.Contains(output, first) {
		t.Errorf("%q %v", output, err)
	}
	// The report follows a moment after the apply.
	waittest.UntilNil(t, "the report", func() error {
		if output, err = ctl("", "changes", first); !strings.Contains(output, "ntp: live, reload, ") {
			return fmt.Errorf("%q %w", output, err)
		}
		return nil
	})
	want(output, err, "ticket 4711", "create ntp.pool one.example.net (", `address: null -> "one.example.net"`, "+server one.example.net")
	if _, err := ctl("", "changes", "00000000-0000-0000-0000-000000000001"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Error(err)
	}
	output, err = ctl("", "confirm")
	want(output, err, "It is confirmed, and stays.")
	if _, err := ctl("", "confirm"); err == nil || !strings.Contains(err.Error(), "no change is waiting") {
		t.Error(err)
	}
	if output, err = ctl("", "changes"); err != nil || strings.Contains(output, "Waiting") {
		t.Errorf("%q %v", output, err)
	}
}

func TestCtlRevert(t *testing.T) {
	h, _ := confirming(t, kittest.New(t))
	admin := h.setUp(t)
	ctl := h.root(t)
	var a, b struct{ ID, Address string }
	pool := func(address string) map[string]any { return map[string]any{"kind": "server", "address": address} }
	h.call(t, admin, http.MethodPost, "/ntp/pools", pool("a.example.net")).Want(t, 201).Into(t, &a)
	h.call(t, admin, http.MethodPost, "/ntp/pools", pool("b.example.net")).Want(t, 201).Into(t, &b)
	at := time.Now().UTC().Format(time.RFC3339Nano)
	set := h.call(t, admin, http.MethodPut, "/ntp/pools/"+a.ID, `{"prefer":true,"maxpoll":9}`).Want(t, 200).Header.Get(httpd.ChangeSetHeader)
	h.call(t, admin, http.MethodPut, "/ntp/pools/"+a.ID, `{"maxpoll":8}`).Want(t, 200)
	h.call(t, admin, http.MethodPut, "/ntp/pools/"+b.ID, `{"prefer":true}`).Want(t, 200)
	now := func(id, want string) {
		t.Helper()
		var row struct {
			Prefer  bool
			Maxpoll int
		}
		if h.call(t, admin, http.MethodGet, "/ntp/pools/"+id, nil).Want(t, 200).Into(t, &row); fmt.Sprint(row.Prefer, row.Maxpoll) != want {
			t.Errorf("%+v instead of %s", row, want)
		}
	}
	for _, args := range [][]string{{}, {set, "--to", at}, {"--to", "yesterday"}} {
		if _, err := ctl("", append([]string{"revert"}, args...)...); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	// A later edit is listed, and kept unless the command says otherwise.
	output, err := ctl("", "revert", set, "--preview")
	if err != nil || !strings.Contains(output, "edited later: ntp.pool a.example.net maxpoll by "+adminEmail+": then 10, now 8\n") {
		t.Errorf("%q %v", output, err)
	}
	if _, err := ctl("", "revert", set); err == nil || !strings.Contains(err.Error(), "Later edits are in the way") {
		t.Error(err)
	}
	now(a.ID, "true 8")
	if output, err := ctl("", "revert", set, "--take", "now", "--reason", "too eager"); err != nil || !strings.HasPrefix(output, "update ntp.pool a.example.net\n") {
		t.Errorf("%q %v", output, err)
	}
	now(a.ID, "false 8")
	if output, err := ctl("", "changes", "--limit", "1"); err != nil || !strings.Contains(output, "~1 ntp.pool") || !strings.Contains(output, "too eager") {
		t.Errorf("%q %v", output, err)
	}
	// One row, which is reverted again unless that is confirmed; the others stay.
	if _, err := ctl("", "revert", "--to", at, "--id", b.ID); err == nil || !strings.Contains(err.Error(), "must name the one kind of the row") {
		t.Error(err)
	}
	output, err = ctl("", "revert", "--to", at, "--kind", "ntp.pool", "--id", b.ID, "--confirm-within", "600")
	if err != nil || !strings.HasPrefix(output, "update ntp.pool b.example.net\nIt goes back at ") {
		t.Errorf("%q %v", output, err)
	}
	now(b.ID, "false 10")
	now(a.ID, "false 8")
	if _, err := ctl("", "revert", "--to", at, "--kind", "ntp.pool"); err == nil || !strings.Contains(err.Error(), "waiting to be confirmed") {
		t.Error(err)
	}
	if output, err := ctl("", "confirm"); err != nil || output != "It is confirmed, and stays.\n" {
		t.Errorf("%q %v", output, err)
	}
	if output, err := ctl("", "revert", "--to", at); err != nil || output != "update ntp.pool a.example.net\n" {
		t.Errorf("%q %v", output, err)
	}
	now(a.ID, "false 10")
	if _, err := ctl("", "revert", "--to", at); err == nil || !strings.Contains(err.Error(), "nothing to revert") {
		t.Error(err)
	}
}

// A slow daemon makes a change wait that was answered already: it is confirmed once the daemon has applied it.
func TestCtlConfirmWaitsForTheApply(t *testing.T) {
	h, _ := confirming(t, kittest.New(t))
	admin := h.setUp(t)
	h.sources(t, admin) // the setup is applied
	starts, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.Machine.Script(chrony.Sources, func(ctx context.Context, _ host.Input) (host.Output, error) {
		// Hanging up before the change is stored would end it.
		if !slices.ContainsFunc(h.Resources.Engine.Waiting(), func(w apply.Waiting) bool { return !w.Storing }) {
			return host.Output{}, nil
		}
		once.Do(func() { close(starts) })
		select {
		case <-goOn:
			return host.Output{}, nil
		case <-ctx.Done():
			return host.Output{}, context.Cause(ctx)
		}
	})
	ctx, hangUp := context.WithCancel(t.Context())
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, httpd.Prefix+"/ntp/pools", strings.NewReader(`{"kind":"server","address":"one.example.net"}`))
		req.Header.Set("Authorization", "Bearer "+admin)
		req.Header.Set(httpd.ConfirmWithinHeader, "600")
		req.RemoteAddr = loopback
		h.Handler().ServeHTTP(httptest.NewRecorder(), req)
	}()
	<-starts
	hangUp() // does not wait for the answer
	<-answered
	asked := 0
	ctl := h.rootBy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/confirm") {
			if asked++; asked == 2 {
				close(goOn)
				waittest.Until(t, "it is applied", func() bool { list := h.Resources.Waiting(); return len(list) == 1 && list[0].AppliedAt != nil })
			}
		}
		h.Handler().ServeHTTP(w, r)
	}))
	if output, err := ctl("", "confirm"); err != nil || output != "It is confirmed, and stays.\n" || asked != 2 {
		t.Errorf("%q %v, asked %d times", output, err, asked)
	}
}
