package firewall_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/waittest"
)

func TestNamesAreResolvedInTheBackground(t *testing.T) {
	h := newHouse(t)
	h.answer("cdn.example", "192.0.2.1", "2001:db8::1")
	id := h.create(t, "/firewall/address-objects", map[string]any{"name": "cdn", "kind": "fqdn", "value": "CDN.example."})
	rule := h.rule(t, map[string]any{"dst_kind": "object", "dst_object_id": id, "action": "drop"})
	resolved := func() []string {
		var row struct {
			Value    string
			Resolved []string
		}
		h.Get(t, "/firewall/address-objects/"+id).Into(t, &row)
		if row.Value != "cdn.example" {
			t.Fatal(row)
		}
		return row.Resolved
	}
	await := func(want ...string) {
		t.Helper()
		waittest.UntilNil(t, fmt.Sprintf("%v in the kernel", want), func() error {
			got := resolved()
			k := readTable(t)
			inKernel := len(k.Sets["object_"+id+"_4"]) + len(k.Sets["object_"+id+"_6"])
			file, err := h.Host.Read(nftables.Table)
			kept := err == nil && !slices.ContainsFunc(want, func(a string) bool { return !strings.Contains(string(file), a) })
			if !slices.Equal(got, want) || inKernel != len(want) || !kept {
				return fmt.Errorf("%v, %d in the kernel, in the file: %t", got, inKernel, kept)
			}
			return nil
		})
	}
	await("192.0.2.1", "2001:db8::1")
	made := func() string {
		c, err := h.Host.FilterCounters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c.Table
	}
	was := readTable(t).with("gid:" + rule)
	table := made()

	h.answer("cdn.example", "192.0.2.1", "192.0.2.3", "192.0.2.5")
	h.Room.ResolveNow()
	await("192.0.2.1", "192.0.2.3", "192.0.2.5")
	if made() != table || len(readTable(t).with("gid:"+rule)) != len(was) {
		t.Error("the table was replaced")
	}

	h.fail(errors.New("no resolver answers"))
	h.Room.ResolveNow()
	time.Sleep(50 * time.Millisecond)
	await("192.0.2.1", "192.0.2.3", "192.0.2.5")
	// A table that is replaced in the meantime has the last answer, too.
	h.rule(t, map[string]any{})
	await("192.0.2.1", "192.0.2.3", "192.0.2.5")

	h.fail(nil)
	h.answer("cdn.example")
	h.Room.ResolveNow()
	await()
	if lines := readTable(t).with("gid:" + rule); len(lines) != 2 {
		t.Errorf("%d lines: a name without addresses has to match nothing", len(lines))
	}
}

// TestDeadNamesDoNotDelayOthers checks that answers for other names are applied while some names get no answer.
func TestDeadNamesDoNotDelayOthers(t *testing.T) {
	h := newHouse(t)
	h.answer("living.example", "192.0.2.1")
	for _, name := range []string{"dead-1", "dead-2", "dead-3"} {
		h.create(t, "/firewall/address-objects", map[string]any{"name": name, "kind": "fqdn", "value": name + ".example"})
	}
	id := h.create(t, "/firewall/address-objects", map[string]any{"name": "living", "kind": "fqdn", "value": "living.example"})
	resolved := func(want string) {
		t.Helper()
		waittest.Until(t, "living.example is "+want, func() bool {
			var row struct{ Resolved []string }
			h.Get(t, "/firewall/address-objects/"+id).Into(t, &row)
			return slices.Equal(row.Resolved, []string{want})
		})
	}
	resolved("192.0.2.1")
	dead := make(chan struct{})
	defer close(dead)
	h.mu.Lock()
	h.dead = dead
	h.mu.Unlock()
	h.answer("living.example", "192.0.2.2")
	h.Room.ResolveNow()
	resolved("192.0.2.2")
}
