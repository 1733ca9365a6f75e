package account

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/longtest"
)

// app is a user's authenticator app.
type app struct {
	secret string
	codes  []string // recovery codes
}

// code returns what the app shows some steps from now.
func (a app) code(t *testing.T, h *house, steps int) string {
	t.Helper()
	code, err := totp.GenerateCode(a.secret, h.clock.Now().Add(time.Duration(steps)*totpPeriod*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// enrol gives the user of a session an authenticator app. The clock advances, because the confirming code is used up.
func (h *house) enrol(t *testing.T, session string) (a app) {
	t.Helper()
	var setup struct{ Secret string }
	h.do(t, session, http.MethodPost, "/auth/totp/setup", nil).Want(t, http.StatusOK).Into(t, &setup)
	a.secret = setup.Secret
	var out struct {
		Codes []string `json:"recovery_codes"`
	}
	h.do(t, session, http.MethodPost, "/auth/totp/enable", map[string]any{"code": a.code(t, h, 0)}).Want(t, http.StatusOK).Into(t, &out)
	a.codes = out.Codes
	h.clock.Move(2 * totpPeriod * time.Second)
	return a
}

// firstStep logs in with the password and returns the challenge.
func (h *house) firstStep(t *testing.T, email string) string {
	t.Helper()
	a := h.login(t, email, plain, here).Want(t, http.StatusOK)
	var out struct {
		Challenge    string
		TOTPRequired bool `json:"totp_required"`
		User         any
	}
	a.Into(t, &out)
	if !out.TOTPRequired || out.Challenge == "" || out.User != nil || a.Header.Get("Set-Cookie") != "" {
		t.Fatalf("first step: %s %v", a.Body, a.Header)
	}
	return out.Challenge
}

func (h *house) secondStep(t *testing.T, challenge, code, from string) *kittest.Answer {
	t.Helper()
	return kittest.Call(t, h.Handler(), http.MethodPost, "/auth/login/totp", map[string]any{"challenge": challenge, "code": code}, "X-Test-Client", from)
}

// exec changes the database behind the gateway's back.
func (h *house) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if err := h.DB.Write(t.Context(), func(tx *db.Tx) error { tx.Queue(sql, args...); return nil }); err != nil {
		t.Fatal(err)
	}
}

// challenges makes first steps without passwords, for tests that need many.
func (h *house) challenges(t *testing.T, email string, n int) []string {
	t.Helper()
	who, err := h.room.find(t.Context(), email)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]string, n)
	err = h.DB.Write(t.Context(), func(tx *db.Tx) error {
		for i := range list {
			var hash []byte
			list[i], hash = newTicket("")
			tx.Queue("INSERT INTO account_challenges (id, user_id, expires_at, tries, issue_token) VALUES ($1, $2, $3, 0, false)", hash, who.ID, h.clock.Now().Add(challengeTTL))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// rounds is the number of rounds of a race; make faults asks for more.
func rounds(t *testing.T) int { return longtest.Number(t, "GATEWAY_ROUNDS", 10, 50) }

// parallel is the number of concurrent attempts.
const parallel = 20

// race runs concurrent attempts, round by round, and fails unless exactly one of each round succeeds. prepare prepares a round.
func race(t *testing.T, rounds int, prepare func() (try func(i int) bool)) {
	t.Helper()
	for round := range rounds {
		try := prepare()
		var won atomic.Int32
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range parallel {
			all.Go(func() {
				<-start
				if try(i) {
					won.Add(1)
				}
			})
		}
		close(start)
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d of %d won", round, won.Load(), parallel)
		}
	}
}
