package system_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/system"
)

// setupStore has the setup's decisions.
type setupStore struct {
	mu    sync.Mutex
	flags system.Flags
}

func (s *setupStore) view() system.Flags {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flags
}

func (s *setupStore) update(change func(*system.Flags)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.flags)
	return nil
}

// justSetUp is a gateway whose setup has switched IPv6 on, before the database knows.
func justSetUp(t *testing.T) (*kittest.Bench, *system.Room, *setupStore) {
	t.Helper()
	b, store := kittest.New(t), &setupStore{flags: system.Flags{IPv6: true}}
	r := system.New(b.Kit, system.Deps{Role: func() string { return "" }, Flags: store.view, SetFlags: store.update})
	r.Mount()
	b.Start(t)
	return b, r, store
}

func wantIPv6(t *testing.T, b *kittest.Bench, r *system.Room, on bool) {
	t.Helper()
	var s system.Settings
	b.Get(t, "/system/settings").Want(t, 200).Into(t, &s)
	if s.IPv6Enabled != on {
		t.Errorf("the settings say %v", s.IPv6Enabled)
	}
	if now, err := r.IPv6(t.Context(), b.DB); err != nil || now != on {
		t.Errorf("it is %v (%v)", now, err)
	}
}

// A later change is not overwritten by the setup's decision, however late that arrives.
func TestSetupOverwritesNoChangeOfIPv6(t *testing.T) {
	for _, x := range []struct {
		body string
		on   bool
	}{{`{"ipv6_enabled":false}`, false}, {`{"ipv6_enabled":true}`, true}, {`{}`, true}} {
		b, r, store := justSetUp(t)
		if on, err := r.IPv6(t.Context(), b.DB); err != nil || !on {
			t.Fatalf("the setup has switched it on: %v %v", on, err)
		}
		b.Do(t, "admin", http.MethodPut, "/system/settings", x.body).Want(t, 200)
		wantIPv6(t, b, r, x.on)
		// As after a crash before it was marked as done.
		if err := store.update(func(f *system.Flags) { f.IPv6, f.IPv6Kept = true, false }); err != nil {
			t.Fatal(err)
		}
		wantIPv6(t, b, r, x.on)
		if err := r.TakeIPv6(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantIPv6(t, b, r, x.on)
		if f := store.view(); f.IPv6 != x.on || !f.IPv6Kept {
			t.Errorf("%s: a start without a database would find %+v", x.body, f)
		}
	}
}

// A decision of the setup during the transfer of an earlier one is transferred, too.
func TestSetupDecidesWhileItIsTaken(t *testing.T) {
	b, store := kittest.New(t), &setupStore{}
	decided := false
	r := system.New(b.Kit, system.Deps{Role: func() string { return "" }, Flags: store.view, SetFlags: func(change func(*system.Flags)) error {
		if !decided {
			decided = true
			_ = store.update(func(f *system.Flags) { f.IPv6 = true })
		}
		return store.update(change)
	}})
	r.Mount()
	b.Start(t)
	if err := r.TakeIPv6(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantIPv6(t, b, r, true)
	if f := store.view(); !f.IPv6 || !f.IPv6Kept {
		t.Errorf("%+v", f)
	}
}

// Whoever changes the settings, a start without a database uses them.
func TestSetupStoreFollowsTheSettings(t *testing.T) {
	b, r, store := justSetUp(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.KeepIPv6(ctx); close(done) }()
	defer func() { stop(); <-done }()
	waittest.Until(t, "the database knows what the setup has decided", func() bool { return store.view().IPv6Kept })
	for _, on := range []bool{false, true} {
		b.Do(t, "admin", http.MethodPut, "/system/settings", fmt.Sprintf(`{"ipv6_enabled":%v}`, on)).Want(t, 200)
		waittest.Until(t, "the setup store follows", func() bool { return store.view().IPv6 == on })
	}
}
