package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/google/uuid"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// helperChanges are the changes in both labs. Those with a bar are made while the daemon runs; the others are for scale.
var helperChanges = []struct {
	name      string
	component string
	times     int // in a round
	bar       float64
	change    func(r *helperRows, i int) (method, path string, body any)
}{
	{"weight of a server of a backend", "reverse-proxy", 100, 1.2, func(r *helperRows, i int) (string, string, any) {
		return http.MethodPut, "/backend-servers/" + r.server.String(), map[string]any{"weight": 1 + i%200}
	}},
	{"new server of a backend", "reverse-proxy", 50, 1.2, func(r *helperRows, i int) (string, string, any) {
		return http.MethodPost, "/backends/" + r.backend.String() + "/servers", map[string]any{"name": fmt.Sprintf("made-%d", i), "address": originTarget, "port": originPort}
	}},
	{"networks of a tunnel's peer", "tunnel", 100, 1.2, func(r *helperRows, i int) (string, string, any) {
		return http.MethodPut, "/peers/" + r.peer.String(), map[string]any{"allowed_ips": fmt.Sprintf("10.88.200.%d/32", 1+i%250)}
	}},
	{"record of a zone", "dns", 50, 1.2, func(r *helperRows, i int) (string, string, any) {
		return http.MethodPost, "/dns/records", map[string]any{"zone_id": r.zone, "name": fmt.Sprintf("made-%d", i), "type": "A", "value": "10.1.0.1"}
	}},
	{"firewall rule, changes the table", "packet-filter", 10, 0, func(_ *helperRows, i int) (string, string, any) {
		return http.MethodPost, "/firewall/rules", map[string]any{"name": fmt.Sprintf("made %d", i), "src_zone": "lan", "dst_zone": "wan", "src_kind": "cidr", "src_cidr": fmt.Sprintf("192.168.%d.0/24", i), "action": "accept"}
	}},
	{"time server, restarts chronyd", "ntp", 6, 0, func(_ *helperRows, i int) (string, string, any) {
		return http.MethodPost, "/ntp/pools", map[string]any{"kind": "server", "address": fmt.Sprintf("10.7.0.%d", 1+i)}
	}},
}

// helperRounds is how often all changes are measured. The first round does not count.
const helperRounds = 12

// helperRows are the rows of one lab that are changed.
type helperRows struct {
	*bench
	backend, server, peer, zone uuid.UUID
}

// measureHelper compares changes through an unprivileged API, which uses gateway-helper for what needs root, with the same
// changes through an API that runs as root and does everything itself, or with the same changes by another commit, if one is given.
func measureHelper(ctx context.Context, s settings) (goals []goal, err error) {
	name := "H1 %s: helper / none"
	boot := []func() (*bench, error){
		func() (*bench, error) { return newBench(ctx, s) },
		func() (*bench, error) {
			without := s
			without.alone = true
			return newBench(ctx, without)
		},
	}
	if s.against != "" {
		name = "H2 %s: now / " + filepath.Base(s.against)
		boot = []func() (*bench, error){
			func() (*bench, error) { return runBench(s.programs) },
			func() (*bench, error) { return runBench(filepath.Join(s.against, "bin")) },
		}
	}
	fmt.Println("two labs; load", loadAverage())
	var labs [2]*helperRows
	for i := range labs {
		b, err := boot[i]()
		if err != nil {
			return nil, err
		}
		defer b.close()
		labs[i] = &helperRows{bench: b}
		if err := labs[i].fill(); err != nil {
			return nil, err
		}
	}
	all := make([]helperTimes, len(helperChanges))
	rounds := max(2, helperRounds/s.shrink)
	for round := range rounds {
		fmt.Printf("round %d of %d; load %s\n", round+1, rounds, loadAverage())
		for k, c := range helperChanges {
			var times [2][]float64
			for i := range max(2, c.times/s.shrink) {
				// What a change leaves to do falls into the time of the next one, so each side is first as often as the other.
				for turn := range labs {
					side := (i + turn) % 2
					method, path, body := c.change(labs[side], round*c.times+i)
					took, err := seconds(func() error { return labs[side].change(c.component, method, path, body, nil) })
					if err != nil {
						return nil, err
					}
					times[side] = append(times[side], took)
				}
			}
			if round > 0 { // the first prepares statements
				all[k].add(times)
			}
		}
	}
	for k, c := range helperChanges {
		if s.against != "" {
			c.bar = 1.2
		}
		goals = append(goals, all[k].goal(fmt.Sprintf(name, c.name), c.bar))
	}
	return goals, nil
}

// helperTimes are what a change cost in each round: in the first lab, in the second, and the ratio.
type helperTimes struct{ first, second, ratio []float64 }

func (h *helperTimes) add(times [2][]float64) {
	first, second := median(times[0]), median(times[1])
	h.first, h.second, h.ratio = append(h.first, first), append(h.second, second), append(h.ratio, first/second)
}

// goal compares the two. Whatever else the machine does may slow one side down for a moment, so each round has its own ratio.
func (h *helperTimes) goal(name string, bar float64) goal {
	return goal{name, median(h.ratio), "x", bar, bar == 0, fmt.Sprintf("%s; ratios from %.2f to %.2f", milliseconds(median(h.first), median(h.second)), slices.Min(h.ratio), slices.Max(h.ratio))}
}

func (r *helperRows) fill() error {
	var backend, server, tunnel, peer, zone struct{ ID uuid.UUID }
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
	if err := r.change("dns", http.MethodPost, "/dns/zones", map[string]any{"name": "bench.example"}, &zone); err != nil {
		return err
	}
	r.backend, r.server, r.peer, r.zone = backend.ID, server.ID, peer.ID, zone.ID
	return nil
}
