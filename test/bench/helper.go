package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// helperChanges are what is changed in both labs. Those with a bar are made while the daemon runs; the others are for scale.
var helperChanges = []struct {
	name      string
	component string
	times     int
	bar       float64
	change    func(r *helperRows, i int) (method, path string, body any)
}{
	{"weight of a server of a backend", "reverse-proxy", 1000, 1.2, func(r *helperRows, i int) (string, string, any) {
		return http.MethodPut, "/backend-servers/" + r.server.String(), map[string]any{"weight": 1 + i%200}
	}},
	{"new server of a backend", "reverse-proxy", 200, 1.2, func(r *helperRows, i int) (string, string, any) {
		return http.MethodPost, "/backends/" + r.backend.String() + "/servers", map[string]any{"name": fmt.Sprintf("made-%d", i), "address": originTarget, "port": originPort}
	}},
	{"networks of a tunnel's peer", "tunnel", 1000, 1.2, func(r *helperRows, i int) (string, string, any) {
		return http.MethodPut, "/peers/" + r.peer.String(), map[string]any{"allowed_ips": fmt.Sprintf("10.88.200.%d/32", 1+i%250)}
	}},
	{"firewall rule, loads the table", "packet-filter", 60, 0, func(_ *helperRows, i int) (string, string, any) {
		return http.MethodPost, "/firewall/rules", map[string]any{"name": fmt.Sprintf("made %d", i), "src_zone": "lan", "dst_zone": "wan", "src_kind": "cidr", "src_cidr": fmt.Sprintf("192.168.%d.0/24", i), "action": "accept"}
	}},
	{"time server, restarts chronyd", "ntp", 20, 0, func(_ *helperRows, i int) (string, string, any) {
		return http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": fmt.Sprintf("10.7.0.%d", 1+i)}
	}},
}

// helperFirst is how many changes of a kind do not count: they prepare their statements.
const helperFirst = 5

// helperRows are the rows of one lab that changes are made to.
type helperRows struct {
	*bench
	backend, server, peer uuid.UUID
}

// measureHelper compares changes through an API without a privilege, which has gateway-helper do what needs root, with the same
// changes through an API that is root and does everything itself.
func measureHelper(ctx context.Context, s settings) (goals []goal, err error) {
	fmt.Println("two labs, one with the helper and one without; load", loadAverage())
	var labs [2]*helperRows
	for i, alone := range []bool{false, true} {
		s.alone = alone
		b, err := newBench(ctx, s)
		if err != nil {
			return nil, err
		}
		defer b.close()
		labs[i] = &helperRows{bench: b}
		if err := labs[i].fill(); err != nil {
			return nil, err
		}
	}
	for _, c := range helperChanges {
		fmt.Printf("%s; load %s\n", c.name, loadAverage())
		var times [2][]float64
		for i := range helperFirst + c.times {
			// What a change leaves to do falls into the time of the next one, so each side is first as often as the other.
			for turn := range labs {
				side := (i + turn) % 2
				method, path, body := c.change(labs[side], i)
				took, err := seconds(func() error { return labs[side].change(c.component, method, path, body, nil) })
				if err != nil {
					return nil, err
				}
				if i >= helperFirst {
					times[side] = append(times[side], took)
				}
			}
		}
		with, without := median(times[0]), median(times[1])
		goals = append(goals, goal{"H1 " + c.name + ": helper / none", with / without, "x", c.bar, c.bar == 0,
			milliseconds(with, without) + "; p95 " + milliseconds(p95(times[0]), p95(times[1]))})
	}
	return goals, nil
}

// fill makes the rows.
func (r *helperRows) fill() error {
	var backend, server, tunnel, peer struct{ ID uuid.UUID }
	if err := r.change("reverse-proxy", http.MethodPost, "/backends", map[string]any{"name": "origin", "health_check_enabled": false}, &backend); err != nil {
		return err
	}
	if err := r.change("reverse-proxy", http.MethodPost, "/backends/"+backend.ID.String()+"/servers", map[string]any{"name": "first", "address": originTarget, "port": originPort}, &server); err != nil {
		return err
	}
	if err := r.change("tunnel", http.MethodPost, "/tunnel/interfaces", map[string]any{"name": tunnelOurs, "address_cidr": tunnelHere + "/16"}, &tunnel); err != nil {
		return err
	}
	private, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		return err
	}
	body := map[string]any{"name": "peer", "public_key": private.PublicKey().String(), "allowed_ips": tunnelThere + "/32"}
	if err := r.change("tunnel", http.MethodPost, "/tunnel/interfaces/"+tunnel.ID.String()+"/peers", body, &peer); err != nil {
		return err
	}
	r.backend, r.server, r.peer = backend.ID, server.ID, peer.ID
	return nil
}
