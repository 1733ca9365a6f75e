package app_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/waittest"
)

// confirming returns a house that takes back unconfirmed changes, with a time source.
func confirming(t *testing.T, b *kittest.Bench) (house, func()) {
	t.Helper()
	if err := b.Engine.Recover(); err != nil {
		t.Fatal(err)
	}
	h := build(t, b)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { h.Resources.Guard(ctx); close(done) }()
	stop := func() { cancel(); <-done; h.Stop() }
	t.Cleanup(stop)
	return h, stop
}

// sources returns chrony's file, and the rows behind it.
func (h house) sources(t *testing.T, admin string) string {
	t.Helper()
	file, err := h.Machine.Read(chrony.DropIn)
	if errors.Is(err, fs.ErrNotExist) { // right after the setup it may not exist yet
		h.Engine.Refresh(t.Context(), apply.NTP, false)
		file, err = h.Machine.Read(chrony.DropIn)
	}
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct{ Address string }
	h.call(t, admin, http.MethodGet, "/ntp/pools", nil).Want(t, 200).Into(t, &rows)
	var list []string
	for _, r := range rows {
		list = append(list, r.Address)
	}
	return strings.Join(list, " ") + "\n" + string(file)
}

// soon is the shortest time for a confirmation, for changes that nobody confirms, and later is longer than any test.
const soon, later = 10 * time.Second, 600 * time.Second

// try adds a time source that must be confirmed.
func (h house) try(t *testing.T, admin, address string, within time.Duration) (set string) {
	t.Helper()
	a := kittest.Call(t, h.Handler(), http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": address}, "Authorization", "Bearer "+admin, "X-Test-Client", loopback, httpd.ConfirmWithinHeader, fmt.Sprint(within.Seconds())).Want(t, 201)
	if by, err := time.Parse(time.RFC3339Nano, a.Header.Get(httpd.ConfirmByHeader)); err != nil || time.Until(by) > within {
		t.Fatalf("%v %v", a.Header, err)
	}
	return a.Header.Get(httpd.ChangeSetHeader)
}

func (h house) set(t *testing.T, admin, id string) (set resource.StoredWhole) {
	t.Helper()
	h.call(t, admin, http.MethodGet, "/change-sets/"+id, nil).Want(t, 200).Into(t, &set)
	return set
}

func TestConfirmedChangeStays(t *testing.T) {
	h, _ := confirming(t, kittest.New(t))
	admin := h.setUp(t)
	before := h.sources(t, admin)
	id := h.try(t, admin, "one.example.net", later)
	if !strings.Contains(h.sources(t, admin), "server one.example.net") {
		t.Fatal(h.sources(t, admin))
	}
	var waiting []resource.WaitingSet
	h.call(t, admin, http.MethodGet, "/change-sets/waiting", nil).Want(t, 200).Into(t, &waiting)
	if len(waiting) != 1 || waiting[0].ID.String() != id || waiting[0].Actor != adminEmail || waiting[0].AppliedAt == nil {
		t.Fatalf("%+v", waiting)
	}
	// The same component accepts no other change; others do.
	refused := h.call(t, admin, http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": "two.example.net"}).Want(t, 409)
	until := waiting[0].ConfirmBy.UTC().Format("15:04:05 UTC")
	if !strings.Contains(refused.Error.Message, adminEmail+" is waiting to be confirmed until "+until) || !strings.Contains(string(refused.Body), id) {
		t.Errorf("%s", refused.Body)
	}
	h.call(t, admin, http.MethodPost, "/dns/zones", map[string]any{"name": "example.net"}).Want(t, 201)

	path := "/change-sets/" + id + "/confirm"
	h.call(t, admin, http.MethodPost, path, nil).Want(t, 409) // an old connection
	h.call(t, admin, http.MethodPost, path, map[string]any{"proof": "made up"}).Want(t, 409)
	kittest.Call(t, h.Handler(), http.MethodPost, path, nil, "Authorization", "Bearer "+admin, "X-Test-Client", loopback, "X-Test-Connection", "new").Want(t, 200)
	if set := h.set(t, admin, id); set.State != "confirmed" {
		t.Errorf("%+v", set)
	}
	h.call(t, admin, http.MethodPost, path, nil).Want(t, 409)
	h.call(t, admin, http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": "two.example.net"}).Want(t, 201)
	if after := h.sources(t, admin); after == before || !strings.Contains(after, "one.example.net") {
		t.Error(after)
	}
	if h.Audited(t, "change-set.confirm") != 1 {
		t.Error("no audit entry")
	}
}

func TestUnconfirmedChangeGoesBack(t *testing.T) {
	t.Parallel() // it mostly waits
	h, _ := confirming(t, kittest.New(t))
	admin := h.setUp(t)
	before := h.sources(t, admin)
	id := h.try(t, admin, "one.example.net", soon)
	waittest.Until(t, "it does not wait any more", func() bool { return len(h.Engine.Waiting()) == 0 })
	set := h.set(t, admin, id)
	if set.State != "taken_back" || set.RevertedBy == nil {
		t.Fatalf("%+v", set)
	}
	if back := h.set(t, admin, set.RevertedBy.String()); back.Reason != "It was not confirmed in time." || back.Actor != "gateway-api" {
		t.Errorf("%+v", back)
	}
	if after := h.sources(t, admin); after != before {
		t.Errorf("%s\n%s", before, after)
	}
	h.call(t, admin, http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": "two.example.net"}).Want(t, 201)
}

func TestDiscardedChangeGoesBackAtOnce(t *testing.T) {
	h, _ := confirming(t, kittest.New(t))
	admin := h.setUp(t)
	before := h.sources(t, admin)
	id := h.try(t, admin, "one.example.net", later)
	h.call(t, admin, http.MethodPost, "/change-sets/"+id+"/discard", nil).Want(t, 200)
	if after := h.sources(t, admin); after != before || h.set(t, admin, id).State != "taken_back" {
		t.Errorf("%s\n%s", before, after)
	}
}

// A process that dies while a change waits leaves it to the next one.
func TestUnconfirmedChangeGoesBackAtTheNextStart(t *testing.T) {
	t.Parallel() // it mostly waits
	b := kittest.New(t)
	h, stop := confirming(t, b)
	admin := h.setUp(t)
	before := h.sources(t, admin)
	id := h.try(t, admin, "one.example.net", later)
	stop()
	h, _ = confirming(t, kittest.Again(t, b))
	// Its row is updated earlier, when what is stored is not live yet.
	waittest.Until(t, "it does not wait any more", func() bool { return len(h.Engine.Waiting()) == 0 })
	if after := h.sources(t, admin); after != before || h.set(t, admin, id).State != "taken_back" {
		t.Errorf("%s\n%s", before, after)
	}
}

// IPv6 is a change like others: it waits, is reverted if it is discarded or the process dies, and can be reverted later.
func TestIPv6GoesBack(t *testing.T) {
	t.Parallel() // it mostly waits
	b := kittest.New(t)
	h, stop := confirming(t, b)
	admin := h.setUp(t)
	look := func() string {
		t.Helper()
		files := h.call(t, admin, http.MethodGet, "/system/config-preview?generator=reverse-proxy", nil).Want(t, 200)
		var p struct{ Files []struct{ Content string } }
		files.Into(t, &p)
		on := strings.Contains(fmt.Sprint(p.Files), "bind :::443")
		if a := h.call(t, admin, http.MethodGet, "/system/ipv6", nil).Want(t, 200); string(a.Data) != fmt.Sprintf(`{"enabled":%v}`, on) {
			t.Errorf("%s, and in HAProxy's files %v", a.Data, on)
		}
		return fmt.Sprint(p.Files)
	}
	switchOff := func(headers ...string) (set string) {
		t.Helper()
		headers = append(headers, "Authorization", "Bearer "+admin, "X-Test-Client", loopback)
		a := kittest.Call(t, h.Handler(), http.MethodPost, "/system/ipv6", `{"enabled":false}`, headers...).Want(t, 200)
		return a.Header.Get(httpd.ChangeSetHeader)
	}
	if a := h.call(t, admin, http.MethodGet, "/system/settings", nil).Want(t, 200); !strings.Contains(string(a.Data), `"ipv6_enabled":true`) {
		t.Errorf("the database does not know right after the setup: %s", a.Data)
	}
	before := look()
	if !strings.Contains(before, "bind :::443") {
		t.Fatalf("the setup has switched IPv6 on:\n%s", before)
	}

	id := switchOff(httpd.ConfirmWithinHeader, "600")
	if set := h.set(t, admin, id); set.State != "waiting" || len(set.Rows) != 1 || set.Rows[0].Kind != "system.settings" {
		t.Fatalf("%+v", set)
	}
	if look() == before {
		t.Error("HAProxy's files are as before")
	}
	h.call(t, admin, http.MethodPost, "/change-sets/"+id+"/discard", nil).Want(t, 200)
	if after := look(); after != before {
		t.Errorf("discarded, and still\n%s", after)
	}

	id = switchOff(httpd.ConfirmWithinHeader, "600")
	stop()
	h, _ = confirming(t, kittest.Again(t, b))
	waittest.Until(t, "it does not wait any more", func() bool { return len(h.Engine.Waiting()) == 0 })
	if after := look(); after != before || h.set(t, admin, id).State != "taken_back" {
		t.Errorf("after a restart\n%s", after)
	}

	id = switchOff()
	if look() == before {
		t.Error("HAProxy's files are as before")
	}
	h.call(t, admin, http.MethodPost, "/change-sets/"+id+"/revert", nil).Want(t, 200)
	if after := look(); after != before || h.Audited(t, "system.ipv6") != 3 {
		t.Errorf("reverted, and still\n%s", after)
	}
}

// A daemon that is turned off is turned on again if nobody confirms it.
func TestServiceToggleGoesBack(t *testing.T) {
	h, _ := confirming(t, kittest.New(t))
	admin := h.setUp(t)
	for service, x := range map[string]struct{ path, field, kind string }{
		"waf": {"/waf/settings", "enabled", "waf.settings"}, "ids-agent": {"/ids/settings", "enabled", "ids.settings"},
		"ids-firewall-bouncer": {"/ids/settings", "blocking", "ids.settings"},
	} {
		look := func() (on bool) {
			var row map[string]any
			h.call(t, admin, http.MethodGet, x.path, nil).Want(t, 200).Into(t, &row)
			return row[x.field].(bool)
		}
		was := look()
		a := kittest.Call(t, h.Handler(), http.MethodPost, "/system/service-toggle", map[string]any{"service": service, "enabled": !was},
			"Authorization", "Bearer "+admin, "X-Test-Client", loopback, httpd.ConfirmWithinHeader, "600").Want(t, 200)
		id := a.Header.Get(httpd.ChangeSetHeader)
		if set := h.set(t, admin, id); set.State != "waiting" || len(set.Rows) != 1 || set.Rows[0].Kind != x.kind || look() == was {
			t.Fatalf("%s: %+v", service, set)
		}
		h.call(t, admin, http.MethodPost, "/change-sets/"+id+"/discard", nil).Want(t, 200)
		if look() != was {
			t.Errorf("%s stays as it was switched", service)
		}
	}
}

func TestConfirmWithinHasBounds(t *testing.T) {
	h, _ := confirming(t, kittest.New(t))
	admin := h.setUp(t)
	for _, seconds := range []string{"9", "601", "soon", "-1"} {
		a := kittest.Call(t, h.Handler(), http.MethodPost, "/ntp/pools", `{"kind":"server","address":"one.example.net"}`, "Authorization", "Bearer "+admin, "X-Test-Client", loopback, httpd.ConfirmWithinHeader, seconds)
		a.WantField(t, httpd.ConfirmWithinHeader)
	}
	h.call(t, admin, http.MethodPost, "/change-sets", `{"confirm_within":5,"operations":[{"kind":"ntp.pool","verb":"create","body":{"kind":"server","address":"one.example.net"}}]}`).WantField(t, "confirm_within")
}
