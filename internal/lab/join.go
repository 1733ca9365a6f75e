package lab

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
)

// joint is the name of both ends of the cable between two labs.
const joint = "internet"

// ends are the addresses of the two ends of the cable.
var ends = [2][]string{{"192.0.2.1/24", "2001:db8::1/64"}, {"192.0.2.2/24", "2001:db8::2/64"}}

// Join connects the wan sides of two labs of different sites by a cable, and turns them into routers like those of the internet:
// the wan of each lab can be reached from that of the other. It replaces an earlier cable. The cable disappears with either lab.
func (l *Lab) Join(other *Lab) error {
	if l.Site == other.Site {
		return errors.New("two labs of one site have the same networks")
	}
	if !other.Isolated() {
		return fmt.Errorf("the other lab has no namespaces: %s", other.Reason)
	}
	there, err := os.Open(other.Path(namespaceFile(Wan)))
	if err != nil {
		return err
	}
	defer there.Close()
	// The other end of an earlier cable may be in a lab that is gone.
	if err := other.Within(Wan, func() error { return removeLink(joint) }); err != nil {
		return err
	}
	err = l.Within(Wan, func() error {
		if err := removeLink(joint); err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name = joint
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: joint, PeerNamespace: netlink.NsFd(int(there.Fd()))})
	})
	if err != nil {
		return fmt.Errorf("laying the cable: %w", err)
	}
	if err := l.Within(Wan, func() error { return l.reach(other, ends[0], ends[1]) }); err != nil {
		return err
	}
	return other.Within(Wan, func() error { return other.reach(l, ends[1], ends[0]) })
}

func removeLink(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}

// reach turns the wan side into a router, with routes to the wan of the other lab.
func (l *Lab) reach(other *Lab, here, there []string) error {
	if err := turnForwardingOn(l.Path("/proc")); err != nil {
		return err
	}
	if err := raise(joint, here...); err != nil {
		return err
	}
	for i, gateway := range sites[other.Site][0].Gateway {
		_, network, err := net.ParseCIDR(gateway)
		if err != nil {
			return err
		}
		if err := netlink.RouteAdd(&netlink.Route{Dst: network, Gw: net.ParseIP(bare(there[i]))}); err != nil {
			return fmt.Errorf("adding the route to %s: %w", network, err)
		}
	}
	return nil
}
