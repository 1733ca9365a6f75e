package setup

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/value"
)

func open(t *testing.T, paths kit.Paths) *Store {
	t.Helper()
	s, err := OpenStore(paths)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoreIsPrivateAndWhole(t *testing.T) {
	paths := kit.Paths{Root: t.TempDir()}
	s := open(t, paths)
	if err := os.MkdirAll(paths.State(""), 0o700); err != nil {
		t.Fatal(err)
	}
	// The next write restricts even a file that someone has opened up.
	if err := os.WriteFile(paths.State("setup.json"), []byte(`{"fqdn": "gw.example.net"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(func(s *State) error { s.Maintenance = true; return nil }); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(paths.State("setup.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	got := open(t, paths).View()
	if !got.Maintenance || got.FQDN.String() != "gw.example.net" || got.Retention.AuditDays != 90 {
		t.Errorf("%+v", got)
	}
	refusal := errors.New("no")
	if err := s.Update(func(s *State) error { s.Maintenance = false; return refusal }); !errors.Is(err, refusal) {
		t.Error(err)
	}
	if !s.View().Maintenance || !open(t, paths).View().Maintenance {
		t.Error("a refused change was made")
	}
}

func TestStoreIsSharedBetweenPrograms(t *testing.T) {
	paths := kit.Paths{Root: t.TempDir()}
	stores := []*Store{open(t, paths), open(t, paths), open(t, paths)}
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			if err := stores[i%3].Update(func(s *State) error { s.Retention.AuditDays++; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i, s := range stores {
		if n := s.View().Retention.AuditDays; n != 120 {
			t.Errorf("store %d has seen %d of 30 changes", i, n-90)
		}
	}
}

func TestDamagedStoreIsRefused(t *testing.T) {
	paths := kit.Paths{Root: t.TempDir()}
	s := open(t, paths)
	if err := s.Update(func(s *State) error { s.Completed = true; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(paths.State("setup.json"), []byte(`{"completed": tr`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(paths); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("opened: %v", err)
	}
	if !s.View().Completed {
		t.Error("a damaged file opens the setup again")
	}
	if err := s.Update(func(*State) error { return nil }); err == nil {
		t.Error("a damaged file is overwritten")
	}
	if err := os.Remove(paths.State("setup.json")); err != nil {
		t.Fatal(err)
	}
	if !s.View().Completed {
		t.Error("a missing file opens the setup again")
	}
}

// Stores of earlier versions can be read, and nothing about the administrator gets lost.
func TestAdminIsKept(t *testing.T) {
	paths := kit.Paths{Root: t.TempDir()}
	s := open(t, paths)
	if err := os.MkdirAll(paths.State(""), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(paths.State("setup.json"), []byte(`{"completed": true, "admin_email": "a@example.net", "admin_password_hash": "one"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := s.View().Admin; a.Email.String() != "a@example.net" || a.Hash != "one" || a.UserID != uuid.Nil {
		t.Errorf("admin %+v", a)
	}
	want := Admin{
		Email: value.Must[value.Email]("b@example.net"), Hash: "two", UserID: uuid.New(), TOTP: []byte{1, 2}, TOTPStep: 3, RecoveryCodes: [][]byte{{4}, {5}}, Passkeys: 6,
		SpentCodes: [][]byte{{7}}, ResetAt: time.Date(2026, 1, 1, 0, 0, 0, 8000, time.UTC), ResetFrom: "192.0.2.1", ResetKeeps: true,
	}
	if err := s.Update(func(s *State) error { s.Admin = want; return nil }); err != nil {
		t.Fatal(err)
	}
	if got := open(t, paths).View(); !got.Completed || !reflect.DeepEqual(got.Admin, want) {
		t.Errorf("admin %+v", got.Admin)
	}
}
