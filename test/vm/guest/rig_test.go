//go:build vm

// Package guest is run in the virtual machine of test/vm, as root and alone: changes of the network end with
// the machine.
package guest

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// add creates an interface for the duration of the test and returns it as the kernel sees it.
func add(t *testing.T, link netlink.Link) netlink.Link {
	t.Helper()
	name := link.Attrs().Name
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatalf("adding %s, a %s: %v", name, link.Type(), err)
	}
	made, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netlink.LinkDel(made); err != nil {
			t.Errorf("removing %s: %v", name, err)
		}
	})
	if made.Type() != link.Type() {
		t.Fatalf("%s is a %s, not a %s", name, made.Type(), link.Type())
	}
	return made
}

func named(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	return a
}

func TestRigVLAN(t *testing.T) {
	parent := add(t, &netlink.Dummy{LinkAttrs: named("rig0")})
	a := named("rig0.42")
	a.ParentIndex = parent.Attrs().Index
	vlan := add(t, &netlink.Vlan{LinkAttrs: a, VlanId: 42, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}).(*netlink.Vlan)
	if vlan.VlanId != 42 || vlan.ParentIndex != parent.Attrs().Index {
		t.Fatalf("%+v", vlan)
	}
}

func TestRigBond(t *testing.T) {
	want := netlink.NewLinkBond(named("rigbond"))
	want.Mode, want.Miimon = netlink.BOND_MODE_ACTIVE_BACKUP, 100
	bond := add(t, want).(*netlink.Bond)
	leg := add(t, &netlink.Dummy{LinkAttrs: named("rigleg")})
	if err := netlink.LinkSetMaster(leg, bond); err != nil {
		t.Fatal(err)
	}
	leg, err := netlink.LinkByName("rigleg")
	if err != nil {
		t.Fatal(err)
	}
	if bond.Mode != netlink.BOND_MODE_ACTIVE_BACKUP || leg.Attrs().MasterIndex != bond.Index {
		t.Fatalf("%+v\n%+v", bond, leg)
	}
}

func TestRigBridge(t *testing.T) {
	filtering := true
	bridge := add(t, &netlink.Bridge{LinkAttrs: named("rigbr"), VlanFiltering: &filtering}).(*netlink.Bridge)
	if bridge.VlanFiltering == nil || !*bridge.VlanFiltering {
		t.Fatalf("%+v", bridge)
	}
}

func TestRigWireGuard(t *testing.T) {
	if err := netlink.LinkSetUp(add(t, &netlink.Wireguard{LinkAttrs: named("rigwg")})); err != nil {
		t.Fatal(err)
	}
}

// The kernel stores which protocol set an address. netlink has no field for it, so the message is built by hand.
func TestRigAddressProtocol(t *testing.T) {
	const (
		attribute = 11 // IFA_PROTO
		protocol  = 250
	)
	index := add(t, &netlink.Dummy{LinkAttrs: named("rig0")}).Attrs().Index
	message := func() *nl.IfAddrmsg {
		m := nl.NewIfAddrmsg(unix.AF_INET)
		m.Index, m.Prefixlen = uint32(index), 24
		return m
	}
	address := net.IPv4(192, 0, 2, 1).To4()
	set := nl.NewNetlinkRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	set.AddData(message())
	set.AddData(nl.NewRtAttr(unix.IFA_LOCAL, address))
	set.AddData(nl.NewRtAttr(attribute, []byte{protocol}))
	if _, err := set.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		t.Fatal(err)
	}
	get := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
	get.AddData(message())
	answers, err := get.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range answers {
		m := nl.DeserializeIfAddrmsg(answer)
		attributes, err := nl.ParseRouteAttr(answer[m.Len():])
		if err != nil {
			t.Fatal(err)
		}
		if m.Index != uint32(index) {
			continue
		}
		for _, a := range attributes {
			if a.Attr.Type == attribute && len(a.Value) == 1 && a.Value[0] == protocol {
				return
			}
		}
		t.Fatalf("the address has no protocol: %v", attributes)
	}
	t.Fatal("the address is not there")
}

func TestRigPacketFilter(t *testing.T) {
	const table = `table inet rig {
	chain input {
		type filter hook input priority filter; policy accept;
		ct state established,related counter accept
		meta l4proto { tcp, udp } th dport { 53, 123 } log group 1 accept
	}
}
`
	load := exec.Command("nft", "-f", "-")
	load.Stdin = strings.NewReader(table)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command("nft", "list", "table", "inet", "rig").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "dport { 53, 123 }") {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("nft", "delete", "table", "inet", "rig").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
