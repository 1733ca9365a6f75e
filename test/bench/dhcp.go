package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/machine"
)

const (
	// dhcpReservations is the number of reservations to which one more is added.
	dhcpReservations = 5000
	// dhcpInFlight is the number of concurrent changes.
	dhcpInFlight = 50
)

// dhcpBench is a lab whose Kea has many reservations.
type dhcpBench struct {
	*bench
	machine *machine.Machine
	subnet  string
}

// measureDHCP compares a reservation that becomes live with a bare reload of the file by Kea.
func measureDHCP(ctx context.Context, s settings) ([]goal, error) {
	n := dhcpReservations / s.shrink
	fmt.Println("one more DHCP reservation beside", n, "others; load", loadAverage())
	r, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer r.close()
	b := &dhcpBench{bench: r}
	if b.machine, err = machine.New(machine.Options{Root: r.lab.Path("/"), Units: r.lab.Units()}); err != nil {
		return nil, err
	}
	if err := b.fill(ctx, n); err != nil {
		return nil, err
	}
	made := 0
	add := func() error {
		made++
		return b.reserve(made)
	}
	bare := func() error { return kea.Ask(ctx, b.machine, kea.Reload, nil, nil) }
	for range 3 { // the first prepare their statements
		if err := errors.Join(add(), bare()); err != nil {
			return nil, err
		}
	}
	before, err := b.reloads()
	if err != nil {
		return nil, err
	}
	const rounds = 25
	times, err := inTurns(settings{rounds: rounds},
		func(time.Duration) (float64, error) { return seconds(add) },
		func(time.Duration) (float64, error) { return seconds(bare) })
	if err != nil {
		return nil, err
	}
	after, err := b.reloads()
	if err != nil {
		return nil, err
	}
	flight, err := b.inFlight(made)
	if err != nil {
		return nil, err
	}
	return []goal{
		{fmt.Sprintf("N3 DHCP reservation live / bare reload, %d there", n), times[0] / times[1], "x", 1.3, false, milliseconds(times...)},
		{"   reloads for each change, one after the other", float64(after-before-rounds) / rounds, "", 1, false, ""},
		{fmt.Sprintf("   reloads for %d changes in flight", dhcpInFlight), float64(flight), "", dhcpInFlight / 5, false, "one for those that wait while another is under way"},
	}, nil
}

// fill creates a subnet with its reservations, and turns the server on.
func (b *dhcpBench) fill(ctx context.Context, n int) error {
	var row struct{ ID string }
	body := map[string]any{"interface": "lan0", "cidr": "10.10.0.0/16", "range_start": "10.10.240.0", "range_end": "10.10.250.0"}
	if err := b.change("dhcp", http.MethodPost, "/dhcp/subnets", body, &row); err != nil {
		return err
	}
	b.subnet = row.ID
	if err := b.storeReservations(ctx, b.subnet, n); err != nil {
		return err
	}
	return b.change("dhcp", http.MethodPut, "/dhcp/settings", map[string]any{"enabled": true}, nil)
}

func (b *bench) storeReservations(ctx context.Context, subnet string, n int) error {
	_, err := b.pool.Exec(ctx, `
		INSERT INTO dhcp_reservations (id, created_at, updated_at, subnet_id, mac, ip, hostname)
		SELECT gen_random_uuid(), now(), now(), $1, '02:00:00:00:' || lpad(to_hex(i / 256), 2, '0') || ':' || lpad(to_hex(i % 256), 2, '0'),
			'10.10.' || 1 + i / 250 || '.' || i % 250, 'host-' || i
		FROM generate_series(0, $2 - 1) i`, subnet, n)
	return err
}

// reserve adds a reservation and waits until it is live.
func (b *dhcpBench) reserve(i int) error {
	return b.change("dhcp", http.MethodPost, "/dhcp/reservations", map[string]any{
		"subnet_id": b.subnet, "mac": fmt.Sprintf("02:00:00:01:%02x:%02x", i>>8, i&255), "ip": fmt.Sprintf("10.10.%d.%d", 200+i/250, i%250), "hostname": fmt.Sprintf("made-%d", i),
	}, nil)
}

// reloads is how often Kea has reread its file.
func (b *dhcpBench) reloads() (int, error) {
	log, err := os.ReadFile(b.lab.Log(kea.Unit))
	return bytes.Count(log, []byte("DHCPSRV_MEMFILE_DB ")), err
}

// inFlight makes changes concurrently, and returns how many reloads they caused.
func (b *dhcpBench) inFlight(made int) (int, error) {
	before, err := b.reloads()
	if err != nil {
		return 0, err
	}
	failures := make([]error, dhcpInFlight)
	var changes sync.WaitGroup
	for i := range dhcpInFlight {
		changes.Go(func() { failures[i] = b.reserve(made + 1 + i) })
	}
	changes.Wait()
	after, err := b.reloads()
	return after - before, errors.Join(append(failures, err)...)
}
