package machine

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/md5"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2869"

	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

var radiusTests = []struct {
	name string
	test func(*testing.T, *radiusRig)
}{
	{"RA01SecretsAreJudgedAndNotTold", radiusSecrets},
	{"RA05PAPAndCHAP", radiusMethods},
	{"WhoIsDropped", radiusDropped},
	{"ReplyAttributes", radiusReplies},
	{"UsersChange", radiusUsersChange},
	{"HostilePasswords", radiusHostile},
	{"LastAuthentications", radiusAuthentications},
	{"Accounting", radiusAccounting},
	{"TestFromTheAPI", radiusTest},
	{"ProbeIsForTheGatewayAlone", radiusProbe},
	{"ListenAddresses", radiusListens},
	{"KilledServerComesBack", radiusComesBack},
	{"NoSecretIsTold", radiusTellsNothing},
	{"RA05DisabledIsClosed", radiusDisabled},
}

// TestRadius logs in from the lan side at the gateway's FreeRADIUS.
func TestRadius(t *testing.T) {
	t.Parallel()
	r := &radiusRig{rig: &rig{Lab: labtest.UpAsAdmin(t, lab.Options{Volatile: true}), services: map[string]string{}}}
	r.WaitState(t, "radius", "live", 20*time.Second)
	r.adopt(t)
	if ports := r.ports(t); ports != "" {
		t.Fatalf("a server that is not enabled listens: %s", ports)
	}
	a := r.Must(t, http.MethodPut, "/radius/settings", fields{"enabled": true}, 200, nil)
	if got := a.Header.Get("Gateway-Apply"); got != "packet-filter=live, radius=live" {
		t.Fatalf("Gateway-Apply: %s", got)
	}
	r.live(t, http.MethodPost, "/radius/clients", fields{"name": "switch", "address": lan4, "secret": shared}, 201)
	r.live(t, http.MethodPost, "/radius/clients", fields{"name": "switch6", "address": "fd00:10::/64", "secret": shared}, 201)
	r.ada = r.live(t, http.MethodPost, "/radius/users", fields{"name": "ada", "password": pass}, 201)
	for _, x := range radiusTests {
		t.Run(x.name, func(t *testing.T) { x.test(t, r) })
	}
}

const (
	shared = "canary: shared with the switch"
	pass   = "canary: it's ada's %{User-Password}"
)

type radiusRig struct {
	*rig
	ada string // the path of the user
}

// live makes a change that must be live when it is answered, and returns the path of its row.
func (r *radiusRig) live(t *testing.T, method, path string, body any, status int) string {
	t.Helper()
	var row struct{ ID string }
	a := r.Must(t, method, path, body, status, &row)
	if got := a.Header.Get("Gateway-Apply"); got != "radius=live" {
		t.Fatalf("%s %s: %s", method, path, got)
	}
	if method == http.MethodPost {
		path += "/" + row.ID
	}
	return path
}

// ports are the sockets of the server.
func (r *radiusRig) ports(t *testing.T) string {
	t.Helper()
	return r.Run(t, lab.Gateway, "ss", "-Hlunp", "( sport = :1812 or sport = :1813 )")
}

// login is a request, and how it is sent.
type login struct {
	server, from, secret, user, password string
	chap, unsigned                       bool
	attributes                           []*radius.AVP
	patience                             time.Duration
}

func (r *radiusRig) login() login {
	return login{server: gwLan4, secret: shared, user: "ada", password: pass, patience: patience}
}

const (
	noAnswer = "no answer"
	// hush is how long to wait for an answer that must not come: longer than for a reject.
	hush = 1500 * time.Millisecond
)

// ask logs in from the lan side, and returns the answer; nil when there is none.
func (r *radiusRig) ask(t *testing.T, l login) *radius.Packet {
	t.Helper()
	p := radius.New(radius.CodeAccessRequest, []byte(l.secret))
	_ = rfc2865.UserName_SetString(p, l.user)
	_ = rfc2865.CallingStationID_SetString(p, "00-11-22-33-44-55")
	p.Attributes = append(p.Attributes, l.attributes...)
	switch {
	case l.attributes != nil:
	case l.chap:
		digest := md5.Sum(slices.Concat([]byte{7}, []byte(l.password), p.Authenticator[:]))
		_ = rfc2865.CHAPPassword_Set(p, append([]byte{7}, digest[:]...))
	default:
		if err := rfc2865.UserPassword_SetString(p, l.password); err != nil {
			t.Fatal(err)
		}
	}
	if !l.unsigned {
		_ = rfc2869.MessageAuthenticator_Set(p, make([]byte, md5.Size))
		b, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(md5.New, []byte(l.secret))
		mac.Write(b)
		_ = rfc2869.MessageAuthenticator_Set(p, mac.Sum(nil))
	}
	var answer *radius.Packet
	err := r.Within(lab.Lan, func() error {
		var client radius.Client
		if l.from != "" {
			client.Dialer.LocalAddr = &net.UDPAddr{IP: net.ParseIP(l.from)}
		}
		ctx, cancel := context.WithTimeout(t.Context(), l.patience)
		defer cancel()
		var err error
		answer, err = client.Exchange(ctx, p, net.JoinHostPort(l.server, "1812"))
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// want logs in, and complains about another result.
func (r *radiusRig) want(t *testing.T, l login, want string) {
	t.Helper()
	got := noAnswer
	if p := r.ask(t, l); p != nil {
		got = p.Code.String()
	}
	if got != want {
		t.Errorf("%+v: %s instead of %s", l, got, want)
	}
}

// radclient sends a request from the lan side with Debian's own client.
func (r *radiusRig) radclient(t *testing.T, kind, port, request string) string {
	t.Helper()
	cmd, err := r.Command(t.Context(), lab.Lan, "radclient", "-x", "-r", "1", "-t", "3", gwLan4+":"+port, kind, shared)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = strings.NewReader(request)
	out, _ := cmd.CombinedOutput() // a refusal is an error to it
	return string(out)
}

func radiusSecrets(t *testing.T, r *radiusRig) {
	for _, bad := range []string{"", "a\nb", "a\rb", "a\x00b"} {
		r.Must(t, http.MethodPost, "/radius/clients", fields{"name": "bad", "address": "192.0.2.1", "secret": bad}, 400, nil)
		r.Must(t, http.MethodPost, "/radius/users", fields{"name": "bad", "password": bad}, 400, nil)
	}
	var clients []map[string]any
	a := r.Must(t, http.MethodGet, "/radius/clients", nil, 200, &clients)
	if bytes.Contains(a.Body, []byte("canary")) || clients[0]["secret_configured"] != true || clients[0]["secret"] != nil {
		t.Fatalf("%s", a.Body)
	}
}

func radiusMethods(t *testing.T, r *radiusRig) {
	var waiting sync.WaitGroup // a reject takes a second
	defer waiting.Wait()
	for _, server := range []string{gwLan4, gwLan6} {
		for _, chap := range []bool{false, true} {
			l := r.login()
			l.server, l.chap = server, chap
			r.want(t, l, "Access-Accept")
			l.password += "x"
			waiting.Go(func() { r.want(t, l, "Access-Reject") })
		}
	}
	other := r.login()
	other.user = "Ada"
	waiting.Go(func() { r.want(t, other, "Access-Reject") })
	for request, want := range map[string]string{
		`User-Name = "ada", User-Password = "` + pass + `", Message-Authenticator = 0x00`:    "Received Access-Accept",
		`User-Name = "ada", CHAP-Password = "` + pass + `", Message-Authenticator = 0x00`:    "Received Access-Accept",
		`User-Name = "ada", User-Password = "another", Message-Authenticator = 0x00`:         "Received Access-Reject",
		`User-Name = "ada", CHAP-Password = "another", Message-Authenticator = 0x00`:         "Received Access-Reject",
		`User-Name = "ada", MS-CHAP-Password = "` + pass + `", Message-Authenticator = 0x00`: "Received Access-Reject",
		`User-Name = "ada", EAP-Message = 0x0201000801616461, Message-Authenticator = 0x00`:  "Received Access-Reject",
	} {
		waiting.Go(func() {
			if said := r.radclient(t, "auth", "1812", request); !strings.Contains(said, want) {
				t.Errorf("%s: %s", request, said)
			}
		})
	}
}

func radiusDropped(t *testing.T, r *radiusRig) {
	r.Run(t, lab.Lan, "ip", "address", "add", "10.10.0.99/24", "dev", "eth0")
	unsigned, wrong, unknown := r.login(), r.login(), r.login()
	unsigned.unsigned = true
	wrong.secret = "another"
	unknown.from = "10.10.0.99"
	var waiting sync.WaitGroup // each of them waits for an answer that does not come
	for _, l := range []login{unsigned, wrong, unknown} {
		l.patience = hush
		waiting.Go(func() { r.want(t, l, noAnswer) })
	}
	waiting.Wait()
	for _, want := range []string{`{"" "switch" "" false "wrong shared secret"}`, `{"" "10.10.0.99" "" false "unknown client"}`} {
		waittest.Until(t, want+" is told", func() bool { return slices.Contains(r.authentications(t), want) })
	}
	// A client within the network of another is the nearer one.
	path := r.live(t, http.MethodPost, "/radius/clients", fields{"name": "lan", "address": "10.10.0.0/24", "secret": "of the others"}, 201)
	unknown.secret = "of the others"
	r.want(t, unknown, "Access-Accept")
	r.want(t, r.login(), "Access-Accept")
	r.live(t, http.MethodDelete, path, nil, 200)
}

func radiusReplies(t *testing.T, r *radiusRig) {
	r.live(t, http.MethodPut, r.ada, fields{"reply_attributes": fields{"Framed-IP-Address": "10.20.0.5", "Session-Timeout": 4294967295, "Tunnel-Private-Group-Id": "4094"}}, 200)
	said := r.radclient(t, "auth", "1812", `User-Name = "ada", CHAP-Password = "`+pass+`", Message-Authenticator = 0x00`)
	for _, want := range []string{"Framed-IP-Address = 10.20.0.5\n", "Session-Timeout = 4294967295\n", "Tunnel-Type:0 = VLAN\n", "Tunnel-Medium-Type:0 = IEEE-802\n", `Tunnel-Private-Group-Id:0 = "4094"` + "\n", "Message-Authenticator = 0x"} {
		if !strings.Contains(said[strings.Index(said, "Received"):], want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
	// A reject contains nothing else, but is signed.
	wrong := r.login()
	wrong.password = "wrong"
	if p := r.ask(t, wrong); p == nil || len(p.Attributes) != 1 || len(rfc2869.MessageAuthenticator_Get(p)) != md5.Size {
		t.Errorf("%+v", p)
	}
	r.live(t, http.MethodPut, r.ada, fields{"reply_attributes": nil}, 200)
	if p := r.ask(t, r.login()); p == nil || len(p.Attributes) != 1 {
		t.Errorf("%+v", p)
	}
}

// A change takes effect as soon as it is answered.
func radiusUsersChange(t *testing.T, r *radiusRig) {
	bob := r.login()
	bob.user = "bob"
	path := r.live(t, http.MethodPost, "/radius/users", fields{"name": "bob", "password": "first"}, 201)
	for n := range 8 { // in quick succession
		bob.password = fmt.Sprintf("password %d", n)
		r.live(t, http.MethodPut, path, fields{"password": bob.password}, 200)
		r.want(t, bob, "Access-Accept")
	}
	r.live(t, http.MethodPut, path, fields{"active": false}, 200)
	r.want(t, bob, "Access-Reject")
	r.live(t, http.MethodPut, path, fields{"active": true}, 200)
	r.want(t, bob, "Access-Accept")
	r.live(t, http.MethodDelete, path, nil, 200)
	r.want(t, bob, "Access-Reject")
}

func radiusHostile(t *testing.T, r *radiusRig) {
	var printable strings.Builder
	for c := ' '; c < 0x7f; c++ {
		printable.WriteRune(c)
	}
	passwords := []string{printable.String(), `%{User-Password}`, `$ENV{PATH}`, `a\`, `'`, `' , Auth-Type := Accept`, "$INCLUDE /etc/passwd", "日本語", strings.Repeat("x", 128), " "}
	var operations []operation
	for n, p := range passwords {
		operations = append(operations, create("radius.user", fields{"name": fmt.Sprintf("hostile%d", n), "password": p}))
	}
	r.change(t, operations...)
	var waiting sync.WaitGroup
	for n, p := range passwords {
		l := r.login()
		l.user, l.password = fmt.Sprintf("hostile%d", n), p
		r.want(t, l, "Access-Accept")
		l.chap = true
		r.want(t, l, "Access-Accept")
		l.chap, l.password = false, "another"
		waiting.Go(func() { r.want(t, l, "Access-Reject") })
	}
	waiting.Wait()
}

type authentication struct {
	At                    time.Time
	User, Client, Station string
	Accepted              bool
	Reason                string
}

// authentications are the last attempts, the newest first.
func (r *radiusRig) authentications(t *testing.T) []string {
	t.Helper()
	var told struct {
		Authentications []authentication
		Error           string
	}
	r.Must(t, http.MethodGet, "/radius/authentications", nil, 200, &told)
	if told.Error != "" {
		t.Fatal(told.Error)
	}
	var list []string
	for _, a := range told.Authentications {
		if time.Since(a.At).Abs() > 5*time.Minute {
			t.Errorf("%+v", a)
		}
		list = append(list, fmt.Sprintf("{%q %q %q %t %q}", a.User, a.Client, a.Station, a.Accepted, a.Reason))
	}
	return list
}

func radiusAuthentications(t *testing.T, r *radiusRig) {
	r.live(t, http.MethodPost, "/radius/users", fields{"name": "off", "password": pass, "active": false}, 201)
	const hostile = "x\n1794743360|switch|Access-Accept||616461|\nada: %{User-Password} '\"\\"
	for _, l := range []login{
		{user: "ada", password: pass}, {user: "ada", password: "wrong"}, {user: "off", password: pass}, {user: hostile, password: pass},
		{user: "ada", attributes: []*radius.AVP{{Type: rfc2869.EAPMessage_Type, Attribute: radius.Attribute("\x02\x01\x00\x08\x01ada")}}},
	} {
		l.server, l.secret, l.patience = gwLan4, shared, patience
		r.ask(t, l)
	}
	const at = `"switch" "00-11-22-33-44-55"`
	want := []string{
		`{"ada" ` + at + ` false "method not offered: only PAP and CHAP are"}`, fmt.Sprintf(`{%q %s false "unknown user"}`, hostile, at),
		`{"off" ` + at + ` false "not active"}`, `{"ada" ` + at + ` false "wrong password"}`, `{"ada" ` + at + ` true ""}`,
	}
	if got := r.authentications(t); !slices.Equal(got[:len(want)], want) {
		t.Fatalf("%s", strings.Join(got[:len(want)], "\n"))
	}
}

func radiusAccounting(t *testing.T, r *radiusRig) {
	if said := r.radclient(t, "acct", "1813", `User-Name = "ada", Acct-Status-Type = Start, Acct-Session-Id = "1"`); !strings.Contains(said, "Received Accounting-Response") {
		t.Fatal(said)
	}
}

func radiusTest(t *testing.T, r *radiusRig) {
	r.live(t, http.MethodPut, r.ada, fields{"reply_attributes": fields{"Framed-IP-Address": "10.20.0.5", "Session-Timeout": 60, "Tunnel-Private-Group-Id": "12"}}, 200)
	type tested struct {
		Accepted   bool
		Attributes []string
		Error      string
	}
	for _, method := range []string{"pap", "chap"} {
		var done tested
		r.Must(t, http.MethodPost, "/radius/test", fields{"name": "ada", "password": pass, "method": method}, 200, &done)
		want := []string{"Framed-IP-Address = 10.20.0.5", "Session-Timeout = 60", "Tunnel-Type = VLAN", "Tunnel-Medium-Type = IEEE-802", "Tunnel-Private-Group-Id = 12"}
		slices.Sort(done.Attributes)
		slices.Sort(want)
		if !done.Accepted || done.Error != "" || !slices.Equal(done.Attributes, want) {
			t.Errorf("%s: %+v", method, done)
		}
	}
	var done tested
	r.Must(t, http.MethodPost, "/radius/test", fields{"name": "ada", "password": "wrong"}, 200, &done)
	if done.Accepted || done.Error != "" || len(done.Attributes) != 0 {
		t.Errorf("%+v", done)
	}
	if got := r.authentications(t); got[0] != `{"ada" "this gateway" "" false "wrong password"}` || got[1] != `{"ada" "this gateway" "" true ""}` {
		t.Errorf("%s", got[:2])
	}
}

// The account by which the gateway verifies its files is refused for all other clients, over either family.
func radiusProbe(t *testing.T, r *radiusRig) {
	users := r.Run(t, lab.Gateway, "cat", "/etc/freeradius/gateway/gateway-users")
	m := regexp.MustCompile(`(?m)^(\+\S+) Cleartext-Password := (\S+)$`).FindStringSubmatch(users)
	if m == nil {
		t.Fatal("there is no probe")
	}
	for _, server := range []string{gwLan4, gwLan6} {
		l := r.login()
		l.server, l.user, l.password = server, m[1], m[2]
		r.want(t, l, "Access-Reject")
	}
}

func radiusListens(t *testing.T, r *radiusRig) {
	r.Must(t, http.MethodPut, "/radius/settings", fields{"listen_addresses": []string{gwLan4}}, 200, nil)
	r.WaitState(t, "radius", "live", 20*time.Second)
	r.want(t, r.login(), "Access-Accept")
	if ports := r.ports(t); strings.Count(ports, "\n") != 4 || strings.Contains(ports, "*:181") || strings.Contains(ports, "0.0.0.0:181") {
		t.Errorf("it listens on\n%s", ports)
	}
	// A missing address is named, and the server continues unchanged.
	r.Must(t, http.MethodPut, "/radius/settings", fields{"listen_addresses": []string{gwLan4, "192.0.2.77"}}, 200, nil)
	if c := r.WaitState(t, "radius", "degraded", 20*time.Second); !strings.Contains(c.LastError, "it cannot listen on 192.0.2.77 port 1812: Cannot assign requested address") {
		t.Errorf("%+v", c)
	}
	r.want(t, r.login(), "Access-Accept")
	// Logins there are accepted as before, whatever else is stored.
	r.Must(t, http.MethodPut, "/radius/settings", fields{"listen_addresses": []string{"192.0.2.77"}, "auth_port": 1912}, 200, nil)
	r.WaitState(t, "radius", "degraded", 20*time.Second)
	waittest.UntilNil(t, "the former address is open", func() error {
		if got := r.ask(t, r.login()); got == nil || got.Code != radius.CodeAccessAccept {
			return fmt.Errorf("the answer is %v", got)
		}
		return nil
	})
	table := r.table(t)
	for _, open := range []string{gwLan4, "192.0.2.77"} {
		if !strings.Contains(table, open) {
			t.Errorf("%s is not open:\n%s", open, table)
		}
	}
	r.Must(t, http.MethodPut, "/radius/settings", fields{"auth_port": 1812}, 200, nil)
	r.Must(t, http.MethodPut, "/radius/settings", fields{"listen_addresses": []string{}}, 200, nil)
	r.WaitState(t, "radius", "live", 20*time.Second)
	r.want(t, r.login(), "Access-Accept")
}

func radiusComesBack(t *testing.T, r *radiusRig) {
	state, err := r.Units().State(t.Context(), freeradius.Unit)
	if err != nil || state.PID == 0 {
		t.Fatalf("%+v, %v", state, err)
	}
	if who := strings.TrimSpace(r.Run(t, lab.Gateway, "stat", "-c", "%U", "/proc/"+strconv.Itoa(state.PID))); who != "freerad" {
		t.Errorf("it runs as %s", who)
	}
	r.Run(t, lab.Gateway, "kill", "-9", strconv.Itoa(state.PID))
	another(t, r.Units(), freeradius.Unit, state.PID)
	waittest.Until(t, "the server is back", func() bool { return r.ports(t) != "" })
	r.WaitState(t, "radius", "live", 20*time.Second)
	r.want(t, r.login(), "Access-Accept")
}

// No secret and no password is in an answer, a log, or a file that others may read.
func radiusTellsNothing(t *testing.T, r *radiusRig) {
	var told bytes.Buffer
	for _, path := range []string{"/radius/clients", "/radius/users", "/radius/authentications", "/audit?limit=1000", "/system/components"} {
		told.Write(r.Must(t, http.MethodGet, path, nil, 200, nil).Body)
	}
	preview := fields{"preview": true, "operations": []operation{create("radius.user", fields{"name": "eve", "password": "canary: eve's"}), create("radius.client", fields{"name": "eve", "address": "192.0.2.9", "secret": "canary: eve's"})}}
	a := r.Must(t, http.MethodPost, "/change-sets", preview, 200, nil)
	if !bytes.Contains(a.Body, []byte("gateway-users")) || !bytes.Contains(a.Body, []byte("+eve Cleartext-Password := ")) {
		t.Errorf("the preview tells nothing: %s", a.Body)
	}
	told.Write(a.Body)
	err := filepath.WalkDir(r.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path, ".log") {
			return err
		}
		b, err := os.ReadFile(path)
		told.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"radius.log", "gateway-logins.log"} {
		told.WriteString(r.Run(t, lab.Gateway, "cat", "/var/log/freeradius/"+name))
	}
	if i := bytes.Index(told.Bytes(), []byte("canary")); i >= 0 {
		t.Errorf("a secret was told: …%s…", told.Bytes()[max(0, i-300):min(told.Len(), i+100)])
	}
	for _, name := range []string{"radiusd.conf", "gateway-clients.conf", "gateway-users"} {
		if mode := strings.TrimSpace(r.Run(t, lab.Gateway, "stat", "-c", "%a %U %G", "/etc/freeradius/gateway/"+name)); mode != "640 root freerad" {
			t.Errorf("%s: %s", name, mode)
		}
	}
}

func radiusDisabled(t *testing.T, r *radiusRig) {
	opened := func() bool {
		return strings.Contains(r.Run(t, lab.Gateway, "nft", "list", "table", "inet", "gateway"), "1812")
	}
	if !opened() {
		t.Error("the packet filter has no opening")
	}
	a := r.Must(t, http.MethodPut, "/radius/settings", fields{"enabled": false}, 200, nil)
	if got := a.Header.Get("Gateway-Apply"); got != "packet-filter=live, radius=live" {
		t.Errorf("Gateway-Apply: %s", got)
	}
	if ports := r.ports(t); ports != "" || opened() {
		t.Errorf("it is still open: %s", ports)
	}
	closed := r.login()
	closed.patience = hush
	r.want(t, closed, noAnswer)
	var done struct{ Error string }
	if r.Must(t, http.MethodPost, "/radius/test", fields{"name": "ada", "password": pass}, 200, &done); !strings.Contains(done.Error, "not running") {
		t.Errorf("%+v", done)
	}
	r.Must(t, http.MethodPut, "/radius/settings", fields{"enabled": true}, 200, nil)
	r.want(t, r.login(), "Access-Accept")
}
