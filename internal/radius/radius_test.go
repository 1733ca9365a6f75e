package radius_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	proto "layeh.com/radius"
	"layeh.com/radius/rfc2865"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/radius"
)

func bench(t *testing.T) (*kittest.Bench, *radius.Room) {
	t.Helper()
	b := kittest.New(t)
	room := radius.New(b.Kit)
	room.Mount()
	b.Resources.MountChangeSets()
	b.Start(t)
	// Wait for the first apply, so that a test counts only what it causes.
	if _, failed := b.Engine.ApplyAll(t.Context()); len(failed) > 0 {
		t.Fatalf("not live at start: %v", failed)
	}
	return b, room
}

// enabled returns a bench whose server is on.
func enabled(t *testing.T) (*kittest.Bench, *radius.Room) {
	t.Helper()
	b, room := bench(t)
	a := b.Do(t, "admin", http.MethodPut, "/radius/settings", `{"enabled":true}`).Want(t, 200)
	if got := a.Header.Get("Gateway-Apply"); got != "radius=live" {
		t.Fatalf("apply: %q", got)
	}
	return b, room
}

func file(t *testing.T, b *kittest.Bench, p host.Place) string {
	t.Helper()
	content, err := b.Machine.Read(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestClientLife(t *testing.T) {
	b, _ := enabled(t)
	restarts := b.Machine.Restarts(freeradius.Unit)
	made := b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"switch-1","address":"10.10.0.7/24","secret":"first"}`).Want(t, 201)
	var c radius.Client
	made.Into(t, &c)
	if c.Address.String() != "10.10.0.0/24" || !c.SecretConfigured || made.Header.Get("Gateway-Apply") != "radius=live" {
		t.Fatalf("%v %s", made.Header, made.Body)
	}
	if !strings.Contains(file(t, b, freeradius.Clients), "  shortname = 'switch-1'\n  require_message_authenticator = yes\n  secret = 'first'\n") {
		t.Fatalf("not in the file:\n%s", file(t, b, freeradius.Clients))
	}
	if got := b.Machine.Restarts(freeradius.Unit) - restarts; got != 1 {
		t.Fatalf("%d restarts", got)
	}
	path := "/radius/clients/" + c.ID.String()
	// A new address, and the mask in place of the secret, keep the secret.
	for _, body := range []string{`{"address":"2001:db8::/64"}`, `{"secret":"***SET***"}`, `{"name":"switch-1"}`} {
		b.Do(t, "admin", http.MethodPut, path, body).Want(t, 200)
		if !strings.Contains(file(t, b, freeradius.Clients), "  ipv6addr = '2001:db8::/64'\n  shortname = 'switch-1'\n  require_message_authenticator = yes\n  secret = 'first'\n") {
			t.Fatalf("after %s:\n%s", body, file(t, b, freeradius.Clients))
		}
	}
	b.Do(t, "admin", http.MethodPut, path, `{"secret":"second"}`).Want(t, 200)
	if got := file(t, b, freeradius.Clients); !strings.Contains(got, "'second'") || strings.Contains(got, "'first'") {
		t.Fatalf("the secret is not another:\n%s", got)
	}
	// A duplicate name or network is a conflict; a network within another is not.
	if a := b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"switch-1","address":"10.0.0.1","secret":"x"}`).Want(t, 409); a.Error.Fields["name"] == "" {
		t.Fatalf("%s", a.Body)
	}
	if a := b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"other","address":"2001:0db8::1/64","secret":"x"}`).Want(t, 409); a.Error.Fields["address"] == "" {
		t.Fatalf("%s", a.Body)
	}
	b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"other","address":"2001:db8::1","secret":"x"}`).Want(t, 201)
	b.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200)
	if strings.Contains(file(t, b, freeradius.Clients), "switch-1") {
		t.Fatal("still in the file")
	}
	for action, times := range map[string]int{"radius.client.create": 2, "radius.client.update": 4, "radius.client.delete": 1} {
		if n := b.Audited(t, action); n != times {
			t.Errorf("%s audited %d times", action, n)
		}
	}
}

func TestUserLife(t *testing.T) {
	b, _ := enabled(t)
	made := b.Do(t, "admin", http.MethodPost, "/radius/users", `{"name":"ada@example.net","password":"first","reply_attributes":{"Framed-IP-Address":"10.20.0.5","Session-Timeout":3600,"Tunnel-Private-Group-Id":"12"}}`).Want(t, 201)
	var u radius.User
	made.Into(t, &u)
	const whole = `"reply_attributes":{"Framed-IP-Address":"10.20.0.5","Session-Timeout":3600,"Tunnel-Type":"VLAN","Tunnel-Medium-Type":"IEEE-802","Tunnel-Private-Group-Id":"12"}`
	if !u.Active || !u.PasswordConfigured || !strings.Contains(string(made.Data), whole) {
		t.Fatalf("%s", made.Body)
	}
	path := "/radius/users/" + u.ID.String()
	if a := b.Get(t, path).Want(t, 200); !bytes.Equal(a.Data, made.Data) {
		t.Fatalf("%s was made, and %s is read", made.Data, a.Data)
	}
	const entry = "\nada@example.net Cleartext-Password := 'first'\n\t Framed-IP-Address := '10.20.0.5' ,\n\t Session-Timeout := 3600 ,\n\t Tunnel-Type := VLAN ,\n\t Tunnel-Medium-Type := IEEE-802 ,\n\t Tunnel-Private-Group-Id := 12\n"
	if !strings.Contains(file(t, b, freeradius.Users), entry) {
		t.Fatalf("not in the file:\n%s", file(t, b, freeradius.Users))
	}
	// Sending back what was read changes nothing.
	restarts := b.Machine.Restarts(freeradius.Unit)
	b.Do(t, "admin", http.MethodPut, path, string(made.Data)).Want(t, 200)
	if b.Machine.Restarts(freeradius.Unit) != restarts {
		t.Fatal("a change that alters no byte restarts the server")
	}
	// The attributes are replaced as a whole.
	a := b.Do(t, "admin", http.MethodPut, path, `{"reply_attributes":{"Session-Timeout":60}}`).Want(t, 200)
	if !strings.Contains(string(a.Data), `"reply_attributes":{"Session-Timeout":60}`) || !strings.Contains(file(t, b, freeradius.Users), "\nada@example.net Cleartext-Password := 'first'\n\t Session-Timeout := 60\n+") {
		t.Fatalf("%s\n%s", a.Data, file(t, b, freeradius.Users))
	}
	for _, none := range []string{`{}`, `null`} {
		if a := b.Do(t, "admin", http.MethodPut, path, `{"reply_attributes":`+none+`}`).Want(t, 200); !strings.Contains(string(a.Data), `"reply_attributes":null`) {
			t.Fatalf("%s", a.Data)
		}
	}
	b.Do(t, "admin", http.MethodPut, path, `{"active":false,"password":"***SET***"}`).Want(t, 200)
	if got := file(t, b, freeradius.Users); !strings.Contains(got, "\nada@example.net Auth-Type := Reject\n") || strings.Contains(got, "'first'") {
		t.Fatalf("he may log in:\n%s", got)
	}
	b.Do(t, "admin", http.MethodPut, path, `{"active":true}`).Want(t, 200)
	if !strings.Contains(file(t, b, freeradius.Users), "'first'") {
		t.Fatal("the password is lost")
	}
	// Case matters in names.
	b.Do(t, "admin", http.MethodPost, "/radius/users", `{"name":"Ada@example.net","password":"x"}`).Want(t, 201)
	b.Do(t, "admin", http.MethodPost, "/radius/users", `{"name":"ada@example.net","password":"x"}`).Want(t, 409)
	b.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200)
	if strings.Contains(file(t, b, freeradius.Users), "ada@") {
		t.Fatal("still in the file")
	}
	for action, times := range map[string]int{"radius.user.create": 2, "radius.user.update": 6, "radius.user.delete": 1} {
		if n := b.Audited(t, action); n != times {
			t.Errorf("%s audited %d times", action, n)
		}
	}
}

func TestRA01(t *testing.T) {
	b, _ := enabled(t)
	long := strings.Repeat("x", 129)
	for _, bad := range []string{``, `a\nb`, `a\rb`, `a\u0000b`, `a\u0007`, `\u007f`, `a\u2028b`, long} {
		b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"a","address":"10.0.0.1","secret":"`+bad+`"}`).WantField(t, "secret")
		b.Do(t, "admin", http.MethodPost, "/radius/users", `{"name":"a","password":"`+bad+`"}`).WantField(t, "password")
	}
	b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"a","address":"10.0.0.1","secret":"a\\b"}`).WantField(t, "secret")
	b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"a","address":"10.0.0.1"}`).WantField(t, "secret")
	b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"a","address":"10.0.0.1","secret":"***SET***"}`).WantField(t, "secret")
	b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"a","address":"10.0.0.1","secret":7}`).WantField(t, "secret")
	b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"a","address":"127.255.255.254","secret":"x"}`).WantField(t, "address")
	for _, bad := range []string{`x`, `10.0.0.0/33`, `fe80::1%eth0`, ``, `10.0.0.1-10.0.0.9`} {
		b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"a","address":"`+bad+`","secret":"x"}`).WantField(t, "address")
	}
	for _, bad := range []string{``, `DEFAULT`, `$INCLUDE`, `-x`, `+x`, `a b`, `a\nb`, `é`, `a\"b`, strings.Repeat("a", 64)} {
		b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"`+bad+`","address":"10.0.0.1","secret":"x"}`).WantField(t, "name")
		b.Do(t, "admin", http.MethodPost, "/radius/users", `{"name":"`+bad+`","password":"x"}`).WantField(t, "name")
	}
	for _, bad := range []string{
		`{"Framed-IP-Address":"2001:db8::1"}`, `{"Framed-IP-Address":"0.0.0.0"}`, `{"Framed-IP-Address":"224.0.0.1"}`, `{"Framed-IP-Address":""}`, `{"Framed-IP-Address":"10.0.0.0/24"}`,
		`{"Session-Timeout":0}`, `{"Session-Timeout":4294967296}`, `{"Session-Timeout":"60"}`, `{"Session-Timeout":1.5}`,
		`{"Tunnel-Private-Group-Id":"0"}`, `{"Tunnel-Private-Group-Id":"4095"}`, `{"Tunnel-Private-Group-Id":"012"}`, `{"Tunnel-Private-Group-Id":"a"}`, `{"Tunnel-Private-Group-Id":12}`, `{"Tunnel-Private-Group-Id":""}`,
		`{"Tunnel-Type":"VLAN"}`, `{"Tunnel-Type":"L2TP","Tunnel-Private-Group-Id":"12"}`, `{"Tunnel-Medium-Type":"IPv4","Tunnel-Private-Group-Id":"12"}`,
		`{"Filter-Id":"x"}`, `{"session-timeout":60}`, `[]`, `"x"`,
	} {
		b.Do(t, "admin", http.MethodPost, "/radius/users", `{"name":"a","password":"x","reply_attributes":`+bad+`}`).WantField(t, "reply_attributes")
	}
	if b.Rows(t, "radius_clients") != 0 || b.Rows(t, "radius_users") != 0 {
		t.Fatal("something was stored")
	}
	for _, path := range []string{"/radius/clients", "/radius/users"} {
		b.Do(t, "admin", http.MethodPost, path, `{"name":"a","address":"10.0.0.1","secret":"canary"}`)
		b.Do(t, "admin", http.MethodPost, path, `{"name":"a","password":"canary"}`)
		a := b.Get(t, path).Want(t, 200)
		if strings.Contains(string(a.Data), "canary") || strings.Contains(string(a.Data), secret.Mask) || !strings.Contains(string(a.Data), `_configured":true`) {
			t.Errorf("%s: %s", path, a.Data)
		}
	}
}

func TestSettings(t *testing.T) {
	b, room := bench(t)
	if s, _ := b.Machine.State(t.Context(), freeradius.Unit); s.Active != "inactive" || b.Machine.Enabled(freeradius.Unit) {
		t.Fatalf("it runs though it is not enabled: %+v", s)
	}
	if openings, err := room.Openings(t.Context(), b.DB); err != nil || len(openings) != 0 {
		t.Fatalf("openings: %+v, %v", openings, err)
	}
	got := b.Do(t, "admin", http.MethodPut, "/radius/settings", `{"enabled":true,"auth_port":11812,"acct_port":11813,"listen_addresses":["10.10.0.1","127.0.0.1","2001:DB8::1"]}`).Want(t, 200)
	for _, lines := range []string{"type = auth\n    ipv4addr = '10.10.0.1'\n    port = 11812\n", "type = acct\n    ipv6addr = '2001:db8::1'\n    port = 11813\n", "type = auth\n    ipv4addr = '127.255.255.254'\n    port = 11812\n"} {
		if !strings.Contains(file(t, b, freeradius.Config), lines) {
			t.Errorf("no %q in\n%s", lines, file(t, b, freeradius.Config))
		}
	}
	openings, err := room.Openings(t.Context(), b.DB)
	if err != nil || len(openings) != 2 || openings[0].Port != 11812 || openings[1].Port != 11813 || len(openings[0].Addresses) != 2 {
		t.Fatalf("openings: %+v, %v", openings, err)
	}
	b.Do(t, "admin", http.MethodPut, "/radius/settings", string(got.Data)).Want(t, 200)
	if s, _ := b.Machine.State(t.Context(), freeradius.Unit); s.Active != "active" || !b.Machine.Enabled(freeradius.Unit) {
		t.Fatalf("it does not run though it is enabled: %+v", s)
	}
	for body, field := range map[string]string{
		`{"listen_addresses":["x"]}`:                   "listen_addresses",
		`{"listen_addresses":["0.0.0.0"]}`:             "listen_addresses",
		`{"listen_addresses":["::"]}`:                  "listen_addresses",
		`{"listen_addresses":["fe80::1"]}`:             "listen_addresses",
		`{"listen_addresses":["224.0.0.1"]}`:           "listen_addresses",
		`{"listen_addresses":["127.255.255.254"]}`:     "listen_addresses",
		`{"listen_addresses":["10.0.0.1","10.0.0.1"]}`: "listen_addresses",
		`{"auth_port":1023}`:                           "auth_port",
		`{"acct_port":65536}`:                          "acct_port",
		`{"auth_port":1812,"acct_port":1812}`:          "acct_port",
		`{"enabled":"yes"}`:                            "enabled",
	} {
		b.Do(t, "admin", http.MethodPut, "/radius/settings", body).WantField(t, field)
	}
	b.Do(t, "admin", http.MethodPut, "/radius/settings", `{"enabled":false}`).Want(t, 200)
	if s, _ := b.Machine.State(t.Context(), freeradius.Unit); s.Active != "inactive" || b.Machine.Enabled(freeradius.Unit) {
		t.Fatalf("it still runs: %+v", s)
	}
}

// Live means that the server was verified to run with exactly these files.
func TestVerify(t *testing.T) {
	b, _ := enabled(t)
	probes := b.Machine.RadiusLogins()
	last := probes[len(probes)-1]
	if !strings.Contains(file(t, b, freeradius.Users), "\n"+last.User+" Cleartext-Password := "+last.Password+"\n") ||
		!strings.Contains(file(t, b, freeradius.Clients), "'"+last.Secret+"'") || last.Port != 1812 {
		t.Fatalf("%+v in\n%s", last, file(t, b, freeradius.Users))
	}
	was := last.User
	b.Do(t, "admin", http.MethodPut, "/radius/settings", `{"acct_port":1814}`).Want(t, 200)
	if probes = b.Machine.RadiusLogins(); probes[len(probes)-1].User == was {
		t.Fatal("other files have the same probe")
	}
	b.Machine.AnswerRadius(func(l freeradius.Login) (freeradius.Answer, error) {
		return freeradius.Answer{Accepted: l.User == was}, nil
	})
	a := b.Do(t, "admin", http.MethodPost, "/radius/users", `{"name":"ada","password":"x"}`).Want(t, 201)
	if got := a.Header.Get("Gateway-Apply"); got != "radius=degraded" {
		t.Fatalf("apply: %q", got)
	}
}

// Only the server's log says why it could not listen.
func TestServerThatCannotListen(t *testing.T) {
	b, _ := bench(t)
	b.Machine.Refuse(freeradius.Unit, errors.New("ended with status 1"))
	b.Machine.SetLog(freeradius.ServerLog, `Sun Nov 15 12:34:05 2026 : Error: Failed binding to auth address 10.0.0.1 port 1812 bound to server gateway: Address already in use
Sun Nov 15 12:34:06 2026 : Info: Loaded virtual server gateway
Sun Nov 15 12:34:06 2026 : Error: Failed binding to auth address 192.0.2.77 port 1812 bound to server gateway: Cannot assign requested address
Sun Nov 15 12:34:06 2026 : Error: /etc/freeradius/gateway/radiusd.conf[60]: Error binding to port for 192.0.2.77 port 1812
`)
	b.Do(t, "admin", http.MethodPut, "/radius/settings", `{"enabled":true,"listen_addresses":["192.0.2.77"]}`).Want(t, 200)
	if s := status(b); s.State != apply.Degraded || !strings.Contains(s.LastError, "ended with status 1: it cannot listen on 192.0.2.77 port 1812: Cannot assign requested address") {
		t.Fatalf("%+v", s)
	}
}

func status(b *kittest.Bench) apply.Status { return b.Engine.Statuses()[0] }

// A secret encrypted with another master key disables its row, and nothing else.
func TestOtherMasterKey(t *testing.T) {
	b, _ := enabled(t)
	b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"good","address":"10.0.0.1","secret":"x"}`).Want(t, 201)
	b.Do(t, "admin", http.MethodPost, "/radius/clients", `{"name":"bad","address":"10.0.0.2","secret":"x"}`).Want(t, 201)
	b.Do(t, "admin", http.MethodPost, "/radius/users", `{"name":"lost","password":"x"}`).Want(t, 201)
	box, err := secret.NewBox(bytes.Repeat([]byte{9}, 32))
	if err != nil {
		t.Fatal(err)
	}
	for table, column := range map[string]string{"radius_clients": "secret", "radius_users": "password"} {
		sealed, err := box.Seal("x", table, column, "any")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.DB.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(t.Context(), fmt.Sprintf("UPDATE %s SET %s = $1 WHERE name IN ('bad', 'lost')", table, column), sealed)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	b.Engine.ApplyAll(t.Context())
	s := status(b)
	for _, want := range []string{"The client bad is left out: its secret was stored with another master key", "The user lost is left out: its password"} {
		if s.State != apply.Degraded || !strings.Contains(s.LastError, want) {
			t.Fatalf("%+v", s)
		}
	}
	if got := file(t, b, freeradius.Clients); !strings.Contains(got, "'good'") || strings.Contains(got, "'bad'") {
		t.Fatalf("%s", got)
	}
	// It is checked repeatedly, without disturbing the others.
	restarts := b.Machine.Restarts(freeradius.Unit)
	if b.Engine.ApplyAll(t.Context()); b.Machine.Restarts(freeradius.Unit) != restarts {
		t.Fatal("a server that has read its files is restarted")
	}
	var list []radius.Client
	b.Get(t, "/radius/clients").Want(t, 200).Into(t, &list)
	b.Do(t, "admin", http.MethodPut, "/radius/clients/"+list[0].ID.String(), `{"secret":"again"}`).Want(t, 200)
	if !strings.Contains(file(t, b, freeradius.Clients), "'bad'") {
		t.Fatal("it was entered again and is not there")
	}
}

// The checker's output about a file with secrets is not exposed.
func TestRefusalTellsNoSecret(t *testing.T) {
	b, _ := enabled(t)
	b.Machine.Script(freeradius.Check, func(context.Context, host.Input) (host.Output, error) {
		return host.Output{ExitCode: 1, Stdout: "Sun Nov 15 11:49:03 2026 : Info: Starting - reading configuration files ...\n" +
			"Sun Nov 15 11:49:03 2026 : Error: /etc/freeradius/gateway/gateway-users[3]: Parse error (check) for entry ada: canary\n" +
			"Sun Nov 15 11:49:03 2026 : Error: /etc/freeradius/gateway/radiusd.conf[70]: Failed to find \"reject\" as a module or policy.\n" +
			"Sun Nov 15 11:49:03 2026 : Error: canary\n"}, nil
	})
	a := b.Do(t, "admin", http.MethodPost, "/radius/users", `{"name":"ada","password":"canary"}`).Want(t, 400)
	if want := "freeradius: /etc/freeradius/gateway/gateway-users[3] cannot be read; /etc/freeradius/gateway/radiusd.conf[70]: Failed to find"; !strings.Contains(a.Error.Message, want) || strings.Contains(string(a.Body), "canary") {
		t.Fatalf("%s", a.Body)
	}
}

// The real checker with files that it cannot read.
func TestRealRefusalTellsNoSecret(t *testing.T) {
	real := own(t)
	for _, broken := range []string{"client x {\n secret = 'canary\n", "client x {\n ipaddr = 'canary'\n secret = 'canary'\n}\n", "canary canary canary\n", "client canary {\n secret = canary canary\n}\n"} {
		for place := 1; place <= 2; place++ {
			b, _ := enabled(t)
			b.Machine.Script(freeradius.Check, func(ctx context.Context, in host.Input) (host.Output, error) {
				in.Staged[place].Content = []byte(broken)
				return real.Run(ctx, freeradius.Check, in)
			})
			a := b.Do(t, "admin", http.MethodPost, "/radius/users", `{"name":"ada","password":"x"}`)
			if a.Status != 400 || strings.Contains(string(a.Body), "canary") || !strings.Contains(a.Error.Message, "freeradius") {
				t.Errorf("%d %q: %d %s", place, broken, a.Status, a.Body)
			}
		}
	}
}

func TestPreviewTellsNoSecret(t *testing.T) {
	b, _ := enabled(t)
	set := `{"preview":true,"operations":[
		{"kind":"radius.user","verb":"create","body":{"name":"ada","password":"canary","reply_attributes":{"Session-Timeout":60}}},
		{"kind":"radius.client","verb":"create","body":{"name":"switch","address":"10.0.0.1","secret":"canary"}}]}`
	b.Do(t, "viewer", http.MethodPost, "/change-sets", set).Want(t, 403)
	a := b.Do(t, "admin", http.MethodPost, "/change-sets", set).Want(t, 200)
	for _, want := range []string{`+ada Cleartext-Password := \u003credacted\u003e`, `Session-Timeout := 60`, `shortname = 'switch'`} {
		if !strings.Contains(string(a.Data), want) && !strings.Contains(string(a.Data), strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(want)) {
			t.Errorf("no %q in %s", want, a.Data)
		}
	}
	if strings.Contains(string(a.Data), "canary") || b.Rows(t, "radius_users") != 0 {
		t.Fatalf("%s", a.Data)
	}
}

func TestNotInstalled(t *testing.T) {
	b, _ := bench(t)
	b.Machine.Uninstall(freeradius.Unit)
	b.Machine.Missing(freeradius.Check)
	a := b.Do(t, "admin", http.MethodPut, "/radius/settings", `{"enabled":true}`).Want(t, 200)
	if got := a.Header.Get("Gateway-Apply"); got != "radius=not_installed" {
		t.Fatalf("apply: %q", got)
	}
}

func TestTest(t *testing.T) {
	b, _ := enabled(t)
	b.Machine.AnswerRadius(func(l freeradius.Login) (freeradius.Answer, error) {
		if l.User != "ada" || l.Password != "canary" || !l.CHAP {
			return freeradius.Answer{}, nil
		}
		return freeradius.Answer{Accepted: true, Attributes: []string{"Session-Timeout = 60"}, Duration: 1500 * time.Microsecond}, nil
	})
	var tested radius.Tested
	b.Do(t, "admin", http.MethodPost, "/radius/test", `{"name":"ada","password":"canary","method":"chap"}`).Want(t, 200).Into(t, &tested)
	if !tested.Accepted || tested.DurationMS != 1.5 || len(tested.Attributes) != 1 || tested.Error != "" {
		t.Fatalf("%+v", tested)
	}
	b.Do(t, "admin", http.MethodPost, "/radius/test", `{"name":"ada","password":"canary"}`).Want(t, 200).Into(t, &tested)
	if tested.Accepted {
		t.Fatalf("%+v", tested)
	}
	var details string
	if err := b.DB.QueryRow(t.Context(), `SELECT string_agg(subject || details::text, ' ') FROM audit_entries WHERE action = 'radius.test'`).Scan(&details); err != nil {
		t.Fatal(err)
	}
	if b.Audited(t, "radius.test") != 2 || !strings.Contains(details, "ada") || !strings.Contains(details, "chap") || strings.Contains(details, "canary") {
		t.Fatalf("audit: %s", details)
	}
	for body, field := range map[string]string{
		`{"password":"x"}`:                           "name",
		`{"name":"+x","password":"x"}`:               "name",
		`{"name":"x"}`:                               "password",
		`{"name":"x","password":"a\nb"}`:             "password",
		`{"name":"x","password":"x","method":"eap"}`: "method",
	} {
		b.Do(t, "admin", http.MethodPost, "/radius/test", body).WantField(t, field)
	}
	b.Do(t, "viewer", http.MethodPost, "/radius/test", `{"name":"x","password":"x"}`).Want(t, 403)
	b.Do(t, "admin", http.MethodPut, "/radius/settings", `{"enabled":false}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPost, "/radius/test", `{"name":"ada","password":"canary"}`).Want(t, 200).Into(t, &tested)
	if tested.Accepted || !strings.Contains(tested.Error, "not running") {
		t.Fatalf("%+v", tested)
	}
}

func TestAuthentications(t *testing.T) {
	b, _ := bench(t)
	var list radius.Authentications
	b.Get(t, "/radius/authentications").Want(t, 200).Into(t, &list)
	if list.Error != "" || len(list.Authentications) != 0 {
		t.Fatalf("%+v", list)
	}
	hostile := "x\n1794743360|switch|Access-Accept||626f62|"
	b.Machine.SetLog(freeradius.Logins, "1794743360|switch|Access-Accept||616461|30302d31312d3232\n"+
		"1794743361|switch|Access-Reject||616461|\n"+
		fmt.Sprintf("1794743361|+gateway|Access-Reject|unknown|%x|\n", hostile)+
		"1794743361|switch|Access-Reject|inactive|ff|\n"+
		"1794743362|switch|Access-Reject|method|616461|\nnonsense\n1|2|3\n")
	b.Machine.SetLog(freeradius.ServerLog, "Sun Nov 15 12:00:00 2026 : Info: Ready to process requests\n"+
		time.Unix(1794743363, 0).Format(time.ANSIC)+" : Info: Dropping packet without response because of error: Received packet from 10.0.0.1 with invalid Message-Authenticator!  (Shared secret is incorrect.) (from client switch)\n"+
		time.Unix(1794743364, 0).Format(time.ANSIC)+" : Error: Ignoring request to auth address * port 1812 bound to server gateway from unknown client 10.0.0.2 port 60781 proto udp\n")
	b.Get(t, "/radius/authentications").Want(t, 200).Into(t, &list)
	want := []radius.Authentication{
		{At: time.Unix(1794743364, 0).UTC(), Client: "10.0.0.2", Reason: "unknown client"},
		{At: time.Unix(1794743363, 0).UTC(), Client: "switch", Reason: "wrong shared secret"},
		{At: time.Unix(1794743362, 0).UTC(), Client: "switch", User: "ada", Reason: "method not offered: only PAP and CHAP are"},
		{At: time.Unix(1794743361, 0).UTC(), Client: "switch", User: "\ufffd", Reason: "not active"},
		{At: time.Unix(1794743361, 0).UTC(), Client: "this gateway", User: hostile, Reason: "unknown user"},
		{At: time.Unix(1794743361, 0).UTC(), Client: "switch", User: "ada", Reason: "wrong password"},
		{At: time.Unix(1794743360, 0).UTC(), Client: "switch", User: "ada", Station: "00-11-22", Accepted: true},
	}
	if fmt.Sprint(list.Authentications) != fmt.Sprint(want) {
		t.Fatalf("%+v", list.Authentications)
	}
	b.Machine.SetLog(freeradius.Logins, strings.Repeat("1794743360|switch|Access-Accept||616461|\n", 300))
	if b.Get(t, "/radius/authentications").Want(t, 200).Into(t, &list); len(list.Authentications) != 200 {
		t.Fatalf("%d", len(list.Authentications))
	}
}

func TestLogsAreTrimmed(t *testing.T) {
	b, room := bench(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	room.Run(ctx)
	if b.Machine.Trims(freeradius.Logins) != 1 || b.Machine.Trims(freeradius.ServerLog) != 1 {
		t.Fatal("a log cannot be trimmed")
	}
}

// The log of the real server is parsed.
func TestRealLog(t *testing.T) {
	b, _ := bench(t)
	c := config()
	c.Users = users("ada", "word", true, "bob", "word", false)
	s := serve(t, c)
	s.start(t)
	s.login(t, "ada", "word", true)
	s.login(t, "+"+strings.Repeat("0", 32), "x", false)
	s.login(t, "ada", "wrong", false)
	s.login(t, "bob", "word", false)
	s.login(t, "x\n1794743360|switch|Access-Accept||626f62|", "word", false)
	s.login(t, "%{User-Password} \xff \\", "word", false)
	logins := s.read(t, "gateway-logins.log")
	b.Machine.SetLog(freeradius.Logins, logins)
	var list radius.Authentications
	b.Get(t, "/radius/authentications").Want(t, 200).Into(t, &list)
	var got []string
	for _, a := range list.Authentications {
		if time.Since(a.At).Abs() > time.Minute || a.Client != "this gateway" {
			t.Errorf("%+v", a)
		}
		got = append(got, fmt.Sprintf("%q %t %s", a.User, a.Accepted, a.Reason))
	}
	want := []string{
		"\"%{User-Password} \ufffd \\\\\" false unknown user", `"x\n1794743360|switch|Access-Accept||626f62|" false unknown user`, `"bob" false not active`, `"ada" false wrong password`, `"ada" true `,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s\n%s", got, logins)
	}
	for _, name := range []string{"gateway-logins.log", "radius.log"} {
		if strings.Contains(s.read(t, name), "word") {
			t.Errorf("%s has a password: %s", name, s.read(t, name))
		}
	}
}

// The probe user can only log in from the gateway, over neither family from anywhere else, and its name does not reveal its password.
func TestProbeIsOfNoUse(t *testing.T) {
	c := config()
	for _, address := range []string{"127.0.0.1", "::1"} {
		c.Clients = append(c.Clients, radius.ConfigClient{ID: uuid.New(), Name: name("other"), Address: prefix(address), Secret: c.Own, RequireMessageAuthenticator: true})
	}
	s := serve(t, c)
	s.start(t)
	user, word := s.probe(t)
	if strings.Contains(user, word) || strings.Contains(word, user[1:]) {
		t.Fatal("the name tells the password")
	}
	if !s.login(t, user, word, false).Accepted {
		t.Fatal("the gateway is refused")
	}
	for _, client := range c.Clients {
		from := client.Address.Netip().Addr().String()
		if reply := s.radclient(t, from, fmt.Sprintf("User-Name = %q, User-Password = %q, Message-Authenticator = 0x00", user, word)); !strings.Contains(reply, "Received Access-Reject") {
			t.Errorf("%s gets in: %s", from, reply)
		}
	}
	if logins := s.read(t, "gateway-logins.log"); strings.Count(logins, "\n") != 2 || strings.Count(logins, "|other|Access-Reject|unknown|") != 2 {
		t.Errorf("the log has the gateway's own, or not the others': %q", logins)
	}
}

// Equipment that cannot sign is only answered if the operator allows it; an unsupported method is explicitly refused.
func TestUnsigned(t *testing.T) {
	c := config()
	c.Users = []radius.ConfigUser{{Name: name("ada"), Password: value.Must[radius.Password]("word"), Active: true}}
	c.Clients = []radius.ConfigClient{
		{ID: uuid.New(), Name: name("old"), Address: prefix("127.0.0.1"), Secret: c.Own},
		{ID: uuid.New(), Name: name("new"), Address: prefix("127.0.0.2"), Secret: c.Own, RequireMessageAuthenticator: true},
	}
	s := serve(t, c)
	s.start(t)
	pap := func(password string) func(*proto.Packet) error {
		return func(p *proto.Packet) error { return rfc2865.UserPassword_SetString(p, password) }
	}
	chap := func(p *proto.Packet) error {
		digest := md5.Sum(slices.Concat([]byte{7}, []byte("word"), p.Authenticator[:]))
		return rfc2865.CHAPPassword_Set(p, append([]byte{7}, digest[:]...))
	}
	for i, x := range []struct {
		from   string
		method func(*proto.Packet) error
		want   proto.Code
	}{
		{"127.0.0.1", pap("word"), proto.CodeAccessAccept},
		{"127.0.0.1", chap, proto.CodeAccessAccept},
		{"127.0.0.1", pap("wrong"), proto.CodeAccessReject},
		{"127.0.0.2", pap("word"), 0},
	} {
		if got := s.unsigned(t, x.from, "ada", x.method); got != x.want {
			t.Errorf("request %d from %s: %d", i, x.from, got)
		}
	}
	for _, x := range []struct{ from, request string }{
		{"127.0.0.1", `User-Name = "ada", MS-CHAP-Password = "word"`},
		{"127.0.0.2", `User-Name = "ada", MS-CHAP-Password = "word", Message-Authenticator = 0x00`},
		{"127.0.0.2", `User-Name = "ada", EAP-Message = 0x0201000801616461, Message-Authenticator = 0x00`},
	} {
		if reply := s.radclient(t, x.from, x.request); !strings.Contains(reply, "Received Access-Reject") {
			t.Errorf("%s, %s: %s", x.from, x.request, reply)
		}
	}
}
