package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

const (
	// soakRows is the number of rows of each kind that exist throughout.
	soakRows = 100
	// soakRate is the number of changes a second: in an hour as many as in a day with one every eight seconds.
	soakRate = 3
	// soakEvery is the interval between two measurements of the memory.
	soakEvery = time.Second
	// soakBegin is the part of the time that does not count: a program grows until everything has happened a few times.
	soakBegin = 0.1
	// soakGrowth is the largest allowed ratio of the memory in the last quarter to that in the first.
	soakGrowth = 1.05
)

// soakUnits are the gateway's own programs.
var soakUnits = []host.Unit{host.API, host.Helper, host.Scheduler, host.WAF}

// soakKind is a kind of which rows are created, changed and deleted again and again.
type soakKind struct {
	name, component string
	// home is the path that creates rows, and at the path above each row, if that differs.
	home, at     string
	made, change func(i int) map[string]any
}

func (b *scaleBench) soakKinds() []soakKind {
	some := rowID("domain", 0).String()
	return []soakKind{
		{"rule", "packet-filter", "/firewall/rules", "", func(i int) map[string]any {
			return map[string]any{"name": fmt.Sprint("soak ", i), "src_zone": "lan", "dst_zone": "wan", "dst_kind": "cidr", "dst_cidr": fmt.Sprintf("192.0.2.%d/32", i%256), "action": "drop"}
		}, func(int) map[string]any { return map[string]any{"action": "accept"} }},
		{"address object", "packet-filter", "/firewall/address-objects", "", func(i int) map[string]any {
			return map[string]any{"name": fmt.Sprint("soak ", i), "kind": "host", "value": fmt.Sprintf("203.0.113.%d", i%256)}
		}, func(i int) map[string]any { return map[string]any{"value": fmt.Sprintf("198.18.0.%d", i%256)} }},
		{"domain", "reverse-proxy", "/domains", "", func(i int) map[string]any {
			return map[string]any{"name": fmt.Sprintf("soak%d.example.org", i), "backend_id": rowID("backend", 0)}
		}, func(int) map[string]any { return map[string]any{"maintenance": true} }},
		{"header", "reverse-proxy", "/domains/" + some + "/headers", "", func(i int) map[string]any {
			return map[string]any{"name": fmt.Sprint("X-Soak-", i), "value": "a", "operation": "set"}
		}, func(int) map[string]any { return map[string]any{"value": "b"} }},
		{"backend", "reverse-proxy", "/backends", "", func(i int) map[string]any {
			return map[string]any{"name": fmt.Sprint("soak-", i), "health_check_enabled": false}
		}, func(int) map[string]any { return map[string]any{"lb_algorithm": "leastconn"} }},
		{"server", "reverse-proxy", "/backends/" + rowID("backend", 0).String() + "/servers", "/backend-servers", func(i int) map[string]any {
			return map[string]any{"name": fmt.Sprint("soak-", i), "address": originTarget, "port": originPort}
		}, func(int) map[string]any { return map[string]any{"weight": 50} }},
		{"record", "dns", "/dns/records", "", func(i int) map[string]any {
			return map[string]any{"zone_id": rowID("dns", 0), "name": fmt.Sprint("soak", i), "type": "A", "value": "10.3.0.1"}
		}, func(int) map[string]any { return map[string]any{"value": "10.3.0.2"} }},
		{"reservation", "dhcp", "/dhcp/reservations", "", func(i int) map[string]any {
			return map[string]any{"subnet_id": b.subnet, "mac": fmt.Sprintf("02:00:00:02:%02x:%02x", i>>8&255, i&255), "ip": "10.10.200.1", "hostname": "soak"}
		}, func(int) map[string]any { return map[string]any{"hostname": "soaked"} }},
		{"peer", "tunnel", "/tunnel/interfaces/" + b.tunnel.String() + "/peers", "/peers", func(i int) map[string]any {
			return map[string]any{"name": fmt.Sprint("soak ", i)}
		}, func(int) map[string]any { return map[string]any{"keepalive": 25} }},
		{"time server", "ntp", "/ntp/pools", "", func(int) map[string]any {
			return map[string]any{"kind": "server", "address": "192.0.2.1"}
		}, func(int) map[string]any { return map[string]any{"minpoll": 5} }},
		{"user", "", "/users", "", func(i int) map[string]any {
			return map[string]any{"email": fmt.Sprintf("soak%d@example.net", i), "role": "viewer", "password": secret}
		}, func(int) map[string]any { return map[string]any{"name": "Soaked"} }},
	}
}

// measureSoak makes changes of all kinds for a long time, and checks whether the gateway's programs grow.
func measureSoak(ctx context.Context, s settings) ([]goal, error) {
	r, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer r.close()
	b := &scaleBench{bench: r}
	if err := b.fill(ctx, soakRows); err != nil {
		return nil, err
	}
	if err := b.coldStart(ctx); err != nil {
		return nil, err
	}
	fmt.Printf("changes of all kinds for %s; load %s\n", s.soak, loadAverage())
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	begun, changed, times := time.Now(), 0, []float64{}
	memory := make(chan error, 1)
	all := map[host.Unit][]sample{}
	go func() {
		err := b.watchMemory(watching, begun, all)
		stop(err)
		memory <- err
	}()
	kinds, every := b.soakKinds(), time.NewTicker(time.Second/soakRate)
	defer every.Stop()
	for time.Since(begun) < s.soak && watching.Err() == nil {
		took, err := b.soakTurn(watching, kinds[changed/3%len(kinds)], changed/3, every.C)
		if err != nil {
			return nil, err
		}
		times = append(times, took...)
		changed += len(took)
	}
	stop(nil)
	if err := <-memory; err != nil {
		return nil, err
	}
	var goals []goal
	for _, unit := range soakUnits {
		first, last, err := quarters(all[unit], s.soak)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", unit, err)
		}
		goals = append(goals, goal{fmt.Sprintf("memory of %s, last quarter of %s / first", unit, s.soak), last / first, "x", soakGrowth, false, fmt.Sprintf("%.1f MiB, %.1f MiB", last/(1<<20), first/(1<<20))})
	}
	return append(goals, goal{"   changes that were made", float64(changed), "", 0, true, fmt.Sprintf("median %s, 99 of 100 within %s; load %s", milliseconds(median(times)), milliseconds(p99(times)), loadAverage())}), nil
}

// soakTurn creates, changes and deletes a row at the pace of a ticker, and reads what the console reads after each change. It returns the durations of the changes.
func (b *scaleBench) soakTurn(ctx context.Context, k soakKind, i int, pace <-chan time.Time) (times []float64, err error) {
	at, id := k.at, ""
	if at == "" {
		at = k.home
	}
	for _, step := range []func() error{
		func() error {
			var row struct{ ID string }
			err := b.change(k.component, http.MethodPost, k.home, k.made(i), &row)
			id = row.ID
			return err
		},
		func() error { return b.change(k.component, http.MethodPut, at+"/"+id, k.change(i), nil) },
		func() error { return b.change(k.component, http.MethodDelete, at+"/"+id, nil, nil) },
	} {
		select {
		case <-pace:
		case <-ctx.Done():
			return times, context.Cause(ctx)
		}
		took, err := seconds(step)
		if err != nil {
			return times, fmt.Errorf("%s: %w", k.name, err)
		}
		times = append(times, took)
		for _, path := range []string{k.home, "/system/components", "/audit?limit=20"} {
			if res, body, err := b.api.do(http.MethodGet, path, nil); err != nil || res.StatusCode != http.StatusOK || !json.Valid(body) {
				return times, fmt.Errorf("GET %s: %.200s %w", path, body, err)
			}
		}
	}
	return times, nil
}

// sample is the memory of a process at a time since the beginning.
type sample struct {
	at     time.Duration
	memory float64
}

// watchMemory records the private memory of each program until the context ends. A restarted program is an error.
func (b *scaleBench) watchMemory(ctx context.Context, begun time.Time, all map[host.Unit][]sample) error {
	pids, inside := map[host.Unit]int{}, map[host.Unit]int{}
	every := time.NewTicker(soakEvery)
	defer every.Stop()
	for {
		for _, unit := range soakUnits {
			state, err := b.lab.Units().State(ctx, unit)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			if pids[unit] == 0 {
				inside[unit] = state.PID
				if pids[unit], err = b.outside(state.PID); err != nil {
					return err
				}
			}
			if inside[unit] != state.PID {
				return fmt.Errorf("%s was restarted", unit)
			}
			size, err := memory(pids[unit], "RssAnon:")
			if err != nil {
				return err
			}
			all[unit] = append(all[unit], sample{time.Since(begun), size})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

// quarters returns the means of the first and of the last quarter of the time that counts.
func quarters(list []sample, whole time.Duration) (first, last float64, err error) {
	begin := time.Duration(soakBegin * float64(whole))
	quarter := (whole - begin) / 4
	mean := func(from, to time.Duration) (sum float64) {
		n := 0
		for _, s := range list {
			if s.at >= from && s.at < to {
				sum += s.memory
				n++
			}
		}
		return sum / float64(n)
	}
	if len(list) == 0 || list[len(list)-1].at < whole-quarter/2 {
		return 0, 0, fmt.Errorf("%d samples are not enough", len(list))
	}
	return mean(begin, begin+quarter), mean(whole-quarter, whole), nil
}
