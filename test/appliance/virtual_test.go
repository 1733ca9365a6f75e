package appliance

import (
	"net/netip"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/vrrp"
	"edge.internal/gateway/test/node"
)

// vip is a virtual address on the node's WAN.
const vip = "198.51.100.9"

func (g *appliance) hasVIP(t *testing.T) bool {
	t.Helper()
	return strings.Contains(g.sh(t, "ip -o address show dev eth0"), " "+vip+"/")
}

// virtualFiles are keepalived's on a node that receives no advertisements.
func virtualFiles(t *testing.T) []host.File {
	t.Helper()
	files, err := vrrp.Render(vrrp.Config{
		Clustered: true, RouterID: 77, Priority: 100, Link: value.Must[value.IfName]("eth0"),
		Own: value.Must[value.Addr](node.Address), Others: []value.Addr{value.Must[value.Addr](node.SecondAddress)},
		VIPs: []vrrp.VIP{{Link: value.Must[value.IfName]("eth0"), Address: netip.MustParsePrefix(vip + "/24")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// keepalivedServes starts keepalived with systemd and the gateway's file, in its sandbox: it takes over the virtual address. The API is stopped,
// because it would stop keepalived outside of a cluster.
func keepalivedServes(t *testing.T, g *appliance) {
	g.sh(t, "systemctl stop gateway-api")
	for _, f := range virtualFiles(t) {
		g.write(t, f.Place.Path(), f.Content)
	}
	g.sh(t, "systemctl start keepalived || { journalctl --no-pager -n 20 -u keepalived; exit 1; }")
	waittest.Until(t, "the node has the virtual address", func() bool { return g.hasVIP(t) })
	g.areConfined(t, clusterDaemons)
	g.sh(t, "systemctl stop keepalived")
	if g.hasVIP(t) {
		t.Error("the node has the virtual address after keepalived has ended")
	}
	g.sh(t, "rm "+keepalived.Config.Path()+"; systemctl start gateway-api")
	g.waitUp(t)
	g.nothingFailed(t)
}
