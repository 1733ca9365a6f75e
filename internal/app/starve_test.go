package app_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
)

// answerWithin is reached only by a hang, however slow and busy the machine is. Whether the waits of a request stay within the
// promised limits is tested in kit/db, which measures waits instead of the clock.
const answerWithin = 2 * time.Minute

// certificates returns a preview of many certificates with expensive keys.
func certificates(preview bool, n int) string {
	ops := make([]string, n)
	for i := range ops {
		ops[i] = fmt.Sprintf(`{"kind":"certificate.certificate","verb":"create","body":{"names":["a%d.example.net"],"source":"self-signed","key_type":"rsa-2048"}}`, i)
	}
	return fmt.Sprintf(`{"preview":%t,"operations":[%s]}`, preview, strings.Join(ops, ","))
}

// answers concurrently makes the requests that must always be answered, and expects one of the statuses from each.
func (h house) answers(t *testing.T, session string, statuses ...int) {
	t.Helper()
	var all sync.WaitGroup
	defer all.Wait()
	ask := func(method, path string, body any) {
		all.Go(func() {
			start := time.Now()
			a := h.call(t, session, method, path, body)
			took := time.Since(start)
			known := a.Status == 200 || a.Status == 503 && a.Error.Code == "unavailable" || a.Status == 429 && path == "/change-sets"
			if !known || len(statuses) > 0 && !slices.Contains(statuses, a.Status) || took > answerWithin {
				t.Errorf("%s %s: %d after %s: %s", method, path, a.Status, took, a.Body)
			}
			t.Logf("%s %s: %d after %s", method, path, a.Status, took.Round(time.Millisecond))
		})
	}
	for _, path := range []string{"/auth/me", "/system/health", "/ntp/pools", "/users", "/audit"} {
		ask(http.MethodGet, path, nil)
	}
	for _, email := range []string{adminEmail, "viewer@example.net"} {
		ask(http.MethodPost, "/auth/login", map[string]any{"email": email, "password": secretWord})
	}
	for range 10 {
		ask(http.MethodPut, "/ntp/settings", map[string]any{"rtcsync": true})
		ask(http.MethodPut, "/dns/settings", map[string]any{"dnssec_validation": true})
	}
	ask(http.MethodPost, "/change-sets", `{"preview":true,"operations":[{"kind":"ntp.pool","verb":"create","body":{"address":"x.example"}}]}`)
}

func (h house) database(t *testing.T) string {
	t.Helper()
	var out struct{ Database string }
	h.call(t, "", http.MethodGet, "/system/health", nil).Want(t, 200).Into(t, &out)
	return out.Database
}

func (h house) wantDatabase(t *testing.T, state string) {
	t.Helper()
	waittest.Within(t, answerWithin, "the database is "+state, func() error {
		if is := h.database(t); is != state {
			return errors.New("it is " + is)
		}
		return nil
	})
}

// Nothing that one caller does, and nothing that happens to the database, keeps others from getting an answer.
func TestNothingStopsTheAPI(t *testing.T) {
	t.Parallel() // it mostly waits
	d, server := dbtest.Own(t)
	h := build(t, kittest.NewOn(t, d))
	admin := h.setUp(t)
	_, viewer := h.user(t, admin, "viewer@example.net", "viewer")
	token := h.token(t, viewer, "viewer")

	t.Run("previews", func(t *testing.T) {
		var all sync.WaitGroup
		defer all.Wait()
		flood := func(caller string, n int, statuses ...int) {
			all.Go(func() {
				a := h.call(t, caller, http.MethodPost, "/change-sets", certificates(true, n))
				if !slices.Contains(statuses, a.Status) {
					t.Errorf("a preview of %d operations: %d %s", n, a.Status, a.Body[:min(len(a.Body), 200)])
				}
			})
		}
		for range 16 {
			flood(token, 1000, 400)
			flood(token, 100, 200, 429, 503)
			flood(admin, 1000, 200, 429, 503)
		}
		h.answers(t, admin)
	})
	for _, table := range longtest.Some(t, 2, []string{"account_users", "account_sessions", "apply_revisions", "audit_entries", "ntp_pools"}) {
		t.Run("locked "+table, func(t *testing.T) {
			locked, free := make(chan error), make(chan struct{})
			var all sync.WaitGroup
			all.Go(func() {
				_ = h.DB.Write(t.Context(), func(tx *db.Tx) error {
					_, err := tx.Exec(t.Context(), "LOCK TABLE "+table)
					locked <- err
					<-free
					return errors.New("enough")
				})
			})
			if err := <-locked; err != nil {
				t.Fatal(err)
			}
			h.answers(t, admin)
			close(free)
			all.Wait()
		})
	}
	t.Run("stopped", func(t *testing.T) {
		h.wantDatabase(t, "up")
		thaw := dbtest.Freeze(t, server)
		h.answers(t, admin)
		h.wantDatabase(t, "away")
		h.answers(t, admin)
		thaw()
		h.wantDatabase(t, "up")
		h.answers(t, admin, 200)
	})
}

// A preview of a certificate generates no key; a stored one has its own.
func TestPreviewsMakeNoKeys(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	keys := func(preview bool) (a, b string) {
		t.Helper()
		var out struct {
			Changes []struct {
				After struct {
					PEM string `json:"certificate_pem"`
				}
			}
		}
		h.call(t, admin, http.MethodPost, "/change-sets", certificates(preview, 2)).Want(t, 200).Into(t, &out)
		var spki [2]string
		for i, c := range out.Changes {
			block, _ := pem.Decode([]byte(c.After.PEM))
			if block == nil {
				t.Fatalf("no certificate: %+v", out)
			}
			leaf, err := x509.ParseCertificate(block.Bytes)
			if err != nil || leaf.PublicKeyAlgorithm != x509.RSA {
				t.Fatal(err)
			}
			spki[i] = string(leaf.RawSubjectPublicKeyInfo)
		}
		return spki[0], spki[1]
	}
	sample, again := keys(true)
	one, two := keys(false)
	if sample != again || one == two || one == sample || two == sample {
		t.Errorf("two previewed keys are the same: %t; two stored ones: %t", sample == again, one == two)
	}
}
