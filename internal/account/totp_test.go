package account

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/secret"
)

func TestTO01EnrolAndLogInByTwoSteps(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	var setup struct {
		Secret string
		URL    string `json:"otpauth_url"`
		PNG    string `json:"qr_png"`
	}
	h.do(t, session, http.MethodPost, "/auth/totp/setup", nil).Want(t, http.StatusOK).Into(t, &setup)
	if len(setup.Secret) != 32 || !strings.HasPrefix(setup.URL, "otpauth://totp/"+fqdn) || !strings.Contains(setup.URL, "secret="+setup.Secret) {
		t.Errorf("setup %+v", setup)
	}
	b, err := base64.StdEncoding.DecodeString(setup.PNG)
	if err != nil {
		t.Fatal(err)
	}
	if image, err := png.Decode(bytes.NewReader(b)); err != nil || image.Bounds().Dx() < 100 {
		t.Errorf("QR code: %v", err)
	}
	// Before it is confirmed, a login stays as it is; another setup creates another secret.
	h.enter(t, admin, plain)
	h.do(t, session, http.MethodPost, "/auth/totp/enable", map[string]any{"code": "000000"}).WantField(t, "code")
	h.do(t, session, http.MethodPost, "/auth/totp/enable", map[string]any{}).WantField(t, "code")
	first := app{secret: setup.Secret}
	h.do(t, session, http.MethodPost, "/auth/totp/setup", nil).Want(t, http.StatusOK).Into(t, &setup)
	h.do(t, session, http.MethodPost, "/auth/totp/enable", map[string]any{"code": first.code(t, h, 0)}).WantField(t, "code")
	a := app{secret: setup.Secret}
	var out map[string][]string
	h.do(t, session, http.MethodPost, "/auth/totp/enable", map[string]any{"code": a.code(t, h, 0)}).Want(t, http.StatusOK).Into(t, &out)
	if codes := out["recovery_codes"]; len(codes) != 10 || len(codes[0]) != 19 || codes[0] == codes[1] {
		t.Errorf("recovery codes %v", codes)
	}
	// It is on: neither a second setup nor a second confirmation is possible.
	h.do(t, session, http.MethodPost, "/auth/totp/setup", nil).Want(t, http.StatusConflict)
	h.do(t, session, http.MethodPost, "/auth/totp/enable", map[string]any{"code": a.code(t, h, 0)}).Want(t, http.StatusConflict)
	var me map[string]any
	h.me(t, session).Want(t, http.StatusOK).Into(t, &me)
	if me["totp_enabled"] != true {
		t.Errorf("me %v", me)
	}
	// The password alone gives no session.
	challenge := h.firstStep(t, admin)
	h.me(t, "gateway_session="+challenge).Want(t, http.StatusUnauthorized)
	kittest.Call(t, h.Handler(), http.MethodGet, "/auth/me", nil, "Authorization", "Bearer "+challenge).Want(t, http.StatusUnauthorized)
	if n := h.Audited(t, "auth.login.success"); n != 2 {
		t.Errorf("%d logins are in the audit log", n)
	}
	// The code that confirmed is used up.
	h.secondStep(t, challenge, a.code(t, h, 0), here).Want(t, http.StatusUnauthorized)
	h.secondStep(t, challenge, a.code(t, h, 1), here).Want(t, http.StatusOK)
	for _, action := range []string{"auth.totp.setup", "auth.totp.enable"} {
		if h.Audited(t, action) == 0 {
			t.Errorf("%s is not audited", action)
		}
	}
}

func TestTO02CodesOfThreeSteps(t *testing.T) {
	h := newHouse(t)
	a := h.enrol(t, h.enter(t, admin, plain))
	for steps, want := range map[int]int{-2: 401, -1: 200, 0: 200, 1: 200, 2: 401} {
		h.clock.Move(10 * totpPeriod * time.Second)
		if got := h.secondStep(t, h.firstStep(t, admin), a.code(t, h, steps), here); got.Status != want {
			t.Errorf("%+d steps: %d", steps, got.Status)
		}
	}
	h.clock.Move(10 * totpPeriod * time.Second)
	answer := h.secondStep(t, h.firstStep(t, admin), " "+a.code(t, h, 0)[:3]+" "+a.code(t, h, 0)[3:], here).Want(t, http.StatusOK)
	var out struct{ User map[string]any }
	answer.Into(t, &out)
	if out.User["email"] != admin || out.User["auth_method"] != "totp" {
		t.Errorf("user %v", out.User)
	}
	h.me(t, cookieOf(t, answer)).Want(t, http.StatusOK)
	if e := h.entries(t, "auth.login.success")[0]; !strings.Contains(string(e.Details), `"method": "totp"`) || !strings.Contains(string(e.Details), `"remote_ip": "192.0.2.1"`) {
		t.Errorf("audit %s", e.Details)
	}
	if e := h.entries(t, "auth.login.failed"); len(e) != 2 || !strings.Contains(string(e[0].Details), `"invalid_totp"`) || e[0].Actor != admin {
		t.Errorf("audit %+v", e)
	}
}

func TestCodeIsGoodOnce(t *testing.T) {
	h := newHouse(t)
	a := h.enrol(t, h.enter(t, admin, plain))
	now, before := a.code(t, h, 0), a.code(t, h, -1)
	h.secondStep(t, h.firstStep(t, admin), now, here).Want(t, http.StatusOK)
	h.secondStep(t, h.firstStep(t, admin), now, here).Want(t, http.StatusUnauthorized)
	h.secondStep(t, h.firstStep(t, admin), before, here).Want(t, http.StatusUnauthorized) // older than one that was used
	h.restart(t)
	h.secondStep(t, h.firstStep(t, admin), now, here).Want(t, http.StatusUnauthorized)
	h.secondStep(t, h.firstStep(t, admin), a.code(t, h, 1), here).Want(t, http.StatusOK)
}

func TestChallengeIsBounded(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	a := h.enrol(t, session)
	// Five tries, whatever comes after.
	challenge := h.firstStep(t, admin)
	for range 5 {
		if f := h.secondStep(t, challenge, "000000", here).Want(t, http.StatusUnauthorized).Error.Fields; f["code"] == "" {
			t.Errorf("fields %v", f)
		}
	}
	if f := h.secondStep(t, challenge, a.code(t, h, 0), here).Want(t, http.StatusUnauthorized).Error.Fields; f["challenge"] == "" {
		t.Errorf("fields %v", f)
	}
	// Five minutes.
	challenge = h.firstStep(t, admin)
	h.clock.Move(5 * time.Minute)
	for range 2 {
		h.secondStep(t, challenge, a.code(t, h, 0), here).Want(t, http.StatusUnauthorized)
	}
	if e := h.entries(t, "auth.login.failed"); len(e) != 6 || !strings.Contains(string(e[0].Details), `"challenge_expired"`) || e[0].Actor != admin {
		t.Errorf("audit %+v", e)
	}
	// Spent by a login.
	challenge = h.firstStep(t, admin)
	h.secondStep(t, challenge, a.code(t, h, 0), here).Want(t, http.StatusOK)
	h.secondStep(t, challenge, a.codes[0], here).Want(t, http.StatusUnauthorized)
	for _, nonsense := range []string{"x", strings.Repeat("x", 100)} {
		h.secondStep(t, nonsense, a.code(t, h, 0), here).Want(t, http.StatusUnauthorized)
	}
	h.secondStep(t, "", "", here).WantField(t, "challenge")
	// It belongs to one account.
	h.add(t, session, "b@example.net", "viewer")
	h.enrol(t, h.enter(t, "b@example.net", plain))
	h.secondStep(t, h.firstStep(t, "b@example.net"), a.code(t, h, 0), here).Want(t, http.StatusUnauthorized)
	if err := Prune(t.Context(), h.DB, h.clock); err != nil || h.Rows(t, "account_challenges") == 0 {
		t.Errorf("a live challenge was pruned: %v", err)
	}
	h.clock.Move(5 * time.Minute)
	if err := Prune(t.Context(), h.DB, h.clock); err != nil || h.Rows(t, "account_challenges") != 0 {
		t.Errorf("%d challenges are left: %v", h.Rows(t, "account_challenges"), err)
	}
}

// What ends the sessions of a user ends a login in progress.
func TestChallengeEndsWithThePassword(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	id := h.add(t, session, "b@example.net", "viewer")
	a := h.enrol(t, h.enter(t, "b@example.net", plain))
	challenge := h.firstStep(t, "b@example.net")
	h.do(t, session, http.MethodPost, "/users/"+id+"/password", map[string]any{"password": other}).Want(t, http.StatusOK)
	h.secondStep(t, challenge, a.code(t, h, 0), here).Want(t, http.StatusUnauthorized)
	h.do(t, session, http.MethodPost, "/users/"+id+"/password", map[string]any{"password": plain}).Want(t, http.StatusOK)
	challenge = h.firstStep(t, "b@example.net") // the second factor stays
	h.do(t, session, http.MethodPut, "/users/"+id, map[string]any{"active": false}).Want(t, http.StatusOK)
	h.secondStep(t, challenge, a.code(t, h, 0), here).Want(t, http.StatusForbidden)
	h.do(t, session, http.MethodDelete, "/users/"+id, nil).Want(t, http.StatusOK)
	h.secondStep(t, challenge, a.code(t, h, 0), here).Want(t, http.StatusUnauthorized)

	// A reset with the console's token keeps the second factor, too.
	mine := h.enrol(t, session)
	challenge = h.firstStep(t, admin)
	token, err := CreateResetToken(h.Paths, h.clock, false)
	if err != nil {
		t.Fatal(err)
	}
	h.reset(t, token, plain).Want(t, http.StatusOK)
	h.secondStep(t, challenge, mine.code(t, h, 0), here).Want(t, http.StatusUnauthorized)
	h.secondStep(t, h.firstStep(t, admin), mine.code(t, h, 0), here).Want(t, http.StatusOK)
}

func TestCodesAreThrottled(t *testing.T) {
	h := newHouse(t)
	a := h.enrol(t, h.enter(t, admin, plain))
	// The password does not buy more guesses: ten per address.
	for range 2 {
		challenge := h.firstStep(t, admin)
		for range 5 {
			h.secondStep(t, challenge, "000000", here).Want(t, http.StatusUnauthorized)
		}
	}
	answer := h.secondStep(t, h.firstStep(t, admin), a.code(t, h, 0), here).Want(t, http.StatusTooManyRequests)
	if answer.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	h.secondStep(t, h.firstStep(t, admin), a.code(t, h, 0), there).Want(t, http.StatusOK)
	if e := h.entries(t, "auth.login.failed"); len(e) != 11 || !strings.Contains(string(e[0].Details), `"throttled"`) {
		t.Errorf("audit %+v", e)
	}
	// A hundred per account, from anywhere; recovery codes still work.
	h.clock.Move(24 * time.Hour)
	for i := range 100 {
		h.secondStep(t, h.challenges(t, admin, 1)[0], "000000", fmt.Sprintf("203.0.113.%d:1", i)).Want(t, http.StatusUnauthorized)
	}
	h.secondStep(t, h.firstStep(t, admin), a.code(t, h, 0), "203.0.113.200:1").Want(t, http.StatusTooManyRequests)
	h.secondStep(t, h.firstStep(t, admin), a.codes[0], "203.0.113.200:1").Want(t, http.StatusOK)
	h.clock.Move(24 * time.Hour)
	h.secondStep(t, h.firstStep(t, admin), a.code(t, h, 0), here).Want(t, http.StatusOK)
}

func TestRecoveryCodes(t *testing.T) {
	h := newHouse(t)
	a := h.enrol(t, h.enter(t, admin, plain))
	answer := h.secondStep(t, h.firstStep(t, admin), strings.ToUpper(strings.ReplaceAll(a.codes[3], "-", " ")), here).Want(t, http.StatusOK)
	if !strings.Contains(string(answer.Body), `"auth_method":"recovery-code"`) {
		t.Errorf("%s", answer.Body)
	}
	h.secondStep(t, h.firstStep(t, admin), a.codes[3], here).Want(t, http.StatusUnauthorized)
	h.secondStep(t, h.firstStep(t, admin), a.codes[4], here).Want(t, http.StatusOK)
	if n := h.Rows(t, "account_recovery_codes"); n != 8 {
		t.Errorf("%d codes are left", n)
	}
	// Nobody else can use them.
	session := h.enter2(t, admin, a)
	h.add(t, session, "b@example.net", "viewer")
	h.enrol(t, h.enter(t, "b@example.net", plain))
	h.secondStep(t, h.firstStep(t, "b@example.net"), a.codes[5], here).Want(t, http.StatusUnauthorized)
	h.secondStep(t, h.firstStep(t, admin), a.codes[5], here).Want(t, http.StatusOK)
}

// enter2 logs in with two steps.
func (h *house) enter2(t *testing.T, email string, a app) string {
	t.Helper()
	h.clock.Move(3 * totpPeriod * time.Second)
	return cookieOf(t, h.secondStep(t, h.firstStep(t, email), a.code(t, h, 0), here).Want(t, http.StatusOK))
}

func TestDisableByThePassword(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	h.do(t, session, http.MethodPost, "/auth/totp/disable", map[string]any{"password": plain}).Want(t, http.StatusNotFound)
	h.enrol(t, session)
	if f := h.do(t, session, http.MethodPost, "/auth/totp/disable", map[string]any{"password": "not the password"}).Want(t, http.StatusUnauthorized).Error.Fields; f["password"] == "" {
		t.Errorf("fields %v", f)
	}
	h.do(t, session, http.MethodPost, "/auth/totp/disable", map[string]any{}).WantField(t, "password")
	h.firstStep(t, admin)
	h.do(t, session, http.MethodPost, "/auth/totp/disable", map[string]any{"password": plain}).Want(t, http.StatusOK)
	h.enter(t, admin, plain)
	if h.Rows(t, "account_totp") != 0 || h.Rows(t, "account_recovery_codes") != 0 || h.Audited(t, "auth.totp.disable") != 1 {
		t.Error("something is left, or it is not audited")
	}
	h.enrol(t, session) // and on again
	h.firstStep(t, admin)
}

func TestTO05AdminDisables(t *testing.T) {
	h := newHouse(t)
	root := h.enter(t, admin, plain)
	id := h.add(t, root, "b@example.net", "viewer")
	other := h.add(t, root, "c@example.net", "viewer")
	a := h.enrol(t, h.enter(t, "b@example.net", plain))
	viewer := h.enter(t, "c@example.net", plain)
	h.do(t, viewer, http.MethodDelete, "/users/"+id+"/totp", nil).Want(t, http.StatusForbidden)
	h.do(t, h.enter2(t, "b@example.net", a), http.MethodDelete, "/users/"+id+"/totp", nil).Want(t, http.StatusForbidden)
	h.firstStep(t, "b@example.net")
	users := string(h.do(t, root, http.MethodGet, "/users", nil).Want(t, http.StatusOK).Body)
	h.do(t, root, http.MethodDelete, "/users/"+id+"/totp", nil).Want(t, http.StatusOK)
	h.enter(t, "b@example.net", plain)
	h.do(t, root, http.MethodDelete, "/users/"+id+"/totp", nil).Want(t, http.StatusNotFound)
	h.do(t, root, http.MethodDelete, "/users/"+other+"/totp", nil).Want(t, http.StatusNotFound)
	e := h.entries(t, "user.totp.disable")
	if len(e) != 1 || e[0].Actor != admin || e[0].Subject != "b@example.net" {
		t.Errorf("audit %+v", e)
	}
	output := users + h.Logs.String()
	for _, e := range h.entries(t, "") {
		output += e.Subject + string(e.Details)
	}
	if strings.Contains(output, a.secret) || strings.Contains(output, a.codes[0]) {
		t.Error("the secret was exposed")
	}
}

// A machine with another master key cannot read the secret: it says so, and recovery codes work.
func TestTOTPUnderAnotherMasterKey(t *testing.T) {
	h := newHouse(t)
	a := h.enrol(t, h.enter(t, admin, plain))
	var sealed []byte
	if err := h.DB.QueryRow(t.Context(), "SELECT secret FROM account_totp").Scan(&sealed); err != nil || bytes.Contains(sealed, []byte(a.secret)) {
		t.Errorf("the secret is not sealed: %v", err)
	}
	box, err := secret.NewBox(bytes.Repeat([]byte{9}, 32))
	if err != nil {
		t.Fatal(err)
	}
	h.Secrets = box
	h.restart(t)
	h.secondStep(t, h.firstStep(t, admin), a.code(t, h, 0), here).Want(t, http.StatusConflict)
	h.secondStep(t, h.firstStep(t, admin), a.codes[0], here).Want(t, http.StatusOK)
}

// A second factor that is enabled while a password is verified counts.
func TestSecondFactorComesOnMeanwhile(t *testing.T) {
	h := newHouse(t)
	h.enter(t, admin, plain)
	who, err := h.room.find(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	h.exec(t, "UPDATE account_users SET totp_enabled = true")
	call := &httpd.Call{Context: t.Context(), Request: httptest.NewRequest(http.MethodPost, "/", nil)}
	if _, err := h.room.begin(call, &who); !errors.Is(err, errCredentials) {
		t.Errorf("the password alone was enough: %v", err)
	}
}

func TestParallelSecondStepsAllLand(t *testing.T) {
	h := newHouse(t)
	h.enrol(t, h.enter(t, admin, plain))
	challenges, codes := h.challenges(t, admin, 40), h.recoveryCodes(t, 40)
	var all sync.WaitGroup
	for i := range codes {
		all.Go(func() {
			if a := h.secondStep(t, challenges[i], codes[i], fmt.Sprintf("203.0.113.%d:1", i)); a.Status != http.StatusOK {
				t.Errorf("%d: %s", a.Status, a.Body)
			}
		})
	}
	all.Wait()
}

func TestRoundsOfOneCode(t *testing.T) {
	h := newHouse(t)
	a := h.enrol(t, h.enter(t, admin, plain))
	race(t, rounds(t), func() func(int) bool {
		h.clock.Move(25 * time.Hour)
		code, challenges := a.code(t, h, 0), h.challenges(t, admin, parallel)
		return func(i int) bool {
			return h.secondStep(t, challenges[i], code, fmt.Sprintf("203.0.113.%d:1", i)).Status == http.StatusOK
		}
	})
}

// Each of the concurrent attempts has its own right code.
func TestRoundsOfOneChallenge(t *testing.T) {
	h := newHouse(t)
	h.enrol(t, h.enter(t, admin, plain))
	race(t, rounds(t), func() func(int) bool {
		h.clock.Move(25 * time.Hour)
		codes, challenge := h.recoveryCodes(t, parallel), h.challenges(t, admin, 1)[0]
		return func(i int) bool {
			return h.secondStep(t, challenge, codes[i], fmt.Sprintf("203.0.113.%d:1", i)).Status == http.StatusOK
		}
	})
}

// recoveryCodes gives the only user more codes than usual.
func (h *house) recoveryCodes(t *testing.T, n int) (codes []string) {
	t.Helper()
	var hashes [][]byte
	for len(codes) < n {
		c, x := newRecoveryCodes()
		codes, hashes = append(codes, c...), append(hashes, x...)
	}
	h.exec(t, "INSERT INTO account_recovery_codes (user_id, hash) SELECT id, unnest($1::bytea[]) FROM account_users", hashes)
	return codes
}

// Of concurrent wrong codes, five are checked.
func TestTriesOfOneChallengeAtOnce(t *testing.T) {
	h := newHouse(t)
	h.enrol(t, h.enter(t, admin, plain))
	for range 5 {
		h.clock.Move(25 * time.Hour)
		challenge, looked := h.challenges(t, admin, 1)[0], make(chan bool, parallel)
		for i := range parallel {
			go func() {
				a := h.secondStep(t, challenge, "000000", fmt.Sprintf("203.0.113.%d:1", i))
				looked <- a.Error.Fields["code"] != ""
			}()
		}
		n := 0
		for range parallel {
			if <-looked {
				n++
			}
		}
		if n != maxTries {
			t.Fatalf("%d codes were looked at", n)
		}
	}
}

func TestRoundsOfOneRecoveryCode(t *testing.T) {
	h := newHouse(t)
	h.enrol(t, h.enter(t, admin, plain))
	race(t, rounds(t), func() func(int) bool {
		h.clock.Move(25 * time.Hour)
		code, challenges := h.recoveryCodes(t, 1)[0], h.challenges(t, admin, parallel)
		return func(i int) bool {
			return h.secondStep(t, challenges[i], code, fmt.Sprintf("203.0.113.%d:1", i)).Status == http.StatusOK
		}
	})
}

func TestRoundsOfOneConfirmation(t *testing.T) {
	h := newHouse(t)
	session := h.enter(t, admin, plain)
	race(t, rounds(t), func() func(int) bool {
		h.exec(t, "DELETE FROM account_totp")
		var a app
		var setup struct{ Secret string }
		h.do(t, session, http.MethodPost, "/auth/totp/setup", nil).Want(t, http.StatusOK).Into(t, &setup)
		a.secret = setup.Secret
		code := a.code(t, h, 0)
		return func(int) bool {
			return h.do(t, session, http.MethodPost, "/auth/totp/enable", map[string]any{"code": code}).Status == http.StatusOK
		}
	})
}
