package certificate_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/vishvananda/netlink"

	"edge.internal/gateway/internal/kit/host/nettest"
)

// The addresses of the tests, in a network of their own.
const (
	gatewayAddr = "192.0.2.1"  // the proxy's listeners on 80 and 443
	caAddr      = "192.0.2.2"  // the certificate authority; nothing answers on port 80 there
	strangeAddr = "192.0.2.3"  // a web server of someone else
	dnsAddr     = "192.0.2.53" // the name server of every zone
)

func TestMain(m *testing.M) {
	nettest.Enter()
	lo, err := netlink.LinkByName("lo")
	for _, a := range []string{gatewayAddr, caAddr, strangeAddr, dnsAddr} {
		if err != nil {
			break
		}
		var addr *netlink.Addr
		if addr, err = netlink.ParseAddr(a + "/32"); err == nil {
			err = netlink.AddrAdd(lo, addr)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "making the network of the tests:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
