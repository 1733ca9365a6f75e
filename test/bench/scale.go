package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
)

const (
	// scaleStart is how long a gateway of any size may take until everything is live.
	scaleStart = 10 * time.Minute
	// scaleChanges is the number of changes of each kind.
	scaleChanges = 9
	// scaleFlat is what one change may cost with a hundred times as many rows around it.
	scaleFlat = 2
	// scaleLinear is what ten times as many rows may cost where all of them have to be read.
	scaleLinear = 10
)

// scaleSizes are how many rows of each kind there are.
var scaleSizes = []int{100, 1000, 10000}

// scaleKind is one of the kinds that grow together.
type scaleKind struct {
	name, list, component string
	// change is the body of a new row, or of a change of an existing one.
	change func(b *scaleBench, i int) (method, path string, body map[string]any)
}

var scaleKinds = []scaleKind{
	{"rule", "/firewall/rules", "packet-filter", func(_ *scaleBench, i int) (string, string, map[string]any) {
		return http.MethodPost, "/firewall/rules", map[string]any{"name": fmt.Sprint("one more ", i), "src_zone": "lan", "dst_zone": "wan", "dst_kind": "cidr", "dst_cidr": fmt.Sprintf("192.0.2.%d/32", i), "action": "drop"}
	}},
	{"address object", "/firewall/address-objects", "packet-filter", func(_ *scaleBench, i int) (string, string, map[string]any) {
		return http.MethodPut, "/firewall/address-objects/" + rowID("object", 0).String(), map[string]any{"value": fmt.Sprintf("203.0.113.%d", i)}
	}},
	{"domain", "/domains", "reverse-proxy", func(_ *scaleBench, i int) (string, string, map[string]any) {
		return http.MethodPost, "/domains", map[string]any{"name": fmt.Sprintf("more%d.example.org", i), "backend_id": rowID("backend", 0)}
	}},
	{"server", "/backends", "reverse-proxy", func(_ *scaleBench, i int) (string, string, map[string]any) {
		return http.MethodPut, "/backend-servers/" + rowID("server", 0).String(), map[string]any{"weight": 100 + i}
	}},
	{"record", "/dns/records", "dns", func(_ *scaleBench, i int) (string, string, map[string]any) {
		return http.MethodPost, "/dns/records", map[string]any{"zone_id": rowID("dns", 0), "name": fmt.Sprint("more", i), "type": "A", "value": "10.3.0.1"}
	}},
	{"reservation", "/dhcp/reservations", "dhcp", func(b *scaleBench, i int) (string, string, map[string]any) {
		return http.MethodPost, "/dhcp/reservations", map[string]any{"subnet_id": b.subnet, "mac": fmt.Sprintf("02:00:00:01:00:%02x", i), "ip": fmt.Sprintf("10.10.200.%d", i), "hostname": fmt.Sprint("more-", i)}
	}},
	{"peer", "/peers", "tunnel", func(b *scaleBench, i int) (string, string, map[string]any) {
		return http.MethodPost, "/tunnel/interfaces/" + b.tunnel.String() + "/peers", map[string]any{"name": fmt.Sprint("more ", i)}
	}},
	{"user", "/users", "", func(_ *scaleBench, i int) (string, string, map[string]any) {
		return http.MethodPut, "/users/" + rowID("user", 0).String(), map[string]any{"name": fmt.Sprint("Renamed ", i)}
	}},
}

// scaleBench is a lab with as many rows of every kind.
type scaleBench struct {
	*bench
	subnet string
	tunnel uuid.UUID
}

// scaleFigures are what was measured with one number of rows. The maps are by the name of a kind.
type scaleFigures struct {
	start, memory float64
	page, change  map[string]float64
}

// measureScale has all kinds grow together, and compares what a start, a list and one change cost.
func measureScale(ctx context.Context, s settings) ([]goal, error) {
	var all []scaleFigures
	for _, n := range scaleSizes {
		f, err := measureSize(ctx, s, n/s.shrink)
		if err != nil {
			return nil, fmt.Errorf("%d rows of each kind: %w", n/s.shrink, err)
		}
		all = append(all, f)
	}
	few, some, many := all[0], all[1], all[2]
	goals := []goal{
		{"cold start until all is live, 10,000 of each / 1,000", many.start / some.start, "x", scaleLinear, false, fmt.Sprintf("%.1f s, %.1f s; with 100 %.1f s", many.start, some.start, few.start)},
		{"memory of the API, 10,000 of each / 1,000", many.memory / some.memory, "x", scaleLinear, false, fmt.Sprintf("%.0f MiB, %.0f MiB; with 100 %.0f MiB", many.memory, some.memory, few.memory)},
	}
	for _, k := range scaleKinds {
		goals = append(goals,
			goal{"whole list of " + k.list + ", 10,000 / 1,000", many.page[k.name] / some.page[k.name], "x", scaleLinear, false, milliseconds(few.page[k.name], some.page[k.name], many.page[k.name])},
			goal{"one " + k.name + " live, 10,000 of each / 100", many.change[k.name] / few.change[k.name], "x", scaleFlat, false, milliseconds(few.change[k.name], some.change[k.name], many.change[k.name])})
	}
	return goals, nil
}

func measureSize(ctx context.Context, s settings, n int) (f scaleFigures, err error) {
	r, err := newBench(ctx, s)
	if err != nil {
		return f, err
	}
	defer r.close()
	r.api.http.Timeout = scaleStart
	b := &scaleBench{bench: r}
	fmt.Printf("a lab with %d rows of each of %d kinds; load %s\n", n, len(scaleKinds), loadAverage())
	if err := b.fill(ctx, n); err != nil {
		return f, err
	}
	if f.start, err = seconds(func() error { return b.coldStart(ctx) }); err != nil {
		return f, err
	}
	unit, err := b.lab.Units().State(ctx, host.API)
	if err != nil {
		return f, err
	}
	pid, err := b.outside(unit.PID)
	if err != nil {
		return f, err
	}
	f.page, f.change = map[string]float64{}, map[string]float64{}
	for _, k := range scaleKinds {
		var pages, changes []float64
		for i := range scaleChanges {
			took, err := seconds(func() error { return b.change("", http.MethodGet, k.list, nil, nil) })
			if err != nil {
				return f, err
			}
			pages = append(pages, took)
			method, path, body := k.change(b, i+1)
			if took, err = seconds(func() error { return b.change(k.component, method, path, body, nil) }); err != nil {
				return f, err
			}
			changes = append(changes, took)
		}
		f.page[k.name], f.change[k.name] = median(pages), median(changes)
		fmt.Printf("  %-16s list %s, one change %s\n", k.name, milliseconds(f.page[k.name]), milliseconds(f.change[k.name]))
	}
	f.memory, err = resident(pid)
	f.memory /= 1 << 20
	return f, err
}

// fill stores n rows of each kind, and turns on what serves them.
func (b *scaleBench) fill(ctx context.Context, n int) error {
	var subnet struct{ ID string }
	var tunnel struct{ ID uuid.UUID }
	body := map[string]any{"interface": "lan0", "cidr": "10.10.0.0/16", "range_start": "10.10.240.0", "range_end": "10.10.250.0"}
	if err := b.change("dhcp", http.MethodPost, "/dhcp/subnets", body, &subnet); err != nil {
		return err
	}
	if err := b.change("tunnel", http.MethodPost, "/tunnel/interfaces", map[string]any{"name": "gwscale0", "address_cidr": "10.88.0.1/16"}, &tunnel); err != nil {
		return err
	}
	if err := b.change("dhcp", http.MethodPut, "/dhcp/settings", map[string]any{"enabled": true}, nil); err != nil {
		return err
	}
	b.subnet, b.tunnel = subnet.ID, tunnel.ID
	for _, store := range []func() error{
		func() error { return b.storeRules(ctx, n) },
		func() error { return b.storeSites(ctx, sites{domains: n, backends: n}) },
		func() error { return b.storeRecords(ctx, rowID("dns", 0), rowID("dns", 1), n) },
		func() error { return b.storeReservations(ctx, b.subnet, n) },
		func() error { return b.storePeers(ctx, b.tunnel, n) },
	} {
		if err := store(); err != nil {
			return err
		}
	}
	for _, sql := range []string{
		`INSERT INTO firewall_address_objects (id, created_at, updated_at, name, kind, value, description, resolved)
			SELECT md5('object' || i)::uuid, now(), now(), 'object ' || i, 'host', '10.200.' || i / 250 || '.' || i % 250, '', '{}' FROM generate_series(0, $1::int - 1) i`,
		`INSERT INTO account_users (id, created_at, updated_at, email, name, role, active, password, totp_enabled, oidc_subject)
			SELECT md5('user' || i)::uuid, now(), now(), 'user' || i || '@example.net', 'User ' || i, 'viewer', true,
				'$2a$12$8Hn0rjLrWs0cqJcGkG3vXuR5pQ2mT7bZ1xY4wV9dF6sA3eKiOaNbC', false, '' FROM generate_series(0, $1::int - 1) i`,
	} {
		if _, err := b.pool.Exec(ctx, sql, n); err != nil {
			return err
		}
	}
	// One of the rules refers to an address object, so that a change of that object changes the packet filter.
	if _, err := b.pool.Exec(ctx, `UPDATE firewall_rules SET dst_kind = 'object', dst_cidr = '', dst_object_id = $1 WHERE priority = 10`, rowID("object", 0)); err != nil {
		return err
	}
	_, err := b.pool.Exec(ctx, `ANALYZE`)
	return err
}

// coldStart stops the gateway with its daemons, starts only its service, and waits until every component is live.
func (b *scaleBench) coldStart(ctx context.Context) error {
	u := b.lab.Units()
	for _, unit := range []host.Unit{host.API, haproxy.Unit, unbound.Unit, kea.Unit} {
		if err := u.Stop(ctx, unit); err != nil {
			return err
		}
	}
	if err := u.Start(ctx, host.API); err != nil {
		return err
	}
	var waits []string
	for begun := time.Now(); time.Since(begun) < scaleStart; time.Sleep(50 * time.Millisecond) {
		res, body, err := b.api.do(http.MethodGet, "/system/components", nil)
		if err != nil || res.StatusCode != http.StatusOK {
			continue // it is starting
		}
		var all struct {
			Data []struct{ Name, State, Error string }
		}
		if err := json.Unmarshal(body, &all); err != nil {
			return err
		}
		waits = waits[:0]
		for _, c := range all.Data {
			if c.State != "live" {
				waits = append(waits, fmt.Sprintf("%s is %s %s", c.Name, c.State, c.Error))
			}
		}
		if len(all.Data) > 0 && len(waits) == 0 {
			return nil
		}
	}
	slices.Sort(waits)
	return fmt.Errorf("after %s: %s", scaleStart, strings.Join(waits, "; "))
}
