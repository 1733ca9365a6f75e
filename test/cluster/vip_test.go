package cluster

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/test/traffic"
)

// vip is the virtual address of the cluster, on the lab's wan, and inner one of the interface on its lan, which moves with it.
const vip, inner = "198.51.100.9", "10.10.0.9"

// origin serves a site on the lan, which the nodes publish.
func origin(t *testing.T, n node) {
	t.Helper()
	const at = "10.10.0.2:8080"
	var l net.Listener
	n.do(t, n.Within(lab.Lan, func() (err error) { l, err = net.Listen("tcp", at); return err }))
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "origin") })}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	var backend struct{ ID string }
	n.Must(t, http.MethodPost, "/backends", fields{"name": "origin", "health_check_enabled": false}, 201, &backend)
	n.Must(t, http.MethodPost, "/backends/"+backend.ID+"/servers", fields{"name": "one", "address": "10.10.0.2", "port": 8080}, 201, nil)
	n.Must(t, http.MethodPost, "/domains", fields{"name": "www.example.net", "backend_id": backend.ID, "http_to_https": false}, 201, nil)
}

// share has the nodes share the virtual addresses.
func share(t *testing.T, nodes []node) {
	t.Helper()
	for _, n := range nodes {
		n.Must(t, http.MethodPut, "/cluster/vip-settings", fields{"vip_address": vip, "vip_interface": "wan0"}, 200, nil)
		n.Must(t, http.MethodPost, "/ip-addresses", fields{"interface_id": n.link(t, "lan0"), "address": inner, "prefix": 24, "is_vip": true, "vip_priority": 100}, 201, nil)
		n.WaitState(t, "vrrp", "live", 30*time.Second)
		var preview struct {
			Diff  string
			Files []struct{ Content string }
		}
		if n.Must(t, http.MethodGet, "/system/config-preview?generator=vrrp", nil, 200, &preview); preview.Diff != "" || len(preview.Files) == 0 || !strings.Contains(preview.Files[0].Content, vip) || !strings.Contains(preview.Files[0].Content, inner) {
			t.Errorf("the preview of %s: %+v", n.Name(), preview)
		}
	}
	oneHolds(t, nodes)
}

// oneHolds waits until one of the nodes has the virtual addresses, and the others have none of them.
func oneHolds(t *testing.T, nodes []node) (holder node) {
	t.Helper()
	waittest.UntilNil(t, "one node has the virtual addresses", func() error {
		var here []string
		for _, n := range nodes {
			for _, address := range []string{vip, inner} {
				if n.binds(address) {
					here, holder = append(here, n.Name()+" "+address), n
				}
			}
		}
		if len(here) != 2 || !holder.binds(vip) || !holder.binds(inner) {
			return fmt.Errorf("%q", here)
		}
		return nil
	})
	return holder
}

// link is the id of an interface.
func (n node) link(t *testing.T, name string) string {
	t.Helper()
	var list []struct{ ID, Name string }
	n.Must(t, http.MethodGet, "/network-interfaces", nil, 200, &list)
	i := slices.IndexFunc(list, func(l struct{ ID, Name string }) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no interface %s in %+v", name, list)
	}
	return list[i].ID
}

// holds reports whether a node has the virtual address of the cluster.
func (n node) holds() bool { return n.binds(vip) }

// binds reports whether a node has an address.
func (n node) binds(address string) bool {
	found := false
	_ = n.Within(lab.Gateway, func() error {
		addresses, err := net.InterfaceAddrs()
		for _, a := range addresses {
			found = found || strings.HasPrefix(a.String(), address+"/")
		}
		return err
	})
	return found
}

// drain has a node give the virtual address away, or ends that.
func (n node) drain(t *testing.T, on bool) {
	t.Helper()
	content := "0\n"
	if on {
		content = "1\n"
	}
	n.do(t, os.WriteFile(n.Path(keepalived.Drain.Path()), []byte(content), 0o644))
}

// moveTo has the virtual address be on a node.
func moveTo(t *testing.T, to, from node) {
	t.Helper()
	from.drain(t, true)
	waittest.Until(t, "the virtual addresses are on "+to.Name(), func() bool {
		return to.binds(vip) && to.binds(inner) && !from.binds(vip) && !from.binds(inner)
	})
	waittest.UntilNil(t, "the cluster knows that it is on "+to.Name(), func() error {
		type there struct {
			FQDN     string
			HoldsVIP bool `json:"holds_vip"`
		}
		var s struct {
			LocalNode there `json:"local_node"`
			Peers     []there
		}
		if to.Must(t, http.MethodGet, "/cluster/status", nil, 200, &s); !s.LocalNode.HoldsVIP || slices.ContainsFunc(s.Peers, func(p there) bool { return p.HoldsVIP }) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	from.drain(t, false)
}

// site is what the nodes publish at the virtual address, for clients on the lab's wan.
func (n node) site() traffic.Site {
	return traffic.Site{Address: vip + ":80", Name: "www.example.net", Says: "origin", Within: 5 * time.Second, Enter: func(f func() error) error { return n.Within(lab.Wan, f) }}
}

// answers waits until the site that the nodes publish answers at the virtual address.
func answers(t *testing.T, n node) {
	t.Helper()
	waittest.UntilNil(t, "the site answers", func() (err error) {
		n.do(t, n.Within(lab.Wan, func() error { err = n.site().Ask(); return nil }))
		return err
	})
}

// virtualAddress moves to the other node and back, and the site answers at it.
func virtualAddress(t *testing.T, one, two node) {
	t.Helper()
	origin(t, one)
	share(t, []node{one, two})
	waittest.Until(t, "the other node has the site", func() bool { return ask[bool](t, two, "SELECT EXISTS (SELECT FROM proxy_domains)") })
	two.WaitSettled(t)
	moveTo(t, two, one)
	answers(t, one)
	moveTo(t, one, two)
	answers(t, one)
}
