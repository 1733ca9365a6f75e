package lab

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// wire is a cable between the gateway and a client on one of its sides. With several gateways, the client's end is a switch.
type wire struct {
	Side    Side
	Zone    string
	Link    string   // the gateway's end
	Gateway []string // addresses of the gateway's end
	Client  []string // addresses of the client's end
}

// clientLink is the name of the client's end of a wire.
const clientLink = "eth0"

// sites are the networks that a lab can have, see Options.Site. The wan side comes first.
var sites = [][]wire{
	{
		{Wan, "wan", "wan0", []string{"198.51.100.1/24", "2001:db8:1::1/64"}, []string{"198.51.100.2/24", "2001:db8:1::2/64"}},
		{Lan, "lan", "lan0", []string{"10.10.0.1/24", "fd00:10::1/64"}, []string{"10.10.0.2/24", "fd00:10::2/64"}},
	}, {
		{Wan, "wan", "wan0", []string{"203.0.113.1/24", "2001:db8:2::1/64"}, []string{"203.0.113.2/24", "2001:db8:2::2/64"}},
		{Lan, "lan", "lan0", []string{"10.20.0.1/24", "fd00:20::1/64"}, []string{"10.20.0.2/24", "fd00:20::2/64"}},
	},
}

// wires returns those of one gateway of a lab. If there are several, each has its own addresses, and a link to the cluster's
// switch.
func wires(site, node, nodes int) []wire {
	all := slices.Clone(sites[site])
	if nodes == 1 {
		return all
	}
	all = append(all, wire{Cluster, "mgmt", "cluster0", []string{"10.99.0.1/24", "fd00:99::1/64"}, nil})
	for i := range all {
		all[i].Gateway = slices.Clone(all[i].Gateway)
		for j, a := range all[i].Gateway {
			if node > 1 { // the first has those of a single one
				all[i].Gateway[j] = strings.Replace(a, "1/", fmt.Sprintf("%d/", 10+node), 1)
			}
		}
	}
	return all
}

func nodeName(node, nodes int) string {
	if nodes == 1 {
		return string(Gateway)
	}
	return fmt.Sprintf("%s%d", Gateway, node)
}

// hosts returns the lab's /etc/hosts.
func hosts(p plan) string {
	named := func(address, name string) string {
		return fmt.Sprintf("%[1]s %[2]s.lab.internal %[2]s\n", bare(address), name)
	}
	text := "127.0.0.1 localhost\n::1 localhost ip6-localhost\n" + named("127.0.1.1", p.name())
	for i, w := range p.wires() {
		for _, a := range w.Client {
			text += named(a, string(w.Side))
		}
		for n := 1; n <= p.Nodes && w.Side == Cluster; n++ {
			if n != p.Node {
				text += named(wires(p.Site, n, p.Nodes)[i].Gateway[0], nodeName(n, p.Nodes))
			}
		}
	}
	return text
}

// bare strips the prefix length from an address.
func bare(address string) string {
	address, _, _ = strings.Cut(address, "/")
	return address
}

// namespaceFile returns the path at which iproute2 looks for a network namespace, inside the lab.
func namespaceFile(s Side) string { return filepath.Join("/run/netns", string(s)) }

// connect creates the network of a lab, or connects another node to it. It runs in the gateway's network namespace.
func connect(p plan) error {
	if err := turnForwardingOn("/proc"); err != nil {
		return err
	}
	if err := raise("lo"); err != nil {
		return err
	}
	for i, w := range p.wires() {
		if err := w.connect(p, i); err != nil {
			return fmt.Errorf("connecting the %s side: %w", w.Side, err)
		}
	}
	return nil
}

// turnForwardingOn turns the network namespace of this thread into a router.
func turnForwardingOn(proc string) error {
	for _, key := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		if err := os.WriteFile(filepath.Join(proc, "sys/net", key), []byte("1"), 0o644); err != nil {
			return fmt.Errorf("turning forwarding on: %w", err)
		}
	}
	return nil
}

func (w wire) connect(p plan, n int) error {
	ns, err := w.namespace(p, n)
	if err != nil {
		return err
	}
	defer ns.Close()
	end := clientLink
	if p.Nodes > 1 {
		end = p.name()
		// The link of a node that was killed disappears with its namespace, but only a moment later.
		if err := within(ns, func() error { return removeLink(end) }); err != nil {
			return err
		}
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = w.Link
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: end, PeerNamespace: netlink.NsFd(int(ns.Fd()))}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("making link %s: %w", w.Link, err)
	}
	if err := raise(w.Link, w.Gateway...); err != nil {
		return err
	}
	return within(ns, func() error {
		if p.Nodes > 1 {
			if err := plug(end, p.Laid == 0); err != nil {
				return err
			}
		}
		if p.Laid > 0 {
			return nil
		}
		if err := raise("lo"); err != nil {
			return err
		}
		if err := raise(clientLink, w.Client...); err != nil {
			return err
		}
		for _, gateway := range w.Gateway[:len(w.Client)] {
			if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(bare(gateway))}); err != nil {
				return fmt.Errorf("adding the default route via %s: %w", bare(gateway), err)
			}
		}
		return nil
	})
}

// namespace returns that of the wire's other end: a new one, or the one that the first node has created.
func (w wire) namespace(p plan, n int) (*os.File, error) {
	file := namespaceFile(w.Side)
	if p.Laid == 0 {
		return newNamespace(file)
	}
	if err := namespaceMount(file); err != nil {
		return nil, err
	}
	ns := os.NewFile(uintptr(laidFD+n), file)
	return ns, mount(fmt.Sprintf("/proc/self/fd/%d", laidFD+n), file, "", unix.MS_BIND, "")
}

// plug connects a cable to the switch of this namespace. With fresh, it creates the switch first.
func plug(end string, fresh bool) error {
	if fresh {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = clientLink
		// An own address, because it is also the client's: one inherited from a cable would vanish with the cable, and neighbours
		// would lose the client.
		attrs.HardwareAddr = append(net.HardwareAddr{2}, make([]byte, 5)...)
		_, _ = rand.Read(attrs.HardwareAddr[1:])
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
			return fmt.Errorf("making a switch: %w", err)
		}
	}
	bridge, err := netlink.LinkByName(clientLink)
	if err != nil {
		return err
	}
	port, err := netlink.LinkByName(end)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetMaster(port, bridge); err != nil {
		return fmt.Errorf("connecting %s to the switch: %w", end, err)
	}
	return netlink.LinkSetUp(port)
}

// raise assigns addresses to a link and sets it up.
func raise(name string, addrs ...string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	for _, text := range addrs {
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if addr.IP.To4() == nil {
			addr.Flags = unix.IFA_F_NODAD // usable immediately
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("adding %s to %s: %w", text, name, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting %s up: %w", name, err)
	}
	return nil
}

// namespaceSettings apply to every network namespace. Addresses are usable immediately: a router that still performs duplicate
// address detection on its link-local address drops packets instead of forwarding them. And sockets queue as many datagrams as
// with systemd: with the kernel's default of ten, daemons lose log lines.
var namespaceSettings = map[string]string{"ipv6/conf/default/accept_dad": "0", "unix/max_dgram_qlen": "512"}

// newNamespace creates a network namespace that lives as long as the mount of its file, and hence as long as the lab.
func newNamespace(file string) (*os.File, error) {
	if err := namespaceMount(file); err != nil {
		return nil, err
	}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		for name, value := range namespaceSettings {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644); err != nil {
				return fmt.Errorf("setting %s: %w", name, err)
			}
		}
		return mount("/proc/thread-self/ns/net", file, "", unix.MS_BIND, "")
	})
	if err != nil {
		return nil, err
	}
	return os.Open(file)
}

func namespaceMount(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, nil, 0o444)
}

// within runs do in another network namespace.
func within(ns *os.File, do func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering a network namespace: %w", err)
		}
		return do()
	})
}

// onThread runs do on a thread that ends afterwards, because do leaves it in another namespace. The main thread never ends, and
// represents the process in /proc, where others look for its namespaces: it is never used for do.
func onThread(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			done <- onThread(do)
			return
		}
		done <- do()
	}()
	return <-done
}
