package app_test

import (
	"fmt"
	"net/http"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/tunnel"
)

// What only one node of a cluster may do, such as dialling the upstream of a tunnel, is done by the primary, and by another node
// after its promotion. With virtual addresses, it is done by the node that has them, which need not be the primary.
func TestOneNodeServes(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.primary.call(t, p.admin, http.MethodPost, "/tunnel/interfaces", `{"name":"wg1","mode":"client","address_cidr":"10.7.0.2/32","upstream_public_key":"xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=","upstream_endpoint":"198.51.100.1:51820"}`).Want(t, 201)
	dials := func(g, other *box) {
		t.Helper()
		waittest.UntilNil(t, "one node has the tunnel, and the other one knows", func() error {
			for _, x := range []struct {
				*box
				token string
				here  bool
			}{{g, p.tokenOf(g), true}, {other, p.tokenOf(other), false}} {
				var list []tunnel.Device
				x.call(t, x.token, http.MethodGet, "/tunnel/devices", nil).Want(t, 200).Into(t, &list)
				if len(list) != 1 || list[0].Managed != x.here || list[0].Elsewhere == x.here || list[0].Error != "" {
					return fmt.Errorf("here: %v, %+v", x.here, list)
				}
			}
			return nil
		})
	}
	dials(p.primary, p.standby)

	for at, token := range map[*box]string{p.primary: p.admin, p.standby: p.there} {
		eth7 := host.Link{Index: 7, Name: "eth7", Type: "ether", Flags: []string{"UP", "LOWER_UP"}}
		lo := host.Link{Index: 1, Name: "lo", Type: "loopback", Flags: []string{"UP"}}
		if at == p.standby { // keepalived has assigned the address there, and its mark
			eth7.Addrs = []host.LinkAddr{{Family: "inet", Local: "192.0.2.9", PrefixLen: 32}}
			lo.Addrs = []host.LinkAddr{{Family: "inet", Local: "127.0.112.1", PrefixLen: 32}}
		}
		links, err := at.Machine.Links(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at.Machine.SetLinks(append(links, lo, eth7)...)
		at.call(t, token, http.MethodPut, "/cluster/vip-settings", `{"vip_address":"192.0.2.9","vip_interface":"eth7"}`).Want(t, 200)
		at.whole.Engine.Converge()
	}
	dials(p.standby, p.primary)

	// Without virtual addresses, it is the primary's job again: that of the promoted node.
	for at, token := range map[*box]string{p.primary: p.admin, p.standby: p.there} {
		at.call(t, token, http.MethodPut, "/cluster/vip-settings", `{"vip_address":"","vip_interface":""}`).Want(t, 200)
		at.whole.Engine.Converge()
	}
	dials(p.primary, p.standby)
	p.standby.call(t, p.there, http.MethodPost, "/cluster/promote", nil).Want(t, 200)
	dials(p.standby, p.primary)
}

// tokenOf returns a session at a node.
func (p pair) tokenOf(g *box) string {
	if g == p.primary {
		return p.admin
	}
	return p.there
}
