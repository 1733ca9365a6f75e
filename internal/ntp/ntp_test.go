package ntp_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/ntp"
)

func bench(t *testing.T) (*kittest.Bench, *ntp.Room) {
	t.Helper()
	b := kittest.New(t)
	room := ntp.New(b.Kit)
	room.Mount()
	b.Resources.MountChangeSets()
	b.Start(t)
	// Wait for the first apply, so that a test counts only what it causes.
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatalf("not live at start: %v", failed)
	}
	return b, room
}

func dropIn(t *testing.T, b *kittest.Bench) string {
	t.Helper()
	content, err := b.Machine.Read(chrony.DropIn)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestPoolsAreSeeded(t *testing.T) {
	b, _ := bench(t)
	var list []ntp.Pool
	b.Get(t, "/ntp/pools").Want(t, 200).Into(t, &list)
	if len(list) != 4 {
		t.Fatalf("%d pools instead of 4", len(list))
	}
	if got := strings.Count(dropIn(t, b), "\npool "); got != 4 {
		t.Fatalf("%d pool lines in\n%s", got, dropIn(t, b))
	}
}

func TestPoolLife(t *testing.T) {
	b, _ := bench(t)
	restarts := b.Machine.Restarts(chrony.Unit)

	made := b.Do(t, "admin", http.MethodPost, "/ntp/pools", `{"kind":"server","address":"NTP.Example.NET."}`).Want(t, 201)
	var p ntp.Pool
	made.Into(t, &p)
	if p.Address.String() != "ntp.example.net" || !p.IBurst || p.MinPoll != 6 {
		t.Fatalf("defaults or canonical form are wrong: %s", made.Body)
	}
	if made.Header.Get("Gateway-Apply") != "ntp=live" || !strings.HasSuffix(made.Header.Get("Location"), "/ntp/pools/"+p.ID.String()) {
		t.Fatalf("headers: %v", made.Header)
	}
	if !strings.Contains(dropIn(t, b), "\nserver ntp.example.net iburst minpoll 6 maxpoll 10\n") {
		t.Fatalf("not in the file:\n%s", dropIn(t, b))
	}
	if b.Machine.Restarts(chrony.Unit) != restarts+1 {
		t.Fatalf("%d restarts", b.Machine.Restarts(chrony.Unit)-restarts)
	}

	path := "/ntp/pools/" + p.ID.String()
	b.Do(t, "admin", http.MethodPut, path, `{"iburst":false,"prefer":true}`).Want(t, 200)
	if !strings.Contains(dropIn(t, b), "\nserver ntp.example.net prefer minpoll 6 maxpoll 10\n") {
		t.Fatalf("not in the file:\n%s", dropIn(t, b))
	}
	b.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200)
	b.Get(t, path).Want(t, 404)
	if strings.Contains(dropIn(t, b), "ntp.example.net") {
		t.Fatal("still in the file")
	}
	for _, action := range []string{"ntp.pool.create", "ntp.pool.update", "ntp.pool.delete"} {
		if n := b.Audited(t, action); n != 1 {
			t.Errorf("%s audited %d times", action, n)
		}
	}
}

func TestNT01(t *testing.T) {
	b, _ := bench(t)
	if !strings.Contains(dropIn(t, b), "\nport 0\n") {
		t.Fatalf("a client-only daemon listens:\n%s", dropIn(t, b))
	}
	for body, field := range map[string]string{
		`{"address":"a.example","kind":"x"}`:                "kind",
		`{"address":"a.example","minpoll":11,"maxpoll":10}`: "minpoll",
		`{"address":"a.example","minpoll":99,"maxpoll":99}`: "minpoll",
		`{"address":"a.example","maxpoll":25}`:              "maxpoll",
		`{"address":"a.example","minpoll":"6"}`:             "minpoll",
		`{"address":"a.example","burst":true}`:              "burst",
		`{"address":"a.example","Address":"b.example"}`:     "Address",
		`{"address":"a.example","address":"b.example"}`:     "address",
		`{"kind":"server"}`:                                 "address",
		`{"address":null}`:                                  "address",
	} {
		b.Do(t, "admin", http.MethodPost, "/ntp/pools", body).WantField(t, field)
	}
	if n := b.Rows(t, "ntp_pools"); n != 4 {
		t.Fatalf("%d rows after refused bodies", n)
	}
}

func TestNT02(t *testing.T) {
	b, _ := bench(t)
	before := dropIn(t, b)
	for _, address := range []string{`a\nallow all`, `a iburst trust`, `-x`, `a\u0000b`, `a\r`, `fe80::1%eth0\nallow`, `#x`, `!x`, ``, `1.2.3`, `a..b`} {
		b.Do(t, "admin", http.MethodPost, "/ntp/pools", `{"address":"`+address+`"}`).WantField(t, "address")
	}
	if dropIn(t, b) != before || b.Rows(t, "ntp_pools") != 4 {
		t.Fatal("something changed")
	}
}

func TestSettings(t *testing.T) {
	b, room := bench(t)
	got := b.Do(t, "admin", http.MethodPut, "/ntp/settings", `{"serve_clients":true,"listen_addresses":["10.10.0.1","127.0.0.1"],"allow_acl":["10.10.0.7/24"],"makestep":""}`).Want(t, 200)
	file := dropIn(t, b)
	for _, line := range []string{"port 123", "bindaddress 0.0.0.0", "bindaddress ::1", "allow 10.10.0.0/24", "rtcsync"} {
		if !strings.Contains(file, "\n"+line+"\n") {
			t.Errorf("no %q in\n%s", line, file)
		}
	}
	if strings.Contains(file, "makestep") {
		t.Error("an empty makestep is written")
	}
	openings, err := room.Openings(t.Context(), b.DB)
	if err != nil || len(openings) != 1 || openings[0].Port != 123 || len(openings[0].Addresses) != 1 {
		t.Fatalf("openings: %+v, %v", openings, err)
	}
	// What GET returned can be sent back unchanged.
	b.Do(t, "admin", http.MethodPut, "/ntp/settings", string(got.Data)).Want(t, 200)

	b.Do(t, "admin", http.MethodPut, "/ntp/settings", `{"listen_addresses":["127.0.0.1","::1"]}`).Want(t, 200)
	if openings, _ := room.Openings(t.Context(), b.DB); len(openings) != 0 {
		t.Fatalf("loopback is opened: %+v", openings)
	}
	for body, field := range map[string]string{
		`{"listen_addresses":["x"]}`:            "listen_addresses",
		`{"listen_addresses":["fe80::1%eth0"]}`: "listen_addresses",
		`{"allow_acl":["10.0.0.0/33"]}`:         "allow_acl",
		`{"makestep":"1.0"}`:                    "makestep",
		`{"makestep":"1.0 3\nallow"}`:           "makestep",
		`{"serve_clients":"yes"}`:               "serve_clients",
	} {
		b.Do(t, "admin", http.MethodPut, "/ntp/settings", body).WantField(t, field)
	}
}

func TestUnchangedBytesTouchNothing(t *testing.T) {
	b, _ := bench(t)
	installs, restarts := b.Machine.Installs(chrony.DropIn), b.Machine.Restarts(chrony.Unit)
	a := b.Do(t, "admin", http.MethodPut, "/ntp/settings", `{"rtcsync":true}`).Want(t, 200)
	if a.Header.Get("Gateway-Apply") != "ntp=live" {
		t.Fatalf("apply: %q", a.Header.Get("Gateway-Apply"))
	}
	if b.Machine.Installs(chrony.DropIn) != installs || b.Machine.Restarts(chrony.Unit) != restarts {
		t.Fatal("a change that alters no byte touched the machine")
	}
}

func TestRefusedByTheDaemon(t *testing.T) {
	b, _ := bench(t)
	before := dropIn(t, b)
	b.Machine.Reject(chrony.Check, "Invalid syntax for pool directive at line 3")
	a := b.Do(t, "admin", http.MethodPost, "/ntp/pools", `{"address":"x.example"}`).Want(t, 400)
	if !strings.Contains(a.Error.Message, "Invalid syntax") {
		t.Fatalf("message: %s", a.Error.Message)
	}
	if dropIn(t, b) != before || b.Rows(t, "ntp_pools") != 4 || b.Audited(t, "ntp.pool.create") != 0 {
		t.Fatal("something was stored or written")
	}
}

func TestDaemonThatWillNotStart(t *testing.T) {
	b, _ := bench(t)
	before := dropIn(t, b)
	b.Machine.Refuse(chrony.Unit, errors.New("could not bind"))
	a := b.Do(t, "admin", http.MethodPost, "/ntp/pools", `{"address":"x.example"}`).Want(t, 201)
	if a.Header.Get("Gateway-Apply") != "ntp=degraded" {
		t.Fatalf("apply: %q", a.Header.Get("Gateway-Apply"))
	}
	if dropIn(t, b) != before {
		t.Fatalf("the last known good file is not back:\n%s", dropIn(t, b))
	}
	b.Machine.Refuse(chrony.Unit, nil)
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatalf("does not converge: %v", failed)
	}
	if !strings.Contains(dropIn(t, b), "x.example") {
		t.Fatal("what is stored is not live")
	}
}

func TestDaemonThatIsNotInstalled(t *testing.T) {
	b, _ := bench(t)
	b.Machine.Uninstall(chrony.Unit)
	b.Machine.Missing(chrony.Check)
	a := b.Do(t, "admin", http.MethodPost, "/ntp/pools", `{"address":"x.example"}`).Want(t, 201)
	if a.Header.Get("Gateway-Apply") != "ntp=not_installed" {
		t.Fatalf("apply: %q", a.Header.Get("Gateway-Apply"))
	}
	b.Machine.Missing(chrony.Tracking)
	var s ntp.Status
	b.Get(t, "/ntp/status").Want(t, 200).Into(t, &s)
	if s.Error == "" || s.Synchronised {
		t.Fatalf("status: %+v", s)
	}
}

func TestPreviewStoresNothing(t *testing.T) {
	b, _ := bench(t)
	before := dropIn(t, b)
	a := b.Do(t, "viewer", http.MethodPost, "/change-sets", `{"preview":true,"operations":[{"kind":"ntp.pool","verb":"create","body":{"address":"x.example"}}]}`).Want(t, 200)
	if !strings.Contains(string(a.Data), `+pool x.example iburst minpoll`) {
		t.Fatalf("no diff: %s", a.Data)
	}
	if dropIn(t, b) != before || b.Rows(t, "ntp_pools") != 4 || b.Audited(t, "ntp.pool.create") != 0 {
		t.Fatal("a preview changed something")
	}
	b.Do(t, "viewer", http.MethodPost, "/change-sets", `{"operations":[{"kind":"ntp.pool","verb":"create","body":{"address":"x.example"}}]}`).Want(t, 403)
}

// A checker's output is for administrators.
func TestRefusedPreview(t *testing.T) {
	b, _ := bench(t)
	b.Machine.Reject(chrony.Check, "Invalid syntax for pool directive at line 3")
	for role, want := range map[string]bool{"viewer": false, "admin": true} {
		a := b.Do(t, role, http.MethodPost, "/change-sets", `{"preview":true,"operations":[{"kind":"ntp.pool","verb":"create","body":{"address":"x.example"}}]}`).Want(t, 400)
		if !strings.HasPrefix(a.Error.Message, "ntp refuses this configuration") || strings.Contains(string(a.Body), "Invalid syntax") != want {
			t.Errorf("%s: %s", role, a.Body)
		}
	}
}

func TestSettingsInAChangeSet(t *testing.T) {
	b, _ := bench(t)
	b.Do(t, "admin", http.MethodPost, "/change-sets", `{"operations":[{"kind":"ntp.settings","verb":"update","body":{"rtcsync":false}}]}`).Want(t, 200)
	if strings.Contains(dropIn(t, b), "rtcsync") {
		t.Fatal("not applied")
	}
	for _, verb := range []string{"create", "delete"} {
		b.Do(t, "admin", http.MethodPost, "/change-sets", `{"operations":[{"kind":"ntp.settings","verb":"`+verb+`","body":{}}]}`).WantField(t, "operations.0.verb")
	}
	b.Get(t, "/ntp/settings").Want(t, 200)
}

func TestStatusAndSources(t *testing.T) {
	b, _ := bench(t)
	b.Machine.Say(chrony.Tracking, "C6336402,198.51.100.2,9,1763172000.1,0.000012,-0.00001,0.00002,-12.3,0.01,0.5,0.0003,0.0001,64.2,Normal\n")
	b.Machine.Say(chrony.Sources, "^,*,198.51.100.2,8,6,377,12,-0.000011,0.000013,0.000200\n^,?,ID#0000000001,0,10,0,4294967295,0,0,0\n")
	var s ntp.Status
	b.Get(t, "/ntp/status").Want(t, 200).Into(t, &s)
	if !s.Synchronised || s.Stratum != 9 || s.Source != "198.51.100.2" {
		t.Fatalf("%+v", s)
	}
	var list ntp.Sources
	b.Get(t, "/ntp/sources").Want(t, 200).Into(t, &list)
	if len(list.Sources) != 2 || list.Sources[0].Reach != 255 || list.Sources[0].State != "selected" || list.Sources[1].State != "unreachable" {
		t.Fatalf("%+v", list)
	}
	b.Do(t, "admin", http.MethodPost, "/ntp/force-sync", nil).Want(t, 200)
	if b.Audited(t, "ntp.force-sync") != 1 {
		t.Fatal("force-sync is not audited")
	}
}
