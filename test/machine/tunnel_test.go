package machine

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/lab"
	"edge.internal/gateway/internal/lab/labtest"
)

// A gateway with a tunnel, and devices on the wan side that use it.
func TestTunnel(t *testing.T) {
	t.Parallel()
	l := labtest.UpAsAdmin(t, lab.Options{Volatile: true})
	l.WaitState(t, "tunnel", "live", 10*time.Second)
	v := &vpn{Lab: l}
	v.serve(t)
	for _, x := range []struct {
		name string
		test func(*testing.T, *vpn)
	}{
		{"DevicesConnect", devicesConnect},
		{"OperatorIsToldWhatCutsHimOff", operatorIsToldWhatCutsHimOff},
		{"ImpactOnPeers", impactOnPeers},
		{"OthersAreNotDisturbed", othersAreNotDisturbed},
		{"KilledServiceLeavesTunnelsAlone", killedServiceLeavesTunnelsAlone},
		{"KilledTunnelComesBack", killedTunnelComesBack},
		{"ControlToolTakesTunnelsOver", controlToolTakesTunnelsOver},
		{"FW16WhatIsOffIsGone", whatIsOffIsGone},
	} {
		t.Run(x.name, func(t *testing.T) { x.test(t, v) })
	}
}

// vpn is a gateway with a tunnel. WireGuard implementations in user space share one folder across all sides, so every interface of
// the lab has a unique name.
type vpn struct {
	*labtest.Lab
	id, path string
}

const (
	tunnelLink = "gwtun0"
	tunnelHere = "10.88.0.1"
)

func (v *vpn) serve(t *testing.T) {
	t.Helper()
	var row struct{ ID string }
	a := v.Must(t, http.MethodPost, "/tunnel/interfaces", fields{"name": tunnelLink, "address_cidr": tunnelHere + "/24", "endpoint_host": gwWan4, "client_routes": "10.10.0.0/24"}, 201, &row)
	if got := a.Header.Get("Gateway-Apply"); got != "packet-filter=live, tunnel=live" {
		t.Fatal(got)
	}
	v.id, v.path = row.ID, "/tunnel/interfaces/"+row.ID
	// Rules of its zone decide about packets from the tunnel to the gateway itself.
	v.Must(t, http.MethodPost, "/network-interfaces", fields{"name": tunnelLink, "type": "wireguard", "role": "lan"}, 201, nil)
	v.Must(t, http.MethodPost, "/firewall/rules", fields{"name": "inside", "src_zone": "lan", "action": "accept"}, 201, nil)
	v.WaitState(t, "packet-filter", "live", 10*time.Second)
	v.WaitState(t, "network", "live", 10*time.Second)
}

type tunnelPeer struct {
	ID         string
	PublicKey  string `json:"public_key"`
	AllowedIPs string `json:"allowed_ips"`
}

func (v *vpn) peer(t *testing.T, name string) (p tunnelPeer) {
	t.Helper()
	a := v.Must(t, http.MethodPost, v.path+"/peers", fields{"name": name}, 201, &p)
	if got := a.Header.Get("Gateway-Apply"); got != "tunnel=live" {
		t.Fatal(got)
	}
	return p
}

// configure starts a WireGuard interface on the wan side of a lab, with the gateway's configuration for a peer.
func configure(t *testing.T, gateway, at *labtest.Lab, link string, p tunnelPeer) {
	t.Helper()
	res, err := gateway.Client().Get("http://gateway/api/v1/peers/" + p.ID + "/config")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%s %s %v", res.Status, text, err)
	}
	file := "/run/" + link + ".conf"
	if err := os.WriteFile(at.Path(file), text, 0o600); err != nil {
		t.Fatal(err)
	}
	at.Run(t, lab.Wan, "wireguard-go", link)
	// wg-quick reads the file unchanged, and passes on to wg what that supports.
	at.Run(t, lab.Wan, "bash", "-c", "wg-quick strip "+file+" > "+file+".stripped && wg setconf "+link+" "+file+".stripped")
}

// device creates a device on the wan side.
func (v *vpn) device(t *testing.T, link string, p tunnelPeer) {
	t.Helper()
	configure(t, v.Lab, v.Lab, link, p)
	v.Run(t, lab.Wan, "ip", "address", "add", p.AllowedIPs, "dev", link)
	v.Run(t, lab.Wan, "ip", "link", "set", link, "up")
	for _, network := range []string{"10.88.0.0/24", "10.10.0.0/24"} {
		v.Run(t, lab.Wan, "ip", "route", "add", network, "dev", link, "metric", strconv.Itoa(100+len(v.links(t))))
	}
}

func (v *vpn) links(t *testing.T) []string {
	t.Helper()
	return strings.Fields(v.Run(t, lab.Wan, "bash", "-c", "ls /run/wireguard"))
}

// pings waits until an address answers a device.
func (v *vpn) pings(t *testing.T, link, address string) {
	t.Helper()
	waittest.UntilNil(t, address+" answers "+link, func() error { return v.ping(t, link, address) })
}

// ping returns an error unless an address answers a device within a second.
func (v *vpn) ping(t *testing.T, link, address string) error {
	t.Helper()
	cmd, err := v.Command(t.Context(), lab.Wan, "busybox", "ping", "-I", link, "-c", "1", "-W", "1", address)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return err
}

type peerStatus struct {
	Interface, Endpoint string
	Online              bool
	Rx, Tx              int64
	LastHandshake       *time.Time `json:"last_handshake"`
}

func devicesConnect(t *testing.T, v *vpn) {
	first, second := v.peer(t, "first"), v.peer(t, "second")
	v.device(t, "gwdev1", first)
	v.device(t, "gwdev2", second)
	for _, link := range []string{"gwdev1", "gwdev2"} {
		v.pings(t, link, tunnelHere)
		v.pings(t, link, "10.10.0.2")
	}
	var s map[string]peerStatus
	v.Must(t, http.MethodGet, "/tunnel/status", nil, 200, &s)
	for _, p := range []tunnelPeer{first, second} {
		if x := s[p.PublicKey]; !x.Online || x.LastHandshake == nil || x.Rx == 0 || x.Tx == 0 || x.Interface != tunnelLink || !strings.HasPrefix(x.Endpoint, wan4+":") {
			t.Errorf("%+v", x)
		}
	}
}

// An operator who manages the gateway through the tunnel is warned about changes that would cut the connection.
func operatorIsToldWhatCutsHimOff(t *testing.T, v *vpn) {
	var peers []tunnelPeer
	v.Must(t, http.MethodGet, v.path+"/peers", nil, 200, &peers)
	o := newOperator(t, v.Lab, lab.Wan, tunnelHere)
	change := func(kind, id, verb string, body fields) fields {
		return fields{"kind": kind, "id": id, "verb": verb, "body": body}
	}
	now := o.explainMine(t, tunnelHere)
	if now.Verdict != "accept" || now.InInterface != tunnelLink || now.InZone != "lan" {
		t.Fatalf("%+v", now)
	}
	for _, p := range peers {
		own := strings.HasPrefix(p.AllowedIPs, now.Packet.Source+"/")
		for _, change := range []fields{change("tunnel.peer", p.ID, "delete", nil), change("tunnel.peer", p.ID, "update", fields{"active": false})} {
			if x := o.explainMine(t, tunnelHere, change); (x.Verdict == "drop") != own || own && !strings.Contains(x.DecidedBy.Text, "comes through first") {
				t.Errorf("%v: %+v", change, x)
			}
		}
	}
	for _, change := range []fields{change("tunnel.interface", v.id, "delete", nil), change("tunnel.interface", v.id, "update", fields{"listen_port": 51999})} {
		if x := o.explainMine(t, tunnelHere, change); x.Verdict != "drop" {
			t.Errorf("%v: %+v", change, x)
		}
	}
	if x := o.explainMine(t, tunnelHere, change("tunnel.interface", v.id, "update", fields{"dns": tunnelHere})); x.Verdict != "accept" {
		t.Errorf("%+v", x)
	}
}

// impactOnPeers holds what previews say about peers against what becomes of their packets.
func impactOnPeers(t *testing.T, v *vpn) {
	var peers []struct{ ID, Name string }
	v.Must(t, http.MethodGet, v.path+"/peers", nil, 200, &peers)
	ids := map[string]string{}
	for _, p := range peers {
		ids[p.Name] = p.ID
	}
	links := map[string]string{"first": "gwdev1", "second": "gwdev2"}
	own := func(change fields) operation {
		return operation{Kind: "tunnel.interface", Verb: "update", ID: v.id, Body: change}
	}
	peer := func(verb string, change fields) operation {
		return operation{Kind: "tunnel.peer", Verb: verb, ID: ids["first"], Body: change}
	}
	const key, both = "iC4kEzFsqWrpHFF5JVzfl5A2OFZ+fh4sVoCmhGXJbVI=", "first second"
	for _, x := range []struct {
		change operation
		cut    string
	}{
		{own(fields{"dns": tunnelHere, "client_routes": "10.10.0.0/24,10.30.0.0/16"}), ""},
		{peer("update", fields{"name": "renamed", "keepalive": 50}), ""},
		{peer("update", fields{"allowed_ips": "10.88.0.2/32,10.201.0.0/24"}), ""},
		{peer("update", fields{"allowed_ips": "10.88.0.9/32"}), "first"},
		{peer("update", fields{"active": false}), "first"},
		{peer("update", fields{"private_key": key}), "first"},
		{peer("delete", nil), "first"},
		{own(fields{"listen_port": 51999}), both},
		{own(fields{"private_key": key}), both},
		{own(fields{"active": false}), both},
	} {
		said := foretold(t, v.Lab, "tunnel-peers", []operation{x.change})
		var cut []string
		for _, name := range slices.Sorted(maps.Keys(links)) {
			for what, p := range said {
				if strings.HasPrefix(what, name+" of ") && p.Effect == "cut" {
					cut = append(cut, name)
				} else if strings.HasPrefix(what, name+" of ") {
					t.Errorf("%+v: %+v", x.change, p)
				}
			}
		}
		if strings.Join(cut, " ") != x.cut {
			t.Errorf("%+v is said to cut %v instead of %s: %+v", x.change, cut, x.cut, said)
		}
		a := v.Must(t, http.MethodPost, "/change-sets", fields{"operations": []operation{x.change}}, 200, nil)
		v.WaitState(t, "tunnel", "live", 10*time.Second)
		for name, link := range links {
			if !slices.Contains(cut, name) {
				v.pings(t, link, tunnelHere)
			} else if err := v.ping(t, link, tunnelHere); err == nil {
				t.Errorf("%+v: %s still gets answers", x.change, name)
			}
		}
		v.Must(t, http.MethodPost, "/change-sets/"+a.Header.Get("Gateway-Change-Set")+"/revert", nil, 200, nil)
		v.WaitState(t, "tunnel", "live", 10*time.Second)
		for _, name := range cut { // it would take a while to notice
			v.dials(t, links[name])
		}
		for _, link := range links {
			v.pings(t, link, tunnelHere)
		}
	}
	// The preshared key is used when a device dials.
	change := peer("update", fields{"preshared_key": key})
	said := foretold(t, v.Lab, "tunnel-peers", []operation{change})
	if p := slices.Collect(maps.Values(said)); len(p) != 1 || p[0].Effect != "blocked_when_reopened" || !strings.HasPrefix(p[0].What, "first of ") {
		t.Errorf("%+v", said)
	}
	a := v.Must(t, http.MethodPost, "/change-sets", fields{"operations": []operation{change}}, 200, nil)
	v.WaitState(t, "tunnel", "live", 10*time.Second)
	v.pings(t, "gwdev1", tunnelHere)
	v.dials(t, "gwdev1")
	if v.ping(t, "gwdev1", tunnelHere) == nil {
		t.Error("it is let in without the preshared key")
	}
	v.Must(t, http.MethodPost, "/change-sets/"+a.Header.Get("Gateway-Change-Set")+"/revert", nil, 200, nil)
	v.WaitState(t, "tunnel", "live", 10*time.Second)
	v.dials(t, "gwdev1")
	v.pings(t, "gwdev1", tunnelHere)
}

// dials has a device begin again.
func (v *vpn) dials(t *testing.T, link string) {
	t.Helper()
	v.Run(t, lab.Wan, "wg", "setconf", link, "/run/"+link+".conf.stripped")
}

// Peers are added, changed and removed while another one communicates: that one loses nothing.
func othersAreNotDisturbed(t *testing.T, v *vpn) {
	lossless(t, v, func() {
		var ids []string
		for n := range 25 {
			p := v.peer(t, fmt.Sprintf("guest %d", n))
			v.Must(t, http.MethodPut, "/peers/"+p.ID, fields{"keepalive": n, "allowed_ips": p.AllowedIPs + fmt.Sprintf(",10.200.%d.0/24", n)}, 200, nil)
			ids = append(ids, p.ID)
		}
		if out := v.Run(t, lab.Gateway, "ip", "route", "show", "10.200.7.0/24"); !strings.Contains(out, "dev "+tunnelLink+" proto gateway-tunnel") {
			t.Errorf("route: %q", out)
		}
		v.Must(t, http.MethodPost, "/peers/"+ids[0]+"/generate-keypair", nil, 200, nil)
		for _, id := range ids {
			v.Must(t, http.MethodDelete, "/peers/"+id, nil, 200, nil)
		}
		// The interface itself changes, too.
		v.Must(t, http.MethodPut, v.path, fields{"client_routes": "10.10.0.0/24,10.20.0.0/16", "address_cidr": tunnelHere + "/24,fd00:88::1/64"}, 200, nil)
	})
	if out := v.Run(t, lab.Gateway, "ip", "route", "show", "proto", "gateway-tunnel"); strings.Contains(out, "10.200.") {
		t.Errorf("routes of peers that are gone: %s", out)
	}
}

// lossless runs do while the first device pings, each time after the previous answer, and fails the test if an
// answer does not come. It is one flow: the first packet of a new one may reach the kernel at the moment when it replaces a
// table, and is then dropped.
func lossless(t *testing.T, v *vpn, do func()) {
	t.Helper()
	var answered atomic.Int64
	stopped, ended := make(chan struct{}), make(chan error, 1)
	stop := sync.OnceFunc(func() { close(stopped) })
	defer stop()
	go func() {
		ended <- v.Within(lab.Wan, func() error {
			flow, err := newEchoes(netip.MustParseAddr(tunnelHere), patience)
			if err != nil {
				return err
			}
			defer flow.close()
			for {
				select {
				case <-stopped:
					return nil
				default:
				}
				if err := flow.ask(); err != nil {
					return err
				}
				answered.Add(1)
			}
		})
	}()
	waittest.Until(t, "a first answer", func() bool { return answered.Load() > 0 })
	do()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("after %d answers: %v; the packet log: %s", answered.Load(), err, v.Must(t, http.MethodGet, "/firewall/log?limit=5", nil, 200, nil).Body)
	}
	t.Logf("%d pings were answered", answered.Load())
}

func (v *vpn) program(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(v.Run(t, lab.Gateway, "pgrep", "-f", "wireguard-go "+tunnelLink+"$"))
}

func killedServiceLeavesTunnelsAlone(t *testing.T, v *vpn) {
	program := v.program(t)
	lossless(t, v, func() {
		state, err := v.Units().State(t.Context(), host.API)
		if err != nil {
			t.Fatal(err)
		}
		v.Run(t, lab.Gateway, "kill", "-9", strconv.Itoa(state.PID))
		another(t, v.Units(), host.API, state.PID)
		waittest.UntilNil(t, "gateway-api answers", func() error {
			a, err := v.Do(t.Context(), http.MethodGet, "/system/health", nil)
			return answered(a, err, 200)
		})
		v.WaitDatabase(t)
		v.WaitState(t, "tunnel", "live", 30*time.Second)
		p := v.peer(t, "after the restart")
		v.Must(t, http.MethodDelete, "/peers/"+p.ID, nil, 200, nil)
	})
	if now := v.program(t); now != program {
		t.Errorf("wireguard-go is %s and was %s", now, program)
	}
}

func killedTunnelComesBack(t *testing.T, v *vpn) {
	program := v.program(t)
	v.Run(t, lab.Gateway, "kill", "-9", program)
	// Either the tick detects it, or this change, which cannot be applied to a missing interface.
	v.peer(t, "after the kill")
	if now := v.program(t); now == program || now == "" {
		t.Fatalf("wireguard-go is %q", now)
	}
	if !longtest.On { // a device only notices after a while that it has to dial again
		v.Run(t, lab.Wan, "wg", "setconf", "gwdev1", "/run/gwdev1.conf.stripped")
	}
	v.pings(t, "gwdev1", tunnelHere)
	if out := v.Run(t, lab.Gateway, "ip", "-details", "address", "show", "dev", tunnelLink); !strings.Contains(out, tunnelHere+"/24") || !strings.Contains(out, "gateway-tunnel:"+v.id) {
		t.Fatal(out)
	}
}

func controlToolTakesTunnelsOver(t *testing.T, v *vpn) {
	if out := v.Run(t, lab.Gateway, "gateway-ctl", "tunnel-import"); !strings.Contains(out, "Nothing to import") {
		t.Fatal(out)
	}
	file := "[Interface]\nPrivateKey = iC4kEzFsqWrpHFF5JVzfl5A2OFZ+fh4sVoCmhGXJbVI=\nAddress = 10.77.0.1/24\nListenPort = 51999\nPostUp = touch /run/hooked\n" +
		"[Peer]\n# Ann\nPublicKey = xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=\nAllowedIPs = 10.77.0.2/32\n"
	v.Run(t, lab.Gateway, "mkdir", "-p", "/etc/wireguard")
	if err := os.WriteFile(v.Path("/etc/wireguard/gwtun9.conf"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	// It already runs, under wg-quick, and continues.
	v.Run(t, lab.Gateway, "wg-quick", "up", "gwtun9")
	v.Run(t, lab.Gateway, "rm", "/run/hooked")
	running := v.Run(t, lab.Gateway, "pgrep", "-f", "wireguard-go gwtun9$")
	out := v.Run(t, lab.Gateway, "gateway-ctl", "tunnel-import", "gwtun9")
	for _, word := range []string{"gwtun9 imported with 1 peers", "PostUp is not imported", "systemctl disable wg-quick@gwtun9"} {
		if !strings.Contains(out, word) {
			t.Errorf("no %q in %s", word, out)
		}
	}
	v.WaitState(t, "tunnel", "live", 10*time.Second)
	if now := v.Run(t, lab.Gateway, "pgrep", "-f", "wireguard-go gwtun9$"); now != running {
		t.Error("the link was made anew")
	}
	if _, err := os.Stat(v.Path("/run/hooked")); err == nil {
		t.Error("the hook was run")
	}
	if out := v.Run(t, lab.Gateway, "ip", "-details", "link", "show", "gwtun9"); !strings.Contains(out, "gateway-tunnel:") {
		t.Error(out)
	}
	cmd, err := v.Command(t.Context(), lab.Gateway, "gateway-ctl", "tunnel-import", "gwtun9")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "already") {
		t.Errorf("taken over twice: %s", out)
	}
}

func whatIsOffIsGone(t *testing.T, v *vpn) {
	table := func() string { return v.Run(t, lab.Gateway, "nft", "list", "table", "inet", "gateway") }
	for _, line := range []string{`iifname "` + tunnelLink + `" counter`, `oifname "` + tunnelLink + `" ip saddr 10.88.0.0/24`, "udp dport 51820"} {
		if !strings.Contains(table(), line) {
			t.Errorf("no %s in\n%s", line, table())
		}
	}
	v.Must(t, http.MethodPut, v.path, fields{"active": false}, 200, nil)
	for _, line := range []string{`oifname "` + tunnelLink + `"`, "udp dport 51820"} {
		if strings.Contains(table(), line) {
			t.Errorf("%s in\n%s", line, table())
		}
	}
	if out := v.Run(t, lab.Gateway, "ip", "link", "show"); strings.Contains(out, tunnelLink) {
		t.Error(out)
	}
	v.Must(t, http.MethodPut, v.path, fields{"active": true}, 200, nil)
	// A device only notices after a while that it has to dial again; this one is reconfigured.
	v.Run(t, lab.Wan, "wg", "setconf", "gwdev2", "/run/gwdev2.conf.stripped")
	v.pings(t, "gwdev2", tunnelHere)
}
