package firewall_test

import (
	"net/netip"
	"testing"
)

// Only rules that refuse everything from one address are listed.
func TestBlocks(t *testing.T) {
	h := newHouse(t)
	object := func(name, kind, value string) string {
		return h.create(t, "/firewall/address-objects", map[string]any{"name": name, "kind": kind, "value": value})
	}
	tv, phone, net := object("tv", "host", "10.1.0.9"), object("phone", "host", "2001:db8::9"), object("net", "network", "10.2.0.0/24")
	group := h.create(t, "/firewall/address-groups", map[string]any{"name": "Blocked clients", "members": []string{tv, net}})
	byGroup := h.rule(t, map[string]any{"action": "drop", "src_kind": "group", "src_group_id": group})
	byObject := h.rule(t, map[string]any{"action": "reject", "src_zone": "lan", "src_kind": "object", "src_object_id": phone})
	h.rule(t, map[string]any{"action": "accept", "src_kind": "object", "src_object_id": tv})
	h.rule(t, map[string]any{"action": "drop", "dst_zone": "lan", "src_kind": "object", "src_object_id": tv})
	h.rule(t, map[string]any{"action": "drop", "enabled": false, "src_kind": "object", "src_object_id": tv})
	h.rule(t, map[string]any{"action": "drop"})
	blocks, err := h.Room.Blocks(t.Context(), h.DB)
	if err != nil || len(blocks) != 2 {
		t.Fatalf("%+v, %v", blocks, err)
	}
	first, second := blocks[netip.MustParseAddr("10.1.0.9")], blocks[netip.MustParseAddr("2001:db8::9")]
	if len(first) != 1 || first[0].Rule.String() != byGroup || first[0].Group == nil || first[0].Group.String() != group || first[0].Object.String() != tv || !first[0].Zone.IsZero() {
		t.Errorf("%+v", first)
	}
	if len(second) != 1 || second[0].Rule.String() != byObject || second[0].Group != nil || second[0].Zone.String() != "lan" {
		t.Errorf("%+v", second)
	}
}
