package account

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"

	"edge.internal/gateway/internal/kit/kittest"
)

// device is a browser with an authenticator that has one passkey for the gateway.
type device struct {
	party         virtualwebauthn.RelyingParty
	authenticator virtualwebauthn.Authenticator
	key           virtualwebauthn.Credential
	host          string // as in the browser's address bar
}

func newDevice(host string) *device {
	name, _, _ := strings.Cut(host, ":")
	// The library drops leading zeros of a coordinate, which no authenticator does.
	const whole = 77
	key := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
	for len(key.Key.AttestationData()) != whole {
		key = virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
	}
	return &device{
		party: virtualwebauthn.RelyingParty{Name: "Gateway", ID: name, Origin: "https://" + host},
		// Browsers sync passkeys between devices, so they are eligible for a backup and have one.
		authenticator: virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{BackupEligible: true, BackupState: true}),
		key:           key, host: host,
	}
}

// at makes a request under the device's name of the gateway.
func (d *device) at(t *testing.T, h *house, session, path string, body any) *kittest.Answer {
	t.Helper()
	return kittest.Call(t, h.Handler(), http.MethodPost, path, body, "Cookie", session, "X-Test-Client", here, "Host", d.host)
}

func options(t *testing.T, a *kittest.Answer) string {
	t.Helper()
	var out struct{ Options json.RawMessage }
	a.Want(t, http.StatusOK).Into(t, &out)
	return string(out.Options)
}

// make answers a registration.
func (d *device) make(t *testing.T, options string) json.RawMessage {
	t.Helper()
	parsed, err := virtualwebauthn.ParseAttestationOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	d.authenticator.Options.UserHandle = []byte(parsed.UserID)
	return json.RawMessage(virtualwebauthn.CreateAttestationResponse(d.party, d.authenticator, d.key, *parsed))
}

// sign answers a login.
func (d *device) sign(t *testing.T, options string) json.RawMessage {
	t.Helper()
	parsed, err := virtualwebauthn.ParseAssertionOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	d.key.Counter++
	return json.RawMessage(virtualwebauthn.CreateAssertionResponse(d.party, d.authenticator, d.key, *parsed))
}

func (h *house) register(t *testing.T, session string, d *device) *kittest.Answer {
	t.Helper()
	credential := d.make(t, options(t, d.at(t, h, session, "/auth/passkeys/register/begin", nil)))
	return d.at(t, h, session, "/auth/passkeys/register/finish", map[string]any{"name": "laptop", "credential": credential})
}

func (h *house) askFor(t *testing.T, d *device, challenge string) *kittest.Answer {
	t.Helper()
	return d.at(t, h, "", "/auth/login/passkey/begin", map[string]any{"challenge": challenge})
}

func (h *house) give(t *testing.T, d *device, challenge string, credential json.RawMessage) *kittest.Answer {
	t.Helper()
	return d.at(t, h, "", "/auth/login/passkey/finish", map[string]any{"challenge": challenge, "credential": credential})
}

func TestPasskeyAsSecondStep(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	for _, host := range []string{fqdn, fqdn + ":3443", "localhost:3443"} {
		d := newDevice(host)
		var added Passkey
		begun := len(h.entries(t, "auth.passkey.begin"))
		a := h.register(t, session, d).Want(t, http.StatusCreated)
		a.Into(t, &added)
		if at := a.Header.Get("Location"); !strings.HasSuffix(at, "/auth/passkeys/"+added.ID.String()) {
			t.Errorf("it is said to be at %q", at)
		}
		if n := len(h.entries(t, "auth.passkey.begin")) - begun; n != 1 {
			t.Errorf("%d entries about its beginning", n)
		}
		var list []Passkey
		h.do(t, session, http.MethodGet, "/auth/passkeys", nil).Want(t, http.StatusOK).Into(t, &list)
		if len(list) != 1 || list[0].Name != "laptop" || list[0].Host != d.party.ID || list[0].ID != added.ID || list[0].LastUsedAt != nil {
			t.Fatalf("%s: passkeys %+v", host, list)
		}
		a = h.login(t, admin, plain, here).Want(t, http.StatusOK)
		if !strings.Contains(string(a.Body), `"methods":["passkey"]`) || a.Header.Get("Set-Cookie") != "" {
			t.Errorf("first step: %s", a.Body)
		}
		challenge := h.firstStep(t, admin)
		h.secondStep(t, challenge, "000000", here).Want(t, http.StatusUnauthorized)
		answer := h.give(t, d, challenge, d.sign(t, options(t, h.askFor(t, d, challenge)))).Want(t, http.StatusOK)
		if !strings.Contains(string(answer.Body), `"auth_method":"passkey"`) {
			t.Errorf("%s", answer.Body)
		}
		h.me(t, cookieOf(t, answer)).Want(t, http.StatusOK)
		h.do(t, session, http.MethodGet, "/auth/passkeys", nil).Into(t, &list)
		if list[0].LastUsedAt == nil {
			t.Error("its use is not written down")
		}
		h.do(t, session, http.MethodDelete, "/auth/passkeys/"+added.ID.String(), nil).Want(t, http.StatusOK)
		h.do(t, session, http.MethodDelete, "/auth/passkeys/"+added.ID.String(), nil).Want(t, http.StatusNotFound)
		h.enter(t, admin, plain)
	}
	for action, n := range map[string]int{"auth.passkey.add": 3, "auth.passkey.delete": 3} {
		if got := h.Audited(t, action); got != n {
			t.Errorf("%s: %d entries", action, got)
		}
	}
}

func TestPasskeyBesideTOTP(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	d := newDevice(fqdn)
	h.register(t, session, d).Want(t, http.StatusCreated)
	a := h.enrol(t, session)
	if answer := h.login(t, admin, plain, here); !strings.Contains(string(answer.Body), `"methods":["totp","passkey"]`) {
		t.Errorf("%s", answer.Body)
	}
	h.secondStep(t, h.firstStep(t, admin), a.code(t, h, 0), here).Want(t, http.StatusOK)
	challenge := h.firstStep(t, admin)
	h.give(t, d, challenge, d.sign(t, options(t, h.askFor(t, d, challenge)))).Want(t, http.StatusOK)
}

func TestRegistrationIsGuarded(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	d := newDevice(fqdn)
	finish := func(d *device, name string, credential any) *kittest.Answer {
		t.Helper()
		return d.at(t, h, session, "/auth/passkeys/register/finish", map[string]any{"name": name, "credential": credential})
	}
	begin := func(d *device) string {
		t.Helper()
		return options(t, d.at(t, h, session, "/auth/passkeys/register/begin", nil))
	}
	finish(d, "x", map[string]any{}).Want(t, http.StatusConflict) // nothing has begun
	// Each of these uses up what has begun.
	begin(d)
	finish(d, "x", map[string]any{"nonsense": true}).WantField(t, "credential")
	finish(d, "x", map[string]any{}).Want(t, http.StatusConflict)
	evil := newDevice(fqdn)
	evil.party.Origin = "https://evil.example"
	finish(d, "x", evil.make(t, begin(d))).WantField(t, "credential")
	evil.party = virtualwebauthn.RelyingParty{Name: "Gateway", ID: "evil.example", Origin: "https://" + fqdn}
	finish(d, "x", evil.make(t, begin(d))).WantField(t, "credential")
	old := d.make(t, begin(d))
	begin(d)
	finish(d, "x", old).WantField(t, "credential") // it answers an earlier request
	late := d.make(t, begin(d))
	h.clock.Move(5 * time.Minute)
	finish(d, "x", late).Want(t, http.StatusConflict)
	finish(d, "", d.make(t, begin(d))).WantField(t, "name")
	finish(d, strings.Repeat("x", 101), d.make(t, begin(d))).WantField(t, "name")
	if h.Rows(t, "account_passkeys") != 0 {
		t.Error("a passkey was added")
	}
	finish(d, "x", d.make(t, begin(d))).Want(t, http.StatusCreated)
	// No other user can have the same key, and under an address there are no passkeys.
	h.add(t, session, "b@example.net", "viewer")
	session2 := h.enter(t, "b@example.net", plain)
	h.register(t, session2, d).Want(t, http.StatusConflict)
	for _, host := range []string{"127.0.0.1:3443", "evil.example", "[::1]:3443"} {
		if a := newDevice(host).at(t, h, session, "/auth/passkeys/register/begin", nil).Want(t, http.StatusConflict); !strings.Contains(a.Error.Message, fqdn) {
			t.Errorf("%s", a.Body)
		}
	}
	// Nor can a user delete another user's passkey.
	var list []Passkey
	h.do(t, session, http.MethodGet, "/auth/passkeys", nil).Into(t, &list)
	h.do(t, session2, http.MethodDelete, "/auth/passkeys/"+list[0].ID.String(), nil).Want(t, http.StatusNotFound)
}

func TestPasskeyLoginIsGuarded(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	d, others := newDevice(fqdn), newDevice(fqdn)
	h.register(t, session, d).Want(t, http.StatusCreated)
	h.add(t, session, "b@example.net", "viewer")
	h.register(t, h.enter(t, "b@example.net", plain), others).Want(t, http.StatusCreated)
	refused := func(name string, a *kittest.Answer) {
		t.Helper()
		if a.Status != http.StatusUnauthorized || a.Error.Fields["credential"] == "" || a.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	challenge := h.firstStep(t, admin)
	refused("nothing was asked", h.give(t, d, challenge, json.RawMessage(`{}`)))
	asked := options(t, h.askFor(t, d, challenge))
	refused("nonsense", h.give(t, d, challenge, json.RawMessage(`{"x":1}`)))
	refused("what was asked is spent", h.give(t, d, challenge, d.sign(t, asked)))
	refused("another user's", h.give(t, d, challenge, others.sign(t, options(t, h.askFor(t, d, challenge)))))
	evil := *d
	evil.party.Origin = "https://evil.example"
	refused("another site", h.give(t, d, challenge, evil.sign(t, options(t, h.askFor(t, d, challenge)))))
	h.askFor(t, d, challenge).Want(t, http.StatusUnauthorized) // five tries
	if n := h.Audited(t, "auth.login.failed"); n != 5 {
		t.Errorf("%d audit entries", n)
	}
	// An answer to one challenge is not valid for another.
	one, two := h.firstStep(t, admin), h.firstStep(t, admin)
	answer := d.sign(t, options(t, h.askFor(t, d, one)))
	h.askFor(t, d, two).Want(t, http.StatusOK)
	refused("another challenge", h.give(t, d, two, answer))
	h.give(t, d, one, answer).Want(t, http.StatusOK)
	// Too late.
	late := h.firstStep(t, admin)
	asked = options(t, h.askFor(t, d, late))
	h.clock.Move(5 * time.Minute)
	h.give(t, d, late, d.sign(t, asked)).Want(t, http.StatusUnauthorized)
	// Under another name of the gateway, the passkey does not exist.
	h.askFor(t, newDevice("localhost"), h.firstStep(t, admin)).Want(t, http.StatusConflict)
	h.askFor(t, newDevice("127.0.0.1"), h.firstStep(t, admin)).Want(t, http.StatusConflict)
	h.askFor(t, d, "nonsense").Want(t, http.StatusUnauthorized)
}

func TestCopiedPasskeyIsRefused(t *testing.T) {
	h := newHouse(t)
	d := newDevice(fqdn)
	h.register(t, h.enter(t, admin, plain), d).Want(t, http.StatusCreated)
	copied := *d
	for range 2 {
		challenge := h.firstStep(t, admin)
		h.give(t, d, challenge, d.sign(t, options(t, h.askFor(t, d, challenge)))).Want(t, http.StatusOK)
	}
	challenge := h.firstStep(t, admin)
	h.give(t, &copied, challenge, copied.sign(t, options(t, h.askFor(t, &copied, challenge)))).Want(t, http.StatusUnauthorized)
	if e := h.entries(t, "auth.login.failed"); len(e) != 1 || !strings.Contains(string(e[0].Details), `"passkey_cloned"`) {
		t.Errorf("audit %+v", e)
	}
	challenge = h.firstStep(t, admin)
	h.give(t, d, challenge, d.sign(t, options(t, h.askFor(t, d, challenge)))).Want(t, http.StatusOK)
}

// Many authenticators have no counter.
func TestPasskeyWithoutACounter(t *testing.T) {
	h := newHouse(t)
	d := newDevice(fqdn)
	h.register(t, h.enter(t, admin, plain), d).Want(t, http.StatusCreated)
	for range 2 {
		challenge := h.firstStep(t, admin)
		asked := options(t, h.askFor(t, d, challenge))
		d.key.Counter = ^uint32(0) // sign counts once more
		h.give(t, d, challenge, d.sign(t, asked)).Want(t, http.StatusOK)
	}
}

func TestAdminDeletesPasskeys(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	id := h.add(t, root, "b@example.net", "viewer")
	viewer := h.enter(t, "b@example.net", plain)
	h.register(t, viewer, newDevice(fqdn)).Want(t, http.StatusCreated)
	var u map[string]any
	h.do(t, root, http.MethodGet, "/users/"+id, nil).Into(t, &u)
	if u["passkeys"] != 1.0 {
		t.Errorf("user %v", u)
	}
	h.firstStep(t, "b@example.net")
	h.do(t, viewer, http.MethodDelete, "/users/"+id+"/passkeys", nil).Want(t, http.StatusForbidden)
	h.do(t, root, http.MethodDelete, "/users/"+id+"/passkeys", nil).Want(t, http.StatusOK)
	h.enter(t, "b@example.net", plain)
	if h.Audited(t, "user.passkeys.delete") != 1 {
		t.Error("not audited")
	}
}

func TestRoundsOfOnePasskeyAnswer(t *testing.T) {
	h := newHouse(t)
	d := newDevice(fqdn)
	h.register(t, h.enter(t, admin, plain), d).Want(t, http.StatusCreated)
	race(t, rounds(t), func() func(int) bool {
		h.clock.Move(25 * time.Hour)
		challenge := h.challenges(t, admin, 1)[0]
		answer := d.sign(t, options(t, h.askFor(t, d, challenge)))
		return func(int) bool { return h.give(t, d, challenge, answer).Status == http.StatusOK }
	})
}

// Copies of one passkey that answer at the same time: the count increases for one of them.
func TestRoundsOfOnePasskeyCount(t *testing.T) {
	h := newHouse(t)
	d := newDevice(fqdn)
	h.register(t, h.enter(t, admin, plain), d).Want(t, http.StatusCreated)
	race(t, (rounds(t)+9)/10, func() func(int) bool { // each round has many to prepare
		h.clock.Move(25 * time.Hour)
		challenges, count := h.challenges(t, admin, parallel), d.key.Counter
		var answers [parallel]json.RawMessage
		for i, challenge := range challenges {
			d.key.Counter = count
			answers[i] = d.sign(t, options(t, h.askFor(t, d, challenge)))
		}
		return func(i int) bool { return h.give(t, d, challenges[i], answers[i]).Status == http.StatusOK }
	})
}

func TestRoundsOfOneRegistration(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	race(t, rounds(t), func() func(int) bool {
		h.exec(t, "DELETE FROM account_passkeys")
		d := newDevice(fqdn)
		credential := d.make(t, options(t, d.at(t, h, session, "/auth/passkeys/register/begin", nil)))
		return func(i int) bool {
			return d.at(t, h, session, "/auth/passkeys/register/finish", map[string]any{"name": fmt.Sprint(i), "credential": credential}).Status == http.StatusCreated
		}
	})
	var n int
	if err := h.DB.QueryRow(t.Context(), "SELECT passkeys FROM account_users").Scan(&n); err != nil || n != 1 {
		t.Errorf("the user has %d passkeys: %v", n, err)
	}
}
