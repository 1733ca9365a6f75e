package lab

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// wire is a cable between the gateway and a client on one of its sides.
type wire struct {
	Side    Side
	Link    string   // the gateway's end
	Gateway []string // addresses of the gateway's end
	Client  []string // addresses of the client's end
}

// clientLink is the name of the client's end of a wire.
const clientLink = "eth0"

// sites are the networks that a lab can have, see Options.Site. The wan side comes first.
var sites = [][]wire{
	{
		{Wan, "wan0", []string{"198.51.100.1/24", "2001:db8:1::1/64"}, []string{"198.51.100.2/24", "2001:db8:1::2/64"}},
		{Lan, "lan0", []string{"10.10.0.1/24", "fd00:10::1/64"}, []string{"10.10.0.2/24", "fd00:10::2/64"}},
	}, {
		{Wan, "wan0", []string{"203.0.113.1/24", "2001:db8:2::1/64"}, []string{"203.0.113.2/24", "2001:db8:2::2/64"}},
		{Lan, "lan0", []string{"10.20.0.1/24", "fd00:20::1/64"}, []string{"10.20.0.2/24", "fd00:20::2/64"}},
	},
}

// hosts is the lab's /etc/hosts.
func hosts(site int) string {
	text := "127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.1.1 gateway.lab.internal gateway\n"
	for _, w := range sites[site] {
		for _, a := range w.Client {
			text += fmt.Sprintf("%[1]s %[2]s.lab.internal %[2]s\n", bare(a), w.Side)
		}
	}
	return text
}

// bare is an address without the length of its network.
func bare(address string) string {
	address, _, _ = strings.Cut(address, "/")
	return address
}

// namespaceFile is where iproute2 looks for a network namespace, inside the lab.
func namespaceFile(s Side) string { return filepath.Join("/run/netns", string(s)) }

// connect makes the network of a lab. It runs in the gateway's network namespace.
func connect(site int) error {
	if err := turnForwardingOn("/proc"); err != nil {
		return err
	}
	if err := raise("lo"); err != nil {
		return err
	}
	for _, w := range sites[site] {
		if err := w.connect(); err != nil {
			return fmt.Errorf("connecting the %s side: %w", w.Side, err)
		}
	}
	return nil
}

// turnForwardingOn makes a router of the network namespace of this thread.
func turnForwardingOn(proc string) error {
	for _, key := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		if err := os.WriteFile(filepath.Join(proc, "sys/net", key), []byte("1"), 0o644); err != nil {
			return fmt.Errorf("turning forwarding on: %w", err)
		}
	}
	return nil
}

func (w wire) connect() error {
	ns, err := newNamespace(namespaceFile(w.Side))
	if err != nil {
		return err
	}
	defer ns.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = w.Link
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: clientLink, PeerNamespace: netlink.NsFd(int(ns.Fd()))}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("making link %s: %w", w.Link, err)
	}
	if err := raise(w.Link, w.Gateway...); err != nil {
		return err
	}
	return within(ns, func() error {
		if err := raise("lo"); err != nil {
			return err
		}
		if err := raise(clientLink, w.Client...); err != nil {
			return err
		}
		for _, gateway := range w.Gateway {
			if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(bare(gateway))}); err != nil {
				return fmt.Errorf("adding the default route via %s: %w", bare(gateway), err)
			}
		}
		return nil
	})
}

// raise gives a link its addresses and sets it up.
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
			addr.Flags = unix.IFA_F_NODAD // usable at once
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

// newNamespace makes a network namespace that lives as long as the mount of its file, that is as long as the lab. Addresses are
// usable in it at once: a router that still looks for duplicates of its link-local address drops what it should forward.
func newNamespace(file string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, nil, 0o444); err != nil {
		return nil, err
	}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0o644); err != nil {
			return fmt.Errorf("turning the search for duplicate addresses off: %w", err)
		}
		return mount("/proc/thread-self/ns/net", file, "", unix.MS_BIND, "")
	})
	if err != nil {
		return nil, err
	}
	return os.Open(file)
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

// onThread runs do on a thread that ends with it, because it leaves the thread in another namespace. The main thread never
// ends, and stands for the process in /proc, where others look for its namespaces: it is held while another one does it.
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
