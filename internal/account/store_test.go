package account

import (
	"net/http"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/kittest"
)

// weaker lists the ways in which another admin takes something from the setup's admin.
var weaker = map[string]func(t *testing.T, h *house, by, path string) *kittest.Answer{
	"deleted": func(t *testing.T, h *house, by, path string) *kittest.Answer {
		return h.do(t, by, http.MethodDelete, path, nil)
	},
	"deactivated": func(t *testing.T, h *house, by, path string) *kittest.Answer {
		return h.do(t, by, http.MethodPut, path, map[string]any{"active": false})
	},
	"demoted": func(t *testing.T, h *house, by, path string) *kittest.Answer {
		return h.do(t, by, http.MethodPut, path, map[string]any{"role": "viewer"})
	},
	"re-passworded": func(t *testing.T, h *house, by, path string) *kittest.Answer {
		return h.do(t, by, http.MethodPut, path, map[string]any{"password": other})
	},
	"re-passworded alone": func(t *testing.T, h *house, by, path string) *kittest.Answer {
		return h.do(t, by, http.MethodPost, path+"/password", map[string]any{"password": other})
	},
}

// twoAdmins returns the setup's admin with the path of the user, and the session of another admin.
func twoAdmins(t *testing.T) (h *house, path, second string) {
	t.Helper()
	h = newHouse(t)
	root := h.enter(t, admin, plain)
	h.add(t, root, "b@example.net", "admin")
	var me struct{ ID string }
	h.me(t, root).Into(t, &me)
	return h, "/users/" + me.ID, h.enter(t, "b@example.net", plain)
}

// isOut checks that the setup's admin can no longer act as an admin with the old password.
func (h *house) isOut(t *testing.T) {
	t.Helper()
	if a := h.login(t, admin, plain, here); a.Status == http.StatusOK && !strings.Contains(string(a.Body), `"role":"viewer"`) {
		t.Errorf("the admin is in: %s", a.Body)
	}
}

// What cannot be removed from the setup store is not removed from the user either: otherwise the store would admit the old admin again.
func TestStoreThatCannotBeWrittenKeepsTheUser(t *testing.T) {
	for name, weaken := range weaker {
		t.Run(name, func(t *testing.T) {
			h, path, b := twoAdmins(t)
			h.store.breakAfter(0)
			weaken(t, h, b, path).Want(t, http.StatusInternalServerError)
			h.enter(t, admin, plain)
			h.store.mend()
			weaken(t, h, b, path).Want(t, http.StatusOK)
			h.isOut(t)
		})
	}
}

// The store is emptied before the commit. When the machine dies after it, which a failing disk imitates, the store admits no one.
func TestStoreIsEmptiedBeforeTheCommit(t *testing.T) {
	t.Parallel() // mostly waiting
	for name, weaken := range weaker {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, path, b := twoAdmins(t)
			h.store.breakAfter(1)
			weaken(t, h, b, path).Want(t, http.StatusOK)
			if h.store.get().Hash != "" {
				t.Error("the store has a hash")
			}
			h.store.mend()
			h.restart(t)
			before := h.Rows(t, "account_users")
			h.isOut(t)
			if h.Rows(t, "account_users") != before {
				t.Error("the admin is back")
			}
			defer breakDatabase(t, h)()
			h.login(t, admin, plain, here).Want(t, http.StatusServiceUnavailable)
		})
	}
}

// What was missed, by an earlier version or a change behind the gateway's back, is corrected at the start.
func TestStoreIsReconciledAtTheStart(t *testing.T) {
	t.Run("removed", func(t *testing.T) {
		h, _, _ := twoAdmins(t)
		dbtest.Exec(t, h.DB, "DELETE FROM account_users WHERE email = $1", admin)
		h.restart(t)
		h.login(t, admin, plain, here).Want(t, http.StatusUnauthorized)
		if h.Rows(t, "account_users") != 1 || h.store.get().Hash != "" {
			t.Error("the removed admin is back")
		}
	})
	t.Run("demoted", func(t *testing.T) {
		h, _, _ := twoAdmins(t)
		dbtest.Exec(t, h.DB, "UPDATE account_users SET role = 'viewer' WHERE email = $1", admin)
		h.restart(t)
		h.enter(t, "b@example.net", plain)
		if h.store.get().Hash != "" {
			t.Error("the store lets a viewer in")
		}
	})
	t.Run("a new database", func(t *testing.T) {
		h := newHouse(t)
		h.enrol(t, h.enter(t, admin, plain))
		dbtest.Exec(t, h.DB, "DELETE FROM account_users")
		h.restart(t)
		h.enter(t, admin, plain)
	})
	t.Run("the second factor of an earlier version", func(t *testing.T) {
		h := newHouse(t)
		h.enrol(t, h.enter(t, admin, plain))
		if err := h.store.update(func(a *StoreAdmin) error { *a = StoreAdmin{Email: a.Email, Hash: a.Hash}; return nil }); err != nil {
			t.Fatal(err)
		}
		h.restart(t)
		h.login(t, admin, "not the password", here).Want(t, http.StatusUnauthorized)
		if a := h.store.get(); len(a.TOTP) == 0 || len(a.RecoveryCodes) != recoveryCodes {
			t.Errorf("the store has %d recovery codes", len(a.RecoveryCodes))
		}
	})
}

// A read-only disk prevents no login.
func TestLoginWithAReadOnlyStore(t *testing.T) {
	h := newHouse(t)
	h.store.breakAfter(0)
	h.enter(t, admin, plain)
	h.restart(t)
	h.enter(t, admin, plain)
}
