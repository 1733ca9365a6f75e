package host

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNamesAreReadAsIproute2Does(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	content := "# a comment\n255\tlocal\n 100 isp # behind it\n0x65 hex\nnonsense\n7\n4294967296 toobig\n-1 negative\n200 two words\n"
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	got := map[string]uint32{"main": 254}
	readNames(file, got)
	readNames(file+"-missing", got)
	if diff := cmp.Diff(map[string]uint32{"main": 254, "local": 255, "isp": 100, "hex": 101, "two": 200}, got); diff != "" {
		t.Error(diff)
	}
}

// Below a root folder every verb that changes the network is refused, before it looks at anything.
func TestRootFolderRefusesToTouchTheNetwork(t *testing.T) {
	s, ctx := newSystem(t, t.TempDir()), t.Context()
	p := netip.MustParsePrefix("192.0.2.1/24")
	for name, err := range map[string]error{
		"create":         s.CreateLink(ctx, NewLink{Name: "x", Kind: "bridge"}),
		"change":         s.ChangeLink(ctx, "lo", LinkChange{}),
		"remove":         s.RemoveLink(ctx, "x"),
		"set address":    s.SetAddress(ctx, "lo", NewAddr{Prefix: p}),
		"remove address": s.RemoveAddress(ctx, "lo", p),
		"add route":      s.AddRoute(ctx, NewRoute{Destination: p, Dev: "lo"}),
		"replace route":  s.ReplaceRoute(ctx, NewRoute{Destination: p, Dev: "lo"}),
		"remove route":   s.RemoveRoute(ctx, NewRoute{Destination: p, Dev: "lo"}),
		"forward":        s.Forward(ctx, true),
		"accept routers": s.AcceptRouters(ctx, "lo"),
	} {
		if !errors.Is(err, ErrNotInstalled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Routes(ctx); err != nil {
		t.Error(err)
	}
}
